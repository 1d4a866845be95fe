//! The gates of one transaction: slots and amounts that are taken and given back, and the executions that gates hold.

use super::Work;
use crate::execution::{ClaimOrder, Slots};
use crate::gate::draws::{self, BudgetDraw, Taken, fairness_line_of, slots_of, taken};
use crate::gate::{Gate, GateId, GateKind, GateName, LedgerEntry, subtract};
use crate::rows::{Changes, HeldBy, Needs};
use crate::shares::Shares;
use crate::table::{Access, Entry};
use crate::{ClassId, Execution, ExecutionId, Timestamp};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

/// The state of the fair share between lanes. All lanes that are not configured share one member, `None`.
pub type LaneShares = Shares<Option<GateId>>;

/// The gates of one transaction.
#[derive(Debug, Default)]
pub(super) struct Gates {
    /// Gates that were read without a lock, only to see whether they are configured.
    read: HashMap<GateId, bool>,
    /// Slots given back to gates that were not loaded.
    slots_freed: BTreeMap<GateId, u32>,
    /// Gates that may admit more: a slot or an amount was given back to them, or they were configured.
    opened: BTreeSet<GateId>,
    /// The loaded executions that each gate holds, in claim order.
    held: BTreeMap<GateId, VecDeque<ExecutionId>>,
    /// Gates whose held executions were requested, with the position behind which the request began.
    held_requested: HashMap<GateId, Option<ClaimOrder>>,
    /// Gates that may hold executions that are not loaded.
    held_more: HashSet<GateId>,
    /// Classes of executions that were held when a claim reached them. Claims may not have seen the executions behind
    /// them.
    passed_over: BTreeSet<ClassId>,
    shares: LaneShares,
    ledger: Vec<LedgerEntry>,
}

impl Gates {
    /// Returns the gates of a transaction that has loaded none, with the state of the fair share.
    pub fn with_shares(shares: LaneShares) -> Self {
        Gates { shares, ..Gates::default() }
    }

    /// Adds the executions that gates hold. Of a gate that `asked` only reads, nothing is kept but whether it is
    /// configured: no rule may change it or decide by its counts.
    pub fn load(&mut self, asked: &Needs, gates: &mut Vec<Gate>, held: Vec<(HeldBy, Vec<ExecutionId>)>) {
        gates.retain(|gate| {
            let is_read = asked.gates.accesses(&gate.id()).next() == Some(Access::Read);
            if is_read {
                self.read.insert(gate.id(), gate.config.is_some());
            }
            !is_read
        });
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

    /// Adds the ledger and the slots that were given back to the changes of the transaction.
    pub fn finish(self, changes: &mut Changes) {
        changes.ledger = self.ledger;
        changes.unread.slots_freed = self.slots_freed.into_iter().collect();
    }
}

impl Work {
    /// Returns the state of the fair share between lanes.
    pub fn shares(&self) -> &LaneShares {
        &self.gates.shares
    }

    /// Charges a lane's fair share for one claimed execution.
    pub fn serve_lane(&mut self, lane: Option<GateId>, weight: u32) {
        self.gates.shares.serve(&lane, weight);
    }

    /// Reports whether a gate was requested, whether it was found or not.
    pub fn has_requested_gate(&self, id: GateId) -> bool {
        self.requested.gates.contains(&id)
    }

    /// Returns a gate. Default: an empty one.
    pub fn gate(&self, name: &GateName) -> Cow<'_, Gate> {
        match self.tables.gates.get(&name.id()) {
            Some(gate) => Cow::Borrowed(gate),
            None => Cow::Owned(Gate::new(name.clone())),
        }
    }

    /// Reports whether a quota or a budget exists: whether it is configured.
    pub fn is_configured(&self, name: &GateName) -> bool {
        let id = name.id();
        match self.requested.gates.contains(&id) {
            true => self.tables.gates.get(&id).is_some_and(|gate| gate.config.is_some()),
            false => self.gates.read.get(&id).copied().unwrap_or_default(),
        }
    }

