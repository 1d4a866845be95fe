//! The handlers at work, each in a task of its own.

use super::context::Context;
use super::finished::Ending;
use super::handler::{Failure, Handler, op};
use super::leases::Leases;
use super::steps::{self, Given};
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

/// How long handlers that are dropped may take to be gone.
const DROPPED_WITHIN: Duration = Duration::from_secs(1);

/// How the task of a handler ended.
pub type Ended = Result<(Id, Given), JoinError>;

/// The handlers of a worker and what they work on.
pub struct Running {
    /// The tasks of the handlers; one that was dropped stays until it is gone.
    pub tasks: JoinSet<Given>,
    /// The leases of this worker.
    pub leases: Leases,
    namespace: Namespace,
    handlers: HashMap<String, Handler>,
    fences: HashMap<Id, Fence>,
    classes: HashMap<ClassId, (Name, Name)>,
}

impl Running {
    /// Nothing runs yet.
    pub fn new(namespace: Namespace, handlers: HashMap<String, Handler>) -> Self {
        Running {
            tasks: JoinSet::new(),
            leases: Leases::default(),
            namespace,
            handlers,
            fences: HashMap::new(),
            classes: HashMap::new(),
        }
    }

    /// Whether no handler runs whose end is of interest.
    pub fn is_idle(&self) -> bool {
        self.fences.is_empty()
    }

    /// Starts the handler of what was claimed; gives what to hand back where that is not possible.
    pub async fn start(&mut self, claimed: Claimed) -> Option<Ending> {
        let Some(fence) = Fence::of(&claimed.execution) else {
            tracing::error!(execution = %claimed.execution.id, "a claim gave an execution without a lease");
            return None;
        };
        let names = match self.names(&claimed).await {
            Ok(names) => names,
            Err(error) => {
                tracing::warn!(execution = %fence.execution, %error, "a claimed execution's kind cannot be read");
                return Some(Ending::new(fence, Op::Release));
            }
        };
        let Some(handler) = self.handlers.get(names.0.as_str()).cloned() else {
            tracing::error!(execution = %fence.execution, kind = %names.0, "a claim gave a kind without a handler");
            return Some(Ending::new(fence, Op::Release));
        };
        let (cancel, asked) = watch::channel(false);
        let context = Context::new(self.namespace.clone(), fence, claimed, names, asked);
        let ledger = context.ledger().clone();
        // The handler is called inside its task, so that a panic of the call itself is caught there too.
        let task = self.tasks.spawn(steps::run(async move { handler(context).await }, ledger));
        self.fences.insert(task.id(), fence);
        self.leases.run(fence, task, cancel);
        None
    }

    /// Kind and lane of a claimed execution; the engine knows every class that it gives out.
    async fn names(&mut self, claimed: &Claimed) -> Result<(Name, Name), Error> {
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

    /// A handler has ended, and perhaps others at the same time: gives what to report of them.
    pub fn ended(&mut self, first: Ended) -> Vec<Ending> {
        let mut endings = Vec::new();
        let mut next = Some(first);
        while let Some(ended) = next {
            let (id, op) = match ended {
                Ok((id, Given::Returned(given))) => (id, op(given)),
                Ok((id, Given::Suspended(waits))) => (id, self.namespace.suspend(waits, Vec::new())),
                Err(error) => (error.id(), op_of(error)),
            };
            // One whose lease was lost is not reported.
            if let Some(fence) = self.fences.remove(&id) {
                self.leases.end(&fence);
                endings.push(Ending::new(fence, op));
            }
            next = self.tasks.try_join_next_with_id();
        }
        endings
    }

    /// A lease is over. Drops its handler if that still runs, and says whether it did.
    pub fn lose(&mut self, fence: &Fence) -> bool {
        let ran = self.leases.lose(fence);
        if ran {
            self.fences.retain(|_, running| running != fence);
        }
        ran
    }

    /// Drops every handler; gives what to hand back, and what had ended in the last moment.
    pub async fn drop_all(&mut self) -> Vec<Ending> {
        self.tasks.abort_all();
        let mut endings = Vec::new();
        let dropped = async {
            while let Some(ended) = self.tasks.join_next_with_id().await {
                let ended = self.ended(ended);
                endings.extend(ended);
            }
        };
        if timeout(DROPPED_WITHIN, dropped).await.is_err() {
            tracing::warn!("a handler does not await: it goes on although its lease is handed back");
        }
        for (_, fence) in std::mem::take(&mut self.fences) {
            self.leases.end(&fence);
            endings.push(Ending::new(fence, Op::Release));
        }
        endings
    }
}

/// What to report for a handler that did not return: a panic is a failure, one that was dropped is handed back.
fn op_of(error: JoinError) -> Op {
    match error.try_into_panic() {
        Ok(panic) => {
            let text = panic.downcast_ref::<&str>().copied();
            let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
            let message = format!("the handler panicked: {}", text.unwrap_or("without a message"));
            Failure::transient(message).into()
        }
        Err(_dropped) => Op::Release,
    }
}
