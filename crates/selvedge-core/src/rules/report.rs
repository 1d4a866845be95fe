//! Reports of workers. Each report presents the fence of its lease.
//!
//! The epoch is the fence, not the clock: a late report under the current lease is accepted. A report that succeeded
//! before gives the same reply when it is repeated: the history line that it wrote is its receipt.

use super::flows::grow::Spawn;
use super::frame::{self, FrameIdentity};
use super::gates::budget::{Counted, Spend};
use super::step::StepDraft;
use super::suspend::Suspend;
use super::waitpoint::{WaitpointDraft, create, needs_closed};
use super::{after_failure, follow, put_back};
use crate::digest::{Digest, waitpoints_form, waits_form};
use crate::execution::Progress;
use crate::fact::{self, Fact, Failure, LeaseRef, Next};
use crate::history::{end_of_attempt, lease_of};
use crate::name::{KEY_LIMIT, Name};
use crate::rows::{Needs, ResultChange};
use crate::rule::{LeaseEffect, Locks, Phase, Profile, Rule, Touch};
use crate::state::StateName;
use crate::stream::{Frame, FrameKind, FrameMode, StreamName};
use crate::submission::{When, check_duration, check_payload};
use crate::{
    Execution, ExecutionId, FailureClass, LeaseId, NamespaceId, Outcome, Refusal, State, Waitpoint, Work,
};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Maximum number of operations in one report.
pub const OPS_MAX: usize = 1000;
/// The longest error or progress message, in bytes.
pub const MESSAGE_LIMIT: usize = 64 * 1024;

/// The proof of a lease that a worker presents with every report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fence {
    pub execution: ExecutionId,
    /// The index of the attempt.
    pub attempt: u32,
    /// The lease's id.
    pub lease_id: LeaseId,
    /// The lease's epoch.
    pub epoch: u32,
}

impl Fence {
    /// Returns the fence of an active execution.
    pub fn of(row: &Execution) -> Option<Fence> {
        let lease = row.state.lease()?;
        Some(Fence { execution: row.id, attempt: row.attempt()?, lease_id: lease.id, epoch: row.epoch })
    }

    /// Reports whether this is the fence of the current lease of `row`.
    pub fn holds(&self, row: &Execution) -> bool {
        Fence::of(row).as_ref() == Some(self)
    }
}

/// The content of a report.
#[derive(Clone, Debug)]
pub enum Op {
    /// The execution is completed.
    Complete {
        /// The result: JSON, kept byte for byte.
        result: Bytes,
    },
    /// The attempt failed.
    Fail {
        /// The error message.
        message: String,
        class: FailureClass,
        /// The time until the retry, in milliseconds. Default: the back-off of the policy.
        retry_after_ms: Option<i64>,
    },
    /// The attempt made progress.
    Progress {
        /// The percentage done, 0 to 100.
        percent: Option<f64>,
        /// The progress in words.
        message: Option<String>,
    },
    /// Puts the execution back until a time.
    Delay {
        /// The earliest start of the next attempt.
        until: When,
    },
    /// Puts the execution back at once.
    Release,
    /// Acknowledges a request to cancel: the execution is cancelled at once.
    Cancelled {
        /// The worker's message, for example what it has cleaned up.
        message: Option<String>,
    },
    /// Adds children to the flow.
    Spawn(Box<Spawn>),
    /// Appends a frame to the stream of the attempt.
    Frame {
        kind: FrameKind,
        /// The retention of the frame.
        mode: FrameMode,
        /// The data: JSON, kept byte for byte.
        data: Bytes,
        /// The worker's name for what the frame belongs to. Default: none.
        correlation_id: Option<Name>,
    },
    /// Creates a waitpoint.
    Waitpoint {
        /// The waitpoint to create.
        draft: WaitpointDraft,
        /// The fingerprint of the root secret that signs its token.
        fingerprint: i64,
    },
    /// Suspends the execution.
    Suspend(Box<Suspend>),
    /// Records a step.
    Step(StepDraft),
    /// Charges usage to a budget.
    Usage(Spend),
}

