//! The worker: claims executions of the kinds it has handlers for, runs the handlers, and reports how they
//! ended.
//!
//! - [`Worker`] configures and starts a worker, [`Handle`] stops it, [`WorkerSummary`] counts its attempts;
//! - `driver` is the worker's only task: it claims, starts handlers, reports finished attempts and drains;
//! - `link` is its way to the engine, by direct calls or over HTTP; `protocol` has the types of both;
//! - `handlers` owns the running handlers, `leases` their leases; `heartbeat` renews leases, `report` reports attempts;
//! - [`Context`] is the argument of a handler, [`Return`] and [`Failure`] are its results, `steps` its durable
//!   operations.

mod cancellation;
mod context;
mod driver;
mod handler;
mod handlers;
mod heartbeat;
mod leases;
mod link;
pub(crate) mod protocol;
mod report;
mod steps;
mod task;

pub use cancellation::CancellationToken;
pub use context::Context;
pub use handler::{Failure, IntoReturn, Return};
pub use steps::{
    All, Approval, ApprovalRequest, NewWaitpoint, Race, ReceivedSignal, SignalWaitResult, Until, Verdict,
    Vote, Wait, WaitForSignal, WaitResult, Waitpoint,
};
pub use task::{Next, Task};

use crate::submission::millis;
use crate::{Error, Namespace};
use driver::Driver;
use handler::Handler;
use selvedge_core::NamespaceId;
use selvedge_core::rules::claim::{CLAIM_MAX, ClaimDraft};
use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use uuid::Uuid;

/// A worker in this process.
///
/// It claims as many executions as it has free slots, reports finished attempts and claims the next executions in one
/// round trip, and renews its leases while handlers run. A handler that loses its lease is dropped at its await point,
/// and nothing is reported for it. A handler that panics has failed. Reports are retried while the store is
/// unavailable, which is safe because of the fence of the lease.
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
    layers: Vec<task::Layer>,
}

/// The configuration of a worker. [`Worker`]'s builder methods document each setting.
#[derive(Clone, Debug)]
struct Settings {
    name: String,
    instance: String,
    incarnation: String,
    lanes: Vec<String>,
    capabilities: Vec<String>,
    concurrency: usize,
    lease_ttl: Duration,
    grace: Duration,
}

impl Worker {
    /// Creates a worker of this name. Its instance is the name and a new UUID, so it is unique to this worker.
    pub fn new(namespace: Namespace, name: impl Into<String>) -> Self {
        let name = name.into();
        let settings = Settings {
            instance: format!("{name}-{}", Uuid::new_v4()),
            incarnation: Uuid::new_v4().to_string(),
            name,
            lanes: Vec::new(),
            capabilities: Vec::new(),
            concurrency: 10,
            lease_ttl: Duration::from_secs(30),
            grace: Duration::from_secs(10),
        };
        Worker { namespace, settings, handlers: HashMap::new(), layers: Vec::new() }
    }

    /// Adds a lane to claim from. Default: the lane `default` only.
    pub fn lane(mut self, lane: impl Into<String>) -> Self {
        self.settings.lanes.push(lane.into());
        self
    }

    /// Adds a capability that the worker offers. Default: none.
    pub fn capability(mut self, capability: impl Into<String>) -> Self {
        self.settings.capabilities.push(capability.into());
        self
    }

