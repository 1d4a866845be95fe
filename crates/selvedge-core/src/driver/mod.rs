//! The transaction driver: loads the rows that the rules of a batch need, decides the rules in the order of their
//! phases, and returns the changes to save. The engine, the conformance suite and the tests of core all run rules
//! through it.
//!
//! A transaction has two parts. In the first, every rule but the claims is decided, completions are propagated to their
//! downstreams, and opened gates release held executions. After that all waiting executions are known. In the second
//! part, waiting claims of this process join the transaction, the rows that claims carry are loaded, and the claims are
//! decided. The time of the transaction is fixed between the parts, and the second part takes no locks. Large payloads
//! are loaded last, for the executions that the claims hand out.
//!
//! A transaction is retried when the store finds that the version of a row has changed. A retry uses no cached rows; it
//! reads all of them. If a payload of an execution that a claim hands out is unreadable, the transaction is decided again
//! without that execution.

mod candidates;
mod host;
mod loading;

pub use crate::kinds::Stage;
pub use host::{Admission, Alone, Host};
pub use loading::{Loading, LockPlan, UnrequestedExecutions, Violation};

use crate::gate::GateName;
use crate::gate::draws::fairness_line_of;
use crate::rows::{Changes, Needs, Rows};
use crate::rule::{IfLocked, LeaseEffect, Phase, Task};
use crate::rules::flows::join;
use crate::rules::{gates, waitpoint};
use crate::table::Access;
use crate::work::Context;
use crate::{ClassId, Entropy, Execution, ExecutionId, Timestamp, Work};
use candidates::Search;
use host::Cached;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

/// The next step of a decision. Created a few times per transaction, so its size does not matter.
#[allow(clippy::large_enum_variant)]
pub enum Demand {
    /// Load more rows in the same transaction.
    Load(Needs),
    /// Save these changes and commit. If they are empty, there is nothing to commit.
    Save(Box<Changes>),
    /// Roll back, for this reason: a defect of a rule. Nothing is saved.
    Abort(String),
}

/// A transaction in progress.
pub struct Driver<H: Host> {
    host: H,
    tasks: Vec<H::Task>,
    /// Waiting claims of this process that joined the transaction.
    handed: Vec<H::Task>,
    /// Number of executions of each class that were offered to waiting claims.
    offered: BTreeMap<ClassId, usize>,
    admission: Admission,
    work: Work,
    loading: Loading,
    search: Search,
    cached: Cached,
    /// Executions that are locked only if no other transaction has locked them.
    if_free: HashSet<ExecutionId>,
    /// Executions whose leases no rule of the transaction ends. Nothing is given back to their gates, so the gates are
    /// not loaded.
    stay_leased: HashSet<ExecutionId>,
    /// The rows that were requested last.
    asked: Needs,
    /// Executions that claims would have handed out although a part of them is unreadable, with the reason.
    damaged: Vec<(ExecutionId, String)>,
    part: Part,
    effects: H::Effects,
    patience: Option<Duration>,
}

/// The part of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Rows are loaded, and no rule is decided yet.
    Loading,
    /// All rules but the claims are decided.
    Claiming,
    /// All rules are decided, and the large payloads that claims carry are loaded.
    Carrying,
}

/// Facts about a decided transaction that are not part of its changes.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// The time of the transaction.
    pub now: Timestamp,
    /// Classes for which waiting claims must be woken up after the commit.
    pub ready: Vec<ClassId>,
    /// Lanes that may admit more: slots were given back to them, or they were configured.
    pub opened_lanes: Vec<GateName>,
    /// Executions whose lease ended, each with the time of its claim.
    pub ended_leases: Vec<(ExecutionId, Timestamp)>,
}

