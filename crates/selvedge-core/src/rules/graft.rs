//! Nodes and edges are added to a flow: by its submission, by growth, and by what a running execution spawns.

use super::join::{UpstreamChange, decide, update_downstream};
use super::submit::{needs_lanes, new_row};
use crate::fact::Fact;
use crate::gate::draws::fairness_line;
use crate::join::{Edge, Join, Resolution};
use crate::plan::{DEPTH_LIMIT, End, Graph, GraphPlan};
use crate::rows::Needs;
use crate::wiring::{Downstream, Node, Upstream, Wiring};
use crate::{ClassId, Execution, ExecutionId, FlowId, NamespaceId, Refusal, State, Timestamp, Work};
use std::collections::{BTreeMap, HashMap, HashSet};

/// A plan with the ids and classes of its nodes.
#[derive(Clone, Debug)]
pub struct PlannedGraph {
    /// The plan.
    pub plan: GraphPlan,
    /// The ids of its nodes, in order: the caller's, or minted.
    pub ids: Vec<ExecutionId>,
    /// Their classes, in order.
    pub classes: Vec<ClassId>,
}

impl PlannedGraph {
    /// The classes of the nodes that wait for nobody.
    pub fn roots(&self) -> impl Iterator<Item = ClassId> {
        let waits: HashSet<End> = self.plan.edges().iter().map(|edge| edge.to).collect();
        let places = self.classes.iter().enumerate();
        places.filter(move |(place, _)| !waits.contains(&End::New(*place))).map(|(_, class)| *class)
    }

    /// The lanes its nodes go to, and the lines of those with fairness keys.
    pub(super) fn needs(&self, namespace: NamespaceId, work: &Work, needs: &mut Needs) {
        needs_lanes(namespace, self.plan.nodes().iter().map(|node| &node.submission), work, needs);
        for (node, class) in self.plan.nodes().iter().zip(&self.classes) {
            let key = node.submission.required_gates.fairness_key.as_ref();
            needs.gates.lock(key.map(|key| fairness_line(namespace, *class, key).id()));
        }
    }
}

/// Adds a plan to a flow.
pub(super) struct Graft<'a> {
    pub namespace: NamespaceId,
    pub flow: FlowId,
    pub planned: &'a PlannedGraph,
    /// The executions of [`GraphPlan::existing`], in order.
    pub old: &'a [ExecutionId],
    /// Who spawns it, and how deep that is.
    pub parent: Option<(ExecutionId, u32)>,
    /// Which of the plan's nodes are there already, under the ids of the plan: spawned before.
    pub there: &'a [bool],
    pub deadline_at: Option<Timestamp>,
}

/// The edges that are added to one node.
#[derive(Default)]
struct Added {
    upstreams: Vec<Upstream>,
    downstreams: Vec<Downstream>,
}

