//! Gates, the executions that they hold, and the ledger of budgets.

use crate::MemoryStore;
use crate::kinds::{Kind, Saving, Tables, remove_member};
use async_trait::async_trait;
use selvedge_core::gate::{Amounts, Gate, GateId, GateKind, GateName, LedgerEntry};
use selvedge_core::{Changes, Execution, ExecutionId, Name, NamespaceId, Needs, Rows, Timed, Timestamp};
use selvedge_store::{Error, GateReads, ReconcilerScope, merge};
use std::collections::HashSet;
use std::ops::Bound::{Excluded, Unbounded};

pub(crate) const KIND: Kind = Kind {
    load,
    guards_hold,
    save,
    due: |tables| Some((Gate::KIND, tables.due_gates.first()?.0)),
    delete_rest,
};

/// The name of a ledger entry.
pub type EntryName = (GateId, u32, Option<ExecutionId>);

/// Adds an execution to the set that its gate holds, if a gate holds it.
pub fn put_held(tables: &mut Tables, row: &Execution) {
    if let Some(gate) = row.state.gate() {
        tables.held.entry(gate.id()).or_default().insert(row.claim_order());
    }
}

/// Removes an execution from the set that its gate holds.
pub fn take_held(tables: &mut Tables, row: &Execution) {
    if let Some(gate) = row.state.gate() {
        remove_member(&mut tables.held, &gate.id(), &row.claim_order());
    }
}

/// Deletes all gates of a namespace with their ledgers, and returns how many rows were deleted.
fn delete_rest(tables: &mut Tables, namespace: NamespaceId) -> usize {
    let before = tables.gates.len() + tables.ledger.len();
    let doomed: HashSet<GateId> =
        tables.gates.values().filter(|gate| gate.name.namespace == namespace).map(Gate::id).collect();
    tables.gates.retain(|id, _| !doomed.contains(id));
    tables.due_gates.retain(|(_, id)| !doomed.contains(id));
    tables.ledger.retain(|(id, _, _), _| !doomed.contains(id));
    before - tables.gates.len() - tables.ledger.len()
}

fn load(tables: &Tables, needs: &Needs, rows: &mut Rows) {
    for id in needs.lanes.keys().chain(needs.gates.keys()).chain(needs.parts.keys()) {
        rows.gates.extend(tables.gates.get(id).cloned());
    }
    for asked in &needs.queries.held {
        let after = asked.after.map_or(Unbounded, Excluded);
        let held = tables.held.get(&asked.gate).into_iter();
        let held = held.flat_map(|held| held.range((after, Unbounded))).take(asked.limit as usize);
        rows.found.held.push((*asked, held.map(|(_, id)| *id).collect()));
    }
}

/// Returns true if every written or deleted gate has its expected version.
fn guards_hold(tables: &Tables, changes: &Changes) -> bool {
    let version = |id: GateId| tables.gates.get(&id).map(|gate| gate.version);
    let written = changes.gates.versioned().map(|(gate, expected)| (gate.id(), expected));
    let deleted = changes.gates.deleted.iter().map(|(id, expected)| (*id, Some(*expected)));
    written.chain(deleted).all(|(id, expected)| version(id) == expected)
}

/// Saves gates and ledger entries. A gate that gets slots back without having been loaded becomes due for a check,
/// because the decision does not know what it holds.
fn save(tables: &mut Tables, changes: &mut Changes, saving: &mut Saving) {
    for (id, _) in &changes.gates.deleted {
        remove(tables, *id);
    }
    for gate in changes.gates.written() {
        put(tables, gate.clone());
    }
    for entry in &changes.ledger {
        enter(tables, (entry.gate, entry.period, entry.execution), &entry.spent);
    }
    // The spending of a deleted execution is kept, without its name.
    for (id, _) in &changes.executions.deleted {
        let of = |name: &&EntryName| name.2 == Some(*id);
        let names: Vec<_> = tables.ledger.keys().filter(of).copied().collect();
        for (gate, period, execution) in names {
            let spent = tables.ledger.remove(&(gate, period, execution)).unwrap_or_default();
            enter(tables, (gate, period, None), &spent);
        }
    }
    let flows = changes.flows.deleted.iter().map(|(id, _)| id.0);
    let deleted: HashSet<String> =
        flows.chain(changes.executions.deleted.iter().map(|(id, _)| id.0)).map(|id| id.to_string()).collect();
    let parts = tables.gates.values().filter(|gate| {
        let part = gate.name.part.as_ref().filter(|_| gate.name.kind == GateKind::Budget);
        part.is_some_and(|part| deleted.contains(part.as_str()))
    });
    let parts: HashSet<GateId> =
        if deleted.is_empty() { HashSet::new() } else { parts.map(Gate::id).collect() };
    for id in &parts {
        remove(tables, *id);
    }
    if !parts.is_empty() {
        tables.ledger.retain(|(gate, _, _), _| !parts.contains(gate));
    }
    for (id, count) in &changes.unread.slots_freed {
        if let Some(mut gate) = tables.gates.get(id).cloned() {
            gate.active = gate.active.saturating_sub(*count);
            gate.version += 1;
            gate.due_at = Some(gate.due_at.map_or(saving.now, |at| at.min(saving.now)));
            put(tables, gate);
        }
    }
}

