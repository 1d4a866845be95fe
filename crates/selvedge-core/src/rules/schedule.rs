//! Schedules: saved, deleted, run at once, and fired.
//!
//! [`FireSchedule`] decides the times that are due. It submits through the rules of submissions, so firing and submission are one
//! transaction: a crash leaves both or neither. The row of the schedule is locked before anything else. A server that comes late
//! finds the position advanced, and does nothing.
//!
//! A claim class is interned before a transaction, so the caller prepares the submission from the specification that it has read
//! ([`PreparedRun`]), and the rule compares the version of the specification.

use super::flows::graft::PlannedGraph;
use super::flows::submit::{FlowSubmission, SubmitFlow};
use super::keyed::Repeatable;
use super::submit::{Submit, SubmitItem, Submitted};
use crate::fact::{self, Fact};
use crate::plan::GraphPlan;
use crate::rows::Needs;
use crate::rule::{Locks, Phase, Profile, Rule};
use crate::schedule::{
    Overlap, QUEUE_MAX, Run, RunResult, RunSubject, Schedule, ScheduleName, ScheduleSpec, ScheduleState,
    Scheduled, TIMES_PER_TRANSACTION, node_id, run_id,
};
use crate::{ClassId, ExecutionId, FlowId, Name, NamespaceId, Refusal, Submission, Timestamp, Work};
use std::sync::Arc;
use uuid::Uuid;

/// The number of nodes that one transaction may insert for one schedule.
const NODES_PER_TRANSACTION: usize = 500;
/// The actor of submissions that a schedule makes.
const ACTOR: &str = "schedule";

fn no_schedule(name: &Name) -> Refusal {
    Refusal::NotFound { what: "schedule".into(), id: name.to_string() }
}

/// Creates or replaces a schedule.
#[derive(Clone, Debug)]
pub struct SaveSchedule {
    pub name: ScheduleName,
    /// The specification, which was checked.
    pub spec: Arc<ScheduleSpec>,
    /// The version that the schedule must have; none if it need not exist, or may have any.
    pub expected_version: Option<u32>,
    pub actor: Name,
}

/// The reply to [`SaveSchedule`].
#[derive(Clone, Debug, PartialEq)]
pub enum SaveReply {
    /// The schedule was saved.
    Saved {
        schedule: Box<Schedule>,
        /// True if it did not exist before.
        created: bool,
    },
    /// The schedule has another version, or does not exist. Nothing changed.
    Changed,
}

impl Rule for SaveSchedule {
    type Reply = SaveReply;
    const PHASE: Phase = Phase::Operators;

    fn profile(&self) -> Profile {
        Profile::weighing(1)
    }

    fn needs(&self, _work: &Work, needs: &mut Needs) {
        needs.schedules.lock([self.name.clone()]);
    }

    /// A schedule with new times, and one that is resumed, begins with the first time from now on.
    fn decide(&self, work: &mut Work) -> SaveReply {
        let now = Timestamp::from_millis(work.now().millis());
        let before = work.row::<Schedule>(&self.name).cloned();
        if self.expected_version.is_some() && self.expected_version != before.as_ref().map(|one| one.version)
        {
            return SaveReply::Changed;
        }
        let created = before.is_none();
        let mut schedule = before.unwrap_or_else(|| Schedule {
            name: self.name.clone(),
            version: 0,
            spec_version: 0,
            spec: self.spec.clone(),
            state: ScheduleState { created_at: now, anchor: now, position: now, ..ScheduleState::default() },
            due_at: None,
        });
        let old = std::mem::replace(&mut schedule.spec, self.spec.clone());
        let retimed = old.timing != self.spec.timing;
        if retimed {
            schedule.state.anchor = now;
        }
        if retimed || old.paused && !self.spec.paused {
            schedule.state.position = schedule.state.position.max(now);
        }
        if retimed || self.spec.overlap != Overlap::Queue {
            schedule.state.queue.clear();
        }
        schedule.version += 1;
        schedule.spec_version = schedule.version;
        schedule.set_due(work.now());
        work.put(schedule.clone());
        let fact = Fact::ScheduleSaved(fact::ScheduleSaved {
            schedule: self.name.name.clone(),
            paused: self.spec.paused,
        });
        work.emit(self.name.namespace, fact, Some(self.actor.clone()));
        SaveReply::Saved { schedule: Box::new(schedule), created }
    }
}

/// Deletes a schedule. Executions and flows that it submitted stay.
#[derive(Clone, Debug)]
pub struct DeleteSchedule {
    pub name: ScheduleName,
    pub actor: Name,
}

impl Rule for DeleteSchedule {
    type Reply = Result<(), Refusal>;
    const PHASE: Phase = Phase::Operators;

