//! Operations on a whole flow: cancelling, settling and deleting it.

use crate::fact::{self, Fact};
use crate::flow::outcome::{handling, has_failed};
use crate::flow::{CancelMode, Counts, Flow, FlowCancel, FlowState};
use crate::outbox::{OutboxKind, OutboxName, OutboxRow};
use crate::rows::{Members, Needs};
use crate::rule::{Locks, Phase, Profile, Rule};
use crate::rules::keyed::Repeatable;
use crate::state::StateName;
use crate::{ExecutionId, FlowId, Name, NamespaceId, Refusal, Work};

/// Maximum number of members that one transaction deletes.
pub const DELETE_CHUNK: u32 = 1000;

/// Requests that a flow be cancelled. The members are cancelled afterwards, chunk by chunk, through the outbox.
#[derive(Clone, Debug)]
pub struct CancelFlow {
    pub namespace: NamespaceId,
    pub flow: FlowId,
    /// The members to cancel.
    pub mode: CancelMode,
    /// The reason, if given.
    pub reason: Option<String>,
    pub actor: Name,
}

impl Rule for CancelFlow {
    type Reply = Result<Flow, Refusal>;
    const PHASE: Phase = Phase::Operators;

    fn profile(&self) -> Profile {
        Profile { locks: Locks { flows: true, ..Locks::default() }, ..Profile::weighing(1) }
    }

    fn needs(&self, _work: &Work, needs: &mut Needs) {
        needs.flows.lock([self.flow]);
    }

    /// Records the request. Cancelling all members after cancelling the pending ones widens the request; repeating it
    /// changes nothing.
    fn decide(&self, work: &mut Work) -> Result<Flow, Refusal> {
        crate::rules::operator::check_reason(&self.reason)?;
        let flow = work.flow(self.namespace, self.flow)?.clone();
        let asked = flow.detail.cancel.as_ref().map(|cancel| cancel.mode);
        let ended = flow.state != FlowState::Running || work.counts(&flow).live() == 0;
        if asked == Some(CancelMode::All) || asked == Some(self.mode) || (ended && asked.is_some()) {
            return Ok(flow);
        }
        if ended {
            let state = if flow.state == FlowState::Running { "ended" } else { flow.state.as_str() };
            return Err(Refusal::FlowEnded { flow: flow.id, state: state.into() });
        }
        let cancel = FlowCancel {
            mode: self.mode,
            actor: self.actor.clone(),
            reason: self.reason.clone(),
            draining: true,
        };
        let fact = Fact::FlowCancelRequested(fact::FlowCancelRequested {
            mode: self.mode,
            reason: self.reason.clone(),
        });
        work.apply_flow(self.flow, Some(fact), Some(self.actor.clone()), |flow| {
            flow.detail.cancel = Some(cancel)
        });
        work.put_outbox(OutboxRow {
            name: OutboxName { id: self.flow.0, kind: OutboxKind::Flow },
            at: work.now(),
            position: 0,
            namespace: flow.namespace,
            tags: flow.tags,
        });
        work.flow(self.namespace, self.flow).cloned()
    }
}

impl Repeatable for CancelFlow {
    type Done = Flow;
    type Answer = ();

    fn namespace(&self) -> NamespaceId {
        self.namespace
    }

    fn answer(_done: &Flow) {}

    /// Returns the flow as it is now.
    fn repeat(&self, (): (), work: &Work) -> Result<Flow, Refusal> {
        work.flow(self.namespace, self.flow).cloned()
    }
}

/// Settles the outcome of a flow that has no live member.
#[derive(Clone, Copy, Debug)]
pub struct SettleFlow {
    pub flow: FlowId,
}

impl SettleFlow {
    fn members(&self) -> Members {
        Members { flow: self.flow, skip: 0, limit: u32::MAX }
    }
}

impl Rule for SettleFlow {
    type Reply = Option<FlowState>;
    const PHASE: Phase = Phase::FlowEnds;

    fn profile(&self) -> Profile {
        Profile::weighing(1)
    }

