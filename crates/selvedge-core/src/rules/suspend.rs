//! Suspending and resuming executions.
//!
//! A suspension ends when the condition of one of its waits holds, when an operator resumes it, or when a wait times
//! out with the action `resume`. The first transaction that finds this ends the suspension with the row locked;
//! afterwards the row is no longer suspended, so it cannot end twice.

use super::flows::children::{self, Look};
use super::follow;
use super::report::{Attempt, Operation, Report, Reported, reported};
use super::waitpoint::{WaitpointDraft, create, needs_closed, open_needed};
use crate::digest::{Digest, waitpoints_form, waits_form};
use crate::fact::{self, Fact, Failure, Next, SuspensionNotice};
use crate::outbox::OutboxKind;
use crate::rows::Needs;
use crate::rule::LeaseEffect;
use crate::state::State;
use crate::step::{Step, StepKind, WaitResult};
use crate::suspension::{IncomingSignal, OnTimeout, ResumedBy, Suspension, WAITS_MAX, Wait, WaitDraft};
use crate::text::duration;
use crate::{
    Execution, ExecutionId, FailureClass, Name, Outcome, Refusal, Signal, Timestamp, Waitpoint, Work,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The request of a worker to suspend its execution.
#[derive(Clone, Debug, PartialEq)]
pub struct Suspend {
    /// The waits. The first one that ends resumes the execution.
    pub waits: Vec<WaitDraft>,
    /// Waitpoints to create in the same transaction.
    pub waitpoints: Vec<WaitpointDraft>,
    /// The fingerprint of the root secret that signs their tokens.
    pub fingerprint: i64,
    /// The namespace's timeout of waits that have none and may never end by themselves, in milliseconds. Default: none.
    pub default_timeout_ms: Option<i64>,
}

impl Operation for Suspend {
    fn check(&self) -> Result<(), Refusal> {
        Suspend::check(self)
    }

    fn effect(&self) -> (LeaseEffect, bool) {
        // It may be refused because of its steps or waitpoints although its fence is current.
        let may_be_refused = !self.waitpoints.is_empty() || self.waits.iter().any(|wait| wait.step.is_some());
        (if may_be_refused { LeaseEffect::Any } else { LeaseEffect::Ends }, false)
    }

    /// Needs its waitpoints and steps. Once the row is loaded and the fence is current, also the signals that no wait
    /// has taken, and the children, if it waits for them: until one is found that has not ended.
    fn needs(&self, report: &Report, held: Option<&Execution>, work: &Work, needs: &mut Needs) {
        let execution = report.fence.execution;
        if !self.waitpoints.is_empty() {
            needs.queries.waitpoints.push(execution);
            needs.queries.token_keys = true;
        }
        let steps = self.waits.iter().filter_map(|wait| wait.step.as_ref());
        needs.steps.read(steps.map(|(name, _)| (execution, name.clone())));
        let Some(row) = held else { return };
        if row.detail.record.waitpoints > 0 {
            needs.queries.waitpoints.push(row.id);
        }
        if row.detail.record.untaken > 0 {
            needs.queries.untaken.push(row.id);
        }
        if self.waits_for_children() {
            children::needs_to_suspend(row, work, needs);
        }
    }

    fn add_to(&self, digest: &mut Digest) {
        digest.raw(b"suspend");
        digest.raw(waits_form(&self.waits).as_bytes());
        digest.raw(waitpoints_form(&self.waitpoints).as_bytes());
    }

    fn apply(&self, of: &Attempt<'_>, work: &mut Work) -> Result<Reported, Refusal> {
        let (next, waitpoints) = self.decide(of.row, of.report.digest(), work)?;
        Ok(Reported { waitpoints, ..reported(next) })
    }
}

impl Suspend {
    /// Checks every field. The refusal names the first invalid one.
    pub fn check(&self) -> Result<(), Refusal> {
        if self.waits.is_empty() || self.waits.len() > WAITS_MAX {
            let detail = format!("has {} entries; it must have between 1 and {WAITS_MAX}", self.waits.len());
            return Err(Refusal::field("/waits", detail));
        }
        let alone = self.waits.len() == 1;
        for (index, wait) in self.waits.iter().enumerate() {
            wait.check(&if alone { String::new() } else { format!("/waits/{index}") })?;
            let same = |other: &WaitDraft| {
                let name = |wait: &WaitDraft| wait.step.as_ref().map(|(name, _)| name.clone());
                name(other).is_some() && name(other) == name(wait)
            };
            if self.waits[..index].iter().any(same) {
                let detail = "is the step of an earlier wait; give each wait its own step";
                return Err(Refusal::field(&format!("/waits/{index}/step"), detail));
            }
        }
        for (index, waitpoint) in self.waitpoints.iter().enumerate() {
            waitpoint.check(&format!("/waitpoints/{index}"))?;
        }
        Ok(())
    }

    fn waits_for_children(&self) -> bool {
        self.waits.iter().any(|wait| wait.condition.waits_for_children())
    }

    /// Ends the lease. Returns the state that follows (waiting, if the suspension is fulfilled at once) and the
    /// waitpoints.
    fn decide(
        &self,
        row: &Execution,
        digest: u64,
        work: &mut Work,
    ) -> Result<(Next, Vec<Waitpoint>), Refusal> {
        let lease = row.lease_ref().ok_or_else(|| row.stale())?;
        let children_ended =
            self.waits_for_children() && children::look(row, 0, usize::MAX, work)? == Look::Ended;
        let (id, attempt) = (row.id, lease.attempt());
        let (opened, steps) = self.open_steps(row, attempt, work)?;
        let waitpoints = create(work, row, &self.waitpoints, self.fingerprint)
            .map_err(|refusal| refusal.with_pointer_prefix("/waitpoints"))?;
        let begun = steps.iter().filter(|step| work.step(id, &step.name).is_none()).count() as u32;
        steps.into_iter().for_each(|step| work.put(step));
        let names = self.waits.iter().flat_map(|wait| wait.condition.names()).collect();
        open_needed(work, row, &names);
        let mut suspension = Suspension {
            number: row.detail.record.suspensions + 1,
            since: work.now(),
            lease,
            waits: self
                .waits
                .iter()
                .zip(&opened)
                .map(|(wait, since)| wait.begin(*since, self.default_timeout_ms))
                .collect(),
        };
        let requested = suspension.clone();
        // A cached row may be older than the loaded signals. Signals that the row does not count are ignored; the
        // guarded save then fails, because their delivery raised the version.
        let counted = |signal: &&Signal| signal.taken.is_none() && signal.number <= row.detail.record.signals;
        for signal in work.signals(id).filter(counted) {
            suspension.receive(IncomingSignal {
                number: signal.number,
                name: &signal.name,
                source: &signal.source,
                waitpoint: signal.waitpoint.as_ref().map(|(_, name)| name),
            });
        }
        suspension.pass_times(work.now());
        let suspended = Arc::new(suspension.clone());
        let children = !suspension.holds() && suspension.waits_for_children() && children_ended;
        if children {
            suspension.children_ended();
        }
        let next = match row.detail.cancel {
            Some(_) => Next::Terminal(Outcome::Cancelled),
            None if suspension.holds() => Next::Waiting,
            None => Next::Suspended,
        };
        let fact = Fact::Suspended(fact::Suspended { suspension: requested, next, digest });
        work.apply(id, fact, None, |row| {
            match next {
                Next::Terminal(_) => follow(row, next),
                Next::Waiting | Next::Delayed(_) | Next::Suspended => row.state = State::Suspended(suspended),
            }
            row.detail.record.suspensions += 1;
            row.detail.record.steps += begun;
            row.detail.record.resumed_by = None;
        });
        match next {
            Next::Waiting => resume(work, id, suspension, ResumedBy::Condition, ForcedWaits::None, None),
            // Signals and times follow from the execution's own facts. The end of its children does not, so it is
            // recorded.
            Next::Suspended if children => {
                notice(work, id, suspension, (SuspensionNotice::Children, ResumedBy::Condition), None);
            }
            // The dispatch awaits the end of a child.
            Next::Suspended if suspension.waits_for_children() => work.enqueue(OutboxKind::Parent, id),
            Next::Suspended | Next::Delayed(_) | Next::Terminal(_) => {}
        }
        Ok((next, waitpoints))
    }

    /// Opens the steps of the waits. A step stays open from the first suspension for it. Returns the start of each
    /// wait, and the steps to write.
    fn open_steps(
        &self,
        row: &Execution,
        attempt: u32,
        work: &Work,
    ) -> Result<(Vec<Timestamp>, Vec<Step>), Refusal> {
        let mut opened = Vec::with_capacity(self.waits.len());
        let mut written = Vec::new();
        let mut last = row.detail.record.steps;
        for (index, wait) in self.waits.iter().enumerate() {
            let Some((name, kind)) = &wait.step else {
                opened.push(work.now());
                continue;
            };
            match work.step(row.id, name) {
                Some(step) if step.recorded_at.is_some() || step.kind != *kind => {
                    let alone = self.waits.len() == 1;
                    let pointer = if alone { "/step".into() } else { format!("/waits/{index}/step") };
                    return Err(super::step::mismatch(&pointer, step, *kind));
                }
                // A step that was opened before a replay starts anew.
                Some(step) if step.started_at >= row.opened_at() => opened.push(step.started_at),
                Some(step) => {
                    written.push(Step { attempt, started_at: work.now(), ..step.clone() });
                    opened.push(work.now());
                }
                None => {
                    last += 1;
                    super::step::check_room(row, last, 0)?;
                    written.push(open_step(row.id, last, (name.clone(), *kind), attempt, work.now()));
                    opened.push(work.now());
                }
            }
        }
        Ok((opened, written))
    }
}

fn open_step(
    execution: ExecutionId,
    number: u32,
    (name, kind): (Name, StepKind),
    attempt: u32,
    started_at: Timestamp,
) -> Step {
    Step { execution, number, name, kind, attempt, started_at, recorded_at: None, result: None }
}

/// The waits that end although their conditions do not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForcedWaits {
    None,
    /// The wait at this index.
    One(usize),
    All,
}

