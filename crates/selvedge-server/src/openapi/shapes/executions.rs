//! Executions and what belongs to them: `wire::views`, and the writers in `routes`.

use super::{failure, outcome};
use selvedge_api::schema::*;
use selvedge_core::FailureClass;
use selvedge_core::explain::Code;
use selvedge_core::gate::GateKind;
use selvedge_core::signal::Effect;
use selvedge_core::state::StateName;
use selvedge_core::step::StepKind;
use selvedge_core::stream::{FrameKind, FrameMode};
use selvedge_core::suspension::OnTimeout;

pub fn shapes() -> Vec<(&'static str, Schema)> {
    vec![
        ("Execution", execution()),
        ("Lease", lease()),
        ("Suspension", suspension()),
        ("Failure", failure_shape()),
        ("Attempt", attempt()),
        ("Explanation", explanation()),
        ("Event", event()),
        ("Signal", signal()),
        ("Step", step()),
        ("Relative", relative()),
        ("Frame", frame()),
    ]
}

/// The fields of an answer with one execution.
pub fn changed() -> Vec<Field> {
    vec![always("execution", shape("Execution")), always("duplicate", duplicate())]
}

/// The fields of the answer to a submission.
pub fn submitted() -> Vec<Field> {
    let mut fields = changed();
    fields.push(sometimes(
        "debounced",
        flag().about("The input of an execution that waits for quiet was replaced."),
    ));
    fields
}

/// The field that marks repeated requests.
pub fn duplicate() -> Schema {
    flag().about("True if the request repeats an earlier one.")
}

fn execution() -> Schema {
    let progress = answer(vec![nullable("percent", number()), nullable("message", text())]);
    let reserving = answer(vec![always("name", text()), always("reserve", map(number()))]);
    let concurrency = answer(vec![always("key", text()), always("limit", count())]);
    let input = "In claims, in the answer for one execution, and where include asks for it.";
    answer(vec![
        always("id", id()),
        always("namespace", text()),
        always("lane", text()),
        always("kind", text()),
        always("capabilities", list(text())),
        always("state", state()),
        nullable("outcome", outcome().about("Null until it has ended, then the same word as the state.")),
        nullable("held_reason", held_reason()),
        nullable("flow_id", id()),
        nullable("node", text().about("The name of its node in the flow.")),
        nullable("parent", id().about("The execution that spawned it.")),
        always("priority", integer()),
        always("attempts", count().about("The number of attempts so far.")),
        always("generation", count().about("Raised by every replay.")),
        always("retries", count()),
        always("interruptions", count()),
        always("tags", map(text())),
        sometimes("input", any().about(input)),
        sometimes("result", any().about("Like input; null until it has completed.")),
        nullable("error", failure()),
        sometimes("progress", progress.or_null()),
        always("version", count().about("Raised by every change; for if_version.")),
        always("submitted_at", time()),
        nullable("replayed_at", time().about("The latest replay.")),
        nullable("ready_at", time()),
        nullable("started_at", time()),
        nullable("ended_at", time()),
        nullable("delayed_until_at", time()),
        nullable("deadline_at", time()),
        nullable("lease", shape("Lease")),
        nullable("suspension", shape("Suspension")),
        always("cancel_requested", flag()),
        nullable("cancel_until_at", time()),
        nullable("idempotency_key", text()),
        nullable("idempotency_window_ms", integer()),
        nullable("unique_while_active", text()),
        nullable("debounce", shape("Debounce")),
        always("retry", retry_policy()),
        nullable("attempt_timeout_ms", integer()),
        nullable("deadline_ms", integer()),
        nullable("start_by_ms", integer()),
        always("retention_ms", integer()),
        nullable("fairness_key", text()),
        always("budgets", list(one_of(vec![text(), reserving]))),
        always("quotas", list(text())),
        nullable("concurrency", concurrency),
        sometimes("schedule", text().about("The schedule that submitted it.")),
        sometimes("scheduled_at", time().about("The time of that schedule.")),
    ])
}

fn retry_policy() -> Schema {
    let fixed = answer(vec![always("type", only("fixed")), always("delay_ms", integer())]);
    let exponential = answer(vec![
        always("type", only("exponential")),
        always("initial_ms", integer()),
        always("multiplier", number()),
        always("max_ms", integer()),
        always("jitter", flag()),
    ]);
    answer(vec![
        always("max_retries", count()),
        always("max_interruptions", count()),
        always("retry_on", list(word(FailureClass::ALL.map(FailureClass::as_str)))),
        always("backoff", one_of(vec![fixed, exponential])),
    ])
}

