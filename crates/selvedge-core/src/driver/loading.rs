//! The order in which a transaction loads and locks its rows.
//!
//! Rules ask for rows, and for more once those are loaded. [`Loading`] drops the rows that were requested before,
//! splits the rest by [`Stage`], and loads the lowest stage first. So every transaction takes its locks in one global
//! order, whichever rules share it. A rule that would violate the order fails its transaction with an error.

use crate::gate::GateId;
use crate::kinds::{Order, Stage};
use crate::outbox::{OutboxKind, OutboxName};
use crate::rows::{Candidates, Changes, HeldBy, Needs};
use crate::table::{Access, Request};
use crate::{ExecutionId, FlowId, Name, NamespaceId, SessionId};
use std::collections::HashSet;
use std::fmt;

/// Maximum number of loads in one transaction. Needs are idempotent and rows are finite, so more means that a rule does
/// not converge.
const LOADS_MAX: u32 = 64;

/// A violation of the lock order: a rule asked for rows too late, or changed rows that are not locked. A defect; fails
/// the transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation(String);

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the lock order is broken: {}", self.0)
    }
}

impl std::error::Error for Violation {}

/// The kinds of locks that the rules of a transaction may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockPlan {
    /// A rule may lock executions that it finds through loaded rows.
    pub later_executions: bool,
    /// Lanes are loaded after all executions: if lanes have limits, all of them are locked together.
    pub lanes_last: bool,
    /// A lane with limits is known.
    pub limits: bool,
    /// Gates may be requested: flows and sessions are then loaded after them.
    pub gates: bool,
    /// Several rules share the transaction: one may count the flow of an execution while another locks its own flow.
    pub several: bool,
}

/// The progress of a transaction's loads: the rows requested so far, and the rows kept for a later stage.
#[derive(Debug, Default)]
pub struct Loading {
    plan: LockPlan,
    loaded: Needs,
    kept: Kept,
    reached: Option<Stage>,
    /// Gates were loaded. They are loaded all at once, in id order.
    loaded_gates: bool,
    /// Parts of budgets were loaded. They are loaded all at once, in id order.
    loaded_parts: bool,
    /// Gates are needed that the plan did not expect.
    unexpected_gates: bool,
    loads: u32,
    /// Candidates were searched again, as [`Stage::CandidatesAgain`] allows.
    searched_again: bool,
    closed: bool,
}

/// Requested rows of later stages that are not loaded yet.
#[derive(Debug, Default)]
struct Kept {
    lanes: Request<GateId>,
    candidates: Vec<Candidates>,
    gates: Request<GateId>,
    parts: Request<GateId>,
    held: Vec<HeldBy>,
    flows: Request<FlowId>,
    sessions: Request<SessionId>,
    instances: Vec<(NamespaceId, Name)>,
}

impl Kept {
    /// Moves the rows of the later stages out of `needs`.
    fn take_from(&mut self, needs: &mut Needs) {
        self.lanes.take_locks(&mut needs.lanes);
        self.candidates.append(&mut needs.queries.candidates);
        self.gates.take_locks(&mut needs.gates);
        self.parts.take_locks(&mut needs.parts);
        self.held.append(&mut needs.queries.held);
        self.flows.take_locks(&mut needs.flows);
        self.sessions.take_locks(&mut needs.sessions);
        self.instances.append(&mut needs.queries.instances);
    }

    fn has_sessions(&self) -> bool {
        !self.sessions.is_empty() || !self.instances.is_empty()
    }

    fn has_gates(&self) -> bool {
        !self.gates.is_empty() || !self.parts.is_empty() || !self.held.is_empty()
    }
}

impl Loading {
    /// Reports whether the waitpoints of an execution were loaded.
    pub fn has_waitpoints(&self, of: ExecutionId) -> bool {
        self.loaded.queries.waitpoints.binary_search(&of).is_ok()
    }

    /// Returns the state of a transaction that has loaded nothing.
    pub fn new(plan: LockPlan) -> Loading {
        Loading { plan, ..Loading::default() }
    }

    /// Records that gates may be requested. From now on, flows and sessions are loaded after them.
    pub fn expect_gates(&mut self) {
        self.unexpected_gates |= !self.plan.gates;
        self.plan.gates = true;
    }

    /// Ends locking, because the rules that lock rows are decided. Later loads only read; rows still kept are dropped.
    pub fn close(&mut self) {
        self.closed = true;
        self.kept = Kept::default();
    }

    /// Reports whether this stage or a later one was loaded.
    pub fn has_passed(&self, stage: Stage) -> bool {
        self.reached >= Some(stage)
    }

    /// Reports whether an execution was to be locked by its id. An execution that was to be locked if free may have
    /// been skipped.
    pub fn locks(&self, id: ExecutionId) -> bool {
        self.loaded.executions.locks(&id)
    }

