//! The embedded worker: claims executions for the kinds it has handlers for, runs them, and reports.
//!
//! - [`Worker`] is how it is set up and started, [`Handle`] how it is stopped, [`Drained`] what it has done;
//! - `driver` is its one task: it claims, starts handlers, reports what ended and drains;
//! - `running` has the handlers at work, `leases` what they hold, `heartbeat` keeps that alive, `finished` reports it;
//! - [`Context`] is what a handler gets, [`Return`] and [`Failure`] what it gives back, `steps` what it does durably.

mod context;
mod driver;
mod finished;
mod handler;
mod heartbeat;
mod leases;
mod running;
mod steps;

pub use context::Context;
pub use handler::{Failure, IntoReturn, Return};
pub use steps::{
    All, Approval, ApprovalCall, Heard, NewWaitpoint, Race, Received, Until, Verdict, Vote, Wait,
    WaitForSignal, Waited, Waitpoint,
};

use crate::submission::millis;
use crate::{Error, Namespace, Refusal};
use driver::Driver;
use handler::Handler;
use selvedge_core::rules::claim::{CLAIM_MAX, ClaimDraft};
use std::collections::HashMap;
use std::future::Future;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use uuid::Uuid;

/// A worker in this process.
///
/// It claims up to as many executions as it has free slots, reports what ended and claims what comes next in one round
/// trip, and renews its leases while handlers run. A handler whose lease was taken away is dropped where it awaits, and
/// nothing it did is reported; one that panics has failed. Reports are repeated while the store is away, which the fence
/// of the lease makes safe.
///
/// ```
/// use selvedge::{Context, Engine, Failure, Submission, Worker};
/// use std::time::Duration;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), selvedge::Error> {
/// # let engine = Engine::open("memory:").await?;
/// # let namespace = engine.namespace("default").await?;
/// let worker = Worker::new(namespace.clone(), "calculator")
///     .lane("sums")
///     .concurrency(4)
///     .handler("add", |ctx: Context| async move {
///         let (a, b): (i64, i64) = ctx.input()?;
///         a.checked_add(b).ok_or(Failure::permanent("the sum is too large"))
///     })
///     .start()?;
///
/// let sum = Submission::new("add").lane("sums").input(&(1, 2))?.submit(&namespace).await?;
/// namespace.result(sum.execution.id, Duration::from_secs(10)).await?;
/// assert_eq!(worker.drain().await.completed, 1);
/// # engine.shutdown().await;
/// # Ok(())
/// # }
/// ```
pub struct Worker {
    namespace: Namespace,
    settings: Settings,
    handlers: HashMap<String, Handler>,
}

/// How a worker runs.
#[derive(Clone, Debug)]
struct Settings {
    name: String,
    instance: String,
    lanes: Vec<String>,
    capabilities: Vec<String>,
    concurrency: usize,
    lease_ttl: Duration,
    grace: Duration,
}

impl Worker {
    /// A worker of this name. Its instance is the name and a new UUID, so that no two processes share one.
    pub fn new(namespace: Namespace, name: impl Into<String>) -> Self {
        let name = name.into();
        let settings = Settings {
            instance: format!("{name}-{}", Uuid::new_v4()),
            name,
            lanes: Vec::new(),
            capabilities: Vec::new(),
            concurrency: 10,
            lease_ttl: Duration::from_secs(30),
            grace: Duration::from_secs(10),
        };
        Worker { namespace, settings, handlers: HashMap::new() }
    }

    /// One more lane it claims from; `default` if none is named.
    pub fn lane(mut self, lane: impl Into<String>) -> Self {
        self.settings.lanes.push(lane.into());
        self
    }

    /// One more thing it is capable of; nothing.
    pub fn capability(mut self, capability: impl Into<String>) -> Self {
        self.settings.capabilities.push(capability.into());
        self
    }

