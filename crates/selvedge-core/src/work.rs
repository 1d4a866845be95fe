//! The rows of one transaction while the rules work on them, and the only place through which a row changes.
//!
//! [`Work::apply`] checks each change against the transition table, raises the version, writes the line of history and
//! the event, and keeps the ready ones at hand for the claims of the same transaction. A rule refuses before it applies
//! anything, so a refused command leaves no trace.

use crate::fact::Fact;
use crate::filter::tag_text;
use crate::history::Line;
use crate::log::Event;
use crate::rows::{
    Changes, HeldLease, HistoryPage, Inserted, KeyName, KeyRow, ResultChange, Rows, TagEntry, Updated,
};
use crate::transition::allowed;
use crate::{
    ClassId, Entropy, Execution, ExecutionId, Name, NamespaceId, Refusal, Session, SessionId, State,
    Timestamp,
};
use bytes::Bytes;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// A place in the order of claims: priority downwards, then the time it became ready.
type ClaimOrder = (Reverse<i16>, Timestamp, ExecutionId);

/// The rows of one transaction.
#[derive(Debug)]
pub struct Work {
    now: Timestamp,
    entropy: Entropy,
    readied: i64,
    executions: HashMap<ExecutionId, Entry>,
    unreadable: HashMap<ExecutionId, String>,
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
    events: Vec<Event>,
}

#[derive(Debug)]
struct Entry {
    row: Execution,
    /// The version in the store; none for a new row.
    stored: Option<u32>,
    input: Option<Bytes>,
    result: ResultChange,
    deleted: bool,
}

impl Work {
    /// An empty workplace.
    pub fn new(entropy: Entropy) -> Self {
        Work {
            now: Timestamp::default(),
            entropy,
            readied: 0,
            executions: HashMap::new(),
            unreadable: HashMap::new(),
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
            events: Vec::new(),
        }
    }