/// A report of a worker.
#[derive(Clone, Debug)]
pub struct Report {
    pub namespace: NamespaceId,
    /// The fence of the lease.
    pub fence: Fence,
    /// The worker's id for this report. A repeat is recognised by it instead of by content.
    pub op_id: Option<String>,
    /// The content of the report.
    pub op: Op,
}

/// The reply to an accepted report.
#[derive(Clone, Debug, PartialEq)]
pub struct Reported {
    /// The execution's state after the report.
    pub state: StateName,
    /// The end of the delay, if the execution is delayed.
    pub delayed_until: Option<crate::Timestamp>,
    /// The spawned children, by name.
    pub spawned: Vec<(Name, ExecutionId)>,
    /// The requested waitpoints.
    pub waitpoints: Vec<Waitpoint>,
    /// The effect of reported usage; none for all other reports.
    pub usage: Option<Counted>,
    /// The execution was deleted, so that it has no state. Only usage is accepted then.
    pub is_deleted: bool,
}

impl Reported {
    /// Returns the reply to a report that keeps the lease.
    fn active() -> Reported {
        Reported {
            state: StateName::Active,
            delayed_until: None,
            spawned: Vec::new(),
            waitpoints: Vec::new(),
            usage: None,
            is_deleted: false,
        }
    }
}

/// The reports of one call. Each is accepted or refused on its own.
#[derive(Clone, Debug)]
pub struct Reports(pub Vec<Report>);

impl Rule for Reports {
    /// One reply per report, in order.
    type Reply = Vec<Result<Reported, Refusal>>;
    const PHASE: Phase = Phase::Reports;

    fn profile(&self) -> Profile {
        profile(&self.0)
    }

    fn needs(&self, work: &Work, needs: &mut Needs) {
        self.0.iter().for_each(|report| report.needs(work, needs));
    }

    fn decide(&self, work: &mut Work) -> Self::Reply {
        let frames = frame::identify(&self.0, work);
        self.0.iter().zip(frames).map(|(report, frame)| report.decide_with(frame, work)).collect()
    }
}

fn profile(reports: &[Report]) -> Profile {
    // Usage changes rows that the batch loads anyway.
    let counts = |report: &&Report| !matches!(report.op, Op::Usage(_));
    let spawns = reports.iter().any(|report| matches!(report.op, Op::Spawn(_)));
    Profile {
        executions: reports.iter().map(Report::touch).collect(),
        locks: Locks { later_executions: spawns, flows: spawns, sessions: false },
        ..Profile::weighing(1 + reports.iter().filter(counts).count())
    }
}

/// A call with one report.
impl Rule for Report {
    type Reply = Result<Reported, Refusal>;
    const PHASE: Phase = Phase::Reports;

    fn profile(&self) -> Profile {
        profile(std::slice::from_ref(self))
    }

    fn needs(&self, work: &Work, needs: &mut Needs) {
        let execution = self.fence.execution;
        needs.executions.lock([execution]);
        let row = work.execution(self.namespace, execution).ok();
        let held = row.filter(|row| self.fence.holds(row));
        match &self.op {
            Op::Frame { mode: FrameMode::Summary, .. } => needs.summaries.read([self.stream()]),
            Op::Frame { .. } => needs.streams.read([self.stream()]),
            Op::Waitpoint { .. } => {
                needs.queries.waitpoints.push(execution);
                needs.queries.token_keys = true;
                needs
                    .queries
                    .untaken
                    .extend(held.filter(|row| row.detail.record.untaken > 0).map(|row| row.id));
            }
            Op::Suspend(suspend) => suspend.needs(execution, held, work, needs),
            Op::Step(step) => needs.steps.read([(execution, step.name.clone())]),
            Op::Usage(spend) => spend.needs(work, needs),
            Op::Spawn(spawn) => {
                if let Some(row) = held {
                    spawn.needs(row, work, needs);
                }
            }
            Op::Complete { .. } | Op::Fail { .. } | Op::Delay { .. } | Op::Release | Op::Cancelled { .. } => {
                held.into_iter().for_each(|row| needs_closed(row, needs))
            }
            Op::Progress { .. } => {}
        }
    }

