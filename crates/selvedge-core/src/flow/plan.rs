//! Nodes, edges and edge groups that a caller adds to a flow. A [`GraphDraft`] is an unchecked request. A [`GraphPlan`]
//! is a valid one: node names are unique, both ends of every edge are known, no edge occurs twice, and there is no
//! cycle.

use crate::digest::{Digest, join_policy_form};
use crate::join::{EdgeCondition, JoinPolicy};
use crate::name::NAME_LIMIT;
use crate::{Class, Draft, ExecutionId, Name, NamespaceId, Refusal, Submission};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};

/// The most nodes in one call.
pub const NODES_LIMIT: usize = 10_000;
/// The most edges in one call.
pub const EDGES_LIMIT: usize = 50_000;
/// The most nodes on one path through a flow, along edges and from parents to children.
pub const DEPTH_LIMIT: u32 = 10_000;

/// An unchecked node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeDraft {
    /// The name, unique in its flow.
    pub name: String,
    /// The execution to submit.
    pub draft: Draft,
}

/// An unchecked edge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EdgeDraft {
    /// The name of the upstream.
    pub from: String,
    /// The name of the downstream.
    pub to: String,
    /// The condition under which the edge holds.
    pub when: EdgeCondition,
}

/// The unchecked policy of the edge group of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupDraft {
    /// The name of the node.
    pub node: String,
    pub policy: JoinPolicy,
}

/// Unchecked nodes, edges and edge groups.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct GraphDraft {
    pub nodes: Vec<NodeDraft>,
    pub edges: Vec<EdgeDraft>,
    /// The edge groups whose policy is not `all_of`.
    pub groups: Vec<GroupDraft>,
}

/// A valid node.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedNode {
    /// The name, unique in its flow.
    pub name: Name,
    /// The execution to submit.
    pub submission: Submission,
    /// The policy of the edges into the node.
    pub policy: JoinPolicy,
    /// The digest of the submission, the edges into the node and their policy.
    pub digest: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EdgeEnd {
    /// A node of the same call, by its index.
    New(usize),
    /// A node that the flow already has, by its index in [`GraphPlan::existing`].
    Existing(usize),
}

/// A valid edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PlannedEdge {
    pub from: EdgeEnd,
    pub to: EdgeEnd,
    /// The condition under which the edge holds.
    pub when: EdgeCondition,
}

/// Valid nodes and edges. Only [`GraphDraft::check`] creates one.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphPlan {
    pub(crate) nodes: Vec<PlannedNode>,
    pub(crate) edges: Vec<PlannedEdge>,
    pub(crate) existing: Vec<Name>,
    pub(crate) digest: u64,
}

/// The flow to which a graph is added. It decides whether edges may name nodes that are not in the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphTarget {
    /// A new flow: edges name nodes of the call only.
    NewFlow,
    /// An existing flow: edges may also name its nodes.
    ExistingFlow,
}

impl GraphDraft {
    /// Checks everything that can be checked without rows. The refusal names the first invalid field.
    pub fn check(self, target: GraphTarget) -> Result<GraphPlan, Refusal> {
        self.check_limits(target)?;
        let digest = self.digest();
        let mut indices: HashMap<Name, usize> = HashMap::with_capacity(self.nodes.len());
        let mut ids = HashSet::new();
        let mut nodes = Vec::with_capacity(self.nodes.len());
        for (index, node) in self.nodes.into_iter().enumerate() {
            let at = format!("/nodes/{index}");
            let name = Name::parse(&format!("{at}/name"), &node.name, NAME_LIMIT)?;
            if let Some(first) = indices.insert(name.clone(), index) {
                let detail =
                    format!("is {name:?}, the name of /nodes/{first}; give each node of a flow its own name");
                return Err(Refusal::field(&format!("{at}/name"), detail));
            }
            refuse_keys(&at, &node.draft)?;
            if node.draft.id.is_some_and(|id| !ids.insert(id)) {
                return Err(Refusal::field(
                    &format!("{at}/id"),
                    "is the id of an earlier node; give each node its own id",
                ));
            }
            let submission = node.draft.check().map_err(|refusal| refusal.with_pointer_prefix(&at))?;
            nodes.push(PlannedNode { name, submission, policy: JoinPolicy::AllOf, digest: 0 });
        }
        let mut plan =
            GraphPlan { nodes, edges: Vec::with_capacity(self.edges.len()), existing: Vec::new(), digest };
        plan.add_edges(&self.edges, &indices, target)?;
        plan.add_policies(&self.groups, &indices)?;
        plan.refuse_cycles()?;
        plan.digest_nodes();
        Ok(plan)
    }

    fn check_limits(&self, target: GraphTarget) -> Result<(), Refusal> {
        if self.nodes.is_empty() && (target == GraphTarget::NewFlow || self.edges.is_empty()) {
            return Err(Refusal::field("/nodes", "is empty; give at least one node"));
        }
        for (pointer, count, limit) in
            [("/nodes", self.nodes.len(), NODES_LIMIT), ("/edges", self.edges.len(), EDGES_LIMIT)]
        {
            if count > limit {
                let detail = format!(
                    "has {count} entries; one call allows at most {limit}, so add the rest in later calls"
                );
                return Err(Refusal::field(pointer, detail));
            }
        }
        Ok(())
    }

