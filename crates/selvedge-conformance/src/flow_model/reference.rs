//! The reference model of flows: what the specification says of edges, groups, siblings, children and the end of a flow,
//! in the plainest words. It calls no rule of core.
//!
//! UpstreamChange of an upstream reaches its downstreams in the transaction that turned it, where that has them all at hand; else
//! it is left, and the model is told when it is dispatched. Every decision is made from outcomes.

use super::command::{NodeSpec, Policy};
use selvedge_core::flow::FlowState;
use selvedge_core::join::EdgeCondition;
use selvedge_core::outbox::OutboxKind;
use selvedge_core::rules::report::Fence;
use selvedge_core::{ExecutionId, FlowId, Outcome};
use std::collections::{BTreeMap, BTreeSet};

/// Names a node: its flow and its place there.
pub type At = (usize, usize);
/// UpstreamChange for one edge, by its place: the generation of its upstream, and how that ended.
pub type UpstreamChange = (usize, u32, Option<Outcome>);

/// Where a node stands.
#[derive(Clone, Debug, PartialEq)]
pub enum Place {
    WaitingDependencies,
    Waiting,
    Delayed(i64),
    Active {
        fence: Fence,
        claimed_at: i64,
    },
    /// It waits for its children.
    Suspended,
    Ended(Outcome),
}

/// An edge into a node: what it has heard of its upstream.
#[derive(Clone, Debug)]
pub struct Edge {
    pub from: usize,
    pub when: EdgeCondition,
    pub generation: u32,
    pub outcome: Option<Outcome>,
}

/// A node.
#[derive(Clone, Debug)]
pub struct Node {
    pub id: ExecutionId,
    pub spec: NodeSpec,
    pub edges: Vec<Edge>,
    /// How many edges must hold, of those that its policy was made for; none for all.
    pub wanted: Option<usize>,
    pub cancels: bool,
    pub downstreams: Vec<usize>,
    pub children: Vec<(usize, bool)>,
    pub parent: Option<usize>,
    pub place: Place,
    pub generation: u32,
    pub started: bool,
    /// Whether it runs, once that was decided.
    pub runs: Option<bool>,
}

/// A flow.
#[derive(Clone, Debug)]
pub struct Known {
    pub id: FlowId,
    pub nodes: Vec<Node>,
    pub state: FlowState,
    /// A cancel: whether only of what is pending, and whether members are still to be cancelled.
    pub cancel: Option<(bool, bool)>,
}

/// What is left to be done. A flow's own work stands at the place of its first node.
pub type Left = (OutboxKind, At);

/// Everything that is known.
#[derive(Debug, Default)]
pub struct Reference {
    pub now: i64,
    pub manual: bool,
    pub flows: Vec<Known>,
    pub left: BTreeSet<Left>,
    /// Ended or opened again by the transaction under way.
    pub turned: BTreeSet<At>,
}

impl Node {
    pub fn outcome(&self) -> Option<Outcome> {
        match self.place {
            Place::Ended(outcome) => Some(outcome),
            Place::WaitingDependencies
            | Place::Waiting
            | Place::Delayed(_)
            | Place::Active { .. }
            | Place::Suspended => None,
        }
    }

    pub fn is_live(&self) -> bool {
        self.outcome().is_none()
    }

    /// Whether it runs, as its edges say; none where that is open.
    fn verdict(&self) -> Option<bool> {
        let holding = self.edges.iter().filter(|edge| edge.holds() == Some(true)).count();
        let open = self.edges.iter().filter(|edge| edge.outcome.is_none()).count();
        let wanted = self.wanted.unwrap_or(self.edges.len());
        match holding >= wanted {
            true => Some(true),
            false => (holding + open < wanted).then_some(false),
        }
    }
}

impl Edge {
    /// Whether it holds, once its upstream has ended.
    pub fn holds(&self) -> Option<bool> {
        self.outcome.map(|outcome| holds(self.when, outcome))
    }
}

