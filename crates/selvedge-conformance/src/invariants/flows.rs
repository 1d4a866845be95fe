//! The invariants of flows, checked over all rows of a store without writers.
//!
//! Every edge is listed at both of its ends and resolved once, by the outcome of its upstream in the generation that it
//! names; an outcome that it does not reflect yet is in the outbox. The decision of a join is its policy applied to its
//! edges, and no execution both ran and was skipped. A flow's counts, state and node names are those of its members.
//! The meaning of the policies and of the end of a flow is implemented here a second time, from the specification.

use crate::harness::runner::load_rows;
use selvedge_core::flow::{Counts, FlowFilter, FlowListPosition, FlowState};
use selvedge_core::join::{Edge, EdgeCondition, GroupDecision, Join, JoinPolicy, Resolution};
use selvedge_core::outbox::{OutboxKind, OutboxName};
use selvedge_core::rows::Members;
use selvedge_core::state::StateName;
use selvedge_core::table::Request;
use selvedge_core::{Execution, ExecutionId, Flow, FlowId, Name, Needs, Outcome, State};
use selvedge_store::{ReconcilerScope, Store};
use std::collections::{BTreeMap, BTreeSet, HashMap};

use uuid::Uuid;

/// The outcome of each generation that ended, by execution.
pub(super) type Outcomes = HashMap<ExecutionId, BTreeMap<u32, Outcome>>;

/// All rows that the checks compare.
struct Snapshot<'a> {
    rows: &'a BTreeMap<ExecutionId, Execution>,
    outcomes: &'a Outcomes,
    /// The rows of the outbox, each with the position up to which it is done.
    outbox: HashMap<OutboxName, u32>,
    flows: BTreeMap<FlowId, Flow>,
}

/// Returns the violations in the flows of a store.
pub(super) async fn check(
    store: &dyn Store,
    rows: &BTreeMap<ExecutionId, Execution>,
    outcomes: &Outcomes,
) -> Vec<String> {
    let all = Snapshot { rows, outcomes, outbox: read_outbox(store).await, flows: read_flows(store).await };
    let mut violations = Vec::new();
    for row in rows.values() {
        let Some(flow) = row.flow else {
            if row.wiring.is_some() || row.join.is_some() {
                violations.push(format!("{}: it has wiring and no flow", row.id));
            }
            continue;
        };
        let wrong = match all.flows.get(&flow).filter(|flow| flow.namespace == row.namespace) {
            None => vec![format!("its flow {flow} does not exist")],
            Some(flow) if flow.detail.deleting => vec![],
            Some(_) => all.check_row(row),
        };
        violations.extend(wrong.into_iter().map(|what| format!("{}: {what}", row.id)));
    }
    for flow in all.flows.values() {
        let wrong = all.check_flow(store, flow).await;
        violations.extend(wrong.into_iter().map(|what| format!("flow {}: {what}", flow.id)));
    }
    violations
}

async fn read_outbox(store: &dyn Store) -> HashMap<OutboxName, u32> {
    let mut outbox = HashMap::new();
    for kind in OutboxKind::ALL {
        let mut after: Option<(selvedge_core::Timestamp, Uuid)> = None;
        loop {
            let page =
                store.outbox(&ReconcilerScope::ALL, kind, 0, after, 500).await.expect("the outbox is read");
            let Some(last) = page.last() else { break };
            after = Some((last.at, last.name.id));
            outbox.extend(page.into_iter().map(|row| (row.name, row.position)));
        }
    }
    outbox
}

async fn read_flows(store: &dyn Store) -> BTreeMap<FlowId, Flow> {
    let mut flows = BTreeMap::new();
    for (namespace, _) in store.namespaces().await.expect("namespaces are read") {
        let (filter, mut after) = (FlowFilter::all(namespace), None);
        loop {
            let page = store.list_flows(&filter, after, 500).await.expect("flows are listed");
            let Some(last) = page.last() else { break };
            after = Some(FlowListPosition { submitted_at: last.submitted_at, id: last.id });
            flows.extend(page.into_iter().map(|flow| (flow.id, flow)));
        }
    }
    flows
}

