//! The rows of one transaction while the rules work on them, and the only place through which a row changes.
//!
//! [`Work::apply`] checks each change against the transition table, raises the version, writes the line of history and
//! the event, and keeps the ready ones at hand for the claims of the same transaction. A rule refuses before it applies
//! anything, so a refused operation leaves no trace.

mod beside;
mod claims;
mod context;
mod finish;
mod flows;
mod gates;
mod record;

pub use context::Context;
pub use gates::LaneShares;

use crate::execution::{ClaimOrder, Slots};
use crate::fact::Fact;
use crate::filter::tag_text;
use crate::flow::Counts;
use crate::history::HistoryLine;
use crate::log::Event;
use crate::outbox::{OutboxKind, OutboxName, OutboxRow};
use crate::rows::{
    HeldLease, HistoryPage, KeyName, KeyRow, Members, Needs, NodeEntry, Relative, ResultChange, Rows,
    TagEntry,
};
use crate::state::StateName;
use crate::stream::{Frame, Stream, StreamName};
use crate::transition::allowed;
use crate::wiring::Wiring;
use crate::{
    ClassId, Classes, Entropy, Execution, ExecutionId, Flow, FlowId, Name, NamespaceId, Outcome, Refusal,
    Session, SessionId, State, Timestamp,
};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// The rows of one transaction.
#[derive(Debug)]
pub struct Work {
    now: Timestamp,
    /// Whether the time stands still, because something was decided with it.
    stopped: bool,
    repeated: bool,
    expects_lanes: bool,
    classes: Arc<Classes>,
    /// Executions and worker instances that were asked for, found or not.
    asked_executions: HashSet<ExecutionId>,
    asked_instances: HashSet<(NamespaceId, Name)>,
    /// Executions that another transaction has locked.
    skipped: HashSet<ExecutionId>,
    entropy: Entropy,
    readied: i64,
    executions: HashMap<ExecutionId, Box<Entry>>,
    unreadable: HashMap<ExecutionId, String>,
    relatives: HashMap<ExecutionId, Relative>,
    ready: HashMap<ClassId, BTreeSet<ClaimOrder>>,
    keys: HashMap<KeyName, KeyRow>,
    keys_removed: Vec<(KeyName, Option<ExecutionId>)>,
    keys_added: HashSet<KeyName>,
    sessions: HashMap<SessionId, Session>,
    sessions_written: BTreeSet<SessionId>,
    sessions_removed: BTreeSet<SessionId>,
    leases: Vec<HeldLease>,
    tags_added: BTreeSet<TagEntry>,
    tags_removed: BTreeSet<TagEntry>,
    pages: Vec<HistoryPage>,
    /// Deleted by this transaction, and then submitted anew with the same id.
    replaced: Vec<(ExecutionId, u32)>,
    flows: HashMap<FlowId, FlowEntry>,
    counted: BTreeMap<FlowId, Counts>,
    nodes: HashMap<(FlowId, Name), ExecutionId>,
    nodes_added: BTreeSet<NodeEntry>,
    nodes_removed: BTreeSet<(FlowId, Name)>,
    members: HashMap<Members, Vec<ExecutionId>>,
    outbox: HashMap<OutboxName, OutboxRow>,
    outbox_put: BTreeMap<OutboxName, OutboxRow>,
    outbox_removed: BTreeSet<OutboxName>,
    streams: HashMap<StreamName, Stream>,
    streams_written: BTreeSet<StreamName>,
    frames: Vec<Frame>,
    frames_dropped: BTreeMap<StreamName, u32>,
    records: record::Records,
    gates: gates::Gates,
    /// Ended or opened again by this transaction, and not yet told to their downstreams.
    turned: BTreeSet<ExecutionId>,
    events: Vec<Event>,
}

#[derive(Debug)]
struct FlowEntry {
    row: Flow,
    /// The version in the store; none for a new row.
    stored: Option<u32>,
    deleted: bool,
}

