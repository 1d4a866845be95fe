//! Suspensions, resume conditions and waitpoints: `wire::suspension` and `routes::waitpoints`.

use super::executions::duplicate;
use selvedge_api::schema::*;
use selvedge_core::signal::Effect;
use selvedge_core::step::StepKind;
use selvedge_core::suspension::{DEPTH_MAX, Distinct, LEAVES_MAX, NAMES_MAX, OnTimeout, WAITS_MAX};
use selvedge_core::waitpoint::{CHOICES_MAX, PROMPT_LIMIT, WAITPOINTS_MAX, WaitpointStateName};
use serde_json::json;

pub fn shapes() -> Vec<(&'static str, Schema)> {
    vec![
        ("Wait", request(wait_fields(true))),
        ("Condition", condition()),
        ("WaitpointRequest", request(waitpoint_fields())),
        ("Waitpoint", waitpoint()),
        ("Delivery", delivery()),
    ]
}

/// The fields of a suspension.
pub fn suspend_fields() -> Vec<Field> {
    let waits = list_of_at_most(WAITS_MAX, shape("Wait"));
    let about = "Several waits, of which the first that ends resumes the execution; instead of condition.";
    let mut fields = vec![optional("waits", waits.about(about))];
    fields.extend(wait_fields(false));
    let item = one_of(vec![name(), shape("WaitpointRequest")]);
    fields.push(optional("waitpoints", list_of_at_most(WAITPOINTS_MAX as usize, item)));
    fields
}

/// The fields of a wait; `has_condition` makes the condition required.
fn wait_fields(has_condition: bool) -> Vec<Field> {
    let kinds = [StepKind::Wait, StepKind::Sleep, StepKind::Join].map(StepKind::as_str);
    let condition = shape("Condition");
    vec![
        optional("step", name().about("The step that records the end of the wait.")),
        optional("kind", word(kinds).about("The kind of the step. Default: wait.")),
        match has_condition {
            true => always("condition", condition),
            false => optional("condition", condition),
        },
        optional("timeout_ms", duration()),
        optional("on_timeout", word(OnTimeout::ALL.map(OnTimeout::as_str)).default(json!("fail"))),
    ]
}

fn condition() -> Schema {
    let count = request(vec![
        always("n", count()),
        always("of", list_of_at_most(NAMES_MAX, name())),
        always("distinct", word(Distinct::ALL.map(Distinct::as_str))),
    ]);
    let parts = || list_of_at_most(LEAVES_MAX, shape("Condition"));
    let yes = || Schema(flag().0.with("const", true));
    let alternatives: Vec<(&'static str, Schema)> = vec![
        ("signal", name()),
        ("any", parts()),
        ("all", parts()),
        ("count", count),
        ("until_at", time()),
        ("delay_ms", duration()),
        ("operator", yes()),
        ("children", yes()),
    ];
    let one = |(name, schema)| request(vec![always(name, schema)]);
    let about = format!("Exactly one of the fields; any and all may be nested {DEPTH_MAX} levels deep.");
    one_of(alternatives.into_iter().map(one).collect()).about(&about)
}

/// The fields of a new waitpoint.
pub fn waitpoint_fields() -> Vec<Field> {
    let signals = "The signals that the token may send. Default: the waitpoint's name.";
    let prompt = Schema(text().0.with("maxLength", PROMPT_LIMIT as i64));
    vec![
        always("name", name()),
        optional("source", name().about("The source of signals through its token.")),
        optional("expires_ms", duration()),
        optional("signals", list_of_at_most(CHOICES_MAX, name()).about(signals)),
        optional("prompt", prompt.about("A question to the holder of the token.")),
    ]
}

pub fn waitpoint_state() -> Schema {
    word(WaitpointStateName::ALL.map(WaitpointStateName::as_str))
}

fn waitpoint() -> Schema {
    answer(vec![
        always("id", id()),
        always("execution", id()),
        always("name", text()),
        nullable("source", text()),
        always("state", waitpoint_state()),
        nullable("signal", count().about("The number of the signal that was delivered.")),
        always("signals", list(text())),
        nullable("prompt", text()),
        always("created_at", time()),
        nullable("expires_at", time()),
    ])
}

fn delivery() -> Schema {
    answer(vec![
        always("effect", effect()),
        always("waitpoint", id()),
        always("number", count()),
        always("duplicate", duplicate()),
    ])
}

/// The effect of a signal.
pub fn effect() -> Schema {
    word(Effect::ALL.map(Effect::as_str))
}
