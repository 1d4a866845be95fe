//! What a caller wants to add to a flow: nodes, edges between them, and how each node's edges join. A [`GraphDraft`] is
//! what was asked for, a [`GraphPlan`] is one that was found valid: names are unique, every edge has two ends and stands there
//! once, nothing waits for itself.

use crate::join::{EdgeCondition, JoinPolicy};
use crate::name::NAME_LIMIT;
use crate::{Class, Draft, ExecutionId, Name, NamespaceId, Refusal, Submission};
use std::collections::{HashMap, HashSet};
use xxhash_rust::xxh3::Xxh3;

/// The most nodes of one call.
pub const NODES_LIMIT: usize = 10_000;
/// The most edges of one call.
pub const EDGES_LIMIT: usize = 50_000;
/// The most nodes on one way through a flow, children of children included.
pub const DEPTH_LIMIT: u32 = 10_000;

/// A node as a caller asked for it.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeDraft {
    /// Its name, unique in its flow.
    pub name: String,
    /// What it runs.
    pub draft: Draft,
}

/// An edge as a caller asked for it.
#[derive(Clone, Debug, PartialEq)]
pub struct EdgeDraft {
    /// The name of its upstream.
    pub from: String,
    /// The name of its downstream.
    pub to: String,
    /// When it holds.
    pub when: EdgeCondition,
}

/// How the edges into a node join.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupDraft {
    /// The name of the node.
    pub node: String,
    /// The policy.
    pub policy: JoinPolicy,
}

/// Nodes, edges and groups as a caller asked for them, not yet checked.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct GraphDraft {
    /// The nodes.
    pub nodes: Vec<NodeDraft>,
    /// The edges.
    pub edges: Vec<EdgeDraft>,
    /// The groups whose policy is not `all_of`.
    pub groups: Vec<GroupDraft>,
}

/// A valid node.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedNode {
    /// Its name.
    pub name: Name,
    /// What it runs.
    pub submission: Submission,
    /// How the edges into it join.
    pub policy: JoinPolicy,
    /// Digest of what it runs, of the edges into it and of how they join.
    pub digest: u64,
}

/// One end of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// A node of the same call, by its place.
    New(usize),
    /// A node that is there already, by its place in [`GraphPlan::existing`].
    Old(usize),
}

/// A valid edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PlannedEdge {
    /// Its upstream.
    pub from: End,
    /// Its downstream.
    pub to: End,
    /// When it holds.
    pub when: EdgeCondition,
}

/// Nodes and edges that were found valid. Only [`GraphDraft::check`] makes one.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphPlan {
    pub(crate) nodes: Vec<PlannedNode>,
    pub(crate) edges: Vec<PlannedEdge>,
    pub(crate) existing: Vec<Name>,
    pub(crate) digest: u64,
}

/// Whether names of nodes that are not in the call may be meant to be there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphTarget {
    /// A new flow: every name stands in the call.
    NewFlow,
    /// A flow that exists.
    ExistingFlow,
}

impl GraphDraft {
    /// Checks everything that can be checked without rows; the first offender is named.
    pub fn check(self, onto: GraphTarget) -> Result<GraphPlan, Refusal> {
        self.check_limits(onto)?;
        let digest = self.digest();
        let mut places: HashMap<Name, usize> = HashMap::with_capacity(self.nodes.len());
        let mut ids = HashSet::new();
        let mut nodes = Vec::with_capacity(self.nodes.len());
        for (index, node) in self.nodes.into_iter().enumerate() {
            let at = format!("/nodes/{index}");
            let name = Name::parse(&format!("{at}/name"), &node.name, NAME_LIMIT)?;
            if let Some(first) = places.insert(name.clone(), index) {
                let detail =
                    format!("is {name:?}, which /nodes/{first} is called too; names are unique in a flow");
                return Err(Refusal::field(&format!("{at}/name"), detail));
            }
            check_alone(&at, &node.draft)?;
            if node.draft.id.is_some_and(|id| !ids.insert(id)) {
                return Err(Refusal::field(
                    &format!("{at}/id"),
                    "is the id of a node before it; ids are unique",
                ));
            }
            let submission = node.draft.check().map_err(|refusal| refusal.with_pointer_prefix(&at))?;
            nodes.push(PlannedNode { name, submission, policy: JoinPolicy::AllOf, digest: 0 });
        }
        let mut plan =
            GraphPlan { nodes, edges: Vec::with_capacity(self.edges.len()), existing: Vec::new(), digest };
        plan.add_edges(&self.edges, &places, onto)?;
        plan.add_policies(&self.groups, &places)?;
        plan.check_order()?;
        plan.digest_nodes();
        Ok(plan)
    }

