//! Operator actions on one or many executions: `routes::operators` and `routes::bulk`.

use crate::openapi::shapes::executions::{changed, duplicate};
use crate::openapi::shapes::reports::delay;
use crate::wire::problem::Code;
use selvedge_api::Shape;
use selvedge_api::actions::BulkAction;
use selvedge_api::description::{Description, operation};
use selvedge_api::filter::ExecutionFilter;
use selvedge_api::schema::*;
use selvedge_engine::BULK_MAX;
use serde_json::json;

const TAG: &str = "Operator actions";

#[rustfmt::skip]
pub fn operations() -> Vec<Description> {
    vec![
        action("/v1/executions/{id}/cancel", "cancel_execution", "Cancel an execution")
            .about("A running attempt is asked to stop and has grace_ms to do so.")
            .body_if_any(with_version(cancel()), json!({ "reason": "not needed" })),
        action("/v1/executions/{id}/reschedule", "reschedule_execution", "Move the start of an execution")
            .body(with_version(delay()).needs_one_of(&DELAY), json!({ "delay_ms": 60_000 })),
        action("/v1/executions/{id}/priority", "prioritise_execution", "Change the priority")
            .body(with_version(vec![always("priority", priority())]), json!({ "priority": 10 })),
        action("/v1/executions/{id}/tags", "tag_execution", "Set and remove tags")
            .body(with_version(change_of_tags()), json!({ "set": { "team": "red" }, "remove": ["old"] })),
        action("/v1/executions/{id}/revoke-lease", "revoke_lease", "Take the lease away from its worker")
            .body_if_any(with_version(vec![optional("reason", text())]), json!({ "reason": "stuck" })),
        action("/v1/executions/{id}/resume", "resume_execution", "Resume a suspended execution")
            .body_if_any(with_version(Vec::new()), json!({})),
        replay(),
        bulk(),
    ]
    .into_iter()
    .map(|operation| operation.tag(TAG))
    .collect()
}

/// The fields of a reschedule, of which one must be given.
const DELAY: [&str; 2] = ["until_at", "delay_ms"];

/// Returns an action on one execution, without its body.
fn action(path: &'static str, id: &'static str, summary: &'static str) -> Description {
    unanswered_action(path, id, summary).answers(200, "The execution.", answer(changed()))
}

/// Returns an action on one execution, without its body and answer.
fn unanswered_action(path: &'static str, id: &'static str, summary: &'static str) -> Description {
    operation("post", path, id, summary).repeatable().also([
        Code::VersionMismatch,
        Code::WrongState,
        Code::AlreadyTerminal,
        Code::FlowEnded,
        Code::LimitReached,
    ])
}

fn with_version(mut fields: Vec<Field>) -> Schema {
    let about = "Acts only if the execution has this version.";
    fields.push(optional("if_version", count().about(about)));
    request(fields)
}

fn replay() -> Description {
    let dry_run = optional("dry_run", flag().about("True to see what a replay would reopen."));
    let mut fields = vec![always("execution", shape("Execution"))];
    fields.extend([
        sometimes("duplicate", duplicate()),
        sometimes("dry_run", flag()),
        sometimes("would_reopen", list(id()).about("For a dry run: the executions that would reopen.")),
    ]);
    unanswered_action("/v1/executions/{id}/replay", "replay_execution", "Run an ended execution again")
        .body_if_any(with_version(vec![dry_run]), json!({ "dry_run": true }))
        .answers(200, "The execution.", answer(fields))
}

fn cancel() -> Vec<Field> {
    vec![optional("reason", text()), optional("grace_ms", duration())]
}

fn change_of_tags() -> Vec<Field> {
    vec![optional("set", tags()), optional("remove", list(label()))]
}

fn bulk() -> Description {
    let refused = answer(vec![always("id", id()), always("code", text()), always("detail", text())]);
    let body = request(vec![
        always("action", BulkAction::schema()),
        optional("ids", list(id()).about("Give ids, filter or all.")),
        optional(
            "filter",
            ExecutionFilter::schema()
                .about("The filters of the list of executions. At least one must be given."),
        ),
        optional("all", flag().about("True for every execution of the namespace.")),
        optional("dry_run", flag().about("True to see what the action would change.")),
    ])
    .needs_one_of(&["ids", "filter", "all"]);
    operation("post", "/v1/executions/bulk", "act_on_executions", "Act on many executions")
        .about(&format!("At most {BULK_MAX} executions. Each is changed or refused on its own."))
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
