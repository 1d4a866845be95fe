//! Claims and heartbeats of the worker protocol.

use super::values::{Entries, any_json, bytes, optional_time, time};
use crate::worker::protocol::{Claim, ClaimAnswer, HeartbeatAnswer, RecordedStep};
use crate::{ExecutionError, ExecutionId, FlowId, Outcome, Relative, Timestamp, TraceParent};
use bytes::Bytes;
use selvedge_core::LeaseId;
use selvedge_core::rules::claim::ClaimDraft;
use selvedge_core::rules::report::Fence;
use selvedge_core::step::StepKind;
use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// The body of a claim.
#[derive(Serialize)]
pub struct ClaimBody<'a> {
    worker: &'a str,
    lanes: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    kinds: Option<&'a [String]>,
    capabilities: &'a [String],
    max: u32,
    wait_ms: u64,
    lease_ttl_ms: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    incarnation: Option<&'a str>,
}

impl<'a> ClaimBody<'a> {
    /// Returns the body of a claim that waits this long.
    pub fn new(claim: &'a ClaimDraft, wait: Duration) -> ClaimBody<'a> {
        ClaimBody {
            worker: &claim.worker,
            lanes: &claim.lanes,
            kinds: claim.kinds.as_deref(),
            capabilities: &claim.capabilities,
            max: claim.max,
            wait_ms: wait.as_millis() as u64,
            lease_ttl_ms: claim.lease_ttl_ms,
            incarnation: claim.incarnation.as_deref(),
        }
    }
}

/// The answer to a claim.
#[derive(Deserialize)]
pub struct ClaimsAnswer {
    claims: Vec<ClaimItem>,
    drain: bool,
}

impl From<ClaimsAnswer> for ClaimAnswer {
    fn from(answer: ClaimsAnswer) -> ClaimAnswer {
        let claims = answer.claims.into_iter().map(Claim::from).collect();
        ClaimAnswer { claims, drain: answer.drain, superseded: false }
    }
}

/// A claimed execution.
#[derive(Deserialize)]
pub struct ClaimItem {
    execution: ClaimedExecution,
    attempt: u32,
    lease: LeaseItem,
    #[serde(default)]
    traceparent: Option<String>,
    upstream: HashMap<String, Box<RawValue>>,
    upstream_refs: HashMap<String, ExecutionId>,
    upstream_outcomes: Entries<OutcomeItem>,
    children: HashMap<String, ChildItem>,
    children_refs: HashMap<String, ExecutionId>,
    children_outcomes: Entries<OutcomeItem>,
    steps: Entries<Box<RawValue>>,
    step_records: HashMap<String, StepRecord>,
}

#[derive(Deserialize)]
struct ClaimedExecution {
    id: ExecutionId,
    kind: String,
    lane: String,
    generation: u32,
    #[serde(deserialize_with = "time")]
    submitted_at: Timestamp,
    #[serde(default, deserialize_with = "optional_time")]
    replayed_at: Option<Timestamp>,
    tags: BTreeMap<String, String>,
    flow_id: FlowId,
    node: Option<String>,
    #[serde(deserialize_with = "any_json")]
    input: Option<Bytes>,
}

#[derive(Deserialize)]
struct LeaseItem {
    id: LeaseId,
    epoch: u32,
}

#[derive(Deserialize)]
struct OutcomeItem {
    execution: ExecutionId,
    outcome: Option<Outcome>,
    error: Option<ExecutionError>,
}

#[derive(Deserialize)]
struct ChildItem {
    #[serde(deserialize_with = "any_json")]
    result: Option<Bytes>,
}

#[derive(Deserialize)]
struct StepRecord {
    #[serde(deserialize_with = "step_kind")]
    kind: StepKind,
    attempt: u32,
}

fn step_kind<'de, D: Deserializer<'de>>(deserializer: D) -> Result<StepKind, D::Error> {
    let word = String::deserialize(deserializer)?;
    StepKind::parse(&word).ok_or_else(|| D::Error::custom(format!("{word:?} is not a kind of step")))
}

impl From<ClaimItem> for Claim {
    fn from(item: ClaimItem) -> Claim {
        let ClaimItem { execution, mut upstream, upstream_refs, mut children, children_refs, .. } = item;
        let upstreams = item.upstream_outcomes.0.into_iter().map(|(name, ended)| {
            let result = upstream.remove(&name).map(bytes);
            relative(name, ended, result, &upstream_refs)
        });
        let children = item.children_outcomes.0.into_iter().map(|(name, ended)| {
            let result = children.remove(&name).and_then(|child| child.result);
            relative(name, ended, result, &children_refs)
        });
        let steps = item.steps.0.into_iter().map(|(name, result)| {
            let record = item.step_records.get(&name);
            RecordedStep {
                kind: record.map_or(StepKind::Step, |record| record.kind),
                attempt: record.map_or(0, |record| record.attempt),
                name,
                result: bytes(result),
            }
        });
        Claim {
            fence: Fence {
                execution: execution.id,
                attempt: item.attempt,
                lease_id: item.lease.id,
                epoch: item.lease.epoch,
            },
            kind: execution.kind,
            lane: execution.lane,
            generation: execution.generation,
            opened_at: execution.replayed_at.unwrap_or(execution.submitted_at),
            tags: execution.tags,
            flow: execution.flow_id,
            node: execution.node,
            trace: item.traceparent.as_deref().and_then(TraceParent::parse),
            input: execution.input.unwrap_or_else(|| Bytes::from_static(b"null")),
            upstreams: upstreams.collect(),
            children: children.collect(),
            steps: steps.collect(),
        }
    }
}

/// Puts a relative together from the parts of a claim. Only an execution that completed has a result.
fn relative(
    name: String,
    ended: OutcomeItem,
    result: Option<Bytes>,
    left_out: &HashMap<String, ExecutionId>,
) -> Relative {
    Relative {
        execution: ended.execution,
        left_out: left_out.contains_key(&name),
        name,
        outcome: ended.outcome,
        error: ended.error,
        result: result.filter(|_| ended.outcome == Some(Outcome::Completed)),
    }
}

/// The body of a heartbeat.
#[derive(Serialize)]
pub struct HeartbeatBody<'a> {
    leases: &'a [Fence],
    wait_ms: u64,
    incarnation: &'a str,
}

impl<'a> HeartbeatBody<'a> {
    /// Returns the body of a heartbeat that waits this long.
    pub fn new(leases: &'a [Fence], wait: Duration, incarnation: &'a str) -> HeartbeatBody<'a> {
        HeartbeatBody { leases, wait_ms: wait.as_millis().min(60_000) as u64, incarnation }
    }
}

/// The answer to a heartbeat.
#[derive(Deserialize)]
pub struct HeartbeatReply {
    lost: Vec<LostLease>,
    cancel_requested: Vec<Fence>,
    drain: bool,
}

#[derive(Deserialize)]
struct LostLease {
    execution: ExecutionId,
    attempt: u32,
    lease_id: LeaseId,
    epoch: u32,
    reason: String,
}

impl From<HeartbeatReply> for HeartbeatAnswer {
    fn from(reply: HeartbeatReply) -> HeartbeatAnswer {
        let lost = reply.lost.into_iter().map(|LostLease { execution, attempt, lease_id, epoch, reason }| {
            (Fence { execution, attempt, lease_id, epoch }, reason)
        });
        HeartbeatAnswer { lost: lost.collect(), cancel_requested: reply.cancel_requested, drain: reply.drain }
    }
}
