//! The process around a transaction: everything the driver knows besides the rows it loads.

use crate::class::{Class, Classes};
use crate::gate::{Gate, GateId};
use crate::rule::Task;
use crate::work::LaneShares;
use crate::{ClassId, Execution, ExecutionId};
use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The process's knowledge of lanes and gates before anything is loaded. Once true, always true.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Admission {
    /// A lane is configured.
    pub lanes: bool,
    /// A lane limits something.
    pub limits: bool,
    /// Some executions go through gates that claims lock.
    pub gates: bool,
}

/// The process in which transactions run: its classes, its lease cache and its waiting claims.
pub trait Host: Send {
    /// A rule in the form in which this process holds it.
    type Task: Task;

    /// The classes that are known.
    fn classes(&self) -> Arc<Classes>;

    /// Adds classes that a transaction has read.
    fn learn_classes(&self, classes: Vec<(ClassId, Class)>);

    /// The process's knowledge of lanes and gates.
    fn admission(&self) -> Admission;

    /// A seed for lease ids and jitter.
    fn seed(&self) -> u64;

    /// Takes a row out of the lease cache. Default: there is none.
    fn take_cached(&self, _id: ExecutionId) -> Option<Execution> {
        None
    }

    /// Takes waiting claims along that may take so many executions of each class, if their lanes fit. Default: none wait.
    fn take_waiting_claims(
        &self,
        _ready: BTreeMap<ClassId, usize>,
        _fits: &dyn Fn(&[GateId]) -> bool,
    ) -> Vec<Self::Task> {
        Vec::new()
    }

    /// The lanes of waiting claims that may take executions of these classes. Default: none wait.
    fn waiting_lanes(&self, _classes: &BTreeSet<ClassId>) -> Vec<GateId> {
        Vec::new()
    }

    /// How far lanes are with their shares. Default: at the beginning.
    fn lane_shares(&self) -> LaneShares {
        LaneShares::default()
    }

    /// Keeps how far lanes are with their shares. Default: forgets it.
    fn keep_lane_shares(&self, _shares: &LaneShares) {}

    /// Gates were read. Default: ignores them.
    fn see_gates(&self, _gates: &[Gate]) {}

    /// An execution was read that goes through gates. Default: ignores it.
    fn expect_gates(&self) {}

    /// A row cannot be read; it is left as it is. Default: ignores it.
    fn report_unreadable(&self, _execution: ExecutionId, _detail: &str) {}
}

/// A process without cache and without waiting claims, which learns classes from what it reads and expects every kind of gate.
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