/// Returns the executions that have these names in a flow.
async fn read_nodes(store: &dyn Store, flow: FlowId, names: Vec<Name>) -> BTreeSet<(Name, ExecutionId)> {
    let nodes: Vec<(FlowId, Name)> = names.into_iter().map(|name| (flow, name)).collect();
    let rows = load_rows(store, Needs { nodes: Request::reading(nodes), ..Needs::default() }).await;
    rows.nodes.into_iter().map(|(_, name, id)| (name, id)).collect()
}

/// Returns the decision of a policy for these numbers of edges that hold, are dead and are pending.
fn decide(policy: JoinPolicy, holds: usize, dead: usize, pending: usize) -> GroupDecision {
    let (satisfied, impossible) = match policy {
        JoinPolicy::AllOf => (dead + pending == 0, dead > 0),
        JoinPolicy::AnyOf { .. } => (holds > 0, holds + pending == 0),
        JoinPolicy::Quorum { k, .. } => (holds >= k as usize, holds + pending < k as usize),
    };
    match (satisfied, impossible) {
        (true, _) => GroupDecision::Satisfied,
        (false, true) => GroupDecision::Impossible,
        (false, false) => GroupDecision::Pending,
    }
}

/// Returns the resolution of an edge by the outcome of its upstream.
fn resolution(when: EdgeCondition, outcome: Outcome) -> Resolution {
    let holds = match (when, outcome) {
        (EdgeCondition::Success, Outcome::Completed) => true,
        (EdgeCondition::Failure, Outcome::Failed | Outcome::Cancelled | Outcome::Expired) => true,
        (EdgeCondition::FailureOrSkipped, Outcome::Completed) => false,
        (EdgeCondition::Finished | EdgeCondition::FailureOrSkipped, _) => true,
        (EdgeCondition::Success | EdgeCondition::Failure, _) => false,
    };
    if holds { Resolution::Holds } else { Resolution::Dead }
}

