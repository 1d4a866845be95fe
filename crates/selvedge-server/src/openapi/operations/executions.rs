//! Submission, lists and details of executions: `routes::executions`, `routes::relatives`, `routes::steps`.

use crate::openapi::operation::{Operation, operation};
use crate::openapi::schema::*;
use crate::openapi::shapes::executions::{state, submitted};
use crate::openapi::shapes::{failure, outcome};
use crate::wire::problem::Code;
use selvedge_core::name::{LABEL_LIMIT, TAG_VALUE_LIMIT};
use selvedge_core::submission::TAGS_LIMIT;
use serde_json::json;

const TAG: &str = "Executions";
/// The maximum number of submissions in one batch.
const BATCH_MAX: usize = 1000;
/// The problems of submissions that refer to limits.
const OF_SUBMISSIONS: [Code; 4] =
    [Code::IdempotencyMismatch, Code::LaneDraining, Code::UnknownBudget, Code::UnknownQuota];

pub fn operations() -> Vec<Operation> {
    vec![submit(), submit_batch(), list_executions(), get()]
        .into_iter()
        .chain(details())
        .map(|operation| operation.tag(TAG))
        .collect()
}

fn submit() -> Operation {
    operation("post", "/v1/executions", "submit_execution", "Submit an execution")
        .about("A submission that is repeated with the same id or key returns the existing execution.")
        .repeatable()
        .traced()
        .body(
            shape("Submission"),
            json!({ "kind": "greet", "input": { "name": "Ada" }, "tags": { "team": "blue" } }),
        )
        .answers(201, "The new execution.", answer(submitted()))
        .answers(200, "The execution that was submitted before.", answer(submitted()))
        .also(OF_SUBMISSIONS)
        .also([Code::NotFound])
}

fn submit_batch() -> Operation {
    let example =
        json!({ "executions": [{ "kind": "greet", "input": "Ada" }, { "kind": "greet", "input": "Bob" }] });
    let result = one_of(vec![answer(submitted()), answer(vec![always("error", shape("Problem"))])]);
    operation("post", "/v1/executions/batch", "submit_executions", "Submit up to 1000 executions")
        .about("Each submission succeeds or is refused on its own.")
        .repeatable()
        .traced()
        .body(request(vec![always("executions", list_of_at_most(BATCH_MAX, shape("Submission")))]), example)
        .answers(
            200,
            "The results, in the order of the submissions.",
            answer(vec![always("results", list(result))]),
        )
}

fn list_executions() -> Operation {
    let list = operation("get", "/v1/executions", "list_executions", "List executions, newest first")
        .about("The filters combine: an item matches all of them.");
    filters(list)
        .joined_query(
            "include",
            word(["input", "result", "progress"]),
            "The fields that items leave out unless they are named here.",
        )
        .paged()
        .answers_page(shape("Execution"))
}

/// Adds the filters of lists of executions.
fn filters(operation: Operation) -> Operation {
    let tag = list_of_at_most(TAGS_LIMIT, tag_filter());
    operation
        .query("lane", text(), "The lane.")
        .query("kind", text(), "The kind.")
        .joined_query("state", state(), "The states.")
        .query("outcome", outcome(), "The outcome.")
        .query("flow", id(), "The flow.")
        .query("worker", printable(200), "The worker of the current lease.")
        .query("tag", tag, "A tag, written name:value. May be given several times: all must match.")
        .query("error", printable(512), "Text in the error; needs submitted_after or ended_after.")
        .query("submitted_after", time(), "The earliest submission.")
        .query("submitted_before", time(), "The latest submission.")
        .query("ended_after", time(), "The earliest end.")
        .query("ended_before", time(), "The latest end.")
}

/// A tag as filters write it.
pub fn tag_filter() -> Schema {
    let limit = LABEL_LIMIT + 1 + TAG_VALUE_LIMIT;
    let printable = "[^\\u0000-\\u001f\\u007f-\\u009f]";
    let pattern = format!("^[^\\u0000-\\u001f\\u007f-\\u009f:]+:{printable}*$");
    Schema(text().0.with("maxLength", limit as i64).with("pattern", pattern))
}

fn get() -> Operation {
    operation("get", "/v1/executions/{id}", "get_execution", "Get an execution")
        .answers(200, "The execution, with input, result and progress.", shape("Execution"))
        .also([Code::UnknownField])
}

fn details() -> Vec<Operation> {
    let result = || {
        answer(vec![nullable("outcome", outcome()), always("result", any()), nullable("error", failure())])
    };
    let page =
        |path, id, summary, item: &str| operation("get", path, id, summary).paged().answers_page(shape(item));
    vec![
        operation("get", "/v1/executions/{id}/result", "get_execution_result", "Wait for the result")
            .query("wait_ms", wait(), "The longest wait for the end.")
            .answers(200, "It has ended.", result())
            .answers(202, "It has not ended yet.", result()),
        operation("get", "/v1/executions/{id}/explain", "explain_execution", "Explain why it is not running")
            .answers(200, "The reasons.", shape("Explanation"))
            .also([Code::UnknownField]),
        page("/v1/executions/{id}/attempts", "list_attempts", "List the attempts, oldest first", "Attempt"),
        page(
            "/v1/executions/{id}/events",
            "list_execution_events",
            "List the events of an execution, oldest first",
            "Event",
        )
        .about("The history is kept as long as the execution, even after the log has deleted the events.")
        .also([Code::CursorExpired, Code::CursorUnknown]),
        page(
            "/v1/executions/{id}/steps",
            "list_steps",
            "List the steps, in the order of their start",
            "Step",
        ),
        page("/v1/executions/{id}/signals", "list_signals", "List the signals, oldest first", "Signal"),
        page(
            "/v1/executions/{id}/waitpoints",
            "list_execution_waitpoints",
            "List the waitpoints, oldest first",
            "Waitpoint",
        ),
        page(
            "/v1/executions/{id}/upstreams",
            "list_upstreams",
            "List the upstreams with their results",
            "Relative",
        ),
        page(
            "/v1/executions/{id}/children",
            "list_children",
            "List the children with their results",
            "Relative",
        ),
        page(
            "/v1/executions/{id}/usage",
            "list_usage",
            "List the usage of budgets by this execution",
            "Spent",
        ),
    ]
}
