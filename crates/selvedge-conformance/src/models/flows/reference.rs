//! The reference model of flows: edges, joins, siblings, children and the end of a flow, as the specification defines them. It
//! calls no rule of core.
//!
//! The end or reopening of a node is propagated in the same transaction if all of its downstreams are loaded; otherwise it is
//! enqueued in the outbox and propagated when that entry is dispatched. Joins are decided from outcomes.

use super::command::{NodeSpec, PolicySpec};
use selvedge_core::flow::FlowState;
use selvedge_core::join::EdgeCondition;
use selvedge_core::outbox::OutboxKind;
use selvedge_core::rules::flows::children::look_key;
use selvedge_core::rules::report::Fence;
use selvedge_core::{ExecutionId, FlowId, Outcome};
use std::collections::{BTreeMap, BTreeSet};

/// A node: the index of its flow and its index there.
pub type NodeRef = (usize, usize);
/// An update of one edge: its index, the generation of its upstream, and the outcome of that generation.
pub type EdgeUpdate = (usize, u32, Option<Outcome>);

/// The state of a node. Times are in microseconds.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeState {
    WaitingDependencies,
    Waiting,
    Delayed(i64),
    Active {
        fence: Fence,
        claimed_at: i64,
    },
    /// Waits for its children.
    Suspended,
    Ended(Outcome),
}

/// An edge into a node, with the last known generation and outcome of its upstream.
#[derive(Clone, Debug)]
pub struct Edge {
    pub from: usize,
    pub when: EdgeCondition,
    pub generation: u32,
    pub outcome: Option<Outcome>,
}

/// A node of the model.
#[derive(Clone, Debug)]
pub struct Node {
    pub id: ExecutionId,
    pub spec: NodeSpec,
    pub edges: Vec<Edge>,
    /// The number of edges that must hold; none means all.
    pub required: Option<usize>,
    /// True if a satisfied join cancels the pending upstreams.
    pub cancels: bool,
    pub downstreams: Vec<usize>,
    pub children: Vec<(usize, bool)>,
    pub parent: Option<usize>,
    /// True if its suspended parent awaits its end.
    pub end_awaited: bool,
    pub state: NodeState,
    pub generation: u32,
    pub started: bool,
    /// True if an operator cancelled the node itself.
    pub by_operator: bool,
    /// The decision of its join: true to run, false to skip, none while pending.
    pub runs: Option<bool>,
}

#[derive(Clone, Debug)]
pub struct ModelFlow {
    pub id: FlowId,
    pub nodes: Vec<Node>,
    pub state: FlowState,
    /// A cancellation: whether it covers only pending nodes, and whether it is still draining.
    pub cancel: Option<(bool, bool)>,
}

/// An outbox entry: its kind and its node. An entry of a flow names the flow's first node.
pub type OutboxEntry = (OutboxKind, NodeRef);

/// The state of the model.
#[derive(Debug, Default)]
pub struct Reference {
    pub now: i64,
    pub manual: bool,
    pub flows: Vec<ModelFlow>,
    pub outbox: BTreeSet<OutboxEntry>,
    /// Nodes that ended or reopened in the current transaction.
    pub changed: BTreeSet<NodeRef>,
}

impl Node {
    pub fn outcome(&self) -> Option<Outcome> {
        match self.state {
            NodeState::Ended(outcome) => Some(outcome),
            NodeState::WaitingDependencies
            | NodeState::Waiting
            | NodeState::Delayed(_)
            | NodeState::Active { .. }
            | NodeState::Suspended => None,
        }
    }

    pub fn is_live(&self) -> bool {
        self.outcome().is_none()
    }

    /// Returns the decision that the edges give; none while it is pending.
    fn decision(&self) -> Option<bool> {
        let holding = self.edges.iter().filter(|edge| edge.holds() == Some(true)).count();
        let pending = self.edges.iter().filter(|edge| edge.outcome.is_none()).count();
        let required = self.required.unwrap_or(self.edges.len());
        match holding >= required {
            true => Some(true),
            false => (holding + pending < required).then_some(false),
        }
    }
}

impl Edge {
    /// Returns whether the edge holds; none while its upstream is live.
    pub fn holds(&self) -> Option<bool> {
        self.outcome.map(|outcome| holds(self.when, outcome))
    }
}

/// Returns true if an edge with this condition holds after this outcome.
pub fn holds(when: EdgeCondition, outcome: Outcome) -> bool {
    use Outcome::{Cancelled, Completed, Expired, Failed, Skipped};
    match when {
        EdgeCondition::Success => outcome == Completed,
        EdgeCondition::Failure => matches!(outcome, Failed | Cancelled | Expired),
        EdgeCondition::FailureOrSkipped => matches!(outcome, Failed | Cancelled | Expired | Skipped),
        EdgeCondition::Finished => true,
    }
}

