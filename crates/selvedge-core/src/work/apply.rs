//! The change of one execution: the only way in which a row of an execution changes.
//!
//! A change also notes the waitpoints that it closes: those of an execution that ends, whatever ended it, and those for the
//! signals that only served a wait that ends. The driver then loads the waitpoints of these executions only, and closes
//! the open ones. An execution that never had a waitpoint is not noted, so it costs nothing.

use super::{Work, tag_entry};
use crate::execution::{ClaimOrder, Slots};
use crate::fact::Fact;
use crate::flow::FlowState;
use crate::outbox::OutboxKind;
use crate::state::StateName;
use crate::transition::allowed;
use crate::{Execution, ExecutionId, Flow, FlowId, Name, Outcome, Timestamp, Waitpoint};
use std::collections::{BTreeMap, BTreeSet};

/// The difference that a change makes to an execution, as far as other rows depend on it.
struct Applied {
    from: StateName,
    to: StateName,
    /// The place in the claim order before the change.
    old_order: ClaimOrder,
    /// Time of the claim whose lease has ended.
    ended_lease: Option<Timestamp>,
    /// The execution ended or reopened; none if it was live before and after, or ended before and after.
    turn: Option<Turn>,
    flow: Option<FlowId>,
    /// The tags before the change, if it may have changed them.
    old_tags: Option<BTreeMap<String, String>>,
    left: LeftGates,
}

/// A change between live and ended.
struct Turn {
    /// The outcome; none if the execution reopened.
    outcome: Option<Outcome>,
    /// The parent waits for the execution.
    tells_parent: bool,
    has_children: bool,
    has_waitpoints: bool,
}

/// The slots and reserves that a change takes from gates, each with the row after it.
struct LeftGates {
    /// The slots to give back.
    slots: Option<(Execution, Slots)>,
    /// It was the head of its fairness line.
    line: Option<Execution>,
    /// A gate may have promised something to it.
    promise: Option<Execution>,
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
        let (to, id) = (row.state.name(), row.id);
        let cause = fact.cause().expect("a change has a cause");
        assert!(allowed(Some(from), cause, to), "{cause:?} may not take {id} from {from:?} to {to:?}");
        let turn = Turn::of(row, from, now);
        if to == StateName::Active || to.outcome().is_some() {
            row.detail.breached = None;
        }
        row.version += 1;
        let left = LeftGates::of(row, from);
        let ended_lease = claimed_at.filter(|_| to != StateName::Active);
        Applied { from, to, old_order, ended_lease, turn, flow: row.flow, old_tags, left }
    }
}

impl Turn {
    /// Sets the time of the end if the row ended or reopened.
    fn of(row: &mut Execution, from: StateName, now: Timestamp) -> Option<Turn> {
        let outcome = row.state.outcome();
        let turned = outcome.is_some() != from.outcome().is_some();
        let turn = turned.then(|| Turn {
            outcome,
            tells_parent: row.tells_parent(),
            has_children: row.wiring().has_attached_children(),
            has_waitpoints: row.detail.record.waitpoints > 0,
        });
        if turned {
            row.ended_at = outcome.map(|_| now);
        }
        row.detail.end_awaited &= outcome.is_none();
        turn
    }
}

