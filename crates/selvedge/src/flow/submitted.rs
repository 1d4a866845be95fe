//! The handle of a submitted flow.

use super::Nodes;
use crate::{CancelMode, Ended, Error, ExecutionId, FlowId, FlowState, FlowView, Name, Namespace, Refusal};
use selvedge_core::json;
use selvedge_engine::{FlowEnded, GrownFlow};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::time::Duration;

/// The handle of a submitted flow. Every operation is also available on the [`Namespace`], given the flow's id.
#[derive(Clone)]
pub struct SubmittedFlow {
    namespace: Namespace,
    id: FlowId,
    duplicate: bool,
    executions: BTreeMap<String, ExecutionId>,
}

impl SubmittedFlow {
    pub(super) fn new(namespace: Namespace, grown: GrownFlow) -> Self {
        let executions = by_name(grown.executions).collect();
        SubmittedFlow { namespace, id: grown.flow.id, duplicate: grown.duplicate, executions }
    }

    /// Returns the id of the flow.
    pub fn id(&self) -> FlowId {
        self.id
    }

    /// Returns true if the flow already existed under the submitted id or idempotency key.
    pub fn duplicate(&self) -> bool {
        self.duplicate
    }

    /// Returns the execution of each node, by node name.
    pub fn executions(&self) -> &BTreeMap<String, ExecutionId> {
        &self.executions
    }

    /// Returns the execution of a node.
    pub fn execution(&self, node: &str) -> Option<ExecutionId> {
        self.executions.get(node).copied()
    }

    /// Reads the current state of the flow.
    pub async fn view(&self) -> Result<FlowView, Error> {
        self.namespace.flow(self.id).await
    }

    /// Adds nodes and edges. Refused if the flow has ended.
    pub async fn grow(&mut self, nodes: Nodes) -> Result<(), Error> {
        let grown = nodes.grow(&self.namespace, self.id).await?;
        self.executions.extend(by_name(grown.executions));
        Ok(())
    }

    /// Waits up to `wait`, at most a minute, for the flow to end, and returns its result. Returns none if the flow has
    /// not ended by then.
    pub async fn result(&self, wait: Duration) -> Result<Option<FlowResult>, Error> {
        Ok(self.namespace.flow_result(self.id, wait).await?.map(FlowResult::from))
    }

    /// Cancels the flow's executions: all that have not ended, or only those that have not started. Waits up to `wait`
    /// and returns true if the cancellation is complete by then; otherwise it continues in the background.
    pub async fn cancel(&self, mode: CancelMode, actor: &Name, wait: Duration) -> Result<bool, Error> {
        let (_, done) = self.namespace.cancel_flow(self.id, mode, None, actor, wait).await?;
        Ok(done)
    }
}

fn by_name(executions: Vec<(Name, ExecutionId)>) -> impl Iterator<Item = (String, ExecutionId)> {
    executions.into_iter().map(|(name, id)| (name.to_string(), id))
}

/// The result of a flow.
#[derive(Clone, Debug)]
pub struct FlowResult {
    /// The state in which the flow ended.
    pub state: FlowState,
    /// The ends of the nodes that have no downstream, by node name; at most the first hundred.
    pub results: BTreeMap<String, Ended>,
    /// The executions of the nodes among them whose results were left out, because all of them together are larger than
    /// 8 MiB. [`Namespace::result`] reads each of them.
    pub left_out: BTreeMap<String, ExecutionId>,
}

impl FlowResult {
    /// Deserialises the result of a node that has no downstream.
    pub fn of<T: DeserializeOwned>(&self, node: &str) -> Result<T, Error> {
        let pointer = format!("/results/{node}");
        let Some(ended) = self.results.get(node) else {
            let names: Vec<&str> = self.results.keys().map(String::as_str).collect();
            let detail = format!("is not among the results; there are results of {}", names.join(", "));
            return Err(Refusal::field(&pointer, detail).into());
        };
        if let Some(execution) = self.left_out.get(node) {
            let detail =
                format!("was left out because it is large; read the result of execution {execution}");
            return Err(Refusal::field(&pointer, detail).into());
        }
        let Some(result) = &ended.result else {
            let detail = format!("has no result, because the node ended as {}", ended.outcome.as_str());
            return Err(Refusal::field(&pointer, detail).into());
        };
        let mismatch = |error| Refusal::field(&pointer, format!("has an unexpected type: {error}")).into();
        json::parse(result).map_err(mismatch)
    }
}

impl From<FlowEnded> for FlowResult {
    fn from(ended: FlowEnded) -> FlowResult {
        let results = ended.results.into_iter().map(|(name, ended)| (name.to_string(), ended)).collect();
        FlowResult { state: ended.flow.state, results, left_out: by_name(ended.left_out).collect() }
    }
}
