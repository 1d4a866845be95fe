//! Suspending, and going on again.
//!
//! A suspension is over when one of its waits holds, when an operator says so, or when a wait has waited for too long and is
//! to go on then. Whichever transaction finds that out first ends it, with the row locked: the row is not suspended any more
//! after that, so nothing else ends it a second time.

use super::follow;
use super::waitpoint::{WaitpointDraft, make};
use crate::fact::{Fact, Failure, Next, SuspensionNotice};
use crate::rows::Needs;
use crate::state::State;
use crate::step::{Step, StepKind, WaitResult};
use crate::suspension::{IncomingSignal, OnTimeout, ResumedBy, Suspension, WAITS_MAX, Wait, WaitDraft};
use crate::{
    Execution, ExecutionId, FailureClass, Name, Outcome, Refusal, Signal, Timestamp, Waitpoint, Work,
};
use std::sync::Arc;

/// What a worker asks for when it suspends its execution.
#[derive(Clone, Debug, PartialEq)]
pub struct Suspend {
    /// What to wait for; one is enough.
    pub waits: Vec<WaitDraft>,
    /// Waitpoints to make along with it.
    pub waitpoints: Vec<WaitpointDraft>,
    /// Which root secret their tokens are signed under.
    pub fingerprint: i64,
}

impl Suspend {
    /// Checks every field; the first wrong one is named.
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
                let detail = "is the step of another wait too; each needs a name of its own";
                return Err(Refusal::field(&format!("/waits/{index}/step"), detail));
            }
        }
        for (index, waitpoint) in self.waitpoints.iter().enumerate() {
            waitpoint.check(&format!("/waitpoints/{index}"))?;
        }
        Ok(())
    }

    /// Whether it may be refused although its lease is the current one: for its waitpoints, or for a step of that name.
    pub fn may_be_refused(&self) -> bool {
        !self.waitpoints.is_empty() || self.waits.iter().any(|wait| wait.step.is_some())
    }

    /// Its waitpoints and steps; once the row is loaded and held by the worker, the signals and children that came already.
    pub fn needs(&self, execution: ExecutionId, held: Option<&Execution>, work: &Work, needs: &mut Needs) {
        if !self.waitpoints.is_empty() {
            needs.queries.waitpoints.push(execution);
            needs.queries.token_keys = true;
        }
        let steps = self.waits.iter().filter_map(|wait| wait.step.as_ref());
        needs.steps.read(steps.map(|(name, _)| (execution, name.clone())));
        let Some(row) = held else { return };
        if row.detail.record.untaken > 0 {
            needs.queries.untaken.push(row.id);
        }
        needs_children(row, work, needs);
    }

    /// Ends the lease. Says what followed: ready, where all that is waited for has come already; and the waitpoints.
    pub fn decide(
        &self,
        row: &Execution,
        digest: u64,
        work: &mut Work,
    ) -> Result<(Next, Vec<Waitpoint>), Refusal> {
        let lease = row.lease_ref().ok_or_else(|| row.stale())?;
        if self.waits.iter().any(|wait| wait.condition.waits_for_children()) {
            check_children(row, work)?;
        }
        let (id, attempt) = (row.id, lease.attempt());
        let (opened, steps) = self.open_steps(row, attempt, work)?;
        let waitpoints = make(work, row, &self.waitpoints, self.fingerprint)
            .map_err(|refusal| refusal.with_pointer_prefix("/waitpoints"))?;
        let begun = steps.iter().filter(|step| work.step(id, &step.name).is_none()).count() as u32;
        steps.into_iter().for_each(|step| work.put_step(step));
        let mut suspension = Suspension {
            number: row.detail.record.suspensions + 1,
            since: work.now(),
            lease,
            waits: self.waits.iter().zip(&opened).map(|(wait, since)| wait.begin(*since)).collect(),
        };
        let asked = suspension.clone();
        // A remembered row may be older than the signals that were read: what it does not know of it has not heard. It is saved
        // only if there is nothing of that kind.
        let known = |signal: &&Signal| signal.taken.is_none() && signal.number <= row.detail.record.signals;
        for signal in work.signals(id).filter(known) {
            suspension.receive(IncomingSignal {
                number: signal.number,
                name: &signal.name,
                source: &signal.source,
                waitpoint: signal.waitpoint.as_ref().map(|(_, name)| name),
            });
        }
        suspension.pass(work.now());
        let suspended = Arc::new(suspension.clone());
        let children =
            !suspension.holds() && suspension.waits_for_children() && children_have_ended(row, work);
        if children {
            suspension.children_ended();
        }
        let next = match row.detail.cancel {
            Some(_) => Next::Terminal(Outcome::Cancelled),
            None if suspension.holds() => Next::Waiting,
            None => Next::Suspended,
        };
        let fact = Fact::Suspended { suspension: asked, next, digest };
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
            Next::Waiting => resume(work, id, suspension, ResumedBy::Condition, Forced::None, None),
            // What it heard of signals and times follows from its own facts; how its children stand does not, and is told.
            Next::Suspended if children => {
                notice(work, id, suspension, (SuspensionNotice::Children, ResumedBy::Condition), None);
            }
            Next::Suspended | Next::Delayed(_) | Next::Terminal(_) => {}
        }
        Ok((next, waitpoints))
    }

    /// The steps of the waits are open from the first suspension for them on: since when each is, and those to write.
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
                // One that was waited for before a replay is waited for anew.
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

