//! Facts about flows, and about the wiring of their executions.

use super::declaration::declare;
use super::events::{EventBody, next_events};
use super::{EdgeUpdate, Next};
use crate::flow::{CancelMode, FlowState};
use crate::join::{GroupDecision, JoinPolicy};
use crate::state::StateName;
use crate::{ExecutionId, Name};
use serde_json::json;

declare! {
    /// The execution was submitted as a node with upstreams.
    pub struct SubmittedWaitingDependencies {
        /// The number of upstreams.
        upstreams: u32,
    }
    publishes "execution.submitted" { "upstreams": upstreams };
    then StateName::WaitingDependencies;

    /// Upstreams ended or reopened, and its edge group remains undecided.
    pub struct UpstreamChanged { edges: Vec<EdgeUpdate>, }
    events edge_events(edges).collect();

    /// Its edge group decided.
    pub struct Joined { edges: Vec<EdgeUpdate>, policy: JoinPolicy, decision: GroupDecision, next: Next, }
    events {
        let data = json!({ "policy": policy.as_str(), "decision": decision.as_str() });
        let after = next_events(*next, "execution.delayed", json!({}));
        edge_events(edges).chain([("group.decided", data)]).chain(after).collect()
    };
    then next.state();

    /// The skipped execution waits for its upstreams again, because one of them reopened.
    pub struct Reopened { edges: Vec<EdgeUpdate>, generation: u32, }
    events edge_events(edges).chain([("execution.reopened", json!({ "generation": generation }))]).collect();
    then StateName::WaitingDependencies;

    /// An operator replayed the execution, which waits for its upstreams again.
    pub struct ReplayedWaitingDependencies { generation: u32, }
    publishes "execution.replayed" { "generation": generation };
    then StateName::WaitingDependencies;

    /// Edges or children were added to the execution.
    pub struct Wired {
        /// The number of added edges into it.
        upstreams: u32,
        /// The number of added edges from it.
        downstreams: u32,
        /// The number of added children.
        children: u32,
    }
    publishes "execution.wired" { "upstreams": upstreams, "downstreams": downstreams, "children": children };

    /// Its parent is suspended until its children have ended, and awaits the end of this one.
    pub struct EndAwaited {}
    events Vec::new();

    /// A flow was submitted.
    pub struct FlowSubmitted {
        name: Option<Name>,
        /// The number of nodes.
        nodes: u32,
        /// The number of edges.
        edges: u32,
    }
    publishes "flow.submitted" { "name": name, "nodes": nodes, "edges": edges };

    /// Nodes and edges were added to a flow.
    pub struct FlowGrown {
        /// The number of added nodes.
        nodes: u32,
        /// The number of added edges.
        edges: u32,
        /// The execution that spawned them, if one did.
        parent: Option<ExecutionId>,
    }
    publishes "flow.grown" { "nodes": nodes, "edges": edges, "parent": parent };

    pub struct FlowEnded { state: FlowState, }
    events vec![match state {
        FlowState::Running | FlowState::Completed => ("flow.completed", json!({})),
        FlowState::Failed => ("flow.failed", json!({})),
        FlowState::Cancelled => ("flow.cancelled", json!({})),
    }];

    /// An ended flow runs again.
    pub struct FlowReopened {
        /// The execution whose replay reopened the flow.
        execution: ExecutionId,
    }
    publishes "flow.reopened" { "execution": execution };

    /// An operator cancelled a flow.
    pub struct FlowCancelRequested {
        /// The members to cancel.
        mode: CancelMode,
        reason: Option<String>,
    }
    publishes "flow.cancel_requested" { "mode": mode.as_str(), "reason": reason };
}

/// Returns `edge.resolved` for each edge.
fn edge_events(edges: &[EdgeUpdate]) -> impl Iterator<Item = EventBody> {
    edges.iter().map(|EdgeUpdate { upstream, edge }| {
        let (generation, resolution) = (edge.generation, edge.resolution.as_str());
        let data = json!({ "upstream": upstream, "generation": generation, "resolution": resolution });
        ("edge.resolved", data)
    })
}
