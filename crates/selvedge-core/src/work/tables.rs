//! Loading rows into the tables of a transaction, and the changes for the store to save.
//!
//! Most kinds are loaded by [`load_all`] and written by a method of [`Table`]; the list of kinds names the function where a
//! kind differs. A row that the transaction has changed stays as it is when it is loaded again.

use super::Work;
use crate::flow::Counts;
use crate::gate::{Gate, GateId};
use crate::outbox::OutboxKind;
use crate::rows::{Changes, Inserted, KeyName, KeyRow, KeySubject, Payload, ResultChange, Updated};
use crate::stream::Stream;
use crate::table::{Entries, Guarded, Kind, Table};
use crate::{Execution, ExecutionId, Flow, FlowId, Session, SessionId, Signal, Step};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Adds rows, as most kinds do: a row that is loaded again replaces the earlier one.
pub(crate) fn load_all<R: Kind>(table: &mut Table<R>, rows: Vec<R>) {
    for row in rows {
        table.load(row);
    }
}

pub(crate) fn load_executions(table: &mut Table<Execution>, rows: Vec<Execution>) {
    for row in rows {
        load_execution(table, row);
    }
}

/// Adds an execution.
pub(super) fn load_execution(table: &mut Table<Execution>, row: Execution) {
    let bare = !row.detail.record.is_carried();
    if let Some(entry) = table.load(row) {
        entry.extra.bare = bare;
    }
}

/// Adds keys that are not loaded yet. Keys are not locked: the save compares the stored key with the one that was read
/// first.
pub(crate) fn load_first_keys(table: &mut Table<KeyRow>, rows: Vec<KeyRow>) {
    for row in rows {
        if !table.contains(&row.name) {
            table.load(row);
        }
    }
}

/// Adds streams. A stream that was read with its summary document replaces one that was read without.
pub(crate) fn load_streams(table: &mut Table<Stream>, rows: Vec<Stream>) {
    for row in rows {
        if row.summary.is_some() || !table.contains(&row.name) {
            table.load(row);
        }
    }
}

/// Adds signals. A known signal only gets the payload that it lacks.
pub(crate) fn load_signals(table: &mut Table<Signal>, rows: Vec<Signal>) {
    for row in rows {
        match table.entry_mut(&row.key()) {
            Some(known) if known.row.payload.is_none() => known.row.payload = row.payload,
            Some(_) => {}
            None => drop(table.load(row)),
        }
    }
}

/// State that a transaction keeps about an execution besides its row.
#[derive(Debug)]
pub(crate) struct ExecutionExtra {
    /// The input, or its size, if it is loaded.
    pub input: Option<Payload>,
    /// The input was replaced.
    pub replaces_input: bool,
    pub result: ResultChange,
    /// The flow or the wiring changed. They are written only if this is set.
    pub rewired: bool,
    /// The execution had neither steps nor signals when it was loaded.
    pub bare: bool,
}

impl Default for ExecutionExtra {
    fn default() -> Self {
        ExecutionExtra {
            input: None,
            replaces_input: false,
            result: ResultChange::Keep,
            rewired: false,
            bare: false,
        }
    }
}

/// State that a transaction keeps about a session besides its row.
#[derive(Debug, Default)]
pub(crate) struct SessionExtra {
    /// The session replaces the stored row instead of being merged with it.
    pub reset: bool,
}

impl Work {
    /// Returns all changes. Enqueues, in the outbox, the executions that ended or reopened and whose downstreams were
    /// not updated. This is the only place that does so, whatever ended them.
    pub fn finish(mut self) -> Changes {
        for id in std::mem::take(&mut self.unpropagated) {
            if self.tables.executions.get(&id).is_some_and(|row| !row.wiring().downstreams.is_empty()) {
                self.enqueue(OutboxKind::Edges, id);
            }
        }
        let mut changes = self.tables.finish();
        let deleted: HashSet<ExecutionId> = changes.executions.deleted.iter().map(|(id, _)| *id).collect();
        changes.executions.deleted.extend(self.replaced);
        changes.executions.deleted.sort_unstable();
        changes.unread.flow_counts = flow_counts(&mut changes.flows, self.flow_counts);
        self.keys_removed.sort();
        changes.keys.removed = self.keys_removed;
        changes.tags = self.tags.into_entries();
        changes.nodes = Entries {
            written: self.nodes_added.into_iter().collect(),
            removed: self.nodes_removed.into_iter().collect(),
        };
        changes.history_pages = self.history_pages;
        changes.frames = self.frames;
        changes.unread.frames_dropped = self.frames_dropped.into_iter().collect();
        changes.events = self.events;
        self.records.finish(&mut changes);
        self.webhooks.finish(&mut changes);
        self.gates.finish(&mut changes);
        changes.history_pages.retain(|page| !deleted.contains(&page.execution));
        changes.signals.retain(|signal| !deleted.contains(&signal.execution));
        changes.steps.retain(|step| !deleted.contains(&step.execution));
        changes.waitpoints.retain(|waitpoint| !deleted.contains(&waitpoint.execution));
        changes.unread.signals_taken.retain(|(execution, ..)| !deleted.contains(execution));
        changes
    }
}