/// Which waits end besides those that hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forced {
    /// None.
    None,
    /// The one at this place.
    One(usize),
    /// All.
    All,
}

/// What to see of a suspended execution before it goes on: the steps that record it.
pub fn needs(row: &Execution, needs: &mut Needs) {
    let Some(suspension) = row.state.suspension() else { return };
    let steps = suspension.waits.iter().filter_map(|wait| wait.step.clone());
    needs.steps.read(steps.map(|name| (row.id, name)));
}

/// What to see before it is known whether the children of an execution have ended.
pub fn needs_children(row: &Execution, work: &Work, needs: &mut Needs) {
    let attached = row.wiring().children.iter().filter(|child| !child.detached);
    needs.relatives.read(attached.map(|child| child.execution).filter(|id| !work.has_end_of(*id)));
}

/// Refuses where it cannot be known whether the children have ended: nobody would tell of one that cannot be read now.
fn check_children(row: &Execution, work: &Work) -> Result<(), Refusal> {
    let mut attached = row.wiring().children.iter().filter(|child| !child.detached);
    attached.try_for_each(|child| work.find(child.execution).map(drop))
}

fn children_have_ended(row: &Execution, work: &Work) -> bool {
    let mut attached = row.wiring().children.iter().filter(|child| !child.detached);
    attached.all(|child| work.relative(child.execution).is_some_and(|child| child.outcome.is_some()))
}

/// What a suspension has heard is written, or, if one of its waits holds now, the execution goes on.
pub fn notice(
    work: &mut Work,
    id: ExecutionId,
    suspension: Suspension,
    (notice, by): (SuspensionNotice, ResumedBy),
    actor: Option<Name>,
) {
    if suspension.holds() {
        resume(work, id, suspension, by, Forced::None, actor);
        return;
    }
    work.apply(id, Fact::Noticed { notice }, actor, |row| row.state = State::Suspended(suspension.into()));
}

