//! A flow's graph: as data, as DOT for Graphviz, and as an SVG that needs nothing else.
//!
//! The graph is read from the rows of a flow's members and never stored. Names are whatever callers chose, so every form
//! escapes them; a picture says each state in words as well as in colour.

mod dot;
mod layout;
mod look;
mod svg;
mod text;

use crate::execution::ROOT;
use crate::flow::Counts;
use crate::join::{EdgeCondition, GroupDecision, JoinPolicy, Resolution};
use crate::state::StateName;
use crate::{Execution, ExecutionId, Name, plan};
use std::collections::HashMap;

/// The most nodes that are drawn. A picture of more says how many are in which state.
pub const DRAWN_NODES_LIMIT: usize = 2_000;
/// The most edges that are drawn, spawned children included.
pub const DRAWN_EDGES_LIMIT: usize = 20_000;

/// One member of a flow.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphNode {
    /// Its name, unique in its flow.
    pub name: Name,
    /// The execution.
    pub execution: ExecutionId,
    /// Where it stands.
    pub state: StateName,
}

/// One edge: `to` waits for `from`.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphEdge {
    /// The name of its upstream.
    pub from: Name,
    /// The name of its downstream.
    pub to: Name,
    /// When it holds.
    pub when: EdgeCondition,
    /// Where it stands.
    pub resolution: Resolution,
}

/// The edges into one node taken together, and what they decided.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphGroup {
    /// The name of the node.
    pub node: Name,
    /// How many edges must hold.
    pub policy: JoinPolicy,
    /// How many hold.
    pub holds: u32,
    /// How many cannot hold any more.
    pub dead: u32,
    /// How many are open.
    pub pending: u32,
    /// What was decided.
    pub decision: GroupDecision,
}

impl GraphGroup {
    /// What stands beside its node: nothing for `all_of`, which is what a reader expects.
    fn label(&self) -> Option<String> {
        match self.policy {
            JoinPolicy::AllOf => None,
            JoinPolicy::AnyOf { .. } => Some(self.policy.as_str().to_owned()),
            JoinPolicy::Quorum { k, .. } => Some(format!("{k} of {}", self.holds + self.dead + self.pending)),
        }
    }
}

/// A flow's graph.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct FlowGraph {
    /// The members, in the order of their submission.
    pub nodes: Vec<GraphNode>,
    /// The edges, by their downstream.
    pub edges: Vec<GraphEdge>,
    /// The groups of edges, one for each node that waits or waited.
    pub groups: Vec<GraphGroup>,
    /// Who spawned whom: parent, then child.
    pub spawned: Vec<(Name, Name)>,
}

impl FlowGraph {
    /// The graph of these members of a flow, which stand in the order of their submission. An edge or a child whose other
    /// end is not among them is left out.
    pub fn of(members: &[Execution]) -> FlowGraph {
        let name = |row: &Execution| match &row.spec.node {
            Some(node) => node.name.clone(),
            None => Name::trusted(row.node().unwrap_or(ROOT)),
        };
        let names: HashMap<ExecutionId, Name> = members.iter().map(|row| (row.id, name(row))).collect();
        let mut graph = FlowGraph::default();
        for row in members {
            let node = names[&row.id].clone();
            let edges = row.join.as_ref().map_or(&[][..], |join| &join.edges);
            for (place, upstream) in row.wiring().upstreams.iter().enumerate() {
                let Some(from) = names.get(&upstream.execution) else { continue };
                graph.edges.push(GraphEdge {
                    from: from.clone(),
                    to: node.clone(),
                    when: upstream.when,
                    resolution: edges.get(place).map_or(Resolution::Pending, |edge| edge.resolution),
                });
            }
            let children = row.wiring().children.iter().filter_map(|child| names.get(&child.execution));
            graph.spawned.extend(children.map(|child| (node.clone(), child.clone())));
            graph.groups.extend(row.join.as_ref().map(|join| GraphGroup {
                node: node.clone(),
                policy: join.policy,
                holds: join.count(Resolution::Holds),
                dead: join.count(Resolution::Dead),
                pending: join.count(Resolution::Pending),
                decision: join.decision,
            }));
            graph.nodes.push(GraphNode { name: node, execution: row.id, state: row.state.name() });
        }
        graph
    }

    /// The layer of each node, as `nodes` stand: how many nodes come before it on the longest way to it, along edges and
    /// from parent to child.
    pub fn layers(&self) -> Vec<u32> {
        let mut graph = plan::Graph::new(self.nodes.len());
        self.links().for_each(|(_, (from, to))| graph.add(from, to));
        let first = vec![0; self.nodes.len()];
        // The rules let no cycle in. A graph that was made by hand may have one, and is still drawn: in one layer.
        graph.depths(&first).unwrap_or(first)
    }

    /// As a digraph in Graphviz's language.
    pub fn dot(&self, title: &str) -> String {
        dot::draw(self, title)
    }

    /// As a picture: one SVG element without scripts, links or ids, to stand alone or inside a page.
    pub fn svg(&self, title: &str) -> String {
        let links = self.edges.len() + self.spawned.len();
        if self.nodes.len() > DRAWN_NODES_LIMIT || links > DRAWN_EDGES_LIMIT {
            svg::counts(self, title)
        } else {
            svg::draw(self, title)
        }
    }

    /// How many nodes are in which state.
    fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        self.nodes.iter().for_each(|node| counts.add(node.state, 1));
        counts
    }

    /// What is drawn as a line, with the places of its ends. Where an end is not a node, it is left out.
    fn links(&self) -> impl Iterator<Item = (Link<'_>, (usize, usize))> {
        let places: HashMap<&str, usize> =
            self.nodes.iter().enumerate().map(|(place, node)| (node.name.as_str(), place)).collect();
        let edges = self.edges.iter().map(|edge| (Link::Edge(edge), &edge.from, &edge.to));
        let spawned = self.spawned.iter().map(|(parent, child)| (Link::Spawned, parent, child));
        edges.chain(spawned).filter_map(move |(link, from, to)| {
            Some((link, (*places.get(from.as_str())?, *places.get(to.as_str())?)))
        })
    }
}

/// What a line in a picture stands for.
enum Link<'a> {
    /// An edge.
    Edge(&'a GraphEdge),
    /// From a parent to the child it spawned.
    Spawned,
}
