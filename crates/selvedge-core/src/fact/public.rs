//! The public events of facts: the only definition of their names and data.

use super::{EdgeUpdate, Fact, Failure, LeaseRef, Next, SuspensionNotice, WebhookChange};
use crate::flow::FlowState;
use crate::gate::GateName;
use crate::text::replace_nul_in;
use crate::{Name, Outcome, Timestamp};
use serde_json::{Map, Value, json};

/// The type and the data of a public event.
pub type EventBody = (&'static str, Value);

impl Fact {
    /// Returns the public events of this fact, in order. Texts have no U+0000, also those of facts that were stored with it.
    pub fn public_events(&self) -> Vec<EventBody> {
        let mut events = self.stored_events();
        events.iter_mut().for_each(|(_, data)| replace_nul_in(data));
        events
    }

    /// Returns the public events with the texts as they are stored.
    fn stored_events(&self) -> Vec<EventBody> {
        match self {
            Fact::Submitted { delayed_until } => {
                vec![("execution.submitted", time_data("delayed_until_at", *delayed_until))]
            }
            Fact::DelayOver => vec![("execution.ready", json!({}))],
            Fact::Claimed { lease, ttl_ms, after } => {
                let mut data = lease_data(lease);
                data.insert("ttl_ms".into(), json!(ttl_ms));
                let kind = match after {
                    None => "lease.acquired",
                    Some(previous) => {
                        data.insert("previous".into(), Value::Object(lease_data(previous)));
                        "lease.reclaimed"
                    }
                };
                vec![
                    (kind, Value::Object(data)),
                    ("execution.started", json!({ "attempt": lease.attempt() })),
                ]
            }
            Fact::Completed { attempt, .. } => vec![
                ("attempt.ended", json!({ "attempt": attempt, "outcome": "completed" })),
                ("execution.completed", json!({ "attempt": attempt })),
            ],
            Fact::Failed { lease, error, next, .. } => {
                attempt_ended(lease, "failed", Some(error), *next, "execution.retry_scheduled")
            }
            Fact::TimedOut { lease, next } => {
                attempt_ended(lease, "timeout", None, *next, "execution.retry_scheduled")
            }
            Fact::LeaseExpired { lease, next } => lease_event(
                "lease.expired",
                lease,
                None,
                attempt_ended(lease, "interrupted", None, *next, "execution.delayed"),
            ),
            Fact::Delayed { lease, next, .. } => {
                attempt_ended(lease, "delayed", None, *next, "execution.delayed")
            }
            Fact::Released { lease, next, .. } => lease_event(
                "lease.released",
                lease,
                None,
                attempt_ended(lease, "released", None, *next, "execution.delayed"),
            ),
            Fact::Orphaned { lease, next } => lease_event(
                "lease.orphaned",
                lease,
                None,
                attempt_ended(lease, "orphaned", None, *next, "execution.delayed"),
            ),
            Fact::Revoked { lease, reason, next } => {
                let after = attempt_ended(lease, "revoked", None, *next, "execution.delayed");
                lease_event("lease.revoked", lease, reason.as_deref(), after)
            }
            Fact::Cancelled { lease, reason } => {
                let last = ("execution.cancelled", json!({ "reason": reason }));
                revoked(lease.as_ref(), "cancelled", reason.as_deref().unwrap_or("cancelled"), last)
            }
            Fact::CancelAcknowledged { lease, reason, message, .. } => vec![
                ("attempt.ended", json!({ "attempt": lease.attempt(), "outcome": "cancelled" })),
                ("execution.cancelled", json!({ "reason": reason, "message": message })),
            ],
            Fact::CancelRequested { reason, until } => {
                let mut data = time_data("until_at", Some(*until));
                data["reason"] = json!(reason);
                vec![("execution.cancel_requested", data)]
            }
            Fact::DeadlinePassed { lease } => {
                let last = ("execution.expired", json!({ "reason": "deadline" }));
                revoked(lease.as_ref(), "expired", "deadline", last)
            }
            Fact::StartByPassed => vec![("execution.expired", json!({ "reason": "start_by" }))],
            Fact::Rescheduled { next } => {
                let mut events = vec![("operator.rescheduled", json!({}))];
                events.extend(next_events(*next, "execution.delayed", json!({})));
                events
            }
            Fact::Replayed { generation } => {
                vec![
                    ("execution.replayed", json!({ "generation": generation })),
                    ("execution.ready", json!({})),
                ]
            }
            Fact::Progressed { percent, message } => {
                vec![("execution.progressed", json!({ "percent": percent, "message": message }))]
            }
            Fact::Prioritised { from, to } => {
                vec![("operator.prioritised", json!({ "from": from, "to": to }))]
            }
            Fact::Tagged { set, remove } => {
                vec![("operator.tagged", json!({ "set": set, "remove": remove }))]
            }
            Fact::Renewed { worker, instance, leases } => {
                let leases: Vec<Value> = leases
                    .iter()
                    .map(|lease| {
                        json!({
                            "execution": lease.execution, "lease_id": lease.id, "epoch": lease.epoch,
                            "attempt": lease.epoch - 1,
                        })
                    })
                    .collect();
                vec![("lease.renewed", json!({ "worker": worker, "instance": instance, "leases": leases }))]
            }
            Fact::DrainRequested { instance } => {
                vec![("operator.drain_requested", json!({ "instance": instance }))]
            }
            Fact::SubmittedWaitingDependencies { upstreams } => {
                vec![("execution.submitted", json!({ "upstreams": upstreams }))]
            }
            Fact::UpstreamChanged { edges } => edge_events(edges),
            Fact::Joined { edges, policy, decision, next } => {
                let mut events = edge_events(edges);
                let data = json!({ "policy": policy.as_str(), "decision": decision.as_str() });
                events.push(("group.decided", data));
                events.extend(next_events(*next, "execution.delayed", json!({})));
                events
            }
            Fact::Reopened { edges, generation } => {
                let mut events = edge_events(edges);
                events.push(("execution.reopened", json!({ "generation": generation })));
                events
            }
            Fact::ReplayedWaitingDependencies { generation } => {
                vec![("execution.replayed", json!({ "generation": generation }))]
            }
            Fact::Wired { upstreams, downstreams, children } => {
                let data =
                    json!({ "upstreams": upstreams, "downstreams": downstreams, "children": children });
                vec![("execution.wired", data)]
            }
            Fact::FlowSubmitted { name, nodes, edges } => {
                vec![("flow.submitted", json!({ "name": name, "nodes": nodes, "edges": edges }))]
            }
            Fact::FlowGrown { nodes, edges, parent } => {
                vec![("flow.grown", json!({ "nodes": nodes, "edges": edges, "parent": parent }))]
            }
            Fact::FlowEnded { state } => vec![match state {
                FlowState::Running | FlowState::Completed => ("flow.completed", json!({})),
                FlowState::Failed => ("flow.failed", json!({})),
                FlowState::Cancelled => ("flow.cancelled", json!({})),
            }],
            Fact::FlowReopened { execution } => {
                vec![("flow.reopened", json!({ "execution": execution }))]
            }
            Fact::FlowCancelRequested { mode, reason } => {
                vec![("flow.cancel_requested", json!({ "mode": mode.as_str(), "reason": reason }))]
            }
            Fact::Suspended { suspension, next, .. } => {
                let next = if matches!(next, Next::Terminal(_)) { *next } else { Next::Suspended };
                let mut events =
                    attempt_ended(&suspension.lease, "suspended", None, next, "execution.delayed");
                if let Some((_, data)) = events.last_mut().filter(|_| next == Next::Suspended) {
                    *data = suspension.public_data();
                }
                events
            }
            Fact::Signalled { number, name, source, waitpoint, effect, .. } => {
                let data = json!({
                    "number": number, "name": name, "source": source, "effect": effect.as_str(),
                    "waitpoint": waitpoint.as_ref().map(|(id, _)| id),
                });
                vec![("signal.delivered", data)]
            }
            Fact::Noticed { notice: SuspensionNotice::Escalated(wait) } => {
                vec![("execution.escalated", json!({ "wait": wait }))]
            }
            Fact::Noticed { notice } => {
                let of = match notice {
                    SuspensionNotice::Time => "time",
                    SuspensionNotice::Operator => "operator",
                    SuspensionNotice::Gate => "gate",
                    SuspensionNotice::Children | SuspensionNotice::Escalated(_) => "children",
                };
                vec![("execution.noticed", json!({ "of": of }))]
            }
            Fact::Resumed { suspension, by, signals, steps } => {
                let recorded = steps.iter().map(|name| ("step.recorded", json!({ "name": name })));
                let mut events: Vec<EventBody> = recorded.collect();
                let data = json!({ "suspension": suspension, "by": by.as_str(), "signals": signals });
                events.push(("execution.resumed", data));
                events.push(("execution.ready", json!({})));
                events
            }
            Fact::SuspensionTimedOut { suspension, on_timeout, next } => {
                let data = json!({
                    "reason": "suspension_timeout", "suspension": suspension, "on_timeout": on_timeout.as_str(),
                });
                next_events(*next, "execution.delayed", data)
            }
            Fact::WaitpointCreated { waitpoint, name, source, expires_at } => {
                let mut data = time_data("expires_at", *expires_at);
                data["waitpoint"] = json!(waitpoint);
                data["name"] = json!(name);
                data["source"] = json!(source);
                vec![("waitpoint.created", data)]
            }
            Fact::WaitpointExpired { waitpoint, name } => {
                vec![("waitpoint.expired", json!({ "waitpoint": waitpoint, "name": name }))]
            }
            Fact::WaitpointRevoked { waitpoint, name } => {
                vec![("waitpoint.revoked", json!({ "waitpoint": waitpoint, "name": name }))]
            }
            Fact::WaitpointReissued { waitpoint, name, expires_at } => {
                let mut data = time_data("expires_at", *expires_at);
                data["waitpoint"] = json!(waitpoint);
                data["name"] = json!(name);
                vec![("waitpoint.reissued", data)]
            }
            Fact::Stepped { name, kind, attempt, duration_ms, .. } => {
                let data = json!({
                    "name": name, "kind": kind.as_str(), "attempt": attempt, "duration_ms": duration_ms,
                });
                vec![("step.recorded", data)]
            }
            Fact::TokenKeysRotated { key, grace_ms } => {
                let data = json!({ "key": key.to_string(), "grace_ms": grace_ms });
                vec![("operator.token_keys_rotated", data)]
            }
            Fact::ApiKeyCreated { key, name, role, namespaces, expires_at } => {
                let mut data = time_data("expires_at", *expires_at);
                data["key"] = json!(key);
                data["name"] = json!(name);
                data["role"] = json!(role);
                data["namespaces"] = json!(namespaces);
                vec![("key.created", data)]
            }
            Fact::ApiKeyRevoked { key, name } => {
                vec![("key.revoked", json!({ "key": key, "name": name }))]
            }
            Fact::Debounced { until } => vec![("execution.debounced", time_data("until_at", Some(*until)))],
            Fact::BulkJobStarted { job, action } => {
                vec![("operator.bulk_job_started", json!({ "job": job, "action": action }))]
            }
            Fact::BulkJobEnded { job, state, changed, unchanged, refused } => {
                let data = json!({
                    "job": job, "state": state, "done": changed, "unchanged": unchanged, "refused": refused,
                });
                vec![("operator.bulk_job_ended", data)]
            }
            Fact::WebhookChanged { webhook, change } => vec![webhook_event(webhook, change)],
            Fact::ScheduleSaved { schedule, paused } => {
                vec![("operator.schedule_saved", json!({ "schedule": schedule, "paused": paused }))]
            }
            Fact::ScheduleDeleted { schedule } => {
                vec![("operator.schedule_deleted", json!({ "schedule": schedule }))]
            }
            Fact::ScheduleFired { schedule, scheduled_at, manual, run: _ } => {
                let mut data = time_data("scheduled_at", Some(*scheduled_at));
                data["schedule"] = json!(schedule);
                data["manual"] = json!(manual);
                vec![("schedule.fired", data)]
            }
            Fact::ScheduleSkipped { schedule, scheduled_at } => {
                let mut data = time_data("scheduled_at", Some(*scheduled_at));
                data["schedule"] = json!(schedule);
                vec![("schedule.skipped", data)]
            }
            Fact::ScheduleRefused { schedule, scheduled_at, code, detail } => {
                let mut data = time_data("scheduled_at", Some(*scheduled_at));
                data["schedule"] = json!(schedule);
                data["code"] = json!(code);
                data["detail"] = json!(detail);
                vec![("schedule.refused", data)]
            }
            Fact::InboxRefused { number, id, code, detail, pointer } => {
                let data = json!({
                    "number": number, "id": id, "code": code, "detail": detail, "pointer": pointer,
                });
                vec![("inbox.refused", data)]
            }
            Fact::Held { gate, reason, until } => {
                let mut data = time_data("until_at", *until);
                data["gate"] = gate_data(gate);
                data["reason"] = json!(reason);
                vec![("execution.held", data)]
            }
            Fact::Admitted { gate } => vec![
                ("execution.released", json!({ "gate": gate_data(gate) })),
                ("execution.ready", json!({})),
            ],
            Fact::GateConfigured { gate } => {
                vec![("operator.gate_configured", json!({ "gate": gate_data(gate) }))]
            }
            Fact::GateRemoved { gate } => {
                vec![("operator.gate_removed", json!({ "gate": gate_data(gate) }))]
            }
            Fact::Breached { lease, gate, next, suspension } => {
                let mut events = attempt_ended(lease, "breached", None, *next, "execution.delayed");
                if let Some((_, data)) = events.last_mut() {
                    *data = match suspension {
                        Some(suspension) => suspension.public_data(),
                        None => json!({ "reason": "budget", "gate": gate_data(gate) }),
                    };
                }
                events
            }
            Fact::Spent { gate, execution, amounts } => {
                let data = json!({ "gate": gate_data(gate), "execution": execution, "usage": amounts });
                vec![("budget.used", data)]
            }
            Fact::LimitReached { gate, dimension, limit, used, hard } => {
                let data = json!({
                    "gate": gate_data(gate), "dimension": dimension, "limit": limit, "used": used,
                });
                vec![(if *hard { "budget.hard_breach" } else { "budget.soft_breach" }, data)]
            }
            Fact::EndAwaited => Vec::new(),
            Fact::Adopted { gate } => vec![("execution.adopted", json!({ "gate": gate_data(gate) }))],
            Fact::BudgetReset { gate, period } => {
                vec![("budget.reset", json!({ "gate": gate_data(gate), "period": period }))]
            }
        }
    }
}

fn gate_data(gate: &GateName) -> Value {
    json!({ "kind": gate.kind.as_str(), "name": gate.name, "part": gate.part })
}

/// Returns `edge.resolved` for each edge.
fn edge_events(edges: &[EdgeUpdate]) -> Vec<EventBody> {
    let event = |update: &EdgeUpdate| {
        let data = json!({
            "upstream": update.upstream, "generation": update.edge.generation,
            "resolution": update.edge.resolution.as_str(),
        });
        ("edge.resolved", data)
    };
    edges.iter().map(event).collect()
}

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

fn webhook_event(webhook: &Name, change: &WebhookChange) -> EventBody {
    let mut data = json!({ "webhook": webhook });
    let kind = match change {
        WebhookChange::Created => "webhook.created",
        WebhookChange::Changed => "webhook.changed",
        WebhookChange::Deleted => "webhook.deleted",
        WebhookChange::SecretRotated { grace_ms } => {
            data["grace_ms"] = json!(grace_ms);
            "webhook.secret_rotated"
        }
        WebhookChange::Paused(reason) => {
            data["reason"] = json!(reason.as_str());
            "webhook.paused"
        }
        WebhookChange::Missed { count, total } => {
            data["count"] = json!(count);
            data["total"] = json!(total);
            "webhook.missed"
        }
    };
    (kind, data)
}

/// Returns event data with one time, in milliseconds since the Unix epoch; the server formats it as text.
fn time_data(field: &str, time: Option<Timestamp>) -> Value {
    match time {
        Some(time) => json!({ field: time.millis() }),
        None => json!({}),
    }
}

fn lease_data(lease: &LeaseRef) -> Map<String, Value> {
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
fn attempt_ended(
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
fn next_events(next: Next, delayed: &'static str, data: Value) -> Vec<EventBody> {
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
fn lease_event(
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
fn revoked(lease: Option<&LeaseRef>, outcome: &str, reason: &str, last: EventBody) -> Vec<EventBody> {
    let Some(lease) = lease else { return vec![last] };
    let ended = ("attempt.ended", json!({ "attempt": lease.attempt(), "outcome": outcome }));
    lease_event("lease.revoked", lease, Some(reason), vec![ended, last])
}
