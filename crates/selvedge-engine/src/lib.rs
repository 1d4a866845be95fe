//! The engine: the only place that brings the rules and a store together.
//!
//! It runs rules in batches and hands over work to waiting claims (`commit`), wakes waiters and notifies the other
//! servers (`notify`), and runs the background repairs (`reconcilers`). Callers work through a [`Namespace`], which
//! only [`Engine::namespace`] creates: no request can choose its namespace by itself.

mod commit;
mod defaults;
mod error;
mod locking;
mod manual_clock;
mod metrics;
mod namespace;
mod notify;
mod reconcilers;
mod registry;
pub mod request;
#[cfg(feature = "testing")]
mod testing;
mod traces;

pub use defaults::{LEASE_TTL_MS, ServerDefaults};
pub use error::Error;
pub use manual_clock::Advanced;
pub use metrics::{
    Distribution, Family, FamilyKind, Histogram, NAMED_MAX, OTHER, Sample, SampleValue, Slots,
};
pub use namespace::*;
pub use notify::{Notice, Subscription};
pub use reconcilers::{Aborted, Intervals, ReconcilerStatus, Tally, UnknownReconciler};
pub use selvedge_core as core;
pub use selvedge_store as store;
pub use selvedge_store::ReconcilerScope;
pub use traces::{Span, SpanSink};

use commit::{CommitSinks, Committer, EngineHost, WaitingClaims, dispatcher};
use manual_clock::Advances;
use metrics::{FlushTask, GaugeReader, Metrics};
use namespace::creation;
use notify::{HeartbeatThrottle, NotificationTasks, Tail, TailTask, Waiters};
use reconcilers::{Coverage, Supervisor};
use registry::Registry;
use selvedge_core::Name;
use selvedge_core::name::NAME_LIMIT;
use selvedge_core::token::Secret;
use selvedge_store::{Deletion, SecretPlace, Store};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc};

/// The options of an engine.
#[derive(Clone, Debug)]
pub struct Options {
    /// Runs the reconcilers in the background. Default: true. Switched off only by tests that call their ticks.
    pub reconcilers: bool,
    /// The executions that the reconcilers of this engine handle. Default: all.
    pub scope: ReconcilerScope,
    /// The intervals of the reconcilers. Default: those in docs/operating.md.
    pub intervals: Intervals,
    /// The time after which a waiting claim asks the store again without a wake-up. Default: 5 s.
    pub poll: Duration,
    /// The longest that a shutdown takes. Half of it is for running reconcilers, which are then aborted; the rest for
    /// accepted operations. Default: 10 s.
    pub grace: Duration,
    /// The time after which a tick of a reconciler, or the query for due rows, is aborted. Default: 30 s.
    pub tick_timeout: Duration,
    /// Notifies other servers of commits and listens to theirs. Default: true. Otherwise commits are found by polling.
    pub notifications: bool,
    /// The time for which the event log keeps its entries. Default: 7 days.
    pub log_window: Duration,
    /// Fills the views `v1_events` and `v1_attempts` of a store that SQL can read, from the event log. Default: false, and
    /// then the views show nothing further.
    pub event_views: bool,
    /// Runs the follow-up work of a commit right after it. Default: true. Switched off only by tests that prove that
    /// the reconcilers find that work too.
    pub dispatch: bool,
    /// The values that apply where neither a caller nor its namespace gives one.
    pub defaults: ServerDefaults,
    /// Creates a namespace when a request names it. Default: false; an administrator creates namespaces.
    pub create_namespaces: bool,
    /// The root secret from which the keys of waitpoint tokens are derived. Default: a secret that is generated once and kept
    /// in a file beside a SQLite store, or in a Postgres store.
    pub secret: Option<Secret>,
    /// Receives a span for every execution and attempt that ends. Default: none are made, and handlers get the span that
    /// submitted their execution.
    pub spans: Option<SpanSink>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            reconcilers: true,
            scope: ReconcilerScope::default(),
            intervals: Intervals::default(),
            poll: Duration::from_secs(5),
            grace: Duration::from_secs(10),
            tick_timeout: Duration::from_secs(30),
            notifications: true,
            log_window: Duration::from_secs(7 * 24 * 3600),
            event_views: false,
            dispatch: true,
            defaults: ServerDefaults::default(),
            create_namespaces: false,
            secret: None,
            spans: None,
        }
    }
}

/// A running engine. Cheap to clone; all clones are the same engine.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

/// The state of the event feed of a process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FeedStatus {
    /// The number of subscribers.
    pub subscribers: usize,
    /// The number of entries that this process wrote and its subscribers have not received.
    pub behind_entries: u64,
    /// The time for which the subscribers have been behind; zero without subscribers.
    pub behind: Duration,
}