impl LeftGates {
    /// Takes from the row what it no longer has in its state.
    fn of(row: &mut Execution, from: StateName) -> LeftGates {
        let to = row.state.name();
        let stays = matches!(to, StateName::Waiting | StateName::Held);
        let was_released = !stays && row.detail.place.take().is_some();
        let unused = was_released && from == StateName::Waiting && to != StateName::Active;
        let promise = unused.then(|| row.clone());
        let slots = (from == StateName::Active && to != StateName::Active)
            .then(|| std::mem::take(&mut row.detail.slots))
            .filter(|slots| *slots != Slots::default())
            .map(|slots| (row.clone(), slots));
        let left_line = from == StateName::Waiting && to != from && row.detail.own_priority.take().is_some();
        LeftGates { slots, line: left_line.then(|| row.clone()), promise }
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
        let entry = self.tables.executions.change(&id).expect("a rule changes rows that it has loaded");
        let row = &mut entry.row;
        let change = Applied::to(row, self.now, &fact, edit);
        self.ready.remove(&self.classes, row.class, change.old_order);
        self.ended_leases.extend(change.ended_lease.map(|claimed_at| (id, claimed_at)));
        self.index_tags(id, &change);
        self.record(id, fact, actor);
        if let Some(flow) = change.flow.filter(|_| change.from != change.to) {
            self.count(flow, change.from, -1);
            self.count(flow, change.to, 1);
        }
        if let Some(turn) = &change.turn {
            self.propagate_turn(id, change.flow, turn, was_changed);
        }
        self.leave_gates(&change.left);
    }

    /// Notes the rows that depend on whether an execution has ended: its waitpoints, downstreams, children and parent.
    fn propagate_turn(&mut self, id: ExecutionId, flow: Option<FlowId>, turn: &Turn, was_changed: bool) {
        if turn.has_waitpoints && turn.outcome.is_some() {
            self.closing.insert(id, Closing::All);
        }
        if let Some(flow) = flow {
            self.unpropagated.insert(id);
            // The flow of an execution that ended in this very transaction is running: it had a live member.
            let reopens = turn.outcome.is_none() && !was_changed;
            assert!(!reopens || self.is_running(flow), "{id} reopens, and flow {flow} is not running");
        }
        let failed = turn.outcome.is_some_and(|outcome| outcome != Outcome::Completed);
        if turn.has_children && failed {
            self.enqueue(OutboxKind::Children, id);
        }
        if turn.tells_parent {
            self.enqueue_parent(id);
        }
    }

    /// Reports whether a loaded flow runs, or is being cancelled: an execution that reopens in a cancelled flow is
    /// cancelled by the same transaction.
    fn is_running(&self, flow: FlowId) -> bool {
        let running = |flow: &Flow| flow.state == FlowState::Running || flow.detail.cancel.is_some();
        self.tables.flows.get(&flow).is_some_and(running)
    }

    /// Gives back what a change has taken from the row.
    fn leave_gates(&mut self, left: &LeftGates) {
        if let Some((row, slots)) = &left.slots {
            self.give_back(row, slots);
        }
        if let Some(row) = &left.line {
            self.leave_line(row);
        }
        if let Some(row) = &left.promise {
            self.drop_promises(row);
        }
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

/// The open waitpoints of an execution that are to be closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Closing {
    /// All: the execution has ended.
    All,
    /// Waitpoints whose token may send one of these signals: they only served waits that have ended.
    Of(BTreeSet<Name>),
}

impl Closing {
    /// Reports whether it closes this waitpoint.
    pub fn closes(&self, waitpoint: &Waitpoint) -> bool {
        match self {
            Closing::All => true,
            Closing::Of(names) => {
                names.contains(&waitpoint.name) || waitpoint.choices().iter().any(|name| names.contains(name))
            }
        }
    }
}

impl Work {
    /// Notes that the waitpoints for these signals serve no wait any more.
    pub fn close_waitpoints_of(&mut self, id: ExecutionId, names: BTreeSet<Name>) {
        let has_waitpoints =
            self.tables.executions.get(&id).is_some_and(|row| row.detail.record.waitpoints > 0);
        if has_waitpoints && !names.is_empty() {
            match self.closing.entry(id).or_insert_with(|| Closing::Of(BTreeSet::new())) {
                Closing::All => {}
                Closing::Of(known) => known.extend(names),
            }
        }
    }

    /// Returns the executions of which waitpoints may have to be closed.
    pub fn closing(&self) -> impl Iterator<Item = ExecutionId> {
        self.closing.keys().copied()
    }

    /// Takes what is to be closed of an execution, if anything is.
    pub fn take_closing(&mut self, id: ExecutionId) -> Option<Closing> {
        self.closing.remove(&id)
    }
}
