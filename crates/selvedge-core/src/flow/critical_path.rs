//! The critical path of a flow: the chain of nodes that determined when it ended, or that determines it so far.
//!
//! A node begins when its edge group lets it run. Of the upstreams whose edges hold, the one that ended last before that moment let
//! it run: for `all_of` the slowest one, for `any_of` the first one, for a quorum the one that made it complete. The path follows
//! these upstreams back from the node that ended last. While nodes are live, it starts from the one that began first: no other has
//! kept the flow running for so long.

use super::graph::FlowGraph;
use super::join::Resolution;
use crate::Timestamp;
use crate::graph::Link;

/// The times of a node in its current generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct NodeTimes {
    /// The time from which it did not wait for upstreams; none if it still does, or was skipped.
    pub began_at: Option<Timestamp>,
    /// The start of its first attempt.
    pub started_at: Option<Timestamp>,
    /// The time at which it ended.
    pub ended_at: Option<Timestamp>,
}

/// Returns the indices of the nodes on the critical path, first to last. `times` has the order of the graph's nodes. Empty if no
/// node has begun.
pub fn critical_path(graph: &FlowGraph, times: &[NodeTimes]) -> Vec<usize> {
    let mut upstreams: Vec<Vec<usize>> = vec![Vec::new(); graph.nodes.len()];
    let mut parents: Vec<Option<usize>> = vec![None; graph.nodes.len()];
    for (link, (from, to)) in graph.links() {
        match link {
            Link::Edge(edge) if edge.resolution == Resolution::Holds => upstreams[to].push(from),
            Link::Edge(_) => {}
            Link::Spawned => parents[to] = Some(from),
        }
    }
    let mut path = Vec::new();
    let mut next = last_node(times);
    while let Some(node) = next.filter(|node| !path.contains(node)) {
        path.push(node);
        let began = times[node].began_at;
        let ended = |upstream: &usize| times[*upstream].ended_at.is_some_and(|ended| Some(ended) <= began);
        let in_time = upstreams[node].iter().copied().filter(ended);
        next = in_time.max_by_key(|upstream| times[*upstream].ended_at).or(parents[node]);
    }
    path.reverse();
    path
}

/// Returns the node at which the path ends.
fn last_node(times: &[NodeTimes]) -> Option<usize> {
    let begun = |index: &usize| times.get(*index).is_some_and(|times| times.began_at.is_some());
    let live = (0..times.len()).filter(begun).filter(|index| times[*index].ended_at.is_none());
    let ended = (0..times.len()).filter(begun);
    live.min_by_key(|index| times[*index].began_at)
        .or_else(|| ended.max_by_key(|index| (times[*index].ended_at, times[*index].began_at)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{GraphEdge, GraphNode};
    use crate::join::EdgeCondition;
    use crate::state::StateName;
    use crate::{ExecutionId, Name};
    use uuid::Uuid;

    /// Builds a graph from nodes with the times at which they began and ended, and edges with their resolutions.
    fn path(nodes: &[(&str, Option<i64>, Option<i64>)], edges: &[(&str, &str, Resolution)]) -> String {
        let time = |ms: Option<i64>| ms.map(Timestamp::from_millis);
        let node = |(name, ..): &(&str, Option<i64>, Option<i64>)| GraphNode {
            name: Name::trusted(name),
            execution: ExecutionId(Uuid::nil()),
            state: StateName::Completed,
        };
        let edge = |(from, to, resolution): &(&str, &str, Resolution)| GraphEdge {
            from: Name::trusted(from),
            to: Name::trusted(to),
            when: EdgeCondition::Success,
            resolution: *resolution,
        };
        let graph = FlowGraph {
            nodes: nodes.iter().map(node).collect(),
            edges: edges.iter().map(edge).collect(),
            ..FlowGraph::default()
        };
        let times: Vec<NodeTimes> = nodes
            .iter()
            .map(|(_, began, ended)| NodeTimes {
                began_at: time(*began),
                started_at: None,
                ended_at: time(*ended),
            })
            .collect();
        let names = critical_path(&graph, &times).into_iter().map(|index| nodes[index].0);
        names.collect::<Vec<_>>().join(" ")
    }

    const HOLDS: Resolution = Resolution::Holds;

    #[test]
    fn the_slower_branch_determines_the_end() {
        let nodes = [
            ("a", Some(0), Some(10)),
            ("b", Some(10), Some(20)),
            ("c", Some(10), Some(90)),
            ("d", Some(90), Some(95)),
        ];
        let edges = [("a", "b", HOLDS), ("a", "c", HOLDS), ("b", "d", HOLDS), ("c", "d", HOLDS)];
        assert_eq!(path(&nodes, &edges), "a c d");
    }

    #[test]
    fn the_first_of_a_hedge_determines_the_end() {
        let nodes = [("near", Some(0), Some(10)), ("far", Some(0), Some(300)), ("join", Some(10), Some(400))];
        assert_eq!(path(&nodes, &[("near", "join", HOLDS), ("far", "join", HOLDS)]), "near join");
        let cancelled =
            [("near", Some(0), Some(10)), ("far", Some(0), Some(9)), ("join", Some(10), Some(20))];
        let edges = [("near", "join", HOLDS), ("far", "join", Resolution::Dead)];
        assert_eq!(path(&cancelled, &edges), "near join", "an edge that is dead let nothing run");
    }

    #[test]
    fn a_running_flow_has_the_path_to_the_node_that_runs_longest() {
        let nodes = [
            ("a", Some(0), Some(10)),
            ("slow", Some(10), None),
            ("quick", Some(10), Some(15)),
            ("after", Some(15), None),
            ("end", None, None),
        ];
        let edges = [
            ("a", "slow", HOLDS),
            ("a", "quick", HOLDS),
            ("quick", "after", HOLDS),
            ("slow", "end", Resolution::Pending),
        ];
        assert_eq!(path(&nodes, &edges), "a slow");
    }

    #[test]
    fn skipped_nodes_and_empty_flows_have_no_path() {
        assert_eq!(path(&[], &[]), "");
        let nodes = [("a", Some(0), Some(10)), ("skipped", None, Some(10))];
        assert_eq!(path(&nodes, &[("a", "skipped", Resolution::Dead)]), "a");
    }
}
