//! The rules, one file per family of operations.
//!
//! Each operation is a struct that implements [`Rule`](crate::rule::Rule): `profile`, `needs` and `decide`. A refused
//! operation changes nothing.

pub mod api_key;
pub mod bulk_job;
mod carried;
pub mod claim;
pub mod flows;
mod frame;
pub mod gates;
pub mod heartbeat;
pub mod inbox;
pub mod keyed;
pub mod operator;
pub mod report;
pub mod schedule;
pub mod signal;
pub mod step;
pub mod submit;
pub mod suspend;
pub mod timer;
pub mod waitpoint;
pub mod webhook;
pub mod worker;

use crate::fact::{self, Fact, Next};
use crate::rows::{KeyName, KeyRow, KeyScope};
use crate::{
    Execution, ExecutionId, FailureClass, Name, NamespaceId, Outcome, Refusal, State, Timestamp, Work,
};
use serde::{Serialize, de::DeserializeOwned};

/// A caller's idempotency key for one call, and the digest of the call.
#[derive(Clone, Debug, PartialEq)]
pub struct CallKey {
    pub key: crate::Name,
    /// Digest of the call's content.
    pub digest: u64,
}

/// Time for which the key of a call is kept: 24 hours.
pub const OPERATION_WINDOW_MS: i64 = 24 * 3600 * 1000;

impl CallKey {
    /// Returns the key of one step of a call that takes several transactions. It contains a control character, which no
    /// caller's key contains.
    pub fn step(&self, step: impl std::fmt::Display) -> CallKey {
        CallKey { key: Name::trusted(&format!("{}\n{step}", self.key)), digest: self.digest }
    }

    /// Returns the full name of the key.
    fn key_name(&self, namespace: NamespaceId) -> KeyName {
        KeyName { namespace, scope: KeyScope::Operation, key: self.key.clone() }
    }

    /// Returns the stored answer if the same call was made before. Refuses a key that was used for another call.
    fn stored<A: DeserializeOwned>(&self, namespace: NamespaceId, work: &Work) -> Result<Option<A>, Refusal> {
        let stored = work.key(&self.key_name(namespace));
        let Some(row) = stored.filter(|row| row.expires_at.is_none_or(|at| at > work.now())) else {
            return Ok(None);
        };
        let answer = serde_json::from_slice(&row.answer).ok().filter(|_| row.digest == self.digest);
        answer.map(Some).ok_or_else(|| Refusal::IdempotencyMismatch {
            pointer: "/headers/idempotency-key".into(),
            detail: "was used for another call; use a new key for a new call".into(),
        })
    }

    fn store<A: Serialize>(&self, namespace: NamespaceId, answer: &A, work: &mut Work) {
        work.put_key(KeyRow {
            name: self.key_name(namespace),
            subject: None,
            digest: self.digest,
            answer: serde_json::to_vec(answer).expect("an answer always serialises").into(),
            expires_at: Some(work.now().plus_ms(OPERATION_WINDOW_MS)),
        });
    }
}

/// Ends the lease of a row, and moves the row to the next state.
fn follow(row: &mut Execution, next: Next) {
    row.state = match next {
        Next::Waiting => State::Waiting,
        Next::Delayed(until) => State::Delayed { until },
        Next::Terminal(outcome) => State::Terminal(outcome),
        // The caller sets the state, which contains the suspension.
        Next::Suspended => return,
    };
    let request = row.detail.cancel.take();
    if next == Next::Terminal(Outcome::Cancelled) {
        row.detail.cancelled_by = request.and_then(|request| request.actor);
    }
}

/// Cancels an execution, unless it has ended, for a reason other than an operator's action on it. Returns the number of executions cancelled: 1 or 0.
fn cancel_now(work: &mut Work, id: ExecutionId, reason: String, actor: Option<Name>) -> u32 {
    let Ok(Some(row)) = work.find(id) else { return 0 };
    if row.state.outcome().is_some() {
        return 0;
    }
    let fact = Fact::Cancelled(fact::Cancelled { lease: row.lease_ref(), reason: Some(reason) });
    work.apply(id, fact, actor, |row| {
        row.detail.cancel = None;
        follow(row, Next::Terminal(Outcome::Cancelled));
    });
    1
}

/// Begins a new generation of an execution, and clears the state of the last one.
fn open_again(row: &mut Execution, now: Timestamp) {
    row.started_at = None;
    row.detail.generation += 1;
    row.detail.replayed_at = Some(now);
    row.detail.retries = 0;
    (row.detail.interruptions, row.detail.interruptions_before_progress) = (0, 0);
    row.detail.interrupted = None;
    row.detail.error = None;
    row.detail.cancelled_by = None;
    row.detail.progress = None;
    row.detail.record.resumed_by = None;
}

/// Returns the next state of an execution whose lease is put back: waiting or delayed, or cancelled if that was
/// requested.
fn put_back(row: &Execution, until: Option<Timestamp>, now: Timestamp) -> Next {
    if row.detail.cancel.is_some() {
        return Next::Terminal(Outcome::Cancelled);
    }
    match until {
        Some(until) if until > now => Next::Delayed(until),
        Some(_) | None => Next::Waiting,
    }
}

/// Returns the next state after a failed attempt: a retry after its backoff, or the end.
fn after_failure(work: &mut Work, row: &Execution, class: FailureClass, retry_after_ms: Option<i64>) -> Next {
    if row.detail.cancel.is_some() {
        return Next::Terminal(Outcome::Cancelled);
    }
    let retry = &row.spec.policy.retry;
    if row.detail.retries >= retry.max_retries || !retry.retry_on.contains(&class) {
        return Next::Terminal(Outcome::Failed);
    }
    let backoff_ms = retry.backoff.delay_ms(row.detail.retries + 1, work.entropy());
    let now = work.now();
    put_back(row, Some(now.plus_ms(retry_after_ms.unwrap_or(backoff_ms))), now)
}

/// Returns the next state after an interrupted attempt: waiting at once the first time, delayed by a backoff from the
/// second time on, and expired after too many interruptions.
fn after_interruption(work: &mut Work, row: &Execution) -> Next {
    if row.detail.cancel.is_some() {
        return Next::Terminal(Outcome::Cancelled);
    }
    let retry = &row.spec.policy.retry;
    let interruptions = row.detail.interruptions_without_progress();
    if interruptions >= retry.max_interruptions {
        return Next::Terminal(Outcome::Expired);
    }
    let now = work.now();
    let until =
        (interruptions > 0).then(|| now.plus_ms(retry.backoff.delay_ms(interruptions, work.entropy())));
    put_back(row, until, now)
}
