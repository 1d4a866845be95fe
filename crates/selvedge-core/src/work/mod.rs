//! The rows of one transaction while the rules work on them, and the only place through which a row changes.
//!
//! [`Work::apply`] checks each change against the transition table, raises the version, writes the history line and the
//! event, and offers waiting executions to the claims of the same transaction. A rule refuses before it applies
//! anything, so a refused operation leaves no trace.

mod apply;
mod claims;
mod flows;
mod gates;
pub(crate) mod rows;

pub use apply::Closing;
pub use gates::LaneShares;

use rows::{Difference, ExecutionExtra};

use crate::fact::{self, Fact};
use crate::filter::tag_text;
use crate::flow::Counts;
use crate::gate::{GateId, GateKind};
use crate::history::HistoryLine;
use crate::kinds::Tables;
use crate::log::Event;
use crate::rows::{
    HeldLease, HistoryPage, KeyName, KeySubject, Members, Needs, NodeEntry, Payload, ResultChange, Rows,
    StoredRelative, TagEntry,
};
use crate::state::StateName;
use crate::stream::{Frame, StreamName};
use crate::table::{Access, Plain};
use crate::transition::allowed;
use crate::wiring::Wiring;
use crate::{
    ClassId, Classes, Entropy, Execution, ExecutionId, FlowId, Name, NamespaceId, Refusal, State, Timestamp,
};
use bytes::Bytes;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// The rows of one transaction.
#[derive(Debug, Default)]
pub struct Work {
    now: Timestamp,
    /// The transaction's time is fixed, because a rule was decided with it.
    stopped: bool,
    repeated: bool,
    expects_lanes: bool,
    classes: Arc<Classes>,
    entropy: Entropy,
    requested: Requested,
    tables: Tables,
    /// Executions that were to be locked if free and that another transaction has locked.
    skipped: HashSet<ExecutionId>,
    unreadable: HashMap<ExecutionId, String>,
    relatives: HashMap<ExecutionId, StoredRelative>,
    /// The loaded waiting executions.
    ready: claims::Ready,
    /// Number of executions that became waiting in this transaction. Gives each its own position in the claim order.
    readied: i64,
    /// Executions that ended or reopened in this transaction and whose downstreams have not been updated yet.
    unpropagated: BTreeSet<ExecutionId>,
    /// Executions of which waitpoints may have to be closed, because the execution or a wait of it has ended.
    closing: BTreeMap<ExecutionId, Closing>,
    /// Executions whose lease ended in this transaction, each with the time of its claim.
    ended_leases: Vec<(ExecutionId, Timestamp)>,
    /// Stored versions of executions that this transaction deletes and inserts again under the same id.
    replaced: Vec<(ExecutionId, u32)>,
    history_pages: Vec<HistoryPage>,
    tags: Difference<TagEntry>,
    keys_removed: Vec<(KeyName, Option<KeySubject>)>,
    leases: Vec<HeldLease>,
    flow_counts: BTreeMap<FlowId, Counts>,
    nodes: HashMap<(FlowId, Name), ExecutionId>,
    nodes_added: BTreeSet<NodeEntry>,
    nodes_removed: BTreeSet<(FlowId, Name)>,
    members: HashMap<Members, Vec<ExecutionId>>,
    frames: Vec<Frame>,
    frames_dropped: BTreeMap<StreamName, u32>,
    records: rows::Records,
    webhooks: rows::Webhooks,
    gates: gates::Gates,
    events: Vec<Event>,
}

/// The context of a transaction before it loads anything.
#[derive(Debug)]
pub struct Context {
    /// The source of lease ids and jitter.
    pub entropy: Entropy,
    /// The classes that this process knows.
    pub classes: Arc<Classes>,
    /// The state of the fair share between lanes.
    pub shares: LaneShares,
    /// The transaction was tried before, and an earlier try may have committed without its answer arriving.
    pub repeated: bool,
    /// A lane may be configured.
    pub lanes: bool,
}

/// Keys that were requested from the store, whether a row was found or not.
#[derive(Debug, Default)]
struct Requested {
    executions: HashSet<ExecutionId>,
    /// Executions to be locked if free.
    if_free: HashSet<ExecutionId>,
    gates: HashSet<GateId>,
    instances: HashSet<(NamespaceId, Name)>,
}

impl Work {
    /// Returns a transaction without rows and without known classes. It expects that lanes may be configured.
    pub fn new(entropy: Entropy) -> Self {
        Work { entropy, expects_lanes: true, ..Work::default() }
    }

