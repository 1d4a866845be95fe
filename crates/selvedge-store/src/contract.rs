//! The trait that every store implements, and the plain data it speaks in.

use crate::Error;
use async_trait::async_trait;
use bytes::Bytes;
use selvedge_core::driver::{Driver, Host};
use selvedge_core::filter::{Filter, Place};
use selvedge_core::flow::{FlowFilter, FlowPlace};
use selvedge_core::gate::{Gate, GateId, GateKind, GateName, LedgerEntry};
use selvedge_core::outbox::{OutboxKind, OutboxRow};
use selvedge_core::rows::Members;
use selvedge_core::step::Step as RecordedStep;
use selvedge_core::stream::{Frame, Stream, StreamName};
use selvedge_core::token::TokenKey;
use selvedge_core::{
    Class, ClassId, Demand, DueKind, Execution, ExecutionId, Flow, FlowId, Name, NamespaceId, Needs, Rows,
    Session, SessionId, Signal, Timestamp, Waitpoint, WaitpointId,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use uuid::Uuid;

/// A decision over rows: asked for what it needs, shown that, until it says what to save.
pub trait Decision: Send {
    /// Starts, or starts again from nothing: `again` counts how often it was begun before. Says what to load first.
    fn begin(&mut self, again: u32) -> Needs;
    /// Shown what was loaded; loads more, or saves.
    fn next(&mut self, rows: Rows) -> Demand;
}

/// A driver whose tasks the caller takes back after the commit.
impl<H: Host + 'static> Decision for Arc<Mutex<Driver<H>>> {
    fn begin(&mut self, again: u32) -> Needs {
        self.lock().unwrap_or_else(PoisonError::into_inner).begin(again)
    }

    fn next(&mut self, rows: Rows) -> Demand {
        self.lock().unwrap_or_else(PoisonError::into_inner).next(rows)
    }
}

/// What became of a transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// The number of the log entry it wrote, if it wrote one.
    pub entry: Option<i64>,
    /// How often the decision had to be begun.
    pub tries: u32,
    /// Flows that it left without a live member, so that their end is to be settled.
    pub emptied: Vec<FlowId>,
}

/// An execution as reads show it.
#[derive(Clone, Debug)]
pub struct Stored {
    /// Its row.
    pub execution: Execution,
    /// Its input.
    pub input: Bytes,
    /// Its result.
    pub result: Option<Bytes>,
    /// When the session that holds its lease was last renewed.
    pub renewed_at: Option<Timestamp>,
}

/// An execution that seems due, with everything a reconciler's filter may ask for.
#[derive(Clone, Debug, PartialEq)]
pub struct DueRow {
    /// Which.
    pub execution: ExecutionId,
    /// Since when.
    pub due_at: Timestamp,
    /// Its namespace.
    pub namespace: NamespaceId,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
}

/// What is to be done about a flow as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FlowDue {
    /// It is running and has no live member: its end is to be settled.
    Settle,
    /// It has been kept long enough.
    Delete,
}

impl FlowDue {
    /// Every kind.
    pub const ALL: [FlowDue; 2] = [Self::Settle, Self::Delete];

    /// The number a store keeps. Stable for ever.
    pub fn code(self) -> i16 {
        match self {
            Self::Settle => 1,
            Self::Delete => 2,
        }
    }
}

/// A flow about which something is to be done, with everything a reconciler's filter may ask for.
#[derive(Clone, Debug, PartialEq)]
pub struct DueFlow {
    /// Which.
    pub flow: FlowId,
    /// Since when.
    pub due_at: Timestamp,
    /// Its namespace.
    pub namespace: NamespaceId,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
}

/// One look at everything that may be due.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overview {
    /// The store's time.
    pub now: Timestamp,
    /// The next due time of each kind that has one.
    pub next: Vec<(DueKind, Timestamp)>,
    /// Since when the oldest row of the outbox of each kind waits.
    pub outbox: Vec<(OutboxKind, Timestamp)>,
    /// The next time of each kind of thing to be done about flows.
    pub flows: Vec<(FlowDue, Timestamp)>,
    /// Whether a lease has lapsed.
    pub lapsed: bool,
    /// Whether a session may be forgotten, the key of an operation has expired, or a best-effort frame is too old.
    pub stale: bool,
    /// When the next gate is to be looked at.
    pub gates: Option<Timestamp>,
    /// Whether a lane is configured.
    pub lanes: bool,
    /// The newest class.
    pub newest_class: i32,
}

/// An entry of the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its number.
    pub number: i64,
    /// Its packed facts.
    pub body: Bytes,
}

