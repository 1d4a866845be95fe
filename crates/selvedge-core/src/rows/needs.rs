//! The rows that a decision needs: requests by key, and queries.

use crate::api_key::ApiKeyId;
use crate::bulk_job::BulkJobId;
use crate::execution::ClaimOrder;
use crate::gate::{GateId, GateName};
use crate::inbox::InboxNumber;
use crate::outbox::OutboxName;
use crate::rows::{KeyName, inline_limit};
use crate::schedule::ScheduleName;
use crate::stream::StreamName;
use crate::table::Request;
use crate::webhook::{DeliveryId, WebhookName};
use crate::{ClassId, ExecutionId, FlowId, Name, NamespaceId, SessionId};

/// The rows that a decision needs. A store takes the locks in the order of [`Stage`](crate::driver::Stage), each kind
/// in key order, and reads the other rows after them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Needs {
    /// Schedules.
    pub schedules: Request<ScheduleName>,
    /// Flows whose growth is serialised by an advisory lock.
    pub growing: Request<FlowId>,
    /// Nodes of flows, by name.
    pub nodes: Request<(FlowId, Name)>,
    /// Executions.
    pub executions: Request<ExecutionId>,
    /// Inputs of executions. Of an input larger than [`inline_inputs`](Needs::inline_inputs), only the size is read.
    pub inputs: Request<ExecutionId>,
    /// Inputs of executions, of any size.
    pub whole_inputs: Request<ExecutionId>,
    /// Names and results of executions: the [`Relative`](super::Relative) rows that a claim carries. Of a result and an
    /// error larger than [`inline_relatives`](Needs::inline_relatives), only the size is read.
    pub relatives: Request<ExecutionId>,
    /// Names and results of executions, of any size.
    pub whole_relatives: Request<ExecutionId>,
    /// Keys.
    pub keys: Request<KeyName>,
    /// Outbox rows.
    pub outbox: Request<OutboxName>,
    /// Lanes. A store locks those with limits, and reads the others.
    pub lanes: Request<GateId>,
    /// Gates other than lanes. A gate that is read without a lock only shows whether it is configured.
    pub gates: Request<GateId>,
    /// Parts of budgets.
    pub parts: Request<GateId>,
    /// Flows.
    pub flows: Request<FlowId>,
    /// Sessions.
    pub sessions: Request<SessionId>,
    /// Streams; a store may leave their summary documents out. Appending to a stream requires the lock on its
    /// execution.
    pub streams: Request<StreamName>,
    /// Streams with their summary documents.
    pub summaries: Request<StreamName>,
    /// Steps, by name.
    pub steps: Request<(ExecutionId, Name)>,
    /// Rows that are not found by their key.
    pub queries: Queries,
}

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

    /// Reports whether nothing is needed.
    pub fn is_empty(&self) -> bool {
        let Needs {
            schedules,
            growing,
            nodes,
            executions,
            inputs,
            whole_inputs,
            relatives,
            whole_relatives,
            keys,
            outbox,
            lanes,
            gates,
            parts,
            flows,
            sessions,
            streams,
            summaries,
            steps,
            queries,
        } = self;
        schedules.is_empty()
            && growing.is_empty()
            && nodes.is_empty()
            && executions.is_empty()
            && inputs.is_empty()
            && whole_inputs.is_empty()
            && relatives.is_empty()
            && whole_relatives.is_empty()
            && keys.is_empty()
            && outbox.is_empty()
            && lanes.is_empty()
            && gates.is_empty()
            && parts.is_empty()
            && flows.is_empty()
            && sessions.is_empty()
            && streams.is_empty()
            && summaries.is_empty()
            && steps.is_empty()
            && queries.is_empty()
    }

    /// Drops the needs that `loaded` covers, and adds the rest to it. Queries for candidates, and the
    /// executions that they exclude, are kept: they may be repeated.
    pub fn only_new(&mut self, loaded: &mut Needs) {
        let Needs {
            schedules,
            growing,
            nodes,
            executions,
            inputs,
            whole_inputs,
            relatives,
            whole_relatives,
            keys,
            outbox,
            lanes,
            gates,
            parts,
            flows,
            sessions,
            streams,
            summaries,
            steps,
            queries,
        } = self;
        schedules.only_new(&mut loaded.schedules);
        growing.only_new(&mut loaded.growing);
        nodes.only_new(&mut loaded.nodes);
        executions.only_new(&mut loaded.executions);
        inputs.only_new(&mut loaded.inputs);
        whole_inputs.only_new(&mut loaded.whole_inputs);
        relatives.only_new(&mut loaded.relatives);
        whole_relatives.only_new(&mut loaded.whole_relatives);
        keys.only_new(&mut loaded.keys);
        outbox.only_new(&mut loaded.outbox);
        lanes.only_new(&mut loaded.lanes);
        gates.only_new(&mut loaded.gates);
        parts.only_new(&mut loaded.parts);
        flows.only_new(&mut loaded.flows);
        sessions.only_new(&mut loaded.sessions);
        streams.only_new(&mut loaded.streams);
        summaries.only_new(&mut loaded.summaries);
        steps.only_new(&mut loaded.steps);
        queries.only_new(&mut loaded.queries);
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
    /// API keys to lock. Only their revocation locks them.
    pub api_keys: Vec<ApiKeyId>,
    /// Bulk jobs to lock, after all executions of the same load.
    pub bulk_jobs: Vec<BulkJobId>,
    /// Webhooks to lock.
    pub webhooks: Vec<WebhookName>,
    /// Deliveries of webhooks to read. Changing one requires the lock on its webhook.
    pub deliveries: Vec<DeliveryId>,
    /// Rows of the inbox to lock, skipping those that another transaction has locked.
    pub inbox: Vec<InboxNumber>,
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
            api_keys,
            bulk_jobs,
            webhooks,
            deliveries,
            inbox,
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
            && api_keys.is_empty()
            && bulk_jobs.is_empty()
            && webhooks.is_empty()
            && deliveries.is_empty()
            && inbox.is_empty()
            && classes_after.is_none()
    }

    fn only_new(&mut self, loaded: &mut Queries) {
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
            api_keys,
            bulk_jobs,
            webhooks,
            deliveries,
            inbox,
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
        retain_new(api_keys, &mut loaded.api_keys);
        retain_new(bulk_jobs, &mut loaded.bulk_jobs);
        retain_new(webhooks, &mut loaded.webhooks);
        retain_new(deliveries, &mut loaded.deliveries);
        retain_new(inbox, &mut loaded.inbox);
        // Classes are read after every row of the same load, so once is enough.
        *classes_after = classes_after.filter(|_| loaded.classes_after.is_none());
        loaded.classes_after = loaded.classes_after.or(*classes_after);
    }
}

/// A query for a page of the members of a flow, ordered by time of submission, then by id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Members {
    /// The flow.
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
    /// The gate.
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