    /// Returns the digest of the graph: two graphs with the same digest have the same content.
    fn digest(&self) -> u64 {
        let mut digest = Digest::new();
        let mut text = |text: &str| digest.sized(text.as_bytes());
        for EdgeDraft { from, to, when } in &self.edges {
            text(from);
            text(to);
            text(when.as_str());
        }
        for GroupDraft { node, policy } in &self.groups {
            text(node);
            text(&join_policy_form(*policy));
        }
        for NodeDraft { name, draft } in &self.nodes {
            text(name);
            let id = draft.id.map_or_else(|| "None".to_owned(), |id| format!("Some({})", id.hyphenated()));
            text(&format!("{:x} {id}", draft.digest()));
        }
        digest.finish()
    }
}

/// Refuses keys: with a key, a node could turn out to be an execution of another flow.
fn refuse_keys(at: &str, draft: &Draft) -> Result<(), Refusal> {
    for (field, given) in [
        ("idempotency_key", draft.idempotency_key.is_some()),
        ("idempotency_window_ms", draft.idempotency_window_ms.is_some()),
        ("unique_while_active", draft.unique_while_active.is_some()),
        ("debounce", draft.debounce.is_some()),
    ] {
        if given {
            let detail = "is allowed only for an execution that is submitted alone; give the flow an idempotency_key instead";
            return Err(Refusal::field(&format!("{at}/{field}"), detail));
        }
    }
    Ok(())
}

impl GraphPlan {
    pub fn nodes(&self) -> &[PlannedNode] {
        &self.nodes
    }

    pub fn edges(&self) -> &[PlannedEdge] {
        &self.edges
    }

    /// Returns the names of the nodes that the flow must already have.
    pub fn existing(&self) -> &[Name] {
        &self.existing
    }

    /// Returns the digest of the content.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// Reports whether an edge goes into an existing node, which may close a cycle.
    pub fn enters_existing(&self) -> bool {
        self.edges.iter().any(|edge| matches!(edge.to, EdgeEnd::Existing(_)))
    }

    /// Returns the claim classes of the nodes, in order.
    pub fn classes(&self, namespace: NamespaceId) -> Vec<Class> {
        self.nodes.iter().map(|node| node.submission.class(namespace)).collect()
    }

    /// Returns the ids that the caller chose for the nodes, in order.
    pub fn ids(&self) -> impl Iterator<Item = Option<ExecutionId>> {
        self.nodes.iter().map(|node| node.submission.id())
    }

    pub fn name(&self, end: EdgeEnd) -> &Name {
        match end {
            EdgeEnd::New(index) => &self.nodes[index].name,
            EdgeEnd::Existing(index) => &self.existing[index],
        }
    }

    fn add_edges(
        &mut self,
        edges: &[EdgeDraft],
        indices: &HashMap<Name, usize>,
        target: GraphTarget,
    ) -> Result<(), Refusal> {
        let mut existing: HashMap<Name, usize> = HashMap::new();
        let mut seen = HashSet::with_capacity(edges.len());
        for (index, edge) in edges.iter().enumerate() {
            let at = format!("/edges/{index}");
            let mut end = |field: &str, name: &str| -> Result<EdgeEnd, Refusal> {
                let pointer = format!("{at}/{field}");
                let name = Name::parse(&pointer, name, NAME_LIMIT)?;
                if let Some(index) = indices.get(&name) {
                    return Ok(EdgeEnd::New(*index));
                }
                if target == GraphTarget::NewFlow {
                    return Err(Refusal::UnknownNode { pointer, node: name.to_string() });
                }
                let next = self.existing.len();
                let index = *existing.entry(name.clone()).or_insert(next);
                if index == next {
                    self.existing.push(name);
                }
                Ok(EdgeEnd::Existing(index))
            };
            let (from, to) = (end("from", &edge.from)?, end("to", &edge.to)?);
            if from == to {
                let detail = format!("goes from {:?} to itself; a node cannot wait for itself", edge.from);
                return Err(Refusal::Cycle { pointer: at, detail });
            }
            if !seen.insert((from, to)) {
                let detail = format!(
                    "goes from {:?} to {:?}, as an earlier edge does; leave one of them out",
                    edge.from, edge.to
                );
                return Err(Refusal::field(&at, detail));
            }
            self.edges.push(PlannedEdge { from, to, when: edge.when });
        }
        Ok(())
    }

