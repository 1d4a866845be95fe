//! The JSON of executions, claims, fences, attempts, explanations and events.

use crate::wire::json::{self, Object};
use selvedge_api::times;
use selvedge_core::explain::{Explanation, Reference};
use selvedge_core::fact::Failure;
use selvedge_core::filter::Payloads;
use selvedge_core::gate::{Amounts, GateName, RequiredGates};
use selvedge_core::history::Attempt;
use selvedge_core::rows::Relative;
use selvedge_core::rules::claim::TakenSignal;
use selvedge_core::rules::report::Fence;
use selvedge_core::schedule::Scheduled;
use selvedge_core::suspension::ResumedBy;
use selvedge_core::{Execution, Name, Outcome, Signal, State, Step, TraceParent};
use selvedge_engine::store::Stored;
use selvedge_engine::{PublicEvent, View};

/// Returns a stored execution with its input and without a result, for a view.
pub fn without_result(execution: Execution, input: bytes::Bytes) -> Stored {
    Stored { execution, input, result: None, renewed_at: None }
}

/// The fields of an execution that a response has only where they are asked for, because they may be large.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Include {
    /// True to write `input`.
    pub input: bool,
    /// True to write `result`.
    pub result: bool,
    /// True to write `progress`.
    pub progress: bool,
}

impl Include {
    /// None of the fields.
    pub const NONE: Include = Include { input: false, result: false, progress: false };
    /// All of the fields.
    pub const ALL: Include = Include { input: true, result: true, progress: true };

    /// Returns the payloads to read.
    pub fn payloads(self) -> Payloads {
        Payloads { input: self.input, result: self.result }
    }
}

/// Writes an execution.
pub fn execution(out: &mut Vec<u8>, view: &View, include: Include) {
    let row = &view.stored.execution;
    let (spec, detail) = (&row.spec, &row.detail);
    let delayed_until = match row.state {
        State::Delayed { until } => Some(until),
        State::WaitingDependencies
        | State::Waiting
        | State::Active(_)
        | State::Held(_)
        | State::Suspended(_)
        | State::Terminal(_) => None,
    };
    let ready_at = match row.state {
        State::Waiting | State::Active(_) => Some(row.ready_order),
        State::Terminal(outcome) => Some(row.ready_order).filter(|_| outcome != Outcome::Skipped),
        State::WaitingDependencies | State::Delayed { .. } | State::Held(_) | State::Suspended(_) => None,
    };
    json::object(out, |object| {
        object.value("id", &row.id);
        object.value("namespace", view.namespace.as_str());
        object.value("lane", view.class.lane.as_str());
        object.value("kind", view.class.kind.as_str());
        object.value("capabilities", &view.class.capabilities);
        object.value("state", view.state().as_str());
        object.value("outcome", &row.state.outcome());
        held_reason(object, view);
        object.value("flow_id", &row.flow());
        object.value("node", &row.node());
        object.value("parent", &spec.node.as_ref().and_then(|node| node.parent));
        object.value("priority", &row.priority);
        object.value("attempts", &row.epoch);
        object.value("generation", &detail.generation);
        object.value("retries", &detail.retries);
        object.value("interruptions", &detail.interruptions);
        object.value("tags", &row.tags);
        if include.input {
            object.raw("input", Some(&view.stored.input));
        }
        if include.result {
            object.raw("result", view.stored.result.as_deref());
        }
        failure(object, detail.error.as_ref());
        if include.progress {
            match &detail.progress {
                None => object.null("progress"),
                Some(progress) => object.object("progress", |object| {
                    object.value("percent", &progress.percent);
                    object.value("message", &progress.message);
                }),
            }
        }
        object.value("version", &row.version);
        object.time("submitted_at", Some(row.submitted_at));
        object.time("replayed_at", detail.replayed_at);
        object.time("ready_at", ready_at);
        object.time("started_at", row.started_at);
        object.time("ended_at", row.ended_at);
        object.time("delayed_until_at", delayed_until);
        object.time("deadline_at", row.deadline_at());
        lease(object, view);
        suspension(object, row);
        object.value("cancel_requested", &detail.cancel.is_some());
        object.time("cancel_until_at", detail.cancel.as_ref().map(|cancel| cancel.until));
        object.value("idempotency_key", &spec.idempotency_key);
        object.value("idempotency_window_ms", &spec.idempotency_window_ms);
        object.value("unique_while_active", &spec.unique_while_active);
        object.value("debounce", &spec.debounce);
        object.value("retry", &spec.policy.retry);
        object.value("attempt_timeout_ms", &spec.policy.attempt_timeout_ms);
        object.value("deadline_ms", &spec.policy.deadline_ms);
        object.value("start_by_ms", &spec.policy.start_by_ms);
        object.value("retention_ms", &spec.policy.retention_ms);
        write_draws(object, &spec.required_gates);
        scheduled(object, spec.scheduled.as_ref());
    });
}

