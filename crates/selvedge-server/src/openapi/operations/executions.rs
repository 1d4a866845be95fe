//! Submission, lists and details of executions: `routes::executions`, `routes::relatives`, `routes::steps`.

use crate::openapi::shapes::executions::submitted;
use crate::openapi::shapes::{failure, outcome};
use crate::routes::BATCH_MAX;
use crate::wire::problem::Code;
use selvedge_api::description::{Description, operation};
use selvedge_api::filter::{FilterField, Values, conditions};
use selvedge_api::schema::*;
use selvedge_core::submission::TAGS_LIMIT;
use serde_json::json;

const TAG: &str = "Executions";
/// The problems of submissions that refer to limits.
const OF_SUBMISSIONS: [Code; 5] =
    [Code::IdempotencyMismatch, Code::IdTaken, Code::LaneDraining, Code::UnknownBudget, Code::UnknownQuota];

pub fn operations() -> Vec<Description> {
    vec![submit(), submit_batch(), list_executions(), get()]
        .into_iter()
        .chain(details())
        .map(|operation| operation.tag(TAG))
        .collect()
}

fn submit() -> Description {
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

fn submit_batch() -> Description {
    let example =
        json!({ "executions": [{ "kind": "greet", "input": "Ada" }, { "kind": "greet", "input": "Bob" }] });
    let result = one_of(vec![answer(submitted()), answer(vec![always("error", shape("Problem"))])]);
    operation("post", "/v1/executions/batch", "submit_executions", "Submit several executions")
        .about(&format!("At most {BATCH_MAX}. Each submission succeeds or is refused on its own."))
        .repeatable()
        .traced()
        .body(request(vec![always("executions", list_of_at_most(BATCH_MAX, shape("Submission")))]), example)
        .answers(
            200,
            "The results, in the order of the submissions.",
            answer(vec![always("results", list(result))]),
        )
}

fn list_executions() -> Description {
    let list = operation("get", "/v1/executions", "list_executions", "List executions, newest first")
        .about("An item matches all filters that are given.");
    filters(list)
        .joined_query(
            "include",
            word(["input", "result", "progress"]),
            "The fields that items leave out unless they are named here.",
        )
        .paged()
        .answers_page(shape("Execution"))
}

/// Adds the conditions of the filter as parameters.
fn filters(operation: Description) -> Description {
    conditions().into_iter().fold(operation, |operation, FilterField { name, schema, about, values }| {
        match values {
            Values::One => operation.query(name, schema, about),
            Values::Joined => operation.joined_query(name, schema, about),
            Values::Repeated => operation.query(name, list_of_at_most(TAGS_LIMIT, schema), about),
        }
    })
}

fn get() -> Description {
    operation("get", "/v1/executions/{id}", "get_execution", "Get an execution")
        .about("It has the fields of its submission by the same names and in the same form. Only a delay is not kept as it was given: delayed_until_at is its end.")
        .answers(200, "The execution, with input, result and progress.", shape("Execution"))
        .also([Code::UnknownField])
}

fn details() -> Vec<Description> {
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
