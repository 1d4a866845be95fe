//! Reports of workers. Each report presents the fence of its lease.
//!
//! The epoch is the fence, not the clock: a late report under the current lease is accepted. A report that succeeded
//! before gives the same reply when it is repeated: the history line that it wrote is its receipt.

use super::flows::grow::Spawn;
use super::frame::{self, FrameIdentity, NewFrame};
use super::gates::budget::{Counted, Spend, Usage};
use super::step::{NewProgress, StepDraft};
use super::suspend::Suspend;
use super::waitpoint::{NewWaitpoint, WaitpointDraft, needs_closed};
use super::{after_failure, follow, put_back};
use crate::digest::Digest;
use crate::fact::{self, Fact, Failure, LeaseRef, Next};
use crate::history::{end_of_attempt, lease_of};
use crate::name::{KEY_LIMIT, Name};
use crate::rows::{Needs, ResultChange};
use crate::rule::{LeaseEffect, Locks, Phase, Profile, Rule, Touch};
use crate::state::StateName;
use crate::stream::{FrameKind, FrameMode, StreamName};
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

impl Op {
    /// Passes the operation to `run`. The only list of all operations; each is written in the file of its subject.
    fn with<T>(&self, run: impl FnOnce(&dyn Operation) -> T) -> T {
        match self {
            Op::Complete { result } => run(&Complete { result }),
            Op::Fail { message, class, retry_after_ms } => {
                run(&Fail { message, class: *class, retry_after_ms: *retry_after_ms })
            }
            Op::Progress { percent, message } => run(&NewProgress { percent: *percent, message }),
            Op::Delay { until } => run(&Delay { until: *until }),
            Op::Release => run(&Release),
            Op::Cancelled { message } => run(&AcknowledgeCancel { message }),
            Op::Spawn(spawn) => run(&**spawn),
            Op::Frame { kind, mode, data, correlation_id } => {
                run(&NewFrame { kind: *kind, mode: *mode, data, correlation_id })
            }
            Op::Waitpoint { draft, fingerprint } => run(&NewWaitpoint { draft, fingerprint: *fingerprint }),
            Op::Suspend(suspend) => run(&**suspend),
            Op::Step(step) => run(step),
            Op::Usage(spend) => run(&Usage(spend)),
        }
    }
}

/// The decision about one operation of a report.
pub(super) trait Operation {
    /// Checks everything that can be checked without rows. Default: nothing.
    fn check(&self) -> Result<(), Refusal> {
        Ok(())
    }

    /// Returns the effect on the lease, and whether the operation may end the execution. Default: it keeps the lease.
    fn effect(&self) -> (LeaseEffect, bool) {
        (LeaseEffect::Keeps, false)
    }

    /// Adds the rows that the operation needs besides the execution. `held` is the execution, if the fence is current.
    /// Default: the waitpoints that close with the attempt, if the operation may end it.
    fn needs(&self, _report: &Report, held: Option<&Execution>, _work: &Work, needs: &mut Needs) {
        let ends = matches!(self.effect().0, LeaseEffect::Ends | LeaseEffect::Any);
        held.into_iter().filter(|_| ends).for_each(|row| needs_closed(row, needs));
    }

    /// Adds the content by which a repeat is recognised.
    fn add_to(&self, digest: &mut Digest);

    /// Applies the operation of an attempt whose fence is current, or whose end is still accepted.
    fn apply(&self, of: &Attempt<'_>, work: &mut Work) -> Result<Reported, Refusal>;
}

/// The attempt that a report is from.
pub(super) struct Attempt<'a> {
    pub report: &'a Report,
    pub row: &'a Execution,
    pub lease: LeaseRef,
    /// The identity of the frame that the report appends, if it does.
    pub frame: FrameIdentity,
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
    pub(super) fn active() -> Reported {
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
        self.op.with(|op| op.needs(self, held, work, needs));
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
        self.op.with(|op| op.check())
    }

    /// Returns the stream of the attempt.
    pub(super) fn stream(&self) -> StreamName {
        StreamName { execution: self.fence.execution, attempt: self.fence.attempt }
    }