#[derive(Debug)]
struct Entry {
    row: Execution,
    /// The version in the store; none for a new row.
    stored: Option<u32>,
    input: Option<Bytes>,
    result: ResultChange,
    rewired: bool,
    /// Whether it had no steps and signals when it was loaded.
    bare: bool,
    deleted: bool,
}

impl Entry {
    /// Boxed, because rows are large and are moved often.
    fn of(row: Execution, stored: Option<u32>, input: Option<Bytes>) -> Box<Self> {
        let bare = !row.detail.record.is_carried();
        Box::new(Entry {
            row,
            stored,
            input,
            result: ResultChange::Keep,
            rewired: false,
            bare,
            deleted: false,
        })
    }

    /// Whether it stands as it was loaded.
    fn is_untouched(&self) -> bool {
        self.stored == Some(self.row.version) && !self.deleted
    }
}

impl Work {
    /// A transaction without rows.
    pub fn new(entropy: Entropy) -> Self {
        Work::begin(Context {
            entropy,
            classes: Arc::default(),
            shares: LaneShares::default(),
            repeated: false,
            lanes: true,
        })
    }

    /// The rows of a transaction that has loaded nothing.
    pub fn begin(context: Context) -> Self {
        let Context { entropy, classes, shares, repeated, lanes } = context;
        Work {
            now: Timestamp::default(),
            stopped: false,
            repeated,
            expects_lanes: lanes,
            classes,
            asked_executions: HashSet::new(),
            asked_instances: HashSet::new(),
            skipped: HashSet::new(),
            entropy,
            readied: 0,
            executions: HashMap::new(),
            unreadable: HashMap::new(),
            relatives: HashMap::new(),
            ready: HashMap::new(),
            keys: HashMap::new(),
            keys_removed: Vec::new(),
            keys_added: HashSet::new(),
            sessions: HashMap::new(),
            sessions_written: BTreeSet::new(),
            sessions_removed: BTreeSet::new(),
            leases: Vec::new(),
            tags_added: BTreeSet::new(),
            tags_removed: BTreeSet::new(),
            pages: Vec::new(),
            replaced: Vec::new(),
            flows: HashMap::new(),
            counted: BTreeMap::new(),
            nodes: HashMap::new(),
            nodes_added: BTreeSet::new(),
            nodes_removed: BTreeSet::new(),
            members: HashMap::new(),
            outbox: HashMap::new(),
            outbox_put: BTreeMap::new(),
            outbox_removed: BTreeSet::new(),
            streams: HashMap::new(),
            streams_written: BTreeSet::new(),
            frames: Vec::new(),
            frames_dropped: BTreeMap::new(),
            records: record::Records::default(),
            gates: gates::Gates::sharing(shares),
            turned: BTreeSet::new(),
            events: Vec::new(),
        }
    }

    /// Adds the rows that the store found for `asked`. The latest time it reports is the time of the whole transaction, so that
    /// no loaded row is from after it; once something was decided, the time stands still.
    pub fn load(&mut self, asked: &Needs, mut rows: Rows) {
        if !self.stopped {
            self.now = self.now.max(rows.now);
        }
        self.asked_executions.extend(asked.executions.iter().chain(&asked.look));
        self.asked_instances.extend(asked.instances.iter().cloned());
        self.skipped.extend(std::mem::take(&mut rows.skipped));
        self.records.load(&mut rows);
        self.gates.load(&mut rows);
        for execution in rows.executions {
            self.see(execution);
        }
        for id in rows.candidates {
            self.offer(id);
        }
        for (id, input) in rows.inputs {
            if let Some(entry) = self.executions.get_mut(&id) {
                entry.input = Some(input);
            }
        }
        for relative in rows.relatives {
            self.relatives.insert(relative.execution, relative);
        }
        for flow in rows.flows {
            let untouched = |entry: &FlowEntry| entry.stored == Some(entry.row.version) && !entry.deleted;
            if self.flows.get(&flow.id).is_none_or(untouched) {
                let stored = Some(flow.version);
                self.flows.insert(flow.id, FlowEntry { row: flow, stored, deleted: false });
            }
        }
        for (flow, name, execution) in rows.nodes {
            self.nodes.insert((flow, name), execution);
        }
        self.members.extend(rows.members);
        for stream in rows.streams {
            // The one with its summary document, where it was asked for both ways.
            if stream.summary.is_some() || !self.streams.contains_key(&stream.name) {
                self.streams.insert(stream.name, stream);
            }
        }
        for row in rows.outbox {
            self.outbox.insert(row.name, row);
        }
        self.unreadable.extend(rows.unreadable);
        for key in rows.keys {
            self.keys.entry(key.name.clone()).or_insert(key);
        }
        for session in rows.sessions {
            // What is read later may have been locked, and then is the truth.
            if !self.sessions_written.contains(&session.id) {
                self.sessions.insert(session.id, session);
            }
        }
        self.leases.extend(rows.leases);
    }

