//! Growth of a running flow: by a call, or by one of its executions that spawns children.

use super::graft::{Graft, PlannedGraph, depth};
use crate::digest::Digest;
use crate::execution::ROOT;
use crate::fact::{self, Fact};
use crate::flow::{Flow, FlowState};
use crate::plan::{DependencyGraph, EdgeEnd};
use crate::rows::{Members, Needs};
use crate::rule::{Locks, Phase, Profile, Rule};
use crate::rules::keyed::Repeatable;
use crate::rules::report::{Attempt, Operation, Report, Reported};
use crate::rules::submit::{check_lane, check_named_gates};
use crate::wiring::Child;
use crate::{Execution, ExecutionId, FlowId, Name, NamespaceId, Refusal, Work};
use std::collections::HashMap;

/// Adds nodes and edges to a flow.
#[derive(Clone, Debug)]
pub struct Grow {
    pub namespace: NamespaceId,
    /// The flow to extend.
    pub flow: FlowId,
    /// The nodes and edges to add.
    pub planned: PlannedGraph,
    /// The caller, as events name it.
    pub actor: Option<Name>,
    /// True if the same call was made before and its reply was lost.
    pub repeated: bool,
}

impl Rule for Grow {
    type Reply = Result<Flow, Refusal>;
    const PHASE: Phase = Phase::Submissions;

    fn profile(&self) -> Profile {
        let locks = Locks { later_executions: true, flows: true, sessions: false };
        Profile { locks, runs_alone: true, ..Profile::weighing(self.planned.ids.len()) }
    }

    /// Serialises the growth of a flow, so that two concurrent calls cannot form a cycle. Locks the existing nodes, so
    /// that none of them ends meanwhile.
    fn needs(&self, work: &Work, needs: &mut Needs) {
        needs.growing.lock([self.flow]);
        needs.flows.lock([self.flow]);
        needs.nodes.read(names(self.flow, &self.planned));
        needs.executions.lock(self.planned.plan.ids().flatten());
        self.planned.needs(self.namespace, work, needs);
        if self.planned.plan.enters_existing() {
            needs.queries.members.push(self.members());
        }
        let existing = self.planned.plan.existing().iter();
        needs.executions.lock(existing.filter_map(|name| work.node(self.flow, name)));
    }

    /// Adds the nodes and edges; returns the flow.
    fn decide(&self, work: &mut Work) -> Result<Flow, Refusal> {
        let flow = work.flow(self.namespace, self.flow)?.clone();
        let plan = &self.planned.plan;
        if (self.repeated || work.is_repeated()) && self.has_committed(work) {
            return Ok(flow);
        }
        check_open(&flow, work)?;
        for (index, node) in plan.nodes().iter().enumerate() {
            if work.node(self.flow, &node.name).is_some() {
                let detail = format!(
                    "is {:?}, the name of an existing node of this flow; choose another name",
                    node.name
                );
                return Err(Refusal::field(&format!("/nodes/{index}/name"), detail));
            }
            if let Some(id) = node.submission.id() {
                work.refuse_foreign_id(self.namespace, id, &format!("/nodes/{index}/id"))?;
            }
            if let Some(id) = node.submission.id().filter(|id| matches!(work.find(*id), Ok(Some(_)))) {
                return Err(Refusal::IdempotencyMismatch {
                    pointer: format!("/nodes/{index}/id"),
                    detail: format!("is the id of execution {id}; use a new id"),
                });
            }
            check_lane(self.namespace, &node.submission, work)?;
            check_named_gates(self.namespace, &node.submission, &format!("/nodes/{index}"), work)?;
        }
        let existing = existing_nodes(self.flow, &self.planned, work)?;
        self.refuse_cycles(&existing, work)?;
        let graft = Graft {
            namespace: self.namespace,
            flow: self.flow,
            planned: &self.planned,
            existing: &existing,
            parent: None,
            spawned_before: &[],
            deadline_at: flow.spec.deadline_at,
            tags: &flow.tags,
            actor: self.actor.as_ref(),
        };
        let depths = graft.check(work)?;
        let (nodes, edges) = (plan.nodes().len() as u32, plan.edges().len() as u32);
        let fact = Fact::FlowGrown(fact::FlowGrown { nodes, edges, parent: None });
        work.record_flow(self.flow, fact, self.actor.clone());
        graft.add(&depths, work);
        let counts = work.counts(&flow);
        Ok(Flow { counts, ..flow })
    }
}

impl Repeatable for Grow {
    type Done = Flow;
    type Answer = FlowId;

    fn namespace(&self) -> NamespaceId {
        self.namespace
    }

    fn answer(done: &Flow) -> FlowId {
        done.id
    }

    /// Returns the flow as it is now.
    fn repeat(&self, flow: FlowId, work: &Work) -> Result<Flow, Refusal> {
        work.flow(self.namespace, flow).cloned()
    }
}

impl Grow {
    fn members(&self) -> Members {
        Members { flow: self.flow, skip: 0, limit: u32::MAX }
    }