    /// Changes a gate, inserting it if it does not exist.
    pub fn change_gate(&mut self, name: &GateName, edit: impl FnOnce(&mut Gate)) {
        let id = name.id();
        if !self.tables.gates.contains(&id) {
            self.tables.gates.insert(Gate::new(name.clone()), ());
        }
        if let Some(entry) = self.tables.gates.change(&id) {
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

    /// Records that a gate may admit more than before.
    pub fn mark_opened(&mut self, id: GateId) {
        self.gates.opened.insert(id);
    }

    /// Takes the gates other than lanes that may admit more than at the last call.
    pub fn take_opened(&mut self) -> Vec<GateName> {
        let rows = self.gates.opened.iter().filter_map(|id| self.tables.gates.get(id));
        let names: Vec<GateName> =
            rows.map(|gate| gate.name.clone()).filter(|name| name.kind != GateKind::Lane).collect();
        for name in &names {
            self.gates.opened.remove(&name.id());
        }
        names
    }

    /// Returns the lanes that may admit more: slots were given back to them, or they were configured.
    pub fn opened_lanes(&self) -> Vec<GateName> {
        let rows = self.gates.opened.iter().filter_map(|id| self.tables.gates.get(id));
        rows.map(|gate| gate.name.clone()).filter(|name| name.kind == GateKind::Lane).collect()
    }

    /// Takes the next loaded execution that a gate holds, in claim order.
    pub fn next_held(&mut self, id: GateId) -> Option<ExecutionId> {
        let held = self.gates.held.get_mut(&id)?;
        while let Some(next) = held.pop_front() {
            let Some(entry) = self.tables.executions.entry(&next) else {
                // Another transaction has locked the execution: it may still be held when this one commits.
                self.gates.held_more.insert(id);
                continue;
            };
            let is_held = entry.row.state.gate().is_some_and(|gate| gate.id() == id);
            if is_held && !entry.is_deleted() {
                return Some(next);
            }
        }
        None
    }

    /// Iterates over the loaded executions of these classes that their fairness lines hold: a claim that takes the head
    /// of a line may then take the next.
    pub fn held_in_lines(&self, classes: &[ClassId]) -> impl Iterator<Item = ExecutionId> {
        let held = self.gates.held.values().flatten().copied();
        held.filter(|id| {
            self.tables.executions.entry(id).is_some_and(|Entry { row, .. }| {
                row.state.gate().is_some_and(|gate| gate.kind == GateKind::Fair)
                    && self.is_in_range(row.class, classes)
            })
        })
    }

    /// Reports whether an execution that a gate holds is loaded.
    pub fn has_loaded_held(&self, id: GateId) -> bool {
        self.gates.held.get(&id).is_some_and(|held| !held.is_empty())
    }

    /// Adds an execution that a gate holds from now on to the loaded ones, in claim order. Does nothing if executions
    /// that are not loaded may precede it.
    pub fn add_held(&mut self, id: GateId, execution: ExecutionId) {
        if self.gates.held_more.contains(&id) {
            return;
        }
        let order =
            |one: &ExecutionId| self.tables.executions.entry(one).map(|entry| entry.row.claim_order());
        let held = self.gates.held.entry(id).or_default();
        let position = held.partition_point(|other| order(other) < order(&execution));
        held.insert(position, execution);
    }

    /// Returns an execution that was not released to the front: it is the next again.
    pub fn put_back_held(&mut self, id: GateId, execution: ExecutionId) {
        self.gates.held.entry(id).or_default().push_front(execution);
    }

    /// Reports whether the executions that a gate holds were requested.
    pub fn has_requested_held(&self, id: GateId) -> bool {
        self.gates.held_requested.contains_key(&id)
    }

    /// Reports whether a loaded gate has recorded that it may hold executions.
    pub fn may_hold(&self, id: GateId) -> bool {
        self.tables.gates.get(&id).is_some_and(|gate| gate.state.holds)
    }

    /// Returns the position behind which the executions that a gate holds were requested; none if from the first on.
    pub fn held_requested_after(&self, id: GateId) -> Option<ClaimOrder> {
        self.gates.held_requested.get(&id).copied().flatten()
    }

    /// Reports whether a gate may hold executions that are not loaded.
    pub fn may_hold_unloaded(&self, id: GateId) -> bool {
        self.gates.held_more.contains(&id) || !self.has_requested_held(id)
    }

    /// Reports whether a gate may hold more executions than were taken from it, loaded or not.
    pub fn may_hold_more(&self, id: GateId) -> bool {
        self.gates.held_more.contains(&id) || self.gates.held.get(&id).is_some_and(|held| !held.is_empty())
    }

    /// Reports whether all loaded executions of a gate were taken, and the gate may hold more.
    pub fn is_last_held(&self, id: GateId) -> bool {
        self.gates.held_more.contains(&id) && self.gates.held.get(&id).is_none_or(VecDeque::is_empty)
    }

    /// Records that an execution of this class was held when a claim reached it. The claim may not have seen the
    /// executions behind it.
    pub fn mark_passed_over(&mut self, class: ClassId) {
        self.gates.passed_over.insert(class);
    }

    /// Iterates over the classes of executions that were held when a claim reached them.
    pub(super) fn passed_over(&self) -> impl Iterator<Item = ClassId> {
        self.gates.passed_over.iter().copied()
    }

    /// Withdraws a waiting execution from the claims of this transaction.
    pub fn withhold(&mut self, id: ExecutionId) {
        let Some(entry) = self.tables.executions.entry(&id) else { return };
        self.ready.remove(&self.classes, entry.row.class, entry.row.claim_order());
    }

    /// Records the place that an execution had in the claim order when a gate released it first.
    pub fn keep_place(&mut self, id: ExecutionId, place: Timestamp) {
        if let Some(entry) = self.tables.executions.entry_mut(&id).filter(|entry| !entry.is_unchanged()) {
            entry.row.detail.place.get_or_insert(place);
        }
    }

    /// Ends the promises of loaded gates to a released execution that will not start now. These gates may admit others,
    /// so they are due. Other promises end by themselves.
    pub fn drop_promises(&mut self, row: &Execution) {
        let slots = slots_of(row).map(|(name, _)| name);
        let budgets = self.budgets_of(row).into_iter().map(|budget| budget.counted());
        let promising: Vec<GateName> =
            slots.chain(budgets).filter(|name| self.gate(name).has_promise(row.id)).collect();
        let now = self.now();
        for name in promising {
            self.change_gate(&name, |gate| {
                gate.end_promise(row.id);
                gate.state.scan_again();
                if gate.state.holds {
                    gate.due_at = Some(now);
                }
            });
        }
    }

    /// Gives back the slots and reserves that a claim has taken.
    pub(super) fn give_back(&mut self, row: &Execution, slots: &Slots) {
        for taken in taken(row, slots) {
            let (name, reserve) = match taken {
                Taken::Slot(name) => (name, None),
                Taken::Reserve(name, reserve) => (name, Some(reserve)),
            };
            let id = name.id();
            match (self.tables.gates.contains(&id), reserve) {
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
                // The gate was deleted meanwhile. A gate that was never requested would keep its reserve for ever.
                (false, _) => {
                    assert!(
                        self.requested.gates.contains(&id),
                        "{name} was not requested, but an amount is given back to it"
                    );
                }
            }
        }
    }

    /// Removes the head of a fairness line: it is no longer waiting.
    pub(super) fn leave_line(&mut self, row: &Execution) {
        let Some(name) = fairness_line_of(row) else { return };
        let id = name.id();
        if self.tables.gates.contains(&id) {
            self.change_gate(&name, |gate| gate.active = gate.active.saturating_sub(1));
            self.gates.opened.insert(id);
        } else if !self.requested.gates.contains(&id) {
            *self.gates.slots_freed.entry(id).or_default() += 1;
        }
    }

    /// Reports whether this transaction has changed an execution.
    pub fn is_changed(&self, id: ExecutionId) -> bool {
        self.tables.executions.entry(&id).is_some_and(|entry| !entry.is_unchanged())
    }

    /// Makes an execution that became waiting in this transaction the head of its fairness line. Does nothing if the
    /// transaction has not changed the execution, since the row would not be saved.
    pub fn make_head(&mut self, id: ExecutionId, name: &GateName) {
        let Some(entry) = self.tables.executions.entry_mut(&id).filter(|entry| !entry.is_unchanged()) else {
            return;
        };
        let row = &mut entry.row;
        let (class, old_order) = (row.class, row.claim_order());
        row.detail.own_priority = Some(row.priority);
        let order = row.claim_order();
        if self.ready.remove(&self.classes, class, old_order) {
            self.ready.insert(&self.classes, class, order);
        }
        self.change_gate(name, |gate| {
            gate.active += 1;
            gate.state.head = Some(id);
        });
    }

    /// Returns the waiting executions with a fairness key that claims of this transaction could take although they are
    /// not the head of a line, in claim order.
    pub fn waiting_out_of_line(&self) -> Vec<ExecutionId> {
        let is_out_of_line = |row: &Execution| {
            row.spec.required_gates.fairness_key.is_some() && row.detail.own_priority.is_none()
        };
        let mut found: Vec<_> = self
            .ready
            .all()
            .filter(|(_, id)| self.tables.executions.get(id).is_some_and(is_out_of_line))
            .collect();
        found.sort_unstable();
        found.into_iter().map(|(_, id)| *id).collect()
    }

    /// Adds an amount to the ledger.
    pub fn add_to_ledger(&mut self, entry: LedgerEntry) {
        self.gates.ledger.push(entry);
    }

    /// Iterates over the loaded executions that draw on gates other than lanes, or have taken slots.
    pub fn gated(&self) -> impl Iterator<Item = &Execution> {
        self.tables
            .executions
            .rows()
            .filter(|row| !row.spec.required_gates.is_empty() || row.detail.slots != Slots::default())
    }
}
