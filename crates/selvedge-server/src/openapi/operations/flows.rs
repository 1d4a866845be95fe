//! Flows: `routes::flows`.

use crate::openapi::shapes::executions::duplicate;
use crate::openapi::shapes::flows::flow_state;
use crate::openapi::shapes::submission::graph;
use crate::wire::problem::Code;
use selvedge_api::description::{Description, operation};
use selvedge_api::filter::tag_filter;
use selvedge_api::schema::*;
use selvedge_core::flow::CancelMode;
use serde_json::{Value, json};

const TAG: &str = "Flows";
/// The problems of graphs.
const OF_GRAPHS: [Code; 7] = [
    Code::Cycle,
    Code::UnknownNode,
    Code::UnknownBudget,
    Code::UnknownQuota,
    Code::LaneDraining,
    Code::IdempotencyMismatch,
    Code::IdTaken,
];

pub fn operations() -> Vec<Description> {
    vec![submit(), grow(), list_flows(), get(), explain(), show_graph(), result(), cancel()]
        .into_iter()
        .map(|operation| operation.tag(TAG))
        .collect()
}

fn submit() -> Description {
    let example = json!({
        "name": "order",
        "nodes": [{ "name": "charge", "kind": "charge-card", "input": { "cents": 1200 } }, { "name": "ship", "kind": "ship" }],
        "edges": [{ "from": "charge", "to": "ship" }],
    });
    operation("post", "/v1/flows", "submit_flow", "Submit a flow")
        .about("The whole graph is accepted or refused together.")
        .repeatable()
        .traced()
        .body(shape("FlowSubmission"), example)
        .answers(201, "The new flow.", shape("GrownFlow"))
        .answers(200, "The flow that was submitted before.", shape("GrownFlow"))
        .also(OF_GRAPHS)
        .also([Code::NotFound])
}

fn grow() -> Description {
    let example: Value = json!({ "nodes": [{ "name": "receipt", "kind": "send-mail" }], "edges": [{ "from": "ship", "to": "receipt" }] });
    operation("post", "/v1/flows/{id}/nodes", "grow_flow", "Add nodes and edges to a flow")
        .about("Edges may name nodes that exist already.")
        .repeatable()
        .traced()
        .body(request(graph("Node")), example)
        .answers(201, "The flow with the new nodes.", shape("GrownFlow"))
        .answers(200, "The request repeats an earlier one.", shape("GrownFlow"))
        .also(OF_GRAPHS)
        .also([Code::FlowEnded, Code::AlreadyTerminal, Code::WrongState, Code::LimitReached])
}

fn list_flows() -> Description {
    operation("get", "/v1/flows", "list_flows", "List flows, newest first")
        .joined_query("state", flow_state(), "The states.")
        .query("name", name(), "The name.")
        .query("tag", tag_filter(), "A tag, written name:value.")
        .query("submitted_after", time(), "The earliest submission.")
        .query("submitted_before", time(), "The latest submission.")
        .paged()
        .answers_page(shape("Flow"))
}

fn get() -> Description {
    operation("get", "/v1/flows/{id}", "get_flow", "Get a flow")
        .answers(200, "The flow.", shape("Flow"))
        .also([Code::UnknownField])
}

fn explain() -> Description {
    operation(
        "get",
        "/v1/flows/{id}/explain",
        "explain_flow",
        "Explain why it has not ended, or how it ended",
    )
    .answers(200, "The reasons; the members that decide it come first.", shape("Explanation"))
    .also([Code::UnknownField])
}

fn show_graph() -> Description {
    let contents =
        vec![("application/json", shape("Graph")), ("text/vnd.graphviz", text()), ("image/svg+xml", text())];
    operation("get", "/v1/flows/{id}/graph", "get_flow_graph", "Get the graph of a flow")
        .query("format", word(["json", "dot", "svg"]).default(json!("json")), "The format.")
        .answers_as(200, "The graph.", contents)
}

fn result() -> Description {
    operation("get", "/v1/flows/{id}/result", "get_flow_result", "Wait for the result of a flow")
        .query("wait_ms", wait(), "The longest wait for the end.")
        .answers(200, "It has ended.", shape("FlowResult"))
        .answers(202, "It has not ended yet.", shape("FlowResult"))
}

fn cancel() -> Description {
    let modes = [CancelMode::All, CancelMode::Pending].map(CancelMode::as_str);
    let body = request(vec![
        optional(
            "mode",
            word(modes).default(json!("all")).about("pending: active members run to their end."),
        ),
        optional("reason", text()),
        optional("wait_ms", wait().about("The longest wait until all members have ended.")),
    ]);
    let fields = || answer(vec![always("flow", shape("Flow")), always("duplicate", duplicate())]);
    operation("post", "/v1/flows/{id}/cancel", "cancel_flow", "Cancel a flow")
        .repeatable()
        .body_if_any(body, json!({ "mode": "pending", "reason": "not needed" }))
        .answers(200, "All members have ended.", fields())
        .answers(202, "Members are still being cancelled.", fields())
        .also([Code::FlowEnded])
}
