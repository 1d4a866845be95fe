//! A part of a graph: nodes, the edges between them and to nodes that are there already, and how edges join.

use crate::{EdgeCondition, Error, FlowId, Namespace, Submission};
use selvedge_core::join::{JoinPolicy, OnSatisfied};
use selvedge_core::plan::{EdgeDraft, GraphDraft, GroupDraft, NodeDraft};
use selvedge_engine::Grown;

/// Nodes and edges that are added to a flow: by [`Nodes::grow`] or [`SubmittedFlow::grow`](crate::SubmittedFlow::grow),
/// or by a handler with [`Context::spawn`](crate::Context::spawn). Edges may come from nodes that the flow already has.
///
/// ```
/// use selvedge::{Join, Nodes, Submission};
///
/// let reviews = Nodes::new()
///     .node("ada", Submission::new("review").tag("who", "ada"))
///     .node("grace", Submission::new("review").tag("who", "grace"))
///     .node("alan", Submission::new("review").tag("who", "alan"))
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
    /// Nothing yet.
    pub fn new() -> Self {
        Nodes::default()
    }

    /// One more node, with a name that is unique in its flow. A text stands for an execution of that kind.
    pub fn node(mut self, name: impl Into<String>, submission: impl Into<Submission>) -> Self {
        self.nodes.push((name.into(), submission.into()));
        self
    }

    /// `downstream` runs when `upstream` has succeeded.
    pub fn edge(self, upstream: impl Into<String>, downstream: impl Into<String>) -> Self {
        self.edge_when(upstream, downstream, EdgeCondition::Success)
    }

    /// `downstream` runs when `upstream` has failed, for alerts and compensation; or when it has finished in any way, for
    /// clean-up.
    pub fn edge_when(
        mut self,
        upstream: impl Into<String>,
        downstream: impl Into<String>,
        when: EdgeCondition,
    ) -> Self {
        self.edges.push(EdgeDraft { from: upstream.into(), to: downstream.into(), when });
        self
    }

    /// `downstream` runs when all of these have succeeded.
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

    /// How the edges into a node join; all of them must hold where nothing is said.
    pub fn join(mut self, node: impl Into<String>, join: Join) -> Self {
        self.groups.push(GroupDraft { node: node.into(), policy: join.0 });
        self
    }

    /// What all nodes of this call have that say nothing else themselves, in whatever order they are added.
    pub fn defaults(mut self, defaults: impl FnOnce(Submission) -> Submission) -> Self {
        let usual = self.defaults.unwrap_or_else(|| Submission::new(""));
        self.defaults = Some(defaults(usual));
        self
    }

    /// Adds them to a flow that has not ended.
    pub async fn grow(self, namespace: &Namespace, flow: FlowId) -> Result<Grown, Error> {
        namespace.grow_flow(flow, self.into(), None).await
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

/// How many of the edges into a node must hold for it to run. When no more can, it is skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Join(JoinPolicy);

impl Join {
    /// Every one; the default.
    pub fn all_of() -> Self {
        Join(JoinPolicy::AllOf)
    }

    /// One. The upstreams that have not ended are then cancelled.
    pub fn any_of() -> Self {
        Join(JoinPolicy::AnyOf { on_satisfied: OnSatisfied::CancelRemaining })
    }

    /// So many of them. The upstreams that have not ended are then cancelled.
    pub fn quorum(k: u32) -> Self {
        Join(JoinPolicy::Quorum { k, on_satisfied: OnSatisfied::CancelRemaining })
    }

    /// The upstreams that have not ended run on.
    pub fn let_run(self) -> Self {
        let on_satisfied = OnSatisfied::LetRun;
        Join(match self.0 {
            JoinPolicy::AllOf => JoinPolicy::AllOf,
            JoinPolicy::AnyOf { .. } => JoinPolicy::AnyOf { on_satisfied },
            JoinPolicy::Quorum { k, .. } => JoinPolicy::Quorum { k, on_satisfied },
        })
    }
}
