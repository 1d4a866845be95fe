//! Operator actions on one or many executions: `routes::operators` and `routes::bulk`.

use crate::openapi::operation::{Operation, operation};
use crate::openapi::schema::*;
use crate::openapi::shapes::executions::{changed, duplicate};
use crate::openapi::shapes::reports::delay;
use crate::openapi::shapes::submission::priority;
use crate::wire::problem::Code;
use serde_json::{Value, json};

const TAG: &str = "Operator actions";

#[rustfmt::skip]
pub fn operations() -> Vec<Operation> {
    vec![
        action("cancel", "cancel_execution", "Cancel an execution", cancel(), json!({ "reason": "not needed" }))
            .about("A running attempt is asked to stop and has grace_ms to do so."),
        replay(),
        required("reschedule", "reschedule_execution", "Move the start of an execution", delay(), json!({ "delay_ms": 60_000 })),
        required("priority", "prioritise_execution", "Change the priority", vec![always("priority", priority())], json!({ "priority": 10 })),
        required("tags", "tag_execution", "Set and remove tags", change_of_tags(), json!({ "set": { "team": "red" }, "remove": ["old"] })),
        action("revoke-lease", "revoke_lease", "Take the lease away from its worker", vec![optional("reason", text())], json!({ "reason": "stuck" })),
        action("resume", "resume_execution", "Resume a suspended execution", Vec::new(), json!({})),
        bulk(),
    ]
    .into_iter()
    .map(|operation| operation.tag(TAG))
    .collect()
}

const OF_ACTIONS: [Code; 3] = [Code::VersionMismatch, Code::WrongState, Code::AlreadyTerminal];

/// Returns an action whose body may be left out.
fn action(
    word: &str,
    id: &'static str,
    summary: &'static str,
    fields: Vec<Field>,
    example: Value,
) -> Operation {
    act(word, id, summary).body_if_any(with_version(fields), example).answers(
        200,
        "The execution.",
        answer(changed()),
    )
}

/// Returns an action whose body must be given.
fn required(
    word: &str,
    id: &'static str,
    summary: &'static str,
    fields: Vec<Field>,
    example: Value,
) -> Operation {
    let body = match word {
        "reschedule" => with_version(fields).needs_one_of(&["until_at", "delay_ms"]),
        _ => with_version(fields),
    };
    act(word, id, summary).body(body, example).answers(200, "The execution.", answer(changed()))
}

fn act(word: &str, id: &'static str, summary: &'static str) -> Operation {
    let path = match word {
        "cancel" => "/v1/executions/{id}/cancel",
        "replay" => "/v1/executions/{id}/replay",
        "reschedule" => "/v1/executions/{id}/reschedule",
        "priority" => "/v1/executions/{id}/priority",
        "tags" => "/v1/executions/{id}/tags",
        "revoke-lease" => "/v1/executions/{id}/revoke-lease",
        _ => "/v1/executions/{id}/resume",
    };
    operation("post", path, id, summary)
        .repeatable()
        .also(OF_ACTIONS)
        .also([Code::FlowEnded, Code::LimitReached])
}

fn with_version(mut fields: Vec<Field>) -> Schema {
    let about = "Acts only if the execution has this version.";
    fields.push(optional("if_version", count().about(about)));
    request(fields)
}

fn replay() -> Operation {
    let dry_run = optional("dry_run", flag().about("True to see what a replay would reopen."));
    let mut fields = vec![always("execution", shape("Execution"))];
    fields.extend([
        sometimes("duplicate", duplicate()),
        sometimes("dry_run", flag()),
        sometimes("would_reopen", list(id()).about("For a dry run: the executions that would reopen.")),
    ]);
    act("replay", "replay_execution", "Run an ended execution again")
        .body_if_any(with_version(vec![dry_run]), json!({ "dry_run": true }))
        .answers(200, "The execution.", answer(fields))
}

fn cancel() -> Vec<Field> {
    vec![optional("reason", text()), optional("grace_ms", duration())]
}

fn change_of_tags() -> Vec<Field> {
    vec![optional("set", tags()), optional("remove", list(label()))]
}

/// Returns the schema of an action on many executions.
pub fn bulk_action() -> Schema {
    let typed = |word: &str, fields: Vec<Field>| request([vec![always("type", only(word))], fields].concat());
    one_of(vec![
        typed("cancel", cancel()),
        typed("replay", Vec::new()),
        typed("priority", vec![always("priority", priority())]),
        typed("reschedule", delay()).needs_one_of(&["until_at", "delay_ms"]),
        typed("tags", change_of_tags()),
    ])
}

fn bulk() -> Operation {
    let refused = answer(vec![always("id", id()), always("code", text()), always("detail", text())]);
    let body = request(vec![
        always("action", bulk_action()),
        optional("ids", list(id()).about("Give ids, filter or all.")),
        optional("filter", bulk_filter().about("The names of the list's filters; tag is a list.")),
        optional("all", flag().about("True for every execution of the namespace.")),
        optional("dry_run", flag().about("True to see what the action would change.")),
    ])
    .needs_one_of(&["ids", "filter", "all"]);
    operation("post", "/v1/executions/bulk", "act_on_executions", "Act on many executions")
        .about("Covers at most 10 000 executions; each is changed or refused on its own.")
        .repeatable()
        .body(body, json!({ "action": { "type": "cancel" }, "filter": { "lane": "old" }, "dry_run": true }))
        .answers(
            200,
            "The numbers and ids of the executions.",
            answer(vec![
                always("matched", total()),
                sometimes("done", total()),
                sometimes("would_change", total().about("Instead of done in a dry run.")),
                always("unchanged", total()),
                always("refused", list(refused)),
                always("not_found", list(id())),
                always("ids", list(id()).about("The changed executions.")),
                always("duplicate", duplicate()),
            ]),
        )
        .also([Code::TooMany])
}

/// Returns the schema of the filter of an action on many executions.
pub fn bulk_filter() -> Schema {
    let field = |name| optional(name, text());
    let mut fields = vec![optional("tag", list(super::executions::tag_filter()))];
    fields.extend(["lane", "kind", "state", "outcome", "flow", "worker", "error"].map(field));
    fields.extend(
        ["submitted_after", "submitted_before", "ended_after", "ended_before"]
            .map(|name| optional(name, time())),
    );
    request(fields)
}