impl ModelFlow {
    pub fn live(&self) -> usize {
        self.nodes.iter().filter(|node| node.is_live()).count()
    }

    /// Returns true if the failure of a node is handled: a downstream behind a failure edge completed, or the node feeds
    /// any-of or quorum joins only, and all of them let their node run.
    fn is_handled(&self, index: usize) -> bool {
        let downstreams = || self.nodes[index].downstreams.iter().map(|to| &self.nodes[*to]);
        let by_handler = downstreams().any(|to| {
            let edge = to.edges.iter().find(|edge| edge.from == index);
            let for_failures = [EdgeCondition::Failure, EdgeCondition::FailureOrSkipped];
            edge.is_some_and(|edge| for_failures.contains(&edge.when))
                && to.outcome() == Some(Outcome::Completed)
        });
        let unneeded = downstreams().all(|to| to.required.is_some() && to.runs == Some(true));
        by_handler || (unneeded && downstreams().count() > 0)
    }

    /// Returns the final state of a flow without live nodes.
    pub fn end(&self) -> FlowState {
        let failed = self.nodes.iter().enumerate().any(|(index, node)| match node.outcome() {
            Some(Outcome::Failed | Outcome::Expired) => !self.is_handled(index),
            Some(Outcome::Cancelled) => node.by_operator && !self.is_handled(index),
            Some(Outcome::Completed | Outcome::Skipped) | None => false,
        });
        match (&self.cancel, failed) {
            (Some(_), _) => FlowState::Cancelled,
            (None, true) => FlowState::Failed,
            (None, false) => FlowState::Completed,
        }
    }
}

impl Reference {
    pub fn node(&self, (flow, index): NodeRef) -> &Node {
        &self.flows[flow].nodes[index]
    }

    pub fn node_mut(&mut self, (flow, index): NodeRef) -> &mut Node {
        &mut self.flows[flow].nodes[index]
    }

    /// Returns all nodes, in the order of their creation.
    pub fn all(&self) -> Vec<NodeRef> {
        let flows = self.flows.iter().enumerate();
        flows.flat_map(|(flow, known)| (0..known.nodes.len()).map(move |index| (flow, index))).collect()
    }

    /// Returns the length of a delay, in microseconds.
    pub fn delay(&self) -> i64 {
        1000 * if self.manual { super::command::DELAY_MS } else { super::command::LONG_MS }
    }

    /// Returns a new node.
    pub fn new_node(&self, id: ExecutionId, spec: &NodeSpec, edges: Vec<Edge>) -> Node {
        let (required, let_run) = match spec.policy {
            PolicySpec::All => (None, true),
            PolicySpec::Any { let_run } => (Some(1), let_run),
            PolicySpec::Quorum { k, let_run } => (Some(k.min(edges.len())), let_run),
        };
        let state = match (edges.is_empty(), spec.delayed) {
            (false, _) => NodeState::WaitingDependencies,
            (true, true) => NodeState::Delayed(self.now + self.delay()),
            (true, false) => NodeState::Waiting,
        };
        Node {
            id,
            spec: spec.clone(),
            required: required.filter(|_| !edges.is_empty()),
            cancels: !let_run,
            edges,
            downstreams: Vec::new(),
            children: Vec::new(),
            parent: None,
            end_awaited: false,
            state,
            generation: 0,
            started: false,
            by_operator: false,
            runs: None,
        }
    }

    /// Ends a node. Enqueues the notification of its parent, if that awaits it, and, unless it completed, the cancellation
    /// of its children.
    pub fn end(&mut self, at: NodeRef, outcome: Outcome) {
        let node = self.node_mut(at);
        node.state = NodeState::Ended(outcome);
        let orphans = node.children.iter().any(|(_, detached)| !detached);
        let is_awaited = std::mem::take(&mut node.end_awaited);
        let parent = node.parent.filter(|_| is_awaited).map(|parent| (OutboxKind::Parent, (at.0, parent)));
        self.changed.insert(at);
        self.outbox.extend(parent);
        if orphans && outcome != Outcome::Completed {
            self.outbox.insert((OutboxKind::Children, at));
        }
    }

    /// Returns true if all attached children of a node have ended.
    pub fn children_ended(&self, at: NodeRef) -> bool {
        self.live_child(at).is_none()
    }

    /// Returns the live attached child of a node that comes first in the order in which children are looked at.
    pub fn live_child(&self, at: NodeRef) -> Option<NodeRef> {
        let attached = self.node(at).children.iter().filter(|(_, detached)| !detached);
        let live = attached.map(|(child, _)| (at.0, *child)).filter(|child| self.node(*child).is_live());
        live.min_by_key(|child| look_key(self.node(*child).id))
    }

