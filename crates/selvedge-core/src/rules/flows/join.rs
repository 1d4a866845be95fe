//! Propagation from upstreams to downstreams: edges resolve, edge groups decide, and skipped executions may reopen.
//!
//! An [`UpstreamChange`] carries the upstream's current generation and outcome, not the change itself. So applying it
//! twice changes nothing, and a late or missing one is made up for by the next.

use crate::fact::{self, EdgeUpdate, Fact, Next};
use crate::join::{GroupDecision, Join, Resolution};
use crate::outbox::OutboxKind;
use crate::rules::{cancel_now, follow, open_again};
use crate::state::State;
use crate::{Execution, ExecutionId, FlowId, Outcome, Work};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// The most downstreams of one execution that a transaction updates. Wider ones go through the outbox.
pub const CHUNK: usize = 500;

/// The current state of an upstream, for one of its edges.
#[derive(Clone, Copy, Debug)]
pub struct UpstreamChange {
    /// The index of the edge among the downstream's upstreams.
    pub edge: u32,
    pub generation: u32,
    /// The outcome of the upstream; none while it is live.
    pub outcome: Option<Outcome>,
}

impl UpstreamChange {
    /// Returns the state of `upstream` for the edge at this index.
    pub fn of(upstream: &Execution, edge: u32) -> UpstreamChange {
        UpstreamChange { edge, generation: upstream.detail.generation, outcome: upstream.state.outcome() }
    }
}

/// Propagates every end and reopening in this transaction to its downstreams, if all of them are loaded, locked or new,
/// and at most [`CHUNK`]. All others go through the outbox, as do the executions that this propagation itself ends: one
/// level per transaction. A downstream that was read without a lock is not changed, because that would lock it out of
/// order. Returns the number of changed edges.
///
/// A downstream that was skipped before this transaction may reopen, and its flow with it, so it is updated here only if its
/// flow is locked. The flow of one that this transaction skipped is running: it had a live member.
pub fn propagate(
    work: &mut Work,
    locked: impl Fn(ExecutionId) -> bool,
    flow_locked: impl Fn(FlowId) -> bool,
) -> u32 {
    let mut changes: BTreeMap<ExecutionId, Vec<UpstreamChange>> = BTreeMap::new();
    for id in work.unpropagated() {
        let Ok(Some(row)) = work.find(id) else { continue };
        let downstreams = &row.wiring().downstreams;
        let changeable = |id| match work.find(id) {
            Ok(Some(row)) => {
                let may_change = locked(id) || work.is_new(id);
                let may_reopen = row.is_skipped() && !work.is_changed(id);
                may_change && (!may_reopen || row.flow.is_none_or(&flow_locked))
            }
            Ok(None) | Err(_) => false,
        };
        if downstreams.len() > CHUNK || !downstreams.iter().all(|one| changeable(one.execution)) {
            continue;
        }
        for downstream in downstreams {
            changes.entry(downstream.execution).or_default().push(UpstreamChange::of(row, downstream.edge));
        }
        work.mark_propagated(id);
    }
    changes.iter().map(|(id, changes)| update_downstream(work, *id, changes)).sum()
}

/// Updates the edges of one downstream. Returns the number of changed edges.
pub fn update_downstream(work: &mut Work, id: ExecutionId, changes: &[UpstreamChange]) -> u32 {
    let Ok(Some(row)) = work.find(id).map(|row| row.cloned()) else { return 0 };
    let Some(mut join) = row.join.clone() else { return 0 };
    let upstreams = &row.wiring().upstreams;
    let mut edges = Vec::new();
    for UpstreamChange { edge, generation, outcome } in changes {
        let index = *edge as usize;
        if let Some(upstream) = upstreams.get(index)
            && join.update_edge(index, upstream.when, *generation, *outcome)
        {
            edges.push(EdgeUpdate { upstream: upstream.execution, edge: join.edges[index] });
        }
    }
    let changed = edges.len() as u32;
    if changed == 0 {
        return 0;
    }
    let verdict = join.verdict();
    match (join.decision, &row.state) {
        (GroupDecision::Pending, State::WaitingDependencies) if verdict != GroupDecision::Pending => {
            decide(work, id, join, edges);
        }
        (GroupDecision::Impossible, State::Terminal(Outcome::Skipped))
            if verdict != GroupDecision::Impossible =>
        {
            reopen(work, &row, join, edges);
        }
        _ => work.apply(id, Fact::UpstreamChanged(fact::UpstreamChanged { edges }), None, |row| {
            row.join = Some(join)
        }),
    }
    changed
}