    fn check_limits(&self, onto: GraphTarget) -> Result<(), Refusal> {
        if self.nodes.is_empty() && (onto == GraphTarget::NewFlow || self.edges.is_empty()) {
            return Err(Refusal::field("/nodes", "is empty; give at least one node"));
        }
        for (pointer, count, limit) in
            [("/nodes", self.nodes.len(), NODES_LIMIT), ("/edges", self.edges.len(), EDGES_LIMIT)]
        {
            if count > limit {
                let detail = format!(
                    "has {count} entries; at most {limit} are allowed in one call, add the rest later"
                );
                return Err(Refusal::field(pointer, detail));
            }
        }
        Ok(())
    }

    /// A digest of all of it: what "the same content" means.
    fn digest(&self) -> u64 {
        let mut hasher = Xxh3::new();
        let mut text = |text: &str| {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text.as_bytes());
        };
        for edge in &self.edges {
            text(&edge.from);
            text(&edge.to);
            text(edge.when.as_str());
        }
        for group in &self.groups {
            text(&group.node);
            text(&format!("{:?}", group.policy));
        }
        for node in &self.nodes {
            text(&node.name);
            text(&format!("{:x} {:?}", node.draft.digest(), node.draft.id));
        }
        hasher.digest()
    }
}

/// Keys are for executions that are submitted alone: with one, a node might be an execution of another flow.
fn check_alone(at: &str, draft: &Draft) -> Result<(), Refusal> {
    for (field, given) in [
        ("idempotency_key", draft.idempotency_key.is_some()),
        ("idempotency_window_ms", draft.idempotency_window_ms.is_some()),
        ("unique_while_active", draft.unique_while_active.is_some()),
    ] {
        if given {
            let detail =
                "is for an execution that is submitted alone; give the flow an idempotency_key instead";
            return Err(Refusal::field(&format!("{at}/{field}"), detail));
        }
    }
    Ok(())
}

impl GraphPlan {
    /// Its nodes.
    pub fn nodes(&self) -> &[PlannedNode] {
        &self.nodes
    }

    /// Its edges.
    pub fn edges(&self) -> &[PlannedEdge] {
        &self.edges
    }

    /// The names of nodes that must be there already.
    pub fn existing(&self) -> &[Name] {
        &self.existing
    }

    /// Digest of its content.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// Whether an edge goes into a node that is there already, which may close a cycle.
    pub fn enters_existing(&self) -> bool {
        self.edges.iter().any(|edge| matches!(edge.to, End::Old(_)))
    }

    /// The claim classes of its nodes, in order.
    pub fn classes(&self, namespace: NamespaceId) -> Vec<Class> {
        self.nodes.iter().map(|node| node.submission.class(namespace)).collect()
    }

    /// The ids that callers gave its nodes, in order.
    pub fn ids(&self) -> impl Iterator<Item = Option<ExecutionId>> {
        self.nodes.iter().map(|node| node.submission.id())
    }

    /// The name of an end.
    pub fn name(&self, end: End) -> &Name {
        match end {
            End::New(index) => &self.nodes[index].name,
            End::Old(index) => &self.existing[index],
        }
    }

    fn add_edges(
        &mut self,
        edges: &[EdgeDraft],
        places: &HashMap<Name, usize>,
        onto: GraphTarget,
    ) -> Result<(), Refusal> {
        let mut old: HashMap<Name, usize> = HashMap::new();
        let mut known = HashSet::with_capacity(edges.len());
        for (index, edge) in edges.iter().enumerate() {
            let at = format!("/edges/{index}");
            let mut end = |field: &str, name: &str| -> Result<End, Refusal> {
                let pointer = format!("{at}/{field}");
                let name = Name::parse(&pointer, name, NAME_LIMIT)?;
                if let Some(place) = places.get(&name) {
                    return Ok(End::New(*place));
                }
                if onto == GraphTarget::NewFlow {
                    return Err(Refusal::UnknownNode { pointer, node: name.to_string() });
                }
                let next = self.existing.len();
                let place = *old.entry(name.clone()).or_insert(next);
                if place == next {
                    self.existing.push(name);
                }
                Ok(End::Old(place))
            };
            let (from, to) = (end("from", &edge.from)?, end("to", &edge.to)?);
            if from == to {
                let detail = format!("goes from {:?} to itself", edge.from);
                return Err(Refusal::Cycle { pointer: at, detail });
            }
            if !known.insert((from, to)) {
                let detail = format!(
                    "goes from {:?} to {:?} like an edge before it; one is enough",
                    edge.from, edge.to
                );
                return Err(Refusal::field(&at, detail));
            }
            self.edges.push(PlannedEdge { from, to, when: edge.when });
        }
        Ok(())
    }