    /// Reports whether a flow is locked.
    pub fn locks_flow(&self, id: FlowId) -> bool {
        self.loaded.flows.locks(&id)
    }

    /// Returns the next load, given the rows that the rules need now; none if everything is loaded.
    ///
    /// The loads of a transaction are, in this order: rows up to the outbox, again and again while rules ask for more;
    /// lanes and candidates; gates, one stage at a time; flows and sessions. A later group joins an earlier load, which
    /// saves a round trip, if no rule can ask for rows between the two.
    pub fn next(&mut self, mut needs: Needs) -> Result<Option<Needs>, Violation> {
        needs.only_new(&mut self.loaded);
        if self.closed {
            needs = self.only_reads(needs);
        }
        self.kept.take_from(&mut needs);
        let mut load = needs;
        if load.is_empty() || !self.executions_may_follow() {
            self.take_lanes(&mut load);
        }
        if load.is_empty() {
            self.take_gates(&mut load);
            if load.is_empty() {
                self.take_last(&mut load);
            }
        } else if !self.rows_before_flows_may_follow(&load) {
            self.take_last(&mut load);
        }
        if load.is_empty() {
            return Ok(None);
        }
        self.check(&load)?;
        Ok(Some(load))
    }

    /// Returns a load of more candidates, behind those that were found.
    pub fn candidates_again(&mut self, needs: Needs) -> Result<Needs, Violation> {
        self.enter(Stage::CandidatesAgain)?;
        self.searched_again = true;
        Ok(needs)
    }

    /// Reports whether more executions may have to be locked before the lanes and candidates.
    fn executions_may_follow(&self) -> bool {
        self.plan.later_executions || self.plan.lanes_last
    }

    /// Reports whether rows that precede flows and sessions may be requested after this load.
    fn rows_before_flows_may_follow(&self, load: &Needs) -> bool {
        let gates = self.plan.gates || self.kept.has_gates();
        let has_no_lanes = load.lanes.is_empty() && load.queries.candidates.is_empty();
        let lanes = self.executions_may_follow() && has_no_lanes;
        // The flows of these executions are known once the executions are loaded. They are locked together with the flows
        // of other rules, before the sessions.
        let finds_members = load.executions.has_locks() || !load.queries.candidates.is_empty();
        let meets_flows = self.plan.several && !self.kept.flows.is_empty();
        let flows_of_members = finds_members && (meets_flows || self.kept.has_sessions());
        gates || lanes || flows_of_members
    }

    /// Adds lanes and candidates to the load.
    fn take_lanes(&mut self, load: &mut Needs) {
        load.lanes = self.kept.lanes.take_sorted();
        load.queries.candidates = std::mem::take(&mut self.kept.candidates);
    }

    /// Adds flows and sessions to the load. They are the last rows to be locked.
    fn take_last(&mut self, load: &mut Needs) {
        let flows = self.kept.flows.take_sorted();
        load.flows.add(Access::Lock, flows.with(Access::Lock));
        let sessions = self.kept.sessions.take_sorted();
        load.sessions.add(Access::Lock, sessions.with(Access::Lock));
        load.queries.instances = std::mem::take(&mut self.kept.instances);
    }

    /// Adds the lowest stage of gates to the load. A gate that is requested after its stage is left out: executions
    /// whose gates are not loaded cannot be claimed, and stay for the next transaction.
    fn take_gates(&mut self, load: &mut Needs) {
        let (reached, unexpected) = (self.reached, self.unexpected_gates);
        let in_time = |stage: Stage| reached < Some(stage) || unexpected;
        let gates = self.kept.gates.take_sorted();
        if !gates.is_empty() && !self.loaded_gates && in_time(Stage::Gates) {
            self.loaded_gates = true;
            load.gates = gates;
            return;
        }
        let parts = self.kept.parts.take_sorted();
        if !parts.is_empty() && !self.loaded_parts && in_time(Stage::Parts) {
            self.loaded_parts = true;
            load.parts = parts;
            return;
        }
        let held = std::mem::take(&mut self.kept.held);
        if in_time(Stage::Flows) {
            load.queries.held = held;
        }
    }

    /// Removes everything that locks. An execution that would need another lock to be claimed stays for the next
    /// transaction.
    fn only_reads(&self, mut needs: Needs) -> Needs {
        // Lanes without limits are not locked by the store.
        needs.drop_locks(|stage| stage != Stage::Lanes || self.plan.limits);
        needs.queries.drop_locks();
        needs
    }

    /// Checks a load against the stages that were loaded before it.
    fn check(&mut self, load: &Needs) -> Result<(), Violation> {
        self.loads += 1;
        if self.loads > LOADS_MAX {
            return Err(Violation(format!("the rules still ask for rows after {LOADS_MAX} loads")));
        }
        let mut stages: Vec<Stage> = load.locked_stages().chain(load.queries.locked_stages()).collect();
        stages.sort_unstable();
        stages.dedup();
        for stage in stages {
            self.enter(self.or_exception(stage))?;
        }
        Ok(())
    }

