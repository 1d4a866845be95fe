//! The reference model: what the specification says of lone executions, in the plainest words. It calls no rule of core.
//!
//! Times are microseconds. Where the clock of the store can be moved they are exact; else every step takes one
//! microsecond, and durations are nothing or longer than any test.

use super::command::{Content, LONG_MS};
use super::recorded::{Key, Record};
use super::waiting::Waiting;
use selvedge_core::rules::report::Fence;
use selvedge_core::signal::Effect;
use selvedge_core::state::StateName;
use selvedge_core::{DueKind, ExecutionId, Outcome, Timestamp};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// How many workers there are.
pub const WORKERS: usize = 3;

/// Where an execution stands.
#[derive(Clone, Debug, PartialEq)]
pub enum Place {
    Waiting,
    Delayed(i64),
    Active { fence: Fence, worker: usize, claimed_at: i64 },
    Suspended(Vec<Waiting>),
    Ended(Outcome),
}

/// By what a repeated report is known.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    Named(u8),
    Content(super::command::Op),
}

/// What is known of an execution.
#[derive(Clone, Debug)]
pub struct Known {
    pub id: ExecutionId,
    pub content: Content,
    pub place: Place,
    pub version: u32,
    pub epoch: u32,
    pub generation: u32,
    pub retries: u32,
    pub interruptions: u32,
    pub priority: i16,
    pub tags: BTreeMap<u8, u8>,
    pub progress: Option<u8>,
    pub result: Option<u8>,
    pub submitted_at: i64,
    pub opened_at: i64,
    pub started_at: Option<i64>,
    pub ended_at: i64,
    pub cancel_until: Option<i64>,
    /// Reports that ended an attempt, and what followed.
    pub endings: Vec<(Fence, Said, StateName)>,
    /// Its place among the ready ones, as the store told it; none where it has just become ready.
    pub ready_order: Option<Timestamp>,
    /// Its signals, waitpoints and steps.
    pub record: Record,
}

/// A worker's session.
#[derive(Clone, Debug, Default)]
pub struct Presence {
    pub renewed_at: Option<i64>,
    pub draining: bool,
}

/// Everything that is known.
#[derive(Debug, Default)]
pub struct Reference {
    pub now: i64,
    pub manual: bool,
    pub executions: HashMap<ExecutionId, Known>,
    pub idempotency: HashMap<u8, (ExecutionId, Content, i64)>,
    pub unique: HashMap<u8, ExecutionId>,
    pub sessions: BTreeMap<usize, Presence>,
    pub keys: Vec<Key>,
}

/// What a command should be answered.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Submitted {
        id: ExecutionId,
        duplicate: bool,
    },
    State(StateName),
    /// A report that asked for waitpoints: their numbers.
    Made(StateName, Vec<u32>),
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

/// This many milliseconds in microseconds.
pub fn ms(millis: i64) -> i64 {
    millis * 1000
}

/// The time to live of a worker's leases, in milliseconds: of every length where the clock can be moved.
pub fn ttl_ms(manual: bool, worker: usize) -> i64 {
    match (manual, worker) {
        (false, _) => LONG_MS / 2,
        (true, 0) => 500,
        (true, 1) => 3_000,
        (true, _) => 60_000,
    }
}

impl Place {
    pub fn name(&self) -> StateName {
        match self {
            Place::Waiting => StateName::Waiting,
            Place::Delayed(_) => StateName::Delayed,
            Place::Active { .. } => StateName::Active,
            Place::Suspended(_) => StateName::Suspended,
            Place::Ended(outcome) => selvedge_core::State::Terminal(*outcome).name(),
        }
    }
}

impl Known {
    pub fn has_ended(&self) -> bool {
        matches!(self.place, Place::Ended(_))
    }

    pub fn holds(&self, given: &Fence) -> bool {
        matches!(&self.place, Place::Active { fence, .. } if fence == given)
    }

