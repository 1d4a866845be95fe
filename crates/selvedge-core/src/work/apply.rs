//! The change of one execution: the only way in which a row of an execution changes.

use super::{Closing, Work, tag_entry};
use crate::execution::{ClaimOrder, Slots};
use crate::fact::Fact;
use crate::flow::FlowState;
use crate::outbox::OutboxKind;
use crate::state::StateName;
use crate::transition::allowed;
use crate::{Execution, ExecutionId, Flow, FlowId, Name, Outcome, Timestamp};
use std::collections::BTreeMap;

/// The difference that a change makes to an execution, as far as other rows depend on it.
struct Applied {
    from: StateName,
    to: StateName,
    /// The place in the claim order before the change.
    old_order: ClaimOrder,
    /// Time of the claim whose lease has ended.
    ended_lease: Option<Timestamp>,
    ended_or_reopened: bool,
    /// The outcome, if the execution has one now.
    outcome: Option<Outcome>,
    flow: Option<FlowId>,
    /// The execution has ended with waitpoints.
    leaves_waitpoints: bool,
    /// The parent waits for the execution, which ended or reopened.
    tells_parent: bool,
    has_children: bool,
    /// The tags before the change, if it may have changed them.
    old_tags: Option<BTreeMap<String, String>>,
    /// The slots to give back, with the row.
    slots: Option<(Execution, Slots)>,
    /// The row, if it was the head of its fairness line.
    left_head: Option<Execution>,
    /// The row, if a gate may have promised something to it.
    leaves_promise: Option<Execution>,
}

impl Applied {
    /// Changes a row by `edit`, and adapts the columns that follow from its state.
    ///
    /// # Panics
    /// If the change is not in the transition table.
    fn to(row: &mut Execution, now: Timestamp, fact: &Fact, edit: impl FnOnce(&mut Execution)) -> Applied {
        let (from, old_order) = (row.state.name(), row.claim_order());
        let claimed_at = row.state.lease().map(|lease| lease.claimed_at);
        let old_tags = matches!(fact, Fact::Tagged { .. }).then(|| row.tags.clone());
        edit(row);
        row.detail.replace_nul();
        let (to, outcome, id) = (row.state.name(), row.state.outcome(), row.id);
        let cause = fact.cause().expect("a change has a cause");
        assert!(allowed(Some(from), cause, to), "{cause:?} may not take {id} from {from:?} to {to:?}");
        let ended_or_reopened = outcome.is_some() != from.outcome().is_some();
        if ended_or_reopened {
            row.ended_at = outcome.map(|_| now);
        }
        let tells_parent = ended_or_reopened && row.tells_parent();
        row.detail.end_awaited &= outcome.is_none();
        if to == StateName::Active || outcome.is_some() {
            row.detail.breached = None;
        }
        let stays = matches!(to, StateName::Waiting | StateName::Held);
        let was_released = !stays && row.detail.place.take().is_some();
        let leaves_promise = was_released && from == StateName::Waiting && to != StateName::Active;
        let leaves_promise = leaves_promise.then(|| row.clone());
        row.version += 1;
        let slots = (from == StateName::Active && to != StateName::Active)
            .then(|| std::mem::take(&mut row.detail.slots))
            .filter(|slots| *slots != Slots::default())
            .map(|slots| (row.clone(), slots));
        let left_head = from == StateName::Waiting && to != from && row.detail.own_priority.take().is_some();
        Applied {
            from,
            to,
            old_order,
            ended_lease: claimed_at.filter(|_| to != StateName::Active),
            ended_or_reopened,
            outcome,
            flow: row.flow,
            leaves_waitpoints: outcome.is_some() && ended_or_reopened && row.detail.record.waitpoints > 0,
            tells_parent,
            has_children: row.wiring().has_attached_children(),
            old_tags,
            slots,
            left_head: left_head.then(|| row.clone()),
            leaves_promise,
        }
    }
}

impl Work {
    /// Changes an execution: `edit` changes the row, `fact` is the event, `actor` is the caller who asked for the
    /// change.
    ///
    /// # Panics
    /// If the row is not loaded or the change is not in the transition table. Either is a defect of the rule; only this
    /// transaction fails.
    pub fn apply(
        &mut self,
        id: ExecutionId,
        fact: Fact,
        actor: Option<Name>,
        edit: impl FnOnce(&mut Execution),
    ) {
        let was_changed = self.is_changed(id);
        let row =
            &mut self.tables.executions.change(&id).expect("a rule changes rows that it has loaded").row;
        let change = Applied::to(row, self.now, &fact, edit);
        self.ready.remove(&self.classes, row.class, change.old_order);
        if let Some(claimed_at) = change.ended_lease {
            self.ended_leases.push((id, claimed_at));
        }
        if change.leaves_waitpoints {
            self.closing.insert(id, Closing::All);
        }
        self.note_end_of_member(id, &change, was_changed);
        self.index_tags(id, &change);
        self.record(id, fact, actor);
        if let Some(flow) = change.flow.filter(|_| change.from != change.to) {
            self.count(flow, change.from, -1);
            self.count(flow, change.to, 1);
        }
        let failed = change.outcome.is_some_and(|outcome| outcome != Outcome::Completed);
        if change.ended_or_reopened && change.has_children && failed {
            self.enqueue(OutboxKind::Children, id);
        }
        if change.tells_parent {
            self.enqueue_parent(id);
        }
        if let Some((row, slots)) = &change.slots {
            self.give_back(row, slots);
        }
        if let Some(row) = &change.left_head {
            self.leave_line(row);
        }
        if let Some(row) = &change.leaves_promise {
            self.drop_promises(row);
        }
    }

    /// Notes a member of a flow whose downstreams have to be updated, because it ended or reopened.
    fn note_end_of_member(&mut self, id: ExecutionId, change: &Applied, was_changed: bool) {
        let Some(flow) = change.flow.filter(|_| change.ended_or_reopened) else { return };
        self.unpropagated.insert(id);
        // An execution that reopens in a cancelled flow is cancelled by the same transaction.
        let running = |flow: &Flow| flow.state == FlowState::Running || flow.detail.cancel.is_some();
        // The flow of an execution that ended in this very transaction is running: it had a live member.
        let reopens = change.outcome.is_none() && !was_changed;
        assert!(
            !reopens || self.tables.flows.get(&flow).is_some_and(running),
            "{id} reopens, and flow {flow} is not running"
        );
    }

    /// Writes the difference between the tags before and after a change to the tag index.
    fn index_tags(&mut self, id: ExecutionId, change: &Applied) {
        let (Some(before), Some(row)) = (&change.old_tags, self.tables.executions.get(&id)) else { return };
        let removed = before.iter().filter(|(name, value)| row.tags.get(*name) != Some(value));
        removed.for_each(|(name, value)| self.tags.remove(tag_entry(row, name, value)));
        let added = row.tags.iter().filter(|(name, value)| before.get(*name) != Some(value));
        added.for_each(|(name, value)| self.tags.add(tag_entry(row, name, value)));
    }
}