    /// Sets how many handlers may run at once. Default: 10.
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.settings.concurrency = concurrency;
        self
    }

    /// Sets the time to live of the worker's leases, from 500 milliseconds to one hour. Default: 30 seconds. After a
    /// crash of the process its executions are claimable again once their leases have expired.
    pub fn lease_ttl(mut self, lease_ttl: Duration) -> Self {
        self.settings.lease_ttl = lease_ttl;
        self
    }

    /// Sets how long running handlers may continue when the worker drains. Default: 10 seconds. A handler that runs
    /// longer is dropped and its execution put back, without a charged retry.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.settings.grace = grace;
        self
    }

    /// Sets the handler of a kind. The handler returns the result, any value that serialises to JSON, or a [`Return`];
    /// or it fails with a [`Failure`], into which `?` converts every error. At least one handler is required.
    pub fn handler<F, Fut, T>(mut self, kind: impl Into<String>, handler: F) -> Self
    where
        F: Fn(Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, Failure>> + Send + 'static,
        T: IntoReturn,
    {
        self.handlers.insert(kind.into(), Handler::One(handler::erase(handler)));
        self
    }

    /// Sets the handler of a kind to a [`Task`].
    pub fn task<T: Task>(self, task: T) -> Self {
        let task = Arc::new(task);
        self.handler(T::KIND, move |ctx: Context| {
            let task = task.clone();
            async move {
                let input = ctx.input()?;
                task.run(ctx, input).await
            }
        })
    }

    /// Sets a batch handler of a kind: it gets up to `max` executions that were claimed together, and answers each alone, in
    /// their order. Executions without an answer fail permanently. Suited to calls that are cheaper together, such as
    /// embeddings; steps and waits belong in an ordinary handler. [Layers](Worker::layer) do not apply.
    ///
    /// ```
    /// # use selvedge::{Context, Engine, Failure, Submission, Worker};
    /// # use std::time::Duration;
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), selvedge::Error> {
    /// # let engine = Engine::open("memory:").await?;
    /// # let namespace = engine.namespace("default").await?;
    /// let worker = Worker::new(namespace.clone(), "embedder")
    ///     .batch("embed", 16, |batch: Vec<Context>| async move {
    ///         batch.iter().map(|ctx| ctx.input::<String>().map(|text| text.len())).collect()
    ///     })
    ///     .start()?;
    /// let id = Submission::new("embed").input("four")?.submit(&namespace).await?.execution.id;
    /// let ended = namespace.result(id, Duration::from_secs(10)).await?.expect("the execution ends");
    /// assert_eq!(ended.json::<usize>()?, 4);
    /// # worker.drain().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn batch<F, Fut, T>(mut self, kind: impl Into<String>, max: usize, handler: F) -> Self
    where
        F: Fn(Vec<Context>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Vec<Result<T, Failure>>> + Send + 'static,
        T: IntoReturn,
    {
        self.handlers.insert(kind.into(), handler::erase_batch(max, handler));
        self
    }

    /// Adds a layer around every handler, for traces, metrics or a shared check. The layer that was added first is the
    /// outermost. A layer sees every attempt; one that is suspended is dropped at its await point.
    ///
    /// ```
    /// # use selvedge::{Context, Failure, Namespace, Next, Worker};
    /// # fn worker(namespace: Namespace) -> Worker {
    /// Worker::new(namespace, "timed").layer(|ctx: Context, next: Next| async move {
    ///     let (kind, began) = (ctx.kind().to_owned(), std::time::Instant::now());
    ///     let result = next.run(ctx).await;
    ///     println!("{kind}: {:?}, {}", began.elapsed(), if result.is_ok() { "ok" } else { "failed" });
    ///     result
    /// })
    /// # }
    /// ```
    pub fn layer<F, Fut>(mut self, layer: F) -> Self
    where
        F: Fn(Context, Next) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Return, Failure>> + Send + 'static,
    {
        self.layers.push(task::erase_layer(layer));
        self
    }

    /// Sets the name of this worker's instance, for a process that keeps its name over restarts, such as a pod of a stateful
    /// set. Default: a name of its own for each worker. A worker that starts with the instance of another takes its
    /// executions over at once, and the other stops.
    pub fn with_instance(mut self, instance: impl Into<String>) -> Self {
        self.settings.instance = instance.into();
        self
    }

    /// Returns the name of this worker's instance, under which operators see the worker.
    pub fn instance(&self) -> &str {
        &self.settings.instance
    }

    /// Runs the worker until `shutdown` resolves, an operator asks the worker to drain, or the engine shuts down; then
    /// drains.
    ///
    /// Fails at once if a setting is invalid. Dropping the future drops the handlers, and their leases expire.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) -> Result<WorkerSummary, Error> {
        Ok(self.driver()?.run(shutdown).await)
    }

    /// Runs the worker in a task of its own until its handle is drained or dropped. Fails at once if a setting is
    /// invalid.
    pub fn start(self) -> Result<Handle, Error> {
        let instance = self.settings.instance.clone();
        let driver = self.driver()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(driver.run(async move {
            // Resolves when the handle is drained, and also when it is dropped.
            let _ = stopped.await;
        }));
        Ok(Handle { instance, stop, task })
    }

    fn driver(mut self) -> Result<Driver, Error> {
        if self.settings.lanes.is_empty() {
            self.settings.lanes.push("default".into());
        }
        if self.handlers.is_empty() {
            let detail = "is empty; add a handler for each kind that the worker should run";
            return Err(Error::field("/kinds", detail));
        }
        let mut kinds: Vec<String> = self.handlers.keys().cloned().collect();
        kinds.sort_unstable();
        task::add_layers(&mut self.handlers, self.layers);
        let claim = self.settings.claim(kinds);
        // Every field is checked before the worker starts. The namespace is checked by the first call.
        claim.clone().check(NamespaceId(0), None)?;
        let kinds = claim.kinds.as_deref().unwrap_or_default().join(", ");
        let (instance, lanes) = (&claim.instance, claim.lanes.join(", "));
        tracing::info!(instance, lanes, kinds, "the worker starts");
        Ok(Driver::new(self.namespace, self.settings, claim, self.handlers))
    }
}