    /// Returns the effect on the execution.
    fn touch(&self) -> Touch {
        let (lease, may_finish) = self.op.with(|op| op.effect());
        Touch { execution: self.fence.execution, fence: Some(self.fence), lease, may_finish }
    }

    fn decide_with(&self, frame: FrameIdentity, work: &mut Work) -> Result<Reported, Refusal> {
        self.check()?;
        let row = match (work.execution(self.namespace, self.fence.execution), &self.op) {
            // The attempt cannot be verified any more, but what it spent is spent.
            (Err(Refusal::NotFound { .. }), Op::Usage(spend)) => {
                let usage = Some(Usage(spend).count(work)?);
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
            return Usage(spend).spend(self.fence, &row, work);
        }
        if !self.fence.holds(&row) && !self.ends_breached(&row) {
            return self.repeat(&row, work);
        }
        let lease = row.lease_ref().or_else(|| row.detail.breached.clone()).ok_or_else(|| row.stale())?;
        self.op.with(|op| op.apply(&Attempt { report: self, row: &row, lease, frame }, work))
    }

    /// Reports whether this ends the attempt that a used-up budget suspended. Accepted until the next claim.
    fn ends_breached(&self, row: &Execution) -> bool {
        let Fence { lease_id, epoch, attempt, .. } = self.fence;
        let ends = matches!(self.op, Op::Complete { .. } | Op::Fail { .. });
        let lease = row.detail.breached.as_ref().filter(|_| ends && epoch == row.epoch);
        lease.is_some_and(|lease| (lease.id, lease.epoch, lease.attempt()) == (lease_id, epoch, attempt))
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
        self.op.with(|op| op.add_to(&mut digest));
        digest.finish()
    }
}

/// The execution is completed.
struct Complete<'a> {
    result: &'a Bytes,
}

impl Operation for Complete<'_> {
    fn check(&self) -> Result<(), Refusal> {
        check_payload("/result", self.result)
    }

    fn effect(&self) -> (LeaseEffect, bool) {
        (LeaseEffect::Ends, true)
    }

    fn add_to(&self, digest: &mut Digest) {
        digest.raw(b"complete");
        digest.raw(self.result);
    }

    fn apply(&self, of: &Attempt<'_>, work: &mut Work) -> Result<Reported, Refusal> {
        Ok(of.report.complete(self.result, work))
    }
}

struct Fail<'a> {
    message: &'a str,
    class: FailureClass,
    retry_after_ms: Option<i64>,
}

impl Operation for Fail<'_> {
    fn check(&self) -> Result<(), Refusal> {
        check_message(self.message)?;
        self.retry_after_ms.map_or(Ok(()), |ms| check_duration("/retry_after_ms", ms))
    }

    fn effect(&self) -> (LeaseEffect, bool) {
        (LeaseEffect::Ends, true)
    }

    fn add_to(&self, digest: &mut Digest) {
        digest.raw(b"fail");
        digest.raw(self.class.as_str().as_bytes());
        digest.raw(&self.retry_after_ms.unwrap_or(-1).to_le_bytes());
        digest.raw(self.message.as_bytes());
    }

    /// Ends the attempt, and keeps its error.
    fn apply(&self, of: &Attempt<'_>, work: &mut Work) -> Result<Reported, Refusal> {
        let error = Failure { message: self.message.to_owned(), class: self.class };
        let next = after_failure(work, of.row, self.class, self.retry_after_ms);
        let (lease, digest) = (of.lease.clone(), of.report.digest());
        let fact = Fact::Failed(fact::Failed { lease, error: error.clone(), next, digest });
        work.apply(of.row.id, fact, None, |row| {
            follow(row, next);
            row.detail.breached = None;
            row.detail.error = Some(error);
            row.detail.retries += u32::from(!matches!(next, Next::Terminal(_)));
        });
        Ok(reported(next))
    }
}

/// Puts the execution back until a time.
struct Delay {
    until: When,
}

