//! Gates, in the rows of one transaction: what was taken and given back, and what they hold.

use super::Work;
use crate::execution::{ClaimOrder, Slots};
use crate::gate::draws::{self, BudgetDraw, Taken, fairness_line_of, slots_of, taken};
use crate::gate::{Gate, GateId, GateKind, GateName, LedgerEntry, subtract};
use crate::rows::{Changes, HeldBy};
use crate::shares::Shares;
use crate::table::{Entry, Table};
use crate::{ClassId, Execution, ExecutionId};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

/// How far lanes are with their shares of what claims take. All that have no weight are one member.
pub type LaneShares = Shares<Option<GateId>>;

/// The gates of one transaction.
#[derive(Debug, Default)]
pub(super) struct Gates {
    rows: Table<Gate>,
    /// Slots given back to gates that were not loaded.
    slots_freed: BTreeMap<GateId, u32>,
    /// Gates to which something was given back, or that were configured.
    opened: BTreeSet<GateId>,
    /// The loaded executions that each gate holds, in claim order.
    held: BTreeMap<GateId, VecDeque<ExecutionId>>,
    /// Gates whose held executions were requested, and the place behind which the request began.
    held_requested: HashMap<GateId, Option<ClaimOrder>>,
    /// Gates that may hold more executions than were loaded.
    held_more: HashSet<GateId>,
    /// Classes with an execution that a claim met and that was held.
    passed_over: BTreeSet<ClassId>,
    shares: LaneShares,
    ledger: Vec<LedgerEntry>,
}

impl Gates {
    /// Returns a transaction's gates, with the fair shares of lanes; no gate is loaded.
    pub fn sharing(shares: LaneShares) -> Self {
        Gates { shares, ..Gates::default() }
    }

    /// Adds loaded rows.
    pub fn load(&mut self, gates: Vec<Gate>, held: Vec<(HeldBy, Vec<ExecutionId>)>) {
        gates.into_iter().for_each(|gate| drop(self.rows.load(gate)));
        for (asked, held) in held {
            self.held_requested
                .entry(asked.gate)
                .and_modify(|after| *after = (*after).min(asked.after))
                .or_insert(asked.after);
            if held.len() == asked.limit as usize {
                self.held_more.insert(asked.gate);
            }
            self.held.entry(asked.gate).or_default().extend(held);
        }
    }

    /// Adds the writes to the changes of the transaction. A gate that says nothing any more is deleted, also one that became so
    /// when slots were given back without reading it.
    pub fn finish(self, changes: &mut Changes) {
        for (id, entry) in self.rows.into_all() {
            match (entry.stored(), entry.row.is_empty()) {
                (Some(version), true) => changes.gates.deleted.push((id, version)),
                (None, true) => {}
                (None, false) => changes.gates.inserted.push(entry.row),
                (Some(_), false) if entry.is_unchanged() => {}
                (Some(version), false) => changes.gates.updated.push((entry.row, version)),
            }
        }
        changes.ledger = self.ledger;
        changes.unread.slots_freed = self.slots_freed.into_iter().collect();
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

    /// Reports whether a gate was requested, found or not.
    pub fn has_requested_gate(&self, id: GateId) -> bool {
        self.requested.gates.contains(&id)
    }

    /// Returns a gate; an empty one if none is stored.
    pub fn gate(&self, name: &GateName) -> Cow<'_, Gate> {
        match self.gates.rows.get(&name.id()) {
            Some(gate) => Cow::Borrowed(gate),
            None => Cow::Owned(Gate::new(name.clone())),
        }
    }

    /// Changes a gate, which may be new.
    pub fn change_gate(&mut self, name: &GateName, edit: impl FnOnce(&mut Gate)) {
        let id = name.id();
        if !self.gates.rows.contains(&id) {
            self.gates.rows.insert(Gate::new(name.clone()), ());
        }
        if let Some(entry) = self.gates.rows.change(&id) {
            edit(&mut entry.row);
            entry.row.version += 1;
        }
    }

