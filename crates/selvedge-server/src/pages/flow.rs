//! The page of a flow: its graph, or the Gantt view of its executions, its joins, and why it has not ended.

use super::execution::explain;
use super::gantt;
use super::layout::{Page, Viewer, heading, rendered};
use super::parts::{execution_link, executions_link, flow_state, maybe_ago, moment, state, tags, user_text};
use crate::auth::Caller;
use crate::routes::HandlerResult;
use crate::wire::path::PathFlow;
use crate::wire::query::Query;
use maud::{Markup, html};
use selvedge_core::flow::Flow;
use selvedge_core::graph::FlowGraph;
use selvedge_core::join::JoinPolicy;
use selvedge_core::{Permission, Refusal, Timestamp};
use selvedge_engine::FlowView;
use std::collections::HashMap;

/// The views of a flow.
const VIEWS: [(&str, &str); 3] = [("graph", "Graph"), ("gantt", "Gantt"), ("table", "Table")];
/// The most nodes that the table lists.
const NODES_MAX: usize = 1000;

/// `GET /flows/{id}`
pub async fn page(caller: Caller, PathFlow(id): PathFlow, mut query: Query) -> HandlerResult {
    let chosen = query.text("view")?.unwrap_or_else(|| "graph".into());
    query.finish()?;
    if VIEWS.iter().all(|(word, _)| *word != chosen) {
        return Err(Refusal::field("/query/view", "must be one of graph, gantt, table").into());
    }
    let namespace = &caller.namespace;
    let FlowView { flow, .. } = namespace.flow(id).await?;
    let explanation = namespace.explain_flow(id).await?;
    let now = namespace.now().await?;
    let title = flow.name.as_ref().map_or_else(|| format!("Flow {id}"), |name| name.to_string());
    let picture = match chosen.as_str() {
        "gantt" => gantt::draw(namespace, &flow, now).await?,
        "table" => table(&namespace.graph(id).await?),
        _ => graph(&namespace.graph(id).await?, &title),
    };
    let content = html! {
        (heading(html! { (user_text(&title)) }, html! {
            p.crumbs {
                a href="/flows" { "Flows" } " / " span.id { (id) } " · " a href=(format!("/v1/flows/{id}")) { "JSON" } " · "
                a href=(format!("/v1/flows/{id}/graph?format=svg")) { "SVG" } " · "
                a href=(format!("/v1/flows/{id}/graph?format=dot")) { "DOT" }
            }
        }))
        section.card #facts data-live aria-label="Facts" { (facts(&flow, now)) }
        @if caller.may(Permission::Operate) { div #actions data-live { (super::actions::of_flow(&flow)) } }
        section {
            nav.tabs aria-label="Views of the flow" {
                @for (word, label) in VIEWS {
                    a href=(format!("/flows/{id}?view={word}")) aria-current=[(word == chosen).then_some("page")] { (label) }
                }
            }
            @if chosen == "graph" {
                div.graph {
                    div.picture #picture data-live { (picture) }
                    div.tools {
                        button type="button" data-zoom="in" aria-label="Zoom in" { "+" }
                        button type="button" data-zoom="out" aria-label="Zoom out" { "−" }
                        button type="button" data-zoom="whole" aria-label="Show the whole graph" { "⤢" }
                    }
                }
            } @else {
                div.stack #picture data-live { (picture) }
            }
        }
        section #explain data-live { h2 { "State" } (explain(&explanation, now)) }
    };
    let page = Page::new(&title, "/flows").live(format!("/live?flow={id}"));
    Ok(page.response(Some(&Viewer::of(&caller)), content))
}

fn facts(flow: &Flow, now: Timestamp) -> Markup {
    let id = flow.id.to_string();
    html! {
        dl.facts {
            div { dt { "State" } dd { (flow_state(flow.state)) } }
            div { dt { "Executions" } dd { a href=(executions_link(&[("flow", &id)])) { (flow.counts.total()) } } }
            div.wide { dt { "Submitted" } dd { (moment(flow.submitted_at)) } }
            div { dt { "Ended" } dd { (maybe_ago(flow.ended_at, now)) } }
            div.wide { dt { "By state" } dd { (super::flows::counts(&flow.counts)) } }
            @if !flow.tags.is_empty() { div { dt { "Tags" } dd { (tags(&flow.tags)) } } }
        }
    }
}

fn graph(graph: &FlowGraph, title: &str) -> Markup {
    rendered(selvedge_drawing::svg_for_page(graph, title))
}

/// Lists the nodes with their joins: the graph for screen readers, and for flows that are too large to draw.
fn table(graph: &FlowGraph) -> Markup {
    let groups: HashMap<&str, _> = graph.groups.iter().map(|group| (group.node.as_str(), group)).collect();
    html! {
        div.table {
            table {
                thead {
                    tr {
                        th { "Node" } th { "Execution" } th { "State" } th { "Join" } th.number { "Holds" }
                        th.number { "Pending" } th.number { "Dead" } th { "Decision" }
                    }
                }
                tbody {
                    @for node in graph.nodes.iter().take(NODES_MAX) {
                        tr {
                            td { (user_text(&node.name)) }
                            td.id { (execution_link(node.execution)) }
                            td { (state(node.state)) }
                            @match groups.get(node.name.as_str()) {
                                Some(group) => {
                                    td.nowrap { (policy(group.policy)) }
                                    td.number { (group.holds) } td.number { (group.pending) } td.number { (group.dead) }
                                    td { (group.decision.as_str()) }
                                }
                                None => td.faint colspan="5" { "starts the flow" }
                            }
                        }
                    }
                }
            }
        }
        @if graph.nodes.len() > NODES_MAX { p.faint { "The first " (NODES_MAX) " of " (graph.nodes.len()) " nodes." } }
    }
}

fn policy(policy: JoinPolicy) -> String {
    match policy {
        JoinPolicy::AllOf | JoinPolicy::AnyOf { .. } => super::parts::words(policy.as_str()),
        JoinPolicy::Quorum { k, .. } => format!("quorum of {k}"),
    }
}
