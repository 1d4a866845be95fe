//! The handle of a submitted flow.

use super::{FlowView, Nodes};
use crate::{CancelMode, Ended, Error, ExecutionId, FlowId, FlowState, Namespace};
use selvedge_core::json;
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

/// The answer to a submission of a flow.
pub(crate) struct GrownFlow {
    pub id: FlowId,
    /// The execution of each node, by name.
    pub executions: BTreeMap<String, ExecutionId>,
    /// True if the flow existed before.
    pub duplicate: bool,
}

impl SubmittedFlow {
    pub(crate) fn new(namespace: Namespace, grown: GrownFlow) -> Self {
        let GrownFlow { id, executions, duplicate } = grown;
        SubmittedFlow { namespace, id, duplicate, executions }
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
        self.executions.extend(self.namespace.grow_flow(self.id, nodes).await?);
        Ok(())
    }

    /// Waits up to `wait` for the flow to end, and returns its result. Returns none if the flow has not ended by then.
    pub async fn result(&self, wait: Duration) -> Result<Option<FlowResult>, Error> {
        self.namespace.flow_result(self.id, wait).await
    }

    /// Cancels the flow's executions. See [`Namespace::cancel_flow`].
    pub async fn cancel(&self, mode: CancelMode, wait: Duration) -> Result<bool, Error> {
        self.namespace.cancel_flow(self.id, mode, wait).await
    }
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
        let refused = |detail: String| Err(Error::field(&format!("/results/{node}"), detail));
        let Some(ended) = self.results.get(node) else {
            let names: Vec<&str> = self.results.keys().map(String::as_str).collect();
            return refused(format!("is not among the results; there are results of {}", names.join(", ")));
        };
        if let Some(execution) = self.left_out.get(node) {
            return refused(format!(
                "was left out because it is large; read the result of execution {execution}"
            ));
        }
        let Some(result) = &ended.result else {
            return refused(format!("has no result, because the node ended as {}", ended.outcome.as_str()));
        };
        json::parse(result).or_else(|error| refused(format!("has an unexpected type: {error}")))
    }
}