    /// Reports whether this very call has committed before: its nodes exist under its ids or, if it has no nodes, its
    /// edges exist.
    fn has_committed(&self, work: &Work) -> bool {
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

    /// Refuses edges that form a cycle through existing nodes.
    fn refuse_cycles(&self, existing: &[ExecutionId], work: &Work) -> Result<(), Refusal> {
        let plan = &self.planned.plan;
        if !plan.enters_existing() {
            return Ok(());
        }
        let members = work.members(&self.members());
        let all: Vec<ExecutionId> = members.iter().chain(&self.planned.ids).copied().collect();
        let indices: HashMap<ExecutionId, usize> =
            all.iter().enumerate().map(|(index, id)| (*id, index)).collect();
        let mut graph = DependencyGraph::new(all.len());
        for id in members {
            let Ok(Some(row)) = work.find(*id) else { continue };
            for downstream in &row.wiring().downstreams {
                if let (Some(from), Some(to)) = (indices.get(id), indices.get(&downstream.execution)) {
                    graph.add(*from, *to);
                }
            }
        }
        let id = |end: EdgeEnd| match end {
            EdgeEnd::New(index) => self.planned.ids[index],
            EdgeEnd::Existing(index) => existing[index],
        };
        for edge in plan.edges() {
            if let (Some(from), Some(to)) = (indices.get(&id(edge.from)), indices.get(&id(edge.to))) {
                graph.add(*from, *to);
            }
        }
        let Err(cycle) = graph.depths(&vec![0; all.len()]) else { return Ok(()) };
        let name = |index: &usize| match self.planned.ids.iter().position(|id| *id == all[*index]) {
            Some(new) => plan.nodes()[new].name.to_string(),
            None => {
                let row = work.find(all[*index]).ok().flatten();
                row.and_then(Execution::node).unwrap_or("?").to_owned()
            }
        };
        let names: Vec<String> = cycle.iter().map(name).collect();
        let detail = format!("form a cycle: {}; leave out one of these edges", names.join(" -> "));
        Err(Refusal::Cycle { pointer: "/edges".into(), detail })
    }
}

/// Refuses additions to a flow that has ended or is being cancelled.
fn check_open(flow: &Flow, work: &Work) -> Result<(), Refusal> {
    let state = match &flow.detail.cancel {
        Some(_) => "being cancelled",
        None if flow.state != FlowState::Running => flow.state.as_str(),
        None if work.counts(flow).live() == 0 => "ended",
        None => return Ok(()),
    };
    Err(Refusal::FlowEnded { flow: flow.id, state: state.into() })
}

/// Returns the names to look up: of the new nodes and of the existing ones.
fn names(flow: FlowId, planned: &PlannedGraph) -> impl Iterator<Item = (FlowId, Name)> {
    let plan = &planned.plan;
    plan.nodes().iter().map(|node| &node.name).chain(plan.existing()).map(move |name| (flow, name.clone()))
}

/// Returns the executions of the existing nodes, in the order of the plan. Refuses a name that the flow does not have.
fn existing_nodes(flow: FlowId, planned: &PlannedGraph, work: &Work) -> Result<Vec<ExecutionId>, Refusal> {
    let plan = &planned.plan;
    let find = |(index, name): (usize, &Name)| {
        let missing = || {
            let end = EdgeEnd::Existing(index);
            let edge =
                plan.edges().iter().position(|edge| edge.from == end || edge.to == end).unwrap_or_default();
            let field = if plan.edges()[edge].from == end { "from" } else { "to" };
            Refusal::UnknownNode { pointer: format!("/edges/{edge}/{field}"), node: name.to_string() }
        };
        work.node(flow, name).ok_or_else(missing)
    };
    plan.existing().iter().enumerate().map(find).collect()
}

/// The children that an active execution adds to its flow.
#[derive(Clone, Debug)]
pub struct Spawn {
    /// The children and the edges between them.
    pub planned: PlannedGraph,
    /// True if the children continue when their parent ends with an outcome other than completed.
    pub detach: bool,
    /// The caller, as events name it.
    pub actor: Option<Name>,
}

impl Operation for Spawn {
    /// Needs, once the parent is loaded, its locked flow, the nodes with the names of the children, and their
    /// upstreams.
    fn needs(&self, _report: &Report, held: Option<&Execution>, work: &Work, needs: &mut Needs) {
        let Some(parent) = held else { return };
        let flow = parent.flow();
        needs.flows.lock([flow]);
        needs.nodes.read(names(flow, &self.planned));
        self.planned.needs(parent.namespace, work, needs);
        let plan = &self.planned.plan;
        needs.executions.lock(plan.existing().iter().filter_map(|name| work.node(flow, name)));
        needs.executions.lock(plan.ids().flatten());
        needs.executions.read(plan.nodes().iter().filter_map(|node| work.node(flow, &node.name)));
    }

    fn add_to(&self, digest: &mut Digest) {
        digest.raw(b"spawn");
    }

