//! Plain data between core and a store: the rows that a decision needs, the answers of the store, and the changes that it
//! saves afterwards.

mod payload;

pub use crate::kinds::{Changes, Needs, Rows};
pub use payload::{Payload, Relative, StoredRelative, inline_limit};

use crate::execution::ClaimOrder;
use crate::flow::Counts;
use crate::gate::{GateId, GateName};
use crate::kinds::Stage;
use crate::stream::StreamName;
use crate::submission::Debounce;
use crate::webhook::WebhookId;
use crate::{
    Class, ClassId, Execution, ExecutionId, FlowId, LeaseId, Name, NamespaceId, SessionId, Timestamp,
};
use bytes::Bytes;
use uuid::Uuid;

impl Needs {
    /// Returns the size up to which the inputs of candidates and of [`inputs`](Needs::inputs) are read, in bytes.
    pub fn inline_inputs(&self) -> usize {
        let candidates: usize = self.queries.candidates.iter().map(|asked| asked.limit as usize).sum();
        inline_limit(candidates.saturating_add(self.inputs.len()))
    }

    /// Returns the size up to which the results and errors of [`relatives`](Needs::relatives) are read, in bytes.
    pub fn inline_relatives(&self) -> usize {
        inline_limit(self.relatives.len())
    }

    /// Reports whether sessions are locked: by id, or all of an instance.
    pub fn locks_sessions(&self) -> bool {
        self.sessions.has_locks() || !self.queries.instances.is_empty()
    }
}

/// Queries for rows that are not found by their key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Queries {
    /// Members of flows, read without locks.
    pub members: Vec<Members>,
    /// Waiting executions to lock, skipping those that another transaction has locked.
    pub candidates: Vec<Candidates>,
    /// Executions to exclude from the candidates.
    pub except: Vec<ExecutionId>,
    /// Gates that refuse many of the first candidates. For each query for candidates, a store also locks the first
    /// executions whose specification names none of these gates, among the first [`PASSED_MAX`]. They may be found behind
    /// thousands that the gates refuse, and it would take many transactions to hold those. A store may leave out others
    /// that have the same text: nothing depends on this search, because claims hold what a gate refuses.
    pub refusing: Vec<GateName>,
    /// Executions that gates hold, to lock, skipping those that another transaction has locked.
    pub held: Vec<HeldBy>,
    /// Executions of which to read all steps and signals, with their payloads.
    pub records: Vec<ExecutionId>,
    /// Executions of which to read the signals that no suspension has taken, without payloads.
    pub untaken: Vec<ExecutionId>,
    /// Signals to read by the keys of their senders, without payloads.
    pub signal_keys: Vec<(ExecutionId, Name)>,
    /// Executions whose waitpoints to read.
    pub waitpoints: Vec<ExecutionId>,
    /// Worker instances of which to lock the sessions and then read the leases.
    pub instances: Vec<(NamespaceId, Name)>,
    /// Read all token keys.
    pub token_keys: bool,
    /// Read the classes that were interned after this one.
    pub classes_after: Option<ClassId>,
}

impl Queries {
    /// Reports whether there is no query.
    pub fn is_empty(&self) -> bool {
        let Queries {
            members,
            candidates,
            except,
            refusing: _,
            held,
            records,
            untaken,
            signal_keys,
            waitpoints,
            instances,
            token_keys,
            classes_after,
        } = self;
        members.is_empty()
            && candidates.is_empty()
            && except.is_empty()
            && held.is_empty()
            && records.is_empty()
            && untaken.is_empty()
            && signal_keys.is_empty()
            && waitpoints.is_empty()
            && instances.is_empty()
            && !token_keys
            && classes_after.is_none()
    }

    /// Returns the stages at which queries lock rows.
    pub(crate) fn locked_stages(&self) -> impl Iterator<Item = Stage> {
        let stages = [
            (!self.candidates.is_empty(), Stage::Candidates),
            (!self.held.is_empty(), Stage::Held),
            (!self.instances.is_empty(), Stage::Sessions),
        ];
        stages.into_iter().filter(|(locks, _)| *locks).map(|(_, stage)| stage)
    }

    /// Drops the queries that lock rows.
    pub(crate) fn drop_locks(&mut self) {
        self.candidates.clear();
        self.except.clear();
        self.held.clear();
        self.instances.clear();
    }

