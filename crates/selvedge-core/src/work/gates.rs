//! Gates, in the rows of one transaction: what was taken and given back, and what they hold.

use super::{Entry, Work};
use crate::execution::{ClaimOrder, Slots};
use crate::gate::{Gate, GateId, GateKind, GateName, LedgerEntry, subtract};
use crate::rows::{Changes, Rows};
use crate::rules::admit::{Taken, fair_gate, taken};
use crate::shares::Shares;
use crate::{ClassId, Execution, ExecutionId};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

/// How far lanes are with their shares of what claims take. All that have no weight are one member.
pub type LaneShares = Shares<Option<GateId>>;

/// The gates of one transaction.
#[derive(Debug, Default)]
pub(super) struct Gates {
    rows: BTreeMap<GateId, (Gate, Option<u32>)>,
    known: HashSet<GateId>,
    freed: BTreeMap<GateId, u32>,
    /// Gates of which something was given back, or that were configured.
    opened: BTreeSet<GateId>,
    held: BTreeMap<GateId, VecDeque<ExecutionId>>,
    /// Of which gates it was asked what they hold, and behind which place.
    asked_held: HashMap<GateId, Option<ClaimOrder>>,
    /// Whether as many as were asked for are held, so that there may be more.
    held_more: HashSet<GateId>,
    /// Classes of which something was held that a claim came across.
    passed_over: BTreeSet<ClassId>,
    shares: LaneShares,
    ledger: Vec<LedgerEntry>,
}

impl Gates {
    /// No gate is loaded; lanes are so far with their shares.
    pub fn sharing(shares: LaneShares) -> Self {
        Gates { shares, ..Gates::default() }
    }

    /// Takes in what the store found.
    pub fn load(&mut self, rows: &mut Rows) {
        self.known.extend(std::mem::take(&mut rows.gates_asked));
        for gate in std::mem::take(&mut rows.gates) {
            let untouched = |(known, stored): &(Gate, Option<u32>)| *stored == Some(known.version);
            // What is read later may have been locked, and then is the truth.
            if self.rows.get(&gate.id()).is_none_or(untouched) {
                let stored = Some(gate.version);
                self.rows.insert(gate.id(), (gate, stored));
            }
        }
        for (asked, held) in std::mem::take(&mut rows.held) {
            self.asked_held
                .entry(asked.gate)
                .and_modify(|after| *after = (*after).min(asked.after))
                .or_insert(asked.after);
            if held.len() == asked.limit as usize {
                self.held_more.insert(asked.gate);
            }
            self.held.entry(asked.gate).or_default().extend(held);
        }
    }

    /// What to save.
    pub fn finish(self, changes: &mut Changes) {
        for (id, (gate, stored)) in self.rows {
            match stored {
                Some(version) if gate.is_empty() => changes.gates_deleted.push((id, version)),
                Some(version) if gate.version == version => {}
                None if gate.is_empty() => {}
                stored => changes.gates.push((gate, stored)),
            }
        }
        changes.ledger = self.ledger;
        changes.gates_freed = self.freed.into_iter().collect();
    }
}

impl Work {
    /// How far the lanes are with their shares.
    pub fn shares(&self) -> &LaneShares {
        &self.gates.shares
    }

    /// A lane gave one out.
    pub fn serve_lane(&mut self, lane: Option<GateId>, weight: u32) {
        self.gates.shares.serve(&lane, weight);
    }

    /// Whether a gate was asked for.
    pub fn knows_gate(&self, id: GateId) -> bool {
        self.gates.known.contains(&id)
    }

