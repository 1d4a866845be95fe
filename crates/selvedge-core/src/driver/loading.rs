//! The order in which a transaction loads and locks its rows.
//!
//! Rules ask for rows, and ask for more once they have seen those. [`Loading`] drops what was asked for before, splits the rest
//! by [`Stage`], and loads the lowest stage first. So every transaction takes its locks in one global order, whichever rules
//! share it, and a rule that would break the order fails its transaction with an error.

use crate::gate::GateId;
use crate::outbox::{OutboxKind, OutboxName};
use crate::rows::{Candidates, Changes, HeldBy, Needs};
use crate::table::{Access, Request};
use crate::{ExecutionId, FlowId, Name, NamespaceId, SessionId};
use std::collections::HashSet;
use std::fmt;

/// The most loads of one transaction. Needs are idempotent and rows are finite, so more means that a rule does not converge.
const LOADS_MAX: u32 = 64;

/// The stages of a transaction, in the global lock order. A store runs the statements of one load in this order, too.
///
/// The variants marked as exceptions step out of the order on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Flows whose growth is serialised.
    Growth,
    /// Executions by id, upstreams and downstreams together. Those that are taken only if free come with them.
    Executions,
    /// Exception: executions that a rule learns of from a key or a node's name. A lock for each key would cost every
    /// transaction; where two transactions meet here, the database aborts one, and it is retried.
    LateExecutions,
    /// Outbox rows.
    Outbox,
    /// Lanes that limit something.
    Lanes,
    /// Exception: lanes that are read late. No lane that this process knows limits anything, so the read locks nothing.
    UnlimitedLanes,
    /// Ready executions, skipping those that are locked.
    Candidates,
    /// Gates other than lanes.
    Gates,
    /// Parts of budgets.
    Parts,
    /// Executions that gates hold, skipping those that are locked.
    Held,
    /// Exception: candidates behind others that cannot be read or are refused, or of a lane that has room only now. The search
    /// skips what is locked, so it never waits.
    CandidatesAgain,
    /// Exception: gates that this process did not expect, locked after flows and sessions. Only the first transaction that meets
    /// a gate after a start can do this: from then on gates are expected.
    LateGates,
    /// Flows. A transaction that holds gates counts flows when it saves, so flows follow gates.
    Flows,
    /// Sessions.
    Sessions,
    /// Exception: executions of the lease cache, which are locked when they are saved. A read for each would cost every
    /// completion; such an execution is alone and goes through no gate.
    CachedExecutions,
    /// Exception: the outbox row of a parent, which the end of its child writes without holding the parent.
    ParentOutbox,
}

/// A rule asked for rows, or changed rows, in a way that breaks the lock order. A defect; fails the transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation(String);

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the lock order is broken: {}", self.0)
    }
}

impl std::error::Error for Violation {}

/// How the rules of a transaction lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockPlan {
    /// Whether a rule may lock executions that it learns of from loaded rows.
    pub later_executions: bool,
    /// Whether lanes wait until all executions are loaded: where lanes are limited, all of them are locked together.
    pub lanes_last: bool,
    /// Whether a lane is known that limits something.
    pub limits: bool,
    /// Whether gates may come: flows and sessions then wait for them.
    pub gates: bool,
}

/// The rows requested so far, and those kept back for a later stage.
#[derive(Debug, Default)]
pub struct Loading {
    plan: LockPlan,
    loaded: Needs,
    kept: Kept,
    reached: Option<Stage>,
    /// Gates were loaded: all at once, in id order.
    loaded_gates: bool,
    /// Parts of budgets were loaded: all at once, in id order.
    loaded_parts: bool,
    /// Gates came that the plan did not expect.
    unexpected_gates: bool,
    loads: u32,
    closed: bool,
}

/// Rows of the later stages, until it is their turn.
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

    fn has_gates(&self) -> bool {
        !self.gates.is_empty() || !self.parts.is_empty() || !self.held.is_empty()
    }
}

impl Loading {
    /// A transaction that has loaded nothing.
    pub fn new(plan: LockPlan) -> Loading {
        Loading { plan, ..Loading::default() }
    }

    /// Gates may come: flows and sessions wait for them from now on.
    pub fn expect_gates(&mut self) {
        self.unexpected_gates |= !self.plan.gates;
        self.plan.gates = true;
    }

    /// No more locks: the rules that change rows were decided. Later loads only read.
    pub fn close(&mut self) {
        self.closed = true;
        self.kept = Kept::default();
    }