/// Needs the steps that record the end of a suspension, and the waitpoints that it may close.
pub fn needs(row: &Execution, needs: &mut Needs) {
    needs_closed(row, needs);
    let Some(suspension) = row.state.suspension() else { return };
    let steps = suspension.waits.iter().filter_map(|wait| wait.step.clone());
    needs.steps.read(steps.map(|name| (row.id, name)));
}

/// Saves a partly fulfilled suspension, or resumes the execution if one of its waits holds now.
pub fn notice(
    work: &mut Work,
    id: ExecutionId,
    suspension: Suspension,
    (notice, by): (SuspensionNotice, ResumedBy),
    actor: Option<Name>,
) {
    if suspension.holds() {
        resume(work, id, suspension, by, ForcedWaits::None, actor);
        return;
    }
    work.apply(id, Fact::Noticed(fact::Noticed { notice }), actor, |row| {
        row.state = State::Suspended(suspension.into())
    });
}

/// Resumes a suspended execution. The waits that hold, and those that are `forced`, are recorded as steps if they have
/// names, and take their signals.
pub fn resume(
    work: &mut Work,
    id: ExecutionId,
    suspension: Suspension,
    by: ResumedBy,
    forced: ForcedWaits,
    actor: Option<Name>,
) {
    let now = work.now();
    let mut signals = Vec::new();
    let mut steps = Vec::new();
    let (mut counted, mut awaited) = (BTreeSet::new(), BTreeSet::new());
    for (index, wait) in suspension.waits.iter().enumerate() {
        let holds = wait.condition.holds();
        if !holds && forced != ForcedWaits::All && forced != ForcedWaits::One(index) {
            awaited.extend(wait.condition.names());
            continue;
        }
        counted.extend(wait.condition.counted_names());
        let taken = wait.taken();
        signals.extend(&taken);
        let step = wait.step.as_ref().and_then(|name| work.step(id, name)).cloned();
        if let Some(step) = step {
            steps.push(step.name.clone());
            let resumed_by = if holds { ResumedBy::Condition } else { by };
            let result = WaitResult { resumed_by, signals: taken }.encode();
            work.put(Step { recorded_at: Some(now), result: Some(result), ..step });
        }
    }
    signals.sort_unstable();
    signals.dedup();
    for number in &signals {
        work.take_signal(id, *number, suspension.number);
    }
    let taken = signals.len() as u32;
    let is_progress = !steps.is_empty();
    let fact = Fact::Resumed(fact::Resumed { suspension: suspension.number, by, signals, steps });
    work.apply(id, fact, actor, |row| {
        row.state = State::Waiting;
        row.detail.record.untaken -= taken;
        row.detail.record.resumed_by = Some(by);
        // A wait without a step may be repeated for ever, so its end is no progress.
        if is_progress {
            row.detail.note_progress();
        }
    });
    // A vote that has ended needs no more answers. A wait for a single signal is often repeated, for example after a reminder,
    // so its waitpoints stay open between.
    work.close_waitpoints_of(id, counted.difference(&awaited).copied().cloned().collect());
}

