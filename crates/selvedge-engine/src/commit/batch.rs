//! One batch as a store runs it: a decision that both the store and the committer hold.

use super::effects::CommitEffects;
use super::host::EngineHost;
use super::task::CommitTask;
use crate::sync::lock;
use selvedge_core::driver::{Demand, Driver};
use selvedge_core::{Needs, Rows};
use selvedge_store::Decision;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// A batch under way. The store runs one clone; the committer keeps another, to take the tasks back.
#[derive(Clone)]
pub struct Batch {
    inner: Arc<Mutex<Inner>>,
    patience: Option<Duration>,
}

/// A batch after its transaction.
pub struct FinishedBatch {
    pub tasks: Vec<Box<dyn CommitTask>>,
    /// The waiting claims that the transaction took along.
    pub handed_over: Vec<Box<dyn CommitTask>>,
    /// The effects of the last save that the batch asked for. Valid only if the transaction committed.
    pub effects: CommitEffects,
}

struct Inner {
    host: EngineHost,
    driver: Driver<EngineHost>,
    effects: CommitEffects,
}

impl Batch {
    /// Creates a batch of these tasks. `patience` limits the time of each statement.
    pub fn new(host: EngineHost, tasks: Vec<Box<dyn CommitTask>>, patience: Option<Duration>) -> Self {
        let driver = Driver::new(host.clone(), tasks);
        let inner = Inner { host, driver, effects: CommitEffects::default() };
        Batch { inner: Arc::new(Mutex::new(inner)), patience }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }

    /// Takes the tasks and the effects out after the transaction.
    pub fn finish(self) -> FinishedBatch {
        let mut inner = self.lock();
        let (tasks, handed_over) = inner.driver.take_tasks();
        FinishedBatch { tasks, handed_over, effects: std::mem::take(&mut inner.effects) }
    }
}

impl Decision for Batch {
    fn begin(&mut self, again: u32) -> Needs {
        self.lock().driver.begin(again)
    }

    fn next(&mut self, rows: Rows) -> Demand {
        let mut inner = self.lock();
        let demand = inner.driver.next(rows);
        if let Demand::Save(changes) = &demand {
            let summary = inner.driver.summary();
            inner.effects = CommitEffects::of(changes, summary, &inner.host);
        }
        demand
    }

    fn patience(&self) -> Option<Duration> {
        self.patience
    }
}
