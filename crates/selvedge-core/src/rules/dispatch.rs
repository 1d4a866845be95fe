//! The work that a commit left in the outbox is done: a chunk of it in each transaction, and its row leaves with the last.
//!
//! Each kind looks at how things stand with everything it touches locked. So it does not matter who does it, how often, or
//! how much later.

use super::join::{CHUNK, UpstreamChange, hear, may_reopen};
use super::{cancel_now, operator, suspend};
use crate::flow::CancelMode;
use crate::join::{GroupDecision, Resolution};
use crate::outbox::{OutboxKind, OutboxName, OutboxRow};
use crate::rows::{Members, Needs};
use crate::rule::{Locks, Phase, Profile, Rule};
use crate::{Execution, ExecutionId, FlowId, Outcome, Refusal, State, Work};

/// Do a chunk of the work that a row of the outbox stands for.
#[derive(Clone, Debug)]
pub struct Dispatch {
    /// The row, as it was seen.
    pub row: OutboxRow,
    /// Only close it if its work is done already.
    pub only_close: bool,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub enum Dispatched {
    /// A chunk was done: so many edges, siblings, children or members changed; and whether that was the last.
    Advanced {
        /// How many.
        changed: u32,
        /// The row, where there is more to do.
        rest: Option<OutboxRow>,
    },
    /// It was done before, or another server is at it.
    Nothing,
}

impl Rule for Dispatch {
    type Reply = Result<Dispatched, Refusal>;
    const PHASE: Phase = Phase::Outbox;

    fn profile(&self) -> Profile {
        let flows = matches!(self.row.name.kind, OutboxKind::Flow | OutboxKind::Edges);
        Profile {
            ends_unnamed_leases: true,
            locks: Locks { later_executions: true, flows, sessions: false },
            runs_alone: true,
            ..Profile::weighing(8)
        }
    }

    /// The row the work is about, read without a lock; then everything that the chunk touches, locked by one statement, and the
    /// outbox row.
    fn needs(&self, work: &Work, needs: &mut Needs) {
        let chunk = match self.row.name.kind {
            OutboxKind::Parent => {
                needs.executions.lock([self.execution()]);
                if work.was_requested(self.execution()) {
                    needs.outbox.lock([self.name()]);
                }
                return self.needs_children(work, needs);
            }
            OutboxKind::Flow => {
                needs.queries.members.push(self.members());
                needs.flows.lock([FlowId(self.row.name.id)]);
                if !work.has_members(&self.members()) {
                    return;
                }
                work.members(&self.members()).to_vec()
            }
            OutboxKind::Edges | OutboxKind::Siblings | OutboxKind::Children => {
                needs.executions.read([self.execution()]);
                if !work.was_requested(self.execution()) {
                    return;
                }
                match work.find(self.execution()) {
                    Ok(Some(row)) => {
                        needs.executions.lock([row.id]);
                        self.chunk(row).into_iter().map(|(id, _)| id).collect()
                    }
                    Ok(None) | Err(_) => Vec::new(),
                }
            }
        };
        needs.outbox.lock([self.name()]);
        if self.row.name.kind == OutboxKind::Siblings {
            // Whether another group still needs a sibling is read once the sibling is locked, and its edges with it.
            for sibling in chunk.iter().filter_map(|id| work.find(*id).ok().flatten()) {
                let others = sibling.wiring().downstreams.iter().map(|one| one.execution);
                needs.executions.read(others.filter(|id| *id != self.execution()));
            }
        }
        if self.row.name.kind == OutboxKind::Edges {
            // A skipped downstream may reopen, and its flow with it.
            let rows = chunk.iter().filter_map(|id| work.find(*id).ok().flatten());
            needs.flows.lock(rows.filter(|row| may_reopen(row)).filter_map(|row| row.flow));
        }
        needs.executions.lock(chunk);
    }

    /// Does the chunk.
    fn decide(&self, work: &mut Work) -> Result<Dispatched, Refusal> {
        let stored = work.outbox(self.name()).cloned();
        let Some(stored) = stored.filter(|stored| stored.position == self.row.position) else {
            return Ok(Dispatched::Nothing);
        };
        if self.row.name.kind == OutboxKind::Flow {
            return Ok(self.cancel_members(stored, work));
        }
        let Some(row) = work.find(self.execution())?.cloned() else {
            work.remove_outbox(self.name());
            return Ok(Dispatched::Nothing);
        };
        if self.row.name.kind == OutboxKind::Parent {
            let changed = suspend::hear_children(&row, work)?;
            return Ok(self.advance(stored, 0, false, changed.into(), work));
        }
        let chunk = self.chunk(&row);
        if self.only_close && !chunk.is_empty() {
            return Ok(Dispatched::Nothing);
        }
        // One that cannot be read refuses the whole chunk: its row stays, and is tried again.
        for (id, _) in &chunk {
            work.find(*id)?;
        }
        let mut changed = 0;
        for (id, place) in &chunk {
            changed += match self.row.name.kind {
                OutboxKind::Edges => {
                    let edge = row.wiring().downstreams[*place].edge;
                    hear(work, *id, &[UpstreamChange::of(&row, edge)])
                }
                OutboxKind::Siblings => self.cancel_sibling(&row, *id, work),
                OutboxKind::Children | OutboxKind::Flow | OutboxKind::Parent => {
                    self.cancel_child(&row, *id, work)
                }
            };
        }
        let position = chunk.last().map_or(self.row.position, |(_, place)| *place as u32 + 1);
        let full = chunk.len() == CHUNK;
        Ok(self.advance(stored, position, full, changed, work))
    }
}

impl Dispatch {
    fn name(&self) -> OutboxName {
        self.row.name
    }