/// A page of the log: everything up to `upto` is final and nothing before it can appear later.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entries {
    /// The entries, in order.
    pub entries: Vec<Entry>,
    /// The log is settled up to this number; past the newest entry, the newest one's.
    pub upto: i64,
    /// The oldest number that is kept; a cursor before it has expired. Zero when nothing was dropped.
    pub oldest: i64,
}

/// What a server tells the others after a commit. Hints only: everything works without them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Notification {
    /// Something of these classes became ready.
    pub ready: Vec<ClassId>,
    /// These executions ended.
    pub ended: Vec<ExecutionId>,
    /// Something happened to the leases of these sessions.
    pub sessions: Vec<SessionId>,
    /// Something was logged.
    pub logged: bool,
    /// Something was appended to the streams of these executions.
    pub streamed: Vec<ExecutionId>,
}

impl Notification {
    /// Whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        self.ready.is_empty()
            && self.ended.is_empty()
            && self.sessions.is_empty()
            && !self.logged
            && self.streamed.is_empty()
    }
}

/// What kind of store this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description {
    /// `postgres`, `sqlite` or `memory`.
    pub name: &'static str,
    /// How many transactions are worth running side by side.
    pub writers: usize,
    /// Whether other processes may use the store at the same time.
    pub shared: bool,
}