impl<H: Host> Driver<H> {
    /// Returns a transaction of these tasks that has not begun.
    pub fn new(host: H, tasks: Vec<H::Task>) -> Self {
        Driver {
            host,
            tasks,
            handed: Vec::new(),
            offered: BTreeMap::new(),
            admission: Admission::default(),
            work: Work::default(),
            loading: Loading::default(),
            search: Search::default(),
            cached: Cached::default(),
            if_free: HashSet::new(),
            stay_leased: HashSet::new(),
            asked: Needs::default(),
            damaged: Vec::new(),
            part: Part::Loading,
            effects: H::Effects::default(),
            patience: None,
        }
    }

    /// Limits the time of each statement, which includes its waits for locks. Default: the limits of the store.
    pub fn with_patience(self, patience: Option<Duration>) -> Self {
        Driver { patience, ..self }
    }

    /// Returns the time limit of each statement, if it has one of its own.
    pub fn patience(&self) -> Option<Duration> {
        self.patience
    }

    /// Takes the effects of the last decision. Valid only if the transaction committed.
    pub fn take_effects(&mut self) -> H::Effects {
        std::mem::take(&mut self.effects)
    }

    /// Takes the tasks of the transaction, and the waiting claims that joined it.
    pub fn take_tasks(&mut self) -> (Vec<H::Task>, Vec<H::Task>) {
        (std::mem::take(&mut self.tasks), std::mem::take(&mut self.handed))
    }

    /// Iterates over all tasks, with the waiting claims that joined.
    fn all(&self) -> impl Iterator<Item = &H::Task> {
        self.tasks.iter().chain(&self.handed)
    }

    /// Begins the transaction, or begins it again from an empty state: `again` is the number of earlier tries. Returns
    /// the first load.
    pub fn begin(&mut self, again: u32) -> Needs {
        self.tasks.iter_mut().chain(&mut self.handed).for_each(Task::reset);
        self.admission = self.host.admission();
        self.work = Work::begin(Context {
            entropy: Entropy::seeded(self.host.seed()),
            classes: self.host.classes(),
            shares: self.host.lane_shares(),
            repeated: again > 0,
            lanes: self.admission.lanes,
        });
        if again == 0 {
            self.damaged.clear();
        }
        self.work.add_unreadable(self.damaged.iter().cloned());
        (self.part, self.search) = (Part::Loading, Search::behind(self.damaged.iter().map(|(id, _)| *id)));
        let offered = self.tasks.iter().flat_map(|task| task.profile().makes_ready.iter().copied());
        self.offer(offered.collect());
        if again == 0 {
            self.cached = Cached::take(&self.host, &self.tasks);
            self.cached.take_rows().into_iter().for_each(|row| self.work.add_cached(row));
        } else {
            self.cached.forget();
        }
        self.stay_leased = stay_leased(&self.tasks);
        let needs = self.first_needs();
        let locks_executions = needs.executions.has(Access::Lock) || needs.executions.has(Access::LockIfFree);
        self.loading = Loading::new(LockPlan {
            later_executions: self.tasks.iter().any(|task| task.profile().locks.later_executions),
            lanes_last: self.admission.limits && locks_executions,
            limits: self.admission.limits,
            gates: self.admission.gates,
            several: self.tasks.len() + self.handed.len() > 1,
        });
        // The first load cannot violate the lock order.
        self.asked = self.loading.next(needs).ok().flatten().unwrap_or_default();
        self.pass_refusing_gates();
        self.asked.clone()
    }

    /// Adds loaded rows, and returns the next step.
    pub fn next(&mut self, mut rows: Rows) -> Demand {
        self.inform_host(&mut rows);
        if let Some(damaged) = self.damaged_in(&rows) {
            self.damaged.extend(damaged);
            return Demand::Load(self.begin(1));
        }
        let late_candidates = self.search.record(&rows);
        self.work.load(&std::mem::take(&mut self.asked), rows);
        for id in late_candidates {
            // Its fairness line was locked before the candidate was found: it stays for the next claim.
            let line = self.work.find(id).ok().flatten().and_then(fairness_line_of);
            if line.is_some_and(|line| self.work.has_requested_gate(line.id())) {
                self.work.withhold(id);
            }
        }
        if self.work.gated().next().is_some() {
            self.host.expect_gates();
            self.loading.expect_gates();
        }
        self.proceed().unwrap_or_else(|violation| Demand::Abort(violation.to_string()))
    }

