//! The rows of one transaction by kind: how they are loaded into their tables, the access of rules to those that are
//! neither executions, flows nor gates, and the changes for the store to save.
//!
//! Most kinds are loaded by [`load_all`] and written by a method of [`Table`]; the list of kinds names the function where a
//! kind differs. A row that the transaction has changed stays as it is when it is loaded again.
//!
//! Every change to a record of an execution (a signal, a step, a waitpoint) comes with a change of the execution through
//! [`Work::apply`], which raises its version. A delivery of a webhook is written without being read, under the lock of its
//! webhook.

use super::Work;
use crate::flow::Counts;
use crate::gate::{Gate, GateId};
use crate::outbox::OutboxKind;
use crate::rows::{
    Changes, HeldLease, Inserted, KeyName, KeyRow, KeySubject, Payload, ResultChange, Updated,
};
use crate::stream::Stream;
use crate::table::{Entries, Guarded, Kind, Table};
use crate::token::TokenKey;
use crate::waitpoint::WaitpointState;
use crate::webhook::{Delivery, DeliveryId, Webhook, WebhookId};
use crate::{
    Execution, ExecutionId, Flow, FlowId, Name, NamespaceId, Rows, Session, SessionId, Signal, Step,
    Timestamp, Waitpoint, WaitpointId,
};
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
#[derive(Debug, Default)]
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

/// State that a transaction keeps about a session besides its row.
#[derive(Debug, Default)]
pub(crate) struct SessionExtra {
    /// The session replaces the stored row instead of being merged with it.
    pub reset: bool,
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

impl Work {
    /// Returns a key, if it exists.
    pub fn key(&self, name: &KeyName) -> Option<&KeyRow> {
        self.row(name)
    }

    /// Returns a session, if it exists.
    pub fn session(&self, id: SessionId) -> Option<&Session> {
        self.row(&id)
    }

    /// Writes a key. An existing key is replaced; the save checks that it still refers to the execution that was read.
    pub fn put_key(&mut self, row: KeyRow) {
        if let Some(before) = self.tables.keys.entry(&row.name).filter(|entry| entry.is_unchanged()) {
            self.keys_removed.push((row.name.clone(), before.row.subject));
        }
        self.tables.keys.put(row);
    }

    /// Reports whether the sessions of an instance were requested, whether any was found or not.
    pub fn has_requested_instance(&self, namespace: NamespaceId, instance: &Name) -> bool {
        self.requested.instances.contains(&(namespace, instance.clone()))
    }

    /// Returns the sessions of an instance, in id order.
    pub fn sessions_of(&self, namespace: NamespaceId, instance: &Name) -> Vec<Session> {
        let of_instance =
            |session: &&Session| session.namespace() == namespace && session.instance == *instance;
        let mut sessions: Vec<Session> = self.tables.sessions.rows().filter(of_instance).cloned().collect();
        sessions.sort_by_key(|session| session.id);
        sessions
    }

    /// Writes a session that replaces the stored row instead of being merged with it. The caller has locked the row.
    pub fn reset_session(&mut self, session: Session) {
        let id = session.id;
        self.tables.sessions.put(session);
        if let Some(entry) = self.tables.sessions.entry_mut(&id) {
            entry.extra.reset = true;
        }
    }

    /// Returns the loaded leases of a session.
    pub fn leases_of(&self, session: SessionId) -> impl Iterator<Item = &HeldLease> {
        self.leases.iter().filter(move |lease| lease.session == session)
    }
}

/// Deliveries that are deleted without being read.
#[derive(Debug, Default)]
pub(super) struct Webhooks {
    removed: BTreeSet<WebhookId>,
    pruned: BTreeMap<WebhookId, u64>,
}

impl Webhooks {
    /// Adds the writes to the changes of the transaction.
    pub fn finish(self, changes: &mut Changes) {
        changes.unread.webhooks_removed = self.removed.into_iter().collect();
        changes.unread.deliveries_pruned = self.pruned.into_iter().collect();
    }
}

impl Work {
    /// Writes a webhook, with the next version.
    pub fn put_webhook(&mut self, mut webhook: Webhook) {
        let stored = self.tables.webhooks.entry(&webhook.name).and_then(|entry| entry.stored());
        webhook.version = stored.unwrap_or(0) + 1;
        self.tables.webhooks.put(webhook);
    }

    /// Deletes a webhook with its deliveries.
    pub fn remove_webhook(&mut self, webhook: &Webhook) {
        self.tables.webhooks.delete(&webhook.name);
        self.tables.deliveries.forget(|delivery| delivery.webhook == webhook.detail.id);
        self.webhooks.pruned.remove(&webhook.detail.id);
        self.webhooks.removed.insert(webhook.detail.id);
    }

    /// Returns a delivery, if it is loaded.
    pub fn delivery(&self, id: DeliveryId) -> Option<&Delivery> {
        self.tables.deliveries.rows().find(|delivery| delivery.id == id)
    }

