//! A process around transactions: a lease cache and waiting claims that a test fills.

use super::table::{CLASS, class};
use selvedge_core::driver::{Admission, Alone, Driver, Host};
use selvedge_core::gate::draws::lane_gate;
use selvedge_core::rule::{Envelope, Task};
use selvedge_core::rules::claim::Claim;
use selvedge_core::work::LaneShares;
use selvedge_core::{Class, ClassId, Classes, Execution, ExecutionId, GateId};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

/// Lanes that limit something.
pub const LIMITED: Admission = Admission { lanes: true, limits: true, gates: false };

/// A process whose transactions a test watches. It knows the one class. Default: no lanes, no gates, an empty cache.
#[derive(Clone, Default)]
pub struct Process(Arc<Inner>);

#[derive(Default)]
struct Inner {
    alone: Alone<Box<dyn Task>>,
    admission: Admission,
    /// Waiting claims come only after the driver has asked for their lanes.
    comes_late: bool,
    /// Waiting claims are taken along although their lanes do not fit.
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
    /// A process that knows this much of lanes and gates.
    pub fn with(admission: Admission) -> Process {
        Process(Arc::new(Inner { admission, ..Inner::default() }))
    }

    /// A process with limited lanes, in which a claim begins to wait after the driver has asked for the lanes of waiting claims.
    pub fn with_late_claims() -> Process {
        Process(Arc::new(Inner { admission: LIMITED, comes_late: true, ..Inner::default() }))
    }

    /// The same, and claims are taken along whether their lanes fit or not.
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

    /// A claim begins to wait.
    pub fn add_waiting(&self, claim: Claim) {
        self.state(|state| state.waiting.push(claim));
    }

    /// How many claims wait.
    pub fn waits(&self) -> usize {
        self.state(|state| state.waiting.len())
    }

    /// How many rows are in the lease cache.
    pub fn caches(&self) -> usize {
        self.state(|state| state.cached.len())
    }

    /// How many executions of each class were offered to waiting claims, one entry for each offer.
    pub fn offers(&self) -> Vec<BTreeMap<ClassId, usize>> {
        self.state(|state| state.offers.clone())
    }

    /// Whether a transaction has come across gates.
    pub fn expects_gates(&self) -> bool {
        self.state(|state| state.expects_gates)
    }

    /// The executions that were reported as unreadable.
    pub fn unreadable(&self) -> Vec<ExecutionId> {
        self.state(|state| state.unreadable.clone())
    }

    /// A transaction of these tasks in this process.
    pub fn driver(&self, tasks: Vec<Box<dyn Task>>) -> Driver<Process> {
        self.0.alone.learn_classes(vec![(CLASS, class())]);
        Driver::new(self.clone(), tasks)
    }
}

fn lanes(claim: &Claim) -> Vec<GateId> {
    claim.scope.lanes.iter().map(|lane| lane_gate(claim.scope.namespace, lane).id()).collect()
}

impl Host for Process {
    type Task = Box<dyn Task>;

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
    ) -> Vec<Box<dyn Task>> {
        self.state(|state| {
            let offered: usize = ready.values().sum();
            state.offers.push(ready);
            let fits = |claim: &Claim| self.0.ignores_lanes || fits(&lanes(claim));
            let (mut taken, kept): (Vec<Claim>, Vec<Claim>) = state.waiting.drain(..).partition(fits);
            state.waiting = taken.split_off(offered.min(taken.len()));
            state.waiting.extend(kept);
            let task = |claim| Box::new(Envelope::new(Claim { handed_only: true, ..claim })) as Box<dyn Task>;
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
