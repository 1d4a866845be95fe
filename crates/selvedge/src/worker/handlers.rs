//! The running handlers of a worker, each in a task of its own.

use super::context::Context;
use super::handler::{Failure, Handler, op};
use super::leases::Leases;
use super::report::FinishedAttempt;
use super::steps::{self, HandlerEnd};
use crate::{Error, Name, Namespace};
use selvedge_core::ClassId;
use selvedge_core::rules::claim::Claimed;
use selvedge_core::rules::report::{Fence, Op};
use selvedge_store::Stored;
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
    handlers: HashMap<String, Handler>,
    /// The fence of each task that is to be reported.
    fences: HashMap<Id, Fence>,
    /// A cache of the kind and lane of each class.
    classes: HashMap<ClassId, (Name, Name)>,
}

impl RunningHandlers {
    /// Creates an empty set for these handlers, by kind.
    pub fn new(namespace: Namespace, handlers: HashMap<String, Handler>) -> Self {
        RunningHandlers {
            tasks: JoinSet::new(),
            leases: Leases::default(),
            namespace,
            handlers,
            fences: HashMap::new(),
            classes: HashMap::new(),
        }
    }

    /// Returns true if no handler runs whose end is to be reported.
    pub fn is_idle(&self) -> bool {
        self.fences.is_empty()
    }

    /// Starts the handler of a claimed execution. If that is not possible, returns the release to report.
    pub async fn start(&mut self, claimed: Claimed) -> Option<FinishedAttempt> {
        let Some(fence) = Fence::of(&claimed.execution) else {
            tracing::error!(execution = %claimed.execution.id, "a claimed execution has no lease");
            return None;
        };
        let (kind, lane) = match self.kind_and_lane(&claimed).await {
            Ok(names) => names,
            Err(error) => {
                tracing::warn!(execution = %fence.execution, %error, "the kind of a claimed execution cannot be read");
                return Some(FinishedAttempt::new(fence, Op::Release));
            }
        };
        let Some(handler) = self.handlers.get(kind.as_str()).cloned() else {
            tracing::error!(execution = %fence.execution, %kind, "a claimed execution has a kind without a handler");
            return Some(FinishedAttempt::new(fence, Op::Release));
        };
        let (cancel, cancel_requested) = watch::channel(false);
        let context = Context::new(self.namespace.clone(), fence, claimed, (kind, lane), cancel_requested);
        let tracker = context.tracker().clone();
        // The handler is called inside its task, so that a panic of the call itself is caught there too.
        let task = self.tasks.spawn(steps::run(async move { handler(context).await }, tracker));
        self.fences.insert(task.id(), fence);
        self.leases.insert(fence, task, cancel);
        None
    }

    /// Returns the kind and lane of a claimed execution, from the cache if possible.
    async fn kind_and_lane(&mut self, claimed: &Claimed) -> Result<(Name, Name), Error> {
        let class = claimed.execution.class;
        if let Some(names) = self.classes.get(&class) {
            return Ok(names.clone());
        }
        let stored = Stored {
            execution: claimed.execution.clone(),
            input: claimed.input.clone(),
            result: None,
            renewed_at: None,
        };
        let view = self.namespace.view(stored).await?;
        let names = (view.class.kind, view.class.lane);
        self.classes.insert(class, names.clone());
        Ok(names)
    }

    /// Processes the end of a handler, and of all others that have ended by now. Returns the attempts to report.
    pub fn ended(&mut self, first: TaskEnd) -> Vec<FinishedAttempt> {
        let mut attempts = Vec::new();
        let mut next = Some(first);
        while let Some(ended) = next {
            let (id, op) = match ended {
                Ok((id, HandlerEnd::Returned(returned))) => (id, op(returned)),
                Ok((id, HandlerEnd::Suspended(waits))) => (id, self.namespace.suspend(waits, Vec::new())),
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