    /// Returns the budgets of an execution, with the parts that count for it as the budgets are configured now.
    pub fn budgets_of<'a>(&self, row: &'a Execution) -> Vec<BudgetDraw<'a>> {
        draws::budgets_of(row, |whole| {
            let scope = self.gate(whole).config.as_ref().map(|config| config.scope).unwrap_or_default();
            draws::part_of(row, scope, self.lane_of(row.class))
        })
    }

    /// Reports whether all gates that an execution draws on were requested.
    pub fn has_requested_gates_of(&self, row: &Execution) -> bool {
        fairness_line_of(row).is_none_or(|line| self.has_requested_gate(line.id()))
            && slots_of(row).all(|(name, _)| self.has_requested_gate(name.id()))
            && self.budgets_of(row).iter().all(|budget| {
                self.has_requested_gate(budget.whole.id()) && self.has_requested_gate(budget.counted().id())
            })
    }

    /// Something of a gate was given back, or it was configured: it may be open.
    pub fn open_gate(&mut self, id: GateId) {
        self.gates.opened.insert(id);
    }

    /// The gates other than lanes that may have been opened since this was asked last.
    pub fn take_opened(&mut self) -> Vec<GateName> {
        let rows = self.gates.opened.iter().filter_map(|id| self.gates.rows.get(id));
        let names: Vec<GateName> =
            rows.map(|gate| gate.name.clone()).filter(|name| name.kind != GateKind::Lane).collect();
        for name in &names {
            self.gates.opened.remove(&name.id());
        }
        names
    }

    /// The lanes of which slots were given back, or that were configured.
    pub fn opened_lanes(&self) -> Vec<GateName> {
        let rows = self.gates.opened.iter().filter_map(|id| self.gates.rows.get(id));
        rows.map(|gate| gate.name.clone()).filter(|name| name.kind == GateKind::Lane).collect()
    }

    /// The next execution that a gate holds, of those at hand.
    pub fn next_held(&mut self, id: GateId) -> Option<ExecutionId> {
        let held = self.gates.held.get_mut(&id)?;
        while let Some(next) = held.pop_front() {
            let Some(entry) = self.executions.entry(&next) else {
                // Another transaction has locked it: it may still be held after this one.
                self.gates.held_more.insert(id);
                continue;
            };
            let waits = entry.row.state.gate().is_some_and(|gate| gate.id() == id);
            if waits && !entry.is_deleted() {
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
            self.executions.entry(id).is_some_and(|Entry { row, .. }| {
                row.state.gate().is_some_and(|gate| gate.kind == GateKind::Fair)
                    && classes.contains(&row.class)
            })
        })
    }

    /// Whether an execution that a gate holds is at hand.
    pub fn has_loaded_held(&self, id: GateId) -> bool {
        self.gates.held.get(&id).is_some_and(|held| !held.is_empty())
    }

    /// One was held by a gate just now: it takes its place among those at hand, unless others that are not come before it.
    pub fn add_held(&mut self, id: GateId, execution: ExecutionId) {
        if self.gates.held_more.contains(&id) {
            return;
        }
        let order = |one: &ExecutionId| self.executions.entry(one).map(|entry| entry.row.claim_order());
        let held = self.gates.held.entry(id).or_default();
        let place = held.partition_point(|other| order(other) < order(&execution));
        held.insert(place, execution);
    }

    /// Puts one back that was not let through, so that it is the next again.
    pub fn put_back_held(&mut self, id: GateId, execution: ExecutionId) {
        self.gates.held.entry(id).or_default().push_front(execution);
    }

    /// Whether it was asked what a gate holds.
    pub fn has_requested_held(&self, id: GateId) -> bool {
        self.gates.held_requested.contains_key(&id)
    }

    /// Whether a gate that is here says that it may hold something.
    pub fn may_hold(&self, id: GateId) -> bool {
        self.gates.rows.get(&id).is_some_and(|gate| gate.state.holds)
    }

    /// Behind which place it was asked what a gate holds; none from the first on.
    pub fn held_requested_after(&self, id: GateId) -> Option<ClaimOrder> {
        self.gates.held_requested.get(&id).copied().flatten()
    }

    /// Whether a gate may hold something behind what is, or was, at hand.
    pub fn may_hold_unloaded(&self, id: GateId) -> bool {
        self.gates.held_more.contains(&id) || !self.has_requested_held(id)
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
        let Some(entry) = self.executions.entry(&id) else { return };
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
            match (self.gates.rows.contains(&id), reserve) {
                (_, Some(reserve)) if reserve.is_empty() => {}
                (true, None) => {
                    self.change_gate(&name, |gate| gate.active = gate.active.saturating_sub(1));
                    self.gates.opened.insert(id);
                }
                (true, Some(reserve)) => {
                    self.change_gate(&name, |gate| subtract(&mut gate.state.reserved, reserve));
                    self.gates.opened.insert(id);
                }
                (false, None) if !self.requested.gates.contains(&id) => {
                    *self.gates.slots_freed.entry(id).or_default() += 1;
                }
                // It was removed meanwhile. One that was never asked for would keep what is reserved for ever.
                (false, _) => {
                    assert!(
                        self.requested.gates.contains(&id),
                        "{name} was not asked for, and something is given back to it"
                    );
                }
            }
        }
    }

    /// The one of a fairness key that could be claimed cannot any more.
    pub(super) fn leave_line(&mut self, row: &Execution) {
        let Some(name) = fairness_line_of(row) else { return };
        let id = name.id();
        if self.gates.rows.contains(&id) {
            self.change_gate(&name, |gate| gate.active = gate.active.saturating_sub(1));
            self.gates.opened.insert(id);
        } else if !self.requested.gates.contains(&id) {
            *self.gates.slots_freed.entry(id).or_default() += 1;
        }
    }

    /// Whether this transaction has changed an execution.
    pub fn is_changed(&self, id: ExecutionId) -> bool {
        self.executions.entry(&id).is_some_and(|entry| !entry.is_unchanged())
    }

    /// One that has just become ready is the one of its fairness key that may be claimed. It is saved with what made it
    /// ready.
    pub fn lead_line(&mut self, id: ExecutionId, name: &GateName) {
        let Some(entry) = self.executions.entry_mut(&id).filter(|entry| !entry.is_unchanged()) else {
            return;
        };
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
        let outside = |row: &Execution| row.spec.draws.fairness_key.is_some() && row.detail.head.is_none();
        let ready = self.ready.values().flatten();
        let mut found: Vec<_> =
            ready.filter(|(_, id)| self.executions.get(id).is_some_and(outside)).collect();
        found.sort_unstable();
        found.into_iter().map(|(_, id)| *id).collect()
    }

    /// Adds an amount to the ledger.
    pub fn add_to_ledger(&mut self, entry: LedgerEntry) {
        self.gates.ledger.push(entry);
    }

    /// The executions at hand that are ready or leased, and go through gates.
    pub fn gated(&self) -> impl Iterator<Item = &Execution> {
        self.executions
            .rows()
            .filter(|row| !row.spec.draws.is_empty() || row.detail.slots != Slots::default())
    }
}
