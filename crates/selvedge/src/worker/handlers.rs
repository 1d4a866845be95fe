//! The running handlers of a worker, each in a task of its own.

use super::context::Context;
use super::handler::{BatchFn, Failure, Handler, Return, op};
use super::leases::Leases;
use super::link::Link;
use super::protocol::{Claim, Op};
use super::report::FinishedAttempt;
use super::steps::{self, HandlerEnd};
use crate::Namespace;
use selvedge_core::rules::report::Fence;
use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
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
    /// The attempt of each task that is to be reported.
    reported: HashMap<Id, ReportedAttempt>,
}

/// An attempt whose end is to be reported.
struct ReportedAttempt {
    fence: Fence,
    kind: String,
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
            reported: HashMap::new(),
        }
    }

    /// Returns true if no handler runs whose end is to be reported.
    pub fn is_idle(&self) -> bool {
        self.reported.is_empty()
    }

    /// Starts the handlers of claimed executions. Returns the releases of those that cannot be started.
    pub fn start(&mut self, claims: Vec<Claim>) -> Vec<FinishedAttempt> {
        let mut refused = Vec::new();
        let mut batches: HashMap<String, Vec<Claim>> = HashMap::new();
        for claim in claims {
            match self.handlers.get(&claim.kind).cloned() {
                Some(Handler::One(handler)) => {
                    self.start_one(claim, |context| async move { handler(context).await });
                }
                Some(Handler::Batch(..)) => batches.entry(claim.kind.clone()).or_default().push(claim),
                None => {
                    let (execution, kind) = (claim.fence.execution, &claim.kind);
                    tracing::error!(%execution, kind, "a claimed execution has a kind without a handler");
                    refused.push(FinishedAttempt::new(claim.fence, Op::Release));
                }
            }
        }
        for (kind, mut claims) in batches {
            let Some(Handler::Batch(max, handler)) = self.handlers.get(&kind).cloned() else { continue };
            while !claims.is_empty() {
                let rest = claims.split_off(claims.len().min(max));
                self.start_batch(claims, handler.clone());
                claims = rest;
            }
        }
        refused
    }

    /// Starts the task of one claim, and returns its context.
    fn start_one<Fut>(&mut self, claim: Claim, run: impl FnOnce(Context) -> Fut + Send + 'static) -> Context
    where
        Fut: Future<Output = Result<Return, Failure>> + Send + 'static,
    {
        let (fence, kind) = (claim.fence, claim.kind.clone());
        let (cancel, cancel_requested) = watch::channel(false);
        let context = Context::new(self.namespace.clone(), self.link.clone(), claim, cancel_requested);
        let (tracker, running) = (context.tracker().clone(), context.clone());
        // The handler is called inside its task, so that a panic of the call itself is caught there too.
        let task = self.tasks.spawn(steps::run(async move { run(running).await }, tracker));
        self.reported.insert(task.id(), ReportedAttempt { fence, kind });
        self.leases.insert(fence, task, cancel);
        context
    }

    /// Starts one call of a batch handler. Each claim has a task that waits for its answer, so that it is reported, lost or
    /// aborted alone. The call is aborted when no task waits for it any more.
    fn start_batch(&mut self, claims: Vec<Claim>, handler: BatchFn) {
        let (call, started) = watch::channel::<Option<AbortHandle>>(None);
        let guard = Arc::new(AbortCall(started));
        let mut answers = Vec::with_capacity(claims.len());
        let mut contexts = Vec::with_capacity(claims.len());
        for claim in claims {
            let (answer, answered) = oneshot::channel();
            let guard = guard.clone();
            answers.push(answer);
            contexts.push(self.start_one(claim, move |_| async move {
                let _guard = guard;
                answered.await.unwrap_or_else(|_| Err(Failure::transient("the batch handler panicked")))
            }));
        }
        let count = contexts.len();
        let task = tokio::spawn(async move {
            let mut results = handler(contexts).await.into_iter();
            for answer in answers {
                let missing = || {
                    Err(Failure::permanent(format!(
                        "the batch handler answered fewer than its {count} executions"
                    )))
                };
                // A task that lost its lease does not wait for its answer any more.
                let _ = answer.send(results.next().unwrap_or_else(missing));
            }
        });
        call.send_replace(Some(task.abort_handle()));
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
            // A handler that lost its lease has no entry here and is not reported.
            if let Some(ReportedAttempt { fence, kind }) = self.reported.remove(&id) {
                log_failure(&fence, &kind, &op);
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
            self.reported.retain(|_, running| running.fence != *fence);
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
        for (_, ReportedAttempt { fence, .. }) in std::mem::take(&mut self.reported) {
            self.leases.end(&fence);
            attempts.push(FinishedAttempt::new(fence, Op::Release));
        }
        attempts
    }
}

/// Aborts the call of a batch handler when it is dropped. A call that has ended is not affected.
struct AbortCall(watch::Receiver<Option<AbortHandle>>);

impl Drop for AbortCall {
    fn drop(&mut self) {
        if let Some(call) = &*self.0.borrow() {
            call.abort();
        }
    }
}

/// Logs the failure of an attempt, so that it is found where the handler ran.
fn log_failure(fence: &Fence, kind: &str, op: &Op) {
    if let Op::Fail { message, class, .. } = op {
        let (execution, attempt, class) = (fence.execution, fence.attempt, class.as_str());
        tracing::warn!(%execution, attempt, kind, class, "the attempt failed: {message}");
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
