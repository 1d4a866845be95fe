//! Pictures of a flow's graph: DOT for Graphviz, and an SVG that needs nothing else.
//!
//! Callers choose the names of nodes, so every form escapes them. A picture gives each state in words as well as in
//! colour.

pub mod collapse;
mod dot;
mod layout;
pub mod page;
mod svg;
mod text;
mod theme;

use selvedge_core::graph::{FlowGraph, GraphGroup};
use selvedge_core::join::JoinPolicy;
use selvedge_core::state::StateName;
use std::collections::HashMap;

/// The most nodes that [`svg`] draws. The picture of a larger graph counts the nodes in each state.
pub const DRAWN_NODES_LIMIT: usize = 2_000;
/// The most edges that [`svg`] draws, links from parents to spawned children included.
pub const DRAWN_EDGES_LIMIT: usize = 20_000;

/// Draws a graph as a digraph in Graphviz's language, from left to right.
pub fn dot(graph: &FlowGraph, title: &str) -> String {
    dot::draw(graph, title)
}

/// Draws a graph as one SVG element without scripts, links or ids, to stand alone or inside a page.
pub fn svg(graph: &FlowGraph, title: &str) -> String {
    let lines = graph.edges.len() + graph.spawned.len();
    if graph.nodes.len() > DRAWN_NODES_LIMIT || lines > DRAWN_EDGES_LIMIT {
        svg::draw_counts(graph, title, Host::Alone)
    } else {
        svg::draw(graph, title)
    }
}

/// The place of a picture.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Host {
    /// A file or a page of others: the picture has its own style, a background and a title.
    Alone,
    /// A page with [`page_style`], which has a title of its own.
    Page,
}

/// Returns the style sheet of a page with pictures: the rules of [`page::draw`], and each colour of a state as the custom
/// property `--state-NAME`, for light and dark backgrounds.
pub fn page_style() -> String {
    theme::page_style()
}

/// Returns the sign of a state: a path around the centre of a disc with radius 9, to be stroked.
pub fn state_sign(state: StateName) -> &'static str {
    theme::sign(state)
}

/// Returns the edge group of each node, by the node's name.
fn groups(graph: &FlowGraph) -> HashMap<&str, &GraphGroup> {
    graph.groups.iter().map(|group| (group.node.as_str(), group)).collect()
}

/// Returns the label of a group's policy. `all_of`, the default, has none.
fn policy_label(group: &GraphGroup) -> Option<String> {
    match group.policy {
        JoinPolicy::AllOf => None,
        JoinPolicy::AnyOf { .. } => Some(group.policy.as_str().to_owned()),
        JoinPolicy::Quorum { k, .. } => Some(format!("{k} of {}", group.holds + group.dead + group.pending)),
    }
}
