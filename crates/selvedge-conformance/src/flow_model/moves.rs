//! What each command does to the reference model, and what it is answered.

use super::command::{IntoSpec, NodeSpec, Op};
use super::reference::{At, Edge, Known, Left, Node, Place, Reference};
use selvedge_core::flow::FlowState;
use selvedge_core::join::EdgeCondition;
use selvedge_core::outbox::OutboxKind;
use selvedge_core::{ExecutionId, FlowId, Outcome};
use std::collections::BTreeSet;

/// Accepted, or refused with this code.
pub type Answer = Result<(), &'static str>;

/// A node that is added: its id, what it is, and its upstreams by place.
pub type NewNode = (ExecutionId, NodeSpec, Vec<(usize, EdgeCondition)>);

/// Nodes and edges that are added to a flow.
#[derive(Debug)]
pub struct Addition {
    /// The nodes.
    pub nodes: Vec<NewNode>,
    /// Edges into nodes that are there: from, to, when.
    pub into: Vec<(usize, usize, EdgeCondition)>,
}

impl Addition {
    /// The nodes of a call, and edges into what is there. Numbers choose among what comes before.
    pub fn of(there: usize, specs: &[NodeSpec], into: &[IntoSpec], mint: impl Fn() -> ExecutionId) -> Self {
        let mut nodes = Vec::new();
        for (new, spec) in specs.iter().enumerate() {
            let before = there + new;
            let mut upstreams: Vec<(usize, EdgeCondition)> = Vec::new();
            for (back, when) in spec.upstreams.iter().filter(|_| before > 0) {
                let from = before - 1 - back % before;
                if upstreams.iter().all(|(known, _)| *known != from) {
                    upstreams.push((from, *when));
                }
            }
            nodes.push((mint(), spec.clone(), upstreams));
        }
        let all = there + specs.len();
        let mut edges: Vec<(usize, usize, EdgeCondition)> = Vec::new();
        for IntoSpec { from, to, when } in into.iter().filter(|_| there > 0) {
            let (from, to) = (from % all, to % there);
            if from != to && edges.iter().all(|(f, t, _)| (*f, *t) != (from, to)) {
                edges.push((from, to, *when));
            }
        }
        Addition { nodes, into: edges }
    }
}

impl Reference {
    pub fn submit(&mut self, id: FlowId, addition: &Addition) {
        let known = Known { id, nodes: Vec::new(), state: FlowState::Running, cancel: None };
        self.flows.push(known);
        self.add(self.flows.len() - 1, addition, None);
        self.commit(&BTreeSet::new());
    }

    /// Whether nothing may be added to a flow any more.
    fn is_shut(&self, flow: usize) -> bool {
        let known = &self.flows[flow];
        known.cancel.is_some() || known.state != FlowState::Running || known.live() == 0
    }

    pub fn grow(&mut self, flow: usize, addition: &Addition) -> Answer {
        if self.is_shut(flow) {
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
            if node.place != Place::WaitingDependencies {
                return Err("wrong_state");
            }
        }
        let at_hand = self.add(flow, addition, None);
        self.commit(&at_hand);
        Ok(())
    }

    /// Whether one can go along edges, those of the addition included, from a node to another.
    fn reaches(&self, flow: usize, addition: &Addition, from: usize, to: usize) -> bool {
        let there = self.flows[flow].nodes.len();
        let mut open = vec![from];
        let mut seen = BTreeSet::new();
        while let Some(place) = open.pop() {
            if place == to {
                return true;
            }
            if !seen.insert(place) {
                continue;
            }
            if place < there {
                open.extend(&self.node((flow, place)).downstreams);
            }
            let into = addition.into.iter().filter(|(from, _, _)| *from == place).map(|(_, to, _)| *to);
            let new = addition.nodes.iter().enumerate();
            let waiting = new.filter(|(_, (_, _, ups))| ups.iter().any(|(from, _)| *from == place));
            open.extend(into.chain(waiting.map(|(index, _)| there + index)));
        }
        false
    }

