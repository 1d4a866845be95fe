//! A flow that was submitted: what its nodes are, how it ends, and how it is changed while it runs.

use super::Nodes;
use crate::{CancelMode, Ended, Error, ExecutionId, FlowId, FlowState, FlowView, Name, Namespace, Refusal};
use selvedge_engine::{FlowEnded, Grown};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::time::Duration;

/// A flow that was submitted. What it can do goes for any flow through the [`Namespace`] and the flow's id as well.
#[derive(Clone)]
pub struct SubmittedFlow {
    namespace: Namespace,
    id: FlowId,
    duplicate: bool,
    executions: BTreeMap<String, ExecutionId>,
}

impl SubmittedFlow {
    pub(super) fn new(namespace: Namespace, grown: Grown) -> Self {
        let executions = by_name(grown.executions).collect();
        SubmittedFlow { namespace, id: grown.flow.id, duplicate: grown.duplicate, executions }
    }

    /// Its id.
    pub fn id(&self) -> FlowId {
        self.id
    }

    /// Whether it was there before: its id or its idempotency key stands for it.
    pub fn duplicate(&self) -> bool {
        self.duplicate
    }

    /// The executions of its nodes by name.
    pub fn executions(&self) -> &BTreeMap<String, ExecutionId> {
        &self.executions
    }

    /// The execution of a node.
    pub fn execution(&self, node: &str) -> Option<ExecutionId> {
        self.executions.get(node).copied()
    }

    /// How it stands now.
    pub async fn view(&self) -> Result<FlowView, Error> {
        self.namespace.flow(self.id).await
    }

    /// Adds nodes and edges. Refused when it has ended.
    pub async fn grow(&mut self, nodes: Nodes) -> Result<(), Error> {
        let grown = nodes.grow(&self.namespace, self.id).await?;
        self.executions.extend(by_name(grown.executions));
        Ok(())
    }

    /// How it ended; waits for it up to a minute, and gives none if it is still going.
    pub async fn result(&self, wait: Duration) -> Result<Option<FlowResult>, Error> {
        Ok(self.namespace.flow_result(self.id, wait).await?.map(FlowResult::from))
    }

    /// Cancels it: everything that has not ended, or only what has not started. Waits, and says whether it is done; what is
    /// left is done without anybody waiting.
    pub async fn cancel(&self, mode: CancelMode, actor: &Name, wait: Duration) -> Result<bool, Error> {
        let (_, done) = self.namespace.cancel_flow(self.id, mode, None, actor, wait).await?;
        Ok(done)
    }
}

fn by_name(executions: Vec<(Name, ExecutionId)>) -> impl Iterator<Item = (String, ExecutionId)> {
    executions.into_iter().map(|(name, id)| (name.to_string(), id))
}

/// How a flow ended.
#[derive(Clone, Debug)]
pub struct FlowResult {
    /// Its state.
    pub state: FlowState,
    /// How the nodes ended that nobody waits for, by name, the first hundred.
    pub results: BTreeMap<String, Ended>,
}

impl FlowResult {
    /// The result of a node that nobody waits for, as a value.
    pub fn of<T: DeserializeOwned>(&self, node: &str) -> Result<T, Error> {
        let pointer = format!("/results/{node}");
        let Some(ended) = self.results.get(node) else {
            let names: Vec<&str> = self.results.keys().map(String::as_str).collect();
            let detail = format!("is not among the results, which are of {}", names.join(", "));
            return Err(Refusal::field(&pointer, detail).into());
        };
        let Some(result) = &ended.result else {
            let detail = format!("has no result: it ended as {}", ended.outcome.as_str());
            return Err(Refusal::field(&pointer, detail).into());
        };
        let wrong = |error| Refusal::field(&pointer, format!("is not of the expected shape: {error}")).into();
        serde_json::from_slice(result).map_err(wrong)
    }
}

impl From<FlowEnded> for FlowResult {
    fn from(ended: FlowEnded) -> FlowResult {
        let results = ended.results.into_iter().map(|(name, ended)| (name.to_string(), ended)).collect();
        FlowResult { state: ended.flow.state, results }
    }
}
