//! The page of a flow: its graph now or at an earlier moment, the Gantt view of its executions, its joins, and why it has not ended.

use super::execution::explain;
use super::frame::assets::FLOW_SCRIPT;
use super::frame::layout::{Page, Viewer, heading, redirect, rendered};
use super::parts::gantt;
use super::parts::scrubber::{MEMBERS_MAX, Scrubber, Wish};
use super::parts::table::table_of;
use super::parts::{
    address, duration, execution_link, executions_link, flow_state, kept_until, maybe_ago, moment, state,
    tags, user_text,
};
use crate::auth::Caller;
use crate::routes::HandlerResult;
use crate::wire::path::PathFlow;
use crate::wire::query::Query;
use maud::{Markup, html};
use selvedge_core::critical_path::{NodeTimes, critical_path};
use selvedge_core::flow::Flow;
use selvedge_core::graph::FlowGraph;
use selvedge_core::join::{JoinPolicy, Resolution};
use selvedge_core::past::Past;
use selvedge_core::{FlowId, Permission, Refusal, Timestamp};
use selvedge_drawing::page::{PageGraph, PagePicture, draw};
use selvedge_engine::{FlowRecord, FlowView};
use std::collections::{HashMap, HashSet};

/// The views of a flow.
const VIEWS: [(&str, &str); 3] = [("graph", "Graph"), ("gantt", "Gantt"), ("table", "Table")];
/// The most nodes that the table lists.
const NODES_MAX: usize = 1000;
/// The most clusters that an address expands.
const EXPANDED_MAX: usize = 50;

/// `GET /flows/{id}`
pub async fn page(caller: Caller, PathFlow(id): PathFlow, mut query: Query) -> HandlerResult {
    let chosen = query.text("view")?.unwrap_or_else(|| "graph".into());
    let (at, step, expanded) = (query.text("at")?, query.count("step")?, query.texts("expand"));
    query.finish()?;
    if VIEWS.iter().all(|(word, _)| *word != chosen) {
        return Err(Refusal::field("/query/view", "must be one of graph, gantt, table").into());
    }
    if expanded.len() > EXPANDED_MAX {
        return Err(
            Refusal::field("/query/expand", format!("is given more than {EXPANDED_MAX} times")).into()
        );
    }
    let namespace = &caller.namespace;
    let FlowView { flow, .. } = namespace.flow(id).await?;
    let wish = Wish::read(namespace, at, step).await?;
    let is_small = flow.counts.total() as usize <= MEMBERS_MAX;
    if wish.is_some() && !is_small {
        let detail = format!("is only for flows of at most {MEMBERS_MAX} executions");
        return Err(Refusal::field("/query/at", detail).into());
    }
    let record = namespace.flow_record(id, wish.is_some()).await?;
    let scrubber = (chosen == "graph" && is_small).then(|| Scrubber::new(id, &record, wish.as_ref()));
    if let (Some(Wish::Step(_)), Some(shown)) = (&wish, scrubber.as_ref().and_then(Scrubber::shown_address)) {
        return Ok(redirect(&shown));
    }
    let explanation = namespace.explain_flow(id).await?;
    let now = namespace.now().await?;
    let shown = Shown::new(&record, scrubber.as_ref().and_then(Scrubber::at), now);
    let title = flow.name.as_ref().map_or_else(|| format!("Flow {id}"), |name| name.to_string());
    let is_past = shown.at.is_some();
    let content = html! {
        (heading(html! { (user_text(&title)) }, html! {
            p.crumbs {
                a href="/flows" { "Flows" } " / " span.id { (id) } " · " a href=(format!("/v1/flows/{id}")) { "JSON" } " · "
                a href=(format!("/v1/flows/{id}/graph?format=svg")) { "SVG" } " · "
                a href=(format!("/v1/flows/{id}/graph?format=dot")) { "DOT" }
            }
        }))
        section.card #facts data-live aria-label="Facts" { (facts(&flow, &shown, now)) }
        @if caller.may(Permission::Operate) { div #actions data-live { @if !is_past { (super::parts::actions::of_flow(&flow, &shown.graph)) } } }
        section {
            nav.tabs aria-label="Views of the flow" {
                @for (word, label) in VIEWS {
                    a href=(format!("/flows/{id}?view={word}")) aria-current=[(word == chosen).then_some("page")] { (label) }
                }
            }
            @match chosen.as_str() {
                "gantt" => div.stack #picture data-live { (gantt::draw(&record, &shown.critical, &flow, now)) },
                "table" => div.stack #picture data-live { (table(&shown.graph)) },
                _ => { (graph(id, &shown, &title, &expanded)) @if let Some(scrubber) = &scrubber { (scrubber.show()) } },
            }
        }
        section #explain data-live { h2 { "State" } (explain(&explanation, now)) }
    };
    let page = Page::new(&title, "/flows").script(&FLOW_SCRIPT);
    let page = if is_past { page } else { page.live(format!("/live?flow={id}")) };
    Ok(page.response(Some(&Viewer::of(&caller)), content))
}

/// A flow at the moment that is shown.
struct Shown<'a> {
    record: &'a FlowRecord,
    /// The moment; none for the present.
    at: Option<Timestamp>,
    graph: FlowGraph,
    times: Vec<NodeTimes>,
    /// The indices of the nodes on the critical path.
    critical: Vec<usize>,
    /// The time that the critical path takes, in milliseconds.
    critical_ms: i64,
}