    /// Locks the flow: no change of a member's state commits meanwhile, because it would update the flow's counts. Then
    /// reads the members, if one may have failed.
    fn needs(&self, work: &Work, needs: &mut Needs) {
        needs.flows.lock([self.flow]);
        let Some(flow) = work.find_flow(self.flow).filter(|flow| flow.is_unsettled()) else { return };
        if flow.detail.cancel.is_none() && may_have_failures(flow, &flow.counts) {
            needs.queries.members.push(self.members());
        }
    }

    /// Settles the flow unless it is settled or live. Returns its final state.
    fn decide(&self, work: &mut Work) -> Option<FlowState> {
        let flow = work.find_flow(self.flow)?.clone();
        let counts = work.counts(&flow);
        if flow.state != FlowState::Running || counts.live() != 0 {
            return None;
        }
        let members = work.members(&self.members());
        let state = if flow.detail.cancel.is_some() {
            FlowState::Cancelled
        } else if !may_have_failures(&flow, &counts) {
            FlowState::Completed
        } else if members.is_empty() {
            // A member failed in this very batch, so the members were not requested. The next check settles the flow.
            return None;
        } else {
            let find = |id: ExecutionId| work.find(id).ok().flatten();
            let mut failed = members.iter().filter_map(|id| find(*id)).filter(|row| has_failed(row));
            let unhandled = failed.any(|row| handling(row, find).is_none());
            if unhandled { FlowState::Failed } else { FlowState::Completed }
        };
        let now = work.now();
        work.apply_flow(self.flow, Some(Fact::FlowEnded(fact::FlowEnded { state })), None, |flow| {
            flow.state = state;
            flow.ended_at = Some(now);
        });
        Some(state)
    }
}

/// Reports whether a member may have failed, so that the members decide the final state.
fn may_have_failures(flow: &Flow, counts: &Counts) -> bool {
    counts.of(StateName::Failed) + counts.of(StateName::Expired) > 0
        || (flow.detail.member_cancelled && counts.of(StateName::Cancelled) > 0)
}

/// Deletes a flow with its members once its retention is over, one chunk in each transaction.
#[derive(Clone, Copy, Debug)]
pub struct ForgetFlow {
    pub flow: FlowId,
    /// Deletes the flow although its retention is not over: its namespace is deleted.
    pub at_once: bool,
}

impl ForgetFlow {
    fn members(&self) -> Members {
        Members { flow: self.flow, skip: 0, limit: DELETE_CHUNK }
    }
}

/// The reply to the deletion of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forgotten {
    pub flow: FlowId,
    /// There are more members to delete.
    pub goes_on: bool,
}

impl Rule for ForgetFlow {
    /// None if the flow was not due for deletion.
    type Reply = Option<Forgotten>;
    const PHASE: Phase = Phase::FlowEnds;

    fn profile(&self) -> Profile {
        let locks = Locks { later_executions: true, flows: true, sessions: false };
        Profile { locks, runs_alone: true, ..Profile::weighing(64) }
    }

    /// Locks the flow and its members.
    fn needs(&self, work: &Work, needs: &mut Needs) {
        needs.queries.members.push(self.members());
        needs.flows.lock([self.flow]);
        needs.executions.lock(work.members(&self.members()).iter().copied());
    }

    /// Deletes a chunk of members, and the flow itself with the last chunk.
    fn decide(&self, work: &mut Work) -> Option<Forgotten> {
        let flow = work.find_flow(self.flow)?.clone();
        let due = self.at_once || flow.delete_at().is_some_and(|at| at <= work.now());
        if !due || flow.state == FlowState::Running || work.counts(&flow).live() != 0 {
            return None;
        }
        let members = work.members(&self.members()).to_vec();
        let more = members.len() == DELETE_CHUNK as usize;
        members.iter().for_each(|id| work.delete(*id));
        if !more {
            work.delete_flow(self.flow);
        } else if !flow.detail.deleting {
            work.apply_flow(self.flow, None, None, |flow| flow.detail.deleting = true);
        }
        Some(Forgotten { flow: self.flow, goes_on: more })
    }
}
