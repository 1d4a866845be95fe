//! The bodies of submissions, flows and graphs.

use super::values::raw;
use crate::Error;
use selvedge_api::times;
use selvedge_core::gate::Amounts;
use selvedge_core::join::JoinPolicy;
use selvedge_core::plan::{EdgeDraft, GraphDraft, GroupDraft};
use selvedge_core::rules::flows::submit::FlowDraft;
use selvedge_core::submission::When;
use selvedge_core::{Draft, Name, Retry};
use serde::Serialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use uuid::Uuid;

/// A submission, or a node of a flow.
#[derive(Serialize)]
pub struct SubmissionBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    kind: &'a str,
    input: &'a RawValue,
    lane: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Uuid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_window_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unique_while_active: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    debounce: Option<DebounceBody<'a>>,
    #[serde(skip_serializing_if = "is_zero")]
    priority: i64,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    capabilities: &'a [String],
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    tags: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_until_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_by_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<&'a Retry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt_timeout_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retention_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fairness_key: Option<&'a Name>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    budgets: Vec<BudgetBody<'a>>,
    #[serde(skip_serializing_if = "<[Name]>::is_empty")]
    quotas: &'a [Name],
    #[serde(skip_serializing_if = "Option::is_none")]
    concurrency: Option<ConcurrencyBody<'a>>,
}

#[derive(Serialize)]
struct DebounceBody<'a> {
    key: &'a str,
    delay_ms: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_ms: Option<i64>,
}

#[derive(Serialize)]
struct BudgetBody<'a> {
    name: &'a Name,
    reserve: &'a Amounts,
}

#[derive(Serialize)]
struct ConcurrencyBody<'a> {
    key: &'a Name,
    limit: u32,
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// Splits a time or duration into the two fields that requests have for it: milliseconds, and a time.
pub fn split(when: Option<When>) -> (Option<i64>, Option<String>) {
    match when {
        None => (None, None),
        Some(When::AfterMs(ms)) => (Some(ms), None),
        Some(When::At(time)) => (None, Some(times::text(time))),
    }
}

impl<'a> SubmissionBody<'a> {
    /// Returns the body of a submission. Fails if the input is not JSON.
    pub fn new(draft: &'a Draft) -> Result<Self, Error> {
        SubmissionBody::named(None, draft)
    }

    fn named(name: Option<&'a str>, draft: &'a Draft) -> Result<Self, Error> {
        let (delay_ms, delay_until_at) = split(draft.delay);
        let (policy, gates) = (&draft.policy, &draft.required_gates);
        let debounce = draft.debounce.as_ref();
        Ok(SubmissionBody {
            name,
            kind: &draft.kind,
            input: raw(&draft.input)
                .map_err(|error| Error::field("/input", format!("is not JSON: {error}")))?,
            lane: &draft.lane,
            id: draft.id,
            idempotency_key: draft.idempotency_key.as_deref(),
            idempotency_window_ms: draft.idempotency_window_ms,
            unique_while_active: draft.unique_while_active.as_deref(),
            debounce: debounce.map(|debounce| DebounceBody {
                key: &debounce.key,
                delay_ms: debounce.delay_ms,
                max_ms: debounce.max_ms,
            }),
            priority: draft.priority,
            capabilities: &draft.capabilities,
            tags: &draft.tags,
            delay_ms,
            delay_until_at,
            start_by_ms: policy.start_by_ms,
            retry: draft.gives_retry.then_some(&policy.retry),
            attempt_timeout_ms: policy.attempt_timeout_ms,
            deadline_ms: policy.deadline_ms,
            retention_ms: draft.gives_retention.then_some(policy.retention_ms),
            fairness_key: gates.fairness_key.as_ref(),
            budgets: gates.budgets.iter().map(|(name, reserve)| BudgetBody { name, reserve }).collect(),
            quotas: &gates.quotas,
            concurrency: gates
                .concurrency
                .as_ref()
                .map(|(key, limit)| ConcurrencyBody { key, limit: *limit }),
        })
    }
}

/// The nodes, edges and join policies of a flow, a growth or a spawn.
#[derive(Serialize)]
pub struct GraphBody<'a> {
    nodes: Vec<SubmissionBody<'a>>,
    edges: Vec<EdgeBody<'a>>,
    groups: Vec<GroupBody<'a>>,
}

#[derive(Serialize)]
struct EdgeBody<'a> {
    from: &'a str,
    to: &'a str,
    when: &'static str,
}

#[derive(Serialize)]
struct GroupBody<'a> {
    node: &'a str,
    policy: PolicyBody,
}

#[derive(Serialize)]
struct PolicyBody {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    k: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_satisfied: Option<&'static str>,
}

impl From<JoinPolicy> for PolicyBody {
    fn from(policy: JoinPolicy) -> PolicyBody {
        let (k, on_satisfied) = match policy {
            JoinPolicy::AllOf => (None, None),
            JoinPolicy::AnyOf { on_satisfied } => (None, Some(on_satisfied.as_str())),
            JoinPolicy::Quorum { k, on_satisfied } => (Some(k), Some(on_satisfied.as_str())),
        };
        PolicyBody { kind: policy.as_str(), k, on_satisfied }
    }
}

impl<'a> GraphBody<'a> {
    /// Returns the body of a graph. Fails if an input is not JSON.
    pub fn new(graph: &'a GraphDraft) -> Result<Self, Error> {
        let edge = |EdgeDraft { from, to, when }: &'a EdgeDraft| EdgeBody { from, to, when: when.as_str() };
        let group =
            |GroupDraft { node, policy }: &'a GroupDraft| GroupBody { node, policy: (*policy).into() };
        let nodes = graph.nodes.iter().map(|node| SubmissionBody::named(Some(&node.name), &node.draft));
        Ok(GraphBody {
            nodes: nodes.collect::<Result<_, _>>()?,
            edges: graph.edges.iter().map(edge).collect(),
            groups: graph.groups.iter().map(group).collect(),
        })
    }
}

/// The body of a submission of a flow.
#[derive(Serialize)]
pub struct FlowBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Uuid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    tags: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retention_ms: Option<i64>,
    #[serde(flatten)]
    graph: GraphBody<'a>,
}

impl<'a> FlowBody<'a> {
    /// Returns the body of a flow. Fails if an input is not JSON.
    pub fn new(flow: &'a FlowDraft) -> Result<Self, Error> {
        Ok(FlowBody {
            id: flow.id,
            idempotency_key: flow.idempotency_key.as_deref(),
            name: flow.name.as_deref(),
            tags: &flow.tags,
            deadline_ms: flow.deadline_ms,
            retention_ms: flow.retention_ms,
            graph: GraphBody::new(&flow.graph)?,
        })
    }
}
