//! Adding nodes and edges to a flow: by its submission, by growth, and by a spawning execution.

use super::join::{UpstreamChange, decide, update_downstream};
use crate::fact::{self, Fact};
use crate::gate::draws::fairness_line;
use crate::join::{Edge, Join, Resolution};
use crate::plan::{DEPTH_LIMIT, DependencyGraph, EdgeEnd, GraphPlan};
use crate::rows::Needs;
use crate::rules::submit::{needs_lanes, needs_named_gates, new_row};
use crate::submission::TAGS_LIMIT;
use crate::wiring::{Downstream, Node, Upstream, Wiring};
use crate::{ClassId, Execution, ExecutionId, FlowId, Name, NamespaceId, Refusal, State, Timestamp, Work};
use std::collections::{BTreeMap, HashMap, HashSet};

/// A plan with the ids and classes of its nodes.
#[derive(Clone, Debug)]
pub struct PlannedGraph {
    /// The valid plan.
    pub plan: GraphPlan,
    /// The ids of the nodes, in order: chosen by the caller or generated.
    pub ids: Vec<ExecutionId>,
    /// The classes of the nodes, in order.
    pub classes: Vec<ClassId>,
}

impl PlannedGraph {
    /// Returns the classes of the nodes without upstreams.
    pub fn roots(&self) -> impl Iterator<Item = ClassId> {
        let downstreams: HashSet<EdgeEnd> = self.plan.edges().iter().map(|edge| edge.to).collect();
        let nodes = self.classes.iter().enumerate();
        nodes.filter(move |(index, _)| !downstreams.contains(&EdgeEnd::New(*index))).map(|(_, class)| *class)
    }

    /// Needs the lanes of the nodes, the budgets and quotas that they name, and the fairness lines of those with
    /// fairness keys.
    pub(in crate::rules) fn needs(&self, namespace: NamespaceId, work: &Work, needs: &mut Needs) {
        needs_lanes(namespace, self.plan.nodes().iter().map(|node| &node.submission), work, needs);
        for (node, class) in self.plan.nodes().iter().zip(&self.classes) {
            needs_named_gates(namespace, &node.submission, needs);
            let key = node.submission.required_gates.fairness_key.as_ref();
            needs.gates.lock(key.map(|key| fairness_line(namespace, *class, key).id()));
        }
    }
}

/// The addition of a plan to a flow.
pub(in crate::rules) struct Graft<'a> {
    pub namespace: NamespaceId,
    pub flow: FlowId,
    pub planned: &'a PlannedGraph,
    /// The executions of [`GraphPlan::existing`], in order.
    pub existing: &'a [ExecutionId],
    /// The spawning execution and its depth, if the nodes are spawned.
    pub parent: Option<(ExecutionId, u32)>,
    /// For each node of the plan, true if it was spawned before, under the id in `planned`.
    pub spawned_before: &'a [bool],
    /// The deadline of the flow.
    pub deadline_at: Option<Timestamp>,
    /// The tags of the flow, which its members get too.
    pub tags: &'a BTreeMap<String, String>,
    /// The caller, as events name it.
    pub actor: Option<&'a Name>,
}

/// The edges to add to one node.
#[derive(Default)]
struct Added {
    upstreams: Vec<Upstream>,
    downstreams: Vec<Downstream>,
}

