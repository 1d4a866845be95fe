//! The tables: plain maps and the indexes over them. Only this file changes the indexes of executions, keys and
//! sessions.

use bytes::Bytes;
use selvedge_core::class::UNPOOLED;
use selvedge_core::execution::ClaimOrder;
use selvedge_core::filter::ListPosition;
use selvedge_core::flow::FlowListPosition;
use selvedge_core::outbox::{OutboxKind, OutboxName, OutboxRow};
use selvedge_core::rollup::{Rollup, RollupKey};
use selvedge_core::rows::{KeyName, KeyRow, TagEntry};
use selvedge_core::stream::{Frame, Stream, StreamName};
use selvedge_core::{
    Class, ClassId, DueKind, Execution, ExecutionId, Flow, FlowId, Name, NamespaceId, Session, SessionId,
    State, Timestamp,
};
use selvedge_store::{Deletion, FlowDue, LaneCounts, NamespaceSettings, retired_name};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::ops::Bound;
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
    pub webhooks: crate::webhooks::Webhooks,
    pub schedules: crate::schedules::Schedules,
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
    pub rollups: BTreeMap<(NamespaceId, RollupKey), Rollup>,
    pub commits: i64,

    /// Waiting executions by class and by pool, in claim order.
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
    /// Classes with the time of their last recorded use.
    classes: BTreeMap<ClassId, (Class, Timestamp)>,
    class_ids: HashMap<Class, ClassId>,
    newest_class: i32,
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
    /// Deletes the rows of a namespace that has no executions and no flows, and returns how many.
    pub fn delete_rest_of_namespace(&mut self, namespace: NamespaceId) -> u64 {
        let count = |tables: &Tables| {
            tables.keys.len() + tables.sessions.len() + tables.rollups.len() + tables.records.bulk_jobs.len()
        };
        let before = count(self);
        self.keys.retain(|name, _| name.namespace != namespace);
        self.expiring.retain(|(_, name)| name.namespace != namespace);
        self.sessions.retain(|_, session| session.namespace() != namespace);
        self.rollups.retain(|(of, _), _| *of != namespace);
        self.records.bulk_jobs.retain(|_, job| job.namespace != namespace || job.ended_at.is_none());
        (before - count(self)) as u64 + self.gates.delete_all_of(namespace)
    }

    /// Inserts a record into the table and its indexes.
    pub fn put(&mut self, record: Record) {
        let row = &record.execution;
        match &row.state {
            State::Waiting => {
                for range in self.ranges_of(row.class) {
                    self.claimable.entry(range).or_default().insert(row.claim_order());
                }
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
                for range in self.ranges_of(row.class) {
                    remove_member(&mut self.claimable, &range, &row.claim_order());
                }
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

    /// Returns the id of a namespace, which is created if it does not exist or was deleted.
    pub fn intern_namespace(&mut self, name: &Name) -> NamespaceId {
        let known = self.find_namespace(name);
        let deletion = known.and_then(|id| self.settings.get(&id)?.deletion);
        if let Some(id) = known.filter(|_| deletion == Some(Deletion::Done)) {
            let row = self.namespaces.iter_mut().find(|row| *row == name);
            row.into_iter().for_each(|row| *row = retired_name(name, id));
        } else if let Some(id) = known {
            return id;
        }
        self.namespaces.push(name.clone());
        NamespaceId(number(self.namespaces.len() - 1))
    }

    pub fn find_namespace(&self, name: &Name) -> Option<NamespaceId> {
        self.namespaces.iter().position(|known| known == name).map(|index| NamespaceId(number(index)))
    }

    pub fn namespaces(&self) -> Vec<(NamespaceId, Name)> {
        let numbered = self.namespaces.iter().enumerate();
        numbered.map(|(index, name)| (NamespaceId(number(index)), name.clone())).collect()
    }

    /// Returns the ids of classes, and records their use.
    pub fn intern_classes(&mut self, classes: &[Class], now: Timestamp) -> Vec<(ClassId, Class)> {
        classes.iter().map(|class| self.intern_class(class, now)).collect()
    }

    fn intern_class(&mut self, class: &Class, now: Timestamp) -> (ClassId, Class) {
        if let Some((id, (class, used_at))) =
            self.class_ids.get(class).and_then(|id| Some((*id, self.classes.get_mut(id)?)))
        {
            *used_at = now;
            return (id, class.clone());
        }
        self.newest_class += 1;
        let id = ClassId(self.newest_class);
        let shares_claims = |other: &&Class| {
            (other.namespace, &other.lane, &other.capabilities)
                == (class.namespace, &class.lane, &class.capabilities)
        };
        let others: Vec<&Class> =
            self.classes.values().map(|(other, _)| other).filter(shares_claims).collect();
        let is_pooled = others.iter().filter(|other| other.pool.is_none()).count() >= UNPOOLED;
        let pool = others.iter().find_map(|other| other.pool).unwrap_or(ClassId(-id.0));
        let interned = Class { pool: is_pooled.then_some(pool), ..class.clone() };
        self.class_ids.insert(class.clone(), id);
        self.classes.insert(id, (interned.clone(), now));
        (id, interned)
    }

    /// Looks at classes that were not used since `before`, longest unused first. Removes those that no execution refers to;
    /// the others count as used.
    pub fn remove_unused_classes(&mut self, before: Timestamp, now: Timestamp, limit: u32) -> u64 {
        let referred: HashSet<ClassId> =
            self.executions.values().map(|record| record.execution.class).collect();
        let unused = self.classes.iter().filter(|(_, (_, used_at))| *used_at < before);
        let mut unused: Vec<(Timestamp, ClassId)> = unused.map(|(id, (_, at))| (*at, *id)).collect();
        unused.sort_unstable();
        unused.truncate(limit as usize);
        let before = self.classes.len();
        for (_, id) in unused {
            if !referred.contains(&id) {
                self.classes.remove(&id);
            } else if let Some((_, used_at)) = self.classes.get_mut(&id) {
                *used_at = now;
            }
        }
        self.class_ids.retain(|_, id| self.classes.contains_key(id));
        (before - self.classes.len()) as u64
    }

    pub fn classes_after(&self, after: ClassId) -> Vec<(ClassId, Class)> {
        let newer = self.classes.range((Bound::Excluded(after), Bound::Unbounded));
        newer.map(|(id, (class, _))| (*id, class.clone())).collect()
    }

    pub fn newest_class(&self) -> i32 {
        self.newest_class
    }

    /// Returns a class and its pool.
    pub fn ranges_of(&self, class: ClassId) -> impl Iterator<Item = ClassId> + use<> {
        let pool = self.classes.get(&class).and_then(|(class, _)| class.pool);
        [Some(class), pool].into_iter().flatten()
    }

    /// Counts the waiting and active executions of lanes, each given by its classes and pools.
    pub fn count_lanes(&self, namespace: NamespaceId, lanes: &[Vec<ClassId>], bound: u64) -> Vec<LaneCounts> {
        let mut active: HashMap<ClassId, u64> = HashMap::new();
        let leased = self.first_terms.iter().filter_map(|(_, id)| self.executions.get(id));
        for row in leased.map(|record| &record.execution).filter(|row| row.namespace == namespace) {
            let range = self.ranges_of(row.class).last().unwrap_or(row.class);
            *active.entry(range).or_default() += 1;
        }
        let waiting = |range: &ClassId| self.claimable.get(range).map_or(0, |waiting| waiting.len() as u64);
        let lane = |ranges: &Vec<ClassId>| LaneCounts {
            waiting: ranges.iter().map(waiting).sum::<u64>().min(bound),
            active: ranges.iter().filter_map(|range| active.get(range)).sum(),
        };
        lanes.iter().map(lane).collect()
    }
}

/// Returns the id of the interned name at `index`. Ids start at 1.
fn number(index: usize) -> i32 {
    i32::try_from(index + 1).unwrap_or(i32::MAX)
}