impl<'a> Shown<'a> {
    fn new(record: &'a FlowRecord, at: Option<Timestamp>, now: Timestamp) -> Shown<'a> {
        let Past { graph, times } = Past::at(&record.histories(), at.unwrap_or(now));
        // The rows are exact; the history of a long-lived execution may lack its oldest lines.
        let graph = if at.is_some() { graph } else { FlowGraph::of(&record.rows()) };
        let critical = match times.len() == graph.nodes.len() {
            true => critical_path(&graph, &times),
            false => Vec::new(),
        };
        let first = critical.first().and_then(|index| times[*index].began_at);
        let last = critical.last().map(|index| times[*index].ended_at.unwrap_or(at.unwrap_or(now)));
        let critical_ms = first.zip(last).map_or(0, |(first, last)| last.ms_since(first));
        Shown { record, at, graph, times, critical, critical_ms }
    }

    /// Returns the duration of each node that has ended, from its first attempt on.
    fn notes(&self) -> Vec<String> {
        let note = |times: &NodeTimes| match (times.started_at, times.ended_at) {
            (Some(started), Some(ended)) => duration(ended.ms_since(started)),
            _ => String::new(),
        };
        self.times.iter().map(note).collect()
    }
}

/// Shows the graph with its tools and its legend.
fn graph(id: FlowId, shown: &Shown, title: &str, expanded: &[String]) -> Markup {
    let kinds: HashMap<_, &str> =
        shown.record.members.iter().map(|member| (member.row.id, member.kind.as_str())).collect();
    let kinds: Vec<&str> = shown
        .graph
        .nodes
        .iter()
        .map(|node| kinds.get(&node.execution).copied().unwrap_or_default())
        .collect();
    let at = shown.at.map(super::parts::scrubber::exact);
    let open: HashSet<&str> = expanded.iter().map(String::as_str).collect();
    let expand = |name: &str| {
        let mut query: Vec<(&str, &str)> = at.iter().map(|at| ("at", at.as_str())).collect();
        query.extend(expanded.iter().map(|name| ("expand", name.as_str())));
        query.push(("expand", name));
        address(&format!("/flows/{id}"), &query)
    };
    let page = PageGraph {
        graph: &shown.graph,
        kinds: &kinds,
        notes: &shown.notes(),
        critical: &shown.critical,
        expanded: &open,
        expand: &expand,
    };
    let PagePicture { svg, collapsed } = draw(&page, title);
    html! {
        div.graph {
            div.picture #picture data-live data-patch { (rendered(svg)) }
            div.tools {
                button type="button" data-zoom="in" aria-label="Zoom in" { "+" }
                button type="button" data-zoom="out" aria-label="Zoom out" { "−" }
                button type="button" data-zoom="whole" aria-label="Show the whole graph" { "⤢" }
            }
        }
        div.graph-legend #legend data-live {
            (super::flows::counts(&shown.graph.counts()))
            (lines(&shown.graph))
            @if shown.critical.len() > 1 {
                span.legend.selvedge-graph { (sample("holds critical")) span { "critical path, " (duration(shown.critical_ms)) } }
            }
            @if collapsed > 0 { span.faint { "Boxes such as “24 × kind” are alike nodes; open one to see each." } }
            @if !expanded.is_empty() { a href=(format!("/flows/{id}")) { "Collapse again" } }
        }
    }
}