impl Operation for Delay {
    fn check(&self) -> Result<(), Refusal> {
        self.until.check("/delay_ms").map(|_| ())
    }

    fn effect(&self) -> (LeaseEffect, bool) {
        (LeaseEffect::Ends, false)
    }

    fn add_to(&self, digest: &mut Digest) {
        let (kind, number): (&[u8], i64) = match self.until {
            When::At(at) => (b"delay until", at.micros()),
            When::AfterMs(ms) => (b"delay for", ms),
        };
        digest.raw(kind);
        digest.raw(&number.to_le_bytes());
    }

    fn apply(&self, of: &Attempt<'_>, work: &mut Work) -> Result<Reported, Refusal> {
        let next = put_back(of.row, Some(self.until.at(work.now())), work.now());
        let (lease, digest) = (of.lease.clone(), of.report.digest());
        work.apply(of.row.id, Fact::Delayed(fact::Delayed { lease, next, digest }), None, |row| {
            follow(row, next)
        });
        Ok(reported(next))
    }
}

/// Puts the execution back at once.
struct Release;

impl Operation for Release {
    fn effect(&self) -> (LeaseEffect, bool) {
        (LeaseEffect::Ends, false)
    }

    fn add_to(&self, digest: &mut Digest) {
        digest.raw(b"release");
    }

    fn apply(&self, of: &Attempt<'_>, work: &mut Work) -> Result<Reported, Refusal> {
        let next = put_back(of.row, None, work.now());
        let (lease, digest) = (of.lease.clone(), Some(of.report.digest()));
        work.apply(of.row.id, Fact::Released(fact::Released { lease, next, digest }), None, |row| {
            follow(row, next)
        });
        Ok(reported(next))
    }
}

/// Cancels an execution whose worker acknowledges the request to cancel.
struct AcknowledgeCancel<'a> {
    message: &'a Option<String>,
}

impl Operation for AcknowledgeCancel<'_> {
    fn check(&self) -> Result<(), Refusal> {
        self.message.as_deref().map_or(Ok(()), check_message)
    }

    /// It is refused if no cancel was requested.
    fn effect(&self) -> (LeaseEffect, bool) {
        (LeaseEffect::Any, true)
    }

    fn add_to(&self, digest: &mut Digest) {
        digest.raw(b"cancelled");
        digest.raw(self.message.as_deref().unwrap_or_default().as_bytes());
    }

    fn apply(&self, of: &Attempt<'_>, work: &mut Work) -> Result<Reported, Refusal> {
        let row = of.row;
        let Some(request) = row.detail.cancel.clone() else {
            let detail = "no cancel was requested; report complete, fail or release instead";
            let state = row.state.name().as_str().into();
            return Err(Refusal::WrongState { execution: row.id, state, detail: detail.into() });
        };
        let (reason, next) = (request.reason, Next::Terminal(Outcome::Cancelled));
        let (lease, message, digest) = (of.lease.clone(), self.message.clone(), of.report.digest());
        let fact = Fact::CancelAcknowledged(fact::CancelAcknowledged { lease, reason, message, digest });
        work.apply(row.id, fact, request.actor, |row| follow(row, next));
        Ok(reported(next))
    }
}

/// Returns the reply to a report that ends the lease.
pub(super) fn reported(next: Next) -> Reported {
    let (state, delayed_until) = match next {
        Next::Waiting => (StateName::Waiting, None),
        Next::Delayed(until) => (StateName::Delayed, Some(until)),
        Next::Terminal(outcome) => (State::Terminal(outcome).name(), None),
        Next::Suspended => (StateName::Suspended, None),
    };
    Reported { state, delayed_until, ..Reported::active() }
}

pub(super) fn check_message(message: &str) -> Result<(), Refusal> {
    if message.len() > MESSAGE_LIMIT {
        return Err(Refusal::PayloadTooLarge {
            pointer: "/message".into(),
            limit: MESSAGE_LIMIT as u64,
            actual: message.len() as u64,
        });
    }
    Ok(())
}
