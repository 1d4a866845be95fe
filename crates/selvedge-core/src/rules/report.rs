//! Reports of workers: every one presents the fence of its lease.
//!
//! The epoch is the fence, not the clock: until the lease was taken away, a late report of the current lease is accepted.
//! A report that already succeeded, repeated, gives the same answer: the line of history that it wrote is its receipt.

use super::frame::{self, Known};
use super::gates::budget::Spend;
use super::grow::Spawn;
use super::step::StepDraft;
use super::suspend::Suspend;
use super::waitpoint::{WaitpointDraft, make};
use super::{after_failure, follow, put_back};
use crate::execution::Progress;
use crate::fact::{Fact, Failure, Next};
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
use xxhash_rust::xxh3::Xxh3;

/// The longest error or progress message, in bytes.
pub const MESSAGE_LIMIT: usize = 64 * 1024;

/// What every write of a worker presents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fence {
    /// The execution.
    pub execution: ExecutionId,
    /// The attempt.
    pub attempt: u32,
    /// The lease.
    pub lease_id: LeaseId,
    /// Its epoch.
    pub epoch: u32,
}

impl Fence {
    /// The fence of a leased execution.
    pub fn of(row: &Execution) -> Option<Fence> {
        let lease = row.state.lease()?;
        Some(Fence { execution: row.id, attempt: row.attempt()?, lease_id: lease.id, epoch: row.epoch })
    }

    /// Whether this is the current lease of `row`.
    pub fn holds(&self, row: &Execution) -> bool {
        Fence::of(row).as_ref() == Some(self)
    }
}

/// What a worker reports.
#[derive(Clone, Debug)]
pub enum Op {
    /// It is done.
    Complete {
        /// The result, JSON kept byte for byte.
        result: Bytes,
    },
    /// It failed.
    Fail {
        /// What went wrong.
        message: String,
        /// Its class.
        class: FailureClass,
        /// Wait this long instead of the back-off.
        retry_after_ms: Option<i64>,
    },
    /// How far it has come.
    Progress {
        /// 0 to 100.
        percent: Option<f64>,
        /// In words.
        message: Option<String>,
    },
    /// Put it back until a time.
    Delay {
        /// Until when.
        until: When,
    },
    /// Put it back now.
    Release,
    /// Add children to its flow.
    Spawn(Box<Spawn>),
    /// Append to its stream.
    Frame {
        /// What the frame is.
        kind: FrameKind,
        /// How it is kept.
        mode: FrameMode,
        /// JSON, kept byte for byte.
        data: Bytes,
    },
    /// Make a waitpoint.
    Waitpoint {
        /// Which.
        draft: WaitpointDraft,
        /// Which root secret its token is signed under.
        fingerprint: i64,
    },
    /// Suspend it.
    Suspend(Box<Suspend>),
    /// Record a step.
    Step(StepDraft),
    /// Something was spent of a budget.
    Usage(Spend),
}

/// One report.
#[derive(Clone, Debug)]
pub struct Report {
    /// Whose.
    pub namespace: NamespaceId,
    /// Under which lease.
    pub fence: Fence,
    /// The worker's own name for this report; a repeat is known by it instead of by content.
    pub op_id: Option<String>,
    /// What.
    pub op: Op,
}

/// An accepted report.
#[derive(Clone, Debug, PartialEq)]
pub struct Reported {
    /// The state that followed.
    pub state: StateName,
    /// Until when, if it is delayed.
    pub delayed_until: Option<crate::Timestamp>,
    /// The children that it spawned, by name.
    pub spawned: Vec<(Name, ExecutionId)>,
    /// The waitpoints that it asked for.
    pub waitpoints: Vec<Waitpoint>,
}

impl Reported {
    /// The lease goes on.
    fn leased() -> Reported {
        Reported {
            state: StateName::Active,
            delayed_until: None,
            spawned: Vec::new(),
            waitpoints: Vec::new(),
        }
    }
}

/// The reports of one call, each accepted or refused on its own.
#[derive(Clone, Debug)]
pub struct Reports(pub Vec<Report>);

impl Rule for Reports {
    /// One answer per report, in order.
    type Reply = Vec<Result<Reported, Refusal>>;
    const PHASE: Phase = Phase::Reports;

    fn profile(&self) -> Profile {
        profile(&self.0)
    }

    fn needs(&self, work: &Work, needs: &mut Needs) {
        self.0.iter().for_each(|report| report.needs(work, needs));
    }

    fn decide(&self, work: &mut Work) -> Self::Reply {
        let known = frame::known(&self.0, work);
        self.0.iter().zip(known).map(|(report, known)| report.decide_knowing(known, work)).collect()
    }
}