    /// Drops the queries that `loaded` contains, and adds the rest to it.
    pub(crate) fn only_new(&mut self, loaded: &mut Queries) {
        fn retain_new<T: Clone + Ord>(wanted: &mut Vec<T>, loaded: &mut Vec<T>) {
            wanted.sort_unstable();
            wanted.dedup();
            if !loaded.is_empty() {
                wanted.retain(|one| loaded.binary_search(one).is_err());
            }
            if !wanted.is_empty() {
                loaded.extend(wanted.iter().cloned());
                loaded.sort_unstable();
            }
        }
        let Queries {
            members,
            candidates: _,
            except: _,
            refusing: _,
            held,
            records,
            untaken,
            signal_keys,
            waitpoints,
            instances,
            token_keys,
            classes_after,
        } = self;
        retain_new(members, &mut loaded.members);
        retain_new(held, &mut loaded.held);
        retain_new(records, &mut loaded.records);
        retain_new(untaken, &mut loaded.untaken);
        retain_new(signal_keys, &mut loaded.signal_keys);
        retain_new(waitpoints, &mut loaded.waitpoints);
        retain_new(instances, &mut loaded.instances);
        *token_keys &= !loaded.token_keys;
        loaded.token_keys |= *token_keys;
        // Classes are read after every row of the same load, so once is enough.
        *classes_after = classes_after.filter(|_| loaded.classes_after.is_none());
        loaded.classes_after = loaded.classes_after.or(*classes_after);
    }
}

/// A query for a page of the members of a flow, ordered by time of submission, then by id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Members {
    pub flow: FlowId,
    /// Number of members to skip.
    pub skip: u32,
    /// Maximum number of members to return.
    pub limit: u32,
}

/// The maximum number of waiting executions of a class and priority among which a store looks for some that name no refusing
/// gate.
pub const PASSED_MAX: u32 = 20_000;

/// Returns the text by which a stored specification names a gate.
pub fn mention(gate: &GateName) -> String {
    serde_json::to_string(gate.name.as_str()).unwrap_or_default()
}

/// A query for the first waiting executions of some classes, in claim order.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidates {
    /// The classes, in id order.
    pub classes: Vec<ClassId>,
    /// Maximum number of executions to return.
    pub limit: u32,
}

/// A query for the first executions that a gate holds, in claim order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HeldBy {
    pub gate: GateId,
    /// Maximum number of executions to return.
    pub limit: u32,
    /// Return only executions behind this position in the claim order. Default: from the first on.
    pub after: Option<ClaimOrder>,
}

impl HeldBy {
    /// Returns a query for the first executions that a gate holds.
    pub fn first(gate: GateId, limit: u32) -> Self {
        HeldBy { gate, limit, after: None }
    }
}

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
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ResultChange {
    /// Leave the stored result as it is.
    #[default]
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

/// Changes that are applied to rows without loading them: they do not depend on the content of the rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UnreadWrites {
    /// Additions to the counts of flows, in id order, applied after the flows are updated. Each addition raises the
    /// version by one.
    pub flow_counts: Vec<(FlowId, Counts)>,
    /// Number of slots given back to each gate, in id order.
    pub slots_freed: Vec<(GateId, u32)>,
    /// Taken signals, in key order: execution, signal number, and the number of the suspension that took it. May
    /// include new signals.
    pub signals_taken: Vec<(ExecutionId, u32, u32)>,
    /// Streams with a frame number: best-effort frames with smaller numbers are deleted.
    pub frames_dropped: Vec<(StreamName, u32)>,
    /// Webhooks that are deleted: all of their deliveries are deleted. Applied before deliveries are written.
    pub webhooks_removed: Vec<WebhookId>,
    /// Webhooks with the number of a delivery: the delivered ones with smaller numbers are deleted. Applied after
    /// deliveries are written.
    pub deliveries_pruned: Vec<(WebhookId, u64)>,
}

impl UnreadWrites {
    /// Reports whether there is nothing to save.
    pub fn is_empty(&self) -> bool {
        let UnreadWrites {
            flow_counts,
            slots_freed,
            signals_taken,
            frames_dropped,
            webhooks_removed,
            deliveries_pruned,
        } = self;
        flow_counts.is_empty()
            && slots_freed.is_empty()
            && signals_taken.is_empty()
            && frames_dropped.is_empty()
            && webhooks_removed.is_empty()
            && deliveries_pruned.is_empty()
    }
}

impl Changes {
    /// Returns an inserted or updated execution. Both are in the order of their ids.
    pub fn row(&self, id: ExecutionId) -> Option<&Execution> {
        let updated = &self.executions.updated;
        if let Ok(index) = updated.binary_search_by_key(&id, |row| row.execution.id) {
            return updated.get(index).map(|row| &row.execution);
        }
        let inserted = &self.executions.inserted;
        let index = inserted.binary_search_by_key(&id, |row| row.execution.id).ok()?;
        inserted.get(index).map(|row| &row.execution)
    }
}