    fn apply(&self, of: &Attempt<'_>, work: &mut Work) -> Result<Reported, Refusal> {
        let spawned = self.decide(of.row, work)?;
        Ok(Reported { spawned, ..Reported::active() })
    }
}

impl Spawn {
    /// Adds the children; returns all of them by name. Children that were spawned before with the same content are left
    /// unchanged.
    fn decide(&self, parent: &Execution, work: &mut Work) -> Result<Vec<(Name, ExecutionId)>, Refusal> {
        let flow = parent.flow();
        let plan = &self.planned.plan;
        if let Some(index) = plan.edges().iter().position(|edge| matches!(edge.to, EdgeEnd::Existing(_))) {
            let detail = "names an existing node; spawned children may wait for existing nodes, but not the other way round";
            return Err(Refusal::field(&format!("/edges/{index}/to"), detail));
        }
        if let Some(known) = work.find_flow(flow) {
            if parent.flow.is_none() {
                let state = parent.state.name().as_str().into();
                let detail =
                    "it cannot spawn, because another flow has its id; submit the execution under another id";
                return Err(Refusal::WrongState { execution: parent.id, state, detail: detail.into() });
            }
            check_open(known, work)?;
        }
        let mut planned = self.planned.clone();
        let mut spawned_before = vec![false; plan.nodes().len()];
        for (index, node) in plan.nodes().iter().enumerate() {
            if let Some(id) = self.spawned_before(index, parent, work)? {
                planned.ids[index] = id;
                spawned_before[index] = true;
                continue;
            }
            if let Some(id) = node.submission.id() {
                work.refuse_foreign_id(parent.namespace, id, &format!("/nodes/{index}/id"))?;
            }
            if let Some(id) = node.submission.id().filter(|id| matches!(work.find(*id), Ok(Some(_)))) {
                return Err(Refusal::IdempotencyMismatch {
                    pointer: format!("/nodes/{index}/id"),
                    detail: format!("is the id of execution {id}; use a new id"),
                });
            }
            check_lane(parent.namespace, &node.submission, work)?;
            check_named_gates(parent.namespace, &node.submission, &format!("/nodes/{index}"), work)?;
        }
        let existing = existing_nodes(flow, &planned, work)?;
        let row = work.find_flow(flow).cloned().unwrap_or_else(|| Flow::alone(parent));
        let graft = Graft {
            namespace: parent.namespace,
            flow,
            planned: &planned,
            existing: &existing,
            parent: Some((parent.id, depth(parent))),
            spawned_before: &spawned_before,
            deadline_at: row.spec.deadline_at,
            tags: &row.tags,
            actor: self.actor.as_ref(),
        };
        let depths = graft.check(work)?;
        let new: Vec<Child> = planned
            .ids
            .iter()
            .zip(&spawned_before)
            .filter(|(_, spawned_before)| !**spawned_before)
            .map(|(id, _)| Child { execution: *id, detached: self.detach })
            .collect();
        let names = plan.nodes().iter().map(|node| node.name.clone());
        let children = names.zip(planned.ids.iter().copied()).collect();
        if new.is_empty() {
            return Ok(children);
        }
        let (nodes, edges) = (new.len() as u32, plan.edges().len() as u32);
        if work.find_flow(flow).is_none() {
            let fact = Fact::FlowSubmitted(fact::FlowSubmitted { name: None, nodes: 1, edges: 0 });
            work.insert_flow(Flow::alone(parent), fact, self.actor.clone());
        }
        let fact = Fact::Wired(fact::Wired { upstreams: 0, downstreams: 0, children: nodes });
        work.rewire(parent.id, flow, fact, |_, wiring| wiring.children.extend(new));
        let fact = Fact::FlowGrown(fact::FlowGrown { nodes, edges, parent: Some(parent.id) });
        work.record_flow(flow, fact, self.actor.clone());
        graft.add(&depths, work);
        Ok(children)
    }

    /// Returns the child at `index` if the parent spawned it before. Refuses its name if a node with other content has
    /// it.
    fn spawned_before(
        &self,
        index: usize,
        parent: &Execution,
        work: &Work,
    ) -> Result<Option<ExecutionId>, Refusal> {
        let node = &self.planned.plan.nodes()[index];
        let named_root = parent.flow.is_none() && node.name.as_str() == ROOT;
        let Some(id) = work.node(parent.flow(), &node.name).or(named_root.then_some(parent.id)) else {
            return Ok(None);
        };
        let child = work.execution(parent.namespace, id)?;
        let ours = child.spec.node.as_ref().is_some_and(|node| node.parent == Some(parent.id));
        if !ours || child.spec.digest != Some(node.digest) {
            let detail =
                format!("is {:?}, the name of a node with other content; choose another name", node.name);
            return Err(Refusal::IdempotencyMismatch { pointer: format!("/nodes/{index}/name"), detail });
        }
        if parent.wiring().children.contains(&Child { execution: id, detached: !self.detach }) {
            let detail = format!(
                "is {}, but {:?} was spawned before with the opposite; repeat the earlier value",
                self.detach, node.name
            );
            return Err(Refusal::IdempotencyMismatch { pointer: "/detach".into(), detail });
        }
        Ok(Some(id))
    }
}