    /// Decides the rules once all rows are loaded; until then, returns the next load.
    fn proceed(&mut self) -> Result<Demand, Violation> {
        loop {
            let needs = self.needs();
            if let Some(needs) = self.loading.next(needs)? {
                self.asked = needs;
                self.pass_refusing_gates();
                return Ok(Demand::Load(self.asked.clone()));
            }
            match self.part {
                Part::Loading => {}
                Part::Claiming => {
                    let closing: Vec<ExecutionId> = self.work.closing().collect();
                    closing.into_iter().for_each(|id| waitpoint::close_unneeded(&mut self.work, id));
                    self.decide(|phase| phase == Phase::Claims);
                    self.part = Part::Carrying;
                    continue;
                }
                Part::Carrying => return self.finish().map(|changes| Demand::Save(Box::new(changes))),
            }
            if let Some(needs) = self.search.further(self.wanted(), &self.work) {
                let needs = self.loading.candidates_again(needs)?;
                return Ok(self.load(needs));
            }
            self.decide(|phase| phase < Phase::Claims);
            let downstreams = self.work.unpropagated_downstreams();
            let locked: HashSet<ExecutionId> =
                downstreams.into_iter().filter(|id| self.is_locked(*id)).collect();
            let loading = &self.loading;
            join::propagate(&mut self.work, |id| locked.contains(&id), |flow| loading.locks_flow(flow));
            gates::release_opened(&mut self.work);
            self.work.stop_clock();
            self.loading.close();
            self.part = Part::Claiming;
            self.offer(self.work.newly_waiting_classes());
        }
    }

    /// Returns the executions that claims hand out and of which these rows say that a part is unreadable.
    fn damaged_in(&self, rows: &Rows) -> Option<Vec<(ExecutionId, String)>> {
        if self.part != Part::Carrying {
            return None;
        }
        let Needs { whole_inputs, queries, .. } = &self.asked;
        let carried: HashSet<&ExecutionId> = whole_inputs.keys().chain(&queries.records).collect();
        let damaged = rows.unreadable.iter().filter(|(id, _)| carried.contains(id));
        Some(damaged.cloned().collect()).filter(|damaged: &Vec<_>| !damaged.is_empty())
    }

    /// Names the gates that refuse many candidates of the first search, so that the search also finds executions behind
    /// those. Their gates are locked together with the others.
    fn pass_refusing_gates(&mut self) {
        let queries = &mut self.asked.queries;
        if !queries.candidates.is_empty() && self.admission.gates {
            let classes: BTreeSet<ClassId> =
                queries.candidates.iter().flat_map(|asked| asked.classes.iter().copied()).collect();
            queries.refusing = self.host.refusing_gates(&classes);
        }
    }

    /// Remembers the requested rows, and demands them.
    fn load(&mut self, needs: Needs) -> Demand {
        self.asked = needs.clone();
        Demand::Load(needs)
    }

    /// Passes classes, gates and unreadable rows on to the host.
    fn inform_host(&mut self, rows: &mut Rows) {
        let classes = std::mem::take(&mut rows.found.classes);
        if !classes.is_empty() {
            self.host.learn_classes(classes);
            self.work.set_classes(self.host.classes());
        }
        for (execution, detail) in &rows.unreadable {
            self.host.report_unreadable(*execution, detail);
        }
        self.host.see_gates(&rows.gates);
    }