impl Snapshot<'_> {
    fn check_row(&self, row: &Execution) -> Vec<String> {
        let wiring = row.wiring();
        let mut violations = Vec::new();
        for downstream in &wiring.downstreams {
            let other = self.rows.get(&downstream.execution);
            let edge = other.and_then(|other| other.wiring().upstreams.get(downstream.edge as usize));
            if edge.is_none_or(|edge| edge.execution != row.id) {
                violations
                    .push(format!("its downstream {} does not list it as an upstream", downstream.execution));
            }
        }
        for child in &wiring.children {
            let node = self.rows.get(&child.execution).and_then(|other| other.spec.node.as_ref());
            if node.is_none_or(|node| node.parent != Some(row.id)) {
                violations.push(format!("its child {} does not name it as the parent", child.execution));
            }
        }
        let parent = row.spec.node.as_ref().and_then(|node| node.parent);
        let known =
            |parent: &Execution| parent.wiring().children.iter().any(|child| child.execution == row.id);
        if parent.is_some_and(|parent| !self.rows.get(&parent).is_some_and(known)) {
            violations.push("its parent does not list it as a child".to_owned());
        }
        match &row.join {
            None if wiring.upstreams.is_empty() && row.state != State::WaitingDependencies => {}
            None => {
                violations.push("it has upstreams or is waiting for dependencies, and has no join".to_owned())
            }
            Some(join) => violations.extend(self.check_join(row, join)),
        }
        violations.extend(self.check_children(row));
        violations
    }

    fn check_join(&self, row: &Execution, join: &Join) -> Vec<String> {
        let upstreams = &row.wiring().upstreams;
        let mut violations = Vec::new();
        let count = |what: Resolution| join.edges.iter().filter(|edge| edge.resolution == what).count();
        let [holds, dead, pending] = [Resolution::Holds, Resolution::Dead, Resolution::Pending].map(count);
        if holds + dead + pending != upstreams.len() || upstreams.is_empty() {
            let count = upstreams.len();
            violations.push(format!(
                "{count} upstreams, but {holds} edges hold, {dead} are dead, {pending} are pending"
            ));
        }
        let distinct: BTreeSet<ExecutionId> = upstreams.iter().map(|one| one.execution).collect();
        if distinct.len() != upstreams.len() {
            violations.push("an upstream is listed twice".to_owned());
        }
        for (place, (upstream, edge)) in upstreams.iter().zip(&join.edges).enumerate() {
            let Some(other) = self.rows.get(&upstream.execution) else {
                violations.push(format!("its upstream {} does not exist", upstream.execution));
                continue;
            };
            let wrong = self.check_edge(row, join, other, place, upstream.when, *edge);
            violations.extend(wrong.map(|what| format!("the edge from {}, {edge:?}: {what}", other.id)));
        }
        let by_policy = decide(join.policy, holds, dead, pending);
        let skipped = row.state == State::Terminal(Outcome::Skipped);
        let wrong = match join.decision {
            GroupDecision::Satisfied => {
                by_policy != GroupDecision::Satisfied || skipped || row.state == State::WaitingDependencies
            }
            GroupDecision::Impossible => {
                by_policy != GroupDecision::Impossible || !skipped || row.started_at.is_some()
            }
            GroupDecision::Pending => match &row.state {
                State::WaitingDependencies => by_policy != GroupDecision::Pending || row.started_at.is_some(),
                State::Terminal(Outcome::Cancelled | Outcome::Expired) => row.started_at.is_some(),
                State::Terminal(_)
                | State::Waiting
                | State::Delayed { .. }
                | State::Active(_)
                | State::Held(_)
                | State::Suspended(_) => true,
            },
        };
        if wrong {
            let (state, decision) = (&row.state, join.decision);
            violations.push(format!(
                "its state is {state:?}, its join decided {decision:?}, its edges mean {by_policy:?}"
            ));
        }
        violations
    }

    /// Checks that an edge is listed by its upstream, agrees with the generation that it names, and is current unless
    /// the outbox has its propagation.
    fn check_edge(
        &self,
        row: &Execution,
        join: &Join,
        other: &Execution,
        place: usize,
        when: EdgeCondition,
        edge: Edge,
    ) -> Option<String> {
        let known =
            |one: &selvedge_core::wiring::Downstream| one.execution == row.id && one.edge as usize == place;
        let listed: Vec<usize> = (0..other.wiring().downstreams.len())
            .filter(|at| known(&other.wiring().downstreams[*at]))
            .collect();
        let [at] = listed[..] else { return Some(format!("its upstream lists it {} times", listed.len())) };
        if (other.flow, other.namespace) != (row.flow, row.namespace) {
            return Some("its ends belong to different flows".into());
        }
        let ended = self.outcomes.get(&other.id).and_then(|ended| ended.get(&edge.generation));
        let agrees = match edge.resolution {
            Resolution::Pending => true,
            resolved => ended.is_some_and(|outcome| resolution(when, *outcome) == resolved),
        };
        if !agrees || edge.generation > other.detail.generation {
            return Some(format!("that generation ended as {ended:?}"));
        }
        let counted = join.decision == GroupDecision::Satisfied && edge.resolution != Resolution::Pending;
        let current = Edge {
            generation: other.detail.generation,
            resolution: other
                .state
                .outcome()
                .map_or(Resolution::Pending, |outcome| resolution(when, outcome)),
        };
        let name = OutboxName { id: other.id.0, kind: OutboxKind::Edges };
        let to_be_propagated = self.outbox.get(&name).is_some_and(|position| *position as usize <= at);
        (!counted && edge != current && !to_be_propagated)
            .then(|| format!("should be {current:?}, and the outbox has no row that will propagate it"))
    }

    /// Checks that the attached children of a parent that did not complete are cancelled, or will be by an outbox row.
    /// Replayed children may be live.
    fn check_children(&self, row: &Execution) -> Vec<String> {
        let name = OutboxName { id: row.id.0, kind: OutboxKind::Children };
        let ended_badly = row.state.outcome().is_some_and(|outcome| outcome != Outcome::Completed);
        if !ended_badly || self.outbox.contains_key(&name) {
            return vec![];
        }
        let attached = row.wiring().children.iter().filter(|child| !child.detached);
        let live = attached
            .filter_map(|child| self.rows.get(&child.execution))
            .filter(|child| child.state.outcome().is_none() && child.detail.generation == 0);
        live.map(|child| format!("its child {} is still live", child.id)).collect()
    }

    async fn check_flow(&self, store: &dyn Store, flow: &Flow) -> Vec<String> {
        let rows: Vec<&Execution> = self.rows.values().filter(|row| row.flow == Some(flow.id)).collect();
        let mut violations = self.check_members(store, flow, &rows).await;
        if flow.detail.deleting {
            return violations;
        }
        let mut counts = Counts::default();
        rows.iter().for_each(|row| counts.add(row.state.name(), 1));
        if counts != flow.counts {
            let differ =
                StateName::ALL.into_iter().filter(|state| counts.of(*state) != flow.counts.of(*state));
            let differ: Vec<String> = differ
                .map(|state| {
                    format!(
                        "{} members are {state:?}, and it counts {}",
                        counts.of(state),
                        flow.counts.of(state)
                    )
                })
                .collect();
            violations.push(differ.join("; "));
        }
        let expected = match (rows.iter().any(|row| row.state.outcome().is_none()), &flow.detail.cancel) {
            (true, _) => FlowState::Running,
            (false, _) if flow.state == FlowState::Running => FlowState::Running,
            (false, Some(_)) => FlowState::Cancelled,
            (false, None) if rows.iter().any(|row| self.failed_for_good(row)) => FlowState::Failed,
            (false, None) => FlowState::Completed,
        };
        if flow.state != expected || flow.ended_at.is_some() != (flow.state != FlowState::Running) {
            violations.push(format!(
                "its state is {:?}, ended at {:?}, and should be {expected:?}",
                flow.state, flow.ended_at
            ));
        }
        let name = OutboxName { id: flow.id.0, kind: OutboxKind::Flow };
        let draining = flow.detail.cancel.as_ref().is_some_and(|cancel| cancel.draining);
        if draining != self.outbox.contains_key(&name) {
            violations.push(format!("its cancellation is draining: {draining}, and the outbox differs"));
        }
        violations
    }

    /// Returns true if a member failed, expired or was cancelled by an operator, and nothing handled that: no downstream
    /// behind a failure edge completed, and it feeds no group or one that needs it.
    fn failed_for_good(&self, row: &Execution) -> bool {
        let failed = match row.state.outcome() {
            Some(Outcome::Failed | Outcome::Expired) => true,
            Some(Outcome::Cancelled) => row.detail.cancelled_by.is_some(),
            Some(Outcome::Completed | Outcome::Skipped) | None => false,
        };
        if !failed {
            return false;
        }
        let wired = row.wiring().downstreams.iter();
        let downstreams: Vec<(&Execution, EdgeCondition)> = wired
            .filter_map(|one| {
                let other = self.rows.get(&one.execution)?;
                Some((other, other.wiring().upstreams.get(one.edge as usize)?.when))
            })
            .collect();
        let for_failures = [EdgeCondition::Failure, EdgeCondition::FailureOrSkipped];
        let by_handler = downstreams.iter().any(|(other, when)| {
            for_failures.contains(when) && other.state == State::Terminal(Outcome::Completed)
        });
        let needs_it = |other: &Execution| {
            other.join.as_ref().is_none_or(|join| {
                join.policy == JoinPolicy::AllOf || join.decision != GroupDecision::Satisfied
            })
        };
        let needed = downstreams.is_empty() || downstreams.iter().any(|(other, _)| needs_it(other));
        !by_handler && needed
    }

    /// Checks that the listed members are the rows that name the flow, each found by its name.
    async fn check_members(&self, store: &dyn Store, flow: &Flow, rows: &[&Execution]) -> Vec<String> {
        let mut violations = Vec::new();
        let mut members: Vec<Execution> = Vec::new();
        loop {
            let page = Members { flow: flow.id, skip: members.len() as u32, limit: 500 };
            let more = store.members(page).await.expect("members are read");
            if more.is_empty() {
                break;
            }
            members.extend(more);
        }
        if !members.is_sorted_by_key(|row| (row.submitted_at, row.id)) {
            violations.push("its members are not in the order of their submission".to_owned());
        }
        let ids: BTreeSet<ExecutionId> = members.iter().map(|row| row.id).collect();
        if ids != rows.iter().map(|row| row.id).collect() || ids.len() != members.len() {
            violations.push(format!(
                "the store lists {} members, and {} rows name the flow",
                members.len(),
                rows.len()
            ));
        }
        let named: BTreeSet<(Name, ExecutionId)> =
            rows.iter().filter_map(|row| Some((Name::trusted(row.node()?), row.id))).collect();
        let names = named.iter().map(|(name, _)| name.clone()).collect();
        if read_nodes(store, flow.id, names).await != named {
            violations.push("its members cannot be found by name".to_owned());
        }
        violations
    }
}
