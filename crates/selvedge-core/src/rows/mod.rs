//! The rows that a store loads for a decision, and the changes that it saves after it. Plain data.

mod changes;
mod needs;

pub use changes::{Changes, UnreadWrites};
pub use needs::{Candidates, HeldBy, Members, Needs, Queries};

use crate::fact::Failure;
use crate::gate::Gate;
use crate::outbox::OutboxRow;
use crate::stream::Stream;
use crate::token::TokenKey;
use crate::{
    Class, ClassId, Execution, ExecutionId, Flow, FlowId, LeaseId, Name, NamespaceId, Outcome, Session,
    SessionId, Signal, Step, Timestamp, Waitpoint,
};
use bytes::Bytes;

/// The rows that a store found.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    /// The database's time in this transaction.
    pub now: Timestamp,
    /// Executions, by key or by a query.
    pub executions: Vec<Execution>,
    /// Executions that were to be locked if free and that another transaction has locked. An execution that was also to be read
    /// without a lock is among the executions all the same.
    pub skipped: Vec<ExecutionId>,
    /// Rows that cannot be read, with the reason.
    pub unreadable: Vec<(ExecutionId, String)>,
    /// Inputs, of candidates too.
    pub inputs: Vec<(ExecutionId, Bytes)>,
    /// Names and results of executions.
    pub relatives: Vec<Relative>,
    /// Nodes of flows.
    pub nodes: Vec<(FlowId, Name, ExecutionId)>,
    /// Keys.
    pub keys: Vec<KeyRow>,
    /// Outbox rows.
    pub outbox: Vec<OutboxRow>,
    /// Lanes, other gates and parts of budgets.
    pub gates: Vec<Gate>,
    /// Flows.
    pub flows: Vec<Flow>,
    /// Sessions, by key or by instance.
    pub sessions: Vec<Session>,
    /// Streams.
    pub streams: Vec<Stream>,
    /// Signals, by any query.
    pub signals: Vec<Signal>,
    /// Steps, by key or by a query.
    pub steps: Vec<Step>,
    /// Waitpoints.
    pub waitpoints: Vec<Waitpoint>,
    /// Keys of tokens.
    pub token_keys: Vec<TokenKey>,
    /// The answers to queries that are not rows.
    pub found: Found,
}

/// The answers to queries that are not rows of a table.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Candidates, in claim order.
    pub candidates: Vec<ExecutionId>,
    /// Held executions by the query that found them, in claim order. One without a row is locked by another transaction.
    pub held: Vec<(HeldBy, Vec<ExecutionId>)>,
    /// Members by page, in order.
    pub members: Vec<(Members, Vec<ExecutionId>)>,
    /// Executions whose steps and signals were all read.
    pub records: Vec<ExecutionId>,
    /// Leases of worker instances.
    pub leases: Vec<HeldLease>,
    /// Classes.
    pub classes: Vec<(ClassId, Class)>,
}

/// An upstream or a child, as a claim carries it: how it stands, and with what it ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Relative {
    /// The execution.
    pub execution: ExecutionId,
    /// Its name in the flow.
    pub name: Name,
    /// How it ended; none while it is live.
    pub outcome: Option<Outcome>,
    /// Its error, if it ended with one.
    pub error: Option<Failure>,
    /// Its result.
    pub result: Option<Bytes>,
}

/// A lease as a heartbeat sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldLease {
    /// The execution.
    pub execution: ExecutionId,
    /// Its session.
    pub session: SessionId,
    /// The lease.
    pub lease_id: LeaseId,
    /// Its epoch.
    pub epoch: u32,
    /// When it was claimed.
    pub claimed_at: Timestamp,
    /// Whether its worker was asked to cancel.
    pub cancel_requested: bool,
}

/// What a key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyScope {
    /// `idempotency_key` of a submission.
    Idempotency,
    /// `unique_while_active` of a submission.
    Unique,
    /// A caller's key for one call.
    Operation,
    /// `idempotency_key` of a flow; what it stands for is the flow's id.
    Flow,
    /// `dedup_key` of what was spent of a budget.
    Usage,
}

impl KeyScope {
    /// The number a store keeps. Stable for ever.
    pub fn code(self) -> i16 {
        match self {
            KeyScope::Idempotency => 1,
            KeyScope::Unique => 2,
            KeyScope::Operation => 3,
            KeyScope::Flow => 4,
            KeyScope::Usage => 5,
        }
    }

    /// The scope with this number.
    pub fn from_code(code: i16) -> Option<Self> {
        [KeyScope::Idempotency, KeyScope::Unique, KeyScope::Operation, KeyScope::Flow, KeyScope::Usage]
            .into_iter()
            .find(|scope| scope.code() == code)
    }
}

/// Names a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyName {
    /// The namespace.
    pub namespace: NamespaceId,
    /// What it is for.
    pub scope: KeyScope,
    /// The caller's text.
    pub key: Name,
}

impl KeyName {
    /// Returns the keys of a submission.
    pub fn of_submission(
        namespace: NamespaceId,
        idempotency: Option<&Name>,
        unique: Option<&Name>,
    ) -> impl Iterator<Item = KeyName> + use<> {
        let name = |scope, key: Option<&Name>| key.map(|key| KeyName { namespace, scope, key: key.clone() });
        [name(KeyScope::Idempotency, idempotency), name(KeyScope::Unique, unique)].into_iter().flatten()
    }
}

/// A key and what it stands for.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyRow {
    /// Its name.
    pub name: KeyName,
    /// The execution it stands for; none for a key of an operation.
    pub execution: Option<ExecutionId>,
    /// Digest of the content it was used with.
    pub digest: u64,
    /// The stored answer of an operation.
    pub answer: Bytes,
    /// When it is forgotten; one without goes with its execution.
    pub expires_at: Option<Timestamp>,
}

/// What to do with a result.
#[derive(Clone, Debug, PartialEq)]
pub enum ResultChange {
    /// Leave it.
    Keep,
    /// Store this one.
    Set(Bytes),
    /// Remove it.
    Clear,
}

/// A new execution.
#[derive(Clone, Debug)]
pub struct Inserted {
    /// Its row.
    pub execution: Execution,
    /// Its input.
    pub input: Bytes,
    /// Its result, if it ended in the transaction that made it.
    pub result: Option<Bytes>,
}

/// A changed execution.
#[derive(Clone, Debug)]
pub struct Updated {
    /// Its row as it becomes.
    pub execution: Execution,
    /// The version that must still be there.
    pub expected_version: u32,
    /// What becomes of its result.
    pub result: ResultChange,
    /// Whether its flow or its wiring changed, which are written only then.
    pub rewired: bool,
}

/// A page of history that leaves its row.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryPage {
    /// The execution.
    pub execution: ExecutionId,
    /// Which page, from 0.
    pub page: u32,
    /// Its lines.
    pub lines: Vec<u8>,
}

/// An entry of the tag index.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TagEntry {
    /// The namespace.
    pub namespace: NamespaceId,
    /// `name:value`.
    pub tag: String,
    /// When its execution was submitted.
    pub submitted_at: Timestamp,
    /// The execution.
    pub execution: ExecutionId,
}

/// A node of a flow, by its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeEntry {
    /// The flow.
    pub flow: FlowId,
    /// Its name there.
    pub name: Name,
    /// When it was submitted.
    pub submitted_at: Timestamp,
    /// The execution.
    pub execution: ExecutionId,
}