    fn profile(&self) -> Profile {
        Profile::weighing(1)
    }

    fn needs(&self, _work: &Work, needs: &mut Needs) {
        needs.schedules.lock([self.name.clone()]);
    }

    fn decide(&self, work: &mut Work) -> Self::Reply {
        if work.row::<Schedule>(&self.name).is_none() {
            return Err(no_schedule(&self.name.name));
        }
        work.remove::<Schedule>(&self.name);
        let fact = Fact::ScheduleDeleted(fact::ScheduleDeleted { schedule: self.name.name.clone() });
        work.emit(self.name.namespace, fact, Some(self.actor.clone()));
        Ok(())
    }
}

/// A checked submission of a schedule, with its interned classes. Few exist at a time, so its size does not matter.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug)]
pub enum PreparedRun {
    Execution {
        submission: Submission,
        class: ClassId,
    },
    Flow {
        submission: FlowSubmission,
        /// The nodes and edges.
        plan: GraphPlan,
        /// The classes of the nodes, in order.
        classes: Vec<ClassId>,
    },
}

/// A submission of one time, as the rule that makes it. Dropped at once, so its size does not matter.
#[allow(clippy::large_enum_variant)]
enum RunRule {
    Execution(Submit),
    Flow(SubmitFlow),
}

impl PreparedRun {
    /// Returns the number of executions of one run.
    pub fn weight(&self) -> usize {
        match self {
            PreparedRun::Execution { .. } => 1,
            PreparedRun::Flow { plan, .. } => plan.nodes().len().max(1),
        }
    }

    fn rule(&self, namespace: NamespaceId, id: Uuid, scheduled: Scheduled, actor: Name) -> RunRule {
        match self {
            PreparedRun::Execution { submission, class } => {
                let id = ExecutionId(id);
                let submission =
                    Submission { id: Some(id), scheduled: Some(scheduled), ..submission.clone() };
                let items = vec![SubmitItem { submission: Ok(submission), class: *class, id }];
                let actor = Some(actor);
                RunRule::Execution(Submit { namespace, items, actor, call_key: None, repeated: false })
            }
            PreparedRun::Flow { submission, plan, classes } => {
                let mut plan = plan.clone();
                for node in &mut plan.nodes {
                    node.submission.scheduled = Some(scheduled.clone());
                }
                let ids = (0..plan.nodes.len()).map(|node| ExecutionId(node_id(id, node))).collect();
                let id = FlowId(id);
                RunRule::Flow(SubmitFlow {
                    namespace,
                    id,
                    submission: submission.by_schedule(Some(id), scheduled),
                    planned: PlannedGraph { plan, ids, classes: classes.clone() },
                    actor: Some(actor),
                    call_key: None,
                    repeated: false,
                })
            }
        }
    }
}

impl RunRule {
    fn needs(&self, work: &Work, needs: &mut Needs) {
        match self {
            RunRule::Execution(rule) => rule.needs(work, needs),
            RunRule::Flow(rule) => rule.needs(work, needs),
        }
    }

    fn decide(&self, work: &mut Work) -> Result<RunSubject, Refusal> {
        match self {
            RunRule::Execution(rule) => {
                let submitted = rule.decide(work).pop().transpose()?;
                submitted
                    .map(|Submitted { execution, .. }| RunSubject::Execution(execution.id))
                    .ok_or_else(|| Refusal::NotFound { what: "execution".into(), id: String::new() })
            }
            RunRule::Flow(rule) => rule.decide(work).map(|done| RunSubject::Flow(done.flow.id)),
        }
    }
}

/// Emits the event of a run.
fn emit_run(work: &mut Work, name: &ScheduleName, run: &Run, actor: Option<Name>) {
    let (schedule, scheduled_at) = (name.name.clone(), run.at);
    let fact = match &run.result {
        RunResult::Started(subject) => Fact::ScheduleFired(fact::ScheduleFired {
            schedule,
            scheduled_at,
            manual: run.manual,
            run: *subject,
        }),
        RunResult::Skipped => Fact::ScheduleSkipped(fact::ScheduleSkipped { schedule, scheduled_at }),
        RunResult::Refused { code, detail } => Fact::ScheduleRefused(fact::ScheduleRefused {
            schedule,
            scheduled_at,
            code: code.clone(),
            detail: detail.clone(),
        }),
    };
    match run.result {
        RunResult::Started(RunSubject::Flow(flow)) => work.record_flow(flow, fact, actor),
        RunResult::Started(RunSubject::Execution(id)) => {
            work.emit_about(name.namespace, Some(id), fact, actor);
        }
        RunResult::Skipped | RunResult::Refused { .. } => work.emit(name.namespace, fact, actor),
    }
}

