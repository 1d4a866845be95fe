//! The tables: plain maps and the indexes over them.

use crate::kinds::{EntryName, Numbered};
use bytes::Bytes;
use selvedge_core::api_key::{ApiKey, ApiKeyId};
use selvedge_core::bulk_job::{BulkJob, BulkJobId};
use selvedge_core::execution::ClaimOrder;
use selvedge_core::filter::ListPosition;
use selvedge_core::flow::FlowListPosition;
use selvedge_core::gate::{Amounts, Gate, GateId};
use selvedge_core::outbox::{OutboxKind, OutboxName, OutboxRow};
use selvedge_core::rollup::{Rollup, RollupKey};
use selvedge_core::rows::{KeyName, KeyRow};
use selvedge_core::schedule::{Schedule, ScheduleName};
use selvedge_core::step::Step;
use selvedge_core::stream::{Frame, Stream, StreamName};
use selvedge_core::token::{TokenKey, TokenKeyId};
use selvedge_core::webhook::{Delivery, Webhook, WebhookId, WebhookName};
use selvedge_core::{
    Class, ClassId, DueKind, Execution, ExecutionId, Flow, FlowId, Name, NamespaceId, Session, SessionId,
    Signal, Timestamp, Waitpoint, WaitpointId,
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
    pub api_keys: BTreeMap<ApiKeyId, ApiKey>,
    pub bulk_jobs: BTreeMap<BulkJobId, BulkJob>,
    pub secret: Option<Vec<u8>>,

    pub webhooks: BTreeMap<WebhookName, Webhook>,
    pub deliveries: BTreeMap<(WebhookId, u64), Delivery>,

    pub schedules: BTreeMap<ScheduleName, Schedule>,
    pub due_schedules: BTreeSet<(Timestamp, ScheduleName)>,

    pub gates: BTreeMap<GateId, Gate>,
    pub due_gates: BTreeSet<(Timestamp, GateId)>,
    /// The executions that gates hold, in claim order.
    pub held: HashMap<GateId, BTreeSet<ClaimOrder>>,
    pub ledger: BTreeMap<EntryName, Amounts>,

    pub signals: Numbered<Signal>,
    pub steps: Numbered<Step>,
    pub waitpoints: Numbered<Waitpoint>,
    pub waitpoint_ids: HashMap<WaitpointId, (ExecutionId, u32)>,
    pub token_keys: BTreeMap<TokenKeyId, TokenKey>,

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

    pub namespaces: Vec<Name>,
    pub settings: HashMap<NamespaceId, NamespaceSettings>,
    /// Classes with the time of their last recorded use.
    pub classes: BTreeMap<ClassId, (Class, Timestamp)>,
    pub class_ids: HashMap<Class, ClassId>,
    pub newest_class: i32,
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