/// Whether an edge with this condition holds after this outcome.
pub fn holds(when: EdgeCondition, outcome: Outcome) -> bool {
    use Outcome::{Cancelled, Completed, Expired, Failed};
    match when {
        EdgeCondition::Success => outcome == Completed,
        EdgeCondition::Failure => matches!(outcome, Failed | Cancelled | Expired),
        EdgeCondition::Finished => true,
    }
}

impl Known {
    pub fn live(&self) -> usize {
        self.nodes.iter().filter(|node| node.is_live()).count()
    }

    /// Whether something made up for the failure of a node: an edge that holds, or a group of some that is satisfied.
    fn is_made_up_for(&self, place: usize, outcome: Outcome) -> bool {
        self.nodes[place].downstreams.iter().map(|to| &self.nodes[*to]).any(|to| {
            let edge = to.edges.iter().find(|edge| edge.from == place);
            edge.is_some_and(|edge| holds(edge.when, outcome))
                || (to.wanted.is_some() && to.runs == Some(true))
        })
    }

    /// How it ends, now that nothing is live.
    pub fn end(&self) -> FlowState {
        let failed = self.nodes.iter().enumerate().any(|(place, node)| match node.outcome() {
            Some(outcome @ (Outcome::Failed | Outcome::Expired)) => !self.is_made_up_for(place, outcome),
            Some(Outcome::Completed | Outcome::Cancelled | Outcome::Skipped) | None => false,
        });
        match (&self.cancel, failed) {
            (Some(_), _) => FlowState::Cancelled,
            (None, true) => FlowState::Failed,
            (None, false) => FlowState::Completed,
        }
    }
}

impl Reference {
    pub fn node(&self, (flow, place): At) -> &Node {
        &self.flows[flow].nodes[place]
    }

    pub fn node_mut(&mut self, (flow, place): At) -> &mut Node {
        &mut self.flows[flow].nodes[place]
    }

    /// Every node, in the order in which they came.
    pub fn all(&self) -> Vec<At> {
        let flows = self.flows.iter().enumerate();
        flows.flat_map(|(flow, known)| (0..known.nodes.len()).map(move |place| (flow, place))).collect()
    }

    /// How long a delay lasts, in microseconds.
    pub fn delay(&self) -> i64 {
        1000 * if self.manual { super::command::DELAY_MS } else { super::command::LONG_MS }
    }

    /// A node that is not there yet.
    pub fn fresh(&self, id: ExecutionId, spec: &NodeSpec, edges: Vec<Edge>) -> Node {
        let (wanted, let_run) = match spec.policy {
            Policy::All => (None, true),
            Policy::Any { let_run } => (Some(1), let_run),
            Policy::Quorum { k, let_run } => (Some(k.min(edges.len())), let_run),
        };
        let place = match (edges.is_empty(), spec.delayed) {
            (false, _) => Place::WaitingDependencies,
            (true, true) => Place::Delayed(self.now + self.delay()),
            (true, false) => Place::Waiting,
        };
        Node {
            id,
            spec: spec.clone(),
            wanted: wanted.filter(|_| !edges.is_empty()),
            cancels: !let_run,
            edges,
            downstreams: Vec::new(),
            children: Vec::new(),
            parent: None,
            place,
            generation: 0,
            started: false,
            runs: None,
        }
    }

    /// Ends a node. Children go with it unless it succeeded, and whoever spawned it is to be told.
    pub fn end(&mut self, at: At, outcome: Outcome) {
        let node = self.node_mut(at);
        node.place = Place::Ended(outcome);
        let orphans = node.children.iter().any(|(_, detached)| !detached);
        let parent = node.parent.map(|parent| (OutboxKind::Parent, (at.0, parent)));
        self.turned.insert(at);
        self.left.extend(parent);
        if orphans && outcome != Outcome::Completed {
            self.left.insert((OutboxKind::Children, at));
        }
    }

    /// Whether all children of a node have ended, those aside that were spawned detached.
    pub fn has_joined(&self, at: At) -> bool {
        let mut attached = self.node(at).children.iter().filter(|(_, detached)| !detached);
        attached.all(|(child, _)| !self.node((at.0, *child)).is_live())
    }