/// A suspended execution goes on: the waits that hold, and those that are `forced`, are recorded as steps where they have
/// names, and the signals by which they ended are taken.
pub fn resume(
    work: &mut Work,
    id: ExecutionId,
    suspension: Suspension,
    by: ResumedBy,
    forced: Forced,
    actor: Option<Name>,
) {
    let now = work.now();
    let mut signals = Vec::new();
    let mut steps = Vec::new();
    for (index, wait) in suspension.waits.iter().enumerate() {
        let holds = wait.condition.holds();
        if !holds && forced != Forced::All && forced != Forced::One(index) {
            continue;
        }
        let taken = wait.taken();
        signals.extend(&taken);
        let step = wait.step.as_ref().and_then(|name| work.step(id, name)).cloned();
        if let Some(step) = step {
            steps.push(step.name.clone());
            let resumed_by = if holds { ResumedBy::Condition } else { by };
            let result = WaitResult { resumed_by, signals: taken }.encode();
            work.put_step(Step { recorded_at: Some(now), result: Some(result), ..step });
        }
    }
    signals.sort_unstable();
    signals.dedup();
    for number in &signals {
        work.take_signal(id, *number, suspension.number);
    }
    let taken = signals.len() as u32;
    let fact = Fact::Resumed { suspension: suspension.number, by, signals, steps };
    work.apply(id, fact, actor, |row| {
        row.state = State::Waiting;
        row.detail.record.untaken -= taken;
        row.detail.record.resumed_by = Some(by);
    });
}

/// A time that a suspended execution waits for has come.
pub fn pass(row: &Execution, suspension: &Suspension, work: &mut Work) {
    let mut suspension = suspension.clone();
    suspension.pass(work.now());
    notice(work, row.id, suspension, (SuspensionNotice::Time, ResumedBy::Condition), None);
}

/// A suspended execution has waited for too long.
pub fn time_out(row: &Execution, suspension: &Suspension, work: &mut Work) {
    let Some(index) = suspension.overdue(work.now()) else { return };
    let Wait { on_timeout, timeout_at, condition, .. } = &suspension.waits[index];
    match on_timeout {
        OnTimeout::Resume => {
            resume(work, row.id, suspension.clone(), ResumedBy::Timeout, Forced::One(index), None);
        }
        OnTimeout::Escalate => {
            let mut suspension = suspension.clone();
            suspension.waits[index].escalated = true;
            let fact = Fact::Noticed { notice: SuspensionNotice::Escalated(index as u32) };
            work.apply(row.id, fact, None, |row| row.state = State::Suspended(suspension.into()));
        }
        OnTimeout::Fail | OnTimeout::Cancel | OnTimeout::Expire => {
            let Some(next) = on_timeout.outcome().map(Next::Terminal) else { return };
            let waited = timeout_at.map_or(0, |at| at.ms_since(suspension.since));
            let message = format!("waited {waited} ms for {} in vain", condition.describe());
            let fact =
                Fact::SuspensionTimedOut { suspension: suspension.number, on_timeout: *on_timeout, next };
            work.apply(row.id, fact, None, |row| {
                follow(row, next);
                row.detail.error = Some(Failure { message, class: FailureClass::Timeout });
            });
        }
    }
}

/// An operator lets a suspended execution go on: what waits for an operator has heard one; where nothing does, all waits end.
pub fn allow(row: &Execution, suspension: &Suspension, actor: Name, work: &mut Work) {
    let mut suspension = suspension.clone();
    if suspension.allow() {
        notice(work, row.id, suspension, (SuspensionNotice::Operator, ResumedBy::Operator), Some(actor));
    } else {
        resume(work, row.id, suspension, ResumedBy::Operator, Forced::All, Some(actor));
    }
}

/// Children of an execution have ended. Says whether it had waited for that and they all have.
pub fn notice_children(row: &Execution, work: &mut Work) -> Result<bool, Refusal> {
    let Some(suspension) = row.state.suspension().filter(|one| one.waits_for_children()) else {
        return Ok(false);
    };
    check_children(row, work)?;
    if !children_have_ended(row, work) {
        return Ok(false);
    }
    let mut suspension = Suspension::clone(suspension);
    suspension.children_ended();
    notice(work, row.id, suspension, (SuspensionNotice::Children, ResumedBy::Condition), None);
    Ok(true)
}
