//! The store that a case is about, and how a case is run.

use super::rule::Runner;
use super::{Harness, invariants};
use selvedge_store::Store;
use std::any::Any;
use std::future::Future;
use std::sync::Arc;

/// Moves a store's clock forward by milliseconds.
pub type Advance = Arc<dyn Fn(i64) + Send + Sync>;

/// A store to be tested, with what belongs to it.
pub struct Subject {
    /// The store.
    pub store: Arc<dyn Store>,
    /// Moves its clock, where that can be moved.
    pub advance: Option<Advance>,
    /// Runs rules on it; without one they run on the store alone.
    pub runner: Option<Arc<dyn Runner>>,
    kept: Option<Box<dyn Any + Send + Sync>>,
}

impl Subject {
    /// A store with a clock that tests can move.
    pub fn with_clock(store: Arc<dyn Store>, advance: impl Fn(i64) + Send + Sync + 'static) -> Self {
        Subject { advance: Some(Arc::new(advance)), ..Subject::from(store) }
    }

    /// The same store; rules are run by `runner`.
    pub fn run_by(mut self, runner: Arc<dyn Runner>) -> Self {
        self.runner = Some(runner);
        self
    }

    /// A harness around the store.
    pub async fn harness(&self) -> Harness {
        let harness = Harness::new(self.store.clone()).await;
        harness.with_clock(self.advance.clone()).with_runner(self.runner.clone())
    }

    /// Keeps `thing` until the store is no longer needed: a directory, say, that goes when it is dropped.
    pub fn keeping(mut self, thing: impl Any + Send + Sync) -> Self {
        self.kept = Some(Box::new(thing));
        self
    }
}

impl From<Arc<dyn Store>> for Subject {
    fn from(store: Arc<dyn Store>) -> Self {
        Subject { store, advance: None, runner: None, kept: None }
    }
}

/// Runs one case against a store of its own, and checks the invariants after it.
pub fn run_case<Made, Given>(make: impl Fn() -> Made, case: impl AsyncFnOnce(&Harness))
where
    Made: Future<Output = Given>,
    Given: Into<Subject>,
{
    runtime().block_on(async {
        let subject: Subject = make().await.into();
        let harness = subject.harness().await;
        case(&harness).await;
        if harness.went_by_the_rules() {
            let broken = invariants::check(&*subject.store).await;
            assert!(broken.is_empty(), "invariants are broken: {broken:#?}");
        }
        subject.store.close().await;
    });
}

pub(super) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()
        .expect("a runtime can be made")
}
