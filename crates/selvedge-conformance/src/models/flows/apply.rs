//! Applies the commands to the reference model, and returns the expected replies.

use super::command::{EdgeSpec, NodeSpec, ReportKind};
use super::reference::{Edge, ModelFlow, Node, NodeRef, NodeState, OutboxEntry, Reference};
use selvedge_core::flow::FlowState;
use selvedge_core::join::EdgeCondition;
use selvedge_core::outbox::OutboxKind;
use selvedge_core::{ExecutionId, FlowId, Outcome};
use std::collections::BTreeSet;

/// The expected reply: accepted, or refused with this code.
pub type Answer = Result<(), &'static str>;

/// A new node: its id, its spec, and its upstreams by index.
pub type NewNode = (ExecutionId, NodeSpec, Vec<(usize, EdgeCondition)>);

/// Nodes and edges that are added to a flow.
#[derive(Debug)]
pub struct Addition {
    pub nodes: Vec<NewNode>,
    /// Edges into existing nodes: from, to, condition.
    pub into: Vec<(usize, usize, EdgeCondition)>,
}

impl Addition {
    /// Resolves specs: each number chooses among the nodes before it.
    pub fn of(
        existing: usize,
        specs: &[NodeSpec],
        into: &[EdgeSpec],
        new_id: impl Fn() -> ExecutionId,
    ) -> Self {
        let mut nodes = Vec::new();
        for (new, spec) in specs.iter().enumerate() {
            let before = existing + new;
            let mut upstreams: Vec<(usize, EdgeCondition)> = Vec::new();
            for (back, when) in spec.upstreams.iter().filter(|_| before > 0) {
                let from = before - 1 - back % before;
                if upstreams.iter().all(|(known, _)| *known != from) {
                    upstreams.push((from, *when));
                }
            }
            nodes.push((new_id(), spec.clone(), upstreams));
        }
        let all = existing + specs.len();
        let mut edges: Vec<(usize, usize, EdgeCondition)> = Vec::new();
        for EdgeSpec { from, to, when } in into.iter().filter(|_| existing > 0) {
            let (from, to) = (from % all, to % existing);
            if from != to && edges.iter().all(|(f, t, _)| (*f, *t) != (from, to)) {
                edges.push((from, to, *when));
            }
        }
        Addition { nodes, into: edges }
    }
}

impl Reference {
    pub fn submit(&mut self, id: FlowId, addition: &Addition) {
        let known = ModelFlow { id, nodes: Vec::new(), state: FlowState::Running, cancel: None };
        self.flows.push(known);
        self.add(self.flows.len() - 1, addition, None);
        self.commit(&BTreeSet::new());
    }

    /// Returns true if the flow accepts no more nodes.
    fn is_closed(&self, flow: usize) -> bool {
        let known = &self.flows[flow];
        known.cancel.is_some() || known.state != FlowState::Running || known.live() == 0
    }

    pub fn grow(&mut self, flow: usize, addition: &Addition) -> Answer {
        if self.is_closed(flow) {
            return Err("flow_ended");
        }
        if addition.into.iter().any(|(from, to, _)| self.reaches(flow, addition, *to, *from)) {
            return Err("cycle");
        }
        for (from, to, _) in &addition.into {
            let node = self.node((flow, *to));
            if node.edges.iter().any(|edge| edge.from == *from) {
                return Err("invalid_field");
            }
            if node.state != NodeState::WaitingDependencies {
                return Err("wrong_state");
            }
        }
        let loaded = self.add(flow, addition, None);
        self.commit(&loaded);
        Ok(())
    }

    /// Returns true if a path of edges, including those of the addition, leads from one node to another.
    fn reaches(&self, flow: usize, addition: &Addition, from: usize, to: usize) -> bool {
        let existing = self.flows[flow].nodes.len();
        let mut open = vec![from];
        let mut seen = BTreeSet::new();
        while let Some(index) = open.pop() {
            if index == to {
                return true;
            }
            if !seen.insert(index) {
                continue;
            }
            if index < existing {
                open.extend(&self.node((flow, index)).downstreams);
            }
            let into = addition.into.iter().filter(|(from, _, _)| *from == index).map(|(_, to, _)| *to);
            let new = addition.nodes.iter().enumerate();
            let waiting = new.filter(|(_, (_, _, ups))| ups.iter().any(|(from, _)| *from == index));
            open.extend(into.chain(waiting.map(|(index, _)| existing + index)));
        }
        false
    }