    /// Takes in a row that is known without asking the store. It is saved only if the store still has that version.
    pub fn remember(&mut self, execution: Execution) {
        let stored = Some(execution.version);
        self.executions.entry(execution.id).or_insert_with(|| Entry::of(execution, stored, None));
    }

    /// Takes in a row that was read. What is read later may have been locked, and then is the truth.
    fn see(&mut self, execution: Execution) {
        match self.executions.get_mut(&execution.id) {
            Some(entry) if entry.is_untouched() => {
                entry.stored = Some(execution.version);
                entry.bare = !execution.detail.record.is_carried();
                entry.row = execution;
            }
            Some(_) => {}
            None => self.remember(execution),
        }
    }

    /// The transaction's time.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// The random source of this transaction.
    pub fn entropy(&mut self) -> &mut Entropy {
        &mut self.entropy
    }

    /// Whether this transaction makes the execution.
    pub fn is_new(&self, id: ExecutionId) -> bool {
        self.executions.get(&id).is_some_and(|entry| entry.stored.is_none())
    }

    /// Whether the row is here.
    pub fn knows(&self, id: ExecutionId) -> bool {
        self.executions.contains_key(&id) || self.unreadable.contains_key(&id)
    }

    /// An execution of this namespace.
    pub fn execution(&self, namespace: NamespaceId, id: ExecutionId) -> Result<&Execution, Refusal> {
        self.find(id)?.filter(|row| row.namespace == namespace).ok_or_else(|| Refusal::no_execution(id))
    }

    /// An execution of any namespace, if there is one.
    pub fn find(&self, id: ExecutionId) -> Result<Option<&Execution>, Refusal> {
        if let Some(detail) = self.unreadable.get(&id) {
            return Err(Refusal::Unreadable { execution: id, detail: detail.clone() });
        }
        Ok(self.executions.get(&id).filter(|entry| !entry.deleted).map(|entry| &entry.row))
    }

    /// The input of an execution, where it was loaded.
    pub fn input(&self, id: ExecutionId) -> Option<&Bytes> {
        self.executions.get(&id)?.input.as_ref()
    }

    /// Brings a new execution into being.
    pub fn insert(&mut self, row: Execution, input: Bytes, fact: Fact) {
        let id = row.id;
        debug_assert!(fact.cause().is_some_and(|cause| allowed(None, cause, row.state.name())));
        for (name, value) in &row.tags {
            change(&mut self.tags_removed, &mut self.tags_added, tag_entry(&row, name, value));
        }
        if let Some(flow) = row.flow {
            self.count(flow, row.state.name(), 1);
            self.name_node(flow, &row);
        }
        let entry = Entry::of(row, None, Some(input));
        if let Some(stored) = self.executions.insert(id, entry).and_then(|before| before.stored) {
            self.replaced.push((id, stored));
        }
        self.record(id, fact, None);
    }