struct Inner {
    store: Arc<dyn Store>,
    registry: Arc<Registry>,
    committer: Arc<Committer>,
    waiting: Arc<WaitingClaims>,
    waiters: Arc<Waiters>,
    heartbeat_throttle: HeartbeatThrottle,
    tail: Arc<Tail>,
    tail_task: TailTask,
    supervisor: Supervisor,
    metrics: Arc<Metrics>,
    gauges: GaugeReader,
    flush_task: FlushTask,
    notification_tasks: NotificationTasks,
    coverage: Coverage,
    /// Notified when a caller of this process changes a webhook.
    webhook_changes: Notify,
    /// The advances of a manual clock.
    advances: Advances,
    secret: Arc<Secret>,
    secret_place: Option<SecretPlace>,
    options: Options,
}

impl Engine {
    /// Starts an engine on an open store.
    pub async fn start(store: Arc<dyn Store>, options: Options) -> Result<Engine, Error> {
        let metrics = Arc::new(Metrics::default());
        metrics.count_calls_of(&*store);
        let registry = Arc::new(Registry::load(store.clone()).await?);
        let (secret, secret_place) = namespace::load_secret(&*store, options.secret.clone()).await?;
        let secret = Arc::new(secret);
        let waiting = Arc::new(WaitingClaims::new(registry.clone()));
        let waiters = Arc::new(Waiters::default());
        let (notifications, notification_receiver) = mpsc::unbounded_channel();
        let (due_in_ms, due_receiver) = mpsc::unbounded_channel();
        let (follow_ups, follow_up_receiver) = mpsc::unbounded_channel();
        let (tail, tail_task) = Tail::start(store.clone(), options.notifications);
        let sinks = CommitSinks { notifications, due_in_ms, follow_ups, tail: tail.clone() };
        let host = EngineHost {
            registry: registry.clone(),
            cache: Arc::default(),
            waiting: waiting.clone(),
            refusals: Arc::default(),
            metrics: metrics.clone(),
            spans: options.spans.clone(),
        };
        let committer = Committer::new(store.clone(), host, waiters.clone(), sinks);
        if options.dispatch {
            tokio::spawn(dispatcher::run(Arc::downgrade(&committer), follow_up_receiver));
        }
        let supervisor = Supervisor::start(store.clone(), committer.clone(), due_receiver, &options);
        let notification_tasks = NotificationTasks::start(
            store.clone(),
            committer.clone(),
            waiting.clone(),
            notification_receiver,
            &options,
        );
        let coverage = Coverage::start(store.clone(), &options);
        let flush_task = FlushTask::start(Arc::downgrade(&metrics), store.clone());
        let inner = Inner {
            store,
            registry,
            committer,
            waiting,
            waiters,
            heartbeat_throttle: HeartbeatThrottle::default(),
            tail,
            tail_task,
            supervisor,
            gauges: GaugeReader::default(),
            flush_task,
            metrics,
            notification_tasks,
            coverage,
            webhook_changes: Notify::new(),
            advances: Advances::default(),
            secret,
            secret_place,
            options,
        };
        Ok(Engine { inner: Arc::new(inner) })
    }

    /// Returns the handle of a namespace, which is created if it does not exist or was deleted. All calls on executions go through
    /// such a handle.
    pub async fn namespace(&self, name: &str) -> Result<Namespace, Error> {
        let name = Name::parse("/namespace", name, NAME_LIMIT)?;
        let id = match self.inner.registry.find(&name).await? {
            Some(id) => id,
            None => creation::create(&*self.inner.store, &self.inner.committer, &name).await?,
        };
        Ok(Namespace::new(self.clone(), id, name))
    }

    /// Returns the handle of a namespace for a request: none if it does not exist. `default` always exists, and with
    /// [`Options::create_namespaces`] every name does.
    pub async fn open_namespace(&self, name: &Name) -> Result<Option<Namespace>, Error> {
        let Inner { store, committer, options, .. } = &*self.inner;
        let id = creation::open(&**store, committer, options.create_namespaces, name).await?;
        Ok(id.map(|id| Namespace::new(self.clone(), id, name.clone())))
    }

    /// Returns the handle of a namespace that exists, also of one that is being deleted. Creates none.
    pub async fn known_namespace(&self, name: &Name) -> Result<Option<Namespace>, Error> {
        let id = self.inner.registry.find(name).await?;
        Ok(id.map(|id| Namespace::new(self.clone(), id, name.clone())))
    }

    /// Returns the handle of a namespace as the store has it now, also of one that is being deleted. None if it does not exist or
    /// was deleted.
    pub async fn find_namespace(&self, name: &str) -> Result<Option<Namespace>, Error> {
        let name = Name::parse("/namespace", name, NAME_LIMIT)?;
        let Some(id) = self.inner.store.find_namespace(&name).await? else { return Ok(None) };
        let namespace = Namespace::new(self.clone(), id, name);
        let is_deleted = namespace.settings().await?.deletion == Some(Deletion::Done);
        Ok((!is_deleted).then_some(namespace))
    }

