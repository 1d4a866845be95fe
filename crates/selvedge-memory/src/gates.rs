//! Gates, the executions that they hold, and the ledger of budgets.

use crate::tables::remove_member;
use selvedge_core::execution::ClaimOrder;
use selvedge_core::gate::{Amounts, Gate, GateId, GateKind, GateName, LedgerEntry};
use selvedge_core::{Changes, Execution, ExecutionId, Name, NamespaceId, Needs, Rows, Timestamp};
use selvedge_store::{ReconcilerScope, merge};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Bound::{Excluded, Unbounded};

/// The tables of gates.
#[derive(Debug, Default)]
pub struct Gates {
    pub rows: BTreeMap<GateId, Gate>,
    due: BTreeSet<(Timestamp, GateId)>,
    held: HashMap<GateId, BTreeSet<ClaimOrder>>,
    ledger: BTreeMap<(GateId, u32, Option<ExecutionId>), Amounts>,
}

impl Gates {
    /// Adds an execution to the set that its gate holds, if a gate holds it.
    pub fn put_held(&mut self, row: &Execution) {
        if let Some(gate) = row.state.gate() {
            self.held.entry(gate.id()).or_default().insert(row.claim_order());
        }
    }

    /// Removes an execution from the set that its gate holds.
    pub fn take_held(&mut self, row: &Execution) {
        if let Some(gate) = row.state.gate() {
            remove_member(&mut self.held, &gate.id(), &row.claim_order());
        }
    }

    /// Deletes all gates of a namespace with their ledgers, and returns how many rows were deleted.
    pub fn delete_all_of(&mut self, namespace: NamespaceId) -> u64 {
        let before = self.rows.len() + self.ledger.len();
        let doomed: HashSet<GateId> =
            self.rows.values().filter(|gate| gate.name.namespace == namespace).map(Gate::id).collect();
        self.rows.retain(|id, _| !doomed.contains(id));
        self.due.retain(|(_, id)| !doomed.contains(id));
        self.ledger.retain(|(id, _, _), _| !doomed.contains(id));
        (before - self.rows.len() - self.ledger.len()) as u64
    }

    /// Loads the gates that `needs` names and returns the held executions that it asks for.
    pub fn load(&self, needs: &Needs, rows: &mut Rows) -> Vec<ExecutionId> {
        for id in needs.lanes.keys().chain(needs.gates.keys()).chain(needs.parts.keys()) {
            rows.gates.extend(self.rows.get(id).cloned());
        }
        let mut all = Vec::new();
        for asked in &needs.queries.held {
            let after = asked.after.map_or(Unbounded, Excluded);
            let held = self.held.get(&asked.gate).into_iter();
            let held = held.flat_map(|held| held.range((after, Unbounded))).take(asked.limit as usize);
            let held: Vec<ExecutionId> = held.map(|(_, id)| *id).collect();
            all.extend(&held);
            rows.found.held.push((*asked, held));
        }
        all
    }

    /// Returns true if every written or deleted gate has its expected version.
    pub fn guards_hold(&self, changes: &Changes) -> bool {
        let version = |id: GateId| self.rows.get(&id).map(|gate| gate.version);
        let written = changes.gates.versioned().map(|(gate, expected)| (gate.id(), expected));
        let deleted = changes.gates.deleted.iter().map(|(id, expected)| (*id, Some(*expected)));
        written.chain(deleted).all(|(id, expected)| version(id) == expected)
    }

    /// Saves gates and ledger entries. A gate that gets slots back without having been loaded becomes due for a check,
    /// because the decision does not know what it holds.
    pub fn save(&mut self, changes: &Changes, now: Timestamp) {
        for (id, _) in &changes.gates.deleted {
            self.remove(*id);
        }
        for gate in changes.gates.written() {
            self.put(gate.clone());
        }
        for entry in &changes.ledger {
            self.enter((entry.gate, entry.period, entry.execution), &entry.spent);
        }
        // The spending of a deleted execution is kept, without its name.
        for (id, _) in &changes.executions.deleted {
            let of = |name: &&(GateId, u32, Option<ExecutionId>)| name.2 == Some(*id);
            let names: Vec<_> = self.ledger.keys().filter(of).copied().collect();
            for (gate, period, execution) in names {
                let spent = self.ledger.remove(&(gate, period, execution)).unwrap_or_default();
                self.enter((gate, period, None), &spent);
            }
        }
        let flows = changes.flows.deleted.iter().map(|(id, _)| id.0);
        let deleted: HashSet<String> = flows
            .chain(changes.executions.deleted.iter().map(|(id, _)| id.0))
            .map(|id| id.to_string())
            .collect();
        let parts = self.rows.values().filter(|gate| {
            let part = gate.name.part.as_ref().filter(|_| gate.name.kind == GateKind::Budget);
            part.is_some_and(|part| deleted.contains(part.as_str()))
        });
        let parts: HashSet<GateId> =
            if deleted.is_empty() { HashSet::new() } else { parts.map(Gate::id).collect() };
        for id in &parts {
            self.remove(*id);
        }
        if !parts.is_empty() {
            self.ledger.retain(|(gate, _, _), _| !parts.contains(gate));
        }
        for (id, count) in &changes.unread.slots_freed {
            if let Some(mut gate) = self.rows.get(id).cloned() {
                gate.active = gate.active.saturating_sub(*count);
                gate.version += 1;
                gate.due_at = Some(gate.due_at.map_or(now, |at| at.min(now)));
                self.put(gate);
            }
        }
    }

