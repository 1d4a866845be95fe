//! A running flow grows: by a call, or by what one of its executions spawns.

use super::CallKey;
use super::graft::{Graft, PlannedGraph, depth};
use super::submit::check_lane;
use crate::execution::ROOT;
use crate::fact::Fact;
use crate::flow::{Flow, FlowState};
use crate::plan::{End, Graph};
use crate::rows::{Members, Needs};
use crate::rule::{Locks, Phase, Profile, Rule};
use crate::wiring::Child;
use crate::{Execution, ExecutionId, FlowId, Name, NamespaceId, Refusal, Work};
use std::collections::HashMap;

/// Add nodes and edges to a flow.
#[derive(Clone, Debug)]
pub struct Grow {
    /// In which namespace.
    pub namespace: NamespaceId,
    /// To which flow.
    pub flow: FlowId,
    /// What.
    pub planned: PlannedGraph,
    /// The caller's key for the call.
    pub call_key: Option<CallKey>,
    /// Whether the same call was made before and its answer was lost.
    pub repeated: bool,
}

impl Rule for Grow {
    type Reply = Result<Flow, Refusal>;
    const PHASE: Phase = Phase::Submissions;

    fn profile(&self) -> Profile {
        let locks = Locks { later_executions: true, flows: true, sessions: false };
        Profile { locks, runs_alone: true, ..Profile::weighing(self.planned.ids.len()) }
    }

    /// The growth of a flow is serialised, so that two calls cannot close a cycle together. Existing nodes are locked, so that
    /// none of them ends meanwhile.
    fn needs(&self, work: &Work, needs: &mut Needs) {
        needs.growing.lock([self.flow]);
        needs.flows.lock([self.flow]);
        needs.keys.read(self.call_key.as_ref().map(|call_key| call_key.key_name(self.namespace)));
        needs.nodes.read(names(self.flow, &self.planned));
        needs.executions.lock(self.planned.plan.ids().flatten());
        self.planned.needs(self.namespace, work, needs);
        if self.planned.plan.enters_existing() {
            needs.queries.members.push(self.members());
        }
        let existing = self.planned.plan.existing().iter();
        needs.executions.lock(existing.filter_map(|name| work.node(self.flow, name)));
    }

    /// Adds the nodes and edges, or refuses with a reason.
    fn decide(&self, work: &mut Work) -> Result<Flow, Refusal> {
        if let Some(call_key) = &self.call_key
            && call_key.stored::<FlowId>(self.namespace, work)?.is_some()
        {
            return work.flow(self.namespace, self.flow).cloned();
        }
        let flow = work.flow(self.namespace, self.flow)?.clone();
        let plan = &self.planned.plan;
        if (self.repeated || work.is_repeated()) && self.is_there(work) {
            return Ok(flow);
        }
        check_open(&flow, work)?;
        for (index, node) in plan.nodes().iter().enumerate() {
            if work.node(self.flow, &node.name).is_some() {
                let detail = format!("is {:?}, and a node of this flow is called that already", node.name);
                return Err(Refusal::field(&format!("/nodes/{index}/name"), detail));
            }
            if let Some(id) = node.submission.id().filter(|id| matches!(work.find(*id), Ok(Some(_)))) {
                return Err(Refusal::IdempotencyMismatch {
                    pointer: format!("/nodes/{index}/id"),
                    detail: format!("is in use for execution {id}; use a new id"),
                });
            }
            check_lane(self.namespace, &node.submission, work)?;
        }
        let old = existing(self.flow, &self.planned, work)?;
        self.check_order(&old, work)?;
        let graft = Graft {
            namespace: self.namespace,
            flow: self.flow,
            planned: &self.planned,
            old: &old,
            parent: None,
            there: &[],
            deadline_at: flow.spec.deadline_at,
        };
        let depths = graft.check(work)?;
        let (nodes, edges) = (plan.nodes().len() as u32, plan.edges().len() as u32);
        work.record_flow(self.flow, Fact::FlowGrown { nodes, edges, parent: None }, None);
        graft.add(&depths, work);
        if let Some(call_key) = &self.call_key {
            call_key.store(self.namespace, &self.flow, work);
        }
        let counts = work.counts(&flow);
        Ok(Flow { counts, ..flow })
    }
}

impl Grow {
    fn members(&self) -> Members {
        Members { flow: self.flow, skip: 0, limit: u32::MAX }
    }