/// Adds to an entry of the ledger.
fn enter(tables: &mut Tables, name: EntryName, more: &Amounts) {
    let spent = merge::spent(tables.ledger.remove(&name), more);
    tables.ledger.insert(name, spent);
}

fn put(tables: &mut Tables, gate: Gate) {
    remove(tables, gate.id());
    tables.due_gates.extend(gate.due_at.map(|at| (at, gate.id())));
    tables.gates.insert(gate.id(), gate);
}

fn remove(tables: &mut Tables, id: GateId) {
    if let Some(at) = tables.gates.remove(&id).and_then(|gate| gate.due_at) {
        tables.due_gates.remove(&(at, id));
    }
}

pub fn has_lanes(tables: &Tables) -> bool {
    tables.gates.values().any(|gate| gate.name.kind == GateKind::Lane && gate.config.is_some())
}

/// Returns the ledger entries whose names match.
fn entries(tables: &Tables, matches: impl Fn(&EntryName) -> bool) -> Vec<LedgerEntry> {
    let entries = tables.ledger.iter().filter(|(name, _)| matches(name));
    let entry = |(&(gate, period, execution), spent): (&EntryName, &Amounts)| LedgerEntry {
        gate,
        period,
        execution,
        spent: spent.clone(),
    };
    entries.map(entry).collect()
}

#[async_trait]
impl GateReads for MemoryStore {
    async fn fetch_gates(&self, ids: &[GateId]) -> Result<Vec<Gate>, Error> {
        self.read("fetch_gates", |tables, _| {
            ids.iter().filter_map(|id| tables.gates.get(id).cloned()).collect()
        })
        .await
    }

    async fn list_gates(
        &self,
        namespace: NamespaceId,
        kind: GateKind,
        after: Option<&Name>,
        limit: u32,
    ) -> Result<Vec<Gate>, Error> {
        self.read("list_gates", |tables, _| {
            let wanted = |gate: &&Gate| {
                let name = &gate.name;
                (name.namespace, name.kind) == (namespace, kind)
                    && gate.config.is_some()
                    && after.is_none_or(|after| name.name > *after)
            };
            let mut gates: Vec<Gate> = tables.gates.values().filter(wanted).cloned().collect();
            gates.sort_by(|a, b| a.name.cmp(&b.name));
            gates.truncate(limit as usize);
            gates
        })
        .await
    }

    async fn due_gates(
        &self,
        scope: &ReconcilerScope,
        after: Option<(Timestamp, GateId)>,
        limit: u32,
    ) -> Result<Vec<Gate>, Error> {
        self.read("due_gates", |tables, now| {
            let from = after.map_or(Unbounded, Excluded);
            let due = tables.due_gates.range((from, Unbounded)).take_while(|(at, _)| *at <= now);
            due.filter_map(|(_, id)| tables.gates.get(id))
                .filter(|gate| scope.covers_namespace(gate.name.namespace))
                .take(limit as usize)
                .cloned()
                .collect()
        })
        .await
    }

    async fn parts_of(&self, name: &GateName, limit: u32) -> Result<Vec<Gate>, Error> {
        self.read("parts_of", |tables, _| {
            let part = |gate: &&Gate| {
                let other = &gate.name;
                (other.namespace, other.kind, &other.name) == (name.namespace, name.kind, &name.name)
                    && other.part.is_some()
            };
            tables.gates.values().filter(part).take(limit as usize).cloned().collect()
        })
        .await
    }

    async fn ledger(&self, gate: GateId, period: u32) -> Result<Vec<LedgerEntry>, Error> {
        self.read("ledger", |tables, _| entries(tables, |(of, at, _)| (*of, *at) == (gate, period))).await
    }

    async fn ledger_of(&self, execution: ExecutionId) -> Result<Vec<LedgerEntry>, Error> {
        self.read("ledger_of", |tables, _| entries(tables, |(_, _, of)| *of == Some(execution))).await
    }

    async fn held_by(&self, gate: GateId, bound: u64) -> Result<u64, Error> {
        self.read("held_by", |tables, _| {
            tables.held.get(&gate).map_or(0, |held| (held.len() as u64).min(bound))
        })
        .await
    }
}