    fn execution(&self) -> ExecutionId {
        ExecutionId(self.row.name.id)
    }

    fn members(&self) -> Members {
        Members { flow: FlowId(self.row.name.id), skip: self.row.position, limit: CHUNK as u32 }
    }

    /// The children are read once the parent and the row of the outbox are locked: whoever ends after that writes it anew.
    fn needs_children(&self, work: &Work, needs: &mut Needs) {
        let Ok(Some(row)) = work.find(self.execution()) else { return };
        if row.state.suspension().is_some_and(|suspension| suspension.waits_for_children()) {
            suspend::needs(row, needs);
            suspend::children(row, work, needs);
        }
    }

    /// Whom this chunk is about, and the place of each.
    fn chunk(&self, row: &Execution) -> Vec<(ExecutionId, usize)> {
        let from = self.row.position as usize;
        let wiring = row.wiring();
        let places = |ids: Vec<ExecutionId>| ids.into_iter().enumerate().skip(from).map(|(at, id)| (id, at));
        match self.row.name.kind {
            OutboxKind::Edges => {
                let ids = wiring.downstreams.iter().map(|one| one.execution).collect();
                places(ids).take(CHUNK).collect()
            }
            OutboxKind::Children => {
                let attached = wiring.children.iter().filter(|child| !child.detached);
                places(attached.map(|child| child.execution).collect()).take(CHUNK).collect()
            }
            OutboxKind::Siblings => {
                let pending = |place: usize| {
                    let edge = row.join.as_ref().and_then(|join| join.edges.get(place));
                    edge.is_some_and(|edge| edge.resolution == Resolution::Pending)
                };
                let ids = wiring.upstreams.iter().map(|one| one.execution).collect();
                places(ids).filter(|(_, place)| pending(*place)).take(CHUNK).collect()
            }
            OutboxKind::Flow | OutboxKind::Parent => Vec::new(),
        }
    }

    /// The row moves on, or leaves.
    fn advance(
        &self,
        stored: OutboxRow,
        position: u32,
        more: bool,
        changed: u32,
        work: &mut Work,
    ) -> Dispatched {
        let rest = more.then_some(OutboxRow { position, ..stored });
        match &rest {
            Some(row) => work.put_outbox(row.clone()),
            None => work.remove_outbox(self.name()),
        }
        Dispatched::Advanced { changed, rest }
    }

    /// Cancels a sibling, unless another group that has not decided still needs it.
    fn cancel_sibling(&self, group: &Execution, id: ExecutionId, work: &mut Work) -> u32 {
        let Ok(Some(sibling)) = work.find(id) else { return 0 };
        if group.join.as_ref().is_none_or(|join| join.decision != GroupDecision::Satisfied) {
            return 0;
        }
        let needs = |other: &Execution| {
            other.id != group.id
                && other.state == State::WaitingDependencies
                && other.join.as_ref().is_some_and(|join| join.decision == GroupDecision::Pending)
        };
        let mut others = sibling.wiring().downstreams.iter();
        if others.any(|other| work.find(other.execution).ok().flatten().is_none_or(needs)) {
            return 0;
        }
        let reason = format!("{} no longer needs it", group.node().unwrap_or("its downstream"));
        cancel_now(work, id, reason, None)
    }

    fn cancel_child(&self, parent: &Execution, id: ExecutionId, work: &mut Work) -> u32 {
        let Some(outcome) = parent.state.outcome().filter(|outcome| *outcome != Outcome::Completed) else {
            return 0;
        };
        cancel_now(work, id, format!("its parent {} ended as {outcome}", parent.id), None)
    }

    fn cancel_members(&self, stored: OutboxRow, work: &mut Work) -> Dispatched {
        let id = FlowId(self.row.name.id);
        let cancel = work.find_flow(id).and_then(|flow| flow.detail.cancel.clone());
        let Some(cancel) = cancel else {
            work.remove_outbox(self.name());
            return Dispatched::Nothing;
        };
        let members = work.members(&self.members()).to_vec();
        let reason = cancel.reason.clone().unwrap_or_else(|| "its flow was cancelled".into());
        let mut changed = 0;
        for member in &members {
            let Ok(Some(row)) = work.find(*member) else { continue };
            if cancel.mode == CancelMode::All || operator::is_unstarted(row) {
                changed += cancel_now(work, *member, reason.clone(), Some(cancel.actor.clone()));
            }
        }
        let full = members.len() == CHUNK;
        if !full {
            work.apply_flow(id, None, None, |flow| {
                if let Some(cancel) = &mut flow.detail.cancel {
                    cancel.draining = false;
                }
            });
        }
        let position = self.row.position + members.len() as u32;
        self.advance(stored, position, full, changed, work)
    }
}