impl Graft<'_> {
    fn plan(&self) -> &GraphPlan {
        &self.planned.plan
    }

    fn id(&self, end: End) -> ExecutionId {
        match end {
            End::New(place) => self.planned.ids[place],
            End::Old(place) => self.old[place],
        }
    }

    fn is_there(&self, end: End) -> bool {
        match end {
            End::New(place) => self.there.get(place).copied().unwrap_or_default(),
            End::Old(_) => true,
        }
    }

    /// Refuses an edge into a node that no longer waits, one that is there already, and what goes too deep.
    pub fn check(&self, work: &Work) -> Result<Vec<u32>, Refusal> {
        for (index, edge) in self.plan().edges.iter().enumerate() {
            let (from, to) = (self.id(edge.from), self.id(edge.to));
            if !self.is_there(edge.to) || self.is_known(index, work) {
                continue;
            }
            let row = work.execution(self.namespace, to)?;
            if row.wiring().upstreams.iter().any(|upstream| upstream.execution == from) {
                let (from, to) = (self.plan().name(edge.from), self.plan().name(edge.to));
                let detail = format!("goes from {from:?} to {to:?}, and such an edge is there already");
                return Err(Refusal::field(&format!("/edges/{index}"), detail));
            }
            if row.state != State::WaitingDependencies {
                let name = self.plan().name(edge.to);
                let detail = format!(
                    "/edges/{index}/to names it as {name:?}; an edge can only be added to a node that still waits for others"
                );
                let state = row.state.name().as_str().into();
                return Err(Refusal::WrongState { execution: to, state, detail });
            }
        }
        let depths = self.depths(work)?;
        if let Some(place) = depths.iter().position(|depth| *depth >= DEPTH_LIMIT) {
            let detail = format!(
                "is the {}th node on a way through the flow; at most {DEPTH_LIMIT} are allowed",
                depths[place] + 1
            );
            return Err(Refusal::field(&format!("/nodes/{place}"), detail));
        }
        Ok(depths)
    }

    /// Whether an edge was added together with its ends before, by the same spawn.
    fn is_known(&self, index: usize, work: &Work) -> bool {
        let edge = self.plan().edges[index];
        let (from, to) = (self.id(edge.from), self.id(edge.to));
        matches!(edge.to, End::New(_))
            && self.is_there(edge.to)
            && work.execution(self.namespace, to).is_ok_and(|row| {
                row.wiring().upstreams.contains(&Upstream { execution: from, when: edge.when })
            })
    }

    fn depths(&self, work: &Work) -> Result<Vec<u32>, Refusal> {
        let count = self.plan().nodes.len();
        let mut from = vec![self.parent.map_or(0, |(_, depth)| depth + 1); count];
        let mut graph = Graph::new(count);
        for edge in &self.plan().edges {
            match (edge.from, edge.to) {
                (End::New(upstream), End::New(downstream)) => graph.add(upstream, downstream),
                (End::Old(_), End::New(downstream)) => {
                    let row = work.execution(self.namespace, self.id(edge.from))?;
                    from[downstream] = from[downstream].max(depth(row) + 1);
                }
                (_, End::Old(_)) => {}
            }
        }
        Ok(graph.depths(&from).unwrap_or(from))
    }

    /// Adds everything. The caller has checked it.
    pub fn add(&self, depths: &[u32], work: &mut Work) {
        let mut added: BTreeMap<ExecutionId, Added> = BTreeMap::new();
        let mut news: BTreeMap<ExecutionId, Vec<UpstreamChange>> = BTreeMap::new();
        let mut generations: HashMap<ExecutionId, u32> = HashMap::new();
        for (index, edge) in self.plan().edges.iter().enumerate() {
            if self.is_known(index, work) {
                continue;
            }
            let (from, to) = (self.id(edge.from), self.id(edge.to));
            let there = work.find(to).ok().flatten().map_or(0, |row| row.wiring().upstreams.len());
            let upstreams = &mut added.entry(to).or_default().upstreams;
            let place = (there + upstreams.len()) as u32;
            upstreams.push(Upstream { execution: from, when: edge.when });
            added.entry(from).or_default().downstreams.push(Downstream { execution: to, edge: place });
            if let Ok(Some(row)) = work.find(from) {
                generations.insert(from, row.detail.generation);
                if row.state.outcome().is_some() {
                    news.entry(to).or_default().push(UpstreamChange::of(row, place));
                }
            }
        }
        let edge = |upstream: &Upstream| Edge {
            resolution: Resolution::Pending,
            generation: generations.get(&upstream.execution).copied().unwrap_or_default(),
        };
        for (place, depth) in depths.iter().enumerate().filter(|(place, _)| !self.is_there(End::New(*place)))
        {
            let Added { upstreams, downstreams } = added.remove(&self.planned.ids[place]).unwrap_or_default();
            let edges: Vec<Edge> = upstreams.iter().map(edge).collect();
            self.insert(place, *depth, Wiring { upstreams, downstreams, children: Vec::new() }, edges, work);
        }
        for (id, Added { upstreams, downstreams }) in added {
            let edges: Vec<Edge> = upstreams.iter().map(edge).collect();
            let fact = Fact::Wired {
                upstreams: upstreams.len() as u32,
                downstreams: downstreams.len() as u32,
                children: 0,
            };
            work.rewire(id, self.flow, fact, |row, wiring| {
                wiring.upstreams.extend(upstreams);
                wiring.downstreams.extend(downstreams);
                if let Some(join) = &mut row.join {
                    join.edges.extend(edges);
                }
            });
        }
        for (id, news) in news {
            update_downstream(work, id, &news);
        }
    }

    fn insert(&self, place: usize, depth: u32, wiring: Wiring, edges: Vec<Edge>, work: &mut Work) {
        let planned = &self.plan().nodes[place];
        let (id, class) = (self.planned.ids[place], self.planned.classes[place]);
        let now = work.now();
        let node = Node {
            name: planned.name.clone(),
            depth,
            parent: self.parent.map(|(parent, _)| parent),
            delay: planned.submission.delay,
            flow_deadline_at: self.deadline_at,
        };
        let mut row = new_row(self.namespace, id, class, &planned.submission, now);
        let mut spec = (*row.spec).clone();
        spec.node = Some(node);
        if self.parent.is_some() {
            spec.digest = Some(planned.digest);
        }
        row.spec = spec.into();
        row.flow = Some(self.flow);
        let upstreams = edges.len() as u32;
        row.wiring = (!wiring.is_empty()).then(|| wiring.into());
        let fact = if upstreams == 0 {
            let delayed_until = match row.state {
                State::Delayed { until } => Some(until),
                _ => None,
            };
            Fact::Submitted { delayed_until }
        } else {
            row.state = State::WaitingDependencies;
            row.join = Some(Join { policy: planned.policy, edges, ..Join::default() });
            Fact::SubmittedWaitingDependencies { upstreams }
        };
        work.insert(row, planned.submission.input.clone(), fact);
    }
}

/// How many nodes come before an execution in its flow.
pub(super) fn depth(row: &Execution) -> u32 {
    row.spec.node.as_ref().map_or(0, |node| node.depth)
}

/// A node that was ended while it waited for its upstreams, and is run again, waits again; its edges may have decided
/// meanwhile.
pub(super) fn join_again(work: &mut Work, id: ExecutionId) {
    if let Ok(Some(row)) = work.find(id)
        && let Some(join) = row.join.clone()
    {
        decide(work, id, join, Vec::new());
    }
}
