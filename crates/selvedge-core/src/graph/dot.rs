//! A graph in Graphviz's language.

use super::look::LIGHT;
use super::{FlowGraph, GraphEdge, GraphGroup, GraphNode};
use crate::join::{EdgeCondition, Resolution};
use std::collections::HashMap;
use std::fmt::Write;

/// The graph as a digraph from left to right.
pub fn draw(graph: &FlowGraph, title: &str) -> String {
    let mut dot = format!("digraph {} {{\n", quoted(title));
    let (paper, ink) = (LIGHT.paper, LIGHT.ink);
    let _ = writeln!(dot, "  graph [rankdir=LR, label={}, labelloc=t, bgcolor=\"{paper}\"];", label(title));
    let _ = writeln!(dot, "  node [shape=box, style=\"rounded,filled\", fontcolor=\"{ink}\"];");
    let _ = writeln!(dot, "  edge [fontsize=10];");
    let groups: HashMap<&str, &GraphGroup> =
        graph.groups.iter().map(|group| (group.node.as_str(), group)).collect();
    for one in &graph.nodes {
        dot.push_str(&node(one, groups.get(one.name.as_str()).and_then(|group| group.label())));
    }
    graph.edges.iter().for_each(|one| dot.push_str(&edge(one)));
    for (parent, child) in &graph.spawned {
        let style = format!("dir=both, arrowtail=odot, arrowhead=empty, color=\"{}\"", LIGHT.spawned());
        let _ = writeln!(dot, "  {} -> {} [{style}];", quoted(parent), quoted(child));
    }
    dot.push_str("}\n");
    dot
}

fn node(node: &GraphNode, policy: Option<String>) -> String {
    let words = label(&format!("{}\n{}", node.name, node.state.as_str()));
    let (colour, tint) = (LIGHT.state(node.state), LIGHT.tint(node.state));
    let beside = policy.map(|policy| format!(", xlabel={}", label(&policy))).unwrap_or_default();
    format!(
        "  {} [label={words}, color=\"{colour}\", fillcolor=\"{tint}\", tooltip=\"{}\"{beside}];\n",
        quoted(&node.name),
        node.execution,
    )
}

fn edge(edge: &GraphEdge) -> String {
    let style = match edge.resolution {
        Resolution::Pending => "dashed",
        Resolution::Holds => "solid",
        Resolution::Dead => "dotted",
    };
    let colour = LIGHT.edge(edge.resolution);
    let when = match edge.when {
        EdgeCondition::Success => String::new(),
        EdgeCondition::Failure | EdgeCondition::Finished => format!(", label={}", label(edge.when.as_str())),
    };
    let (from, to) = (quoted(&edge.from), quoted(&edge.to));
    format!("  {from} -> {to} [style={style}, color=\"{colour}\"{when}];\n")
}

/// An id in quotes. Different names stay different.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            other if other.is_control() => quoted.push('\u{fffd}'),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

/// Text to show, in quotes: there Graphviz would also read entities such as `&lt;`.
fn label(text: &str) -> String {
    quoted(&text.replace('&', "&amp;"))
}
