//! Flows and their graphs: `wire::flow_views`.

use super::executions::{duplicate, state};
use super::submission::retention;
use super::{failure, outcome};
use selvedge_api::schema::*;
use selvedge_core::flow::{CancelMode, FlowState};
use selvedge_core::join::{EdgeCondition, OnSatisfied};
use selvedge_core::state::StateName;

pub fn shapes() -> Vec<(&'static str, Schema)> {
    vec![
        ("Flow", flow()),
        ("FlowSubmission", submission()),
        ("GrownFlow", grown()),
        ("Graph", graph()),
        ("FlowResult", result()),
    ]
}

/// The submission of a flow.
fn submission() -> Schema {
    let mut fields = vec![
        optional("id", id().about("An id of the caller's choice, which makes the call safe to repeat.")),
        optional("idempotency_key", key()),
        optional("name", name()),
        optional("tags", tags().about("Given to its members too; a member's own tag wins.")),
        optional("deadline_ms", duration()),
        optional("retention_ms", retention()),
        optional("defaults", shape("Defaults").about("The values of fields that nodes leave out.")),
    ];
    fields.extend(super::submission::graph("FlowNode"));
    request(fields)
}

fn flow() -> Schema {
    let mut counts = vec![always("total", total())];
    counts.extend(StateName::ALL.map(|state| always(state.as_str(), total())));
    let cancel = answer(vec![
        always("mode", word([CancelMode::All, CancelMode::Pending].map(CancelMode::as_str))),
        nullable("reason", text()),
        nullable("actor", text()),
        always("draining", flag()),
    ]);
    answer(vec![
        always("id", id()),
        always("namespace", text()),
        nullable("name", text()),
        always("state", flow_state()),
        always("counts", answer(counts).about("The number of members in each state.")),
        always("tags", map(text())),
        always("submitted_at", time()),
        nullable("ended_at", time()),
        nullable("deadline_at", time()),
        nullable("retention_ms", integer()),
        nullable("idempotency_key", text()),
        always("version", count()),
        nullable("cancel", cancel),
        sometimes("schedule", text().about("The schedule that submitted it.")),
        sometimes("scheduled_at", time().about("The time of that schedule.")),
    ])
}

pub fn flow_state() -> Schema {
    word(FlowState::ALL.map(FlowState::as_str))
}

fn grown() -> Schema {
    answer(vec![
        always("flow", shape("Flow")),
        always("executions", map(id()).about("The execution of each node, by the node's name.")),
        always("duplicate", duplicate()),
    ])
}

fn graph() -> Schema {
    let node = answer(vec![always("name", text()), always("execution", id()), always("state", state())]);
    let edge = answer(vec![
        always("from", text()),
        always("to", text()),
        always("when", word(EdgeCondition::ALL.map(EdgeCondition::as_str))),
        always("resolution", word(["pending", "holds", "dead"])),
    ]);
    let on_satisfied = [OnSatisfied::CancelRemaining, OnSatisfied::LetRun].map(OnSatisfied::as_str);
    let policy = answer(vec![
        always("type", word(["all_of", "any_of", "quorum"])),
        sometimes("k", count()),
        sometimes("on_satisfied", word(on_satisfied)),
    ]);
    let group = answer(vec![
        always("node", text()),
        always("policy", policy),
        always("holds", total()),
        always("dead", total()),
        always("pending", total()),
        always("decision", word(["pending", "satisfied", "impossible"])),
    ]);
    let spawned = answer(vec![always("parent", text()), always("child", text())]);
    answer(vec![
        always("nodes", list(node)),
        always("edges", list(edge)),
        always("groups", list(group)),
        always("spawned", list(spawned)),
    ])
}

fn result() -> Schema {
    let ended =
        answer(vec![nullable("outcome", outcome()), always("result", any()), nullable("error", failure())]);
    answer(vec![
        nullable("outcome", word(["completed", "failed", "cancelled"])),
        always("state", flow_state()),
        always("flow", shape("Flow")),
        always("results", map(ended).about("The ends of the nodes without downstreams, by name.")),
        always("result_refs", map(id()).about("The nodes whose results are too large for the answer.")),
    ])
}