impl Settings {
    /// Returns a claim for all slots of the worker.
    fn claim(&self, kinds: Vec<String>) -> ClaimDraft {
        ClaimDraft {
            worker: self.name.clone(),
            instance: self.instance.clone(),
            lanes: self.lanes.clone(),
            kinds: Some(kinds),
            capabilities: self.capabilities.clone(),
            max: self.concurrency.min(CLAIM_MAX as usize) as u32,
            lease_ttl_ms: millis(self.lease_ttl),
            incarnation: Some(self.incarnation.clone()),
        }
    }
}

/// The handle of a worker that runs in a task of its own. Dropping the handle drains the worker in the background.
#[derive(Debug)]
pub struct Handle {
    instance: String,
    stop: oneshot::Sender<()>,
    task: JoinHandle<WorkerSummary>,
}

impl Handle {
    /// Returns the name of this worker's instance, under which operators see the worker.
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// Drains the worker: stops claiming, lets handlers end within the grace period, and puts the remaining executions
    /// back. Returns when the worker has ended.
    pub async fn drain(self) -> WorkerSummary {
        // Sending fails if the worker has already ended, because of an operator or a shutdown of the engine.
        let _ = self.stop.send(());
        join(self.task).await
    }

    /// Waits until the worker ends without this handle's doing: an operator asked it to drain, or the engine shut down.
    pub async fn ended(self) -> WorkerSummary {
        let Handle { stop, task, .. } = self;
        let summary = join(task).await;
        drop(stop);
        summary
    }
}

/// Waits for a worker's task. The task is not expected to panic: handlers run in tasks of their own.
async fn join(task: JoinHandle<WorkerSummary>) -> WorkerSummary {
    task.await.unwrap_or_else(|error| {
        tracing::error!(%error, "a worker's task panicked or was aborted; its leases will expire");
        WorkerSummary::default()
    })
}

/// The number of attempts that a worker ran from its start to its end, by how they ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerSummary {
    /// Attempts that completed.
    pub completed: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Attempts that were put back without a charged retry: by their handlers, or because they did not end within the
    /// grace period.
    pub released: u64,
    /// Attempts that ended because the execution was cancelled and the handler acknowledged it.
    pub cancelled: u64,
    /// Attempts that were suspended, because their handlers were only waiting.
    pub suspended: u64,
    /// Attempts whose end was not accepted from this worker: the lease was lost, or the store was unavailable for too
    /// long.
    pub aborted: u64,
}