    /// A gate as it stands; one that nothing went through where none was found.
    pub fn gate(&self, name: &GateName) -> Cow<'_, Gate> {
        match self.gates.rows.get(&name.id()) {
            Some((gate, _)) => Cow::Borrowed(gate),
            None => Cow::Owned(Gate::new(name.clone())),
        }
    }

    /// Changes a gate.
    pub fn change_gate(&mut self, name: &GateName, edit: impl FnOnce(&mut Gate)) {
        let (gate, _) = self.gates.rows.entry(name.id()).or_insert_with(|| (Gate::new(name.clone()), None));
        edit(gate);
        gate.version += 1;
    }

    /// Something of a gate was given back, or it was configured: it may be open.
    pub fn open_gate(&mut self, id: GateId) {
        self.gates.opened.insert(id);
    }

    /// The gates other than lanes that may have been opened since this was asked last.
    pub fn take_opened(&mut self) -> Vec<GateName> {
        let rows = self.gates.opened.iter().filter_map(|id| self.gates.rows.get(id));
        let names: Vec<GateName> =
            rows.map(|(gate, _)| gate.name.clone()).filter(|name| name.kind != GateKind::Lane).collect();
        for name in &names {
            self.gates.opened.remove(&name.id());
        }
        names
    }

    /// The lanes of which slots were given back, or that were configured.
    pub fn opened_lanes(&self) -> Vec<GateName> {
        let rows = self.gates.opened.iter().filter_map(|id| self.gates.rows.get(id));
        rows.map(|(gate, _)| gate.name.clone()).filter(|name| name.kind == GateKind::Lane).collect()
    }

    /// The next execution that a gate holds, of those at hand.
    pub fn next_held(&mut self, id: GateId) -> Option<ExecutionId> {
        let held = self.gates.held.get_mut(&id)?;
        while let Some(next) = held.pop_front() {
            let Some(entry) = self.executions.get(&next) else {
                // Somebody else has it: it may still be held after this transaction.
                self.gates.held_more.insert(id);
                continue;
            };
            let waits = entry.row.state.gate().is_some_and(|gate| gate.id() == id);
            if waits && !entry.deleted {
                return Some(next);
            }
        }
        None
    }

    /// The loaded executions of these classes that wait in the line of their fairness key: a claim that takes the first of a
    /// line may go on to the next.
    pub fn lined_up(&self, classes: &[ClassId]) -> impl Iterator<Item = ExecutionId> {
        let held = self.gates.held.values().flatten().copied();
        held.filter(|id| {
            self.executions.get(id).is_some_and(|entry| {
                let gate = entry.row.state.gate();
                gate.is_some_and(|gate| gate.kind == GateKind::Fair) && classes.contains(&entry.row.class)
            })
        })
    }

    /// Whether an execution that a gate holds is at hand.
    pub fn has_held(&self, id: GateId) -> bool {
        self.gates.held.get(&id).is_some_and(|held| !held.is_empty())
    }

    /// One was held by a gate just now: it takes its place among those at hand, unless others that are not come before it.
    pub fn put_held(&mut self, id: GateId, execution: ExecutionId) {
        if self.gates.held_more.contains(&id) {
            return;
        }
        let order = |one: &ExecutionId| self.executions.get(one).map(|entry| entry.row.claim_order());
        let held = self.gates.held.entry(id).or_default();
        let place = held.partition_point(|other| order(other) < order(&execution));
        held.insert(place, execution);
    }

    /// Puts one back that was not let through, so that it is the next again.
    pub fn keep_held(&mut self, id: GateId, execution: ExecutionId) {
        self.gates.held.entry(id).or_default().push_front(execution);
    }

    /// Whether it was asked what a gate holds.
    pub fn has_asked_held(&self, id: GateId) -> bool {
        self.gates.asked_held.contains_key(&id)
    }

    /// Whether a gate that is here says that it may hold something.
    pub fn may_be_held_by(&self, id: GateId) -> bool {
        self.gates.rows.get(&id).is_some_and(|(gate, _)| gate.state.holds)
    }

    /// Behind which place it was asked what a gate holds; none from the first on.
    pub fn held_asked_after(&self, id: GateId) -> Option<ClaimOrder> {
        self.gates.asked_held.get(&id).copied().flatten()
    }

    /// Whether a gate may hold something behind what is, or was, at hand.
    pub fn holds_unseen(&self, id: GateId) -> bool {
        self.gates.held_more.contains(&id) || !self.has_asked_held(id)
    }

    /// Whether a gate may hold more than what is at hand.
    pub fn may_hold_more(&self, id: GateId) -> bool {
        self.gates.held_more.contains(&id) || self.gates.held.get(&id).is_some_and(|held| !held.is_empty())
    }

    /// Whether nothing more that a gate holds is at hand, and there may be more.
    pub fn is_last_held(&self, id: GateId) -> bool {
        self.gates.held_more.contains(&id) && self.gates.held.get(&id).is_none_or(VecDeque::is_empty)
    }

    /// A claim came across one of this class, and it was held. What is behind it may not have been looked at.
    pub fn pass_over(&mut self, class: ClassId) {
        self.gates.passed_over.insert(class);
    }

    /// The classes of which claims came across something that was held.
    pub(super) fn passed_over(&self) -> impl Iterator<Item = ClassId> {
        self.gates.passed_over.iter().copied()
    }

    /// Keeps a ready execution from the claims of this transaction.
    pub fn withhold(&mut self, id: ExecutionId) {
        let Some(entry) = self.executions.get(&id) else { return };
        if let Some(ready) = self.ready.get_mut(&entry.row.class) {
            ready.remove(&entry.row.claim_order());
        }
    }

    /// Gives back what a claim has taken.
    pub(super) fn give_back(&mut self, row: &Execution, slots: &Slots) {
        for taken in taken(row, slots) {
            let (name, reserve) = match taken {
                Taken::Slot(name) => (name, None),
                Taken::Reserve(name, reserve) => (name, Some(reserve)),
            };
            let id = name.id();
            match (self.gates.rows.contains_key(&id), reserve) {
                (_, Some(reserve)) if reserve.is_empty() => {}
                (true, None) => {
                    self.change_gate(&name, |gate| gate.active = gate.active.saturating_sub(1));
                    self.gates.opened.insert(id);
                }
                (true, Some(reserve)) => {
                    self.change_gate(&name, |gate| subtract(&mut gate.state.reserved, reserve));
                    self.gates.opened.insert(id);
                }
                (false, None) if !self.gates.known.contains(&id) => {
                    *self.gates.freed.entry(id).or_default() += 1;
                }
                // It was removed meanwhile. One that was never asked for would keep what is reserved for ever.
                (false, _) => {
                    assert!(
                        self.gates.known.contains(&id),
                        "{name} was not asked for, and something is given back to it"
                    );
                }
            }
        }
    }

    /// The one of a fairness key that could be claimed cannot any more.
    pub(super) fn leave_line(&mut self, row: &Execution) {
        let Some(name) = fair_gate(row) else { return };
        let id = name.id();
        if self.gates.rows.contains_key(&id) {
            self.change_gate(&name, |gate| gate.active = gate.active.saturating_sub(1));
            self.gates.opened.insert(id);
        } else if !self.gates.known.contains(&id) {
            *self.gates.freed.entry(id).or_default() += 1;
        }
    }

    /// Whether this transaction has changed an execution.
    pub fn is_changed(&self, id: ExecutionId) -> bool {
        self.executions.get(&id).is_some_and(|entry| !entry.is_untouched())
    }

    /// One that has just become ready is the one of its fairness key that may be claimed. It is saved with what made it
    /// ready.
    pub fn lead_line(&mut self, id: ExecutionId, name: &GateName) {
        let Some(entry) = self.executions.get_mut(&id).filter(|entry| !entry.is_untouched()) else { return };
        let row = &mut entry.row;
        let (class, was_order) = (row.class, row.claim_order());
        row.detail.head = Some(row.priority);
        let order = row.claim_order();
        if let Some(ready) = self.ready.get_mut(&class).filter(|ready| ready.contains(&was_order)) {
            ready.remove(&was_order);
            ready.insert(order);
        }
        self.change_gate(name, |gate| gate.active += 1);
    }

    /// Those with fairness keys that the claims of this transaction could take and that are not in line yet, in order.
    pub fn out_of_line(&self) -> Vec<ExecutionId> {
        let outside = |entry: &Entry| {
            entry.row.spec.draws.fairness_key.is_some() && entry.row.detail.head.is_none() && !entry.deleted
        };
        let ready = self.ready.values().flatten();
        let mut found: Vec<_> =
            ready.filter(|(_, id)| self.executions.get(id).is_some_and(|entry| outside(entry))).collect();
        found.sort_unstable();
        found.into_iter().map(|(_, id)| *id).collect()
    }

    /// Adds to the ledger.
    pub fn enter(&mut self, entry: LedgerEntry) {
        self.gates.ledger.push(entry);
    }

    /// The executions at hand that are ready or leased, and go through gates.
    pub fn gated(&self) -> impl Iterator<Item = &Execution> {
        let at_hand = self.executions.values().filter(|entry| !entry.deleted).map(|entry| &entry.row);
        at_hand.filter(|row| !row.spec.draws.is_empty() || row.detail.slots != Slots::default())
    }
}
