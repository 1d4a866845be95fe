//! What a store loads for a decision, and what it saves after it. Plain data.

use crate::execution::ClaimOrder;
use crate::fact::Failure;
use crate::flow::Counts;
use crate::gate::{Gate, GateId, LedgerEntry};
use crate::log::Event;
use crate::outbox::{OutboxName, OutboxRow};
use crate::stream::{Frame, Stream, StreamName};
use crate::token::{TokenKey, TokenKeyId};
use crate::{
    Class, ClassId, Execution, ExecutionId, Flow, FlowId, LeaseId, Name, NamespaceId, Outcome, Session,
    SessionId, Signal, Step, Timestamp, Waitpoint,
};
use bytes::Bytes;

/// What a decision needs to see. A store loads the parts in the lock order, which [`Stage`](crate::driver::Stage) lists, and
/// reads the others after them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Needs {
    /// Flows that only one transaction at a time may grow: whoever names one here waits for the others that do.
    pub growing: Vec<FlowId>,
    /// Nodes to find by their names.
    pub nodes: Vec<(FlowId, Name)>,
    /// Members of flows to read without a lock.
    pub members: Vec<Members>,
    /// Executions to lock, in id order, waiting for whoever has them.
    pub executions: Vec<ExecutionId>,
    /// Executions to lock together with these; their rows are known, and need not be read.
    pub executions_known: Vec<ExecutionId>,
    /// Executions to lock unless somebody else has them.
    pub executions_if_free: Vec<ExecutionId>,
    /// Keys to read.
    pub keys: Vec<KeyName>,
    /// Rows of the outbox to lock.
    pub outbox: Vec<OutboxName>,
    /// Flows to read without a lock.
    pub flows_look: Vec<FlowId>,
    /// Lanes to read, and to lock where they limit something.
    pub lanes: Vec<GateId>,
    /// Ready executions to find and lock unless somebody else has them.
    pub candidates: Vec<Candidates>,
    /// Candidates to pass over.
    pub except: Vec<ExecutionId>,
    /// Gates other than lanes to lock, in id order.
    pub gates: Vec<GateId>,
    /// Parts of gates to lock, in id order.
    pub parts: Vec<GateId>,
    /// Executions that are held by gates, to find and lock unless somebody else has them.
    pub held: Vec<HeldBy>,
    /// Flows to lock, in id order. No execution is waited for after that.
    pub flows: Vec<FlowId>,
    /// Executions to read without a lock.
    pub look: Vec<ExecutionId>,
    /// Executions whose inputs are wanted.
    pub inputs: Vec<ExecutionId>,
    /// Executions of which only their name and their end are wanted.
    pub relatives: Vec<ExecutionId>,
    /// Streams to read; their summary documents may be left out. Whoever appends to one has locked its execution.
    pub streams: Vec<StreamName>,
    /// Streams to read with their summary documents.
    pub summaries: Vec<StreamName>,
    /// Executions whose steps and signals are wanted, all of them with their payloads.
    pub records: Vec<ExecutionId>,
    /// Executions whose signals are wanted that no wait has taken, without their payloads.
    pub untaken: Vec<ExecutionId>,
    /// Signals to find by the keys of their senders, without their payloads.
    pub signal_keys: Vec<(ExecutionId, Name)>,
    /// Steps to find by their names.
    pub steps: Vec<(ExecutionId, Name)>,
    /// Executions whose waitpoints are wanted.
    pub waitpoints: Vec<ExecutionId>,
    /// Whether the keys of tokens are wanted.
    pub token_keys: bool,
    /// Sessions to read without a lock.
    pub sessions: Vec<SessionId>,
    /// Sessions to lock.
    pub sessions_locked: Vec<SessionId>,
    /// Instances whose sessions to lock, and whose leases to read after that.
    pub instances: Vec<(NamespaceId, Name)>,
    /// Classes interned after this one.
    pub classes_after: Option<ClassId>,
}

impl Needs {
    /// Whether nothing is wanted.
    pub fn is_empty(&self) -> bool {
        *self == Needs::default()
    }