    /// Applies the report.
    fn decide(&self, work: &mut Work) -> Self::Reply {
        let frame = frame::identify(std::slice::from_ref(self), work).pop();
        self.decide_with(frame.unwrap_or_default(), work)
    }
}

impl Report {
    /// Checks everything that can be checked without rows.
    pub fn check(&self) -> Result<(), Refusal> {
        if let Some(op_id) = &self.op_id {
            Name::parse("/op_id", op_id, KEY_LIMIT)?;
        }
        match &self.op {
            Op::Complete { result } => check_payload("/result", result),
            Op::Fail { message, retry_after_ms, .. } => {
                check_message(message)?;
                retry_after_ms.map_or(Ok(()), |ms| check_duration("/retry_after_ms", ms))
            }
            Op::Progress { percent, message } => {
                if let Some(percent) = percent.filter(|percent| !(0.0..=100.0).contains(percent)) {
                    return Err(Refusal::field(
                        "/percent",
                        format!("is {percent}; it must be between 0 and 100"),
                    ));
                }
                message.as_deref().map_or(Ok(()), check_message)
            }
            Op::Delay { until } => until.check("/delay_ms").map(|_| ()),
            Op::Cancelled { message } => message.as_deref().map_or(Ok(()), check_message),
            Op::Release | Op::Spawn(_) => Ok(()),
            Op::Frame { data, .. } => frame::check(data),
            Op::Waitpoint { draft, .. } => draft.check(""),
            Op::Suspend(suspend) => suspend.check(),
            Op::Step(step) => step.check(),
            Op::Usage(spend) => spend.check(),
        }
    }

    /// Returns the stream of the attempt.
    pub(super) fn stream(&self) -> StreamName {
        StreamName { execution: self.fence.execution, attempt: self.fence.attempt }
    }

    /// Returns the effect on the execution.
    fn touch(&self) -> Touch {
        let (lease, may_finish) = match &self.op {
            Op::Complete { .. } | Op::Fail { .. } => (LeaseEffect::Ends, true),
            Op::Delay { .. } | Op::Release => (LeaseEffect::Ends, false),
            // It is refused if no cancel was requested.
            Op::Cancelled { .. } => (LeaseEffect::Any, true),
            // It may be refused because of its steps or waitpoints although its fence is current.
            Op::Suspend(suspend) if suspend.may_be_refused() => (LeaseEffect::Any, false),
            Op::Suspend(_) => (LeaseEffect::Ends, false),
            Op::Usage(_) => (LeaseEffect::Unchanged, false),
            Op::Progress { .. } | Op::Spawn(_) | Op::Frame { .. } | Op::Waitpoint { .. } | Op::Step(_) => {
                (LeaseEffect::Keeps, false)
            }
        };
        Touch { execution: self.fence.execution, fence: Some(self.fence), lease, may_finish }
    }

    fn decide_with(&self, frame: FrameIdentity, work: &mut Work) -> Result<Reported, Refusal> {
        self.check()?;
        let row = match (work.execution(self.namespace, self.fence.execution), &self.op) {
            // The attempt cannot be verified any more, but what it spent is spent.
            (Err(Refusal::NotFound { .. }), Op::Usage(spend)) => {
                let usage = Some(self.count_usage(spend, work)?);
                return Ok(Reported { usage, is_deleted: true, ..Reported::active() });
            }
            (row, _) => row?,
        };
        if let Op::Complete { result } = &self.op
            && self.fence.holds(row)
        {
            return Ok(self.complete(result, work));
        }
        let row = row.clone();
        if let Op::Usage(spend) = &self.op {
            return self.spend(&row, spend, work);
        }
        if !self.fence.holds(&row) && !self.ends_breached(&row) {
            return self.repeat(&row, work);
        }
        self.apply(&row, frame, work)
    }

