//! Plain data between core and a store: the rows that the store loads for a decision, and the changes that it saves
//! afterwards.

mod changes;
mod needs;
mod payload;

pub use crate::kinds::{Changes, Needs, Rows};
pub use changes::UnreadWrites;
pub use needs::{Candidates, HeldBy, Members, PASSED_MAX, Queries, mention};
pub use payload::{Payload, Relative, StoredRelative, inline_limit};

use crate::submission::Debounce;
use crate::{
    Class, ClassId, Execution, ExecutionId, FlowId, LeaseId, Name, NamespaceId, SessionId, Timestamp,
};
use bytes::Bytes;
use uuid::Uuid;

/// Answers to queries that are not rows of a table.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Candidates, in claim order.
    pub candidates: Vec<ExecutionId>,
    /// Held executions for each query, in claim order. An execution without a loaded row is locked by another
    /// transaction.
    pub held: Vec<(HeldBy, Vec<ExecutionId>)>,
    /// Members for each query, in order.
    pub members: Vec<(Members, Vec<ExecutionId>)>,
    /// Executions of which all steps and signals were read.
    pub records: Vec<ExecutionId>,
    /// Leases of the requested worker instances.
    pub leases: Vec<HeldLease>,
    /// Classes that were interned after the requested one.
    pub classes: Vec<(ClassId, Class)>,
}

/// A lease as a heartbeat reads it.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldLease {
    pub execution: ExecutionId,
    /// The session that holds the lease.
    pub session: SessionId,
    /// The lease's id.
    pub lease_id: LeaseId,
    pub epoch: u32,
    /// Time of the claim.
    pub claimed_at: Timestamp,
    /// The worker was asked to cancel the execution.
    pub cancel_requested: bool,
}

/// The purpose of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyScope {
    /// `idempotency_key` of a submission.
    Idempotency,
    /// `unique_while_active` of a submission.
    Unique,
    /// A caller's idempotency key for one call.
    Operation,
    /// `idempotency_key` of a flow. The key row refers to the flow's id.
    Flow,
    /// `dedup_key` of an amount spent from a budget.
    Usage,
}

impl KeyScope {
    /// Returns the number that a store keeps. Never changes.
    pub fn code(self) -> i16 {
        match self {
            KeyScope::Idempotency => 1,
            KeyScope::Unique => 2,
            KeyScope::Operation => 3,
            KeyScope::Flow => 4,
            KeyScope::Usage => 5,
        }
    }

    /// Returns the scope with this number.
    pub fn from_code(code: i16) -> Option<Self> {
        [KeyScope::Idempotency, KeyScope::Unique, KeyScope::Operation, KeyScope::Flow, KeyScope::Usage]
            .into_iter()
            .find(|scope| scope.code() == code)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyName {
    pub namespace: NamespaceId,
    /// The purpose of the key.
    pub scope: KeyScope,
    /// The text that the caller chose.
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

impl KeyName {
    /// Returns the key of a debounce. It contains a control character, which no caller's key contains.
    pub fn of_debounce(namespace: NamespaceId, debounce: &Debounce) -> KeyName {
        let key = Name::trusted(&format!("debounce\n{}", debounce.key));
        KeyName { namespace, scope: KeyScope::Unique, key }
    }
}

/// A key, with the execution or the stored answer that it refers to.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyRow {
    pub name: KeyName,
    /// The subject that the key stands for; none for the key of a call or of usage.
    pub subject: Option<KeySubject>,
    /// Digest of the content that the key was used with.
    pub digest: u64,
    /// The stored answer of an operation; or, of a key that was linked to an existing execution, the execution's time of
    /// submission, which tells it from a later execution with the same id.
    pub answer: Bytes,
    /// Time at which the key expires. Default: it is deleted with its execution.
    pub expires_at: Option<Timestamp>,
}

impl KeyRow {
    /// Returns the execution that the key stands for.
    pub fn execution(&self) -> Option<ExecutionId> {
        match self.subject? {
            KeySubject::Execution(id) => Some(id),
            KeySubject::Flow(_) => None,
        }
    }

    /// Returns the flow that the key stands for.
    pub fn flow(&self) -> Option<FlowId> {
        match self.subject? {
            KeySubject::Flow(id) => Some(id),
            KeySubject::Execution(_) => None,
        }
    }
}

/// The execution or flow that a key stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeySubject {
    /// The execution that a submission created.
    Execution(ExecutionId),
    /// The flow that a submission created.
    Flow(FlowId),
}

impl KeySubject {
    /// Returns the subject with this id of a key with this scope.
    pub fn new(scope: KeyScope, id: Uuid) -> KeySubject {
        match scope {
            KeyScope::Flow => KeySubject::Flow(FlowId(id)),
            KeyScope::Idempotency | KeyScope::Unique | KeyScope::Operation | KeyScope::Usage => {
                KeySubject::Execution(ExecutionId(id))
            }
        }
    }

    /// Returns the id of the execution or flow.
    pub fn id(&self) -> Uuid {
        match self {
            KeySubject::Execution(id) => id.0,
            KeySubject::Flow(id) => id.0,
        }
    }
}

/// A change to the result of an execution.
#[derive(Clone, Debug, PartialEq)]
pub enum ResultChange {
    /// Leave the stored result as it is.
    Keep,
    /// Store this result.
    Set(Bytes),
    /// Delete the stored result.
    Clear,
}

/// A new execution.
#[derive(Clone, Debug)]
pub struct Inserted {
    pub execution: Execution,
    pub input: Bytes,
    /// The result, if the execution ended in the transaction that inserts it.
    pub result: Option<Bytes>,
}

/// A changed execution.
#[derive(Clone, Debug)]
pub struct Updated {
    /// The row as it is to be saved.
    pub execution: Execution,
    /// The version that the store must still have.
    pub expected_version: u32,
    pub result: ResultChange,
    /// The input that replaces the stored one, if there is one.
    pub input: Option<Bytes>,
    /// The flow or the wiring changed. They are written only if this is set.
    pub rewired: bool,
}

/// A page of history that is moved out of the execution's row.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryPage {
    pub execution: ExecutionId,
    /// Page number, from 0.
    pub page: u32,
    /// The encoded lines.
    pub lines: Vec<u8>,
}

/// An entry of the tag index.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TagEntry {
    pub namespace: NamespaceId,
    /// The tag as `name:value`.
    pub tag: String,
    /// Time at which the execution was submitted.
    pub submitted_at: Timestamp,
    pub execution: ExecutionId,
}

/// An entry of the index of node names in flows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeEntry {
    pub flow: FlowId,
    pub name: Name,
    /// Time at which the node's execution was submitted.
    pub submitted_at: Timestamp,
    pub execution: ExecutionId,
}
