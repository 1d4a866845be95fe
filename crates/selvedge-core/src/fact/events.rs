//! The public events and their data that facts of several subjects share.

use super::{Failure, LeaseRef, Next};
use crate::{Outcome, Timestamp};
use serde_json::{Map, Value, json};

/// The type and the data of a public event.
pub type EventBody = (&'static str, Value);

/// Returns event data with a time if there is one, in milliseconds since the Unix epoch; the server formats it as text.
pub(super) fn with_time(field: &str, time: impl Into<Option<Timestamp>>, mut data: Value) -> Value {
    if let Some(time) = time.into() {
        data[field] = json!(time.millis());
    }
    data
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
        Next::Delayed(until) => vec![(delayed, with_time("until_at", until, json!({})))],
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