    /// Takes in what the store found. The latest time that is told is the time of the whole transaction: no row that was
    /// loaded is from after it.
    pub fn load(&mut self, rows: Rows) {
        self.now = self.now.max(rows.now);
        for execution in rows.executions {
            self.remember(execution);
        }
        for id in rows.candidates {
            self.offer(id);
        }
        for (id, input) in rows.inputs {
            if let Some(entry) = self.executions.get_mut(&id) {
                entry.input = Some(input);
            }
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
        self.executions.entry(execution.id).or_insert_with(|| Entry {
            stored: Some(execution.version),
            row: execution,
            input: None,
            result: ResultChange::Keep,
            deleted: false,
        });
    }

    /// The transaction's time.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Chance.
    pub fn entropy(&mut self) -> &mut Entropy {
        &mut self.entropy
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
        let result = ResultChange::Keep;
        let entry = Entry { row, stored: None, input: Some(input), result, deleted: false };
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
        let (from, was_order) = (entry.row.state.name(), claim_order(&entry.row));
        let before = matches!(fact, Fact::Tagged { .. }).then(|| entry.row.tags.clone());
        edit(&mut entry.row);
        let to = entry.row.state.name();
        let cause = fact.cause().expect("a change has a cause");
        assert!(allowed(Some(from), cause, to), "{cause:?} may not take {id} from {from:?} to {to:?}");
        if entry.row.state.outcome().is_some() != from.outcome().is_some() {
            entry.row.ended_at = entry.row.state.outcome().map(|_| now);
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
        self.record(id, fact, actor);
    }

    /// Stores or removes the result of an execution.
    pub fn set_result(&mut self, id: ExecutionId, result: ResultChange) {
        if let Some(entry) = self.executions.get_mut(&id) {
            entry.result = result;
        }
    }

    /// Deletes an execution with everything that is only about it.
    pub fn delete(&mut self, id: ExecutionId) {
        let Some(entry) = self.executions.get_mut(&id) else {
            return;
        };
        entry.deleted = true;
        let row = &entry.row;
        for (name, value) in &row.tags {
            change(&mut self.tags_added, &mut self.tags_removed, tag_entry(row, name, value));
        }
        for name in crate::rules::submit::key_names(row) {
            self.keys_removed.push((name, Some(id)));
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
            row.history.push(&Line { version, at, actor: actor.clone(), fact: fact.clone() });
            if let Some(lines) = row.history.spill() {
                self.pages.push(HistoryPage { execution: id, page: row.detail.history_pages, lines });
                row.detail.history_pages += 1;
            }
        }
        if row.state == State::Ready && fact.cause().is_some_and(becomes_ready) {
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
        if row.state == State::Ready {
            self.offer(id);
        }
    }

    /// Records something that is not about one execution.
    pub fn record_apart(&mut self, namespace: NamespaceId, fact: Fact, actor: Option<Name>) {
        self.events.push(Event {
            at: self.now,
            namespace,
            execution: None,
            flow: None,
            version: None,
            actor,
            tags: BTreeMap::new(),
            fact,
        });
    }

    fn offer(&mut self, id: ExecutionId) {
        if let Some(entry) = self.executions.get(&id)
            && entry.row.state == State::Ready
        {
            self.ready.entry(entry.row.class).or_default().insert(claim_order(&entry.row));
        }
    }

    /// The next execution that a claim on these classes takes, in order. Only those whose input is here can be handed out.
    pub fn next_ready(&self, classes: &[ClassId]) -> Option<ExecutionId> {
        classes
            .iter()
            .filter_map(|class| self.ready.get(class))
            .filter_map(|set| {
                set.iter()
                    .find(|(_, _, id)| self.executions.get(id).is_some_and(|entry| entry.input.is_some()))
            })
            .min()
            .map(|(_, _, id)| *id)
    }

    /// The classes of which something that this transaction had in hand is ready when it ends. Made ready by it or not: a
    /// claim that came meanwhile has passed over what was locked, and must look again.
    pub fn left_ready(&self) -> Vec<ClassId> {
        let left = self.executions.values().filter(|entry| !entry.deleted && entry.row.state == State::Ready);
        let mut classes: Vec<ClassId> = left.map(|entry| entry.row.class).collect();
        classes.sort_unstable();
        classes.dedup();
        classes
    }

    /// A key, as it stands now.
    pub fn key(&self, name: &KeyName) -> Option<&KeyRow> {
        self.keys.get(name)
    }

    /// Makes a key stand for something new. What it stood for before must still be what was seen: else somebody else has
    /// made it stand for something new meanwhile, and the save fails its guard.
    pub fn put_key(&mut self, row: KeyRow) {
        let name = row.name.clone();
        if let Some(before) = self.keys.insert(name.clone(), row)
            && !self.keys_added.contains(&name)
        {
            self.keys_removed.push((name.clone(), before.execution));
        }
        self.keys_added.insert(name);
    }

    /// A session, if it exists.
    pub fn session(&self, id: SessionId) -> Option<&Session> {
        let gone = self.sessions_removed.contains(&id) && !self.sessions_written.contains(&id);
        self.sessions.get(&id).filter(|_| !gone)
    }

    /// The sessions of an instance, in id order.
    pub fn sessions_of(&self, namespace: NamespaceId, instance: &Name) -> Vec<Session> {
        let mut sessions: Vec<Session> = self
            .sessions
            .values()
            .filter(|session| session.namespace() == namespace && session.instance == *instance)
            .cloned()
            .collect();
        sessions.sort_by_key(|session| session.id);
        sessions
    }

    /// Writes a session.
    pub fn put_session(&mut self, session: Session) {
        self.sessions_written.insert(session.id);
        self.sessions.insert(session.id, session);
    }

    /// Writes a session as if it were new, without merging it with what was there. The caller has locked it.
    pub fn reset_session(&mut self, session: Session) {
        self.sessions_removed.insert(session.id);
        self.sessions_written.insert(session.id);
        self.sessions.insert(session.id, session);
    }

    /// Forgets a session.
    pub fn remove_session(&mut self, id: SessionId) {
        self.sessions_written.remove(&id);
        self.sessions_removed.insert(id);
    }

    /// The leases of a session that were loaded.
    pub fn leases_of(&self, session: SessionId) -> impl Iterator<Item = &HeldLease> {
        self.leases.iter().filter(move |lease| lease.session == session)
    }

    /// Everything that changed, in the order in which it is saved.
    pub fn finish(self) -> Changes {
        let mut changes = Changes::default();
        for (id, entry) in self.executions {
            let changed = entry.stored != Some(entry.row.version);
            match (entry.stored, entry.deleted) {
                (Some(version), true) => changes.deleted.push((id, version)),
                (None, true) => {}
                (None, false) => changes.inserted.push(Inserted {
                    execution: entry.row,
                    input: entry.input.unwrap_or_default(),
                    result: match entry.result {
                        ResultChange::Set(result) => Some(result),
                        ResultChange::Keep | ResultChange::Clear => None,
                    },
                }),
                (Some(expected_version), false) if changed => {
                    changes.updated.push(Updated {
                        execution: entry.row,
                        expected_version,
                        result: entry.result,
                    });
                }
                (Some(_), false) => {}
            }
        }
        changes.inserted.sort_unstable_by_key(|row| row.execution.id);
        changes.updated.sort_unstable_by_key(|row| row.execution.id);
        let deleted: HashSet<ExecutionId> = changes.deleted.iter().map(|(id, _)| *id).collect();
        changes.deleted.extend(self.replaced);
        changes.deleted.sort_unstable();
        changes.pages = self.pages;
        changes.pages.retain(|page| !deleted.contains(&page.execution));
        changes.tags_removed = self.tags_removed.into_iter().collect();
        changes.tags_added = self.tags_added.into_iter().collect();
        changes.keys_removed = self.keys_removed;
        changes.keys_removed.sort();
        let mut keys = self.keys;
        changes.keys_added = self.keys_added.iter().filter_map(|name| keys.remove(name)).collect();
        changes.keys_added.sort_by(|a, b| a.name.cmp(&b.name));
        let mut sessions = self.sessions;
        changes.sessions = self.sessions_written.iter().filter_map(|id| sessions.remove(id)).collect();
        changes.sessions_removed = self.sessions_removed.into_iter().collect();
        changes.events = self.events;
        changes
    }
}

/// Whether a cause makes an execution ready anew, rather than touching one that already was.
fn becomes_ready(cause: crate::transition::Cause) -> bool {
    use crate::transition::Cause;
    !matches!(cause, Cause::Tag | Cause::Prioritise)
}

fn claim_order(row: &Execution) -> ClaimOrder {
    (Reverse(row.priority), row.ready_order, row.id)
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
