//! Public events: their types, and the data that events of several subjects share.

use super::{Failure, LeaseRef, Next};
use crate::{Outcome, Timestamp};
use serde_json::{Map, Value, json};

/// The type and the data of a public event.
pub type EventBody = (&'static str, Value);

/// All types of public events. Filters are checked against them.
pub const EVENT_TYPES: &[&str] = &[
    "execution.submitted",
    "execution.ready",
    "execution.started",
    "execution.completed",
    "execution.failed",
    "execution.cancelled",
    "execution.expired",
    "execution.skipped",
    "execution.retry_scheduled",
    "execution.delayed",
    "execution.debounced",
    "execution.cancel_requested",
    "execution.progressed",
    "execution.replayed",
    "execution.reopened",
    "execution.wired",
    "execution.suspended",
    "execution.resumed",
    "execution.noticed",
    "execution.escalated",
    "signal.delivered",
    "waitpoint.created",
    "waitpoint.expired",
    "waitpoint.revoked",
    "waitpoint.reissued",
    "step.recorded",
    "operator.token_keys_rotated",
    "key.created",
    "key.revoked",
    "operator.bulk_job_started",
    "operator.bulk_job_ended",
    "webhook.created",
    "webhook.changed",
    "webhook.deleted",
    "webhook.secret_rotated",
    "webhook.paused",
    "webhook.missed",
    "operator.schedule_saved",
    "operator.schedule_deleted",
    "schedule.fired",
    "schedule.skipped",
    "schedule.refused",
    "inbox.refused",
    "execution.held",
    "execution.released",
    "execution.adopted",
    "operator.gate_configured",
    "operator.gate_removed",
    "budget.used",
    "budget.soft_breach",
    "budget.hard_breach",
    "budget.reset",
    "attempt.ended",
    "lease.acquired",
    "lease.renewed",
    "lease.expired",
    "lease.reclaimed",
    "lease.revoked",
    "lease.orphaned",
    "lease.released",
    "operator.rescheduled",
    "operator.prioritised",
    "operator.tagged",
    "operator.drain_requested",
    "edge.resolved",
    "group.decided",
    "flow.submitted",
    "flow.grown",
    "flow.completed",
    "flow.failed",
    "flow.cancelled",
    "flow.reopened",
    "flow.cancel_requested",
];

/// Returns event data with one time, in milliseconds since the Unix epoch; the server formats it as text.
pub(super) fn time_data(field: &str, time: Option<Timestamp>) -> Value {
    match time {
        Some(time) => json!({ field: time.millis() }),
        None => json!({}),
    }
}

pub(super) fn lease_data(lease: &LeaseRef) -> Map<String, Value> {
    let Value::Object(data) = json!({
        "lease_id": lease.id, "epoch": lease.epoch, "attempt": lease.attempt(),
        "worker": lease.worker, "instance": lease.instance,
    }) else {
        unreachable!("an object literal is an object")
    };
    data
}

/// Returns `attempt.ended` and the event of the next state. `delayed` is the event type for a next state that is
/// delayed.
pub(super) fn attempt_ended(
    lease: &LeaseRef,
    outcome: &str,
    error: Option<&Failure>,
    next: Next,
    delayed: &'static str,
) -> Vec<EventBody> {
    let mut data = json!({ "attempt": lease.attempt(), "outcome": outcome });
    if let Some(error) = error {
        data["error"] = json!(error);
    }
    let mut events = vec![("attempt.ended", data.clone())];
    events.extend(next_events(next, delayed, data));
    events
}

/// Returns the event of the next state.
pub(super) fn next_events(next: Next, delayed: &'static str, data: Value) -> Vec<EventBody> {
    match next {
        Next::Waiting => vec![("execution.ready", json!({}))],
        Next::Suspended => vec![("execution.suspended", data)],
        Next::Delayed(until) => vec![(delayed, time_data("until_at", Some(until)))],
        Next::Terminal(Outcome::Completed) => vec![("execution.completed", data)],
        Next::Terminal(Outcome::Failed) => vec![("execution.failed", data)],
        Next::Terminal(Outcome::Cancelled) => vec![("execution.cancelled", data)],
        Next::Terminal(Outcome::Expired) => vec![("execution.expired", data)],
        Next::Terminal(Outcome::Skipped) => vec![("execution.skipped", data)],
    }
}

/// Returns a lease event, followed by `after`.
pub(super) fn lease_event(
    kind: &'static str,
    lease: &LeaseRef,
    reason: Option<&str>,
    after: Vec<EventBody>,
) -> Vec<EventBody> {
    let mut data = lease_data(lease);
    if let Some(reason) = reason {
        data.insert("reason".into(), json!(reason));
    }
    let mut events = vec![(kind, Value::Object(data))];
    events.extend(after);
    events
}

/// Returns the events of an execution that ended from outside: its lease, if it has one, is revoked and its attempt
/// ends.
pub(super) fn revoked(
    lease: Option<&LeaseRef>,
    outcome: &str,
    reason: &str,
    last: EventBody,
) -> Vec<EventBody> {
    let Some(lease) = lease else { return vec![last] };
    let ended = ("attempt.ended", json!({ "attempt": lease.attempt(), "outcome": outcome }));
    lease_event("lease.revoked", lease, Some(reason), vec![ended, last])
}