    /// How many handlers run at once; 10.
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.settings.concurrency = concurrency;
        self
    }

    /// The time to live of its leases, from 500 ms to an hour; 30 s. How long the work of a crashed process stays away.
    pub fn lease_ttl(mut self, lease_ttl: Duration) -> Self {
        self.settings.lease_ttl = lease_ttl;
        self
    }

    /// How long handlers may go on when the worker drains; 10 s. What runs longer is handed back without charge.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.settings.grace = grace;
        self
    }

    /// The handler of a kind. It returns a value that is the result, as JSON, or a [`Return`]; or it fails with a
    /// [`Failure`], which every error turns into by itself.
    pub fn handler<F, Fut, T>(mut self, kind: impl Into<String>, handler: F) -> Self
    where
        F: Fn(Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, Failure>> + Send + 'static,
        T: IntoReturn,
    {
        self.handlers.insert(kind.into(), handler::erase(handler));
        self
    }

    /// The name of this worker's instance, by which operators know it.
    pub fn instance(&self) -> &str {
        &self.settings.instance
    }

    /// Runs until `shutdown` resolves, an operator asks it to drain, or the engine shuts down; then drains.
    ///
    /// It is refused at once if a name or a number in its settings is wrong. Dropping the future drops the handlers:
    /// their leases lapse.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) -> Result<Drained, Error> {
        Ok(self.driver()?.run(shutdown).await)
    }

    /// Runs in a task of its own until its handle is asked to drain or dropped.
    pub fn start(self) -> Result<Handle, Error> {
        let instance = self.settings.instance.clone();
        let driver = self.driver()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(driver.run(async move {
            // A handle that was dropped means the same as one that asked.
            let _ = stopped.await;
        }));
        Ok(Handle { instance, stop, task })
    }

    fn driver(mut self) -> Result<Driver, Error> {
        if self.settings.lanes.is_empty() {
            self.settings.lanes.push("default".into());
        }
        if self.handlers.is_empty() {
            let detail = "is empty; give the worker a handler for each kind it should run";
            return Err(Refusal::field("/kinds", detail).into());
        }
        let mut kinds: Vec<String> = self.handlers.keys().cloned().collect();
        kinds.sort_unstable();
        let claim = self.settings.claim(kinds);
        claim.clone().check(self.namespace.id(), None)?;
        Ok(Driver::new(self.namespace, self.settings, claim, self.handlers))
    }
}

impl Settings {
    /// A claim for all slots.
    fn claim(&self, kinds: Vec<String>) -> ClaimDraft {
        ClaimDraft {
            worker: self.name.clone(),
            instance: self.instance.clone(),
            lanes: self.lanes.clone(),
            kinds: Some(kinds),
            capabilities: self.capabilities.clone(),
            max: self.concurrency.min(CLAIM_MAX as usize) as u32,
            lease_ttl_ms: millis(self.lease_ttl),
        }
    }
}

/// A worker that runs in a task of its own. Dropping the handle lets it drain by itself.
#[derive(Debug)]
pub struct Handle {
    instance: String,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Drained>,
}

impl Handle {
    /// The name of this worker's instance, by which operators know it.
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// Stops claiming, lets handlers end within the grace period, hands back the rest, and says what became of it all.
    pub async fn drain(self) -> Drained {
        // It may have ended by itself.
        let _ = self.stop.send(());
        ended(self.task).await
    }

    /// Waits until the worker ends by itself: an operator asked it to drain, or the engine shut down.
    pub async fn ended(self) -> Drained {
        let Handle { stop, task, .. } = self;
        let drained = ended(task).await;
        drop(stop);
        drained
    }
}

/// The task of a worker ends by returning: handlers panic in tasks of their own.
async fn ended(task: JoinHandle<Drained>) -> Drained {
    task.await.unwrap_or_else(|error| {
        tracing::error!(%error, "a worker's task did not end by itself; its leases lapse");
        Drained::default()
    })
}

/// What a worker has done, from its start to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Attempts that completed.
    pub completed: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Attempts that were put back without charge: by their handlers, or because they did not end within the grace
    /// period.
    pub released: u64,
    /// Attempts that were suspended: their executions wait for something.
    pub suspended: u64,
    /// Attempts whose end was not accepted from this worker: the lease was taken away, or the store stayed away too long.
    pub aborted: u64,
}
