//! The graphs that scenarios submit. Every node is of the kind `noop`, and its input carries a number, its mark, by which
//! a worker knows what it has claimed.

use bytes::Bytes;
use selvedge_core::Draft;
use selvedge_core::join::{EdgeCondition, JoinPolicy};
use selvedge_core::plan::{EdgeDraft, GraphDraft, GroupDraft, NodeDraft};

/// The mark of the node at which a graph begins.
pub const START: u64 = 1;
/// The mark of a node in the middle.
pub const MIDDLE: u64 = 2;
/// The mark of the node that joins the others.
pub const JOIN: u64 = 3;

/// The input that carries a mark.
pub fn input(mark: u64) -> String {
    format!("{{\"t\":{mark}}}")
}

/// The mark that an input carries.
pub fn mark(input: &[u8]) -> u64 {
    let digits = input.iter().filter(|byte| byte.is_ascii_digit());
    digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0'))
}

fn node(name: String, mark: u64) -> NodeDraft {
    NodeDraft { name, draft: Draft { input: Bytes::from(input(mark)), ..Draft::new("noop") } }
}

fn edge(from: impl Into<String>, to: impl Into<String>) -> EdgeDraft {
    EdgeDraft { from: from.into(), to: to.into(), when: EdgeCondition::Success }
}

/// One after another. The last one has the mark `last`, the others that of the middle.
pub fn chain(length: usize, last: u64) -> GraphDraft {
    let name = |place: usize| format!("n{place}");
    let mark = |place| if place + 1 == length { last } else { MIDDLE };
    GraphDraft {
        nodes: (0..length).map(|place| node(name(place), mark(place))).collect(),
        edges: (1..length).map(|place| edge(name(place - 1), name(place))).collect(),
        groups: Vec::new(),
    }
}

/// One, then many, then one.
pub fn fanout(width: usize) -> GraphDraft {
    let mut graph = joined(width);
    graph.nodes.push(node("start".into(), START));
    graph.edges.extend((0..width).map(|place| edge("start", format!("n{place}"))));
    graph
}

/// Many, of which some are enough for the one that joins them; the rest is then cancelled.
pub fn quorum(width: usize, k: u32) -> GraphDraft {
    let mut graph = joined(width);
    let policy = JoinPolicy::Quorum { k, on_satisfied: Default::default() };
    graph.groups.push(GroupDraft { node: "join".into(), policy });
    graph
}

fn joined(width: usize) -> GraphDraft {
    let mut graph = GraphDraft::default();
    for place in 0..width {
        let name = format!("n{place}");
        graph.edges.push(edge(&name, "join"));
        graph.nodes.push(node(name, MIDDLE));
    }
    graph.nodes.push(node("join".into(), JOIN));
    graph
}

/// How many nodes one layer of [`layers`] has.
const LAYER: usize = 100;

/// Layers of a hundred; every node waits for two of the layer before.
pub fn layers(nodes: usize) -> GraphDraft {
    let name = |place: usize| format!("n{place}");
    let mut graph = GraphDraft::default();
    for place in 0..nodes {
        graph.nodes.push(node(name(place), MIDDLE));
        if let Some(above) = place.checked_sub(LAYER) {
            let beside = above - above % LAYER + (above + 1) % LAYER;
            graph.edges.extend([edge(name(above), name(place)), edge(name(beside), name(place))]);
        }
    }
    graph
}

#[cfg(test)]
mod tests {
    use super::*;
    use selvedge_core::plan::Onto;

    #[test]
    fn every_graph_is_valid() {
        for graph in [chain(50, 7), fanout(1000), quorum(100, 2), layers(10_000), layers(1)] {
            let nodes = graph.nodes.len();
            assert_eq!(graph.check(Onto::Nothing).expect("is accepted").nodes().len(), nodes);
        }
    }

    #[test]
    fn a_mark_comes_back_from_its_input() {
        assert_eq!(mark(input(1_234_567_890_123).as_bytes()), 1_234_567_890_123);
    }
}
