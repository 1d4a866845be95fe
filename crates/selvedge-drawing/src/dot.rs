//! DOT, the language of Graphviz.

use crate::theme::LIGHT;
use crate::{groups, policy_label};
use selvedge_core::graph::{FlowGraph, GraphEdge, GraphNode};
use selvedge_core::join::{EdgeCondition, Resolution};
use std::fmt::Write;

/// Draws the graph as a digraph from left to right.
pub fn draw(graph: &FlowGraph, title: &str) -> String {
    let mut dot = format!("digraph {} {{\n", quoted(title));
    let (paper, ink) = (LIGHT.paper, LIGHT.ink);
    let _ = writeln!(dot, "  graph [rankdir=LR, label={}, labelloc=t, bgcolor=\"{paper}\"];", label(title));
    let _ = writeln!(dot, "  node [shape=box, style=\"rounded,filled\", fontcolor=\"{ink}\"];");
    let _ = writeln!(dot, "  edge [fontsize=10];");
    let groups = groups(graph);
    for node in &graph.nodes {
        let policy = groups.get(node.name.as_str()).and_then(|group| policy_label(group));
        dot.push_str(&node_statement(node, policy));
    }
    graph.edges.iter().for_each(|edge| dot.push_str(&edge_statement(edge)));
    for (parent, child) in &graph.spawned {
        let style = format!("dir=both, arrowtail=odot, arrowhead=empty, color=\"{}\"", LIGHT.spawned());
        let _ = writeln!(dot, "  {} -> {} [{style}];", quoted(parent), quoted(child));
    }
    dot.push_str("}\n");
    dot
}

fn node_statement(node: &GraphNode, policy: Option<String>) -> String {
    let text = label(&format!("{}\n{}", node.name, node.state.as_str()));
    let (colour, tint) = (LIGHT.state(node.state), LIGHT.tint(node.state));
    let policy = policy.map(|policy| format!(", xlabel={}", label(&policy))).unwrap_or_default();
    format!(
        "  {} [label={text}, color=\"{colour}\", fillcolor=\"{tint}\", tooltip=\"{}\"{policy}];\n",
        quoted(&node.name),
        node.execution,
    )
}

fn edge_statement(edge: &GraphEdge) -> String {
    let style = match edge.resolution {
        Resolution::Pending => "dashed",
        Resolution::Holds => "solid",
        Resolution::Dead => "dotted",
    };
    let colour = LIGHT.edge(edge.resolution);
    let when = match edge.when {
        EdgeCondition::Success => String::new(),
        EdgeCondition::Failure | EdgeCondition::FailureOrSkipped | EdgeCondition::Finished => {
            format!(", label={}", label(edge.when.as_str()))
        }
    };
    let (from, to) = (quoted(&edge.from), quoted(&edge.to));
    format!("  {from} -> {to} [style={style}, color=\"{colour}\"{when}];\n")
}

/// Quotes an id. Different names give different ids.
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

/// Quotes text that is shown. Graphviz decodes entities such as `&lt;` there, so ampersands are escaped.
fn label(text: &str) -> String {
    quoted(&text.replace('&', "&amp;"))
}