    /// Returns the stage, or its exception if a stage was loaded that the exception may follow.
    fn or_exception(&self, stage: Stage) -> Stage {
        let (repeated, late) = (self.reached >= Some(stage), self.reached > Some(stage));
        match stage {
            Stage::Executions if repeated && self.plan.later_executions => Stage::LateExecutions,
            Stage::Lanes if repeated && !self.plan.limits => Stage::UnlimitedLanes,
            Stage::Candidates if late => Stage::CandidatesAgain,
            Stage::Gates | Stage::Parts | Stage::Held if late => Stage::LateGates,
            stage => stage,
        }
    }

    /// Records that a stage is loaded, or fails if that violates the lock order.
    fn enter(&mut self, stage: Stage) -> Result<(), Violation> {
        let reached = self.reached;
        let allowed = match stage.order() {
            Order::Again => reached <= Some(stage),
            Order::Once => reached < Some(stage),
            Order::Exception if stage == Stage::LateExecutions => reached < Some(Stage::Lanes),
            Order::Exception if stage == Stage::LateGates => self.unexpected_gates,
            Order::Exception => true,
        };
        match (allowed, reached) {
            (false, Some(reached)) => Err(Violation(format!("{stage:?} requested after {reached:?}"))),
            (true, _) | (false, None) => {
                let moves =
                    !matches!(stage, Stage::UnlimitedLanes | Stage::CandidatesAgain | Stage::LateGates);
                self.reached = if moves { reached.max(Some(stage)) } else { reached };
                Ok(())
            }
        }
    }

    /// Checks that every saved execution and outbox row was locked, or is one of the exceptions, and that a transaction
    /// with locked flows counts no other flow.
    pub fn check_saved(&self, changes: &Changes, saved: &UnrequestedExecutions<'_>) -> Result<(), Violation> {
        let updated = changes.executions.updated.iter().map(|row| row.execution.id);
        for id in updated.chain(changes.executions.deleted.iter().map(|(id, _)| *id)) {
            if self.stage_of_saved(id, saved).is_none() {
                return Err(Violation(format!("execution {id} is changed and was not locked")));
            }
        }
        for row in &changes.outbox.written {
            if self.stage_of_outbox(row.name, changes, saved).is_none() {
                return Err(Violation(format!("outbox row {:?} is written without its owner", row.name)));
            }
        }
        self.check_counted(changes)
    }

    /// Checks that all counted flows are locked, if one is. A deadlock is retried, so only builds with assertions check it.
    fn check_counted(&self, changes: &Changes) -> Result<(), Violation> {
        if !cfg!(debug_assertions) || self.searched_again || !self.loaded.flows.has_locks() {
            return Ok(());
        }
        let is_new = |id: FlowId| changes.flows.inserted.iter().any(|flow| flow.id == id);
        let counted = changes.unread.flow_counts.iter().map(|(id, _)| *id);
        match { counted }.find(|id| !self.loaded.flows.locks(id) && !is_new(*id)) {
            Some(id) => Err(Violation(format!("flow {id} is counted and was not locked with the others"))),
            None => Ok(()),
        }
    }

    /// Returns the stage in which an execution was locked; none if it was not.
    pub fn stage_of_saved(&self, id: ExecutionId, saved: &UnrequestedExecutions<'_>) -> Option<Stage> {
        if self.locks(id) {
            return Some(Stage::Executions);
        }
        if saved.found.contains(&id) {
            return Some(Stage::Candidates);
        }
        saved.cached.contains(&id).then_some(Stage::CachedExecutions)
    }

    /// Returns the stage whose lock protects an outbox row: that of the execution or flow it is about. None if that is
    /// not locked.
    fn stage_of_outbox(
        &self,
        name: OutboxName,
        changes: &Changes,
        saved: &UnrequestedExecutions<'_>,
    ) -> Option<Stage> {
        let is_new = |id: ExecutionId| changes.executions.inserted.iter().any(|row| row.execution.id == id);
        let owner = ExecutionId(name.id);
        match name.kind {
            OutboxKind::Parent => Some(Stage::ParentOutbox),
            OutboxKind::Flow => self.loaded.flows.locks(&FlowId(name.id)).then_some(Stage::Flows),
            OutboxKind::Edges | OutboxKind::Siblings | OutboxKind::Children => {
                self.stage_of_saved(owner, saved).or(is_new(owner).then_some(Stage::Executions))
            }
        }
    }
}

/// The executions that a transaction may save without having requested them by id.
pub struct UnrequestedExecutions<'a> {
    /// Candidates and held executions, which were locked when they were found.
    pub found: &'a HashSet<ExecutionId>,
    /// Executions from the lease cache.
    pub cached: &'a HashSet<ExecutionId>,
}
