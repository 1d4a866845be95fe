//! Buttons that change something: each calls the API, and only those that the role may use are shown.

use maud::{Markup, html};
use selvedge_core::FlowId;
use selvedge_core::flow::{Flow, FlowState};
use selvedge_core::graph::{FlowGraph, GraphNode};
use selvedge_core::state::StateName;
use selvedge_engine::View;

/// The most nodes of a flow that can be chosen for a replay.
const REPLAYABLE_MAX: usize = 200;

/// Shows what an operator can do with an execution in its state.
pub fn of_execution(view: &View) -> Markup {
    let row = &view.stored.execution;
    let api = format!("/v1/executions/{}", row.id);
    let (state, has_ended) = (view.state(), row.state.outcome().is_some());
    let can_move = matches!(state, StateName::Waiting | StateName::Delayed | StateName::Held);
    html! {
        div.actions.needs-script {
            @if !has_ended { (opener("cancel", "Cancel", true)) }
            @if has_ended { (opener("replay", "Replay", false)) }
            @if state == StateName::Suspended { (simple(&format!("POST {api}/resume"), "Resume", "Resumed.")) }
            @if can_move { (opener("reschedule", "Reschedule", false)) }
            @if !has_ended { (opener("priority", "Priority", false)) }
            @if row.state.lease().is_some() { (simple(&format!("POST {api}/revoke-lease"), "Take back the lease", "The lease was taken back.")) }
        }
        (dialog("cancel", "Cancel this execution?", &format!("POST {api}/cancel"), html! {
            label { "Reason" input type="text" name="reason" autocomplete="off"; }
            label { "Time for its worker to stop, in milliseconds" input type="number" name="grace_ms" min="0" value="0" data-type="number"; }
        }, html! { button.danger type="submit" { "Cancel the execution" } }))
        (dialog("replay", "Replay this execution?", &format!("POST {api}/replay"), html! {
            p { "It runs again with the same input. Executions of its flow that depend on it are reopened." }
        }, html! { button type="submit" data-preview { "Preview" } button.primary type="submit" { "Replay" } }))
        (dialog("reschedule", "Run at another time", &format!("POST {api}/reschedule"), html! {
            label { "Delay from now, in milliseconds" input type="number" name="delay_ms" min="0" required data-type="number"; }
        }, html! { button.primary type="submit" { "Reschedule" } }))
        (dialog("priority", "Change the priority", &format!("POST {api}/priority"), html! {
            label { "Priority; higher is sooner" input type="number" name="priority" required value=(row.priority) data-type="number"; }
        }, html! { button.primary type="submit" { "Change" } }))
    }
}

/// Shows what an operator can do with a flow: cancel it while it runs, and replay a node that did not complete.
pub fn of_flow(flow: &Flow, graph: &FlowGraph) -> Markup {
    let id: FlowId = flow.id;
    let replayable = |node: &&GraphNode| {
        matches!(node.state, StateName::Failed | StateName::Cancelled | StateName::Expired)
    };
    let mut nodes: Vec<&GraphNode> = graph.nodes.iter().filter(replayable).collect();
    nodes.sort_by_key(|node| node.state != StateName::Failed);
    nodes.truncate(REPLAYABLE_MAX);
    html! {
        @if flow.state == FlowState::Running || !nodes.is_empty() {
            div.actions.needs-script {
                @if flow.state == FlowState::Running { (opener("cancel", "Cancel the flow", true)) }
                @if !nodes.is_empty() { (opener("replay", "Replay a node", false)) }
            }
        }
        @if let Some(first) = nodes.first() {
            (dialog("replay", "Replay a node of this flow?", &format!("POST /v1/executions/{}/replay", first.execution), html! {
                label { "Node"
                    select data-of-call="/v1/executions/{}/replay" {
                        @for node in &nodes {
                            option value=(node.execution) { (super::clipped(&node.name, 60)) " – " (node.state.as_str()) }
                        }
                    }
                }
                p { "It runs again with the same input, and skipped nodes that depend on it may run. The preview outlines them in the graph." }
            }, html! { button type="submit" data-preview { "Preview" } button.primary type="submit" { "Replay" } }))
        }
        @if flow.state == FlowState::Running {
            (dialog("cancel", "Cancel this flow?", &format!("POST /v1/flows/{id}/cancel"), html! {
                label { "Executions to cancel"
                    select name="mode" {
                        option value="all" { "all that have not ended" }
                        option value="pending" { "those that have not started" }
                    }
                }
                label { "Reason" input type="text" name="reason" autocomplete="off"; }
            }, html! { button.danger type="submit" { "Cancel the flow" } }))
        }
    }
}

/// Shows a button that opens a dialog.
fn opener(dialog: &str, label: &str, is_danger: bool) -> Markup {
    html! {
        button type="button" class=[is_danger.then_some("danger")] data-opens=(format!("{dialog}-dialog")) { (label) }
    }
}

/// Shows a button that calls the API at once.
pub fn simple(call: &str, label: &str, done: &str) -> Markup {
    html! {
        form.needs-script data-call=(call) data-done=(done) method="post" { button type="submit" { (label) } }
    }
}

fn dialog(id: &str, title: &str, call: &str, fields: Markup, buttons: Markup) -> Markup {
    html! {
        dialog id=(format!("{id}-dialog")) aria-label=(title) {
            form data-call=(call) method="post" {
                h2 { (title) }
                (fields)
                div.actions { (buttons) button type="button" data-closes { "Close" } }
            }
        }
    }
}