/// Writes the schedule that submitted an execution or a flow, and the time, if one did.
pub fn scheduled(object: &mut Object<'_>, scheduled: Option<&Scheduled>) {
    if let Some(scheduled) = scheduled {
        object.value("schedule", &scheduled.schedule);
        object.time("scheduled_at", Some(scheduled.at));
    }
}

/// Writes the field `held_reason`: the gate that holds the execution, and why; null while none does.
fn held_reason(object: &mut Object<'_>, view: &View) {
    match view.held_reason() {
        None => object.null("held_reason"),
        Some(held) => object.object("held_reason", |object| {
            object.object("gate", |object| gate_name(object, &held.gate));
            object.value("message", &held.message);
            object.time("until_at", held.until);
        }),
    }
}

fn gate_name(object: &mut Object<'_>, gate: &GateName) {
    object.value("kind", gate.kind.as_str());
    object.value("name", &gate.name);
    object.value("part", &gate.part);
}

fn lease(object: &mut Object<'_>, view: &View) {
    let Some(lease) = view.stored.execution.state.lease() else {
        return object.null("lease");
    };
    object.object("lease", |object| {
        object.value("id", &lease.id);
        object.value("epoch", &view.stored.execution.epoch);
        object.value("worker", &lease.worker);
        object.value("instance", &lease.instance);
        object.time("expires_at", view.lease_until());
        object.value("ttl_ms", &lease.ttl_ms);
        object.time("claimed_at", Some(lease.claimed_at));
    });
}

/// Writes the field `suspension`: the waits of a suspended execution; null in other states.
fn suspension(object: &mut Object<'_>, row: &Execution) {
    let suspension = row.state.suspension().map(|suspension| {
        let mut data = suspension.public_data();
        times::format_fields(&mut data);
        data
    });
    object.value("suspension", &suspension);
}

/// Writes the field `error`.
pub fn failure(object: &mut Object<'_>, error: Option<&Failure>) {
    match error {
        None => object.null("error"),
        Some(error) => object.object("error", |object| {
            object.value("message", &error.message);
            object.value("class", error.class.as_str());
        }),
    }
}

/// A claimed execution with everything its handler needs.
pub struct ClaimView {
    /// The execution and its lease.
    pub view: View,
    /// The outcomes and results of its upstreams.
    pub upstreams: Vec<Relative>,
    /// The outcomes and results of its children.
    pub children: Vec<Relative>,
    /// The signals that ended its latest suspension.
    pub signals: Vec<Signal>,
    /// The steps recorded so far.
    pub steps: Vec<Step>,
    /// The parent of the spans of its handler, if there is a trace.
    pub trace: Option<TraceParent>,
}

/// Writes a claim.
pub fn claim(out: &mut Vec<u8>, claim: &ClaimView) {
    let view = &claim.view;
    json::object(out, |object| {
        execution(object.field("execution"), view, Include::ALL);
        object.value("namespace", view.namespace.as_str());
        object.value("attempt", &view.stored.execution.attempt());
        lease(object, view);
        object.value("traceparent", &claim.trace);
        object.object("upstream", |object| {
            let has_result =
                |upstream: &&Relative| upstream.outcome == Some(Outcome::Completed) && !upstream.left_out;
            for upstream in claim.upstreams.iter().filter(has_result) {
                json::raw(object.entry(&upstream.name), upstream.result.as_deref());
            }
        });
        object.object("upstream_refs", |object| references(object, &claim.upstreams));
        object.object("upstream_outcomes", |object| outcomes(object, &claim.upstreams));
        object.object("children", |object| {
            for child in claim.children.iter().filter(|child| !child.left_out) {
                json::object(object.entry(&child.name), |object| {
                    object.value("outcome", &child.outcome);
                    object.raw("result", child.result.as_deref());
                });
            }
        });
        object.object("children_refs", |object| references(object, &claim.children));
        object.object("children_outcomes", |object| outcomes(object, &claim.children));
        object.array("signals", &claim.signals, |out, signal| json::value(out, &TakenSignal::of(signal)));
        object.object("steps", |object| {
            for step in &claim.steps {
                json::raw(object.entry(&step.name), step.result.as_deref());
            }
        });
        object.object("step_records", |object| {
            for step in &claim.steps {
                json::object(object.entry(&step.name), |object| {
                    object.value("kind", step.kind.as_str());
                    object.value("attempt", &step.attempt);
                });
            }
        });
        let resumed_by = view.stored.execution.detail.record.resumed_by;
        object.value("resumed_by", &resumed_by.map(ResumedBy::as_str));
    });
}