    /// Leaves out what `seen` has, and adds the rest to it. Candidates and what to pass over are left as they are.
    pub fn only_new(&mut self, seen: &mut Needs) {
        fn new<T: Clone + PartialEq + Ord>(wanted: &mut Vec<T>, seen: &mut Vec<T>) {
            wanted.sort_unstable();
            wanted.dedup();
            if !seen.is_empty() {
                wanted.retain(|one| seen.binary_search(one).is_err());
            }
            if !wanted.is_empty() {
                seen.extend(wanted.iter().cloned());
                seen.sort_unstable();
            }
        }
        new(&mut self.growing, &mut seen.growing);
        new(&mut self.nodes, &mut seen.nodes);
        new(&mut self.members, &mut seen.members);
        self.executions.retain(|id| seen.executions_known.binary_search(id).is_err());
        new(&mut self.executions, &mut seen.executions);
        self.executions_known.retain(|id| seen.executions.binary_search(id).is_err());
        new(&mut self.executions_known, &mut seen.executions_known);
        self.executions_if_free.retain(|id| self.executions.binary_search(id).is_err());
        self.executions_if_free.retain(|id| seen.executions.binary_search(id).is_err());
        new(&mut self.executions_if_free, &mut seen.executions_if_free);
        new(&mut self.keys, &mut seen.keys);
        new(&mut self.outbox, &mut seen.outbox);
        new(&mut self.flows, &mut seen.flows);
        new(&mut self.flows_look, &mut seen.flows_look);
        new(&mut self.lanes, &mut seen.lanes);
        new(&mut self.gates, &mut seen.gates);
        new(&mut self.parts, &mut seen.parts);
        new(&mut self.held, &mut seen.held);
        // What is locked is read, or known.
        self.look.retain(|id| seen.executions.binary_search(id).is_err());
        self.look.retain(|id| seen.executions_known.binary_search(id).is_err());
        new(&mut self.look, &mut seen.look);
        new(&mut self.inputs, &mut seen.inputs);
        new(&mut self.relatives, &mut seen.relatives);
        new(&mut self.streams, &mut seen.streams);
        new(&mut self.summaries, &mut seen.summaries);
        new(&mut self.records, &mut seen.records);
        new(&mut self.untaken, &mut seen.untaken);
        new(&mut self.signal_keys, &mut seen.signal_keys);
        new(&mut self.steps, &mut seen.steps);
        new(&mut self.waitpoints, &mut seen.waitpoints);
        self.token_keys &= !seen.token_keys;
        seen.token_keys |= self.token_keys;
        new(&mut self.sessions, &mut seen.sessions);
        new(&mut self.sessions_locked, &mut seen.sessions_locked);
        new(&mut self.instances, &mut seen.instances);
        // Read after every row that is loaded with it, so once is enough.
        self.classes_after = self.classes_after.filter(|_| seen.classes_after.is_none());
        seen.classes_after = seen.classes_after.or(self.classes_after);
    }
}

/// The members of a flow in the order in which they were submitted, then by id: `limit` of them, after the first `skip`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Members {
    /// The flow.
    pub flow: FlowId,
    /// How many to pass over.
    pub skip: u32,
    /// How many.
    pub limit: u32,
}

/// The first `limit` ready executions of these classes, in claim order.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidates {
    /// The classes, in id order.
    pub classes: Vec<ClassId>,
    /// How many.
    pub limit: u32,
}

/// The first `limit` executions that a gate holds, in claim order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HeldBy {
    /// The gate.
    pub gate: GateId,
    /// How many.
    pub limit: u32,
    /// Behind which place; none from the first on.
    pub after: Option<ClaimOrder>,
}

impl HeldBy {
    /// The first so many.
    pub fn first(gate: GateId, limit: u32) -> Self {
        HeldBy { gate, limit, after: None }
    }
}

/// What a store found.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    /// The database's time, in this transaction.
    pub now: Timestamp,
    /// Executions, of all kinds of asking.
    pub executions: Vec<Execution>,
    /// Executions that were asked for if free, and that another transaction has locked. They may be among the executions all the
    /// same, where they were also asked for without a lock.
    pub skipped: Vec<ExecutionId>,
    /// Which of them are candidates, in claim order.
    pub candidates: Vec<ExecutionId>,
    /// Which gates were asked for, lanes too.
    pub gates_asked: Vec<GateId>,
    /// Those of them that are there.
    pub gates: Vec<Gate>,
    /// Which executions are held by which of the gates that were asked for, in claim order.
    pub held: Vec<(HeldBy, Vec<ExecutionId>)>,
    /// Rows that could not be understood.
    pub unreadable: Vec<(ExecutionId, String)>,
    /// Inputs of candidates and of what was asked for.
    pub inputs: Vec<(ExecutionId, Bytes)>,
    /// Names and ends of what was asked for.
    pub relatives: Vec<Relative>,
    /// Nodes that were found by their names.
    pub nodes: Vec<(FlowId, Name, ExecutionId)>,
    /// Which executions are the members that were asked for, in order.
    pub members: Vec<(Members, Vec<ExecutionId>)>,
    /// Rows of the outbox.
    pub outbox: Vec<OutboxRow>,
    /// Flows.
    pub flows: Vec<Flow>,
    /// Streams.
    pub streams: Vec<Stream>,
    /// Executions whose steps and signals were all loaded.
    pub recorded: Vec<ExecutionId>,
    /// Signals, of all kinds of asking.
    pub signals: Vec<Signal>,
    /// Steps, of all kinds of asking.
    pub steps: Vec<Step>,
    /// Waitpoints.
    pub waitpoints: Vec<Waitpoint>,
    /// Keys of tokens.
    pub token_keys: Vec<TokenKey>,
    /// Keys.
    pub keys: Vec<KeyRow>,
    /// Sessions.
    pub sessions: Vec<Session>,
    /// Leases of the instances that were asked for.
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