    /// Adds nodes, which `parent` spawned or nobody did, and edges. Gives those that are at hand: the new ones, and those
    /// that an edge names.
    fn add(&mut self, flow: usize, addition: &Addition, parent: Option<usize>) -> BTreeSet<At> {
        let there = self.flows[flow].nodes.len();
        for (id, spec, upstreams) in &addition.nodes {
            let edges = upstreams.iter().map(|(from, when)| self.edge(flow, *from, *when)).collect();
            let node = Node { parent, ..self.fresh(*id, spec, edges) };
            self.flows[flow].nodes.push(node);
        }
        let new = addition.nodes.iter().enumerate();
        let mut pairs: Vec<(usize, usize)> = new
            .flat_map(|(index, (_, _, ups))| ups.iter().map(move |(from, _)| (*from, there + index)))
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
        let heard: BTreeSet<usize> =
            pairs.iter().filter(|(from, _)| ended[*from]).map(|(_, to)| *to).collect();
        for to in heard {
            let added: Vec<usize> = pairs.iter().filter(|pair| pair.1 == to).map(|(from, _)| *from).collect();
            let edges = self.node((flow, to)).edges.iter().enumerate();
            let news: Vec<_> = edges
                .filter(|(_, edge)| added.contains(&edge.from) && ended[edge.from])
                .map(|(place, edge)| {
                    let upstream = self.node((flow, edge.from));
                    (place, upstream.generation, upstream.outcome())
                })
                .collect();
            self.hear((flow, to), &news);
        }
        let new = there..self.flows[flow].nodes.len();
        new.chain(pairs.into_iter().flat_map(|(from, to)| [from, to])).map(|place| (flow, place)).collect()
    }

    fn edge(&self, flow: usize, from: usize, when: EdgeCondition) -> Edge {
        let generation = self.flows[flow].nodes.get(from).map_or(0, |node| node.generation);
        Edge { from, when, generation, outcome: None }
    }

    pub fn spawn(&mut self, parent: At, addition: &Addition, detach: bool) -> Answer {
        if self.is_shut(parent.0) {
            return Err("flow_ended");
        }
        let there = self.flows[parent.0].nodes.len();
        let at_hand = self.add(parent.0, addition, Some(parent.1));
        let children = (there..there + addition.nodes.len()).map(|child| (child, detach));
        self.node_mut(parent).children.extend(children);
        self.commit(&at_hand);
        Ok(())
    }

    /// What a worker reports of a lease that is live.
    pub fn report(&mut self, at: At, op: Op, tell: bool) {
        let until = self.now + self.delay();
        match op {
            Op::Complete => self.end(at, Outcome::Completed),
            Op::FailForGood => self.end(at, Outcome::Failed),
            Op::FailForNow | Op::Release => self.node_mut(at).place = Place::Waiting,
            Op::Delay => self.node_mut(at).place = Place::Delayed(until),
            Op::Join if self.has_joined(at) => self.node_mut(at).place = Place::Waiting,
            Op::Join => self.node_mut(at).place = Place::Suspended,
        }
        self.commit_one(at, tell);
    }

    /// A node hears that children of it have ended.
    fn hear_children(&mut self, at: At) -> BTreeSet<At> {
        if self.node(at).place == Place::Suspended && self.has_joined(at) {
            self.node_mut(at).place = Place::Waiting;
        }
        BTreeSet::from([at])
    }

    pub fn cancel(&mut self, at: At, tell: bool) -> Answer {
        match self.node(at).outcome() {
            Some(Outcome::Cancelled) => return Ok(()),
            Some(_) => return Err("already_terminal"),
            None => self.end(at, Outcome::Cancelled),
        }
        self.commit_one(at, tell);
        Ok(())
    }

    pub fn replay(&mut self, at: At, tell: bool) -> Answer {
        let draining = self.flows[at.0].cancel.is_some_and(|(_, draining)| draining);
        if matches!(self.node(at).outcome(), None | Some(Outcome::Skipped)) || draining {
            return Err("wrong_state");
        }
        let flow = &mut self.flows[at.0];
        (flow.cancel, flow.state) = (None, FlowState::Running);
        let node = self.node(at);
        let waits = !node.edges.is_empty() && node.runs.is_none();
        self.open(at, if waits { Place::WaitingDependencies } else { Place::Waiting });
        self.decide(at);
        self.commit_one(at, tell);
        Ok(())
    }

    /// Its deadline passes, if it has one: at once.
    pub fn expire(&mut self, at: At, tell: bool) -> bool {
        let due = self.node(at).spec.expires && self.node(at).is_live();
        if due {
            self.end(at, Outcome::Expired);
            self.commit_one(at, tell);
        }
        due
    }

