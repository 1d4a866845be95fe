//! Adopting: a lane whose limit was set counts the executions that are already active, in chunks.
//!
//! A claim takes a slot only in a lane that limits something, so the executions that were active before have none. Until
//! each of them has one, the lane admits nothing; so the limit holds from the moment at which it is set. An adopted
//! execution gives its slot back like any other. A crash in the middle leaves the lane due: a reconciler continues, and
//! an execution that has a slot already is left as it is.

use crate::fact::{self, Fact};
use crate::gate::draws::lane_gate;
use crate::gate::{Adoption, Gate, GateKind, GateName};
use crate::rows::Needs;
use crate::rule::{LeaseEffect, Phase, Profile, Rule, Touch};
use crate::{Execution, ExecutionId, Timestamp, Work};

/// Time after which a lane counts once more, in milliseconds: longer than a claim that began before the limit was set
/// takes to commit.
const RECOUNT_MS: i64 = 5000;

/// Gives slots of a lane to active executions that have none.
#[derive(Clone, Debug)]
pub struct Adopt {
    pub lane: GateName,
    /// Active executions of the lane. Those that have a slot, or are no longer active, are left as they are.
    pub executions: Vec<ExecutionId>,
    /// The count that is complete: all active executions of the lane were named, here or in earlier calls.
    pub ends: Option<Adoption>,
}

impl Rule for Adopt {
    /// The number of executions adopted.
    type Reply = u32;
    const PHASE: Phase = Phase::Operators;

    fn profile(&self) -> Profile {
        let touch = |execution: &ExecutionId| Touch {
            execution: *execution,
            fence: None,
            lease: LeaseEffect::Keeps,
            may_finish: false,
        };
        Profile {
            executions: self.executions.iter().map(touch).collect(),
            ..Profile::weighing(self.executions.len().max(1))
        }
    }

    /// Locks the executions, waiting for their locks; then the lane.
    fn needs(&self, work: &Work, needs: &mut Needs) {
        needs.executions.lock(self.executions.iter().copied());
        needs.lanes.lock([self.lane.id()]);
        let rows = self.executions.iter().filter_map(|id| work.find(*id).ok().flatten());
        if rows.into_iter().any(|row| work.lane_of(row.class).is_none()) {
            // Another server may have interned the class.
            needs.queries.classes_after = Some(work.newest_class());
        }
    }

    fn decide(&self, work: &mut Work) -> u32 {
        let limits = |gate: &Gate| gate.config.as_ref().is_some_and(|config| config.concurrency.is_some());
        if !limits(&work.gate(&self.lane)) {
            return 0;
        }
        let mut adopted = 0;
        for id in &self.executions {
            let row = work.find(*id).ok().flatten();
            if !row.is_some_and(|row| self.adopts(row, work)) {
                continue;
            }
            let fact = Fact::Adopted(fact::Adopted { gate: self.lane.clone() });
            work.apply(*id, fact, None, |row| row.detail.slots.lane = Some(self.lane.name.clone()));
            work.change_gate(&self.lane, |gate| gate.active += 1);
            adopted += 1;
        }
        // Another server may have completed the count before.
        if let Some(ended) = self.ends.filter(|ended| work.gate(&self.lane).state.adoption == Some(*ended)) {
            let now = work.now();
            work.change_gate(&self.lane, |gate| end_count(gate, ended, now));
            work.mark_opened(self.lane.id());
        }
        adopted
    }
}

impl Adopt {
    /// Reports whether an execution is active in the lane and has no slot of it.
    fn adopts(&self, row: &Execution, work: &Work) -> bool {
        let in_lane = || work.lane_of(row.class).map(|lane| lane_gate(row.namespace, lane));
        row.state.lease().is_some()
            && row.detail.slots.lane.is_none()
            && in_lane().as_ref() == Some(&self.lane)
    }
}

/// Makes a lane count the executions that are active, if its concurrency is limited from now on.
pub(super) fn begin_count(gate: &mut Gate, was_limited: bool, is_limited: bool, now: Timestamp) {
    if gate.name.kind != GateKind::Lane {
        return;
    }
    if !is_limited && gate.state.adoption.take().is_some() {
        gate.due_at = None;
    } else if is_limited && !was_limited {
        gate.state.adoption = Some(Adoption::Counting);
        gate.due_at = Some(now);
    }
}

/// Ends a count: the first is followed by another one.
fn end_count(gate: &mut Gate, ended: Adoption, now: Timestamp) {
    (gate.state.adoption, gate.due_at) = match ended {
        Adoption::Counting => (Some(Adoption::Recounting), Some(now.plus_ms(RECOUNT_MS))),
        Adoption::Recounting => (None, None),
    };
}
