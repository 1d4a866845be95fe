//! The operations of a report and their results: `wire::ops` and `routes::report`.

use super::executions::state;
use super::fence;
use super::submission::graph;
use super::suspension::{suspend_fields, waitpoint_fields};
use selvedge_api::schema::*;
use selvedge_core::FailureClass;
use selvedge_core::rules::report::MESSAGE_LIMIT;
use selvedge_core::step::StepKind;
use selvedge_core::stream::{FrameKind, FrameMode};
use serde_json::json;

pub fn shapes() -> Vec<(&'static str, Schema)> {
    let ops = vec![
        ("CompleteOp", "complete", vec![sometimes("result", any().about("Default: null."))]),
        ("FailOp", "fail", fail()),
        ("ProgressOp", "progress", vec![optional("percent", number()), optional("message", message())]),
        ("DelayOp", "delay", delay()),
        ("ReleaseOp", "release", Vec::new()),
        ("CancelledOp", "cancelled", vec![optional("message", message())]),
        ("WaitpointOp", "waitpoint", waitpoint_fields()),
        ("SuspendOp", "suspend", suspend_fields()),
        ("StepOp", "step", step()),
        ("FrameOp", "frame", frame()),
        ("UsageOp", "usage", usage()),
        ("SpawnOp", "spawn", spawn()),
    ];
    let names: Vec<Schema> = ops.iter().map(|(name, _, _)| shape(name)).collect();
    let op = |(name, word, fields): (&'static str, &'static str, Vec<Field>)| {
        let op_id = optional("op_id", key().about("Makes the operation safe to repeat."));
        let schema = request([vec![always("op", only(word))], fence(), vec![op_id], fields].concat());
        match word {
            "delay" => (name, schema.needs_one_of(&["until_at", "delay_ms"])),
            "suspend" => (name, schema.needs_one_of(&["condition", "waits"])),
            _ => (name, schema),
        }
    };
    let mut shapes: Vec<(&'static str, Schema)> = vec![("Op", one_of(names))];
    shapes.extend(ops.into_iter().map(op));
    shapes.push(("OpResult", result()));
    shapes
}

fn message() -> Schema {
    Schema(text().0.with("maxLength", MESSAGE_LIMIT as i64))
}

fn fail() -> Vec<Field> {
    let classes = word(FailureClass::ALL.map(FailureClass::as_str));
    vec![
        always("message", message()),
        optional("class", classes.default(json!("transient"))),
        optional("retry_after_ms", duration().about("Replaces the back-off.")),
    ]
}

/// The fields of a time or a delay, of which one must be given.
pub fn delay() -> Vec<Field> {
    vec![
        optional("until_at", time().about("Give until_at or delay_ms.")),
        optional("delay_ms", duration().about("Give until_at or delay_ms.")),
    ]
}

fn step() -> Vec<Field> {
    vec![
        always("name", name()),
        optional("kind", word(StepKind::ALL.map(StepKind::as_str)).default(json!("step"))),
        sometimes("result", any().about("Default: null.")),
        optional("duration_ms", duration().default(json!(0))),
    ]
}

fn frame() -> Vec<Field> {
    vec![
        always("kind", word(FrameKind::ALL.map(FrameKind::as_str))),
        always("data", any()),
        optional("mode", word(FrameMode::ALL.map(FrameMode::as_str)).default(json!("durable"))),
        optional("correlation_id", key()),
    ]
}

fn usage() -> Vec<Field> {
    vec![always("budget", name()), always("usage", amounts()), optional("dedup_key", key())]
}

fn spawn() -> Vec<Field> {
    let mut fields = graph("Node");
    let about = "True: the end of the parent does not cancel the children.";
    fields.push(optional("detach", flag().default(json!(false)).about(about)));
    fields
}

fn result() -> Schema {
    let waitpoint = answer(vec![always("id", id()), always("name", text()), always("token", text())]);
    let done = answer(vec![
        always("ok", Schema(flag().0.with("const", true))),
        nullable("state", state().about("The state after the operation; null if the execution is deleted.")),
        sometimes("breached", list(text()).about("For usage: the dimensions whose hard limit is reached.")),
        sometimes("delayed_until_at", time()),
        sometimes("executions", map(id()).about("For spawn: the execution of each node.")),
        sometimes("waitpoints", list(waitpoint).about("For suspend and waitpoint: the new waitpoints.")),
    ]);
    one_of(vec![done, answer(vec![always("error", shape("Problem"))])])
}
