//! Bulk jobs: `routes::bulk_jobs`.

use super::operators::bulk_action;
use crate::openapi::shapes::executions::duplicate;
use crate::openapi::shapes::filter::filter;
use crate::wire::problem::Code;
use selvedge_api::description::{Description, operation};
use selvedge_api::schema::*;
use selvedge_core::bulk_job::{BulkJobState, REFUSED_MAX};
use serde_json::json;

const TAG: &str = "Bulk jobs";

/// Returns the operations of bulk jobs.
pub fn operations() -> Vec<Description> {
    [start(), list_jobs(), get(), stop()].into_iter().map(|operation| operation.tag(TAG)).collect()
}

/// Returns the fields of a job.
pub fn fields() -> Vec<Field> {
    let state = word(BulkJobState::ALL.map(BulkJobState::as_str));
    let refused = answer(vec![always("id", id()), always("code", text())]);
    let first = format!("The first {REFUSED_MAX} executions that refused the action.");
    vec![
        always("id", id()),
        always("state", state),
        always("action", map(any()).about("The action as it was given; a delay has become a time.")),
        always("filter", map(any()).about("The filter as it was given; empty for all: true.")),
        always("actor", name()),
        always("matched", total().about("The executions met so far.")),
        always("done", total().about("Those that the action changed.")),
        always("unchanged", total().about("Those that needed no change.")),
        always("refused_count", total().about("Those that refused the action.")),
        always("refused", list(refused).about(&first)),
        nullable("position_at", time().about("The time of submission of the execution met last.")),
        always("created_at", time()),
        nullable("ended_at", time()),
    ]
}

fn start() -> Description {
    let body = request(vec![
        always("action", bulk_action()),
        optional(
            "filter",
            filter().about("The filters of the list of executions. At least one must be given."),
        ),
        optional("all", flag().about("True for every execution of the namespace.")),
    ])
    .needs_one_of(&["all", "filter"]);
    let answered = || answer([fields(), vec![always("duplicate", duplicate())]].concat());
    operation("post", "/v1/bulk-jobs", "start_bulk_job", "Start a bulk job")
        .about("Acts on all executions that match and exist when it begins, in the background.")
        .repeatable()
        .body(body, json!({ "action": { "type": "cancel" }, "filter": { "lane": "old" } }))
        .answers(201, "The job.", answered())
        .answers(200, "The job of an earlier call with the same key.", answered())
}

fn list_jobs() -> Description {
    operation("get", "/v1/bulk-jobs", "list_bulk_jobs", "List bulk jobs, newest first")
        .about("A job is kept for 7 days after its end.")
        .paged()
        .answers_page(answer(fields()))
}

fn get() -> Description {
    operation("get", "/v1/bulk-jobs/{id}", "get_bulk_job", "Show the progress of a bulk job").answers(
        200,
        "The job.",
        answer(fields()),
    )
}

fn stop() -> Description {
    operation("delete", "/v1/bulk-jobs/{id}", "stop_bulk_job", "Stop a bulk job")
        .about("What it has done stays done. A job that has ended stays as it is. The deletion of a namespace cannot be stopped.")
        .answers(200, "The job.", answer(fields()))
        .also([Code::WrongState])
}
