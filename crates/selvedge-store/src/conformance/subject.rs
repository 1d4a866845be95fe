//! The store that a case is about, and how a case is run.

use super::{Bench, invariants};
use crate::Store;
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
    kept: Option<Box<dyn Any + Send + Sync>>,
}

impl Subject {
    /// A store with a clock that tests can move.
    pub fn with_clock(store: Arc<dyn Store>, advance: impl Fn(i64) + Send + Sync + 'static) -> Self {
        Subject { advance: Some(Arc::new(advance)), ..Subject::from(store) }
    }

    /// Keeps `thing` until the store is no longer needed: a directory, say, that goes when it is dropped.
    pub fn keeping(mut self, thing: impl Any + Send + Sync) -> Self {
        self.kept = Some(Box::new(thing));
        self
    }
}

impl From<Arc<dyn Store>> for Subject {
    fn from(store: Arc<dyn Store>) -> Self {
        Subject { store, advance: None, kept: None }
    }
}

/// Runs one case against a store of its own, and checks the invariants after it.
pub fn run_case<Made, Given>(make: impl Fn() -> Made, case: impl AsyncFnOnce(&Bench))
where
    Made: Future<Output = Given>,
    Given: Into<Subject>,
{
    runtime().block_on(async {
        let subject: Subject = make().await.into();
        let bench = Bench::new(subject.store.clone()).await.with_clock(subject.advance.clone());
        case(&bench).await;
        if bench.went_by_the_rules() {
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