/// Explains the kinds of lines that occur.
fn lines(graph: &FlowGraph) -> Markup {
    let kinds = [
        (Resolution::Holds, "holds"),
        (Resolution::Pending, "pending"),
        (Resolution::Dead, "dead: cannot hold any more"),
    ];
    html! {
        ul.legend.selvedge-graph {
            @for (resolution, label) in kinds.into_iter().filter(|(kind, _)| graph.edges.iter().any(|edge| edge.resolution == *kind)) {
                li { (sample(resolution.as_str())) (label) }
            }
            @if !graph.spawned.is_empty() { li { (sample("spawned")) "spawned" } }
        }
    }
}

fn sample(class: &str) -> Markup {
    html! { svg.sample viewBox="0 0 28 10" aria-hidden="true" { path class=(format!("edge {class}")) d="M1 5H21" {} path class=(format!("tip {class}")) d="M28 5l-9-4v8z" {} } }
}

fn facts(flow: &Flow, shown: &Shown, now: Timestamp) -> Markup {
    let id = flow.id.to_string();
    html! {
        dl.facts {
            div { dt { "State" } dd { (flow_state(flow.state)) } }
            div { dt { "Executions" } dd { a href=(executions_link(&[("flow", &id)])) { (flow.counts.total()) } } }
            div.wide { dt { "Submitted" } dd { (moment(flow.submitted_at)) } }
            div { dt { "Ended" } dd { (maybe_ago(flow.ended_at, now)) } }
            @if let Some(at) = flow.delete_at() { div { dt { "Kept until" } dd { (kept_until(at, now)) } } }
            @if flow.ended_at.is_some() { div { dt { "Took" } dd { (duration(flow.ended_at.unwrap_or(now).ms_since(flow.submitted_at))) } } }
            @if shown.critical.len() > 1 {
                div { dt { "Critical path" } dd { (shown.critical.len()) " nodes, " (duration(shown.critical_ms)) } }
            }
            div.wide { dt { "By state" } dd { (super::flows::counts(&flow.counts)) } }
            @if !flow.tags.is_empty() { div { dt { "Tags" } dd { (tags(&flow.tags)) } } }
        }
    }
}

/// Lists the nodes with their joins: the graph for screen readers, and for flows that are too large to draw.
fn table(graph: &FlowGraph) -> Markup {
    let groups: HashMap<&str, _> = graph.groups.iter().map(|group| (group.node.as_str(), group)).collect();
    let columns = html! {
        th { "Node" } th { "Execution" } th { "State" } th { "Join" } th.number { "Holds" }
        th.number { "Pending" } th.number { "Dead" } th { "Decision" }
    };
    let rows = html! {
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
    };
    html! {
        (table_of(columns, rows))
        @if graph.nodes.len() > NODES_MAX { p.faint { "The first " (NODES_MAX) " of " (graph.nodes.len()) " nodes." } }
    }
}

fn policy(policy: JoinPolicy) -> String {
    match policy {
        JoinPolicy::AllOf | JoinPolicy::AnyOf { .. } => super::parts::words(policy.as_str()),
        JoinPolicy::Quorum { k, .. } => format!("quorum of {k}"),
    }
}
