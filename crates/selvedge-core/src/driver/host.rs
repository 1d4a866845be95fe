//! The process around a transaction: the state that the driver uses besides the rows it loads, and the rows of the lease
//! cache that one transaction takes.
//!
//! A report on a lease that this process granted needs no read of the execution. A cached row may be out of date. So it
//! serves only a report that is certain to end its lease: then the row is saved, and the save checks its version. A member
//! of a flow is never taken from the cache, but its cached row names its downstreams: they are locked together with the
//! member, in id order, so that the completion is propagated in the same transaction.

use super::Summary;
use crate::class::{Class, Classes};
use crate::gate::{Gate, GateId, GateName};
use crate::rows::Needs;
use crate::rule::{LeaseEffect, Task};
use crate::rules::flows::join::CHUNK;
use crate::table::Access;
use crate::work::LaneShares;
use crate::{Changes, ClassId, Execution, ExecutionId};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
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

/// The cached rows of one transaction.
#[derive(Debug, Default)]
pub(super) struct Cached {
    rows: Vec<Execution>,
    ids: HashSet<ExecutionId>,
    downstreams: Vec<ExecutionId>,
}

impl Cached {
    /// Takes the rows of the executions that these tasks name out of the cache, and keeps those that may serve the
    /// tasks.
    pub fn take<H: Host>(host: &H, tasks: &[H::Task]) -> Cached {
        let allowed = tasks.iter().all(|task| task.profile().allows_cached_rows());
        let mut downstreams = Vec::new();
        let mut rows: HashMap<ExecutionId, Option<Execution>> = HashMap::new();
        let mut ending: HashSet<ExecutionId> = HashSet::new();
        for touch in tasks.iter().flat_map(|task| &task.profile().executions) {
            let Some(fence) = touch.fence else {
                rows.insert(touch.execution, None);
                continue;
            };
            let row = rows.entry(touch.execution).or_insert_with_key(|id| host.take_cached(*id));
            if let Some(row) = row.as_ref().filter(|_| touch.may_finish) {
                let wiring = row.wiring();
                let few = wiring.downstreams.iter().take_while(|_| wiring.downstreams.len() <= CHUNK);
                downstreams.extend(few.map(|one| one.execution));
            }
            let serves = match touch.lease {
                LeaseEffect::Ends | LeaseEffect::Unchanged => allowed,
                LeaseEffect::Keeps | LeaseEffect::Any => false,
            };
            if !serves || !row.as_ref().is_some_and(|row| row.flow.is_none() && fence.holds(row)) {
                *row = None;
            }
            if touch.lease == LeaseEffect::Ends {
                ending.insert(touch.execution);
            }
        }
        let rows: Vec<Execution> =
            rows.into_values().flatten().filter(|row| ending.contains(&row.id)).collect();
        Cached { ids: rows.iter().map(|row| row.id).collect(), rows, downstreams }
    }

    /// Drops the rows for a retry, because the stored version of one may have changed. Keeps the downstreams, which are
    /// still the best guess.
    pub fn forget(&mut self) {
        self.ids.clear();
    }

    /// Takes the cached rows. Later calls return none.
    pub fn take_rows(&mut self) -> Vec<Execution> {
        std::mem::take(&mut self.rows)
    }

    pub fn ids(&self) -> &HashSet<ExecutionId> {
        &self.ids
    }

    /// Iterates over the downstreams of executions that may end.
    pub fn downstreams(&self) -> impl Iterator<Item = ExecutionId> {
        self.downstreams.iter().copied()
    }

    /// Removes the reads of cached rows from `needs`. Without gates, their locks are removed, too: they are locked when
    /// they are saved. With gates, whose locks follow those of executions, the cached rows are locked without reading
    /// them, unless other executions have to be locked: then one statement locks and reads all.
    pub fn leave_out(&self, gates: bool, needs: &mut Needs) {
        if self.ids.is_empty() {
            return;
        }
        let cached = |id: &ExecutionId, access: Access| access >= Access::Cached && self.ids.contains(id);
        if !gates {
            needs.executions.retain(|id, access| !cached(id, access));
        } else if needs.executions.iter(Access::Lock).all(|id| self.ids.contains(id)) {
            needs.executions.weaken(Access::Lock, Access::Cached);
        }
        needs.executions.retain(|id, access| access != Access::Read || !self.ids.contains(id));
    }
}
