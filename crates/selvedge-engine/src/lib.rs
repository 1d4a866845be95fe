//! The engine: the only place that brings the rules and a store together.
//!
//! It batches rules (`committer`), hands work to waiting claims (`waiting_claims`), wakes waiters (`bells`), notifies the
//! other servers, and runs the [`reconcilers`]. Everything a caller does goes through a [`Namespace`], which only
//! [`Engine::namespace`] makes: no request can name a tenant by itself.

#![warn(missing_docs)]

mod bells;
mod bulk;
mod committer;
mod dispatcher;
mod error;
mod events;
mod explain;
mod flows;
mod gates;
mod lease_cache;
mod namespace;
mod namespaces;
mod news;
mod outcome;
mod process;
mod reads;
pub mod reconcilers;
mod registry;
mod schedule;
mod signals;
mod streams;
mod subscriptions;
mod suite;
mod tail;
mod task;
mod told;
mod waiting_claims;
mod workers;

pub use bulk::{Bulk, BulkTarget, Bulked};
pub use error::Error;
pub use events::{EventFilter, EventPage, From, PublicEvent};
pub use flows::{FlowEnded, FlowView, Grown};
pub use gates::GateView;
pub use namespace::{ClaimWait, Namespace, ReportItem};
pub use namespaces::Namespaces;
pub use reads::{Ended, HeldReason, Spent, View};
pub use reconcilers::{Aborted, ReconcilerScope, Tally};
pub use selvedge_core as core;
pub use selvedge_store as store;
pub use streams::{Frames, StreamTail};
pub use subscriptions::{Notice, Subscription};
pub use workers::{Heartbeaten, WorkerView};

use bells::Bells;
use committer::{Aftermath, Committer};
use process::Process;
use reconcilers::Supervisor;
use registry::Registry;
use selvedge_core::Name;
use selvedge_core::name::NAME_LIMIT;
use selvedge_core::token::Secret;
use selvedge_store::Store;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use waiting_claims::WaitingClaims;

/// How an engine runs.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether this engine runs the reconcilers; yes. Switched off only where tests call their ticks.
    pub reconcilers: bool,
    /// Which executions the reconcilers of this engine look after; all.
    pub scope: ReconcilerScope,
    /// How long waiting claims rely on wake-ups before they ask the store again; 5 s.
    pub poll: Duration,
    /// How long a shutdown waits for reconcilers before it aborts them; 10 s.
    pub grace: Duration,
    /// Whether to tell other servers and listen to them; yes. Everything works without, up to `poll` later.
    pub notifications: bool,
    /// How long the event log keeps what happened; 7 days.
    pub log_window: Duration,
    /// Whether what a commit left to be done is done right after it; yes. Switched off only where tests show that the
    /// reconcilers find it too.
    pub dispatch: bool,
    /// The root of the keys that the tokens of waitpoints are signed with; one that the store keeps, where none is given.
    pub secret: Option<Secret>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            reconcilers: true,
            scope: ReconcilerScope::default(),
            poll: Duration::from_secs(5),
            grace: Duration::from_secs(10),
            notifications: true,
            log_window: Duration::from_secs(7 * 24 * 3600),
            dispatch: true,
            secret: None,
        }
    }
}

/// A running engine. Cheap to clone; all clones are the same engine.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

struct Inner {
    store: Arc<dyn Store>,
    registry: Arc<Registry>,
    committer: Arc<Committer>,
    waiting: Arc<WaitingClaims>,
    bells: Arc<Bells>,
    told: told::Told,
    tail: Arc<tail::Tail>,
    tail_task: tail::Task,
    supervisor: Supervisor,
    news: news::Tasks,
    secret: Arc<Secret>,
    options: Options,
}

impl Engine {
    /// Starts an engine on an open store.
    pub async fn start(store: Arc<dyn Store>, options: Options) -> Result<Engine, Error> {
        let registry = Arc::new(Registry::load(store.clone()).await?);
        let secret = Arc::new(signals::secret(&*store, options.secret.clone()).await?);
        let waiting = Arc::new(WaitingClaims::new(registry.clone()));
        let bells = Arc::new(Bells::default());
        let (news_sender, news_receiver) = mpsc::unbounded_channel();
        let (due_sender, due_receiver) = mpsc::unbounded_channel();
        let (left_sender, left_receiver) = mpsc::unbounded_channel();
        let (tail, tail_task) = tail::Tail::start(store.clone(), options.notifications);
        let aftermath =
            Aftermath { news: news_sender, due: due_sender, left: left_sender, tail: tail.clone() };
        let process = Process { registry: registry.clone(), cache: Arc::default(), waiting: waiting.clone() };
        let committer = Committer::new(store.clone(), process, bells.clone(), aftermath);
        if options.dispatch {
            tokio::spawn(dispatcher::run(Arc::downgrade(&committer), left_receiver));
        }
        let supervisor = Supervisor::start(store.clone(), committer.clone(), due_receiver, &options);
        let news =
            news::Tasks::start(store.clone(), committer.clone(), waiting.clone(), news_receiver, &options);
        let inner = Inner {
            store,
            registry,
            committer,
            waiting,
            bells,
            told: told::Told::default(),
            tail,
            tail_task,
            supervisor,
            news,
            secret,
            options,
        };
        Ok(Engine { inner: Arc::new(inner) })
    }

    /// The handle of a namespace: everything a caller does goes through one.
    pub async fn namespace(&self, name: &str) -> Result<Namespace, Error> {
        let name = Name::parse("/namespace", name, NAME_LIMIT)?;
        let id = self.inner.registry.namespace(&name).await?;
        Ok(Namespace::new(self.clone(), id, name))
    }

    /// Several namespaces whose work one worker takes, each by its weight.
    pub fn namespaces(&self, members: Vec<(Namespace, u32)>) -> Namespaces {
        Namespaces::new(self.clone(), members)
    }

    /// What kind of store it runs on.
    pub fn store_name(&self) -> &'static str {
        self.inner.store.describe().name
    }

    /// The store, for benchmarks and checks.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    /// How many batches were committed, how many claims wait.
    pub fn activity(&self) -> (u64, usize) {
        (self.inner.committer.batches(), self.inner.waiting.len())
    }

    /// What each reconciler has done so far.
    pub fn reconcilers(&self) -> Vec<(&'static str, Tally)> {
        self.inner.supervisor.tallies()
    }

    /// Runs one tick of a reconciler now; for tests and operators.
    pub async fn tick(&self, reconciler: &str) -> Result<Tally, Error> {
        self.inner.supervisor.tick(reconciler).await
    }

    /// Whether the store answers.
    pub async fn ping(&self) -> Result<(), Error> {
        Ok(self.inner.store.ping().await?)
    }

    /// Stops: waiting claims return, accepted rules are answered, reconcilers end or are aborted. Says how many had
    /// to be aborted. A second call is a no-op.
    pub async fn shutdown(&self) -> Aborted {
        let aborted = self.inner.supervisor.shutdown(self.inner.options.grace).await;
        self.inner.news.stop();
        self.inner.tail_task.stop();
        // A store that does not answer keeps nobody here for longer than that.
        let _ = tokio::time::timeout(self.inner.options.grace, self.inner.committer.close()).await;
        // After the close: a claim that is woken earlier would find nothing and wait again.
        self.inner.waiting.wake_all();
        self.inner.bells.ring_all();
        self.inner.tail.end();
        self.inner.store.close().await;
        aborted
    }
}