/// A store.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// What kind of store this is.
    fn describe(&self) -> Description;

    /// Runs a decision in one transaction. When it returns without an error, everything is saved and on disk; the
    /// decision is not asked again after it said [`Demand::Save`] unless the save failed its guards, and then it is begun
    /// anew. On an error nothing is known to have been saved, except that after [`Error::Unavailable`] it may have been.
    async fn transact(&self, decision: Box<dyn Decision>) -> Result<Transaction, Error>;

    /// Interns a namespace.
    async fn namespace(&self, name: &Name) -> Result<NamespaceId, Error>;
    /// All namespaces.
    async fn namespaces(&self) -> Result<Vec<(NamespaceId, Name)>, Error>;
    /// Interns classes. Ids become visible in their order: whoever sees one has seen all before it.
    async fn intern(&self, classes: &[Class]) -> Result<Vec<(ClassId, Class)>, Error>;
    /// The classes after this one.
    async fn classes_after(&self, after: ClassId) -> Result<Vec<(ClassId, Class)>, Error>;

    /// Executions by id; those that do not exist are left out.
    async fn fetch(&self, ids: &[ExecutionId]) -> Result<Vec<Stored>, Error>;
    /// Executions that match, newest first, after `after`.
    async fn list(&self, filter: &Filter, after: Option<Place>, limit: u32) -> Result<Vec<Stored>, Error>;
    /// How many executions match, counted up to `bound`.
    async fn count(&self, filter: &Filter, bound: u64) -> Result<u64, Error>;
    /// The pages of history that left an execution's row, oldest first.
    async fn history_pages(&self, id: ExecutionId) -> Result<Vec<Vec<u8>>, Error>;
    /// How many ready executions of its class come before this ready one, counted up to `bound`.
    async fn ahead_of(&self, execution: &Execution, bound: u64) -> Result<u64, Error>;
    /// All sessions of a namespace, or of all.
    async fn sessions(&self, namespace: Option<NamespaceId>) -> Result<Vec<Session>, Error>;

    /// Flows by id; those that do not exist are left out.
    async fn fetch_flows(&self, ids: &[FlowId]) -> Result<Vec<Flow>, Error>;
    /// Flows that match, newest first, after `after`.
    async fn list_flows(
        &self,
        filter: &FlowFilter,
        after: Option<FlowPlace>,
        limit: u32,
    ) -> Result<Vec<Flow>, Error>;
    /// Members of a flow in the order of their submission, without their payloads. One that cannot be read is left out.
    async fn members(&self, page: Members) -> Result<Vec<Execution>, Error>;

    /// The frames of a stream from this number on, in order. Best-effort frames that are too old are left out.
    async fn frames(&self, stream: StreamName, from: u32, limit: u32) -> Result<Vec<Frame>, Error>;
    /// A stream as a whole; none if nothing was appended to it.
    async fn stream(&self, stream: StreamName) -> Result<Option<Stream>, Error>;
    /// Deletes best-effort frames that are too old; says how many.
    async fn delete_old_frames(&self, limit: u32) -> Result<u64, Error>;

    /// The signals of an execution after this number, in order, with their payloads.
    async fn signals(&self, of: ExecutionId, after: u32, limit: u32) -> Result<Vec<Signal>, Error>;
    /// The steps of an execution after this number, in order, with their results.
    async fn steps(&self, of: ExecutionId, after: u32, limit: u32) -> Result<Vec<RecordedStep>, Error>;
    /// The waitpoints of an execution after this number, in order.
    async fn waitpoints(&self, of: ExecutionId, after: u32, limit: u32) -> Result<Vec<Waitpoint>, Error>;
    /// A waitpoint by its id.
    async fn waitpoint(&self, id: WaitpointId) -> Result<Option<Waitpoint>, Error>;
    /// The keys of tokens, by id.
    async fn token_keys(&self) -> Result<Vec<TokenKey>, Error>;
    /// The root secret that the store keeps: from now on `new`, where it has kept none. Whoever asks gets the same.
    async fn kept_secret(&self, new: &[u8]) -> Result<Vec<u8>, Error>;

    /// Gates by id; those that do not exist are left out.
    async fn fetch_gates(&self, ids: &[GateId]) -> Result<Vec<Gate>, Error>;
    /// The configured gates of a kind in a namespace, by name, after `after`.
    async fn list_gates(
        &self,
        namespace: NamespaceId,
        kind: GateKind,
        after: Option<&Name>,
        limit: u32,
    ) -> Result<Vec<Gate>, Error>;
    /// Gates that are to be looked at, earliest first, after `after`.
    async fn due_gates(&self, after: Option<(Timestamp, GateId)>, limit: u32) -> Result<Vec<Gate>, Error>;
    /// The parts of a gate that were counted on their own, in the order of their numbers.
    async fn parts_of(&self, gate: &GateName, limit: u32) -> Result<Vec<Gate>, Error>;
    /// What was spent of a budget, or of a part of it, in a period.
    async fn ledger(&self, gate: GateId, period: u32) -> Result<Vec<LedgerEntry>, Error>;
    /// What an execution has spent.
    async fn ledger_of(&self, execution: ExecutionId) -> Result<Vec<LedgerEntry>, Error>;
    /// How many executions a gate holds, counted up to `bound`.
    async fn held_by(&self, gate: GateId, bound: u64) -> Result<u64, Error>;

    /// One cheap look at everything that may be due.
    async fn overview(&self) -> Result<Overview, Error>;
    /// What is due of this kind, earliest first, after `after`.
    async fn due(
        &self,
        kind: DueKind,
        after: Option<(Timestamp, ExecutionId)>,
        limit: u32,
    ) -> Result<Vec<DueRow>, Error>;
    /// Leases whose own first term and whose session have both lapsed, in the order of their executions' ids, after
    /// `after`.
    async fn lapsed(&self, after: Option<ExecutionId>, limit: u32) -> Result<Vec<DueRow>, Error>;
    /// What is to be done about flows, of this kind, earliest first, after `after`.
    async fn due_flows(
        &self,
        kind: FlowDue,
        after: Option<(Timestamp, FlowId)>,
        limit: u32,
    ) -> Result<Vec<DueFlow>, Error>;
    /// Rows of the outbox of this kind that have waited for at least `stale_ms`, oldest first, after `after`.
    async fn outbox(
        &self,
        kind: OutboxKind,
        stale_ms: i64,
        after: Option<(Timestamp, Uuid)>,
        limit: u32,
    ) -> Result<Vec<OutboxRow>, Error>;
    /// Sessions without leases that were last seen before this many milliseconds ago.
    async fn unseen_sessions(&self, unseen_ms: i64, limit: u32) -> Result<Vec<SessionId>, Error>;
    /// Deletes keys of operations that have expired; says how many.
    async fn delete_expired_keys(&self, limit: u32) -> Result<u64, Error>;

    /// A page of the log after this number, which may be larger than any: then `upto` says which is the newest.
    async fn log_after(&self, after: i64, limit: u32) -> Result<Entries, Error>;

    /// Keeps the log's window: drops whole periods whose every entry is older than `keep_ms`, and prepares those to come.
    /// Never makes a writer wait. Says how many periods were dropped.
    async fn keep_log(&self, keep_ms: i64) -> Result<u64, Error>;

    /// Tells the other servers. May lose news.
    async fn announce(&self, news: Notification) -> Result<(), Error>;
    /// Waits for news from other servers. Returns none if this store has none to give, ever.
    async fn news(&self) -> Option<Notification>;

    /// The store's own figures for benchmarks: (commits, bytes of write-ahead log) so far.
    async fn figures(&self) -> Result<Option<(i64, i64)>, Error>;
    /// Whether the store answers.
    async fn ping(&self) -> Result<(), Error>;
    /// Lets go of everything: what is under way ends first.
    async fn close(&self);
}
