//! Dispatching: does the work that an earlier transaction enqueued in the outbox, one chunk in each transaction. The
//! outbox row is deleted with the last chunk.
//!
//! Each kind of work decides by the current state of the rows that it changes, with all of them locked. So any server
//! can do it, repeatedly and at any later time.

use super::children::{self, Look};
use super::join::{CHUNK, UpstreamChange, update_downstream};
use crate::flow::CancelMode;
use crate::join::{GroupDecision, Resolution};
use crate::outbox::{OutboxKind, OutboxName, OutboxRow};
use crate::rows::{Members, Needs};
use crate::rule::{Locks, Phase, Profile, Rule};
use crate::rules::{cancel_now, operator, suspend};
use crate::{Execution, ExecutionId, FlowId, Outcome, Refusal, State, Work};

/// Does a chunk of the work of an outbox row.
#[derive(Clone, Debug)]
pub struct Dispatch {
    /// The outbox row as it was read.
    pub row: OutboxRow,
    /// Do no work: only delete the row if its work is already done.
    pub only_close: bool,
}

/// The reply to a dispatch.
#[derive(Clone, Debug, PartialEq)]
pub enum Dispatched {
    /// A chunk was done.
    Advanced {
        /// Number of edges, siblings, children or members that changed.
        changed: u32,
        /// The outbox row, if there is more to do.
        rest: Option<OutboxRow>,
    },
    /// No chunk was done: it was done before, its execution or flow needs it no more, or the row was only to be closed.
    Nothing,
}

impl Rule for Dispatch {
    type Reply = Result<Dispatched, Refusal>;
    const PHASE: Phase = Phase::Outbox;

    fn profile(&self) -> Profile {
        let flows = self.row.name.kind == OutboxKind::Flow;
        Profile {
            ends_unnamed_leases: true,
            locks: Locks { later_executions: true, flows, sessions: false },
            runs_alone: true,
            ..Profile::weighing(8)
        }
    }

    /// Reads the execution that the work is about without a lock. Then locks it and all executions of the chunk with
    /// one statement, and the outbox row.
    fn needs(&self, work: &Work, needs: &mut Needs) {
        let chunk = match self.row.name.kind {
            OutboxKind::Parent => {
                needs.executions.lock([self.execution()]);
                if work.was_requested(self.execution()) {
                    needs.outbox.lock([self.name()]);
                    self.needs_children(work, needs);
                }
                return;
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
            // The other groups that may still need a sibling are read once the sibling, and so its edges, are locked.
            for sibling in chunk.iter().filter_map(|id| work.find(*id).ok().flatten()) {
                let others = sibling.wiring().downstreams.iter().map(|one| one.execution);
                needs.executions.read(others.filter(|id| *id != self.execution()));
            }
        }
        needs.executions.lock(chunk);
    }

    /// Does the chunk, and advances or deletes the outbox row.
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
            return self.update_parent(&row, stored, work);
        }
        let chunk = self.chunk(&row);
        if self.only_close && !chunk.is_empty() {
            return Ok(Dispatched::Nothing);
        }
        // An unreadable execution refuses the whole chunk. The outbox row stays, and the chunk is retried.
        for (id, _) in &chunk {
            work.find(*id)?;
        }
        let mut changed = 0;
        for (id, index) in &chunk {
            changed += match self.row.name.kind {
                OutboxKind::Edges => {
                    let edge = row.wiring().downstreams[*index].edge;
                    update_downstream(work, *id, &[UpstreamChange::of(&row, edge)])
                }
                OutboxKind::Siblings => self.cancel_sibling(&row, *id, work),
                OutboxKind::Children | OutboxKind::Flow | OutboxKind::Parent => {
                    self.cancel_child(&row, *id, work)
                }
            };
        }
        let position = chunk.last().map_or(self.row.position, |(_, index)| *index as u32 + 1);
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

    /// Reads children once the parent and the outbox row are locked: an awaited child that ends after that, and any child
    /// that reopens, writes the outbox row again.
    fn needs_children(&self, work: &Work, needs: &mut Needs) {
        let Ok(Some(row)) = work.find(self.execution()) else { return };
        if row.state.suspension().is_some_and(|suspension| suspension.waits_for_children()) {
            suspend::needs(row, needs);
            children::needs_to_await(row, self.row.position, work, needs);
        }
    }

    /// Awaits the end of a child of a suspended parent, or resumes the parent if all children have ended.
    fn update_parent(
        &self,
        row: &Execution,
        stored: OutboxRow,
        work: &mut Work,
    ) -> Result<Dispatched, Refusal> {
        let Some(suspension) = row.state.suspension().filter(|one| one.waits_for_children()) else {
            return Ok(self.advance(stored, 0, false, 0, work));
        };
        let position = self.row.position;
        let looked = children::look(row, position, CHUNK, work)?;
        let (position, more, changed) = match looked {
            Look::Ended => {
                suspend::notice_children(row, suspension, work);
                (0, false, 1)
            }
            Look::Live(child) if children::await_end(child, work) => (0, false, 0),
            Look::EndedBefore(position) => (position, true, 0),
            // Another transaction has locked the child or ended it meanwhile: look again.
            Look::Live(_) | Look::Unread(_) => (position, true, 0),
        };
        Ok(self.advance(stored, position, more, changed, work))
    }

    /// Returns the executions of this chunk, each with its index in the list that the outbox row's position refers to.
    fn chunk(&self, row: &Execution) -> Vec<(ExecutionId, usize)> {
        let from = self.row.position as usize;
        let wiring = row.wiring();
        let indexed = |ids: Vec<ExecutionId>| ids.into_iter().enumerate().skip(from).map(|(at, id)| (id, at));
        match self.row.name.kind {
            OutboxKind::Edges => {
                let ids = wiring.downstreams.iter().map(|one| one.execution).collect();
                indexed(ids).take(CHUNK).collect()
            }
            OutboxKind::Children => {
                let attached = wiring.children.iter().filter(|child| !child.detached);
                indexed(attached.map(|child| child.execution).collect()).take(CHUNK).collect()
            }
            OutboxKind::Siblings => {
                let is_pending = |index: usize| {
                    let edge = row.join.as_ref().and_then(|join| join.edges.get(index));
                    edge.is_some_and(|edge| edge.resolution == Resolution::Pending)
                };
                let ids = wiring.upstreams.iter().map(|one| one.execution).collect();
                indexed(ids).filter(|(_, index)| is_pending(*index)).take(CHUNK).collect()
            }
            OutboxKind::Flow | OutboxKind::Parent => Vec::new(),
        }
    }

    /// Advances the outbox row to `position`, or deletes it if there is no more to do.
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

    /// Cancels a sibling, unless another undecided group still needs it. Returns the number cancelled.
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

    /// Cancels a child whose parent ended without completing. Returns the number cancelled.
    fn cancel_child(&self, parent: &Execution, id: ExecutionId, work: &mut Work) -> u32 {
        let Some(outcome) = parent.state.outcome().filter(|outcome| *outcome != Outcome::Completed) else {
            return 0;
        };
        cancel_now(work, id, format!("its parent {} ended as {outcome}", parent.id), None)
    }

    /// Cancels a chunk of members of a cancelled flow.
    fn cancel_members(&self, stored: OutboxRow, work: &mut Work) -> Dispatched {
        let id = FlowId(self.row.name.id);
        let cancel = work.find_flow(id).and_then(|flow| flow.detail.cancel.clone());
        let Some(cancel) = cancel else {
            work.remove_outbox(self.name());
            return Dispatched::Nothing;
        };
        let members = work.members(&self.members()).to_vec();
        let reason = cancel.member_reason();
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
