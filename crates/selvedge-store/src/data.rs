//! The values that a store takes and returns.

use crate::contract::Deletion;
use bytes::Bytes;
use selvedge_core::gate::WEIGHT_MAX;
use selvedge_core::outbox::OutboxKind;
use selvedge_core::schedule::Schedule;
use selvedge_core::state::StateName;
use selvedge_core::submission::check_duration;
use selvedge_core::webhook::{DeliveryState, WebhookId};
use selvedge_core::{
    ClassId, DueKind, Execution, ExecutionId, FlowId, Name, NamespaceId, Refusal, SessionId, Timed, Timestamp,
};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// A committed transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// The number of the event log entry that it wrote, if it wrote one.
    pub entry: Option<i64>,
    /// The number of times the decision was begun, at least 1.
    pub tries: u32,
    /// Flows that it left without a live member and whose end must now be settled.
    pub emptied: Vec<FlowId>,
}

/// An execution with its payloads, as reads return it.
#[derive(Clone, Debug)]
pub struct Stored {
    pub execution: Execution,
    /// The execution's input; empty in a read that did not ask for it.
    pub input: Bytes,
    /// The execution's result, if it has one and the read asked for it.
    pub result: Option<Bytes>,
    /// The last renewal of the session that holds the lease; none without a lease or a renewal.
    pub renewed_at: Option<Timestamp>,
}

/// An execution that was due when it was read, with the fields that a reconciler's filter compares. Read without a lock, so
/// the rule that acts on it checks again.
#[derive(Clone, Debug, PartialEq)]
pub struct DueRow {
    pub execution: ExecutionId,
    /// The time since which it is due.
    pub due_at: Timestamp,
    pub namespace: NamespaceId,
    pub tags: BTreeMap<String, String>,
}

/// An action that is due for a flow as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FlowDue {
    /// Settle the flow: it is running and has no live member.
    Settle,
    /// Delete the flow: its retention is over.
    Delete,
}

impl FlowDue {
    pub const ALL: [FlowDue; 2] = [Self::Settle, Self::Delete];

    /// Returns the stored number of this kind. Numbers never change.
    pub fn code(self) -> i16 {
        match self {
            Self::Settle => 1,
            Self::Delete => 2,
        }
    }
}

/// A flow for which an action was due when it was read, with the fields that a reconciler's filter compares.
#[derive(Clone, Debug, PartialEq)]
pub struct DueFlow {
    pub flow: FlowId,
    /// The time since which the action is due.
    pub due_at: Timestamp,
    pub namespace: NamespaceId,
    pub tags: BTreeMap<String, String>,
}

/// The next due time of every kind of background work, from [`DueReads::overview`](crate::DueReads::overview).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overview {
    /// The store's clock.
    pub now: Timestamp,
    /// The milliseconds by which `now` is ahead of the clock of the database, after that stepped back. Else 0.
    pub ahead_ms: i64,
    /// The earliest due time of executions, for each kind that has one.
    pub next: Vec<(DueKind, Timestamp)>,
    /// The time of the oldest outbox row, for each kind that has one.
    pub outbox: Vec<(OutboxKind, Timestamp)>,
    /// The earliest due time of flows, for each kind that has one.
    pub flows: Vec<(FlowDue, Timestamp)>,
    /// True if at least one lease has expired.
    pub expired_leases: bool,
    /// True if a session may be deleted, the key of an operation has expired, or a best-effort frame is too old.
    pub stale: bool,
    /// The earliest due times of the other kinds. That of the inbox is the time of the first row to take in, or of the first
    /// that is to be deleted.
    pub due: DueTimes,
    /// True if at least one lane is configured.
    pub lanes: bool,
    /// The id of the newest class; 0 without classes.
    pub newest_class: i32,
}

/// The time at which the first row of a kind is due, for each of [`TIMED_KINDS`](selvedge_core::TIMED_KINDS) that has one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DueTimes(Vec<(&'static str, Timestamp)>);

impl DueTimes {
    /// Returns the time at which the first row of this kind is due.
    pub fn of<R: Timed>(&self) -> Option<Timestamp> {
        self.0.iter().find(|(kind, _)| *kind == R::KIND).map(|(_, at)| *at)
    }