    /// Deletes the delivered deliveries of a webhook with smaller numbers than this.
    pub fn prune_deliveries(&mut self, webhook: WebhookId, before: u64) {
        let pruned = self.webhooks.pruned.entry(webhook).or_default();
        *pruned = before.max(*pruned);
    }
}

/// Facts about the records of executions besides their rows.
#[derive(Debug, Default)]
pub(super) struct Records {
    /// Executions whose steps and signals are all loaded.
    whole: HashSet<ExecutionId>,
    /// The number of the suspension that takes each signal. The signals need not be loaded.
    signals_taken: BTreeMap<(ExecutionId, u32), u32>,
}

impl Records {
    /// Marks loaded signals that this transaction has taken: a claim loads the record after a suspension of the same
    /// transaction may have taken signals.
    pub fn load(&mut self, rows: &mut Rows) {
        self.whole.extend(std::mem::take(&mut rows.found.records));
        for signal in &mut rows.signals {
            let taken = self.signals_taken.get(&(signal.execution, signal.number));
            signal.taken = taken.copied().or(signal.taken);
        }
    }

    /// Adds the taken signals to the changes of the transaction.
    pub fn finish(self, changes: &mut Changes) {
        let taken = self.signals_taken.into_iter();
        changes.unread.signals_taken =
            taken.map(|((execution, number), by)| (execution, number, by)).collect();
    }
}

impl Work {
    /// Drops the record of a deleted execution: an execution that is inserted with the same id in this transaction
    /// starts without one.
    pub(super) fn forget_record(&mut self, id: ExecutionId) {
        self.records.whole.remove(&id);
        self.records.signals_taken.retain(|(execution, _), _| *execution != id);
        self.tables.signals.forget(|signal| signal.execution == id);
        self.tables.steps.forget(|step| step.execution == id);
        self.tables.waitpoints.forget(|waitpoint| waitpoint.execution == id);
    }

    /// Reports whether all steps and signals of an execution are known: it had none, or they were loaded.
    pub fn has_whole_record(&self, id: ExecutionId) -> bool {
        self.records.whole.contains(&id)
            || self.tables.executions.entry(&id).is_some_and(|entry| entry.extra.bare)
    }

    /// Returns the loaded signals of an execution, in the order of their delivery.
    pub fn signals(&self, of: ExecutionId) -> impl Iterator<Item = &Signal> {
        self.tables.signals.range((of, 0)..=(of, u32::MAX))
    }

    /// Returns a signal by the key that its sender chose, if it is loaded.
    pub fn keyed_signal(&self, of: ExecutionId, key: &Name) -> Option<&Signal> {
        self.signals(of).find(|signal| signal.key.as_ref() == Some(key))
    }

    /// Records that a suspension takes a signal, loaded or not.
    pub fn take_signal(&mut self, of: ExecutionId, number: u32, suspension: u32) {
        // Does not mark the row as written: the store marks the signal as taken without reading it.
        if let Some(entry) = self.tables.signals.entry_mut(&(of, number)) {
            entry.row.taken = Some(suspension);
        }
        self.records.signals_taken.insert((of, number), suspension);
    }

    /// Returns a step by its name, if it is loaded.
    pub fn step(&self, of: ExecutionId, name: &Name) -> Option<&Step> {
        self.tables.steps.get(&(of, name.clone()))
    }

    /// Returns the loaded steps of an execution, in the order in which they began.
    pub fn steps(&self, of: ExecutionId) -> Vec<&Step> {
        let from = self.tables.steps.range((of, Name::trusted(""))..);
        let mut steps: Vec<&Step> = from.take_while(|step| step.execution == of).collect();
        steps.sort_unstable_by_key(|step| step.number);
        steps
    }

    /// Returns the loaded waitpoints of an execution, in the order of their creation.
    pub fn waitpoints(&self, of: ExecutionId) -> impl DoubleEndedIterator<Item = &Waitpoint> {
        self.tables.waitpoints.range((of, 0)..=(of, u32::MAX))
    }

    /// Returns a waitpoint of an execution, if it is loaded.
    pub fn waitpoint(&self, of: ExecutionId, id: WaitpointId) -> Option<&Waitpoint> {
        self.waitpoints(of).find(|waitpoint| waitpoint.id == id)
    }

    /// Returns the earliest expiry of the open waitpoints of an execution; `changed` replaces the loaded waitpoint with
    /// the same id.
    pub fn next_expiry(&self, of: ExecutionId, changed: Option<&Waitpoint>) -> Option<Timestamp> {
        let others = self.waitpoints(of).filter(|one| changed.is_none_or(|changed| changed.id != one.id));
        let open = others.chain(changed).filter(|one| one.state == WaitpointState::Open);
        open.filter_map(|one| one.expires_at).min()
    }

    /// Iterates over the loaded token keys.
    pub fn token_keys(&self) -> impl Iterator<Item = &TokenKey> {
        self.tables.token_keys.range(..)
    }
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