fn profile(reports: &[Report]) -> Profile {
    // Usage is counted in rows that the batch has anyway.
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
            Op::Complete { .. } | Op::Fail { .. } | Op::Progress { .. } | Op::Delay { .. } | Op::Release => {}
        }
    }

    /// Applies the report, or refuses it with a reason.
    fn decide(&self, work: &mut Work) -> Self::Reply {
        let known = frame::known(std::slice::from_ref(self), work).pop();
        self.decide_knowing(known.unwrap_or_default(), work)
    }
}

impl Report {
    /// Checks what can be checked without rows.
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
                        format!("is {percent}; it must lie between 0 and 100"),
                    ));
                }
                message.as_deref().map_or(Ok(()), check_message)
            }
            Op::Delay { until } => until.check("/delay_ms").map(|_| ()),
            Op::Release | Op::Spawn(_) => Ok(()),
            Op::Frame { data, .. } => frame::check(data),
            Op::Waitpoint { draft, .. } => draft.check(""),
            Op::Suspend(suspend) => suspend.check(),
            Op::Step(step) => step.check(),
            Op::Usage(spend) => spend.check(),
        }
    }

    /// The stream of its attempt.
    pub(super) fn stream(&self) -> StreamName {
        StreamName { execution: self.fence.execution, attempt: self.fence.attempt }
    }

    /// What it does to its execution.
    fn touch(&self) -> Touch {
        let (lease, may_finish) = match &self.op {
            Op::Complete { .. } | Op::Fail { .. } => (LeaseEffect::Ends, true),
            Op::Delay { .. } | Op::Release => (LeaseEffect::Ends, false),
            // Its steps or its waitpoints may refuse it, although its lease is the current one.
            Op::Suspend(suspend) if suspend.may_be_refused() => (LeaseEffect::Any, false),
            Op::Suspend(_) => (LeaseEffect::Ends, false),
            Op::Usage(_) => (LeaseEffect::Unchanged, false),
            Op::Progress { .. } | Op::Spawn(_) | Op::Frame { .. } | Op::Waitpoint { .. } | Op::Step(_) => {
                (LeaseEffect::Keeps, false)
            }
        };
        Touch { execution: self.fence.execution, fence: Some(self.fence), lease, may_finish }
    }

    fn decide_knowing(&self, known: Known, work: &mut Work) -> Result<Reported, Refusal> {
        self.check()?;
        let id = self.fence.execution;
        let row = work.execution(self.namespace, id)?;
        if let Op::Complete { result } = &self.op
            && self.fence.holds(row)
        {
            return Ok(self.complete(result, work));
        }
        let row = row.clone();
        if let Op::Usage(spend) = &self.op {
            return self.spend(&row, spend, work);
        }
        if !self.fence.holds(&row) {
            return self.repeat(&row, work);
        }
        let lease = row.lease_ref().ok_or_else(|| row.stale())?;
        let (now, digest) = (work.now(), self.digest());
        let next = match &self.op {
            Op::Complete { result } => return Ok(self.complete(result, work)),
            Op::Fail { message, class, retry_after_ms } => {
                let error = Failure { message: message.clone(), class: *class };
                let next = after_failure(work, &row, *class, *retry_after_ms);
                work.apply(id, Fact::Failed { lease, error: error.clone(), next, digest }, None, |row| {
                    follow(row, next);
                    row.detail.error = Some(error);
                    row.detail.retries += u32::from(!matches!(next, Next::Terminal(_)));
                });
                next
            }
            Op::Progress { percent, message } => {
                let progress = Progress { percent: *percent, message: message.clone() };
                if row.detail.progress.as_ref() != Some(&progress) {
                    let fact = Fact::Progressed { percent: *percent, message: message.clone() };
                    work.apply(id, fact, None, |row| row.detail.progress = Some(progress));
                }
                return Ok(Reported::leased());
            }
            Op::Spawn(spawn) => {
                let spawned = spawn.decide(&row, work)?;
                return Ok(Reported { spawned, ..Reported::leased() });
            }
            Op::Frame { kind, mode, data } => {
                frame::append(self.stream(), (*kind, *mode, data), known, work)?;
                return Ok(Reported::leased());
            }
            Op::Delay { until } => {
                let next = put_back(&row, Some(until.at(now)), now);
                work.apply(id, Fact::Delayed { lease, next, digest }, None, |row| follow(row, next));
                next
            }
            Op::Release => {
                let next = put_back(&row, None, now);
                let fact = Fact::Released { lease, next, digest: Some(digest) };
                work.apply(id, fact, None, |row| follow(row, next));
                next
            }
            Op::Waitpoint { draft, fingerprint } => {
                let made = make(work, &row, std::slice::from_ref(draft), *fingerprint);
                let waitpoints = made.map_err(|refusal| refusal.without_pointer_prefix("/0"))?;
                return Ok(Reported { waitpoints, ..Reported::leased() });
            }
            Op::Suspend(suspend) => {
                let (next, waitpoints) = suspend.decide(&row, digest, work)?;
                return Ok(Reported { waitpoints, ..reported(next) });
            }
            Op::Step(step) => {
                step.decide(&row, work)?;
                return Ok(Reported::leased());
            }
            Op::Usage(spend) => return self.spend(&row, spend, work),
        };
        Ok(reported(next))
    }

    /// The execution ends as a success. The most frequent report, so the row is not copied.
    fn complete(&self, result: &Bytes, work: &mut Work) -> Reported {
        let (id, digest) = (self.fence.execution, self.digest());
        work.apply(id, Fact::Completed { attempt: self.fence.attempt, digest }, None, |row| {
            follow(row, Next::Terminal(Outcome::Completed));
            row.detail.error = None;
        });
        work.set_result(id, ResultChange::Set(result.clone()));
        reported(Next::Terminal(Outcome::Completed))
    }

    /// What was spent counts whoever's turn it is by now: any lease that was once held may say so.
    fn spend(&self, row: &Execution, spend: &Spend, work: &mut Work) -> Result<Reported, Refusal> {
        let Fence { attempt, lease_id, epoch, .. } = self.fence;
        let lines = row.history.lines();
        let lines =
            lines.map_err(|error| Refusal::Unreadable { execution: row.id, detail: error.to_string() })?;
        let held = match lease_of(&lines, attempt) {
            Some(lease) => lease.id == lease_id && lease.epoch == epoch,
            // Older lines have left the row.
            None => {
                row.detail.history_pages > 0 && epoch <= row.epoch && attempt.checked_add(1) == Some(epoch)
            }
        };
        if !held {
            return Err(row.stale());
        }
        spend.decide(work)?;
        Ok(Reported { state: row.state.name(), ..Reported::leased() })
    }

    /// The fence is not the current one: the answer of the same report if it succeeded before, else a refusal.
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

    /// The waitpoints that it made when it succeeded before: the newest of their names.
    fn waitpoints(&self, work: &Work) -> Vec<Waitpoint> {
        let Op::Suspend(suspend) = &self.op else { return Vec::new() };
        let newest = |draft: &WaitpointDraft| {
            work.waitpoints(self.fence.execution).rev().find(|one| one.name == draft.name).cloned()
        };
        suspend.waitpoints.iter().filter_map(newest).collect()
    }

    /// By what a repeat is known: the worker's own name for the report, or its content.
    fn digest(&self) -> u64 {
        let mut hasher = Xxh3::new();
        if let Some(op_id) = &self.op_id {
            hasher.update(op_id.as_bytes());
            return hasher.digest();
        }
        match &self.op {
            Op::Complete { result } => {
                hasher.update(b"complete");
                hasher.update(result);
            }
            Op::Fail { message, class, retry_after_ms } => {
                hasher.update(b"fail");
                hasher.update(class.as_str().as_bytes());
                hasher.update(&retry_after_ms.unwrap_or(-1).to_le_bytes());
                hasher.update(message.as_bytes());
            }
            Op::Progress { .. } => hasher.update(b"progress"),
            Op::Delay { until: When::At(at) } => {
                hasher.update(b"delay until");
                hasher.update(&at.micros().to_le_bytes());
            }
            Op::Delay { until: When::AfterMs(ms) } => {
                hasher.update(b"delay for");
                hasher.update(&ms.to_le_bytes());
            }
            Op::Release => hasher.update(b"release"),
            Op::Spawn(_) => hasher.update(b"spawn"),
            Op::Frame { data, .. } => {
                hasher.update(b"frame");
                hasher.update(data);
            }
            Op::Waitpoint { .. } => hasher.update(b"waitpoint"),
            Op::Usage(_) => hasher.update(b"usage"),
            Op::Step(step) => {
                hasher.update(b"step");
                hasher.update(step.name.as_bytes());
            }
            Op::Suspend(suspend) => {
                hasher.update(b"suspend");
                hasher.update(format!("{:?}{:?}", suspend.waits, suspend.waitpoints).as_bytes());
            }
        }
        hasher.digest()
    }
}

fn reported(next: Next) -> Reported {
    let (state, delayed_until) = match next {
        Next::Waiting => (StateName::Waiting, None),
        Next::Delayed(until) => (StateName::Delayed, Some(until)),
        Next::Terminal(outcome) => (State::Terminal(outcome).name(), None),
        Next::Suspended => (StateName::Suspended, None),
    };
    Reported { state, delayed_until, ..Reported::leased() }
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