    /// Opens a node again that had ended: in a new generation.
    pub fn open(&mut self, at: At, place: Place) {
        let node = self.node_mut(at);
        node.place = place;
        node.generation += 1;
        node.started = false;
        self.turned.insert(at);
    }

    /// A node hears of upstreams.
    pub fn hear(&mut self, at: At, news: &[UpstreamChange]) {
        let node = self.node_mut(at);
        for (edge, generation, outcome) in news {
            let counted = node.runs == Some(true) && node.edges[*edge].outcome.is_some();
            let edge = &mut node.edges[*edge];
            if *generation >= edge.generation && !counted {
                (edge.generation, edge.outcome) = (*generation, *outcome);
            }
        }
        let verdict = node.verdict();
        if node.place == Place::Ended(Outcome::Skipped) && verdict != Some(false) {
            node.runs = None;
            self.open(at, Place::WaitingDependencies);
        }
        self.decide(at);
    }

    /// A node that waits runs or is skipped, if its edges say so.
    pub fn decide(&mut self, at: At) {
        let until = self.now + self.delay();
        let node = self.node_mut(at);
        let Some(runs) = node.verdict().filter(|_| node.place == Place::WaitingDependencies) else { return };
        node.runs = Some(runs);
        let siblings = runs && node.cancels && node.edges.iter().any(|edge| edge.outcome.is_none());
        match (runs, node.spec.delayed) {
            (true, true) => node.place = Place::Delayed(until),
            (true, false) => node.place = Place::Waiting,
            (false, _) => self.end(at, Outcome::Skipped),
        }
        if siblings {
            self.left.insert((OutboxKind::Siblings, at));
        }
    }

    /// What a node tells each of its downstreams.
    fn news(&self, at: At) -> Vec<(At, UpstreamChange)> {
        let node = self.node(at);
        let edge = |to: &usize| self.node((at.0, *to)).edges.iter().position(|edge| edge.from == at.1);
        let tell = |to: &usize| Some(((at.0, *to), (edge(to)?, node.generation, node.outcome())));
        node.downstreams.iter().filter_map(tell).collect()
    }

    /// A completion, or an opening, is dispatched.
    pub fn dispatch_edges(&mut self, at: At) -> BTreeSet<At> {
        let news = self.news(at);
        for (to, one) in &news {
            self.hear(*to, &[*one]);
        }
        news.into_iter().map(|(to, _)| to).chain([at]).collect()
    }

    /// The transaction ends: what it turned is told where all downstreams are at hand, one hop far. The rest is left.
    pub fn commit(&mut self, at_hand: &BTreeSet<At>) {
        let told = |reference: &Self, at: &At| {
            reference.node(*at).downstreams.iter().all(|to| at_hand.contains(&(at.0, *to)))
        };
        let turned = std::mem::take(&mut self.turned);
        let (telling, left): (Vec<At>, Vec<At>) = turned.into_iter().partition(|at| told(self, at));
        let mut news: BTreeMap<At, Vec<UpstreamChange>> = BTreeMap::new();
        for (to, one) in telling.into_iter().flat_map(|at| self.news(at)) {
            news.entry(to).or_default().push(one);
        }
        for (to, news) in &news {
            self.hear(*to, news);
        }
        for at in left.into_iter().chain(std::mem::take(&mut self.turned)) {
            if !self.node(at).downstreams.is_empty() {
                self.left.insert((OutboxKind::Edges, at));
            }
        }
        for flow in self.flows.iter_mut().filter(|flow| flow.live() > 0) {
            flow.state = FlowState::Running;
        }
    }

    /// The transaction ends with only this node at hand, or with its downstreams too.
    pub fn commit_one(&mut self, at: At, tell: bool) {
        let mut at_hand = BTreeSet::from([at]);
        if tell {
            at_hand.extend(self.node(at).downstreams.iter().map(|to| (at.0, *to)));
        }
        self.commit(&at_hand);
    }
}