/// Marks the times that have passed, and resumes the execution if that fulfils its suspension.
pub fn pass_times(row: &Execution, suspension: &Suspension, work: &mut Work) {
    let mut suspension = suspension.clone();
    suspension.pass_times(work.now());
    notice(work, row.id, suspension, (SuspensionNotice::Time, ResumedBy::Condition), None);
}

/// Applies the timeout action of the wait that timed out first.
pub fn time_out(row: &Execution, suspension: &Suspension, work: &mut Work) {
    let Some(index) = suspension.overdue(work.now()) else { return };
    let Wait { on_timeout, timeout_at, condition, .. } = &suspension.waits[index];
    match on_timeout {
        OnTimeout::Resume => {
            resume(work, row.id, suspension.clone(), ResumedBy::Timeout, ForcedWaits::One(index), None);
        }
        OnTimeout::Escalate => {
            let mut suspension = suspension.clone();
            suspension.waits[index].escalated = true;
            let fact = Fact::Noticed(fact::Noticed { notice: SuspensionNotice::Escalated(index as u32) });
            work.apply(row.id, fact, None, |row| row.state = State::Suspended(suspension.into()));
        }
        OnTimeout::Fail | OnTimeout::Cancel | OnTimeout::Expire => {
            let Some(next) = on_timeout.outcome().map(Next::Terminal) else { return };
            let waited = timeout_at.map_or(0, |at| at.ms_since(suspension.since));
            let message =
                format!("timed out after waiting {} for {}", duration(waited), condition.describe());
            let fact = Fact::SuspensionTimedOut(fact::SuspensionTimedOut {
                suspension: suspension.number,
                on_timeout: *on_timeout,
                next,
            });
            work.apply(row.id, fact, None, |row| {
                follow(row, next);
                row.detail.error = Some(Failure { message, class: FailureClass::Timeout });
            });
        }
    }
}

/// Resumes a suspended execution for an operator: fulfils the conditions that wait for an operator or, if there are
/// none, ends all waits.
pub fn resume_by_operator(row: &Execution, suspension: &Suspension, actor: Name, work: &mut Work) {
    let mut suspension = suspension.clone();
    if suspension.resume_by_operator() {
        notice(work, row.id, suspension, (SuspensionNotice::Operator, ResumedBy::Operator), Some(actor));
    } else {
        resume(work, row.id, suspension, ResumedBy::Operator, ForcedWaits::All, Some(actor));
    }
}

/// Updates a suspension whose children have ended.
pub fn notice_children(row: &Execution, suspension: &Suspension, work: &mut Work) {
    let mut suspension = suspension.clone();
    suspension.children_ended();
    notice(work, row.id, suspension, (SuspensionNotice::Children, ResumedBy::Condition), None);
}
