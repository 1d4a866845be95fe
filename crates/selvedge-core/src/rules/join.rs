//! UpstreamChange of an upstream reaches its downstreams: edges resolve, groups decide, and what was skipped may open again.
//!
//! UpstreamChange says how the upstream stands, not what happened to it: its generation, and its outcome if it has ended. So the same
//! news twice changes nothing, and news that comes late or was left out is made up for by the next.

use super::{follow, open_again};
use crate::fact::{EdgeUpdate, Fact, Next};
use crate::join::{GroupDecision, Join, Resolution};
use crate::outbox::OutboxKind;
use crate::state::State;
use crate::{Execution, ExecutionId, FlowId, Outcome, Work};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// How many downstreams one transaction tells at most.
pub const CHUNK: usize = 500;

/// How an upstream stands, for one edge.
#[derive(Clone, Copy, Debug)]
pub struct UpstreamChange {
    /// The place of the edge.
    pub edge: u32,
    /// The generation of the upstream.
    pub generation: u32,
    /// How it ended; none while it is live.
    pub outcome: Option<Outcome>,
}

impl UpstreamChange {
    /// How `upstream` stands, for the edge at this place.
    pub fn of(upstream: &Execution, edge: u32) -> UpstreamChange {
        UpstreamChange { edge, generation: upstream.detail.generation, outcome: upstream.state.outcome() }
    }
}

/// Propagates every end and reopening of this transaction to its downstreams, if all of them are loaded, locked or new, and not
/// too many. The rest goes to the outbox, and so does everything that this very propagation ends: one level per transaction.
/// A downstream that was only read is left: changing it would lock it out of order. Returns how many edges changed.
pub fn propagate(
    work: &mut Work,
    locked: impl Fn(ExecutionId) -> bool,
    flow_locked: impl Fn(FlowId) -> bool,
) -> u32 {
    let mut news: BTreeMap<ExecutionId, Vec<UpstreamChange>> = BTreeMap::new();
    for id in work.unpropagated() {
        let Ok(Some(row)) = work.find(id) else { continue };
        let downstreams = &row.wiring().downstreams;
        let at_hand = |id| match work.find(id) {
            Ok(Some(row)) => {
                let may_update = locked(id) || work.is_new(id);
                may_update && (!may_reopen(row) || row.flow.is_none_or(&flow_locked))
            }
            Ok(None) | Err(_) => false,
        };
        if downstreams.len() > CHUNK || !downstreams.iter().all(|one| at_hand(one.execution)) {
            continue;
        }
        for downstream in downstreams {
            news.entry(downstream.execution).or_default().push(UpstreamChange::of(row, downstream.edge));
        }
        work.mark_propagated(id);
    }
    news.iter().map(|(id, news)| update_downstream(work, *id, news)).sum()
}

/// Tells one downstream. Says how many of its edges changed.
pub fn update_downstream(work: &mut Work, id: ExecutionId, news: &[UpstreamChange]) -> u32 {
    let Ok(Some(row)) = work.find(id).map(|row| row.cloned()) else { return 0 };
    let Some(mut join) = row.join.clone() else { return 0 };
    let upstreams = &row.wiring().upstreams;
    let mut edges = Vec::new();
    for UpstreamChange { edge, generation, outcome } in news {
        let place = *edge as usize;
        if let Some(upstream) = upstreams.get(place)
            && join.update_edge(place, upstream.when, *generation, *outcome)
        {
            edges.push(EdgeUpdate { upstream: upstream.execution, edge: join.edges[place] });
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
        _ => work.apply(id, Fact::UpstreamChanged { edges }, None, |row| row.join = Some(join)),
    }
    changed
}

/// The group decides, by its edges as they stand: the downstream runs, now or after its delay, or is skipped.
pub(super) fn decide(work: &mut Work, id: ExecutionId, mut join: Join, edges: Vec<EdgeUpdate>) {
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
    work.apply(id, Fact::Joined { edges, policy, decision, next }, None, |row| {
        follow(row, next);
        row.join = Some(join);
    });
    if cancels {
        work.enqueue(OutboxKind::Siblings, id);
    }
}

/// Reports whether an update of its upstreams may reopen an execution, and with it its flow.
pub fn may_reopen(row: &Execution) -> bool {
    row.state == State::Terminal(Outcome::Skipped)
}

/// What was skipped waits again; if its edges already let it run, it runs.
fn reopen(work: &mut Work, row: &Execution, mut join: Join, edges: Vec<EdgeUpdate>) {
    let now = work.now();
    if let Some(flow) = row.flow {
        work.reopen_flow(flow, row.id, None);
    }
    let fact = Fact::Reopened { edges, generation: row.detail.generation + 1 };
    join.decision = GroupDecision::Pending;
    let opened = join.clone();
    work.apply(row.id, fact, None, |row| {
        row.state = State::WaitingDependencies;
        row.join = Some(opened);
        open_again(row, now);
    });
    decide(work, row.id, join, Vec::new());
}

/// Whom the replay of an execution would open again, of these rows, nearest first.
pub fn would_reopen(rows: &HashMap<ExecutionId, Execution>, replayed: ExecutionId) -> Vec<ExecutionId> {
    let mut reopened = Vec::new();
    let mut joins: HashMap<ExecutionId, Join> = HashMap::new();
    let mut open = VecDeque::from([replayed]);
    while let Some(upstream) = open.pop_front().and_then(|id| rows.get(&id)) {
        for downstream in &upstream.wiring().downstreams {
            let Some(row) = rows.get(&downstream.execution) else { continue };
            let Some(join) = &row.join else { continue };
            let join = joins.entry(row.id).or_insert_with(|| join.clone());
            let place = downstream.edge as usize;
            let Some(edge) = row.wiring().upstreams.get(place) else { continue };
            join.update_edge(place, edge.when, upstream.detail.generation + 1, None);
            if join.decision == GroupDecision::Impossible && join.verdict() != GroupDecision::Impossible {
                join.decision = GroupDecision::Pending;
                reopened.push(row.id);
                open.push_back(row.id);
            }
        }
    }
    reopened
}