    fn add_policies(&mut self, groups: &[GroupDraft], indices: &HashMap<Name, usize>) -> Result<(), Refusal> {
        let mut edges: HashMap<usize, usize> = HashMap::new();
        for edge in &self.edges {
            if let EdgeEnd::New(index) = edge.to {
                *edges.entry(index).or_default() += 1;
            }
        }
        let mut seen = HashSet::new();
        for (index, group) in groups.iter().enumerate() {
            let pointer = format!("/groups/{index}/node");
            let name = Name::parse(&pointer, &group.node, NAME_LIMIT)?;
            let Some(node) = indices.get(&name) else {
                return Err(Refusal::UnknownNode { pointer, node: name.to_string() });
            };
            if !seen.insert(*node) {
                let detail = format!("is {name:?}, which an earlier group names; give each node one group");
                return Err(Refusal::field(&pointer, detail));
            }
            let count = edges.get(node).copied().unwrap_or_default();
            group.policy.check(&format!("/groups/{index}/policy"), count)?;
            self.nodes[*node].policy = group.policy;
        }
        Ok(())
    }

    fn digest_nodes(&mut self) {
        let mut edges: Vec<Vec<(&str, &str)>> = vec![Vec::new(); self.nodes.len()];
        for edge in &self.edges {
            if let EdgeEnd::New(index) = edge.to {
                edges[index].push((self.name(edge.from), edge.when.as_str()));
            }
        }
        let digest = |(node, mut edges): (&PlannedNode, Vec<(&str, &str)>)| {
            edges.sort_unstable();
            let mut digest = Digest::new();
            digest.count(node.submission.digest);
            digest.join_policy(node.policy);
            digest.list(&edges, |digest, (from, when)| {
                digest.text(from);
                digest.text(when);
            });
            digest.finish()
        };
        let digests: Vec<u64> = self.nodes.iter().zip(edges).map(digest).collect();
        self.nodes.iter_mut().zip(digests).for_each(|(node, digest)| node.digest = digest);
    }

    /// Refuses a cycle among the new nodes.
    fn refuse_cycles(&self) -> Result<(), Refusal> {
        let mut graph = DependencyGraph::new(self.nodes.len());
        for edge in &self.edges {
            if let (EdgeEnd::New(from), EdgeEnd::New(to)) = (edge.from, edge.to) {
                graph.add(from, to);
            }
        }
        let Err(cycle) = graph.depths(&vec![0; self.nodes.len()]) else { return Ok(()) };
        let names: Vec<&str> = cycle.iter().map(|index| self.nodes[*index].name.as_str()).collect();
        let detail = format!("form a cycle: {}; leave out one of these edges", names.join(" -> "));
        Err(Refusal::Cycle { pointer: "/edges".into(), detail })
    }
}

/// A graph of numbered nodes that finds cycles and depths.
pub struct DependencyGraph {
    downstreams: Vec<Vec<usize>>,
    waits_for: Vec<usize>,
}

impl DependencyGraph {
    /// Creates a graph with this many nodes and no edges.
    pub fn new(nodes: usize) -> Self {
        DependencyGraph { downstreams: vec![Vec::new(); nodes], waits_for: vec![0; nodes] }
    }

    /// Adds an edge.
    pub fn add(&mut self, from: usize, to: usize) {
        self.downstreams[from].push(to);
        self.waits_for[to] += 1;
    }

    /// Returns the depth of each node: the length of the longest path to it, and at least its entry in `from`. Returns
    /// the nodes of a cycle if there is one, the first repeated as the last.
    pub fn depths(mut self, from: &[u32]) -> Result<Vec<u32>, Vec<usize>> {
        let mut depths = from.to_vec();
        let mut open: Vec<usize> = (0..depths.len()).filter(|node| self.waits_for[*node] == 0).collect();
        let mut done = 0;
        while let Some(node) = open.pop() {
            done += 1;
            for next in &self.downstreams[node] {
                depths[*next] = depths[*next].max(depths[node] + 1);
                self.waits_for[*next] -= 1;
                if self.waits_for[*next] == 0 {
                    open.push(*next);
                }
            }
        }
        if done == depths.len() { Ok(depths) } else { Err(self.cycle()) }
    }

    /// Returns a cycle among the nodes that still wait. Each of them has an upstream that still waits, so walking
    /// backwards from any of them ends in a cycle.
    fn cycle(&self) -> Vec<usize> {
        let stuck = |node: usize| self.waits_for[node] > 0;
        let mut before: HashMap<usize, usize> = HashMap::new();
        for (node, downstreams) in self.downstreams.iter().enumerate().filter(|(node, _)| stuck(*node)) {
            for next in downstreams.iter().filter(|next| stuck(**next)) {
                before.insert(*next, node);
            }
        }
        let Some(mut node) = before.keys().copied().min() else { return Vec::new() };
        let mut path = Vec::new();
        let mut seen = HashSet::new();
        while seen.insert(node) {
            path.push(node);
            match before.get(&node) {
                Some(upstream) => node = *upstream,
                None => break,
            }
        }
        let start = path.iter().position(|other| *other == node).unwrap_or_default();
        let mut cycle = path.split_off(start);
        cycle.push(node);
        cycle.reverse();
        cycle
    }
}
