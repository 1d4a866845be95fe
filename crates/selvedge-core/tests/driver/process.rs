//! A process around transactions, with a lease cache and waiting claims that a test fills.

use super::rules::BoxedTask;
use super::table::{CLASS, class};
use selvedge_core::driver::{Admission, Alone, Driver, Host, Summary};
use selvedge_core::gate::draws::lane_gate;
use selvedge_core::rule::Queued;
use selvedge_core::rules::claim::Claim;
use selvedge_core::work::LaneShares;
use selvedge_core::{Changes, Class, ClassId, Classes, Execution, ExecutionId, GateId};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

/// The admission of a process with limited lanes.
pub const LIMITED: Admission = Admission { lanes: true, limits: true, gates: false };

/// A process whose transactions a test observes. It knows one class. Default: no lanes, no gates, an empty cache.
#[derive(Clone, Default)]
pub struct Process(Arc<Inner>);

#[derive(Default)]
struct Inner {
    alone: Alone<BoxedTask>,
    admission: Admission,
    /// True if claims begin to wait only after the driver has asked for their lanes.
    comes_late: bool,
    /// True if waiting claims are handed over although their lanes do not fit.
    ignores_lanes: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    cached: HashMap<ExecutionId, Execution>,
    waiting: Vec<Claim>,
    offers: Vec<BTreeMap<ClassId, usize>>,
    unreadable: Vec<ExecutionId>,
    expects_gates: bool,
    shares: LaneShares,
}

impl Process {
    /// Creates a process with this admission.
    pub fn with(admission: Admission) -> Process {
        Process(Arc::new(Inner { admission, ..Inner::default() }))
    }

    /// Creates a process with limited lanes, in which claims begin to wait after the driver has asked for their lanes.
    pub fn with_late_claims() -> Process {
        Process(Arc::new(Inner { admission: LIMITED, comes_late: true, ..Inner::default() }))
    }

    /// Creates such a process that also hands over claims whose lanes do not fit.
    pub fn that_ignores_lanes() -> Process {
        let inner = Inner { admission: LIMITED, comes_late: true, ignores_lanes: true, ..Inner::default() };
        Process(Arc::new(inner))
    }

    fn state<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.0.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts a row into the lease cache.
    pub fn caching(self, row: Execution) -> Process {
        self.state(|state| state.cached.insert(row.id, row));
        self
    }

    /// Adds a waiting claim.
    pub fn waiting(self, claim: Claim) -> Process {
        self.add_waiting(claim);
        self
    }

    /// Adds a waiting claim while a transaction runs.
    pub fn add_waiting(&self, claim: Claim) {
        self.state(|state| state.waiting.push(claim));
    }

    /// Returns the number of waiting claims.
    pub fn waits(&self) -> usize {
        self.state(|state| state.waiting.len())
    }

    /// Returns the number of cached rows.
    pub fn caches(&self) -> usize {
        self.state(|state| state.cached.len())
    }

    /// Returns the numbers of executions of each class that were offered to waiting claims, one entry per offer.
    pub fn offers(&self) -> Vec<BTreeMap<ClassId, usize>> {
        self.state(|state| state.offers.clone())
    }

    /// Reports whether a transaction has met gates.
    pub fn expects_gates(&self) -> bool {
        self.state(|state| state.expects_gates)
    }

    /// Returns the executions that were reported as unreadable.
    pub fn unreadable(&self) -> Vec<ExecutionId> {
        self.state(|state| state.unreadable.clone())
    }

    /// Creates a transaction of these tasks.
    pub fn driver(&self, tasks: Vec<BoxedTask>) -> Driver<Process> {
        self.0.alone.learn_classes(vec![(CLASS, class())]);
        Driver::new(self.clone(), tasks)
    }
}

fn lanes(claim: &Claim) -> Vec<GateId> {
    claim.scope.lanes.iter().map(|lane| lane_gate(claim.scope.namespace, lane).id()).collect()
}

impl Host for Process {
    type Task = BoxedTask;
    type Effects = Summary;

    fn effects(&self, _changes: &Changes, summary: Summary) -> Summary {
        summary
    }

    fn classes(&self) -> Arc<Classes> {
        self.0.alone.classes()
    }

    fn learn_classes(&self, classes: Vec<(ClassId, Class)>) {
        self.0.alone.learn_classes(classes);
    }

    fn admission(&self) -> Admission {
        self.0.admission
    }

    fn seed(&self) -> u64 {
        1
    }

    fn take_cached(&self, id: ExecutionId) -> Option<Execution> {
        self.state(|state| state.cached.remove(&id))
    }

    fn take_waiting_claims(
        &self,
        ready: BTreeMap<ClassId, usize>,
        fits: &dyn Fn(&[GateId]) -> bool,
    ) -> Vec<BoxedTask> {
        self.state(|state| {
            let offered: usize = ready.values().sum();
            state.offers.push(ready);
            let fits = |claim: &Claim| self.0.ignores_lanes || fits(&lanes(claim));
            let (mut taken, kept): (Vec<Claim>, Vec<Claim>) = state.waiting.drain(..).partition(fits);
            state.waiting = taken.split_off(offered.min(taken.len()));
            state.waiting.extend(kept);
            let task = |claim| Box::new(Queued::new(Claim { handed_only: true, ..claim })) as BoxedTask;
            taken.into_iter().map(task).collect()
        })
    }

    fn waiting_lanes(&self, classes: &BTreeSet<ClassId>) -> Vec<GateId> {
        if self.0.comes_late || !classes.contains(&CLASS) {
            return Vec::new();
        }
        self.state(|state| state.waiting.iter().flat_map(lanes).collect())
    }

    fn lane_shares(&self) -> LaneShares {
        self.state(|state| state.shares.clone())
    }

    fn keep_lane_shares(&self, shares: &LaneShares) {
        self.state(|state| state.shares = shares.clone());
    }

    fn expect_gates(&self) {
        self.state(|state| state.expects_gates = true);
    }

    fn report_unreadable(&self, execution: ExecutionId, _detail: &str) {
        self.state(|state| state.unreadable.push(execution));
    }
}