    /// Whether this very call has committed: its nodes are there under its ids, or, where it has none, its edges.
    fn is_there(&self, work: &Work) -> bool {
        let plan = &self.planned.plan;
        if let (Some(node), Some(id)) = (plan.nodes().first(), self.planned.ids.first()) {
            return work.node(self.flow, &node.name) == Some(*id);
        }
        plan.edges().iter().all(|edge| {
            let [from, to] = [edge.from, edge.to].map(|end| work.node(self.flow, plan.name(end)));
            let row = to.and_then(|to| work.find(to).ok().flatten());
            row.is_some_and(|row| row.wiring().upstreams.iter().any(|one| Some(one.execution) == from))
        })
    }

    /// Refuses an edge that closes a cycle through nodes that are there already.
    fn check_order(&self, old: &[ExecutionId], work: &Work) -> Result<(), Refusal> {
        let plan = &self.planned.plan;
        if !plan.enters_existing() {
            return Ok(());
        }
        let members = work.members(&self.members());
        let all: Vec<ExecutionId> = members.iter().chain(&self.planned.ids).copied().collect();
        let places: HashMap<ExecutionId, usize> =
            all.iter().enumerate().map(|(place, id)| (*id, place)).collect();
        let mut graph = Graph::new(all.len());
        for id in members {
            let Ok(Some(row)) = work.find(*id) else { continue };
            for downstream in &row.wiring().downstreams {
                if let (Some(from), Some(to)) = (places.get(id), places.get(&downstream.execution)) {
                    graph.add(*from, *to);
                }
            }
        }
        let id = |end: End| match end {
            End::New(place) => self.planned.ids[place],
            End::Old(place) => old[place],
        };
        for edge in plan.edges() {
            if let (Some(from), Some(to)) = (places.get(&id(edge.from)), places.get(&id(edge.to))) {
                graph.add(*from, *to);
            }
        }
        let Err(cycle) = graph.depths(&vec![0; all.len()]) else { return Ok(()) };
        let name = |place: &usize| match self.planned.ids.iter().position(|id| *id == all[*place]) {
            Some(new) => plan.nodes()[new].name.to_string(),
            None => {
                let row = work.find(all[*place]).ok().flatten();
                row.and_then(Execution::node).unwrap_or("?").to_owned()
            }
        };
        let names: Vec<String> = cycle.iter().map(name).collect();
        let detail = format!("close a cycle: {}; a node cannot wait for itself", names.join(" -> "));
        Err(Refusal::Cycle { pointer: "/edges".into(), detail })
    }
}

/// Refuses to add to a flow that has ended or is being cancelled.
fn check_open(flow: &Flow, work: &Work) -> Result<(), Refusal> {
    let state = match &flow.detail.cancel {
        Some(_) => "being cancelled",
        None if flow.state != FlowState::Running => flow.state.as_str(),
        None if work.counts(flow).live() == 0 => "ended",
        None => return Ok(()),
    };
    Err(Refusal::FlowEnded { flow: flow.id, state: state.into() })
}

/// The names to look for: of new nodes, and of those that must be there.
fn names(flow: FlowId, planned: &PlannedGraph) -> impl Iterator<Item = (FlowId, Name)> {
    let plan = &planned.plan;
    plan.nodes().iter().map(|node| &node.name).chain(plan.existing()).map(move |name| (flow, name.clone()))
}

/// The executions of the nodes that must be there.
fn existing(flow: FlowId, planned: &PlannedGraph, work: &Work) -> Result<Vec<ExecutionId>, Refusal> {
    let plan = &planned.plan;
    let find = |(place, name): (usize, &Name)| {
        let missing = || {
            let end = End::Old(place);
            let edge =
                plan.edges().iter().position(|edge| edge.from == end || edge.to == end).unwrap_or_default();
            let field = if plan.edges()[edge].from == end { "from" } else { "to" };
            Refusal::UnknownNode { pointer: format!("/edges/{edge}/{field}"), node: name.to_string() }
        };
        work.node(flow, name).ok_or_else(missing)
    };
    plan.existing().iter().enumerate().map(find).collect()
}

/// What a running execution adds to its flow.
#[derive(Clone, Debug)]
pub struct Spawn {
    /// The children.
    pub planned: PlannedGraph,
    /// Whether they live on when their parent does not succeed.
    pub detach: bool,
}