    /// Returns the times of all kinds.
    pub fn times(&self) -> impl Iterator<Item = Timestamp> {
        self.0.iter().map(|(_, at)| *at)
    }

    pub fn add(&mut self, kind: &'static str, at: Timestamp) {
        self.0.push((kind, at));
    }
}

impl FromIterator<(&'static str, Timestamp)> for DueTimes {
    fn from_iter<I: IntoIterator<Item = (&'static str, Timestamp)>>(times: I) -> Self {
        DueTimes(times.into_iter().collect())
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct DueSchedules {
    /// The store's clock.
    pub now: Timestamp,
    /// The schedules, earliest first.
    pub schedules: Vec<Schedule>,
}

/// An entry of the event log.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The entry's number. Numbers rise and may have gaps.
    pub number: i64,
    /// The time at which the entry was appended.
    pub at: Timestamp,
    /// The encoded events of one transaction; decoded by [`unpack`](selvedge_core::log::unpack).
    pub body: Bytes,
}

/// A page of the event log. Entries up to `upto` are final: no entry with a smaller number can appear later.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entries {
    /// The entries, in the order of their numbers.
    pub entries: Vec<Entry>,
    /// The number up to which the log is final; a reader continues after it. At most the number of the newest entry.
    pub upto: i64,
    /// The smallest number that is retained; a cursor before it has expired. 0 if no entry was dropped.
    pub oldest: i64,
    /// True if the page ends because of its limit: more entries may follow at once.
    pub is_full: bool,
}

/// The part of an execution's row that says whose it is and which attempt it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub namespace: NamespaceId,
    /// The number of leases so far.
    pub epoch: u32,
    pub state: StateName,
}

/// The limit of a page of the event log. A page ends with the entry that reaches one of the two.
///
/// The first entry does not count in bytes: a reader compares it with the one that it read last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLimit {
    pub entries: u32,
    /// The total size of the bodies behind the first entry, in bytes.
    pub bytes: u32,
}

impl LogLimit {
    /// A limit on the number of entries alone.
    pub fn entries(entries: u32) -> LogLimit {
        LogLimit { entries, bytes: u32::MAX }
    }

    /// Returns how many of these entries a page has, and whether the limit is reached, given the sizes of their bodies.
    pub fn cut(self, sizes: impl Iterator<Item = usize>) -> (usize, bool) {
        let (mut count, mut bytes) = (0, 0);
        for size in sizes {
            let is_full = count >= self.entries as usize || bytes >= self.bytes as usize;
            if is_full {
                return (count, true);
            }
            bytes += if count == 0 { 0 } else { size };
            count += 1;
        }
        (count, count >= self.entries as usize || bytes >= self.bytes as usize)
    }
}

/// The number of executions in a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneCounts {
    /// Executions that are waiting, whether the lane is paused or not.
    pub waiting: u64,
    pub active: u64,
}

/// The live executions of a class or pool in a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Depth {
    /// The class; the pool of classes that have one.
    pub range: ClassId,
    pub state: StateName,
    pub count: u64,
    /// The earliest time since which one of them waits for a worker, for waiting ones; the earliest claim, for active ones;
    /// the earliest submission, for the others.
    pub oldest_at: Timestamp,
}

/// A page of the deliveries of a webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryPage {
    pub webhook: WebhookId,
    /// Only deliveries in this state.
    pub state: Option<DeliveryState>,
    /// Only deliveries with smaller numbers.
    pub before: Option<u64>,
    /// The maximum number of deliveries.
    pub limit: u32,
    /// Read the bodies, too. Otherwise they are empty.
    pub bodies: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NamespaceSettings {
    /// The timeout of suspensions that give none, in milliseconds. Default: none.
    pub suspension_timeout_ms: Option<i64>,
    /// The retention of executions that give none, in milliseconds. Default: that of the server.
    pub retention_ms: Option<i64>,
    /// The weight of the namespace among those of a worker's key, from 1 to [`WEIGHT_MAX`]. Default: 1.
    pub weight: Option<u32>,
    /// The deletion of the namespace. Default: none.
    pub deletion: Option<Deletion>,
}