    /// Returns a transaction that has not loaded anything yet.
    pub fn begin(context: Context) -> Self {
        let Context { entropy, classes, shares, repeated, lanes } = context;
        let gates = gates::Gates::with_shares(shares);
        Work { entropy, classes, repeated, expects_lanes: lanes, gates, ..Work::default() }
    }

    /// Adds the rows that the store found for `asked`. The latest reported time becomes the time of the whole
    /// transaction, so that no loaded row is newer than it. Once a rule was decided, the time is fixed.
    pub fn load(&mut self, asked: &Needs, mut rows: Rows) {
        if !self.stopped {
            self.now = self.now.max(rows.now);
        }
        self.record_request(asked);
        self.gates.load(asked, &mut rows.gates, std::mem::take(&mut rows.found.held));
        self.records.load(&mut rows);
        self.tables.load(&mut rows);
        let Rows { skipped, unreadable, inputs, relatives, nodes, found, .. } = rows;
        self.skipped.extend(skipped);
        self.unreadable.extend(unreadable);
        for (id, input) in inputs {
            if let Some(entry) = self.tables.executions.entry_mut(&id)
                && entry.extra.input.as_ref().and_then(Payload::whole).is_none()
            {
                entry.extra.input = Some(input);
            }
        }
        self.relatives.extend(relatives.into_iter().map(|row| (row.relative.execution, row)));
        self.nodes.extend(nodes.into_iter().map(|(flow, name, execution)| ((flow, name), execution)));
        self.members.extend(found.members);
        self.leases.extend(found.leases);
        found.candidates.into_iter().for_each(|id| self.offer(id));
    }

    /// Records the keys that were requested.
    fn record_request(&mut self, asked: &Needs) {
        let Requested { executions, if_free, gates, instances } = &mut self.requested;
        if_free.extend(asked.executions.iter(Access::LockIfFree));
        let named = [Access::Lock, Access::Read].map(|access| asked.executions.iter(access));
        executions.extend(named.into_iter().flatten());
        // Gates that are only read may not be changed, so they do not count as requested.
        gates.extend(asked.lanes.keys().chain(asked.gates.iter(Access::Lock)).chain(asked.parts.keys()));
        instances.extend(asked.queries.instances.iter().cloned());
    }

    /// Adds executions of which a part was found to be unreadable. No claim takes them.
    pub fn add_unreadable(&mut self, unreadable: impl IntoIterator<Item = (ExecutionId, String)>) {
        self.unreadable.extend(unreadable);
    }

    /// Adds a row from the lease cache. The save fails if the store no longer has this version.
    pub fn add_cached(&mut self, execution: Execution) {
        if !self.tables.executions.contains(&execution.id) {
            rows::load_execution(&mut self.tables.executions, execution);
        }
    }

    /// Returns a row that is loaded and not deleted.
    pub(crate) fn row<K: Plain>(&self, key: &K::Key) -> Option<&K> {
        K::table(&self.tables).get(key)
    }

    /// Inserts or updates a row.
    pub(crate) fn put<K: Plain>(&mut self, row: K) {
        K::table_mut(&mut self.tables).put(row);
    }

    /// Deletes a row.
    pub(crate) fn remove<K: Plain>(&mut self, key: &K::Key) {
        K::table_mut(&mut self.tables).delete(key);
    }

    /// Fixes the transaction's time: rows were changed with it, and later loads only read.
    pub fn stop_clock(&mut self) {
        self.stopped = true;
    }

    /// Reports whether the transaction was tried before. An earlier try may have committed without its answer arriving.
    pub fn is_repeated(&self) -> bool {
        self.repeated
    }

    /// Reports whether a lane may be configured, so that lanes must be read.
    pub fn expects_lanes(&self) -> bool {
        self.expects_lanes
    }

    /// Takes the executions whose lease ended, each with the time of its claim.
    pub fn take_ended_leases(&mut self) -> Vec<(ExecutionId, Timestamp)> {
        std::mem::take(&mut self.ended_leases)
    }

    /// Replaces the known classes.
    pub fn set_classes(&mut self, classes: Arc<Classes>) {
        self.classes = classes;
    }

    /// Returns the newest known class.
    pub fn newest_class(&self) -> ClassId {
        self.classes.newest()
    }

    /// Returns the lane of a class or pool, if it is known.
    pub fn lane_of(&self, class: ClassId) -> Option<&Name> {
        self.classes.lane_of(class)
    }

    /// Reports whether an execution was to be locked if free and another transaction has locked it.
    pub fn is_skipped(&self, id: ExecutionId) -> bool {
        self.skipped.contains(&id)
    }