/// Returns the writes of executions.
pub(crate) fn written_executions(table: Table<Execution>) -> Guarded<Inserted, Updated, ExecutionId> {
    let mut writes = Guarded::default();
    for (id, entry) in table.into_changed() {
        let deleted = entry.is_deleted();
        match (entry.stored(), deleted) {
            (Some(version), true) => writes.deleted.push((id, version)),
            (None, true) => {}
            (None, false) => writes.inserted.push(Inserted {
                execution: entry.row,
                input: entry.extra.input.as_ref().and_then(Payload::whole).cloned().unwrap_or_default(),
                result: match entry.extra.result {
                    ResultChange::Set(result) => Some(result),
                    ResultChange::Keep | ResultChange::Clear => None,
                },
            }),
            (Some(expected_version), false) => writes.updated.push(Updated {
                execution: entry.row,
                expected_version,
                input: entry
                    .extra
                    .input
                    .filter(|_| entry.extra.replaces_input)
                    .and_then(|input| input.whole().cloned()),
                result: entry.extra.result,
                rewired: entry.extra.rewired,
            }),
        }
    }
    writes
}

type FlowWrites = Guarded<Flow, (Flow, u32), FlowId>;

/// Returns the additions to the counts of flows. A new flow is inserted with its counts; other counts are added by the
/// store.
fn flow_counts(flows: &mut FlowWrites, mut counts: BTreeMap<FlowId, Counts>) -> Vec<(FlowId, Counts)> {
    for flow in &mut flows.inserted {
        flow.counts += counts.remove(&flow.id).unwrap_or_default();
    }
    for (id, _) in &flows.deleted {
        counts.remove(id);
    }
    counts.into_iter().filter(|(_, more)| !more.is_zero()).collect()
}

/// Returns the writes of gates. A loaded gate that is empty is deleted, even if it was stored empty because slots were
/// given back without reading it.
pub(crate) fn written_gates(table: Table<Gate>) -> Guarded<Gate, (Gate, u32), GateId> {
    let mut writes = Guarded::default();
    for (id, entry) in table.into_all() {
        match (entry.stored(), entry.row.is_empty()) {
            (Some(version), true) => writes.deleted.push((id, version)),
            (None, true) => {}
            (None, false) => writes.inserted.push(entry.row),
            (Some(_), false) if entry.is_unchanged() => {}
            (Some(version), false) => writes.updated.push((entry.row, version)),
        }
    }
    writes
}

/// Returns the writes of keys. The keys to remove are added from the transaction.
pub(crate) fn written_keys(table: Table<KeyRow>) -> Entries<KeyRow, (KeyName, Option<KeySubject>)> {
    Entries::writing(table.into_written())
}

/// Returns the writes of steps, in the order in which they began.
pub(crate) fn written_steps(table: Table<Step>) -> Vec<Step> {
    let mut steps = table.into_written();
    steps.sort_by_key(|step| (step.execution, step.number));
    steps
}

/// Returns the writes of sessions. A session that replaces its stored row is both removed and written.
pub(crate) fn written_sessions(table: Table<Session>) -> Entries<Session, SessionId> {
    let mut writes = Entries::default();
    for (id, entry) in table.into_changed() {
        if entry.is_deleted() || entry.extra.reset {
            writes.removed.push(id);
        }
        if !entry.is_deleted() {
            writes.written.push(entry.row);
        }
    }
    writes
}

/// The entries that a transaction adds to an index and removes from it, relative to the store. Adding and removing the
/// same entry cancel out.
#[derive(Debug)]
pub(super) struct Difference<T> {
    added: BTreeSet<T>,
    removed: BTreeSet<T>,
}

impl<T> Default for Difference<T> {
    fn default() -> Self {
        Difference { added: BTreeSet::new(), removed: BTreeSet::new() }
    }
}

impl<T: Ord> Difference<T> {
    pub fn add(&mut self, entry: T) {
        if !self.removed.remove(&entry) {
            self.added.insert(entry);
        }
    }

    pub fn remove(&mut self, entry: T) {
        if !self.added.remove(&entry) {
            self.removed.insert(entry);
        }
    }

    pub fn into_entries(self) -> Entries<T, T> {
        Entries { written: self.added.into_iter().collect(), removed: self.removed.into_iter().collect() }
    }
}