/// The last character of the name of a deleted namespace whose name is used again. Names of callers have no control characters.
const RETIRED: char = '\u{7f}';

/// Reports whether this is the name of a deleted namespace whose own name is used again.
pub fn is_retired(name: &str) -> bool {
    name.ends_with(RETIRED)
}

/// Returns the name of a deleted namespace whose name `name` is used again. The SQL stores write the same form.
pub fn retired_name(name: &str, id: NamespaceId) -> Name {
    Name::trusted(&format!("{name} (deleted {}){RETIRED}", id.0))
}

/// Reports whether `retired` is the form that `name` gets when it is used again.
pub fn is_retired_form(retired: &str, name: &str) -> bool {
    let rest = retired.strip_prefix(name).filter(|_| is_retired(retired));
    rest.is_some_and(|rest| rest.starts_with(" (deleted "))
}

impl NamespaceSettings {
    /// Returns the settings after a change to `new`. While the namespace is being deleted, only its deletion can end; afterwards
    /// nothing changes it.
    pub fn changed_to(self, new: NamespaceSettings) -> NamespaceSettings {
        match (self.deletion, new.deletion) {
            (None, _) | (Some(Deletion::Running(_)), Some(Deletion::Done)) => new,
            (Some(Deletion::Running(_) | Deletion::Done), _) => self,
        }
    }
}

impl NamespaceSettings {
    /// Refuses invalid settings.
    pub fn check(self) -> Result<(), Refusal> {
        let NamespaceSettings { suspension_timeout_ms, retention_ms, weight, deletion: _ } = self;
        suspension_timeout_ms.map_or(Ok(()), |ms| check_duration("/suspension_timeout_ms", ms))?;
        retention_ms.map_or(Ok(()), |ms| check_duration("/retention_ms", ms))?;
        match weight {
            Some(weight) if !(1..=WEIGHT_MAX).contains(&weight) => {
                Err(Refusal::field("/weight", format!("is {weight}; it must be from 1 to {WEIGHT_MAX}")))
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// A notification that a server sends to the others after a commit. Only a hint: correctness never depends on it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Notification {
    /// Classes with executions that became `waiting`.
    pub ready: Vec<ClassId>,
    pub ended: Vec<ExecutionId>,
    /// Sessions whose leases changed.
    pub sessions: Vec<SessionId>,
    /// True if an entry was appended to the event log.
    pub logged: bool,
    /// Executions whose streams grew.
    pub streamed: Vec<ExecutionId>,
    /// True if rows were committed to the inbox whose writer asks for them to be taken in at once.
    pub inbox: bool,
}

/// The number of rows in the inbox of a namespace, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InboxCounts {
    /// Rows that wait to be taken in, or the bound of the count if there are more.
    pub pending: u64,
    /// The time of the call that wrote the first of them.
    pub oldest: Option<Timestamp>,
    /// Rows that were refused, or the bound of the count if there are more.
    pub refused: u64,
}

impl Notification {
    /// Returns true if the notification carries no hint.
    pub fn is_empty(&self) -> bool {
        self.ready.is_empty()
            && self.ended.is_empty()
            && self.sessions.is_empty()
            && !self.logged
            && self.streamed.is_empty()
            && !self.inbox
    }
}

/// The properties of a store that a server adapts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description {
    /// `postgres`, `sqlite` or `memory`.
    pub name: &'static str,
    /// The number of transactions worth running in parallel.
    pub writers: usize,
    /// True if other processes may use the store at the same time.
    pub shared: bool,
    /// The durability of an acknowledged change, as a sentence for people.
    pub durability: &'static str,
}

/// The root secret that a store keeps.
#[derive(Clone, PartialEq, Eq)]
pub struct RootSecret {
    pub bytes: Vec<u8>,
    /// The place where it is kept.
    pub place: SecretPlace,
}

impl fmt::Debug for RootSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RootSecret").field("place", &self.place).finish_non_exhaustive()
    }
}

/// The place where a store keeps its root secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretPlace {
    /// The memory of the process.
    Memory,
    /// A file beside the store. A copy of the store does not contain the secret.
    File(PathBuf),
    /// The store itself: whoever reads a copy of it has the secret.
    Store,
}
