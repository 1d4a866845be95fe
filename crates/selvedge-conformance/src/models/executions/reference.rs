//! The reference model of executions without a flow, as the specification defines them. It calls no rule of core.
//!
//! Times are in microseconds. On a manual clock they are exact; on the system clock every step takes one microsecond, and
//! durations are zero or longer than any test.

use super::command::{Content, LONG_MS};
use super::records::{ModelKey, Record};
use super::waits::ModelWait;
use selvedge_core::rules::report::Fence;
use selvedge_core::signal::Effect;
use selvedge_core::state::StateName;
use selvedge_core::{DueKind, ExecutionId, Outcome, Timestamp};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The number of workers.
pub const WORKERS: usize = 3;

/// The state of an execution.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelState {
    Waiting,
    Delayed(i64),
    Active { fence: Fence, worker: usize, claimed_at: i64 },
    Suspended(Vec<ModelWait>),
    Ended(Outcome),
}

/// The identity of a report: its operation id, or else its content.
#[derive(Clone, Debug, PartialEq)]
pub enum ReportKey {
    Named(u8),
    Content(super::command::ReportSpec),
}

#[derive(Clone, Debug)]
pub struct ModelExecution {
    pub id: ExecutionId,
    pub content: Content,
    pub state: ModelState,
    pub version: u32,
    pub epoch: u32,
    pub generation: u32,
    pub retries: u32,
    pub interruptions: u32,
    pub interruptions_before_progress: u32,
    pub priority: i16,
    pub tags: BTreeMap<u8, u8>,
    pub progress: Option<u8>,
    /// The operation ids of the reports of progress under the current lease.
    pub progress_ids: Vec<u8>,
    pub result: Option<u8>,
    pub submitted_at: i64,
    pub opened_at: i64,
    pub started_at: Option<i64>,
    pub ended_at: i64,
    pub cancel_until: Option<i64>,
    /// Reports that ended an attempt, and the resulting states.
    pub endings: Vec<(Fence, ReportKey, StateName)>,
    /// Its claim order, taken from the store; none if it has just become waiting.
    pub ready_order: Option<Timestamp>,
    /// The execution's signals, waitpoints and steps.
    pub record: Record,
}

/// The session of a worker.
#[derive(Clone, Debug, Default)]
pub struct ModelSession {
    pub renewed_at: Option<i64>,
    pub draining: bool,
    /// True from a departure until the next claim.
    pub ended: bool,
    /// The number of incarnations that have begun.
    pub incarnations: u32,
}

/// The state of the model.
#[derive(Debug, Default)]
pub struct Reference {
    pub now: i64,
    pub manual: bool,
    pub executions: HashMap<ExecutionId, ModelExecution>,
    pub idempotency: HashMap<u8, (ExecutionId, Content, i64)>,
    pub unique: HashMap<u8, ExecutionId>,
    pub debounced: HashMap<u8, ExecutionId>,
    pub sessions: BTreeMap<usize, ModelSession>,
    pub keys: Vec<ModelKey>,
}

/// The expected reply to a command.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Submitted {
        id: ExecutionId,
        duplicate: bool,
    },
    State(StateName),
    /// The reply to a report that created waitpoints, with their numbers.
    Waitpoints(StateName, Vec<u32>),
    Delivered {
        number: u32,
        name: u8,
        source: u8,
        duplicate: bool,
        effect: Effect,
    },
    Version(u32),
    Acted,
    NotDue,
    Lost,
    Yes,
    No,
    Refused(&'static str),
}

/// Converts milliseconds to microseconds.
pub fn ms(millis: i64) -> i64 {
    millis * 1000
}

/// Returns the time to live of a worker's leases, in milliseconds. It differs by worker on a manual clock.
pub fn ttl_ms(manual: bool, worker: usize) -> i64 {
    match (manual, worker) {
        (false, _) => LONG_MS / 2,
        (true, 0) => 500,
        (true, 1) => 3_000,
        (true, _) => 60_000,
    }
}

impl ModelState {
    pub fn name(&self) -> StateName {
        match self {
            ModelState::Waiting => StateName::Waiting,
            ModelState::Delayed(_) => StateName::Delayed,
            ModelState::Active { .. } => StateName::Active,
            ModelState::Suspended(_) => StateName::Suspended,
            ModelState::Ended(outcome) => selvedge_core::State::Terminal(*outcome).name(),
        }
    }
}