/// Submits a run at once, also if the schedule is paused or a run lives.
#[derive(Clone, Debug)]
pub struct RunSchedule {
    pub name: ScheduleName,
    pub prepared: PreparedRun,
    /// The id of the execution or flow.
    pub id: Uuid,
    /// The time of the run, before its transaction: the store's.
    pub at: Timestamp,
    pub actor: Name,
}

impl RunSchedule {
    fn rule(&self) -> RunRule {
        // Times that come while it lives may wait for its end.
        let scheduled = Scheduled { schedule: self.name.name.clone(), at: self.at, is_awaited: true };
        self.prepared.rule(self.name.namespace, self.id, scheduled, self.actor.clone())
    }
}

impl Rule for RunSchedule {
    type Reply = Result<RunSubject, Refusal>;
    const PHASE: Phase = Phase::Submissions;

    fn profile(&self) -> Profile {
        Profile {
            locks: Locks { later_executions: true, ..Locks::default() },
            ..Profile::weighing(self.prepared.weight())
        }
    }

    fn needs(&self, work: &Work, needs: &mut Needs) {
        needs.schedules.lock([self.name.clone()]);
        self.rule().needs(work, needs);
    }

    fn decide(&self, work: &mut Work) -> Self::Reply {
        let Some(mut schedule) = work.row::<Schedule>(&self.name).cloned() else {
            return Err(no_schedule(&self.name.name));
        };
        let subject = self.rule().decide(work)?;
        let result = RunResult::Started(subject);
        let run = Run { at: self.at, decided_at: work.now(), manual: true, result };
        emit_run(work, &self.name, &run, Some(self.actor.clone()));
        schedule.add_run(run);
        schedule.version += 1;
        schedule.set_due(work.now());
        work.put(schedule);
        Ok(subject)
    }
}

impl Repeatable for RunSchedule {
    type Done = RunSubject;
    type Answer = RunSubject;

    fn namespace(&self) -> NamespaceId {
        self.name.namespace
    }

    fn answer(done: &RunSubject) -> RunSubject {
        *done
    }

    fn repeat(&self, answer: RunSubject, _work: &Work) -> Result<RunSubject, Refusal> {
        Ok(answer)
    }
}

/// Decides the times of a schedule that are due.
#[derive(Clone, Debug)]
pub struct FireSchedule {
    pub name: ScheduleName,
    /// The version of the specification from which the submission was prepared.
    pub spec_version: u32,
    /// The submission, or the reason why it is refused.
    pub prepared: Result<PreparedRun, Refusal>,
    /// The store's time when the schedule was found. Later times are left to the next tick, so that the rows which the rule
    /// needs do not depend on the duration of the transaction.
    pub upto: Timestamp,
}

/// The reply to [`FireSchedule`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FireReply {
    /// The schedule was due, and its times were decided: this many runs started.
    Decided(usize),
    /// Nothing was due: another server was faster.
    NotDue,
    /// The specification has changed since the submission was prepared, or the schedule is gone.
    Changed,
}

impl FireSchedule {
    /// Returns the schedule, if it has the expected specification and is due.
    fn due<'a>(&self, work: &'a Work) -> Result<&'a Schedule, FireReply> {
        let schedule = work.row::<Schedule>(&self.name).filter(|one| one.spec_version == self.spec_version);
        let schedule = schedule.ok_or(FireReply::Changed)?;
        match schedule.due_at.is_some_and(|at| at <= self.upto) {
            true => Ok(schedule),
            false => Err(FireReply::NotDue),
        }
    }

    fn limit(&self) -> usize {
        let weight = self.prepared.as_ref().map_or(1, PreparedRun::weight);
        (NODES_PER_TRANSACTION / weight).clamp(1, TIMES_PER_TRANSACTION)
    }

    /// Returns the rule that submits a time.
    fn rule(&self, at: Timestamp, overlap: Overlap) -> Result<RunRule, Refusal> {
        let is_awaited = overlap == Overlap::Queue;
        let scheduled = Scheduled { schedule: self.name.name.clone(), at, is_awaited };
        let prepared = self.prepared.as_ref().map_err(Clone::clone)?;
        Ok(prepared.rule(self.name.namespace, run_id(&self.name, at), scheduled, Name::trusted(ACTOR)))
    }

    /// Submits a time. None if that was done before, under a schedule of the same name that has been deleted since.
    fn start(&self, at: Timestamp, overlap: Overlap, work: &mut Work) -> Option<RunResult> {
        let id = run_id(&self.name, at);
        let exists = !matches!(work.find(ExecutionId(id)), Ok(None)) || work.find_flow(FlowId(id)).is_some();
        if exists {
            return None;
        }
        Some(match self.rule(at, overlap).and_then(|rule| rule.decide(work)) {
            Ok(subject) => RunResult::Started(subject),
            Err(refusal) => RunResult::Refused { code: refusal.code().into(), detail: refusal.to_string() },
        })
    }
}