    /// Reports whether this ends the attempt that a used-up budget suspended. Accepted until the next claim.
    fn ends_breached(&self, row: &Execution) -> bool {
        let Fence { lease_id, epoch, attempt, .. } = self.fence;
        let ends = matches!(self.op, Op::Complete { .. } | Op::Fail { .. });
        let lease = row.detail.breached.as_ref().filter(|_| ends && epoch == row.epoch);
        lease.is_some_and(|lease| (lease.id, lease.epoch, lease.attempt()) == (lease_id, epoch, attempt))
    }

    /// Applies a report whose fence is current, or the end of an attempt that a used-up budget suspended.
    fn apply(&self, row: &Execution, frame: FrameIdentity, work: &mut Work) -> Result<Reported, Refusal> {
        let lease = row.lease_ref().or_else(|| row.detail.breached.clone()).ok_or_else(|| row.stale())?;
        let (now, digest) = (work.now(), self.digest());
        match &self.op {
            Op::Complete { result } => return Ok(self.complete(result, work)),
            Op::Fail { message, class, retry_after_ms } => {
                let error = Failure { message: message.clone(), class: *class };
                let next = after_failure(work, row, *class, *retry_after_ms);
                return Ok(fail(row, fact::Failed { lease, error, next, digest }, work));
            }
            Op::Delay { until } => {
                let next = put_back(row, Some(until.at(now)), now);
                let fact = Fact::Delayed(fact::Delayed { lease, next, digest });
                return Ok(end(row, fact, next, work));
            }
            Op::Release => {
                let next = put_back(row, None, now);
                let fact = Fact::Released(fact::Released { lease, next, digest: Some(digest) });
                return Ok(end(row, fact, next, work));
            }
            Op::Cancelled { message } => {
                return acknowledge_cancel(row, lease, message.clone(), digest, work);
            }
            Op::Suspend(suspend) => {
                let (next, waitpoints) = suspend.decide(row, digest, work)?;
                return Ok(Reported { waitpoints, ..reported(next) });
            }
            Op::Usage(spend) => return self.spend(row, spend, work),
            Op::Progress { percent, message } => self.progress(row, *percent, message, work),
            Op::Spawn(spawn) => {
                let spawned = spawn.decide(row, work)?;
                return Ok(Reported { spawned, ..Reported::active() });
            }
            Op::Frame { kind, mode, data, correlation_id } => {
                let (data, correlation_id) = (data.clone(), correlation_id.clone());
                let (stream, kind, best_effort) = (self.stream(), *kind, false);
                let appended = Frame { stream, number: 0, kind, best_effort, at: now, data, correlation_id };
                frame::append(appended, *mode, frame, work)?;
            }
            Op::Waitpoint { draft, fingerprint } => {
                let created = create(work, row, std::slice::from_ref(draft), *fingerprint);
                let waitpoints = created.map_err(|refusal| refusal.without_pointer_prefix("/0"))?;
                return Ok(Reported { waitpoints, ..Reported::active() });
            }
            Op::Step(step) => step.decide(row, work)?,
        }
        Ok(Reported::active())
    }

    /// Records progress, if it is new.
    fn progress(&self, row: &Execution, percent: Option<f64>, message: &Option<String>, work: &mut Work) {
        let Some(progress) = self.new_progress(row.detail.progress.as_ref(), percent, message) else {
            return;
        };
        let fact = Fact::Progressed(fact::Progressed { percent, message: message.clone() });
        work.apply(row.id, fact, None, |row| row.detail.progress = Some(progress));
    }

