//! The store under test, and the runner of one case.

use super::Harness;
use super::runner::RuleRunner;
use crate::invariants;
use selvedge_store::Store;
use std::any::Any;
use std::future::Future;
use std::sync::Arc;

/// Advances a store's clock by milliseconds.
pub type Advance = Arc<dyn Fn(i64) + Send + Sync>;

/// A store under test, with its clock, its runner and the resources that it needs.
pub struct Subject {
    /// The store under test.
    pub store: Arc<dyn Store>,
    /// Advances the store's clock, if that is manual.
    pub advance: Option<Advance>,
    /// Runs rules. Default: none, rules run on the store alone.
    pub runner: Option<Arc<dyn RuleRunner>>,
    kept: Option<Box<dyn Any + Send + Sync>>,
}

impl Subject {
    /// Returns a store with a manual clock.
    pub fn with_clock(store: Arc<dyn Store>, advance: impl Fn(i64) + Send + Sync + 'static) -> Self {
        Subject { advance: Some(Arc::new(advance)), ..Subject::from(store) }
    }

    /// Sets the runner of rules.
    pub fn with_runner(mut self, runner: Arc<dyn RuleRunner>) -> Self {
        self.runner = Some(runner);
        self
    }

    /// Returns a harness around the store.
    pub async fn harness(&self) -> Harness {
        let harness = Harness::new(self.store.clone()).await;
        harness.with_clock(self.advance.clone()).with_runner(self.runner.clone())
    }

    /// Keeps `resource` until the subject is dropped: for example a directory that is deleted on drop.
    pub fn keeping(mut self, resource: impl Any + Send + Sync) -> Self {
        self.kept = Some(Box::new(resource));
        self
    }
}

impl From<Arc<dyn Store>> for Subject {
    fn from(store: Arc<dyn Store>) -> Self {
        Subject { store, advance: None, runner: None, kept: None }
    }
}

/// Runs one case on a store of its own. Checks the invariants after it if the case changed the store only by rules.
pub fn run_case<Made, Given>(make: impl Fn() -> Made, case: impl AsyncFnOnce(&Harness))
where
    Made: Future<Output = Given>,
    Given: Into<Subject>,
{
    runtime().block_on(async {
        let subject: Subject = make().await.into();
        let harness = subject.harness().await;
        case(&harness).await;
        if harness.changed_only_by_rules() {
            let broken = invariants::check(&*subject.store).await;
            assert!(broken.is_empty(), "invariants are broken: {broken:#?}");
        }
        subject.store.close().await;
    });
}

/// Returns a runtime with several threads.
pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()
        .expect("a runtime can be built")
}