    /// What came due first is what time does next: a retention after the end; before it a delay, a limit, a grace.
    pub fn next_due(&self) -> Option<(i64, DueKind)> {
        let content = &self.content;
        let deadline = content.deadline_ms.map(|limit| self.opened_at + ms(limit));
        let started = self.started_at.is_some();
        let start_by = content.start_by_ms.filter(|_| !started).map(|limit| self.opened_at + ms(limit));
        let expiry = self.record.next_expiry().filter(|_| !self.has_ended());
        let mut timeout = None;
        let (limits, other) = match &self.place {
            Place::Waiting => ([deadline, start_by], None),
            Place::Delayed(until) => ([deadline, start_by], Some((*until, DueKind::Delay))),
            Place::Active { claimed_at, .. } => {
                let timeout = content.attempt_timeout_ms.map(|limit| claimed_at + ms(limit));
                ([deadline, self.cancel_until], timeout.map(|at| (at, DueKind::AttemptTimeout)))
            }
            Place::Suspended(waits) => {
                let times = waits.iter().filter_map(Waiting::next_time);
                timeout = waits.iter().filter_map(Waiting::times_out_at).min();
                ([deadline, None], times.min().map(|at| (at, DueKind::Delay)))
            }
            Place::Ended(_) => {
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

    /// Its place among the ready ones: a level of priority counts as an hour of waiting.
    fn rank(&self) -> i64 {
        let ready = self.ready_order.map_or(i64::MAX, Timestamp::micros);
        ready.saturating_sub(i64::from(self.priority) * 3_600_000_000)
    }

    /// Puts it somewhere else. Whatever its worker was asked is over.
    pub fn put(&mut self, place: Place, now: i64) {
        if place == Place::Waiting {
            self.ready_order = None;
        }
        if matches!(place, Place::Ended(_)) {
            self.ended_at = now;
        }
        self.place = place;
        self.cancel_until = None;
        self.version += 1;
    }

    /// Where it goes when an attempt is over without an end: back after this long, unless a cancel was asked for.
    pub fn back(&self, wait: i64, now: i64) -> Place {
        match (self.cancel_until, wait) {
            (Some(_), _) => Place::Ended(Outcome::Cancelled),
            (None, 0) => Place::Waiting,
            (None, wait) => Place::Delayed(now + ms(wait)),
        }
    }

    /// Where it goes after a failure; charged only if it is tried again.
    pub fn after_failure(&mut self, retried: bool, wait: i64, now: i64) -> Place {
        if self.cancel_until.is_none() && (self.retries >= self.content.max_retries || !retried) {
            return Place::Ended(Outcome::Failed);
        }
        let place = self.back(wait, now);
        self.retries += u32::from(!matches!(place, Place::Ended(_)));
        place
    }

    /// Where it goes when infrastructure took its attempt away: back at once the first time.
    pub fn after_interruption(&mut self, now: i64) -> Place {
        if self.cancel_until.is_none() && self.interruptions >= self.content.max_interruptions {
            return Place::Ended(Outcome::Expired);
        }
        let wait = if self.interruptions == 0 { 0 } else { self.content.backoff_ms };
        let place = self.back(wait, now);
        self.interruptions += u32::from(!matches!(place, Place::Ended(_)));
        place
    }
}

impl Reference {
    /// The executions that a claim takes, in order.
    pub fn claim(&mut self, worker: usize, both_lanes: bool, max: u32) -> Vec<ExecutionId> {
        let session = self.sessions.entry(worker).or_default();
        if session.draining {
            return Vec::new();
        }
        let mut ready: Vec<_> = self
            .executions
            .values()
            .filter(|known| known.place == Place::Waiting && (both_lanes || !known.content.second_lane))
            .map(|known| (known.rank(), known.id))
            .collect();
        ready.sort();
        ready.into_iter().take(max as usize).map(|(_, id)| id).collect()
    }

    /// Takes in that a worker was given a lease.
    pub fn lease(&mut self, fence: Fence, worker: usize) {
        let now = self.now;
        if let Some(known) = self.executions.get_mut(&fence.execution) {
            known.epoch += 1;
            known.version += 1;
            known.progress = None;
            known.place = Place::Active { fence, worker, claimed_at: now };
            if known.started_at.is_none() {
                known.started_at = Some(now);
            }
        }
    }

    /// The leases a worker holds, in the order of their executions.
    pub fn held_by(&self, of: usize) -> Vec<(Fence, i64)> {
        let held = self.executions.values().filter_map(|known| match &known.place {
            Place::Active { fence, worker, claimed_at } if *worker == of => Some((*fence, *claimed_at)),
            Place::Active { .. }
            | Place::Waiting
            | Place::Delayed(_)
            | Place::Suspended(_)
            | Place::Ended(_) => None,
        });
        let mut held: Vec<(Fence, i64)> = held.collect();
        held.sort_by_key(|(fence, _)| fence.execution);
        held
    }

    /// What a heartbeat that names these leases finds orphaned; it renews the session if it names one that is held.
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

    /// The leases of a worker that says that it has gone; none where it is not known. Its session starts over.
    pub fn depart(&mut self, worker: usize) -> Option<Vec<Fence>> {
        *self.sessions.get_mut(&worker)? = Presence::default();
        Some(self.held_by(worker).into_iter().map(|(fence, _)| fence).collect())
    }

    /// Forgets an execution; its keys are free where they still stand for it.
    pub fn delete(&mut self, id: ExecutionId) {
        self.executions.remove(&id);
        self.idempotency.retain(|_, (of, _, _)| *of != id);
        self.unique.retain(|_, of| *of != id);
    }
}
