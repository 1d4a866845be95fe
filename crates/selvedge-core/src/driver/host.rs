//! The process around a transaction: the state that the driver uses besides the rows it loads.

use super::Summary;
use crate::class::{Class, Classes};
use crate::gate::{Gate, GateId, GateName};
use crate::rule::Task;
use crate::work::LaneShares;
use crate::{Changes, ClassId, Execution, ExecutionId};
use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The kinds of gates that this process has seen, known before anything is loaded. A flag that is set stays set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Admission {
    /// A lane is configured.
    pub lanes: bool,
    /// A lane has a limit.
    pub limits: bool,
    /// Executions draw on gates that claims lock.
    pub gates: bool,
}

/// The process in which transactions run, with its classes, its lease cache and its waiting claims.
pub trait Host: Send {
    /// The form in which this process holds a rule.
    type Task: Task;

    /// The work of this process after a commit.
    type Effects: Default + Send;

    /// Derives the effects of the commit from the changes that will be saved.
    fn effects(&self, changes: &Changes, summary: Summary) -> Self::Effects;

    /// Returns the known classes.
    fn classes(&self) -> Arc<Classes>;

    /// Adds classes that a transaction has read.
    fn learn_classes(&self, classes: Vec<(ClassId, Class)>);

    /// Returns the kinds of gates that this process has seen.
    fn admission(&self) -> Admission;

    /// Returns a seed for lease ids and jitter, different for each transaction.
    fn seed(&self) -> u64;

    /// Takes a row out of the lease cache. Default: no row is cached.
    fn take_cached(&self, _id: ExecutionId) -> Option<Execution> {
        None
    }

    /// Takes waiting claims whose lanes fit and that may claim this many executions of each class. They join the
    /// transaction. Default: no claim is waiting.
    fn take_waiting_claims(
        &self,
        _ready: BTreeMap<ClassId, usize>,
        _fits: &dyn Fn(&[GateId]) -> bool,
    ) -> Vec<Self::Task> {
        Vec::new()
    }

    /// Returns the lanes of waiting claims that may claim executions of these classes. Default: no claim is waiting.
    fn waiting_lanes(&self, _classes: &BTreeSet<ClassId>) -> Vec<GateId> {
        Vec::new()
    }

    /// Returns the state of the fair share between lanes. Default: the initial state.
    fn lane_shares(&self) -> LaneShares {
        LaneShares::default()
    }

    /// Returns the gates that have lately refused many executions of these classes. Default: none.
    fn refusing_gates(&self, _classes: &BTreeSet<ClassId>) -> Vec<GateName> {
        Vec::new()
    }

    /// Stores the state of the fair share between lanes. Default: drops it.
    fn keep_lane_shares(&self, _shares: &LaneShares) {}

    /// Receives the gates that a transaction has read. Default: ignores them.
    fn see_gates(&self, _gates: &[Gate]) {}

    /// Records that an execution draws on gates: later transactions expect them. Default: does nothing.
    fn expect_gates(&self) {}

    /// Reports an unreadable row, which stays as it is. Default: does nothing.
    fn report_unreadable(&self, _execution: ExecutionId, _detail: &str) {}
}

/// A process without a lease cache and without waiting claims. It adds the classes that it reads, and expects every
/// kind of gate.
pub struct Alone<T> {
    classes: Mutex<Arc<Classes>>,
    task: PhantomData<fn() -> T>,
}

impl<T> Default for Alone<T> {
    fn default() -> Self {
        Alone { classes: Mutex::default(), task: PhantomData }
    }
}

impl<T: Task> Host for Alone<T> {
    type Task = T;
    type Effects = Summary;

    fn effects(&self, _changes: &Changes, summary: Summary) -> Summary {
        summary
    }

    fn classes(&self) -> Arc<Classes> {
        self.classes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn learn_classes(&self, classes: Vec<(ClassId, Class)>) {
        let mut known = self.classes.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::make_mut(&mut known).add(classes);
    }

    fn admission(&self) -> Admission {
        Admission { lanes: true, limits: true, gates: true }
    }

    fn seed(&self) -> u64 {
        static SEED: AtomicU64 = AtomicU64::new(1);
        SEED.fetch_add(1, Ordering::Relaxed)
    }
}