    /// Its lease lapses, if its first term is over; nobody renews any.
    pub fn lapse(&mut self, at: At, tell: bool) -> bool {
        let Place::Active { claimed_at, .. } = self.node(at).place else { return false };
        if claimed_at + super::command::TTL_MS * 1000 > self.now {
            return false;
        }
        match self.node(at).spec.fragile {
            true => self.end(at, Outcome::Expired),
            false => self.node_mut(at).place = Place::Waiting,
        }
        self.commit_one(at, tell);
        true
    }

    /// Its delay ends, if it is over and its deadline does not come first.
    pub fn delay_over(&mut self, at: At) -> bool {
        let now = self.now;
        let node = self.node_mut(at);
        let due = matches!(node.place, Place::Delayed(until) if until <= now) && !node.spec.expires;
        if due {
            node.place = Place::Waiting;
        }
        due
    }

    pub fn cancel_flow(&mut self, flow: usize, pending: bool) -> Answer {
        let known = &mut self.flows[flow];
        let ended = known.state != FlowState::Running || known.live() == 0;
        match known.cancel {
            Some((asked, _)) if !asked || asked == pending || ended => Ok(()),
            None if ended => Err("flow_ended"),
            Some(_) | None => {
                known.cancel = Some((pending, true));
                self.left.insert((OutboxKind::Flow, (flow, 0)));
                Ok(())
            }
        }
    }

    /// Settles a flow, if that is to be done.
    pub fn settle(&mut self, flow: usize) -> Option<FlowState> {
        let known = &mut self.flows[flow];
        if known.state != FlowState::Running || known.live() > 0 {
            return None;
        }
        known.state = known.end();
        Some(known.state)
    }

    /// Does what is left; says whether it was.
    pub fn dispatch(&mut self, left: Left) -> bool {
        if !self.left.remove(&left) {
            return false;
        }
        let (kind, at) = left;
        let at_hand = match kind {
            OutboxKind::Edges => self.dispatch_edges(at),
            OutboxKind::Siblings => self.cancel_siblings(at),
            OutboxKind::Children => self.cancel_children(at),
            OutboxKind::Flow => self.cancel_members(at.0),
            OutboxKind::Parent => self.hear_children(at),
        };
        self.commit(&at_hand);
        true
    }

    fn end_if_live(&mut self, at: At) {
        if self.node(at).is_live() {
            self.end(at, Outcome::Cancelled);
        }
    }

    /// Cancels the open upstreams of a group that is satisfied, but for those that another group which has not decided
    /// waits for.
    fn cancel_siblings(&mut self, at: At) -> BTreeSet<At> {
        let group = self.node(at);
        let open = group.edges.iter().filter(|edge| edge.outcome.is_none()).map(|edge| (at.0, edge.from));
        let open: Vec<At> = open.collect();
        let satisfied = group.runs == Some(true);
        let mut at_hand = BTreeSet::from([at]);
        for sibling in open {
            at_hand.insert(sibling);
            let mut others = self.node(sibling).downstreams.iter().map(|to| (at.0, *to));
            let needed =
                others.any(|other| other != at && self.node(other).place == Place::WaitingDependencies);
            if satisfied && !needed {
                self.end_if_live(sibling);
            }
        }
        at_hand
    }

    fn cancel_children(&mut self, at: At) -> BTreeSet<At> {
        let parent = self.node(at);
        let attached =
            parent.children.iter().filter(|(_, detached)| !detached).map(|(child, _)| (at.0, *child));
        let attached: Vec<At> = attached.collect();
        if parent.outcome().is_some_and(|outcome| outcome != Outcome::Completed) {
            attached.iter().for_each(|child| self.end_if_live(*child));
        }
        attached.into_iter().chain([at]).collect()
    }

    fn cancel_members(&mut self, flow: usize) -> BTreeSet<At> {
        let members: Vec<At> = (0..self.flows[flow].nodes.len()).map(|place| (flow, place)).collect();
        if let Some((pending, draining)) = &mut self.flows[flow].cancel {
            *draining = false;
            let pending = *pending;
            for member in &members {
                let node = self.node(*member);
                let unstarted = !node.started && !matches!(node.place, Place::Active { .. });
                if !pending || unstarted {
                    self.end_if_live(*member);
                }
            }
        }
        members.into_iter().collect()
    }
}
