//! Flows: submit, grow, read, wait for results, cancel, explain.

use super::{Connected, Namespace, WAIT_SLICE, actor};
use crate::execution::EndedItem;
use crate::flow::{GrownFlow, SubmittedFlow};
use crate::submission::millis;
use crate::wire::submissions::{FlowBody, GraphBody};
use crate::{CancelMode, Ended, Error, ExecutionId, Explanation, Flow, FlowId, FlowResult, FlowView, Nodes};
use selvedge_core::Name;
use selvedge_core::plan::GraphDraft;
use selvedge_core::rules::flows::submit::FlowDraft;
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

#[derive(Deserialize)]
struct FlowAnswer {
    flow: FlowView,
    #[serde(default)]
    executions: BTreeMap<String, ExecutionId>,
    #[serde(default)]
    duplicate: bool,
}

#[derive(Deserialize)]
struct FlowResultItem {
    outcome: Option<String>,
    flow: FlowView,
    results: BTreeMap<String, EndedItem>,
    result_refs: BTreeMap<String, ExecutionId>,
}

impl Namespace {
    /// Submits a flow atomically: either all nodes are stored or none.
    pub async fn submit_flow(&self, flow: Flow) -> Result<SubmittedFlow, Error> {
        let draft = FlowDraft::from(flow);
        let grown = match &self.connected {
            Connected::Embedded(namespace) => grown(namespace.submit_flow(draft, None).await?),
            Connected::Remote(client) => {
                let trace = draft.graph.nodes.iter().find_map(|node| node.draft.trace);
                let request = client.post(&["flows"]).json(&FlowBody::new(&draft)?);
                request.header_optional("traceparent", trace).send().await?.json::<FlowAnswer>()?.into()
            }
        };
        Ok(SubmittedFlow::new(self.clone(), grown))
    }

    /// Adds nodes and edges to a flow, and returns the executions of the nodes by name. Refused if the flow has ended.
    pub async fn grow_flow(&self, id: FlowId, nodes: Nodes) -> Result<BTreeMap<String, ExecutionId>, Error> {
        let graph = GraphDraft::from(nodes);
        match &self.connected {
            Connected::Embedded(namespace) => {
                Ok(grown(namespace.grow_flow(id, graph, None).await?).executions)
            }
            Connected::Remote(client) => {
                let request = client.post(&["flows", &id.to_string(), "nodes"]);
                let answer: FlowAnswer = request.json(&GraphBody::new(&graph)?).send().await?.json()?;
                Ok(answer.executions)
            }
        }
    }

    /// Reads the current state of a flow.
    pub async fn flow(&self, id: FlowId) -> Result<FlowView, Error> {
        match &self.connected {
            Connected::Embedded(namespace) => Ok(namespace.flow(id).await?.flow.into()),
            Connected::Remote(client) => Ok(client.get(&["flows", &id.to_string()]).send().await?.json()?),
        }
    }

    /// Waits up to `wait` for the end of a flow and returns its result. None if it has not ended by then.
    pub async fn flow_result(&self, id: FlowId, wait: Duration) -> Result<Option<FlowResult>, Error> {
        let deadline = Instant::now() + wait;
        loop {
            let began = Instant::now();
            let slice = deadline.saturating_duration_since(began).min(WAIT_SLICE);
            let ended = self.flow_result_once(id, slice).await?;
            let is_early = began.elapsed() < slice;
            if ended.is_some()
                || Instant::now() >= deadline
                || (is_early && self.engine_namespace().is_some())
            {
                return Ok(ended);
            }
        }
    }

    async fn flow_result_once(&self, id: FlowId, wait: Duration) -> Result<Option<FlowResult>, Error> {
        match &self.connected {
            Connected::Embedded(namespace) => {
                let Some(ended) = namespace.flow_result(id, wait).await? else { return Ok(None) };
                let results = ended.results.into_iter().map(|(name, ended)| (name.to_string(), ended.into()));
                Ok(Some(FlowResult {
                    state: ended.flow.state,
                    results: results.collect(),
                    left_out: by_name(ended.left_out),
                }))
            }
            Connected::Remote(client) => {
                let request = client.get(&["flows", &id.to_string(), "result"]);
                let item: FlowResultItem =
                    request.query("wait_ms", wait.as_millis()).waits(wait).send().await?.json()?;
                let ended = |(name, item): (String, EndedItem)| Some((name, item.ended()?));
                Ok(item.outcome.map(|_| FlowResult {
                    state: item.flow.state,
                    results: item.results.into_iter().filter_map(ended).collect::<BTreeMap<String, Ended>>(),
                    left_out: item.result_refs,
                }))
            }
        }
    }

    /// Cancels the executions of a flow: all that have not ended, or only those that have not started. Waits up to `wait`, at
    /// most a minute, and returns true if the cancellation is complete by then; otherwise it continues in the background.
    pub async fn cancel_flow(&self, id: FlowId, mode: CancelMode, wait: Duration) -> Result<bool, Error> {
        match &self.connected {
            Connected::Embedded(namespace) => {
                Ok(namespace.cancel_flow(id, mode, None, &actor(), wait).await?.1)
            }
            Connected::Remote(client) => {
                let wait = wait.min(Duration::from_secs(60));
                let body = json!({ "mode": mode.as_str(), "wait_ms": millis(wait) });
                let request = client.post(&["flows", &id.to_string(), "cancel"]).json(&body).waits(wait);
                Ok(request.send().await?.status == 200)
            }
        }
    }

    /// Explains why a flow has not ended, or how its outcome came about.
    pub async fn explain_flow(&self, id: FlowId) -> Result<Explanation, Error> {
        match &self.connected {
            Connected::Embedded(namespace) => Ok(namespace.explain_flow(id).await?.into()),
            Connected::Remote(client) => {
                Ok(client.get(&["flows", &id.to_string(), "explain"]).send().await?.json()?)
            }
        }
    }
}

fn by_name(executions: Vec<(Name, ExecutionId)>) -> BTreeMap<String, ExecutionId> {
    executions.into_iter().map(|(name, id)| (name.to_string(), id)).collect()
}

fn grown(grown: selvedge_engine::GrownFlow) -> GrownFlow {
    GrownFlow { id: grown.flow.id, executions: by_name(grown.executions), duplicate: grown.duplicate }
}

impl From<FlowAnswer> for GrownFlow {
    fn from(answer: FlowAnswer) -> GrownFlow {
        GrownFlow { id: answer.flow.id, executions: answer.executions, duplicate: answer.duplicate }
    }
}
