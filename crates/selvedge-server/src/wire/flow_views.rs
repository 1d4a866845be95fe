//! The JSON of flows and their graphs.

use crate::wire::json::{self, Object};
use crate::wire::views;
use selvedge_core::flow::FlowState;
use selvedge_core::graph::FlowGraph;
use selvedge_core::join::JoinPolicy;
use selvedge_core::state::StateName;
use selvedge_core::{ExecutionId, Name};
use selvedge_engine::FlowView;

/// Writes a flow.
pub fn flow(out: &mut Vec<u8>, view: &FlowView) {
    let flow = &view.flow;
    json::object(out, |object| {
        object.value("id", &flow.id);
        object.value("namespace", view.namespace.as_str());
        object.value("name", &flow.name);
        object.value("state", flow.state.as_str());
        object.object("counts", |object| {
            object.value("total", &flow.counts.total());
            for state in StateName::ALL {
                object.value(state.as_str(), &flow.counts.of(state));
            }
        });
        object.value("tags", &flow.tags);
        object.time("submitted_at", Some(flow.submitted_at));
        object.time("ended_at", flow.ended_at);
        object.time("deadline_at", flow.spec.deadline_at);
        object.value("retention_ms", &flow.spec.retention_ms);
        object.value("idempotency_key", &flow.spec.idempotency_key);
        object.value("version", &flow.version);
        views::scheduled(object, flow.spec.scheduled.as_ref());
        match &flow.detail.cancel {
            None => object.null("cancel"),
            Some(cancel) => object.object("cancel", |object| {
                object.value("mode", cancel.mode.as_str());
                object.value("reason", &cancel.reason);
                object.value("actor", &cancel.actor);
                object.value("draining", &cancel.draining);
            }),
        }
    });
}

/// Returns the outcome of a flow in this state; none while it runs.
pub fn outcome(state: FlowState) -> Option<&'static str> {
    match state {
        FlowState::Running => None,
        FlowState::Completed => Some("completed"),
        FlowState::Failed => Some("failed"),
        FlowState::Cancelled => Some("cancelled"),
    }
}

/// Writes the field `executions`: the execution of each node, by the node's name.
pub fn executions(object: &mut Object<'_>, executions: &[(Name, ExecutionId)]) {
    object.object("executions", |object| {
        for (name, id) in executions {
            json::value(object.entry(name), id);
        }
    });
}

/// Writes the fields of a graph.
pub fn graph(object: &mut Object<'_>, graph: &FlowGraph) {
    object.array("nodes", &graph.nodes, |out, node| {
        json::object(out, |object| {
            object.value("name", &node.name);
            object.value("execution", &node.execution);
            object.value("state", node.state.as_str());
        });
    });
    object.array("edges", &graph.edges, |out, edge| {
        json::object(out, |object| {
            object.value("from", &edge.from);
            object.value("to", &edge.to);
            object.value("when", edge.when.as_str());
            object.value("resolution", edge.resolution.as_str());
        });
    });
    object.array("groups", &graph.groups, |out, group| {
        json::object(out, |object| {
            object.value("node", &group.node);
            object.object("policy", |object| policy(object, group.policy));
            object.value("holds", &group.holds);
            object.value("dead", &group.dead);
            object.value("pending", &group.pending);
            object.value("decision", group.decision.as_str());
        });
    });
    object.array("spawned", &graph.spawned, |out, (parent, child)| {
        json::object(out, |object| {
            object.value("parent", parent);
            object.value("child", child);
        });
    });
}

/// Writes the fields of a join policy in the form that requests use.
fn policy(object: &mut Object<'_>, policy: JoinPolicy) {
    object.value("type", policy.as_str());
    match policy {
        JoinPolicy::AllOf => {}
        JoinPolicy::AnyOf { on_satisfied } => object.value("on_satisfied", on_satisfied.as_str()),
        JoinPolicy::Quorum { k, on_satisfied } => {
            object.value("k", &k);
            object.value("on_satisfied", on_satisfied.as_str());
        }
    }
}