    /// Reports whether an execution was to be locked if free, and is locked.
    pub fn is_locked_if_free(&self, id: ExecutionId) -> bool {
        self.requested.if_free.contains(&id) && !self.is_skipped(id)
    }

    /// Reports whether an execution was requested by id, whether it was found or not.
    pub fn was_requested(&self, id: ExecutionId) -> bool {
        self.requested.executions.contains(&id)
    }

    /// Returns the time of the transaction.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Returns the random source of the transaction.
    pub fn entropy(&mut self) -> &mut Entropy {
        &mut self.entropy
    }

    /// Reports whether this transaction inserts the execution.
    pub fn is_new(&self, id: ExecutionId) -> bool {
        self.tables.executions.entry(&id).is_some_and(|entry| entry.is_new())
    }

    /// Reports whether an execution is loaded, readable or not.
    pub fn is_loaded(&self, id: ExecutionId) -> bool {
        self.tables.executions.contains(&id) || self.unreadable.contains_key(&id)
    }

    pub fn execution(&self, namespace: NamespaceId, id: ExecutionId) -> Result<&Execution, Refusal> {
        self.find(id)?.filter(|row| row.namespace == namespace).ok_or_else(|| Refusal::no_execution(id))
    }

    /// Returns an execution of any namespace, if it exists.
    pub fn find(&self, id: ExecutionId) -> Result<Option<&Execution>, Refusal> {
        if let Some(detail) = self.unreadable.get(&id) {
            return Err(Refusal::Unreadable { execution: id, detail: detail.clone() });
        }
        Ok(self.tables.executions.get(&id))
    }

    /// Refuses an id that an execution or a flow of another namespace has. The refusal says nothing about it: callers must not learn
    /// about other namespaces.
    pub fn refuse_foreign_id(
        &self,
        namespace: NamespaceId,
        id: ExecutionId,
        pointer: &str,
    ) -> Result<(), Refusal> {
        let execution = self.find(id).ok().flatten().map(|row| row.namespace);
        let flow = self.find_flow(FlowId(id.0)).map(|flow| flow.namespace);
        match execution.into_iter().chain(flow).any(|of| of != namespace) {
            true => Err(Refusal::IdTaken { pointer: pointer.into() }),
            false => Ok(()),
        }
    }

    /// Inserts an execution. `fact` is its first event, `actor` the caller who submitted it.
    pub fn insert(&mut self, row: Execution, input: Bytes, fact: Fact, actor: Option<Name>) {
        let id = row.id;
        debug_assert!(fact.cause().is_some_and(|cause| allowed(None, cause, row.state.name())));
        row.tags.iter().for_each(|(name, value)| self.tags.add(tag_entry(&row, name, value)));
        if let Some(flow) = row.flow {
            self.count(flow, row.state.name(), 1);
            self.name_node(flow, &row);
        }
        let bare = !row.detail.record.is_carried();
        let extra = ExecutionExtra { input: Some(input.into()), bare, ..ExecutionExtra::default() };
        if let Some(stored) = self.tables.executions.insert(row, extra) {
            self.replaced.push((id, stored));
        }
        self.record(id, fact, actor);
    }

    /// Adds edges or children to an execution. An execution without a flow becomes a member of `flow`.
    pub fn rewire(
        &mut self,
        id: ExecutionId,
        flow: FlowId,
        fact: Fact,
        edit: impl FnOnce(&mut Execution, &mut Wiring),
    ) {
        let had_no_flow = self.tables.executions.get(&id).is_some_and(|row| row.flow.is_none());
        self.apply(id, fact, None, |row| {
            let mut wiring = row.wiring().clone();
            edit(row, &mut wiring);
            row.wiring = Some(wiring.into());
            row.flow = Some(flow);
        });
        let Some(entry) = self.tables.executions.change(&id) else { return };
        entry.extra.rewired = true;
        if had_no_flow {
            let row = entry.row.clone();
            self.count(flow, row.state.name(), 1);
            self.name_node(flow, &row);
        }
    }

    /// Adds an execution to the index of node names.
    fn name_node(&mut self, flow: FlowId, row: &Execution) {
        let name = Name::trusted(row.spec.node.as_ref().map_or(crate::execution::ROOT, |node| &node.name));
        self.nodes.insert((flow, name.clone()), row.id);
        let (submitted_at, execution) = (row.submitted_at, row.id);
        self.nodes_added.insert(NodeEntry { flow, name, submitted_at, execution });
    }