    fn add_policies(&mut self, groups: &[GroupDraft], places: &HashMap<Name, usize>) -> Result<(), Refusal> {
        let mut edges: HashMap<usize, usize> = HashMap::new();
        for edge in &self.edges {
            if let End::New(place) = edge.to {
                *edges.entry(place).or_default() += 1;
            }
        }
        let mut known = HashSet::new();
        for (index, group) in groups.iter().enumerate() {
            let pointer = format!("/groups/{index}/node");
            let name = Name::parse(&pointer, &group.node, NAME_LIMIT)?;
            let Some(place) = places.get(&name) else {
                return Err(Refusal::UnknownNode { pointer, node: name.to_string() });
            };
            if !known.insert(*place) {
                return Err(Refusal::field(&pointer, format!("is {name:?}, which has a policy already")));
            }
            let count = edges.get(place).copied().unwrap_or_default();
            group.policy.check(&format!("/groups/{index}/policy"), count)?;
            self.nodes[*place].policy = group.policy;
        }
        Ok(())
    }

    fn digest_nodes(&mut self) {
        let mut edges: Vec<Vec<(&str, &str)>> = vec![Vec::new(); self.nodes.len()];
        for edge in &self.edges {
            if let End::New(place) = edge.to {
                edges[place].push((self.name(edge.from), edge.when.as_str()));
            }
        }
        let digest = |(node, mut edges): (&PlannedNode, Vec<(&str, &str)>)| {
            edges.sort_unstable();
            let content = (node.submission.digest, node.policy, edges);
            xxhash_rust::xxh3::xxh3_64(&postcard::to_stdvec(&content).unwrap_or_default())
        };
        let digests: Vec<u64> = self.nodes.iter().zip(edges).map(digest).collect();
        self.nodes.iter_mut().zip(digests).for_each(|(node, digest)| node.digest = digest);
    }

    /// Refuses a cycle among the new nodes.
    fn check_order(&self) -> Result<(), Refusal> {
        let mut graph = Graph::new(self.nodes.len());
        for edge in &self.edges {
            if let (End::New(from), End::New(to)) = (edge.from, edge.to) {
                graph.add(from, to);
            }
        }
        let Err(cycle) = graph.depths(&vec![0; self.nodes.len()]) else { return Ok(()) };
        let names: Vec<&str> = cycle.iter().map(|place| self.nodes[*place].name.as_str()).collect();
        let detail = format!("close a cycle: {}; a node cannot wait for itself", names.join(" -> "));
        Err(Refusal::Cycle { pointer: "/edges".into(), detail })
    }
}

/// A graph of places, for the check of its order.
pub struct Graph {
    downstreams: Vec<Vec<usize>>,
    waits_for: Vec<usize>,
}

impl Graph {
    /// So many nodes, no edge.
    pub fn new(nodes: usize) -> Self {
        Graph { downstreams: vec![Vec::new(); nodes], waits_for: vec![0; nodes] }
    }

    /// Adds an edge.
    pub fn add(&mut self, from: usize, to: usize) {
        self.downstreams[from].push(to);
        self.waits_for[to] += 1;
    }

    /// How many nodes come before each, at least `from` of them; or the places of a cycle, the first repeated as the last.
    pub fn depths(mut self, from: &[u32]) -> Result<Vec<u32>, Vec<usize>> {
        let mut depths = from.to_vec();
        let mut open: Vec<usize> = (0..depths.len()).filter(|place| self.waits_for[*place] == 0).collect();
        let mut done = 0;
        while let Some(place) = open.pop() {
            done += 1;
            for next in &self.downstreams[place] {
                depths[*next] = depths[*next].max(depths[place] + 1);
                self.waits_for[*next] -= 1;
                if self.waits_for[*next] == 0 {
                    open.push(*next);
                }
            }
        }
        if done == depths.len() { Ok(depths) } else { Err(self.cycle()) }
    }

    /// A cycle among what still waits: from any of these, going back along the edges comes round.
    fn cycle(&self) -> Vec<usize> {
        let stuck = |place: usize| self.waits_for[place] > 0;
        let mut before: HashMap<usize, usize> = HashMap::new();
        for (place, downstreams) in self.downstreams.iter().enumerate().filter(|(place, _)| stuck(*place)) {
            for next in downstreams.iter().filter(|next| stuck(**next)) {
                before.insert(*next, place);
            }
        }
        let Some(mut place) = before.keys().copied().min() else { return Vec::new() };
        let mut way = Vec::new();
        let mut seen = HashSet::new();
        while seen.insert(place) {
            way.push(place);
            match before.get(&place) {
                Some(upstream) => place = *upstream,
                None => break,
            }
        }
        let start = way.iter().position(|other| *other == place).unwrap_or_default();
        let mut cycle = way.split_off(start);
        cycle.push(place);
        cycle.reverse();
        cycle
    }
}