    /// Whether a stage was loaded, or one that follows it.
    pub fn has_passed(&self, stage: Stage) -> bool {
        self.reached >= Some(stage)
    }

    /// Reports whether an execution was to be locked by its id. One that was to be locked if free may have been skipped.
    pub fn locks(&self, id: ExecutionId) -> bool {
        self.loaded.executions.locks(&id)
    }

    /// Reports whether a flow is locked.
    pub fn locks_flow(&self, id: FlowId) -> bool {
        self.loaded.flows.locks(&id)
    }

    /// The next load, given what the rules need now; none when everything is loaded.
    pub fn next(&mut self, mut needs: Needs) -> Result<Option<Needs>, Violation> {
        needs.only_new(&mut self.loaded);
        if self.closed {
            needs = self.only_reads(needs);
        }
        self.kept.take_from(&mut needs);
        let mut load = needs;
        let keeps_back = self.plan.later_executions || self.plan.lanes_last;
        if !keeps_back || load.is_empty() {
            load.lanes = self.kept.lanes.take_sorted();
            load.queries.candidates = std::mem::take(&mut self.kept.candidates);
        }
        let after_gates = self.plan.gates || self.kept.has_gates();
        if !after_gates
            && (!keeps_back
                || load.is_empty()
                || !load.lanes.is_empty()
                || !load.queries.candidates.is_empty())
        {
            self.take_last(&mut load);
        }
        if load.is_empty() {
            self.take_gates(&mut load);
        }
        if load.is_empty() {
            self.take_last(&mut load);
        }
        if load.is_empty() {
            return Ok(None);
        }
        self.check(&load)?;
        Ok(Some(load))
    }

    /// A load of more candidates, behind those that were found.
    pub fn candidates_again(&mut self, needs: Needs) -> Result<Needs, Violation> {
        self.enter(Stage::CandidatesAgain)?;
        Ok(needs)
    }

    /// Adds flows and sessions, the last rows to be locked.
    fn take_last(&mut self, load: &mut Needs) {
        let flows = self.kept.flows.take_sorted();
        load.flows.add(Access::Lock, flows.with(Access::Lock));
        let sessions = self.kept.sessions.take_sorted();
        load.sessions.add(Access::Lock, sessions.with(Access::Lock));
        load.queries.instances = std::mem::take(&mut self.kept.instances);
    }

    /// Adds the lowest stage of gates. A gate that is requested after its stage is left out: executions whose gates are not loaded
    /// are not handed out, and stay for the next transaction.
    fn take_gates(&mut self, load: &mut Needs) {
        let in_time = |reached: Option<Stage>, stage: Stage| reached < Some(stage) || self.unexpected_gates;
        let (gates_in_time, parts_in_time) =
            (in_time(self.reached, Stage::Gates), in_time(self.reached, Stage::Parts));
        let held_in_time = in_time(self.reached, Stage::Flows);
        let gates = self.kept.gates.take_sorted();
        if !gates.is_empty() && !self.loaded_gates && gates_in_time {
            self.loaded_gates = true;
            load.gates = gates;
            return;
        }
        let parts = self.kept.parts.take_sorted();
        if !parts.is_empty() && !self.loaded_parts && parts_in_time {
            self.loaded_parts = true;
            load.parts = parts;
            return;
        }
        let held = std::mem::take(&mut self.kept.held);
        if held_in_time {
            load.queries.held = held;
        }
    }

    /// Leaves out everything that locks, once the rules that change rows were decided: an execution that would need a lock stays
    /// for the next transaction.
    fn only_reads(&self, mut needs: Needs) -> Needs {
        let Needs {
            growing,
            nodes: _,
            executions,
            inputs: _,
            relatives: _,
            keys: _,
            outbox,
            lanes,
            gates,
            parts,
            flows,
            sessions,
            streams: _,
            summaries: _,
            steps: _,
            queries,
        } = &mut needs;
        let read = |access: Access| access == Access::Read;
        growing.retain(|_, access| read(access));
        executions.retain(|_, access| read(access));
        outbox.retain(|_, access| read(access));
        gates.retain(|_, access| read(access));
        parts.retain(|_, access| read(access));
        flows.retain(|_, access| read(access));
        sessions.retain(|_, access| read(access));
        // A lane that limits nothing is only read.
        lanes.retain(|_, access| read(access) || !self.plan.limits);
        queries.candidates.clear();
        queries.except.clear();
        queries.held.clear();
        queries.instances.clear();
        needs
    }