    /// Returns the progress after this report; none if the report changes nothing: it has the content of the current
    /// progress, or it repeats an earlier report with the same `op_id`.
    fn new_progress(
        &self,
        known: Option<&Progress>,
        percent: Option<f64>,
        message: &Option<String>,
    ) -> Option<Progress> {
        let mut reports = known.map(|known| known.reports.clone()).unwrap_or_default();
        // 32 bits suffice to tell the latest reports of one lease apart.
        let digest = self.op_id.is_some().then(|| self.digest() as u32);
        let same = known.is_some_and(|known| known.percent == percent && known.message == *message);
        match digest {
            Some(digest) if reports.contains(&digest) => return None,
            Some(digest) => reports.push(digest),
            None if same => return None,
            None => {}
        }
        let surplus = reports.len().saturating_sub(Progress::REPORTS_MAX);
        reports.drain(..surplus);
        Some(Progress { percent, message: message.clone(), reports })
    }

    /// Completes the execution. The most frequent report, so the row is not cloned.
    fn complete(&self, result: &Bytes, work: &mut Work) -> Reported {
        let (id, digest) = (self.fence.execution, self.digest());
        work.apply(
            id,
            Fact::Completed(fact::Completed { attempt: self.fence.attempt, digest }),
            None,
            |row| {
                follow(row, Next::Terminal(Outcome::Completed));
                row.detail.error = None;
            },
        );
        work.set_result(id, ResultChange::Set(result.clone()));
        reported(Next::Terminal(Outcome::Completed))
    }

    /// Charges usage. It counts even if the lease has ended since: the fence may be that of any earlier lease.
    fn spend(&self, row: &Execution, spend: &Spend, work: &mut Work) -> Result<Reported, Refusal> {
        let Fence { attempt, lease_id, epoch, .. } = self.fence;
        let lines = row.history.lines();
        let lines =
            lines.map_err(|error| Refusal::Unreadable { execution: row.id, detail: error.to_string() })?;
        let held = match lease_of(&lines, attempt) {
            Some(lease) => lease.id == lease_id && lease.epoch == epoch,
            // The line of the claim may have moved to a page.
            None => {
                row.detail.history_pages > 0 && epoch <= row.epoch && attempt.checked_add(1) == Some(epoch)
            }
        };
        if !held {
            return Err(row.stale());
        }
        let usage = Some(self.count_usage(spend, work)?);
        Ok(Reported { state: row.state.name(), usage, ..Reported::active() })
    }

    /// Counts usage. The report names the budget in its body.
    fn count_usage(&self, spend: &Spend, work: &mut Work) -> Result<Counted, Refusal> {
        spend.decide(work).map_err(|refusal| match refusal {
            Refusal::NotFound { .. } => {
                Refusal::UnknownBudget { pointer: "/budget".into(), budget: spend.budget.to_string() }
            }
            refusal => refusal,
        })
    }

    /// Handles a fence that is not current: returns the reply of the same report if it succeeded before, and refuses
    /// otherwise.
    fn repeat(&self, row: &Execution, work: &Work) -> Result<Reported, Refusal> {
        let lines = row
            .history
            .lines()
            .map_err(|error| Refusal::Unreadable { execution: row.id, detail: error.to_string() })?;
        let attempt = self.fence.attempt;
        let ours = lease_of(&lines, attempt)
            .is_some_and(|lease| lease.id == self.fence.lease_id && lease.epoch == self.fence.epoch);
        match end_of_attempt(&lines, attempt) {
            Some(end) if ours && end.digest == Some(self.digest()) => {
                Ok(Reported { waitpoints: self.waitpoints(work), ..reported(end.next) })
            }
            Some(_) | None => Err(row.stale()),
        }
    }

    /// Returns the waitpoints that the report created when it succeeded before: the latest of each name.
    fn waitpoints(&self, work: &Work) -> Vec<Waitpoint> {
        let Op::Suspend(suspend) = &self.op else { return Vec::new() };
        let newest = |draft: &WaitpointDraft| {
            work.waitpoints(self.fence.execution).rev().find(|one| one.name == draft.name).cloned()
        };
        suspend.waitpoints.iter().filter_map(newest).collect()
    }

