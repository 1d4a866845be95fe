//! The graph of a flow at an earlier moment, rebuilt from the histories of its members.
//!
//! A history is kept as long as its execution, so the past of a flow can be read even after the event log has dropped its events,
//! and reading it costs the same however much else the log has. [`Past::at`] alone applies the facts.
//!
//! States and decisions of groups are those of the histories. Histories do not have the changes of single edges, so an edge is
//! resolved from the moment at which its upstream ended. The engine resolves it in the same transaction, or shortly after in a
//! large flow.

use super::critical_path::NodeTimes;
use super::graph::{FlowGraph, Member};
use crate::fact::{self, Fact};
use crate::history::{HistoryLine, state_after};
use crate::join::{Edge, EdgeCondition, GroupDecision, Join, Resolution};
use crate::state::StateName;
use crate::wiring::Upstream;
use crate::{Execution, ExecutionId, Timestamp};
use std::borrow::Cow;
use std::collections::HashMap;

/// A member of a flow with its history.
#[derive(Clone, Copy, Debug)]
pub struct MemberHistory<'a> {
    /// The current row.
    pub row: &'a Execution,
    /// The lines of its history, oldest first.
    pub lines: &'a [HistoryLine],
}

/// A flow at a moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Past {
    /// The graph. Members that were submitted later are left out.
    pub graph: FlowGraph,
    /// The times of each node, in the order of the nodes of the graph.
    pub times: Vec<NodeTimes>,
}

/// A moment at which the graph of a flow changed: all changes of one transaction, or of several at the same time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    pub at: Timestamp,
    /// The number of changes.
    pub changes: u32,
    /// The index of a member that changed, and of the line in its history: the most telling change of the moment.
    pub example: (usize, usize),
}

impl Past {
    /// Returns the flow as it was after every change up to `at`. Members are given in the order of their submission.
    pub fn at(members: &[MemberHistory], at: Timestamp) -> Past {
        let tracks: HashMap<ExecutionId, Track> = members
            .iter()
            .filter(|member| member.row.submitted_at <= at)
            .map(|member| (member.row.id, Track::of(*member, at)))
            .collect();
        let (mut present, mut times) = (Vec::with_capacity(tracks.len()), Vec::with_capacity(tracks.len()));
        for MemberHistory { row, .. } in members {
            let Some(track) = tracks.get(&row.id) else { continue };
            let upstreams = row.wiring().upstreams.iter().take(track.upstreams);
            let edge = |upstream: &Upstream| Edge {
                resolution: tracks
                    .get(&upstream.execution)
                    .map_or(Resolution::Pending, |from| track.edge(from, upstream.when)),
                generation: 0,
            };
            let join = row.join.as_ref().map(|join| Join {
                policy: join.policy,
                edges: upstreams.map(edge).collect(),
                decision: track.decision,
            });
            let (state, upstreams) = (track.state(), track.upstreams);
            present.push(Member { row, state, upstreams, join: join.map(Cow::Owned) });
            times.push(track.times);
        }
        Past { graph: FlowGraph::build(&present), times }
    }
}

/// Returns the moments at which the graph changed, oldest first.
pub fn moments(members: &[MemberHistory]) -> Vec<Moment> {
    let changes = members.iter().enumerate().flat_map(|(member, history)| {
        let lines = history.lines.iter().enumerate().filter(|(_, line)| changes_graph(&line.fact));
        lines.map(move |(index, line)| (line.at, rank(&line.fact), member, index))
    });
    let mut changes: Vec<_> = changes.collect();
    changes.sort_unstable();
    let mut moments: Vec<Moment> = Vec::new();
    for (at, _, member, line) in changes {
        match moments.last_mut().filter(|moment| moment.at == at) {
            Some(moment) => moment.changes += 1,
            None => moments.push(Moment { at, changes: 1, example: (member, line) }),
        }
    }
    moments
}

/// Reports whether a fact changes what a graph shows.
fn changes_graph(fact: &Fact) -> bool {
    state_after(fact).is_some() || matches!(fact, Fact::Wired { .. })
}

/// Orders the changes of one moment: an end explains the others, which follow from it.
fn rank(fact: &Fact) -> u8 {
    match state_after(fact) {
        Some(StateName::Skipped) => 1,
        Some(state) if state.outcome().is_some() => 0,
        Some(_) => 1,
        None => 2,
    }
}

/// The changes of a member up to a moment.
struct Track {
    /// The states, each with the time from which the member had it.
    states: Vec<(Timestamp, StateName)>,
    /// The number of edges into it.
    upstreams: usize,
    /// The decision of its group, and the time at which it was satisfied.
    decision: GroupDecision,
    satisfied_at: Option<Timestamp>,
    times: NodeTimes,
}

impl Track {
    /// Applies the lines of a history up to a moment.
    fn of(MemberHistory { row, lines }: MemberHistory, at: Timestamp) -> Track {
        let joins = row.join.is_some();
        let first = if joins { StateName::WaitingDependencies } else { StateName::Waiting };
        let mut track = Track {
            states: vec![(row.submitted_at, first)],
            upstreams: 0,
            decision: GroupDecision::Pending,
            satisfied_at: None,
            times: NodeTimes { began_at: (!joins).then_some(row.submitted_at), ..NodeTimes::default() },
        };
        lines.iter().take_while(|line| line.at <= at).for_each(|line| track.apply(line));
        track
    }

    fn apply(&mut self, HistoryLine { at, fact, .. }: &HistoryLine) {
        if let Some(state) = state_after(fact) {
            self.states.push((*at, state));
            self.times.ended_at = state.outcome().map(|_| *at);
        }
        match fact {
            Fact::SubmittedWaitingDependencies(fact::SubmittedWaitingDependencies { upstreams })
            | Fact::Wired(fact::Wired { upstreams, .. }) => {
                self.upstreams += *upstreams as usize;
            }
            Fact::Joined(fact::Joined { decision, .. }) => {
                self.decision = *decision;
                self.satisfied_at = (*decision == GroupDecision::Satisfied).then_some(*at);
                self.times.began_at = self.satisfied_at;
            }
            Fact::Reopened { .. } => {
                self.decision = GroupDecision::Pending;
                self.times = NodeTimes::default();
            }
            Fact::Replayed { .. } => {
                self.times = NodeTimes { began_at: Some(*at), ..NodeTimes::default() };
            }
            Fact::ReplayedWaitingDependencies { .. } => self.times = NodeTimes::default(),
            Fact::Claimed { .. } => self.times.started_at = self.times.started_at.or(Some(*at)),
            _ => {}
        }
    }

    fn state(&self) -> StateName {
        self.states.last().map_or(StateName::Waiting, |(_, state)| *state)
    }

    /// Returns the resolution of the edge from another member. Once the group is satisfied, a resolved edge stays as it is.
    fn edge(&self, from: &Track, when: EdgeCondition) -> Resolution {
        let outcome = match self.satisfied_at {
            None => from.state().outcome(),
            Some(decided) => {
                let before = from.states.partition_point(|(at, _)| *at <= decided);
                let then = before.checked_sub(1).and_then(|index| from.states[index].1.outcome());
                then.or_else(|| from.states[before..].iter().find_map(|(_, state)| state.outcome()))
            }
        };
        outcome.map_or(Resolution::Pending, |outcome| when.resolve(outcome))
    }
}