impl Spawn {
    /// Once the parent is loaded: its flow, locked, the nodes that have these names, and those the children wait for.
    pub fn needs(&self, parent: &Execution, work: &Work, needs: &mut Needs) {
        let flow = parent.flow();
        needs.flows.lock([flow]);
        needs.nodes.read(names(flow, &self.planned));
        self.planned.needs(parent.namespace, work, needs);
        let plan = &self.planned.plan;
        needs.executions.lock(plan.existing().iter().filter_map(|name| work.node(flow, name)));
        needs.executions.lock(plan.ids().flatten());
        needs.executions.read(plan.nodes().iter().filter_map(|node| work.node(flow, &node.name)));
    }

    /// Adds the children; gives them all by name. Those that were spawned before with the same content are left as they are.
    pub fn decide(&self, parent: &Execution, work: &mut Work) -> Result<Vec<(Name, ExecutionId)>, Refusal> {
        let flow = parent.flow();
        let plan = &self.planned.plan;
        if let Some(index) = plan.edges().iter().position(|edge| matches!(edge.to, End::Old(_))) {
            let detail = "is there already; what is spawned may wait for others, but others cannot be made to wait for it";
            return Err(Refusal::field(&format!("/edges/{index}/to"), detail));
        }
        if let Some(known) = work.find_flow(flow) {
            if parent.flow.is_none() {
                let state = parent.state.name().as_str().into();
                let detail =
                    "a flow has its id already, so it cannot have one of its own; submit it under another id";
                return Err(Refusal::WrongState { execution: parent.id, state, detail: detail.into() });
            }
            check_open(known, work)?;
        }
        let mut planned = self.planned.clone();
        let mut there = vec![false; plan.nodes().len()];
        for (index, node) in plan.nodes().iter().enumerate() {
            let named_root = parent.flow.is_none() && node.name.as_str() == ROOT;
            if let Some(id) = work.node(flow, &node.name).or(named_root.then_some(parent.id)) {
                let child = work.execution(parent.namespace, id)?;
                let ours = child.spec.node.as_ref().is_some_and(|node| node.parent == Some(parent.id));
                if !ours || child.spec.digest != Some(node.digest) {
                    return Err(Refusal::IdempotencyMismatch {
                        pointer: format!("/nodes/{index}/name"),
                        detail: format!(
                            "is {:?}, which a node with other content is called already",
                            node.name
                        ),
                    });
                }
                let known = Child { execution: id, detached: !self.detach };
                if parent.wiring().children.contains(&known) {
                    return Err(Refusal::IdempotencyMismatch {
                        pointer: "/detach".into(),
                        detail: format!("is {}, and {:?} was spawned otherwise", self.detach, node.name),
                    });
                }
                planned.ids[index] = id;
                there[index] = true;
            } else if let Some(id) = node.submission.id().filter(|id| matches!(work.find(*id), Ok(Some(_)))) {
                return Err(Refusal::IdempotencyMismatch {
                    pointer: format!("/nodes/{index}/id"),
                    detail: format!("is in use for execution {id}; use a new id"),
                });
            } else {
                check_lane(parent.namespace, &node.submission, work)?;
            }
        }
        let old = existing(flow, &planned, work)?;
        let graft = Graft {
            namespace: parent.namespace,
            flow,
            planned: &planned,
            old: &old,
            parent: Some((parent.id, depth(parent))),
            there: &there,
            deadline_at: work.find_flow(flow).and_then(|flow| flow.spec.deadline_at),
        };
        let depths = graft.check(work)?;
        let new: Vec<Child> = planned
            .ids
            .iter()
            .zip(&there)
            .filter(|(_, there)| !**there)
            .map(|(id, _)| Child { execution: *id, detached: self.detach })
            .collect();
        let names = plan.nodes().iter().map(|node| node.name.clone());
        let children = names.zip(planned.ids.iter().copied()).collect();
        if new.is_empty() {
            return Ok(children);
        }
        let (nodes, edges) = (new.len() as u32, plan.edges().len() as u32);
        if work.find_flow(flow).is_none() {
            work.insert_flow(Flow::alone(parent), Fact::FlowSubmitted { name: None, nodes: 1, edges: 0 });
        }
        let fact = Fact::Wired { upstreams: 0, downstreams: 0, children: nodes };
        work.rewire(parent.id, flow, fact, |_, wiring| wiring.children.extend(new));
        work.record_flow(flow, Fact::FlowGrown { nodes, edges, parent: Some(parent.id) }, None);
        graft.add(&depths, work);
        Ok(children)
    }
}