    /// Changes an execution: `edit` makes the row what it becomes, `fact` says what happened, `actor` who asked for it.
    ///
    /// # Panics
    /// If the row is not here or the change is no cell of the transition table: a defect of the rule, which ends this
    /// transaction and nothing else.
    pub fn apply(
        &mut self,
        id: ExecutionId,
        fact: Fact,
        actor: Option<Name>,
        edit: impl FnOnce(&mut Execution),
    ) {
        let now = self.now;
        let entry = self.executions.get_mut(&id).expect("a rule changes rows that it has seen");
        let (from, was_order) = (entry.row.state.name(), entry.row.claim_order());
        let before = matches!(fact, Fact::Tagged { .. }).then(|| entry.row.tags.clone());
        edit(&mut entry.row);
        let to = entry.row.state.name();
        let cause = fact.cause().expect("a change has a cause");
        assert!(allowed(Some(from), cause, to), "{cause:?} may not take {id} from {from:?} to {to:?}");
        let turns = entry.row.state.outcome().is_some() != from.outcome().is_some();
        if turns {
            entry.row.ended_at = entry.row.state.outcome().map(|_| now);
        }
        if turns && entry.row.flow.is_some() {
            self.turned.insert(id);
        }
        if let Some(before) = before {
            let row = &entry.row;
            let gone = before.iter().filter(|(name, value)| row.tags.get(*name) != Some(value));
            for (name, value) in gone {
                change(&mut self.tags_added, &mut self.tags_removed, tag_entry(row, name, value));
            }
            let new = row.tags.iter().filter(|(name, value)| before.get(*name) != Some(value));
            for (name, value) in new {
                change(&mut self.tags_removed, &mut self.tags_added, tag_entry(row, name, value));
            }
        }
        if let Some(set) = self.ready.get_mut(&entry.row.class) {
            set.remove(&was_order);
        }
        entry.row.version += 1;
        let slots = (from == StateName::Active && to != StateName::Active)
            .then(|| std::mem::take(&mut entry.row.detail.slots))
            .filter(|slots| *slots != Slots::default())
            .map(|slots| (entry.row.clone(), slots));
        let head = from == StateName::Waiting && to != from && entry.row.detail.head.take().is_some();
        let head = head.then(|| entry.row.clone());
        let (flow, outcome) = (entry.row.flow, entry.row.state.outcome());
        let orphans = entry.row.wiring().has_attached_children();
        self.record(id, fact, actor);
        if let Some(flow) = flow.filter(|_| from != to) {
            self.count(flow, from, -1);
            self.count(flow, to, 1);
        }
        if turns && orphans && outcome.is_some_and(|outcome| outcome != Outcome::Completed) {
            self.leave(OutboxKind::Children, id);
        }
        if turns && outcome.is_some() {
            self.leave_to_parent(id);
        }
        if let Some((row, slots)) = slots {
            self.give_back(&row, &slots);
        }
        if let Some(row) = head {
            self.leave_line(&row);
        }
    }

    /// Adds edges or children to an execution, and with them makes it a member of `flow` where it was alone.
    pub fn rewire(
        &mut self,
        id: ExecutionId,
        flow: FlowId,
        fact: Fact,
        edit: impl FnOnce(&mut Execution, &mut Wiring),
    ) {
        let alone = self.executions.get(&id).is_some_and(|entry| entry.row.flow.is_none());
        self.apply(id, fact, None, |row| {
            let mut wiring = row.wiring().clone();
            edit(row, &mut wiring);
            row.wiring = Some(wiring.into());
            row.flow = Some(flow);
        });
        let Some(entry) = self.executions.get_mut(&id) else { return };
        entry.rewired = true;
        if alone {
            let row = entry.row.clone();
            self.count(flow, row.state.name(), 1);
            self.name_node(flow, &row);
        }
    }

    fn name_node(&mut self, flow: FlowId, row: &Execution) {
        let name = Name::trusted(row.spec.node.as_ref().map_or(crate::execution::ROOT, |node| &node.name));
        self.nodes.insert((flow, name.clone()), row.id);
        let (submitted_at, execution) = (row.submitted_at, row.id);
        self.nodes_added.insert(NodeEntry { flow, name, submitted_at, execution });
    }

    fn count(&mut self, flow: FlowId, state: crate::state::StateName, more: i32) {
        self.counted.entry(flow).or_default().add(state, more);
    }