/// Decides the edge group by its current edges: the downstream runs, now or after its delay, or is skipped.
pub(in crate::rules) fn decide(work: &mut Work, id: ExecutionId, mut join: Join, edges: Vec<EdgeUpdate>) {
    let Ok(Some(row)) = work.find(id) else { return };
    let now = work.now();
    let delay = row.spec.node.as_ref().and_then(|node| node.delay).map(|delay| delay.at(now));
    let decision = join.verdict();
    let next = match decision {
        GroupDecision::Pending => return,
        GroupDecision::Impossible => Next::Terminal(Outcome::Skipped),
        GroupDecision::Satisfied => delay.filter(|until| *until > now).map_or(Next::Waiting, Next::Delayed),
    };
    join.decision = decision;
    let policy = join.policy;
    let cancels =
        decision == GroupDecision::Satisfied && policy.cancels() && join.count(Resolution::Pending) > 0;
    work.apply(id, Fact::Joined(fact::Joined { edges, policy, decision, next }), None, |row| {
        follow(row, next);
        row.join = Some(join);
    });
    if cancels {
        work.enqueue(OutboxKind::Siblings, id);
    }
}

/// Reopens a skipped execution: it waits for its upstreams again, unless its edges already decide. In a cancelled flow
/// it is cancelled at once: the cancellation may already have passed it by.
fn reopen(work: &mut Work, row: &Execution, mut join: Join, edges: Vec<EdgeUpdate>) {
    let now = work.now();
    let flow = row.flow.and_then(|id| work.find_flow(id));
    let cancel = flow.and_then(|flow| flow.detail.cancel.clone());
    if let Some(flow) = row.flow.filter(|_| cancel.is_none()) {
        work.reopen_flow(flow, row.id, None);
    }
    let fact = Fact::Reopened(fact::Reopened { edges, generation: row.detail.generation + 1 });
    join.decision = GroupDecision::Pending;
    let opened = join.clone();
    work.apply(row.id, fact, None, |row| {
        row.state = State::WaitingDependencies;
        row.join = Some(opened);
        open_again(row, now);
    });
    match cancel {
        None => decide(work, row.id, join, Vec::new()),
        Some(cancel) => drop(cancel_now(work, row.id, cancel.member_reason(), Some(cancel.actor))),
    }
}

/// Returns the executions among `rows` that the replay of an execution would reopen, nearest first.
pub fn would_reopen(rows: &HashMap<ExecutionId, Execution>, replayed: ExecutionId) -> Vec<ExecutionId> {
    let mut reopened = Vec::new();
    let mut joins: HashMap<ExecutionId, Join> = HashMap::new();
    let mut open = VecDeque::from([replayed]);
    while let Some(upstream) = open.pop_front().and_then(|id| rows.get(&id)) {
        for downstream in &upstream.wiring().downstreams {
            let Some(row) = rows.get(&downstream.execution) else { continue };
            let Some(join) = &row.join else { continue };
            let join = joins.entry(row.id).or_insert_with(|| join.clone());
            let index = downstream.edge as usize;
            let Some(edge) = row.wiring().upstreams.get(index) else { continue };
            join.update_edge(index, edge.when, upstream.detail.generation + 1, None);
            if join.decision == GroupDecision::Impossible && join.verdict() != GroupDecision::Impossible {
                join.decision = GroupDecision::Pending;
                reopened.push(row.id);
                open.push_back(row.id);
            }
        }
    }
    reopened
}