    /// Groups several namespaces, each with a weight, from which one worker claims.
    pub fn namespaces(&self, members: Vec<(Namespace, u32)>) -> Namespaces {
        Namespaces::new(self.clone(), members)
    }

    /// The kind of the store: `postgres`, `sqlite` or `memory`.
    pub fn store_name(&self) -> &'static str {
        self.inner.store.describe().name
    }

    /// The durability of an acknowledged change, as a sentence for people.
    pub fn store_durability(&self) -> &'static str {
        self.inner.store.describe().durability
    }

    /// Returns the place where the store keeps the root secret; none if it was configured.
    pub fn secret_place(&self) -> Option<&SecretPlace> {
        self.inner.secret_place.as_ref()
    }

    /// The store, for benchmarks and checks.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    /// Returns the defaults that apply where neither a caller nor its namespace gives a value.
    pub fn defaults(&self) -> &ServerDefaults {
        &self.inner.options.defaults
    }

    /// Returns the names of namespaces whose background work no server does, because the reconcilers of each are restricted
    /// to another namespace or to a tag. Reads them at most once in 5 s.
    pub async fn uncovered_namespaces(&self) -> Result<Arc<Vec<Name>>, Error> {
        Ok(self.inner.coverage.uncovered(&*self.inner.store).await?)
    }

    /// Returns the number of batches committed so far and the number of claims that wait now.
    pub fn activity(&self) -> (u64, usize) {
        (self.inner.committer.batches(), self.inner.waiting.len())
    }

    /// Returns the number of entries of the event log that readers of this process could not read and passed.
    pub fn unreadable_entries(&self) -> u64 {
        self.inner.tail.entries().unreadable()
    }

    /// Returns the state of the event feed of this process.
    pub fn feed_status(&self) -> FeedStatus {
        let (behind_entries, behind_seconds) = self.inner.tail.lag();
        FeedStatus {
            subscribers: self.inner.tail.subscribers(),
            behind_entries: behind_entries.max(0) as u64,
            behind: Duration::try_from_secs_f64(behind_seconds).unwrap_or_default(),
        }
    }

    /// The name and the totals of each reconciler.
    pub fn reconcilers(&self) -> Vec<(&'static str, Tally)> {
        self.inner.supervisor.tallies()
    }

    /// Returns the state of each reconciler of this process.
    pub fn reconciler_status(&self) -> Vec<ReconcilerStatus> {
        self.inner.supervisor.status()
    }

    /// Returns the time of the store, by the last query of the reconcilers; by the clock of this process before the first.
    pub fn store_time(&self) -> selvedge_core::Timestamp {
        self.inner.metrics.store_time()
    }

    /// Returns the time by which the clock of the store's database is behind the time of the store, if it stepped back. Zero
    /// otherwise.
    pub fn clock_behind(&self) -> Duration {
        self.inner.metrics.clock_steps().1
    }

    /// Saves the minute rollups that have changed since the last save. A running engine does so by itself, every 10 s.
    pub async fn flush_rollups(&self) -> Result<(), Error> {
        Ok(self.inner.metrics.flush_rollups(&self.inner.store).await?)
    }

    /// Runs one tick of a reconciler now; for tests and operators.
    pub async fn tick(&self, reconciler: &str) -> Result<Tally, Error> {
        self.inner.supervisor.tick(reconciler).await
    }

    /// Checks that the store accepts writes: by the last one, or by a small one if the last one was too long ago.
    pub async fn ping(&self) -> Result<(), Error> {
        Ok(self.inner.committer.check_writes().await?)
    }

    /// Shuts down: waiting claims return, accepted rules get their replies, and reconcilers finish or are aborted.
    /// Returns how many were aborted. A second call does nothing.
    pub async fn shutdown(&self) -> Aborted {
        self.shutdown_within(self.inner.options.grace).await
    }

    /// Shuts down like [`Engine::shutdown`], with another grace period.
    pub async fn shutdown_within(&self, grace: Duration) -> Aborted {
        let now = tokio::time::Instant::now();
        let aborted = self.inner.supervisor.shutdown(now + grace / 2).await;
        self.inner.notification_tasks.stop();
        self.inner.coverage.stop();
        self.inner.tail_task.stop();
        // Bounded: a store that does not answer must not block the shutdown.
        let _ = tokio::time::timeout_at(now + grace, self.inner.committer.close()).await;
        // After the close: a claim woken before it would find nothing and register again.
        self.inner.waiting.wake_all();
        self.inner.waiters.wake_all();
        self.inner.tail.end();
        self.inner.flush_task.stop();
        let _ = tokio::time::timeout_at(now + grace, self.flush_rollups()).await;
        self.inner.store.close().await;
        aborted
    }
}
