//! The tables: plain maps and the indexes over them. Only this file changes the indexes of executions, keys and
//! sessions.

use bytes::Bytes;
use selvedge_core::execution::ClaimOrder;
use selvedge_core::filter::ListPosition;
use selvedge_core::flow::FlowListPosition;
use selvedge_core::outbox::{OutboxKind, OutboxName, OutboxRow};
use selvedge_core::rows::{KeyName, KeyRow, TagEntry};
use selvedge_core::stream::{Frame, Stream, StreamName};
use selvedge_core::{
    Class, ClassId, DueKind, Execution, ExecutionId, Flow, FlowId, Name, NamespaceId, Session, SessionId,
    State, Timestamp,
};
use selvedge_store::{FlowDue, NamespaceSettings};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::hash::Hash;
use uuid::Uuid;

/// An execution with its payloads.
#[derive(Debug)]
pub(crate) struct Record {
    pub execution: Execution,
    pub input: Bytes,
    pub result: Option<Bytes>,
}

/// All tables and indexes of the store.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    pub records: crate::record::Records,
    pub gates: crate::gates::Gates,
    pub executions: HashMap<ExecutionId, Record>,
    pub pages: BTreeMap<(ExecutionId, u32), Vec<u8>>,
    pub keys: HashMap<KeyName, KeyRow>,
    pub sessions: HashMap<SessionId, Session>,
    /// The tag index by namespace and `name:value`, oldest first.
    pub tags: HashMap<(NamespaceId, String), BTreeSet<ListPosition>>,
    /// The event log: the time and the body of each entry.
    pub log: VecDeque<(Timestamp, Bytes)>,
    /// The number of entries dropped from the start of the log; the first retained entry has the next number.
    pub log_dropped: i64,
    pub streams: BTreeMap<StreamName, Stream>,
    pub frames: BTreeMap<(StreamName, u32), Frame>,
    pub commits: i64,

    /// Waiting executions by class, in claim order.
    pub claimable: HashMap<ClassId, BTreeSet<ClaimOrder>>,
    /// Due times of executions, by kind.
    pub due: HashMap<DueKind, BTreeSet<(Timestamp, ExecutionId)>>,
    /// Leases by the end of their first term.
    pub first_terms: BTreeSet<(Timestamp, ExecutionId)>,
    /// Leases by session.
    pub leases: HashMap<SessionId, BTreeSet<ExecutionId>>,
    /// Executions by namespace, newest last.
    pub listed: HashMap<NamespaceId, BTreeSet<ListPosition>>,
    /// Sessions by instance.
    pub instances: HashMap<(NamespaceId, Name), BTreeSet<SessionId>>,
    /// Keys of operations by the time they expire.
    pub expiring: BTreeSet<(Timestamp, KeyName)>,

    pub flows: HashMap<FlowId, Flow>,
    /// Flows by namespace, newest last.
    pub listed_flows: HashMap<NamespaceId, BTreeSet<FlowListPosition>>,
    /// Due times of flows, by kind.
    pub due_flows: HashMap<FlowDue, BTreeSet<(Timestamp, FlowId)>>,
    /// Nodes by name.
    pub nodes: HashMap<(FlowId, Name), ExecutionId>,
    /// The members of flows, in the order of their submission.
    pub members: HashMap<FlowId, BTreeSet<ListPosition>>,
    pub outbox: HashMap<OutboxName, OutboxRow>,
    /// Outbox rows by kind, oldest first.
    pub outbox_by_age: HashMap<OutboxKind, BTreeSet<(Timestamp, Uuid)>>,

    namespaces: Vec<Name>,
    pub settings: HashMap<NamespaceId, NamespaceSettings>,
    classes: Vec<Class>,
    class_ids: HashMap<Class, ClassId>,
}

fn place(row: &Execution) -> ListPosition {
    ListPosition { submitted_at: row.submitted_at, id: row.id }
}

/// Removes `member` from the set at `key`, and the set if it becomes empty.
pub(crate) fn remove_member<K: Eq + Hash, V: Ord>(index: &mut HashMap<K, BTreeSet<V>>, key: &K, member: &V) {
    if let Some(set) = index.get_mut(key) {
        set.remove(member);
        if set.is_empty() {
            index.remove(key);
        }
    }
}

impl Tables {
    /// Inserts a record into the table and its indexes.
    pub fn put(&mut self, record: Record) {
        let row = &record.execution;
        match &row.state {
            State::Waiting => {
                self.claimable.entry(row.class).or_default().insert(row.claim_order());
            }
            State::Active(lease) => {
                self.first_terms.insert((lease.first_term(), row.id));
                self.leases.entry(lease.session).or_default().insert(row.id);
            }
            State::WaitingDependencies
            | State::Delayed { .. }
            | State::Suspended(_)
            | State::Held(_)
            | State::Terminal(_) => {}
        }
        self.gates.put_held(row);
        if let Some(due) = row.due() {
            self.due.entry(due.kind).or_default().insert((due.at, row.id));
        }
        self.listed.entry(row.namespace).or_default().insert(place(row));
        self.executions.insert(row.id, record);
    }