impl Graft<'_> {
    fn plan(&self) -> &GraphPlan {
        &self.planned.plan
    }

    fn id(&self, end: EdgeEnd) -> ExecutionId {
        match end {
            EdgeEnd::New(index) => self.planned.ids[index],
            EdgeEnd::Existing(index) => self.existing[index],
        }
    }

    fn exists(&self, end: EdgeEnd) -> bool {
        match end {
            EdgeEnd::New(index) => self.spawned_before.get(index).copied().unwrap_or_default(),
            EdgeEnd::Existing(_) => true,
        }
    }

    /// Refuses an edge into a node that no longer waits for its upstreams, a duplicate edge, too many tags, and a path
    /// that is too long. Returns the depths of the nodes.
    pub fn check(&self, work: &Work) -> Result<Vec<u32>, Refusal> {
        for (index, edge) in self.plan().edges.iter().enumerate() {
            let (from, to) = (self.id(edge.from), self.id(edge.to));
            if !self.exists(edge.to) || self.was_added(index, work) {
                continue;
            }
            let row = work.execution(self.namespace, to)?;
            if row.wiring().upstreams.iter().any(|upstream| upstream.execution == from) {
                let (from, to) = (self.plan().name(edge.from), self.plan().name(edge.to));
                let detail = format!("goes from {from:?} to {to:?}, as an existing edge does; leave it out");
                return Err(Refusal::field(&format!("/edges/{index}"), detail));
            }
            if row.state != State::WaitingDependencies {
                let name = self.plan().name(edge.to);
                let detail = format!(
                    "/edges/{index}/to names it ({name:?}); an edge can be added only to a node that waits for its upstreams"
                );
                let state = row.state.name().as_str().into();
                return Err(Refusal::WrongState { execution: to, state, detail });
            }
        }
        for (index, node) in self.plan().nodes.iter().enumerate().filter(|_| !self.tags.is_empty()) {
            let count = self.member_tags(&node.submission.tags).len();
            if count > TAGS_LIMIT {
                let detail = format!(
                    "has {count} entries with the tags of its flow; at most {TAGS_LIMIT} are allowed"
                );
                return Err(Refusal::field(&format!("/nodes/{index}/tags"), detail));
            }
        }
        let depths = self.depths(work)?;
        if let Some(node) = depths.iter().position(|depth| *depth >= DEPTH_LIMIT) {
            let detail = format!(
                "is node {} on a path through the flow; a path may have at most {DEPTH_LIMIT} nodes",
                depths[node] + 1
            );
            return Err(Refusal::field(&format!("/nodes/{node}"), detail));
        }
        Ok(depths)
    }

    /// Returns the tags of a member: its own and the flow's. If both have a tag, the member's own value wins.
    fn member_tags(&self, own: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let mut tags = self.tags.clone();
        tags.extend(own.clone());
        tags
    }

    /// Reports whether an edge was added before, by an earlier spawn of the same nodes.
    fn was_added(&self, index: usize, work: &Work) -> bool {
        let edge = self.plan().edges[index];
        let (from, to) = (self.id(edge.from), self.id(edge.to));
        matches!(edge.to, EdgeEnd::New(_))
            && self.exists(edge.to)
            && work.execution(self.namespace, to).is_ok_and(|row| {
                row.wiring().upstreams.contains(&Upstream { execution: from, when: edge.when })
            })
    }

    fn depths(&self, work: &Work) -> Result<Vec<u32>, Refusal> {
        let count = self.plan().nodes.len();
        let mut from = vec![self.parent.map_or(0, |(_, depth)| depth + 1); count];
        let mut graph = DependencyGraph::new(count);
        for edge in &self.plan().edges {
            match (edge.from, edge.to) {
                (EdgeEnd::New(upstream), EdgeEnd::New(downstream)) => graph.add(upstream, downstream),
                (EdgeEnd::Existing(_), EdgeEnd::New(downstream)) => {
                    let row = work.execution(self.namespace, self.id(edge.from))?;
                    from[downstream] = from[downstream].max(depth(row) + 1);
                }
                (_, EdgeEnd::Existing(_)) => {}
            }
        }
        Ok(graph.depths(&from).unwrap_or(from))
    }

    /// Adds the nodes and edges, which must have passed [`Graft::check`].
    pub fn add(&self, depths: &[u32], work: &mut Work) {
        let mut added: BTreeMap<ExecutionId, Added> = BTreeMap::new();
        let mut changes: BTreeMap<ExecutionId, Vec<UpstreamChange>> = BTreeMap::new();
        let mut generations: HashMap<ExecutionId, u32> = HashMap::new();
        for (index, edge) in self.plan().edges.iter().enumerate() {
            if self.was_added(index, work) {
                continue;
            }
            let (from, to) = (self.id(edge.from), self.id(edge.to));
            let before = work.find(to).ok().flatten().map_or(0, |row| row.wiring().upstreams.len());
            let upstreams = &mut added.entry(to).or_default().upstreams;
            let edge_index = (before + upstreams.len()) as u32;
            upstreams.push(Upstream { execution: from, when: edge.when });
            added.entry(from).or_default().downstreams.push(Downstream { execution: to, edge: edge_index });
            if let Ok(Some(row)) = work.find(from) {
                generations.insert(from, row.detail.generation);
                if row.state.outcome().is_some() {
                    changes.entry(to).or_default().push(UpstreamChange::of(row, edge_index));
                }
            }
        }
        let edge = |upstream: &Upstream| Edge {
            resolution: Resolution::Pending,
            generation: generations.get(&upstream.execution).copied().unwrap_or_default(),
        };
        for (index, depth) in
            depths.iter().enumerate().filter(|(index, _)| !self.exists(EdgeEnd::New(*index)))
        {
            let Added { upstreams, downstreams } = added.remove(&self.planned.ids[index]).unwrap_or_default();
            let edges: Vec<Edge> = upstreams.iter().map(edge).collect();
            self.insert(index, *depth, Wiring { upstreams, downstreams, children: Vec::new() }, edges, work);
        }
        for (id, Added { upstreams, downstreams }) in added {
            let edges: Vec<Edge> = upstreams.iter().map(edge).collect();
            let fact = Fact::Wired(fact::Wired {
                upstreams: upstreams.len() as u32,
                downstreams: downstreams.len() as u32,
                children: 0,
            });
            work.rewire(id, self.flow, fact, |row, wiring| {
                wiring.upstreams.extend(upstreams);
                wiring.downstreams.extend(downstreams);
                if let Some(join) = &mut row.join {
                    join.edges.extend(edges);
                }
            });
        }
        for (id, changes) in changes {
            update_downstream(work, id, &changes);
        }
    }

    fn insert(&self, index: usize, depth: u32, wiring: Wiring, edges: Vec<Edge>, work: &mut Work) {
        let planned = &self.plan().nodes[index];
        let (id, class) = (self.planned.ids[index], self.planned.classes[index]);
        let now = work.now();
        let node = Node {
            name: planned.name.clone(),
            depth,
            parent: self.parent.map(|(parent, _)| parent),
            tells_if_awaited: self.parent.is_some(),
            delay: planned.submission.delay,
            flow_deadline_at: self.deadline_at,
        };
        let mut row = new_row(self.namespace, id, class, &planned.submission, now);
        let mut spec = (*row.spec).clone();
        spec.node = Some(node);
        if let Some((parent, _)) = self.parent {
            spec.digest = Some(planned.digest);
            let of_parent = || work.find(parent).ok().flatten().and_then(|parent| parent.spec.trace);
            spec.trace = spec.trace.or_else(of_parent);
        }
        row.spec = spec.into();
        row.flow = Some(self.flow);
        row.tags = self.member_tags(&planned.submission.tags);
        let upstreams = edges.len() as u32;
        row.wiring = (!wiring.is_empty()).then(|| wiring.into());
        let fact = if upstreams == 0 {
            let delayed_until = match row.state {
                State::Delayed { until } => Some(until),
                _ => None,
            };
            Fact::Submitted(fact::Submitted { delayed_until })
        } else {
            row.state = State::WaitingDependencies;
            row.join = Some(Join { policy: planned.policy, edges, ..Join::default() });
            Fact::SubmittedWaitingDependencies(fact::SubmittedWaitingDependencies { upstreams })
        };
        work.insert(row, planned.submission.input.clone(), fact, self.actor.cloned());
    }
}

/// Returns the depth of an execution in its flow.
pub(in crate::rules) fn depth(row: &Execution) -> u32 {
    row.spec.node.as_ref().map_or(0, |node| node.depth)
}

/// Decides the edge group of a replayed node that had ended while it waited for its upstreams: they may have ended
/// since.
pub(in crate::rules) fn join_again(work: &mut Work, id: ExecutionId) {
    if let Ok(Some(row)) = work.find(id)
        && let Some(join) = row.join.clone()
    {
        decide(work, id, join, Vec::new());
    }
}