    /// Lets waiting claims join for executions that are waiting or will be: `classes` has one entry for each execution.
    /// An execution that was offered before is not offered again.
    fn offer(&mut self, classes: Vec<ClassId>) {
        if classes.is_empty() {
            return;
        }
        let mut offered: BTreeMap<ClassId, usize> = BTreeMap::new();
        classes.into_iter().for_each(|class| *offered.entry(class).or_default() += 1);
        for (class, count) in &mut offered {
            let before = self.offered.entry(*class).or_default();
            let more = count.saturating_sub(*before);
            *before = (*before).max(*count);
            *count = more;
        }
        offered.retain(|_, count| *count > 0);
        if offered.is_empty() {
            return;
        }
        let (work, limits) = (&self.work, self.admission.limits && self.part == Part::Claiming);
        // Limited lanes are locked only in the first part: a claim whose lanes are not locked keeps waiting.
        let fits =
            |lanes: &[crate::GateId]| !limits || lanes.iter().all(|lane| work.has_requested_gate(*lane));
        self.handed.extend(self.host.take_waiting_claims(offered, &fits));
    }

    /// Returns the rows that the tasks need, given those loaded so far.
    fn needs(&mut self) -> Needs {
        let mut needs = Needs::default();
        match self.part {
            Part::Claiming => {
                let claims = self.all().filter(|task| task.phase() == Phase::Claims);
                claims.for_each(|task| task.needs(&self.work, &mut needs));
                needs.queries.waitpoints.extend(self.work.closing());
            }
            Part::Carrying => {
                let all = self.tasks.iter_mut().chain(&mut self.handed);
                let claims = all.filter(|task| task.phase() == Phase::Claims);
                claims.for_each(|task| task.carry(&self.work, &mut needs));
                return needs;
            }
            Part::Loading => {
                let defers = |task: &&H::Task| matches!(task.profile().if_locked, IfLocked::Defer(_));
                self.all().filter(|task| !defers(task)).for_each(|task| task.needs(&self.work, &mut needs));
                let locked = needs.executions.iter(Access::Lock);
                let waited_for: HashSet<ExecutionId> =
                    locked.filter(|id| self.if_free.contains(id)).copied().collect();
                self.all().filter(defers).for_each(|task| task.needs(&self.work, &mut needs));
                if !self.if_free.is_empty() {
                    needs.executions.retain(|id, access| {
                        access != Access::Lock || !self.if_free.contains(id) || waited_for.contains(id)
                    });
                }
                let skips = |id| !self.is_locked(id) || self.stay_leased.contains(&id);
                gates::needs(&self.work, skips, &mut needs);
                if self.admission.limits && !self.loading.has_passed(Stage::Lanes) {
                    needs.lanes.lock(self.host.waiting_lanes(&self.work.live_classes()));
                }
                // Saving counts the flows of all members in id order. A transaction that locks one flow locks all of them
                // together: locking one alone could deadlock with a transaction that counts. A skipped execution may
                // reopen, and its flow with it. Sessions follow flows, so flows are also locked before sessions.
                let members = || self.work.members_of_flows().filter(|row| self.is_locked(row.id));
                let locks_last = needs.flows.has_locks() || needs.locks_sessions();
                if locks_last || members().any(Execution::is_skipped) {
                    needs.flows.lock(members().filter_map(|row| row.flow));
                }
                self.cached.leave_out(self.admission.gates, &mut needs);
            }
        }
        self.search.only_new(&mut needs.queries.candidates, &self.work);
        needs
    }