/// What a decision changed. A store saves all of it or nothing, and the guards are: every inserted execution, key, flow and
/// name of a node was not there, every updated or deleted execution or flow had its expected version.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// New executions, in id order.
    pub inserted: Vec<Inserted>,
    /// Changed executions, in id order.
    pub updated: Vec<Updated>,
    /// Deleted executions and the version they had, in id order, before any is inserted. Their pages and streams go with them.
    pub deleted: Vec<(ExecutionId, u32)>,
    /// Pages of history.
    pub pages: Vec<HistoryPage>,
    /// Entries for the tag index.
    pub tags_added: Vec<TagEntry>,
    /// Entries to take out of the tag index.
    pub tags_removed: Vec<TagEntry>,
    /// Keys to remove, before any is added. One with an execution is removed only where it stands for that one, one
    /// without only where it has expired.
    pub keys_removed: Vec<(KeyName, Option<ExecutionId>)>,
    /// New keys, in order.
    pub keys_added: Vec<KeyRow>,
    /// Sessions to write, in id order. A write merges: times never go back, and a drain that was asked for stays asked for.
    pub sessions: Vec<Session>,
    /// Sessions to forget, in id order, before any is written: one that is in both is written anew, without merging.
    pub sessions_removed: Vec<SessionId>,
    /// New flows, in id order.
    pub flows_inserted: Vec<Flow>,
    /// Changed flows and the version they had, in id order. All but their counts is written; their namespace, tags and time of
    /// submission never change.
    pub flows_updated: Vec<(Flow, u32)>,
    /// Deleted flows and the version they had, in id order. The parts of budgets that counted for them go with them, and those
    /// of deleted executions that were alone.
    pub flows_deleted: Vec<(FlowId, u32)>,
    /// What is added to the counts of flows, in id order, after they were updated; each addition raises the version by one. A
    /// flow that has live members after it is running and has no end.
    pub counted: Vec<(FlowId, Counts)>,
    /// New names of nodes, in order.
    pub nodes_added: Vec<NodeEntry>,
    /// Names of nodes to remove, in order.
    pub nodes_removed: Vec<(FlowId, Name)>,
    /// Rows of the outbox to write, new or not, in order.
    pub outbox_put: Vec<OutboxRow>,
    /// Rows of the outbox to remove, in order.
    pub outbox_removed: Vec<OutboxName>,
    /// Streams to write, new or not, in order. A summary document is written only where its version is another one.
    pub streams: Vec<Stream>,
    /// New frames, in order.
    pub frames: Vec<Frame>,
    /// Best-effort frames of these streams with smaller numbers are deleted.
    pub frames_dropped: Vec<(StreamName, u32)>,
    /// New signals, in order.
    pub signals_added: Vec<Signal>,
    /// Signals that were taken, in order: of which execution, which number, by which suspension. A new one may be among them.
    pub signals_taken: Vec<(ExecutionId, u32, u32)>,
    /// Steps to write, new or not, in order.
    pub steps: Vec<Step>,
    /// Waitpoints to write, new or not, in order.
    pub waitpoints: Vec<Waitpoint>,
    /// Keys of tokens to write, new or not, in order.
    pub token_keys: Vec<TokenKey>,
    /// Keys of tokens to remove, in order.
    pub token_keys_removed: Vec<TokenKeyId>,
    /// Gates to write and the version they had; none for a new one. In id order.
    pub gates: Vec<(Gate, Option<u32>)>,
    /// Gates to delete and the version they had, in id order.
    pub gates_deleted: Vec<(GateId, u32)>,
    /// What is added to the ledger, in order.
    pub ledger: Vec<LedgerEntry>,
    /// Slots that are given back to gates which were not read, in id order.
    pub gates_freed: Vec<(GateId, u32)>,
    /// What happened, in order: one entry of the log.
    pub events: Vec<Event>,
}

impl Changes {
    /// Whether there is nothing to save.
    pub fn is_empty(&self) -> bool {
        self.inserted.is_empty()
            && self.updated.is_empty()
            && self.deleted.is_empty()
            && self.keys_added.is_empty()
            && self.keys_removed.is_empty()
            && self.sessions.is_empty()
            && self.sessions_removed.is_empty()
            && self.flows_inserted.is_empty()
            && self.flows_updated.is_empty()
            && self.flows_deleted.is_empty()
            && self.counted.is_empty()
            && self.outbox_put.is_empty()
            && self.outbox_removed.is_empty()
            && self.streams.is_empty()
            && self.signals_added.is_empty()
            && self.signals_taken.is_empty()
            && self.steps.is_empty()
            && self.waitpoints.is_empty()
            && self.gates.is_empty()
            && self.gates_deleted.is_empty()
            && self.gates_freed.is_empty()
            && self.ledger.is_empty()
            && self.token_keys.is_empty()
            && self.token_keys_removed.is_empty()
            && self.events.is_empty()
    }
}
