//! A part of a graph: nodes, their edges (also from nodes that the flow already has), and join policies.

use crate::{EdgeCondition, Error, ExecutionId, FlowId, Namespace, Submission};
use selvedge_core::join::{JoinPolicy, OnSatisfied};
use selvedge_core::plan::{EdgeDraft, GraphDraft, GroupDraft, NodeDraft};
use std::collections::BTreeMap;

/// Builds nodes and edges to add to a flow: with [`Nodes::grow`] or
/// [`SubmittedFlow::grow`](crate::SubmittedFlow::grow), or in a handler with [`Context::spawn`](crate::Context::spawn).
/// An edge may start at a node that the flow already has.
///
/// ```
/// use selvedge::{Join, Nodes, Submission};
///
/// let reviews = Nodes::new()
///     .node("ada", Submission::new("review").tag("reviewer", "ada"))
///     .node("grace", Submission::new("review").tag("reviewer", "grace"))
///     .node("alan", Submission::new("review").tag("reviewer", "alan"))
///     .node("merge", "merge")
///     .after("merge", ["ada", "grace", "alan"])
///     .join("merge", Join::quorum(2).let_run());
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Nodes {
    nodes: Vec<(String, Submission)>,
    edges: Vec<EdgeDraft>,
    groups: Vec<GroupDraft>,
    defaults: Option<Submission>,
}

impl Nodes {
    /// Creates an empty set of nodes.
    pub fn new() -> Self {
        Nodes::default()
    }

    /// Adds a node. Its name must be unique in the flow. A string in place of the submission is a kind with default
    /// settings.
    pub fn node(mut self, name: impl Into<String>, submission: impl Into<Submission>) -> Self {
        self.nodes.push((name.into(), submission.into()));
        self
    }

    /// Adds an edge: `downstream` runs when `upstream` has completed.
    pub fn edge(self, upstream: impl Into<String>, downstream: impl Into<String>) -> Self {
        self.edge_when(upstream, downstream, EdgeCondition::Success)
    }

    /// Adds an edge with a condition. `Success`: `upstream` has completed. `Failure`: `upstream` has failed, expired or
    /// been cancelled; for alerts and compensation. `Finished`: `upstream` has ended in any way; for clean-up.
    pub fn edge_when(
        mut self,
        upstream: impl Into<String>,
        downstream: impl Into<String>,
        when: EdgeCondition,
    ) -> Self {
        self.edges.push(EdgeDraft { from: upstream.into(), to: downstream.into(), when });
        self
    }

    /// Adds an edge to `downstream` from each of these upstreams: `downstream` runs when all of them have completed.
    pub fn after<U: Into<String>>(
        mut self,
        downstream: impl Into<String>,
        upstreams: impl IntoIterator<Item = U>,
    ) -> Self {
        let downstream = downstream.into();
        for upstream in upstreams {
            self = self.edge(upstream, &downstream);
        }
        self
    }

    /// Sets how the edges into a node join. Default: [`Join::all_of`].
    pub fn join(mut self, node: impl Into<String>, join: Join) -> Self {
        self.groups.push(GroupDraft { node: node.into(), policy: join.0 });
        self
    }

    /// Sets default settings for all of these nodes, including nodes added later. A setting of a node's own submission
    /// replaces the default. Default: the defaults of [`Submission`].
    pub fn defaults(mut self, defaults: impl FnOnce(Submission) -> Submission) -> Self {
        let earlier = self.defaults.unwrap_or_else(|| Submission::new(""));
        self.defaults = Some(defaults(earlier));
        self
    }

    /// Adds the nodes and edges to a flow. Refused if the flow has ended.
    pub async fn grow(
        self,
        namespace: &Namespace,
        flow: FlowId,
    ) -> Result<BTreeMap<String, ExecutionId>, Error> {
        namespace.grow_flow(flow, self).await
    }
}

impl From<Nodes> for GraphDraft {
    fn from(nodes: Nodes) -> GraphDraft {
        let defaults = nodes.defaults;
        let node = |(name, submission): (String, Submission)| {
            let submission = match &defaults {
                Some(defaults) => submission.with_defaults(defaults),
                None => submission,
            };
            NodeDraft { name, draft: submission.into() }
        };
        GraphDraft {
            nodes: nodes.nodes.into_iter().map(node).collect(),
            edges: nodes.edges,
            groups: nodes.groups,
        }
    }
}

/// A join policy: how many of the edges into a node must be satisfied for the node to run. The node is skipped when
/// that many can no longer be satisfied.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Join(JoinPolicy);

impl Join {
    /// Requires every edge. This is the default.
    pub fn all_of() -> Self {
        Join(JoinPolicy::AllOf)
    }

    /// Requires one edge. The remaining upstreams are then cancelled, unless [`let_run`](Join::let_run) is set.
    pub fn any_of() -> Self {
        Join(JoinPolicy::AnyOf { on_satisfied: OnSatisfied::CancelRemaining })
    }

    /// Requires `k` edges. The remaining upstreams are then cancelled, unless [`let_run`](Join::let_run) is set.
    pub fn quorum(k: u32) -> Self {
        Join(JoinPolicy::Quorum { k, on_satisfied: OnSatisfied::CancelRemaining })
    }

    /// Lets the remaining upstreams run when the join is satisfied, instead of cancelling them. Default: cancel.
    pub fn let_run(self) -> Self {
        let on_satisfied = OnSatisfied::LetRun;
        Join(match self.0 {
            JoinPolicy::AllOf => JoinPolicy::AllOf,
            JoinPolicy::AnyOf { .. } => JoinPolicy::AnyOf { on_satisfied },
            JoinPolicy::Quorum { k, .. } => JoinPolicy::Quorum { k, on_satisfied },
        })
    }
}
