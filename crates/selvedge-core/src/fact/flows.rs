//! Facts about flows, and about the wiring of their executions.

use super::events::{EventBody, next_events};
use super::{EdgeUpdate, Next, Recorded};
use crate::flow::{CancelMode, FlowState};
use crate::join::{GroupDecision, JoinPolicy};
use crate::state::StateName;
use crate::{ExecutionId, Name};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The execution was submitted as a node with upstreams.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SubmittedWaitingDependencies {
    /// The number of upstreams.
    pub upstreams: u32,
}

impl Recorded for SubmittedWaitingDependencies {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { upstreams } = self;
        vec![("execution.submitted", json!({ "upstreams": upstreams }))]
    }

    fn state_after(&self) -> Option<StateName> {
        Some(StateName::WaitingDependencies)
    }
}

/// Upstreams ended or reopened, and its edge group remains undecided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UpstreamChanged {
    pub edges: Vec<EdgeUpdate>,
}

impl Recorded for UpstreamChanged {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { edges } = self;
        edge_events(edges)
    }
}

/// Its edge group decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Joined {
    pub edges: Vec<EdgeUpdate>,
    /// The group's policy.
    pub policy: JoinPolicy,
    pub decision: GroupDecision,
    /// The state that follows.
    pub next: Next,
}

impl Recorded for Joined {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { edges, policy, decision, next } = self;
        let mut events = edge_events(edges);
        let data = json!({ "policy": policy.as_str(), "decision": decision.as_str() });
        events.push(("group.decided", data));
        events.extend(next_events(*next, "execution.delayed", json!({})));
        events
    }

    fn state_after(&self) -> Option<StateName> {
        Some(self.next.state())
    }
}

/// The skipped execution waits for its upstreams again, because one of them reopened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reopened {
    pub edges: Vec<EdgeUpdate>,
    pub generation: u32,
}

impl Recorded for Reopened {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { edges, generation } = self;
        let mut events = edge_events(edges);
        events.push(("execution.reopened", json!({ "generation": generation })));
        events
    }

    fn state_after(&self) -> Option<StateName> {
        Some(StateName::WaitingDependencies)
    }
}

/// An operator replayed the execution, which waits for its upstreams again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReplayedWaitingDependencies {
    pub generation: u32,
}

impl Recorded for ReplayedWaitingDependencies {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { generation } = self;
        vec![("execution.replayed", json!({ "generation": generation }))]
    }

    fn state_after(&self) -> Option<StateName> {
        Some(StateName::WaitingDependencies)
    }
}

/// Edges or children were added to the execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Wired {
    /// The number of added edges into it.
    pub upstreams: u32,
    /// The number of added edges from it.
    pub downstreams: u32,
    /// The number of added children.
    pub children: u32,
}

impl Recorded for Wired {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { upstreams, downstreams, children } = self;
        let data = json!({ "upstreams": upstreams, "downstreams": downstreams, "children": children });
        vec![("execution.wired", data)]
    }
}

/// Its parent is suspended until its children have ended, and awaits the end of this one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndAwaited;

impl Recorded for EndAwaited {
    fn public_events(&self) -> Vec<EventBody> {
        Vec::new()
    }
}

/// A flow was submitted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowSubmitted {
    /// The flow's name.
    pub name: Option<Name>,
    /// The number of nodes.
    pub nodes: u32,
    /// The number of edges.
    pub edges: u32,
}

impl Recorded for FlowSubmitted {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { name, nodes, edges } = self;
        vec![("flow.submitted", json!({ "name": name, "nodes": nodes, "edges": edges }))]
    }
}

/// Nodes and edges were added to a flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowGrown {
    /// The number of added nodes.
    pub nodes: u32,
    /// The number of added edges.
    pub edges: u32,
    /// The execution that spawned them, if one did.
    pub parent: Option<ExecutionId>,
}

impl Recorded for FlowGrown {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { nodes, edges, parent } = self;
        vec![("flow.grown", json!({ "nodes": nodes, "edges": edges, "parent": parent }))]
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowEnded {
    /// The flow's final state.
    pub state: FlowState,
}

impl Recorded for FlowEnded {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { state } = self;
        vec![match state {
            FlowState::Running | FlowState::Completed => ("flow.completed", json!({})),
            FlowState::Failed => ("flow.failed", json!({})),
            FlowState::Cancelled => ("flow.cancelled", json!({})),
        }]
    }
}

/// An ended flow runs again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowReopened {
    /// The replayed execution.
    pub execution: ExecutionId,
}

impl Recorded for FlowReopened {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { execution } = self;
        vec![("flow.reopened", json!({ "execution": execution }))]
    }
}

/// An operator cancelled a flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowCancelRequested {
    /// The members to cancel.
    pub mode: CancelMode,
    /// The operator's reason.
    pub reason: Option<String>,
}

impl Recorded for FlowCancelRequested {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { mode, reason } = self;
        vec![("flow.cancel_requested", json!({ "mode": mode.as_str(), "reason": reason }))]
    }
}

/// Returns `edge.resolved` for each edge.
fn edge_events(edges: &[EdgeUpdate]) -> Vec<EventBody> {
    let event = |update: &EdgeUpdate| {
        let data = json!({
            "upstream": update.upstream, "generation": update.edge.generation,
            "resolution": update.edge.resolution.as_str(),
        });
        ("edge.resolved", data)
    };
    edges.iter().map(event).collect()
}
