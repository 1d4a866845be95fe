//! The kinds of rows and their tables, which are plain maps with indexes over them. Each noun of the contract has a file, with
//! its part of loading and saving, and its reads.

mod api_keys;
mod bulk_jobs;
mod candidates;
mod classes;
mod due;
mod executions;
mod flows;
mod gates;
mod inbox;
mod keys;
mod log;
mod namespaces;
mod outbox;
mod projection;
mod rollups;
mod schedules;
mod secret;
mod sessions;
mod signals;
mod steps;
mod streams;
mod token_keys;
mod waitpoints;
mod webhooks;

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
    Changes, Class, ClassId, DueKind, Execution, ExecutionId, Flow, FlowId, Name, NamespaceId, Needs, Rows,
    Session, SessionId, Signal, Timestamp, Waitpoint, WaitpointId,
};
use selvedge_store::{FlowDue, NamespaceSettings};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::hash::Hash;
use std::ops::RangeInclusive;
use uuid::Uuid;

/// A noun's part of the store.
pub(crate) struct Kind {
    /// Loads the rows that a decision needs. Under the mutex every row is free, so locking, locking if free and reading are
    /// the same.
    pub load: fn(&Tables, &Needs, &mut Rows),
    /// Reports whether the guards of a save hold.
    pub guards_hold: fn(&Tables, &Changes) -> bool,
    /// Saves the changes of a decision, and may take them.
    pub save: fn(&mut Tables, &mut Changes, &mut Saving),
    /// Returns the name of the kind and the time at which its first row is due.
    pub due: fn(&Tables) -> Option<(&'static str, Timestamp)>,
    /// Deletes the rows of a namespace without executions and flows, and returns how many.
    pub delete_rest: fn(&mut Tables, NamespaceId) -> usize,
}

pub(crate) struct Saving {
    pub now: Timestamp,
    /// The number of the log entry, if there were events.
    pub entry: Option<i64>,
    /// Flows that are running without a live member now.
    pub emptied: Vec<FlowId>,
}

impl Kind {
    /// A noun that is neither loaded nor saved, is never due, and stays when its namespace is deleted.
    const EMPTY: Kind = Kind {
        load: |_, _, _| (),
        guards_hold: |_, _| true,
        save: |_, _, _| (),
        due: |_| None,
        delete_rest: |_, _| 0,
    };
}

/// All kinds, in the order in which they are loaded and saved. Executions are loaded behind the kinds that find executions.
pub(crate) static KINDS: &[Kind] = &[
    api_keys::KIND,
    bulk_jobs::KIND,
    webhooks::KIND,
    schedules::KIND,
    candidates::KIND,
    flows::KIND,
    gates::KIND,
    executions::KIND,
    outbox::KIND,
    keys::KIND,
    streams::KIND,
    signals::KIND,
    steps::KIND,
    waitpoints::KIND,
    token_keys::KIND,
    sessions::KIND,
    classes::KIND,
    rollups::KIND,
    log::KIND,
];

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
    pub ledger: BTreeMap<gates::EntryName, Amounts>,

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

/// Rows of executions, by the execution and their number.
pub type Numbered<T> = BTreeMap<(ExecutionId, u32), T>;

/// The names of all rows of an execution.
fn all(of: ExecutionId) -> RangeInclusive<(ExecutionId, u32)> {
    (of, 0)..=(of, u32::MAX)
}

/// Returns rows of an execution with numbers greater than `after`.
fn after<T: Clone>(table: &Numbered<T>, of: ExecutionId, after: u32, limit: u32) -> Vec<T> {
    let rows = table.range((of, after.saturating_add(1))..=(of, u32::MAX));
    rows.take(limit as usize).map(|(_, row)| row.clone()).collect()
}

/// Deletes the rows that match, and returns how many.
fn delete_all<K: Ord, V>(table: &mut BTreeMap<K, V>, matches: impl Fn(&K, &V) -> bool) -> usize {
    let before = table.len();
    table.retain(|key, row| !matches(key, row));
    before - table.len()
}

/// Deletes all rows of the deleted executions.
fn delete_deleted<T>(table: &mut Numbered<T>, changes: &Changes) {
    for (id, _) in &changes.executions.deleted {
        let names: Vec<_> = table.range(all(*id)).map(|(name, _)| *name).collect();
        names.iter().for_each(|name| drop(table.remove(name)));
    }
}