    /// Adds nodes, spawned by `parent` if there is one, and edges. Returns the nodes that the transaction has loaded:
    /// the new ones and those that an edge names.
    fn add(&mut self, flow: usize, addition: &Addition, parent: Option<usize>) -> BTreeSet<NodeRef> {
        let existing = self.flows[flow].nodes.len();
        for (id, spec, upstreams) in &addition.nodes {
            let edges = upstreams.iter().map(|(from, when)| self.edge(flow, *from, *when)).collect();
            let node = Node { parent, ..self.new_node(*id, spec, edges) };
            self.flows[flow].nodes.push(node);
        }
        let new = addition.nodes.iter().enumerate();
        let mut pairs: Vec<(usize, usize)> = new
            .flat_map(|(index, (_, _, ups))| ups.iter().map(move |(from, _)| (*from, existing + index)))
            .collect();
        for (from, to, when) in &addition.into {
            let edge = self.edge(flow, *from, *when);
            self.node_mut((flow, *to)).edges.push(edge);
            pairs.push((*from, *to));
        }
        for (from, to) in &pairs {
            self.node_mut((flow, *from)).downstreams.push(*to);
        }
        let ended: Vec<bool> = self.flows[flow].nodes.iter().map(|node| !node.is_live()).collect();
        let resolved: BTreeSet<usize> =
            pairs.iter().filter(|(from, _)| ended[*from]).map(|(_, to)| *to).collect();
        for to in resolved {
            let added: Vec<usize> = pairs.iter().filter(|pair| pair.1 == to).map(|(from, _)| *from).collect();
            let edges = self.node((flow, to)).edges.iter().enumerate();
            let updates: Vec<_> = edges
                .filter(|(_, edge)| added.contains(&edge.from) && ended[edge.from])
                .map(|(index, edge)| {
                    let upstream = self.node((flow, edge.from));
                    (index, upstream.generation, upstream.outcome())
                })
                .collect();
            self.update_edges((flow, to), &updates);
        }
        let new = existing..self.flows[flow].nodes.len();
        new.chain(pairs.into_iter().flat_map(|(from, to)| [from, to])).map(|index| (flow, index)).collect()
    }

    fn edge(&self, flow: usize, from: usize, when: EdgeCondition) -> Edge {
        let generation = self.flows[flow].nodes.get(from).map_or(0, |node| node.generation);
        Edge { from, when, generation, outcome: None }
    }

    pub fn spawn(&mut self, parent: NodeRef, addition: &Addition, detach: bool) -> Answer {
        if self.is_closed(parent.0) {
            return Err("flow_ended");
        }
        let existing = self.flows[parent.0].nodes.len();
        let loaded = self.add(parent.0, addition, Some(parent.1));
        let children = (existing..existing + addition.nodes.len()).map(|child| (child, detach));
        self.node_mut(parent).children.extend(children);
        self.commit(&loaded);
        Ok(())
    }

    /// Applies a report of a live lease.
    pub fn report(&mut self, at: NodeRef, op: ReportKind, propagate: bool) {
        let until = self.now + self.delay();
        match op {
            ReportKind::Complete => self.end(at, Outcome::Completed),
            ReportKind::FailPermanently => self.end(at, Outcome::Failed),
            ReportKind::FailTransiently | ReportKind::Release => self.node_mut(at).state = NodeState::Waiting,
            ReportKind::Delay => self.node_mut(at).state = NodeState::Delayed(until),
            ReportKind::AwaitChildren if self.children_ended(at) => {
                self.node_mut(at).state = NodeState::Waiting
            }
            ReportKind::AwaitChildren => {
                self.node_mut(at).state = NodeState::Suspended;
                self.outbox.insert((OutboxKind::Parent, at));
            }
        }
        self.commit_one(at, propagate);
    }

    /// Awaits the end of a child of a suspended node, or resumes the node if all children have ended.
    fn notify_parent(&mut self, at: NodeRef) -> BTreeSet<NodeRef> {
        if self.node(at).state == NodeState::Suspended {
            match self.live_child(at) {
                Some(child) => self.node_mut(child).end_awaited = true,
                None => self.node_mut(at).state = NodeState::Waiting,
            }
        }
        BTreeSet::from([at])
    }

    pub fn cancel(&mut self, at: NodeRef, propagate: bool) -> Answer {
        match self.node(at).outcome() {
            Some(Outcome::Cancelled) => return Ok(()),
            Some(_) => return Err("already_terminal"),
            None => self.end(at, Outcome::Cancelled),
        }
        self.node_mut(at).by_operator = true;
        self.commit_one(at, propagate);
        Ok(())
    }

    pub fn replay(&mut self, at: NodeRef, propagate: bool) -> Answer {
        let draining = self.flows[at.0].cancel.is_some_and(|(_, draining)| draining);
        if matches!(self.node(at).outcome(), None | Some(Outcome::Skipped)) || draining {
            return Err("wrong_state");
        }
        let flow = &mut self.flows[at.0];
        (flow.cancel, flow.state) = (None, FlowState::Running);
        let node = self.node(at);
        let waits = !node.edges.is_empty() && node.runs.is_none();
        self.reopen(at, if waits { NodeState::WaitingDependencies } else { NodeState::Waiting });
        self.decide(at);
        self.commit_one(at, propagate);
        Ok(())
    }