    /// Returns the digest by which a repeat is recognised: of the worker's id for the report, or of its content.
    pub(crate) fn digest(&self) -> u64 {
        let mut digest = Digest::new();
        if let Some(op_id) = &self.op_id {
            digest.raw(op_id.as_bytes());
            return digest.finish();
        }
        match &self.op {
            Op::Complete { result } => {
                digest.raw(b"complete");
                digest.raw(result);
            }
            Op::Fail { message, class, retry_after_ms } => {
                digest.raw(b"fail");
                digest.raw(class.as_str().as_bytes());
                digest.raw(&retry_after_ms.unwrap_or(-1).to_le_bytes());
                digest.raw(message.as_bytes());
            }
            Op::Progress { .. } => digest.raw(b"progress"),
            Op::Delay { until: When::At(at) } => {
                digest.raw(b"delay until");
                digest.raw(&at.micros().to_le_bytes());
            }
            Op::Delay { until: When::AfterMs(ms) } => {
                digest.raw(b"delay for");
                digest.raw(&ms.to_le_bytes());
            }
            Op::Release => digest.raw(b"release"),
            Op::Cancelled { message } => {
                digest.raw(b"cancelled");
                digest.raw(message.as_deref().unwrap_or_default().as_bytes());
            }
            Op::Spawn(_) => digest.raw(b"spawn"),
            Op::Frame { data, .. } => {
                digest.raw(b"frame");
                digest.raw(data);
            }
            Op::Waitpoint { .. } => digest.raw(b"waitpoint"),
            Op::Usage(_) => digest.raw(b"usage"),
            Op::Step(step) => {
                digest.raw(b"step");
                digest.raw(step.name.as_bytes());
            }
            Op::Suspend(suspend) => {
                digest.raw(b"suspend");
                digest.raw(waits_form(&suspend.waits).as_bytes());
                digest.raw(waitpoints_form(&suspend.waitpoints).as_bytes());
            }
        }
        digest.finish()
    }
}

/// Ends the attempt of an execution that its worker puts back.
fn end(row: &Execution, fact: Fact, next: Next, work: &mut Work) -> Reported {
    work.apply(row.id, fact, None, |row| follow(row, next));
    reported(next)
}

/// Ends an attempt that failed, and keeps its error.
fn fail(row: &Execution, failed: fact::Failed, work: &mut Work) -> Reported {
    let (error, next) = (failed.error.clone(), failed.next);
    work.apply(row.id, Fact::Failed(failed), None, |row| {
        follow(row, next);
        row.detail.breached = None;
        row.detail.error = Some(error);
        row.detail.retries += u32::from(!matches!(next, Next::Terminal(_)));
    });
    reported(next)
}

/// Cancels an execution whose worker acknowledges the request to cancel.
fn acknowledge_cancel(
    row: &Execution,
    lease: LeaseRef,
    message: Option<String>,
    digest: u64,
    work: &mut Work,
) -> Result<Reported, Refusal> {
    let Some(request) = row.detail.cancel.clone() else {
        let detail = "no cancel was requested; report complete, fail or release instead";
        let state = row.state.name().as_str().into();
        return Err(Refusal::WrongState { execution: row.id, state, detail: detail.into() });
    };
    let (reason, next) = (request.reason, Next::Terminal(Outcome::Cancelled));
    let fact = Fact::CancelAcknowledged(fact::CancelAcknowledged { lease, reason, message, digest });
    work.apply(row.id, fact, request.actor, |row| follow(row, next));
    Ok(reported(next))
}

fn reported(next: Next) -> Reported {
    let (state, delayed_until) = match next {
        Next::Waiting => (StateName::Waiting, None),
        Next::Delayed(until) => (StateName::Delayed, Some(until)),
        Next::Terminal(outcome) => (State::Terminal(outcome).name(), None),
        Next::Suspended => (StateName::Suspended, None),
    };
    Reported { state, delayed_until, ..Reported::active() }
}

fn check_message(message: &str) -> Result<(), Refusal> {
    if message.len() > MESSAGE_LIMIT {
        return Err(Refusal::PayloadTooLarge {
            pointer: "/message".into(),
            limit: MESSAGE_LIMIT as u64,
            actual: message.len() as u64,
        });
    }
    Ok(())
}