    /// Reopens an ended node in a new generation.
    pub fn reopen(&mut self, at: NodeRef, state: NodeState) {
        let node = self.node_mut(at);
        node.state = state;
        node.generation += 1;
        node.started = false;
        node.by_operator = false;
        let parent = node.parent.map(|parent| (OutboxKind::Parent, (at.0, parent)));
        self.changed.insert(at);
        self.outbox.extend(parent);
    }

    /// Applies edge updates to a node and decides its join. Reopens a skipped node that is no longer impossible;
    /// in a cancelled flow it is cancelled at once.
    pub fn update_edges(&mut self, at: NodeRef, updates: &[EdgeUpdate]) {
        let node = self.node_mut(at);
        for (edge, generation, outcome) in updates {
            let counted = node.runs == Some(true) && node.edges[*edge].outcome.is_some();
            let edge = &mut node.edges[*edge];
            if *generation >= edge.generation && !counted {
                (edge.generation, edge.outcome) = (*generation, *outcome);
            }
        }
        let decision = node.decision();
        if node.state == NodeState::Ended(Outcome::Skipped) && decision != Some(false) {
            node.runs = None;
            self.reopen(at, NodeState::WaitingDependencies);
            if self.flows[at.0].cancel.is_some() {
                self.end(at, Outcome::Cancelled);
            }
        }
        self.decide(at);
    }

    /// Decides the join of a node that waits for dependencies, if its edges suffice.
    pub fn decide(&mut self, at: NodeRef) {
        let until = self.now + self.delay();
        let node = self.node_mut(at);
        let Some(runs) = node.decision().filter(|_| node.state == NodeState::WaitingDependencies) else {
            return;
        };
        node.runs = Some(runs);
        let siblings = runs && node.cancels && node.edges.iter().any(|edge| edge.outcome.is_none());
        match (runs, node.spec.delayed) {
            (true, true) => node.state = NodeState::Delayed(until),
            (true, false) => node.state = NodeState::Waiting,
            (false, _) => self.end(at, Outcome::Skipped),
        }
        if siblings {
            self.outbox.insert((OutboxKind::Siblings, at));
        }
    }

    /// Returns the edge updates that a node propagates, by downstream.
    fn edge_updates(&self, at: NodeRef) -> Vec<(NodeRef, EdgeUpdate)> {
        let node = self.node(at);
        let edge = |to: &usize| self.node((at.0, *to)).edges.iter().position(|edge| edge.from == at.1);
        let update = |to: &usize| Some(((at.0, *to), (edge(to)?, node.generation, node.outcome())));
        node.downstreams.iter().filter_map(update).collect()
    }

    /// Propagates the end or reopening of a node to all of its downstreams. Returns the loaded nodes.
    pub fn dispatch_edges(&mut self, at: NodeRef) -> BTreeSet<NodeRef> {
        let updates = self.edge_updates(at);
        for (to, one) in &updates {
            self.update_edges(*to, &[*one]);
        }
        updates.into_iter().map(|(to, _)| to).chain([at]).collect()
    }

    /// Ends the transaction: propagates changed nodes whose downstreams are all loaded, one level far, and enqueues the
    /// rest.
    pub fn commit(&mut self, loaded: &BTreeSet<NodeRef>) {
        let all_loaded = |reference: &Self, at: &NodeRef| {
            reference.node(*at).downstreams.iter().all(|to| loaded.contains(&(at.0, *to)))
        };
        let changed = std::mem::take(&mut self.changed);
        let (propagated, enqueued): (Vec<NodeRef>, Vec<NodeRef>) =
            changed.into_iter().partition(|at| all_loaded(self, at));
        let mut updates: BTreeMap<NodeRef, Vec<EdgeUpdate>> = BTreeMap::new();
        for (to, one) in propagated.into_iter().flat_map(|at| self.edge_updates(at)) {
            updates.entry(to).or_default().push(one);
        }
        for (to, updates) in &updates {
            self.update_edges(*to, updates);
        }
        for at in enqueued.into_iter().chain(std::mem::take(&mut self.changed)) {
            if !self.node(at).downstreams.is_empty() {
                self.outbox.insert((OutboxKind::Edges, at));
            }
        }
        for flow in self.flows.iter_mut().filter(|flow| flow.live() > 0) {
            flow.state = FlowState::Running;
        }
    }

    /// Ends a transaction that has loaded this node and, if `propagate` is true, its downstreams.
    pub fn commit_one(&mut self, at: NodeRef, propagate: bool) {
        let mut loaded = BTreeSet::from([at]);
        if propagate {
            loaded.extend(self.node(at).downstreams.iter().map(|to| (at.0, *to)));
        }
        self.commit(&loaded);
    }
}