impl Rule for FireSchedule {
    type Reply = FireReply;
    const PHASE: Phase = Phase::Submissions;

    fn profile(&self) -> Profile {
        Profile {
            locks: Locks { later_executions: true, ..Locks::default() },
            runs_alone: true,
            ..Profile::weighing(self.prepared.as_ref().map_or(1, PreparedRun::weight))
        }
    }

    /// Needs the schedule; then the rows of the submissions that may be made, and of the runs that may live.
    fn needs(&self, work: &Work, needs: &mut Needs) {
        needs.schedules.lock([self.name.clone()]);
        let Ok(schedule) = self.due(work) else { return };
        let plan = schedule.plan(self.upto, self.limit());
        for at in &plan.starts {
            if let Ok(rule) = self.rule(*at, schedule.spec.overlap) {
                rule.needs(work, needs);
            }
        }
        if schedule.spec.overlap != Overlap::Allow {
            for (run, _) in &schedule.state.live {
                match run {
                    RunSubject::Execution(id) => needs.executions.read([*id]),
                    RunSubject::Flow(id) => needs.flows.read([*id]),
                }
            }
        }
    }

    fn decide(&self, work: &mut Work) -> FireReply {
        let mut schedule = match self.due(work) {
            Ok(schedule) => schedule.clone(),
            Err(reply) => return reply,
        };
        let plan = schedule.plan(self.upto, self.limit());
        let overlap = schedule.spec.overlap;
        if overlap != Overlap::Allow {
            schedule.state.live.retain(|(run, _)| is_live(*run, work));
        }
        schedule.state.position = plan.position;
        let mut starting = plan.due;
        let mut skipped = Vec::new();
        match overlap {
            Overlap::Allow | Overlap::Skip => {}
            Overlap::Queue => {
                let room = QUEUE_MAX.saturating_sub(schedule.state.queue.len()).min(starting.len());
                skipped = starting.split_off(room);
                schedule.state.queue.append(&mut starting);
                if schedule.state.live.is_empty() && !schedule.state.queue.is_empty() {
                    starting = vec![schedule.state.queue.remove(0)];
                }
            }
        }
        let mut runs = Vec::new();
        let mut is_live = !schedule.state.live.is_empty();
        for at in starting {
            let result = match overlap == Overlap::Skip && is_live {
                true => Some(RunResult::Skipped),
                false => self.start(at, overlap, work),
            };
            is_live |= matches!(result, Some(RunResult::Started(_)));
            runs.extend(result.map(|result| (at, result)));
        }
        runs.extend(skipped.into_iter().map(|at| (at, RunResult::Skipped)));
        runs.sort_by_key(|(at, _)| *at);
        let mut started = 0;
        for (at, result) in runs {
            started += usize::from(matches!(result, RunResult::Started(_)));
            let run = Run { at, decided_at: work.now(), manual: false, result };
            emit_run(work, &self.name, &run, Some(Name::trusted(ACTOR)));
            schedule.add_run(run);
        }
        schedule.version += 1;
        schedule.set_due(work.now());
        work.put(schedule);
        FireReply::Decided(started)
    }
}

/// Makes a schedule due at once, because a run has ended for whose end times wait. Only saves time: such a schedule is looked at
/// again and again.
#[derive(Clone, Debug)]
pub struct WakeSchedule {
    pub name: ScheduleName,
}

impl Rule for WakeSchedule {
    type Reply = ();
    const PHASE: Phase = Phase::Timers;

    fn profile(&self) -> Profile {
        Profile::weighing(1)
    }

    fn needs(&self, _work: &Work, needs: &mut Needs) {
        needs.schedules.lock([self.name.clone()]);
    }

    fn decide(&self, work: &mut Work) {
        let now = work.now();
        let waits = |one: &&Schedule| !one.state.queue.is_empty() && one.due_at.is_some_and(|at| at > now);
        let Some(mut schedule) = work.row::<Schedule>(&self.name).filter(waits).cloned() else { return };
        schedule.due_at = Some(now);
        schedule.version += 1;
        work.put(schedule);
    }
}

/// Reports whether a run has not ended. Its row was requested before. One that cannot be read, or is gone, has ended.
fn is_live(run: RunSubject, work: &Work) -> bool {
    match run {
        RunSubject::Execution(id) => {
            work.find(id).ok().flatten().is_some_and(|row| row.state.outcome().is_none())
        }
        RunSubject::Flow(id) => work.find_flow(id).is_some_and(|flow| !flow.has_ended()),
    }
}