    /// Stores or removes the result of an execution.
    pub fn set_result(&mut self, id: ExecutionId, result: ResultChange) {
        if let Some(entry) = self.executions.get_mut(&id) {
            entry.result = result;
        }
    }

    /// How an upstream or a child stands: as this transaction leaves it, or as the store has it.
    pub fn relative(&self, id: ExecutionId) -> Option<Relative> {
        let loaded = self.relatives.get(&id);
        let Some(entry) = self.executions.get(&id).filter(|entry| !entry.is_untouched() || loaded.is_none())
        else {
            return loaded.cloned();
        };
        let outcome = entry.row.state.outcome();
        Some(Relative {
            execution: id,
            name: Name::trusted(entry.row.node()?),
            outcome,
            error: entry.row.detail.error.clone().filter(|_| outcome.is_some()),
            result: match &entry.result {
                ResultChange::Set(result) => Some(result.clone()),
                ResultChange::Clear => None,
                ResultChange::Keep => loaded.and_then(|loaded| loaded.result.clone()),
            },
        })
    }

    /// Deletes an execution with everything that is only about it.
    pub fn delete(&mut self, id: ExecutionId) {
        let Some(entry) = self.executions.get_mut(&id) else {
            return;
        };
        entry.deleted = true;
        self.records.forget(id);
        let row = &entry.row;
        for (name, value) in &row.tags {
            change(&mut self.tags_added, &mut self.tags_removed, tag_entry(row, name, value));
        }
        for name in crate::rules::submit::key_names(row) {
            self.keys_removed.push((name, Some(id)));
        }
        if let (Some(flow), Some(name)) = (row.flow, row.node()) {
            self.nodes_removed.insert((flow, Name::trusted(name)));
        }
    }

    /// Writes the line of history and the event of a change that was made, and offers the row to claims if it is ready.
    fn record(&mut self, id: ExecutionId, fact: Fact, actor: Option<Name>) {
        let Some(entry) = self.executions.get_mut(&id) else {
            return;
        };
        let row = &mut entry.row;
        let (version, at) = (row.version, self.now);
        if fact.is_history() {
            row.history.push(&HistoryLine { version, at, actor: actor.clone(), fact: fact.clone() });
            if let Some(lines) = row.history.spill() {
                self.pages.push(HistoryPage { execution: id, page: row.detail.history_pages, lines });
                row.detail.history_pages += 1;
            }
        }
        if row.state == State::Waiting && fact.cause().is_some_and(becomes_ready) {
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

    /// Records something that is not about one execution.
    pub fn record_apart(&mut self, namespace: NamespaceId, fact: Fact, actor: Option<Name>) {
        self.emit_about(namespace, None, fact, actor);
    }

    /// Records something that an execution, which need not be here any more, had to do with and that does not change its row.
    pub fn record_about(
        &mut self,
        namespace: NamespaceId,
        execution: Option<ExecutionId>,
        fact: Fact,
        actor: Option<Name>,
    ) {
        let row = execution.and_then(|id| self.executions.get(&id)).map(|entry| &entry.row);
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

    fn offer(&mut self, id: ExecutionId) {
        if let Some(entry) = self.executions.get(&id)
            && entry.row.state == State::Waiting
        {
            self.ready.entry(entry.row.class).or_default().insert(entry.row.claim_order());
        }
    }
}

/// Whether a cause makes an execution ready anew, rather than touching one that already was.
fn becomes_ready(cause: crate::transition::Cause) -> bool {
    use crate::transition::Cause;
    !matches!(
        cause,
        Cause::Tag | Cause::Prioritise | Cause::Hear | Cause::Wire | Cause::Signal | Cause::Waitpoint
    )
}

/// Undoes the opposite change of an entry where this transaction made one, else makes this one: so what is left in the
/// end is the difference from the store, however often an entry came and went.
fn change(opposite: &mut BTreeSet<TagEntry>, this: &mut BTreeSet<TagEntry>, entry: TagEntry) {
    if !opposite.remove(&entry) {
        this.insert(entry);
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
