//! The flows that scenarios submit. Every node has the kind `noop`, and its input carries a number, the mark, by which
//! a worker recognises the node.

use bytes::Bytes;
use selvedge_core::Draft;
use selvedge_core::join::{EdgeCondition, JoinPolicy};
use selvedge_core::plan::{EdgeDraft, GraphDraft, GroupDraft, NodeDraft};

/// The mark of the first node of a graph.
pub const START: u64 = 1;
/// The mark of the nodes between the first and the last.
pub const MIDDLE: u64 = 2;
/// The mark of the last node, which joins the others.
pub const JOIN: u64 = 3;

/// Returns the input that carries a mark.
pub fn input(mark: u64) -> String {
    format!("{{\"t\":{mark}}}")
}

/// Returns the mark that an input carries.
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

/// Builds a chain of nodes, each the upstream of the next. The last node has the mark `last`, the others [`MIDDLE`].
pub fn chain(length: usize, last: u64) -> GraphDraft {
    let name = |index: usize| format!("n{index}");
    let mark = |index| if index + 1 == length { last } else { MIDDLE };
    GraphDraft {
        nodes: (0..length).map(|index| node(name(index), mark(index))).collect(),
        edges: (1..length).map(|index| edge(name(index - 1), name(index))).collect(),
        groups: Vec::new(),
    }
}

/// Builds one node with `width` downstreams, and a node that joins these.
pub fn fanout(width: usize) -> GraphDraft {
    let mut graph = joined(width);
    graph.nodes.push(node("start".into(), START));
    graph.edges.extend((0..width).map(|index| edge("start", format!("n{index}"))));
    graph
}

/// Builds `width` nodes and a join that needs `k` of them; the remaining nodes are then cancelled.
pub fn quorum(width: usize, k: u32) -> GraphDraft {
    let mut graph = joined(width);
    let policy = JoinPolicy::Quorum { k, on_satisfied: Default::default() };
    graph.groups.push(GroupDraft { node: "join".into(), policy });
    graph
}

fn joined(width: usize) -> GraphDraft {
    let mut graph = GraphDraft::default();
    for index in 0..width {
        let name = format!("n{index}");
        graph.edges.push(edge(&name, "join"));
        graph.nodes.push(node(name, MIDDLE));
    }
    graph.nodes.push(node("join".into(), JOIN));
    graph
}

/// The number of nodes in one layer of [`layers`].
const LAYER: usize = 100;

/// Builds layers of a hundred nodes; every node has two upstreams in the previous layer.
pub fn layers(nodes: usize) -> GraphDraft {
    let name = |index: usize| format!("n{index}");
    let mut graph = GraphDraft::default();
    for index in 0..nodes {
        graph.nodes.push(node(name(index), MIDDLE));
        if let Some(above) = index.checked_sub(LAYER) {
            let neighbour = above - above % LAYER + (above + 1) % LAYER;
            graph.edges.extend([edge(name(above), name(index)), edge(name(neighbour), name(index))]);
        }
    }
    graph
}

#[cfg(test)]
mod tests {
    use super::*;
    use selvedge_core::plan::GraphTarget;

    #[test]
    fn every_graph_is_valid() {
        for graph in [chain(50, 7), fanout(1000), quorum(100, 2), layers(10_000), layers(1)] {
            let nodes = graph.nodes.len();
            assert_eq!(graph.check(GraphTarget::NewFlow).expect("the graph is valid").nodes().len(), nodes);
        }
    }

    #[test]
    fn a_mark_is_read_back_from_its_input() {
        assert_eq!(mark(input(1_234_567_890_123).as_bytes()), 1_234_567_890_123);
    }
}