/// Writes the executions of upstreams or children, each with its outcome and error, by the names of their nodes.
fn outcomes(object: &mut Object<'_>, relatives: &[Relative]) {
    for relative in relatives {
        json::object(object.entry(&relative.name), |object| {
            object.value("execution", &relative.execution);
            object.value("outcome", &relative.outcome);
            failure(object, relative.error.as_ref());
        });
    }
}

/// Writes the executions whose results were left out of a claim, by the names of their nodes.
fn references(object: &mut Object<'_>, relatives: &[Relative]) {
    for relative in relatives.iter().filter(|relative| relative.left_out) {
        json::value(object.entry(&relative.name), &relative.execution);
    }
}

/// Writes the fields of a fence.
pub fn fence(object: &mut Object<'_>, fence: &Fence) {
    object.value("execution", &fence.execution);
    object.value("attempt", &fence.attempt);
    object.value("lease_id", &fence.lease_id);
    object.value("epoch", &fence.epoch);
}

/// Writes an attempt.
pub fn attempt(out: &mut Vec<u8>, attempt: &Attempt) {
    json::object(out, |object| {
        object.value("attempt", &attempt.lease.attempt());
        object.value("lease_id", &attempt.lease.id);
        object.value("epoch", &attempt.lease.epoch);
        object.value("worker", &attempt.lease.worker);
        object.value("instance", &attempt.lease.instance);
        object.time("started_at", Some(attempt.started_at));
        object.time("ended_at", attempt.ended_at);
        object.value("outcome", &attempt.outcome);
        failure(object, attempt.error.as_ref());
    });
}

/// Writes an explanation.
pub fn explanation(object: &mut Object<'_>, explanation: &Explanation) {
    object.value("state", explanation.state);
    object.array("reasons", &explanation.reasons, |out, reason| {
        json::object(out, |object| {
            object.value("code", reason.code.as_str());
            object.value("message", &reason.message);
            reference(object, reason.reference.as_ref());
            object.time("until_at", reason.until);
        });
    });
    object.time("next_change_at", explanation.next_change);
}

/// Writes the field `ref`: the subject of a reason, or null.
fn reference(object: &mut Object<'_>, reference: Option<&Reference>) {
    match reference {
        None => object.null("ref"),
        Some(reference) => object.object("ref", |object| {
            object.value("type", reference.kind.as_str());
            object.value("id", &reference.id);
        }),
    }
}

/// Writes an event.
pub fn event(out: &mut Vec<u8>, event: PublicEvent) {
    let mut data = event.data;
    times::format_fields(&mut data);
    json::object(out, |object| {
        object.value("cursor", &event.cursor);
        object.value("type", event.kind);
        object.time("at", Some(event.at));
        object.value("namespace", &event.namespace);
        object.value("execution", &event.execution);
        object.value("flow", &event.flow);
        object.value("version", &event.version);
        object.value("actor", &event.actor);
        object.value("data", &data);
    });
}

/// Writes the gate fields as they were submitted.
fn write_draws(object: &mut Object<'_>, required_gates: &RequiredGates) {
    object.value("fairness_key", &required_gates.fairness_key);
    object.array("budgets", &required_gates.budgets, budget);
    object.value("quotas", &required_gates.quotas);
    match &required_gates.concurrency {
        None => object.null("concurrency"),
        Some(limit) => concurrency(object.field("concurrency"), limit),
    }
}

/// Writes a budget of a submission: its name, or an object with what is reserved.
pub fn budget(out: &mut Vec<u8>, (name, reserve): &(Name, Amounts)) {
    match reserve.is_empty() {
        true => json::value(out, name),
        false => json::object(out, |object| {
            object.value("name", name);
            object.value("reserve", reserve);
        }),
    }
}

/// Writes the concurrency key of a submission with its limit.
pub fn concurrency(out: &mut Vec<u8>, (key, limit): &(Name, u32)) {
    json::object(out, |object| {
        object.value("key", key);
        object.value("limit", limit);
    });
}
