//! The graph of a flow as plain data: nodes, edges, edge groups, and who spawned whom.
//!
//! The graph is read from the rows of the flow's members and never stored.

use crate::execution::ROOT;
use crate::flow::Counts;
use crate::join::{EdgeCondition, GroupDecision, Join, JoinPolicy, Resolution};
use crate::plan::DependencyGraph;
use crate::state::StateName;
use crate::{Execution, ExecutionId, Name};
use std::borrow::Cow;
use std::collections::HashMap;

/// A member of a flow.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphNode {
    /// The node's name, unique in its flow.
    pub name: Name,
    pub execution: ExecutionId,
    /// The execution's state.
    pub state: StateName,
}

/// An edge: `to` waits for `from`.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphEdge {
    /// The name of the upstream.
    pub from: Name,
    /// The name of the downstream.
    pub to: Name,
    /// The condition under which the edge holds.
    pub when: EdgeCondition,
    /// The edge's current resolution.
    pub resolution: Resolution,
}

/// The group of all edges into one node.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphGroup {
    pub node: Name,
    /// The number of edges that must hold.
    pub policy: JoinPolicy,
    /// The number of edges that hold.
    pub holds: u32,
    /// The number of edges that can no longer hold.
    pub dead: u32,
    /// The number of edges whose upstream has not ended.
    pub pending: u32,
    pub decision: GroupDecision,
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct FlowGraph {
    /// The members, in the order of their submission.
    pub nodes: Vec<GraphNode>,
    /// The edges, ordered by their downstream.
    pub edges: Vec<GraphEdge>,
    /// The edge groups, one for each node that has upstreams.
    pub groups: Vec<GraphGroup>,
    /// Spawned children: (parent, child).
    pub spawned: Vec<(Name, Name)>,
}

/// A link between two nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Link<'a> {
    Edge(&'a GraphEdge),
    /// A parent and a child that it spawned.
    Spawned,
}

/// A member of a flow, in its current state or in an earlier one.
pub(super) struct Member<'a> {
    /// The current row.
    pub row: &'a Execution,
    pub state: StateName,
    /// The number of edges into it. Edges are only added.
    pub upstreams: usize,
    /// The edge group; none if it has no upstreams.
    pub join: Option<Cow<'a, Join>>,
}

impl<'a> Member<'a> {
    /// Returns a member in its current state.
    fn of(row: &'a Execution) -> Member<'a> {
        Member {
            row,
            state: row.state.name(),
            upstreams: row.wiring().upstreams.len(),
            join: row.join.as_ref().map(Cow::Borrowed),
        }
    }
}

/// Returns the name of the node that an execution is.
fn node_name(row: &Execution) -> Name {
    match &row.spec.node {
        Some(node) => node.name.clone(),
        None => Name::trusted(row.node().unwrap_or(ROOT)),
    }
}

impl FlowGraph {
    /// Builds the graph of these members of a flow, given in the order of their submission. Edges and children whose
    /// other end is not among the members are left out.
    pub fn of(members: &[Execution]) -> FlowGraph {
        FlowGraph::build(&members.iter().map(Member::of).collect::<Vec<_>>())
    }

    /// Builds the graph of members in given states.
    pub(super) fn build(members: &[Member]) -> FlowGraph {
        let names: HashMap<ExecutionId, Name> =
            members.iter().map(|member| (member.row.id, node_name(member.row))).collect();
        let mut graph = FlowGraph::default();
        for Member { row, state, upstreams, join } in members {
            let node = names[&row.id].clone();
            let edges = join.as_ref().map_or(&[][..], |join| &join.edges);
            for (index, upstream) in row.wiring().upstreams.iter().take(*upstreams).enumerate() {
                let Some(from) = names.get(&upstream.execution) else { continue };
                graph.edges.push(GraphEdge {
                    from: from.clone(),
                    to: node.clone(),
                    when: upstream.when,
                    resolution: edges.get(index).map_or(Resolution::Pending, |edge| edge.resolution),
                });
            }
            let children = row.wiring().children.iter().filter_map(|child| names.get(&child.execution));
            graph.spawned.extend(children.map(|child| (node.clone(), child.clone())));
            graph.groups.extend(join.as_ref().map(|join| GraphGroup {
                node: node.clone(),
                policy: join.policy,
                holds: join.count(Resolution::Holds),
                dead: join.count(Resolution::Dead),
                pending: join.count(Resolution::Pending),
                decision: join.decision,
            }));
            graph.nodes.push(GraphNode { name: node, execution: row.id, state: *state });
        }
        graph
    }

    /// Returns the layer of each node, in the order of `nodes`: the length of the longest path to it, along edges and
    /// from parents to children.
    pub fn layers(&self) -> Vec<u32> {
        let mut graph = DependencyGraph::new(self.nodes.len());
        self.links().for_each(|(_, (from, to))| graph.add(from, to));
        let first = vec![0; self.nodes.len()];
        // The rules refuse cycles. A graph that was built by hand may have one: all its nodes are in the first layer.
        graph.depths(&first).unwrap_or(first)
    }

    /// Counts the nodes in each state.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        self.nodes.iter().for_each(|node| counts.add(node.state, 1));
        counts
    }

    /// Returns every link with the indices of its two nodes. A link to a node that is not in `nodes` is left out.
    pub fn links(&self) -> impl Iterator<Item = (Link<'_>, (usize, usize))> {
        let indices: HashMap<&str, usize> =
            self.nodes.iter().enumerate().map(|(index, node)| (node.name.as_str(), index)).collect();
        let edges = self.edges.iter().map(|edge| (Link::Edge(edge), &edge.from, &edge.to));
        let spawned = self.spawned.iter().map(|(parent, child)| (Link::Spawned, parent, child));
        edges.chain(spawned).filter_map(move |(link, from, to)| {
            Some((link, (*indices.get(from.as_str())?, *indices.get(to.as_str())?)))
        })
    }
}