    /// Removes a record from the table and its indexes.
    pub fn take(&mut self, id: ExecutionId) -> Option<Record> {
        let record = self.executions.remove(&id)?;
        let row = &record.execution;
        match &row.state {
            State::Waiting => {
                remove_member(&mut self.claimable, &row.class, &row.claim_order());
            }
            State::Active(lease) => {
                self.first_terms.remove(&(lease.first_term(), id));
                remove_member(&mut self.leases, &lease.session, &id);
            }
            State::WaitingDependencies
            | State::Delayed { .. }
            | State::Suspended(_)
            | State::Held(_)
            | State::Terminal(_) => {}
        }
        self.gates.take_held(row);
        if let Some(due) = row.due() {
            remove_member(&mut self.due, &due.kind, &(due.at, id));
        }
        remove_member(&mut self.listed, &row.namespace, &place(row));
        Some(record)
    }

    /// Deletes the history pages of an execution.
    pub fn take_pages(&mut self, of: ExecutionId) {
        let pages = self.pages.range((of, 0)..=(of, u32::MAX));
        let pages: Vec<_> = pages.map(|(page, _)| *page).collect();
        pages.iter().for_each(|page| drop(self.pages.remove(page)));
    }

    /// Inserts an entry into the tag index.
    pub fn put_tag(&mut self, entry: TagEntry) {
        let place = ListPosition { submitted_at: entry.submitted_at, id: entry.execution };
        let tagged = self.tags.entry((entry.namespace, entry.tag)).or_default();
        tagged.insert(place);
    }

    /// Removes an entry from the tag index.
    pub fn take_tag(&mut self, entry: TagEntry) {
        let place = ListPosition { submitted_at: entry.submitted_at, id: entry.execution };
        remove_member(&mut self.tags, &(entry.namespace, entry.tag), &place);
    }

    /// Inserts a key into the table and its index.
    pub fn put_key(&mut self, key: KeyRow) {
        if let Some(at) = key.expires_at {
            self.expiring.insert((at, key.name.clone()));
        }
        self.keys.insert(key.name.clone(), key);
    }

    /// Removes a key from the table and its index.
    pub fn take_key(&mut self, name: &KeyName) {
        if let Some(at) = self.keys.remove(name).and_then(|key| key.expires_at) {
            self.expiring.remove(&(at, name.clone()));
        }
    }

    /// Inserts a session into the table and its index.
    pub fn put_session(&mut self, session: Session) {
        self.instances.entry((session.namespace(), session.instance.clone())).or_default().insert(session.id);
        self.sessions.insert(session.id, session);
    }

    /// Removes a session from the table and its index.
    pub fn take_session(&mut self, id: SessionId) -> Option<Session> {
        let session = self.sessions.remove(&id)?;
        remove_member(&mut self.instances, &(session.namespace(), session.instance.clone()), &id);
        Some(session)
    }

    /// Returns the executions leased under a session, in id order.
    pub fn leased_by(&self, session: SessionId) -> impl Iterator<Item = &Execution> {
        let ids = self.leases.get(&session).into_iter().flatten();
        ids.filter_map(|id| self.executions.get(id)).map(|record| &record.execution)
    }

    pub fn intern_namespace(&mut self, name: &Name) -> NamespaceId {
        let known = self.namespaces.iter().position(|known| known == name);
        let index = known.unwrap_or_else(|| {
            self.namespaces.push(name.clone());
            self.namespaces.len() - 1
        });
        NamespaceId(number(index))
    }

    pub fn namespaces(&self) -> Vec<(NamespaceId, Name)> {
        let numbered = self.namespaces.iter().enumerate();
        numbered.map(|(index, name)| (NamespaceId(number(index)), name.clone())).collect()
    }

    pub fn intern_classes(&mut self, classes: &[Class]) -> Vec<(ClassId, Class)> {
        let mut interned = Vec::with_capacity(classes.len());
        for class in classes {
            let next = ClassId(number(self.classes.len()));
            let id = *self.class_ids.entry(class.clone()).or_insert(next);
            if id == next {
                self.classes.push(class.clone());
            }
            interned.push((id, class.clone()));
        }
        interned
    }

    pub fn classes_after(&self, after: ClassId) -> Vec<(ClassId, Class)> {
        let numbered = self.classes.iter().enumerate();
        numbered
            .map(|(index, class)| (ClassId(number(index)), class.clone()))
            .filter(|(id, _)| *id > after)
            .collect()
    }

    pub fn newest_class(&self) -> i32 {
        i32::try_from(self.classes.len()).unwrap_or(i32::MAX)
    }
}

/// Returns the id of the interned name at `index`. Ids start at 1.
fn number(index: usize) -> i32 {
    i32::try_from(index + 1).unwrap_or(i32::MAX)
}
