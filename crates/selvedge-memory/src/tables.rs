//! The tables: plain maps, and the indexes over them. A row enters and leaves its indexes only here.

use bytes::Bytes;
use selvedge_core::execution::ClaimOrder;
use selvedge_core::filter::Place;
use selvedge_core::flow::FlowPlace;
use selvedge_core::outbox::{OutboxKind, OutboxName, OutboxRow};
use selvedge_core::rows::{KeyName, KeyRow, TagEntry};
use selvedge_core::stream::{Frame, Stream, StreamName};
use selvedge_core::{
    Class, ClassId, DueKind, Execution, ExecutionId, Flow, FlowId, Name, NamespaceId, Session, SessionId,
    State, Timestamp,
};
use selvedge_store::FlowDue;
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

/// Everything.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    pub records: crate::record::Records,
    pub gates: crate::gates::Gates,
    pub executions: HashMap<ExecutionId, Record>,
    pub pages: BTreeMap<(ExecutionId, u32), Vec<u8>>,
    pub keys: HashMap<KeyName, KeyRow>,
    pub sessions: HashMap<SessionId, Session>,
    /// The tag index: by namespace and `name:value`, in the order of lists.
    pub tags: HashMap<(NamespaceId, String), BTreeSet<Place>>,
    /// The log: when each entry was written, and its body.
    pub log: VecDeque<(Timestamp, Bytes)>,
    /// How many entries were dropped from its beginning: the first that is kept has the next number.
    pub log_dropped: i64,
    /// Streams.
    pub streams: BTreeMap<StreamName, Stream>,
    /// Their frames.
    pub frames: BTreeMap<(StreamName, u32), Frame>,
    pub commits: i64,

    /// Ready executions by class, in claim order.
    pub ready: HashMap<ClassId, BTreeSet<ClaimOrder>>,
    /// What time does next, by kind.
    pub due: HashMap<DueKind, BTreeSet<(Timestamp, ExecutionId)>>,
    /// Leases by the end of their first term.
    pub first_terms: BTreeSet<(Timestamp, ExecutionId)>,
    /// Leases by session.
    pub leases: HashMap<SessionId, BTreeSet<ExecutionId>>,
    /// The order of lists, newest last.
    pub listed: HashMap<NamespaceId, BTreeSet<Place>>,
    /// Sessions by instance.
    pub instances: HashMap<(NamespaceId, Name), BTreeSet<SessionId>>,
    /// Keys of operations by the time they expire.
    pub expiring: BTreeSet<(Timestamp, KeyName)>,

    /// Flows.
    pub flows: HashMap<FlowId, Flow>,
    /// The order of lists of flows, newest last.
    pub listed_flows: HashMap<NamespaceId, BTreeSet<FlowPlace>>,
    /// What is to be done about flows, by kind.
    pub due_flows: HashMap<FlowDue, BTreeSet<(Timestamp, FlowId)>>,
    /// Nodes by their names.
    pub nodes: HashMap<(FlowId, Name), ExecutionId>,
    /// The members of flows, in the order of their submission.
    pub members: HashMap<FlowId, BTreeSet<Place>>,
    /// The outbox.
    pub outbox: HashMap<OutboxName, OutboxRow>,
    /// The outbox by kind, oldest first.
    pub waiting: HashMap<OutboxKind, BTreeSet<(Timestamp, Uuid)>>,

    namespaces: Vec<Name>,
    classes: Vec<Class>,
    class_ids: HashMap<Class, ClassId>,
}

fn place(row: &Execution) -> Place {
    Place { submitted_at: row.submitted_at, id: row.id }
}

/// Takes `member` out of the set at `key`, and the set with its last member.
pub(crate) fn strike<K: Eq + Hash, V: Ord>(index: &mut HashMap<K, BTreeSet<V>>, key: &K, member: &V) {
    if let Some(set) = index.get_mut(key) {
        set.remove(member);
        if set.is_empty() {
            index.remove(key);
        }
    }
}

impl Tables {
    /// Puts a record in its place and its indexes.
    pub fn put(&mut self, record: Record) {
        let row = &record.execution;
        match &row.state {
            State::Waiting => {
                self.ready.entry(row.class).or_default().insert(row.claim_order());
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

    /// Takes a record out of its place and its indexes.
    pub fn take(&mut self, id: ExecutionId) -> Option<Record> {
        let record = self.executions.remove(&id)?;
        let row = &record.execution;
        match &row.state {
            State::Waiting => {
                strike(&mut self.ready, &row.class, &row.claim_order());
            }
            State::Active(lease) => {
                self.first_terms.remove(&(lease.first_term(), id));
                strike(&mut self.leases, &lease.session, &id);
            }
            State::WaitingDependencies
            | State::Delayed { .. }
            | State::Suspended(_)
            | State::Held(_)
            | State::Terminal(_) => {}
        }
        self.gates.take_held(row);
        if let Some(due) = row.due() {
            strike(&mut self.due, &due.kind, &(due.at, id));
        }
        strike(&mut self.listed, &row.namespace, &place(row));
        Some(record)
    }

    /// Takes the pages of an execution's history out of their place.
    pub fn take_pages(&mut self, of: ExecutionId) {
        let pages = self.pages.range((of, 0)..=(of, u32::MAX));
        let pages: Vec<_> = pages.map(|(page, _)| *page).collect();
        pages.iter().for_each(|page| drop(self.pages.remove(page)));
    }

    /// Puts an entry into the tag index.
    pub fn put_tag(&mut self, entry: TagEntry) {
        let place = Place { submitted_at: entry.submitted_at, id: entry.execution };
        let tagged = self.tags.entry((entry.namespace, entry.tag)).or_default();
        tagged.insert(place);
    }

    /// Takes an entry out of the tag index.
    pub fn take_tag(&mut self, entry: TagEntry) {
        let place = Place { submitted_at: entry.submitted_at, id: entry.execution };
        strike(&mut self.tags, &(entry.namespace, entry.tag), &place);
    }

    /// Puts a key in its place.
    pub fn put_key(&mut self, key: KeyRow) {
        if let Some(at) = key.expires_at {
            self.expiring.insert((at, key.name.clone()));
        }
        self.keys.insert(key.name.clone(), key);
    }

    /// Takes a key out of its place.
    pub fn take_key(&mut self, name: &KeyName) {
        if let Some(at) = self.keys.remove(name).and_then(|key| key.expires_at) {
            self.expiring.remove(&(at, name.clone()));
        }
    }

    /// Puts a session in its place.
    pub fn put_session(&mut self, session: Session) {
        self.instances.entry((session.namespace(), session.instance.clone())).or_default().insert(session.id);
        self.sessions.insert(session.id, session);
    }

    /// Takes a session out of its place.
    pub fn take_session(&mut self, id: SessionId) -> Option<Session> {
        let session = self.sessions.remove(&id)?;
        strike(&mut self.instances, &(session.namespace(), session.instance.clone()), &id);
        Some(session)
    }

    /// The executions leased under a session, in id order.
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

/// The number of what stands at `index`: interned things are counted from 1.
fn number(index: usize) -> i32 {
    i32::try_from(index + 1).unwrap_or(i32::MAX)
}