/// The state of an execution.
pub fn state() -> Schema {
    word(StateName::ALL.map(StateName::as_str))
}

fn held_reason() -> Schema {
    let gate = answer(vec![
        always("kind", word(GateKind::ALL.map(GateKind::as_str))),
        always("name", text()),
        nullable("part", text()),
    ]);
    answer(vec![always("gate", gate), always("message", text()), nullable("until_at", time())])
}

fn lease() -> Schema {
    answer(vec![
        always("id", id()),
        always("epoch", count()),
        always("worker", text()),
        always("instance", text()),
        nullable("expires_at", time()),
        always("ttl_ms", integer()),
        always("claimed_at", time()),
    ])
}

fn suspension() -> Schema {
    let wait = answer(vec![
        nullable("step", text()),
        always("condition", map(any()).about("A resume condition, or a gate that has no room.")),
        always("on_timeout", word(OnTimeout::ALL.map(OnTimeout::as_str))),
        always("escalated", flag()),
        sometimes("timeout_at", time()),
    ]);
    answer(vec![
        always("number", count()),
        always("since_at", time()),
        always("attempt", count()),
        always("waits", list(wait)),
    ])
}

fn failure_shape() -> Schema {
    answer(vec![
        always("message", text()),
        always("class", word(FailureClass::ALL.map(FailureClass::as_str))),
    ])
}

fn attempt() -> Schema {
    let outcome = "The end of the attempt, such as completed, failed, timeout or interrupted.";
    answer(vec![
        always("attempt", count()),
        always("lease_id", id()),
        always("epoch", count()),
        always("worker", text()),
        always("instance", text()),
        always("started_at", time()),
        nullable("ended_at", time()),
        nullable("outcome", text().about(outcome)),
        nullable("error", failure()),
    ])
}

fn explanation() -> Schema {
    let reference = answer(vec![always("type", text()), always("id", text())]);
    let reason = answer(vec![
        always("code", word(Code::ALL.iter().map(|code| code.as_str()))),
        always("message", text()),
        nullable("ref", reference.about("The subject of the reason.")),
        nullable("until_at", time()),
    ]);
    answer(vec![always("state", text()), always("reasons", list(reason)), nullable("next_change_at", time())])
}

fn event() -> Schema {
    answer(vec![
        always("cursor", text()),
        always("type", text().about("Such as execution.completed; later versions may add types.")),
        always("at", time()),
        always("namespace", text()),
        nullable("execution", id()),
        nullable("flow", id()),
        nullable("version", count()),
        nullable("actor", text()),
        always("data", map(any()).about("Fields that depend on the type.")),
    ])
}

fn signal() -> Schema {
    answer(vec![
        always("number", count()),
        always("name", text()),
        always("source", text()),
        nullable("waitpoint", text()),
        nullable("waitpoint_id", id()),
        always("payload", any()),
        always("effect", word(Effect::ALL.map(Effect::as_str))),
        nullable("taken_by", count().about("The number of the suspension that took it.")),
        nullable("idempotency_key", text()),
        always("delivered_at", time()),
    ])
}

fn step() -> Schema {
    answer(vec![
        always("number", count()),
        always("name", text()),
        always("kind", word(StepKind::ALL.map(StepKind::as_str))),
        always("attempt", count()),
        always("state", word(["recorded", "open"])),
        always("started_at", time()),
        nullable("recorded_at", time()),
        nullable("duration_ms", integer()),
        always("result", any()),
    ])
}

fn relative() -> Schema {
    answer(vec![
        nullable("node", text()),
        always("execution", id()),
        nullable("outcome", outcome()),
        nullable("error", failure()),
        always("result", any()),
    ])
}

fn frame() -> Schema {
    answer(vec![
        always("number", count()),
        always("attempt", count()),
        always("kind", word(FrameKind::ALL.map(FrameKind::as_str))),
        always("mode", word([FrameMode::Durable, FrameMode::BestEffort].map(FrameMode::as_str))),
        always("at", time()),
        nullable("correlation_id", text()),
        always("data", any()),
    ])
}