    /// Checks a load against the stages that were loaded before it.
    fn check(&mut self, load: &Needs) -> Result<(), Violation> {
        self.loads += 1;
        if self.loads > LOADS_MAX {
            return Err(Violation(format!("the rules still ask for rows after {LOADS_MAX} loads")));
        }
        let queries = &load.queries;
        let asks = [
            (load.growing.has_locks(), Stage::Growth),
            (load.executions.has_locks(), self.stage_of_executions()),
            (load.outbox.has_locks(), Stage::Outbox),
            (load.lanes.has_locks(), self.stage_of_lanes()),
            (!queries.candidates.is_empty(), self.or_exception(Stage::Candidates, Stage::CandidatesAgain)),
            (load.gates.has_locks(), self.or_exception(Stage::Gates, Stage::LateGates)),
            (load.parts.has_locks(), self.or_exception(Stage::Parts, Stage::LateGates)),
            (!queries.held.is_empty(), self.or_exception(Stage::Held, Stage::LateGates)),
            (load.flows.has_locks(), Stage::Flows),
            (load.sessions.has_locks() || !queries.instances.is_empty(), Stage::Sessions),
        ];
        for stage in asks.into_iter().filter(|(asked, _)| *asked).map(|(_, stage)| stage) {
            self.enter(stage)?;
        }
        Ok(())
    }

    fn stage_of_executions(&self) -> Stage {
        match self.reached >= Some(Stage::Executions) && self.plan.later_executions {
            true => Stage::LateExecutions,
            false => Stage::Executions,
        }
    }

    fn stage_of_lanes(&self) -> Stage {
        match self.reached >= Some(Stage::Lanes) && !self.plan.limits {
            true => Stage::UnlimitedLanes,
            false => Stage::Lanes,
        }
    }

    /// The stage, or the exception that stands for it once a later one was loaded.
    fn or_exception(&self, stage: Stage, exception: Stage) -> Stage {
        if self.reached > Some(stage) { exception } else { stage }
    }

    fn enter(&mut self, stage: Stage) -> Result<(), Violation> {
        let reached = self.reached;
        let allowed = match stage {
            // They may come in several loads, while nothing of a later stage is locked.
            Stage::Growth
            | Stage::Outbox
            | Stage::Candidates
            | Stage::Held
            | Stage::Flows
            | Stage::Sessions => reached <= Some(stage),
            Stage::LateExecutions => reached < Some(Stage::Lanes),
            Stage::LateGates => self.unexpected_gates,
            Stage::UnlimitedLanes
            | Stage::CandidatesAgain
            | Stage::CachedExecutions
            | Stage::ParentOutbox => true,
            // Locked all at once, in the order of their ids.
            Stage::Executions | Stage::Lanes | Stage::Gates | Stage::Parts => reached < Some(stage),
        };
        match (allowed, reached) {
            (false, Some(reached)) => Err(Violation(format!("{stage:?} asked for after {reached:?}"))),
            (true, _) | (false, None) => {
                let moves =
                    !matches!(stage, Stage::UnlimitedLanes | Stage::CandidatesAgain | Stage::LateGates);
                self.reached = if moves { reached.max(Some(stage)) } else { reached };
                Ok(())
            }
        }
    }

    /// Checks that every execution and outbox row that is saved was locked, or is one of the exceptions.
    pub fn check_saved(&self, changes: &Changes, saved: &Saved<'_>) -> Result<(), Violation> {
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
        Ok(())
    }

    /// The stage in which an execution was locked; none if it was not.
    pub fn stage_of_saved(&self, id: ExecutionId, saved: &Saved<'_>) -> Option<Stage> {
        if self.locks(id) {
            return Some(Stage::Executions);
        }
        if saved.found.contains(&id) {
            return Some(Stage::Candidates);
        }
        saved.cached.contains(&id).then_some(Stage::CachedExecutions)
    }

    /// The stage whose lock covers an outbox row: its own, or that of the execution or flow it is about.
    fn stage_of_outbox(&self, name: OutboxName, changes: &Changes, saved: &Saved<'_>) -> Option<Stage> {
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

/// The executions that a transaction may save without having asked for them by id.
pub struct Saved<'a> {
    /// Candidates and held executions, which were locked when they were found.
    pub found: &'a HashSet<ExecutionId>,
    /// Executions from the lease cache.
    pub cached: &'a HashSet<ExecutionId>,
}