impl ModelExecution {
    pub fn has_ended(&self) -> bool {
        matches!(self.state, ModelState::Ended(_))
    }

    pub fn holds(&self, given: &Fence) -> bool {
        matches!(&self.state, ModelState::Active { fence, .. } if fence == given)
    }

    /// Returns the earliest due action: retention after the end; before that a delay, a limit, a timeout or an expiry.
    pub fn next_due(&self) -> Option<(i64, DueKind)> {
        let content = &self.content;
        let deadline = content.deadline_ms.map(|limit| self.opened_at + ms(limit));
        let started = self.started_at.is_some();
        let start_by = content.start_by_ms.filter(|_| !started).map(|limit| self.opened_at + ms(limit));
        let expiry = self.record.next_expiry().filter(|_| !self.has_ended());
        let mut timeout = None;
        let (limits, other) = match &self.state {
            ModelState::Waiting => ([deadline, start_by], None),
            ModelState::Delayed(until) => ([deadline, start_by], Some((*until, DueKind::Delay))),
            ModelState::Active { claimed_at, .. } => {
                let timeout = content.attempt_timeout_ms.map(|limit| claimed_at + ms(limit));
                ([deadline, self.cancel_until], timeout.map(|at| (at, DueKind::AttemptTimeout)))
            }
            ModelState::Suspended(waits) => {
                let times = waits.iter().filter_map(ModelWait::next_time);
                timeout = waits.iter().filter_map(ModelWait::times_out_at).min();
                ([deadline, None], times.min().map(|at| (at, DueKind::Delay)))
            }
            ModelState::Ended(_) => {
                let kept = self.ended_at + ms(content.retention_ms);
                let key = content.idempotency.map_or(0, |(_, window)| self.submitted_at + ms(window));
                ([None, None], Some((kept.max(key), DueKind::Retention)))
            }
        };
        let limits = limits.into_iter().flatten().map(|at| (at, DueKind::Deadline));
        let timeout = timeout.map(|at| (at, DueKind::SuspensionTimeout));
        let expiry = expiry.map(|at| (at, DueKind::WaitpointExpiry));
        limits.chain(other).chain(timeout).chain(expiry).min()
    }

    /// Returns the rank in claim order. A level of priority is worth an hour of waiting.
    fn rank(&self) -> i64 {
        let waiting = self.ready_order.map_or(i64::MAX, Timestamp::micros);
        waiting.saturating_sub(i64::from(self.priority) * 3_600_000_000)
    }

    /// Changes the state. A cancellation request of the old attempt is dropped.
    pub fn move_to(&mut self, next: ModelState, now: i64) {
        if next == ModelState::Waiting {
            self.ready_order = None;
        }
        let ends = matches!(next, ModelState::Ended(_));
        if ends {
            self.ended_at = now;
        }
        self.state = next;
        self.cancel_until = None;
        self.version += 1;
        if ends {
            self.close_waitpoints(None);
        }
    }

    /// Returns the state after an attempt that does not end the execution: waiting after `wait` milliseconds, or
    /// cancelled if that was requested.
    pub fn after_attempt(&self, wait: i64, now: i64) -> ModelState {
        match (self.cancel_until, wait) {
            (Some(_), _) => ModelState::Ended(Outcome::Cancelled),
            (None, 0) => ModelState::Waiting,
            (None, wait) => ModelState::Delayed(now + ms(wait)),
        }
    }

    /// Returns the state after a failure. Counts a retry if the execution is retried.
    pub fn after_failure(&mut self, is_retried: bool, wait: i64, now: i64) -> ModelState {
        if self.cancel_until.is_none() && (self.retries >= self.content.max_retries || !is_retried) {
            return ModelState::Ended(Outcome::Failed);
        }
        let next = self.after_attempt(wait, now);
        self.retries += u32::from(!matches!(next, ModelState::Ended(_)));
        next
    }

    /// Returns the state after an interruption. The first one has no backoff.
    pub fn after_interruption(&mut self, now: i64) -> ModelState {
        let charged = self.interruptions - self.interruptions_before_progress;
        if self.cancel_until.is_none() && charged >= self.content.max_interruptions {
            return ModelState::Ended(Outcome::Expired);
        }
        let wait = if charged == 0 { 0 } else { self.content.backoff_ms };
        let next = self.after_attempt(wait, now);
        self.interruptions += u32::from(!matches!(next, ModelState::Ended(_)));
        next
    }
}