    /// Adds to an entry of the ledger.
    fn enter(&mut self, name: (GateId, u32, Option<ExecutionId>), more: &Amounts) {
        let spent = merge::spent(self.ledger.remove(&name), more);
        self.ledger.insert(name, spent);
    }

    fn put(&mut self, gate: Gate) {
        self.remove(gate.id());
        self.due.extend(gate.due_at.map(|at| (at, gate.id())));
        self.rows.insert(gate.id(), gate);
    }

    fn remove(&mut self, id: GateId) {
        if let Some(at) = self.rows.remove(&id).and_then(|gate| gate.due_at) {
            self.due.remove(&(at, id));
        }
    }

    pub fn has_lanes(&self) -> bool {
        self.rows.values().any(|gate| gate.name.kind == GateKind::Lane && gate.config.is_some())
    }

    pub fn next_due(&self) -> Option<Timestamp> {
        self.due.first().map(|(at, _)| *at)
    }

    pub fn due(
        &self,
        scope: &ReconcilerScope,
        after: Option<(Timestamp, GateId)>,
        limit: u32,
        now: Timestamp,
    ) -> Vec<Gate> {
        let from = after.map_or(Unbounded, Excluded);
        let due = self.due.range((from, Unbounded)).take_while(|(at, _)| *at <= now);
        due.filter_map(|(_, id)| self.rows.get(id))
            .filter(|gate| scope.covers_namespace(gate.name.namespace))
            .take(limit as usize)
            .cloned()
            .collect()
    }

    pub fn list(
        &self,
        namespace: NamespaceId,
        kind: GateKind,
        after: Option<&Name>,
        limit: u32,
    ) -> Vec<Gate> {
        let wanted = |gate: &&Gate| {
            let name = &gate.name;
            (name.namespace, name.kind) == (namespace, kind)
                && gate.config.is_some()
                && after.is_none_or(|after| name.name > *after)
        };
        let mut gates: Vec<Gate> = self.rows.values().filter(wanted).cloned().collect();
        gates.sort_by(|a, b| a.name.cmp(&b.name));
        gates.truncate(limit as usize);
        gates
    }

    pub fn ledger(&self, gate: GateId, period: u32) -> Vec<LedgerEntry> {
        let entries =
            self.ledger.iter().filter(|((of, in_period, _), _)| (*of, *in_period) == (gate, period));
        let entry = |((gate, period, execution), spent): (&(GateId, u32, Option<ExecutionId>), &Amounts)| {
            LedgerEntry { gate: *gate, period: *period, execution: *execution, spent: spent.clone() }
        };
        entries.map(entry).collect()
    }

    pub fn ledger_of(&self, execution: ExecutionId) -> Vec<LedgerEntry> {
        let entries = self.ledger.iter().filter(|((_, _, of), _)| *of == Some(execution));
        let entry = |((gate, period, execution), spent): (&(GateId, u32, Option<ExecutionId>), &Amounts)| {
            LedgerEntry { gate: *gate, period: *period, execution: *execution, spent: spent.clone() }
        };
        entries.map(entry).collect()
    }

    pub fn parts_of(&self, name: &GateName, limit: u32) -> Vec<Gate> {
        let part = |gate: &&Gate| {
            let other = &gate.name;
            (other.namespace, other.kind, &other.name) == (name.namespace, name.kind, &name.name)
                && other.part.is_some()
        };
        self.rows.values().filter(part).take(limit as usize).cloned().collect()
    }

    pub fn count_held(&self, gate: GateId, bound: u64) -> u64 {
        self.held.get(&gate).map_or(0, |held| (held.len() as u64).min(bound))
    }
}