    /// Expires a live node that has a deadline. Deadlines pass at once.
    pub fn pass_deadline(&mut self, at: NodeRef, propagate: bool) -> bool {
        let due = self.node(at).spec.expires && self.node(at).is_live();
        if due {
            self.end(at, Outcome::Expired);
            self.commit_one(at, propagate);
        }
        due
    }

    /// Expires the lease of a node if its first term is over. No lease is renewed.
    pub fn expire_lease(&mut self, at: NodeRef, propagate: bool) -> bool {
        let NodeState::Active { claimed_at, .. } = self.node(at).state else { return false };
        if claimed_at + super::command::TTL_MS * 1000 > self.now {
            return false;
        }
        match self.node(at).spec.fragile {
            true => self.end(at, Outcome::Expired),
            false => self.node_mut(at).state = NodeState::Waiting,
        }
        self.commit_one(at, propagate);
        true
    }

    /// Ends the delay of a node if it is over. A deadline takes precedence.
    pub fn delay_over(&mut self, at: NodeRef) -> bool {
        let now = self.now;
        let node = self.node_mut(at);
        let due = matches!(node.state, NodeState::Delayed(until) if until <= now) && !node.spec.expires;
        if due {
            node.state = NodeState::Waiting;
        }
        due
    }

    pub fn cancel_flow(&mut self, flow: usize, pending: bool) -> Answer {
        let known = &mut self.flows[flow];
        let ended = known.state != FlowState::Running || known.live() == 0;
        match known.cancel {
            Some((before, _)) if !before || before == pending || ended => Ok(()),
            None if ended => Err("flow_ended"),
            Some(_) | None => {
                known.cancel = Some((pending, true));
                self.outbox.insert((OutboxKind::Flow, (flow, 0)));
                Ok(())
            }
        }
    }

    /// Settles a flow if it is running and has no live node.
    pub fn settle(&mut self, flow: usize) -> Option<FlowState> {
        let known = &mut self.flows[flow];
        if known.state != FlowState::Running || known.live() > 0 {
            return None;
        }
        known.state = known.end();
        Some(known.state)
    }

    /// Dispatches an outbox entry. Returns false if it does not exist.
    pub fn dispatch(&mut self, entry: OutboxEntry) -> bool {
        if !self.outbox.remove(&entry) {
            return false;
        }
        let (kind, at) = entry;
        let loaded = match kind {
            OutboxKind::Edges => self.dispatch_edges(at),
            OutboxKind::Siblings => self.cancel_siblings(at),
            OutboxKind::Children => self.cancel_children(at),
            OutboxKind::Flow => self.cancel_members(at.0),
            OutboxKind::Parent => self.notify_parent(at),
        };
        self.commit(&loaded);
        true
    }

    fn cancel_if_live(&mut self, at: NodeRef) {
        if self.node(at).is_live() {
            self.end(at, Outcome::Cancelled);
        }
    }

    /// Cancels the pending upstreams of a satisfied join, except those that an undecided join still waits for.
    fn cancel_siblings(&mut self, at: NodeRef) -> BTreeSet<NodeRef> {
        let node = self.node(at);
        let open = node.edges.iter().filter(|edge| edge.outcome.is_none()).map(|edge| (at.0, edge.from));
        let open: Vec<NodeRef> = open.collect();
        let satisfied = node.runs == Some(true);
        let mut loaded = BTreeSet::from([at]);
        for sibling in open {
            loaded.insert(sibling);
            let mut others = self.node(sibling).downstreams.iter().map(|to| (at.0, *to));
            let needed =
                others.any(|other| other != at && self.node(other).state == NodeState::WaitingDependencies);
            if satisfied && !needed {
                self.cancel_if_live(sibling);
            }
        }
        loaded
    }

    fn cancel_children(&mut self, at: NodeRef) -> BTreeSet<NodeRef> {
        let parent = self.node(at);
        let attached =
            parent.children.iter().filter(|(_, detached)| !detached).map(|(child, _)| (at.0, *child));
        let attached: Vec<NodeRef> = attached.collect();
        if parent.outcome().is_some_and(|outcome| outcome != Outcome::Completed) {
            attached.iter().for_each(|child| self.cancel_if_live(*child));
        }
        attached.into_iter().chain([at]).collect()
    }

    fn cancel_members(&mut self, flow: usize) -> BTreeSet<NodeRef> {
        let members: Vec<NodeRef> = (0..self.flows[flow].nodes.len()).map(|index| (flow, index)).collect();
        if let Some((pending, draining)) = &mut self.flows[flow].cancel {
            *draining = false;
            let pending = *pending;
            for member in &members {
                let node = self.node(*member);
                let unstarted = !node.started && !matches!(node.state, NodeState::Active { .. });
                if !pending || unstarted {
                    self.cancel_if_live(*member);
                }
            }
        }
        members.into_iter().collect()
    }
}