    /// Returns the rows of the first load. Signals and operators reach executions in any state, so waiting for their
    /// locks could deadlock with a claim: if the transaction locks several executions, these are locked only if free,
    /// and skipped tasks are retried alone.
    fn first_needs(&mut self) -> Needs {
        self.if_free.clear();
        self.loading = Loading::default();
        let deferrable = |task: &H::Task| match task.profile().if_locked {
            IfLocked::Defer(id) => Some(id),
            IfLocked::Wait | IfLocked::Skip => None,
        };
        let targets: HashSet<ExecutionId> = self.all().filter_map(deferrable).collect();
        if !targets.is_empty() {
            let mut others = Needs::default();
            let never_deferred = self.all().filter(|task| deferrable(task).is_none());
            never_deferred.for_each(|task| task.needs(&self.work, &mut others));
            let waited_for: Vec<ExecutionId> = others.executions.with(Access::Lock);
            let free: HashSet<ExecutionId> =
                targets.into_iter().filter(|id| !waited_for.contains(id)).collect();
            if free.len() + waited_for.len() > 1 {
                self.if_free = free;
            }
        }
        let mut needs = self.needs();
        needs.executions.lock_if_free(self.if_free.iter().copied());
        needs.executions.lock(self.cached.downstreams());
        if self.tasks.iter().any(|task| task.profile().finds > 0) {
            needs.queries.classes_after = Some(self.work.newest_class());
        }
        needs
    }

    /// Reports whether this transaction holds the lock on an execution, or takes it when it saves the execution.
    fn is_locked(&self, id: ExecutionId) -> bool {
        let saved = UnrequestedExecutions { found: self.search.found(), cached: self.cached.ids() };
        !self.work.is_skipped(id) && self.loading.stage_of_saved(id, &saved).is_some()
    }

    /// Returns the number of executions that claims want from the store; 0 if no gate can refuse any.
    fn wanted(&self) -> usize {
        if !self.admission.gates && !self.host.admission().gates {
            return 0;
        }
        self.tasks.iter().map(|task| task.profile().finds).sum()
    }

    /// Decides the tasks of some phases, in the order of the phases.
    fn decide(&mut self, phases: impl Fn(Phase) -> bool) {
        let mut tasks: Vec<&mut H::Task> =
            self.tasks.iter_mut().chain(&mut self.handed).filter(|task| phases(task.phase())).collect();
        tasks.sort_by_key(|task| task.phase());
        for task in tasks {
            let deferred = match task.profile().if_locked {
                IfLocked::Defer(id) => self.work.is_skipped(id),
                IfLocked::Wait | IfLocked::Skip => false,
            };
            if !deferred {
                task.decide(&mut self.work);
                // At once where the waitpoints are loaded: the next rule may need them.
                let loading = &self.loading;
                let closing: Vec<ExecutionId> =
                    self.work.closing().filter(|id| loading.has_waitpoints(*id)).collect();
                closing.into_iter().for_each(|id| waitpoint::close_unneeded(&mut self.work, id));
            }
        }
    }

    /// Returns the changes to save.
    fn finish(&mut self) -> Result<Changes, Violation> {
        self.host.keep_lane_shares(self.work.shares());
        let summary = Summary {
            now: self.work.now(),
            ready: self.work.classes_left_waiting(),
            opened_lanes: self.work.opened_lanes(),
            ended_leases: self.work.take_ended_leases(),
        };
        let changes = std::mem::take(&mut self.work).finish();
        let saved = UnrequestedExecutions { found: self.search.found(), cached: self.cached.ids() };
        self.loading.check_saved(&changes, &saved)?;
        self.effects = self.host.effects(&changes, summary);
        Ok(changes)
    }
}

/// Returns the executions that the tasks name and whose leases no task ends.
fn stay_leased<T: Task>(tasks: &[T]) -> HashSet<ExecutionId> {
    if tasks.iter().any(|task| task.profile().ends_unnamed_leases) {
        return HashSet::new();
    }
    let touched = || tasks.iter().flat_map(|task| task.profile().executions.iter());
    let ends = |lease: LeaseEffect| matches!(lease, LeaseEffect::Ends | LeaseEffect::Any);
    let mut stay: HashSet<ExecutionId> = touched().map(|touch| touch.execution).collect();
    for touch in touched().filter(|touch| ends(touch.lease)) {
        stay.remove(&touch.execution);
    }
    stay
}