    /// Adds to the number of members of a flow in a state.
    fn count(&mut self, flow: FlowId, state: StateName, more: i32) {
        self.flow_counts.entry(flow).or_default().add(state, more);
    }

    /// Sets or clears the result of an execution.
    pub fn set_result(&mut self, id: ExecutionId, result: ResultChange) {
        if let Some(entry) = self.tables.executions.entry_mut(&id) {
            entry.extra.result = result;
        }
    }

    pub fn replace_input(&mut self, id: ExecutionId, input: Bytes) {
        if let Some(entry) = self.tables.executions.entry_mut(&id) {
            entry.extra.input = Some(input.into());
            entry.extra.replaces_input = true;
        }
    }

    /// Deletes an execution with its records, tags, keys and node name.
    pub fn delete(&mut self, id: ExecutionId) {
        if self.tables.executions.contains(&id) {
            self.forget_record(id);
        }
        let Some(row) = self.tables.executions.delete(&id) else { return };
        self.closing.remove(&id);
        row.tags.iter().for_each(|(name, value)| self.tags.remove(tag_entry(row, name, value)));
        let (idempotency, unique) = (&row.spec.idempotency_key, &row.spec.unique_while_active);
        let keys = KeyName::of_submission(row.namespace, idempotency.as_ref(), unique.as_ref());
        let debounce = row.spec.debounce.as_ref();
        let keys = keys.chain(debounce.map(|debounce| KeyName::of_debounce(row.namespace, debounce)));
        self.keys_removed.extend(keys.map(|name| (name, Some(KeySubject::Execution(id)))));
        if let (Some(flow), Some(name)) = (row.flow, row.node()) {
            self.nodes_removed.insert((flow, Name::trusted(name)));
        }
    }

    /// Writes the history line and the event of a change, and offers the execution to the transaction's claims if it is
    /// waiting.
    fn record(&mut self, id: ExecutionId, fact: Fact, actor: Option<Name>) {
        let Some(entry) = self.tables.executions.entry_mut(&id) else { return };
        let row = &mut entry.row;
        let (version, at) = (row.version, self.now);
        if fact.is_history() {
            let fact = fact.clone().shortened();
            row.history.push(&HistoryLine { version, at, actor: actor.clone(), fact });
            if let Some(lines) = row.history.spill() {
                self.history_pages.push(HistoryPage { execution: id, page: row.detail.history_pages, lines });
                row.detail.history_pages += 1;
            }
        }
        // An execution that a gate releases for the second time keeps its place. Fairness lines take turns by the time.
        let keeps_place = row.detail.place.is_some()
            && matches!(&fact, Fact::Admitted(fact::Admitted { gate }) if gate.kind != GateKind::Fair);
        if row.state == State::Waiting && !keeps_place && fact.cause().is_some_and(claims::becomes_waiting) {
            row.ready_order = Timestamp::from_micros(self.now.micros() + self.readied);
            self.readied += 1;
        }
        self.events.push(Event {
            at,
            namespace: row.namespace,
            execution: Some(id),
            flow: row.flow,
            version: Some(version),
            actor,
            tags: row.tags.clone(),
            fact,
        });
        if row.state == State::Waiting {
            self.offer(id);
        }
    }

    /// Emits an event that is not about one execution.
    pub fn emit(&mut self, namespace: NamespaceId, fact: Fact, actor: Option<Name>) {
        self.emit_about(namespace, None, fact, actor);
    }

    /// Emits an event that does not change a row. The execution, if there is one, need not be loaded.
    pub fn emit_about(
        &mut self,
        namespace: NamespaceId,
        execution: Option<ExecutionId>,
        fact: Fact,
        actor: Option<Name>,
    ) {
        let row = execution.and_then(|id| self.tables.executions.entry(&id)).map(|entry| &entry.row);
        self.events.push(Event {
            at: self.now,
            namespace,
            execution,
            flow: row.and_then(|row| row.flow),
            version: None,
            actor,
            tags: row.map(|row| row.tags.clone()).unwrap_or_default(),
            fact,
        });
    }

    /// Offers an execution to the claims of this transaction, if it is waiting.
    fn offer(&mut self, id: ExecutionId) {
        if let Some(entry) = self.tables.executions.entry(&id)
            && entry.row.state == State::Waiting
        {
            self.ready.insert(&self.classes, entry.row.class, entry.row.claim_order());
        }
    }
}

fn tag_entry(row: &Execution, name: &str, value: &str) -> TagEntry {
    TagEntry {
        namespace: row.namespace,
        tag: tag_text(name, value),
        submitted_at: row.submitted_at,
        execution: row.id,
    }
}
