//! The running handlers of a worker, each in a task of its own.

use super::context::Context;
use super::handler::{Failure, Handler, op};
use super::leases::Leases;
use super::report::FinishedAttempt;
use super::link::Link;
use super::protocol::{Claim, Op};
use super::steps::{self, HandlerEnd};
use crate::Namespace;
use selvedge_core::rules::report::Fence;
use std::collections::HashMap;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::timeout;

/// Longest time to wait until aborted handlers are dropped.
const ABORT_TIMEOUT: Duration = Duration::from_secs(1);

/// The end of a handler's task.
pub type TaskEnd = Result<(Id, HandlerEnd), JoinError>;

/// The running handlers of a worker and their leases.
pub struct RunningHandlers {
    /// The tasks of the handlers. An aborted handler keeps its task until it is dropped.
    pub tasks: JoinSet<HandlerEnd>,
    /// The leases of the worker.
    pub leases: Leases,
    namespace: Namespace,
    link: Link,
    handlers: HashMap<String, Handler>,
    /// The fence of each task that is to be reported.
    fences: HashMap<Id, Fence>,
}

impl RunningHandlers {
    /// Creates an empty set for these handlers, by kind.
    pub fn new(namespace: Namespace, link: Link, handlers: HashMap<String, Handler>) -> Self {
        RunningHandlers {
            tasks: JoinSet::new(),
            leases: Leases::default(),
            namespace,
            link,
            handlers,
            fences: HashMap::new(),
        }
    }

    /// Returns true if no handler runs whose end is to be reported.
    pub fn is_idle(&self) -> bool {
        self.fences.is_empty()
    }

    /// Starts the handlers of claimed executions. Returns the releases of those that cannot be started.
    pub fn start(&mut self, claims: Vec<Claim>) -> Vec<FinishedAttempt> {
        claims.into_iter().filter_map(|claim| self.start_one(claim)).collect()
    }

    fn start_one(&mut self, claim: Claim) -> Option<FinishedAttempt> {
        let fence = claim.fence;
        let Some(handler) = self.handlers.get(&claim.kind).cloned() else {
            tracing::error!(execution = %fence.execution, kind = claim.kind, "a claimed execution has a kind without a handler");
            return Some(FinishedAttempt::new(fence, Op::Release));
        };
        let (cancel, cancel_requested) = watch::channel(false);
        let context = Context::new(self.namespace.clone(), self.link.clone(), claim, cancel_requested);
        let tracker = context.tracker().clone();
        // The handler is called inside its task, so that a panic of the call itself is caught there too.
        let task = self.tasks.spawn(steps::run(async move { handler(context).await }, tracker));
        self.fences.insert(task.id(), fence);
        self.leases.insert(fence, task, cancel);
        None
    }

    /// Processes the end of a handler, and of all others that have ended by now. Returns the attempts to report.
    pub fn ended(&mut self, first: TaskEnd) -> Vec<FinishedAttempt> {
        let mut attempts = Vec::new();
        let mut next = Some(first);
        while let Some(ended) = next {
            let (id, op) = match ended {
                Ok((id, HandlerEnd::Returned(returned))) => (id, op(returned)),
                Ok((id, HandlerEnd::Suspended(waits))) => (id, Op::Suspend { waits }),
                Err(error) => (error.id(), op_of_error(error)),
            };
            // A handler that lost its lease has no fence here and is not reported.
            if let Some(fence) = self.fences.remove(&id) {
                self.leases.end(&fence);
                attempts.push(FinishedAttempt::new(fence, op));
            }
            next = self.tasks.try_join_next_with_id();
        }
        attempts
    }

    /// Processes the loss of a lease. Aborts its handler if it still runs, and returns true if it did.
    pub fn lose(&mut self, fence: &Fence) -> bool {
        let was_running = self.leases.lose(fence);
        if was_running {
            self.fences.retain(|_, running| running != fence);
        }
        was_running
    }

    /// Aborts every handler. Returns the attempts to report: releases, and those that ended at the last moment.
    pub async fn abort_all(&mut self) -> Vec<FinishedAttempt> {
        self.tasks.abort_all();
        let mut attempts = Vec::new();
        let dropped = async {
            while let Some(ended) = self.tasks.join_next_with_id().await {
                let ended = self.ended(ended);
                attempts.extend(ended);
            }
        };
        if timeout(ABORT_TIMEOUT, dropped).await.is_err() {
            tracing::warn!(
                "a handler does not reach an await point; it keeps running although its lease is released"
            );
        }
        for (_, fence) in std::mem::take(&mut self.fences) {
            self.leases.end(&fence);
            attempts.push(FinishedAttempt::new(fence, Op::Release));
        }
        attempts
    }
}

/// Returns the operation to report for a handler that did not return: a failure after a panic, a release after an
/// abort.
fn op_of_error(error: JoinError) -> Op {
    match error.try_into_panic() {
        Ok(panic) => {
            let text = panic.downcast_ref::<&str>().copied();
            let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
            let message = format!("the handler panicked: {}", text.unwrap_or("without a message"));
            Failure::transient(message).into()
        }
        Err(_aborted) => Op::Release,
    }
}