impl Reference {
    /// Returns the executions that a claim takes, in order.
    pub fn claim(&mut self, worker: usize, both_lanes: bool, max: u32) -> Vec<ExecutionId> {
        let session = self.sessions.entry(worker).or_default();
        if session.draining {
            return Vec::new();
        }
        session.ended = false;
        let mut waiting: Vec<_> = self
            .executions
            .values()
            .filter(|known| known.state == ModelState::Waiting && (both_lanes || !known.content.second_lane))
            .map(|known| (known.rank(), known.id))
            .collect();
        waiting.sort();
        waiting.into_iter().take(max as usize).map(|(_, id)| id).collect()
    }

    /// Applies the grant of a lease to a worker.
    pub fn lease(&mut self, fence: Fence, worker: usize) {
        let now = self.now;
        if let Some(known) = self.executions.get_mut(&fence.execution) {
            known.epoch += 1;
            known.version += 1;
            known.progress = None;
            known.progress_ids.clear();
            known.state = ModelState::Active { fence, worker, claimed_at: now };
            if known.started_at.is_none() {
                known.started_at = Some(now);
            }
        }
    }

    /// Returns the leases of a worker, in the order of their executions.
    pub fn held_by(&self, of: usize) -> Vec<(Fence, i64)> {
        let held = self.executions.values().filter_map(|known| match &known.state {
            ModelState::Active { fence, worker, claimed_at } if *worker == of => Some((*fence, *claimed_at)),
            ModelState::Active { .. }
            | ModelState::Waiting
            | ModelState::Delayed(_)
            | ModelState::Suspended(_)
            | ModelState::Ended(_) => None,
        });
        let mut held: Vec<(Fence, i64)> = held.collect();
        held.sort_by_key(|(fence, _)| fence.execution);
        held
    }

    /// Applies a heartbeat that names these leases: renews the session if it names one of the worker's. Returns the
    /// orphaned leases.
    pub fn heartbeat(&mut self, worker: usize, named: &[Fence]) -> Vec<Fence> {
        let held = self.held_by(worker);
        let (now, manual) = (self.now, self.manual);
        let Some(session) = self.sessions.get_mut(&worker) else {
            return Vec::new();
        };
        if !held.iter().any(|(fence, _)| named.contains(fence)) {
            return Vec::new();
        }
        let before = session.renewed_at.replace(now);
        let named: BTreeSet<_> = named.iter().map(|fence| (fence.execution, fence.epoch)).collect();
        let old = now - ms(ttl_ms(manual, worker) / 3);
        let orphans = held.into_iter().filter(|(fence, claimed_at)| {
            let answered = before.is_some_and(|renewed| *claimed_at < renewed) && *claimed_at < old;
            !named.contains(&(fence.execution, fence.epoch)) && answered
        });
        orphans.map(|(fence, _)| fence).collect()
    }

    /// Applies the departure of a worker: resets its session. Returns its leases; none if the worker is unknown.
    pub fn depart(&mut self, worker: usize) -> Option<Vec<Fence>> {
        let session = self.sessions.get_mut(&worker)?;
        *session =
            ModelSession { ended: true, incarnations: session.incarnations, ..ModelSession::default() };
        Some(self.held_by(worker).into_iter().map(|(fence, _)| fence).collect())
    }

    /// Applies the first claim of a new incarnation of a worker. Returns its number, and the leases of its predecessor;
    /// those of an unknown worker are none.
    pub fn restart(&mut self, worker: usize) -> (u32, Vec<Fence>) {
        let session = self.sessions.entry(worker).or_default();
        let incarnations = session.incarnations + 1;
        *session = ModelSession { incarnations, ..ModelSession::default() };
        (incarnations, self.held_by(worker).into_iter().map(|(fence, _)| fence).collect())
    }

    /// Deletes an execution and the keys that refer to it.
    pub fn delete(&mut self, id: ExecutionId) {
        self.executions.remove(&id);
        self.idempotency.retain(|_, (of, _, _)| *of != id);
        self.unique.retain(|_, of| *of != id);
        self.debounced.retain(|_, of| *of != id);
    }
}
