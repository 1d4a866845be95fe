//! Flows: graphs of executions.
//!
//! - [`Flow`] builds a whole graph, which is submitted atomically in one call;
//! - [`Nodes`] builds a part of a graph, to grow a flow or to be spawned by a handler;
//! - [`Join`] sets how many of the edges into a node must be satisfied;
//! - [`SubmittedFlow`] is the handle of a submitted flow: execution ids by node name, result, growth, cancellation.

mod nodes;
mod submitted;
mod view;

pub use nodes::{Join, Nodes};
pub(crate) use submitted::GrownFlow;
pub use submitted::{FlowResult, SubmittedFlow};
pub use view::FlowView;

use crate::submission::millis;
use crate::{EdgeCondition, Error, Namespace, Submission};
use selvedge_core::rules::flows::submit::FlowDraft;
use std::time::Duration;
use uuid::Uuid;

/// Builds a flow: nodes, which are executions, and edges from upstream to downstream. A node runs when all of its
/// upstreams have completed, unless its edge conditions or its [`Join`] say otherwise, and reads their results by name.
/// Nothing is validated before [`submit`](Flow::submit), which refuses an invalid field and names it.
///
/// ```
/// use selvedge::{EdgeCondition, Context, Engine, Failure, Flow, FlowState, Worker};
/// use std::time::Duration;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), selvedge::Error> {
/// # let engine = Engine::open("memory:").await?;
/// # let namespace = engine.namespace("default").await?;
/// let worker = Worker::new(namespace.clone(), "nightly")
///     .handler("extract", |_: Context| async { Ok::<_, Failure>(vec![1, 2, 3]) })
///     .handler("check", |ctx: Context| async move {
///         let rows: Vec<u32> = ctx.upstream("extract")?;
///         Ok::<_, Failure>(rows.len() == 3)
///     })
///     .handler("load", |ctx: Context| async move {
///         let rows: Vec<u32> = ctx.upstream("extract")?;
///         Ok::<_, Failure>(rows.into_iter().sum::<u32>())
///     })
///     .handler("alert", |ctx: Context| async move { Ok::<_, Failure>(ctx.upstreams().len()) })
///     .start()?;
///
/// let flow = Flow::new()
///     .name("nightly")
///     .node("extract", "extract")
///     .node("check", "check")
///     .node("load", "load")
///     .node("alert", "alert")
///     .edge("extract", "check")
///     .after("load", ["extract", "check"])
///     .edge_when("check", "alert", EdgeCondition::Failure)
///     .defaults(|submission| submission.max_retries(1))
///     .submit(&namespace)
///     .await?;
///
/// let result = flow.result(Duration::from_secs(10)).await?.expect("the flow ends");
/// assert_eq!(result.state, FlowState::Completed);
/// assert_eq!(result.of::<u32>("load")?, 6);
/// # worker.drain().await;
/// # engine.shutdown().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Flow {
    draft: FlowDraft,
    nodes: Nodes,
}

impl Flow {
    /// Creates a flow without nodes.
    pub fn new() -> Self {
        Flow::default()
    }

    /// Creates a flow that runs several executions, its nodes `runner-1`, `runner-2` and so on, and takes the first
    /// result. When one runner completes, the others are cancelled and the node `winner` runs, which reads that result
    /// with [`Context::winner`](crate::Context::winner). If no runner completes, `winner` is skipped and the flow
    /// fails.
    ///
    /// ```
    /// use selvedge::{Context, Engine, Failure, Flow, Submission, Worker};
    /// # use std::time::Duration;
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), selvedge::Error> {
    /// # let engine = Engine::open("memory:").await?;
    /// # let namespace = engine.namespace("default").await?;
    /// # let worker = Worker::new(namespace.clone(), "racer")
    /// #     .handler("fetch", |ctx: Context| async move {
    /// #         let mirror: String = ctx.input()?;
    /// #         if mirror != "near" { ctx.cancelled().await; std::future::pending::<()>().await; }
    /// #         Ok::<_, Failure>(format!("from {mirror}"))
    /// #     })
    /// #     .handler("publish", |ctx: Context| async move { ctx.winner::<String>() })
    /// #     .start()?;
    /// let mirrors = [Submission::new("fetch").input("far")?, Submission::new("fetch").input("near")?];
    /// let race = Flow::race("publish", mirrors).submit(&namespace).await?;
    /// # let result = race.result(Duration::from_secs(10)).await?.expect("the flow ends");
    /// # assert_eq!(result.of::<String>("winner")?, "from near");
    /// # worker.drain().await;
    /// # engine.shutdown().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn race<S: Into<Submission>>(
        winner: impl Into<Submission>,
        runners: impl IntoIterator<Item = S>,
    ) -> Self {
        Flow::hedge(winner, Duration::ZERO, runners)
    }

    /// Creates a [race](Flow::race) with staggered starts: the first runner starts at once, the second `after` this
    /// long, the third after twice as long, and so on, unless a runner has completed by then. Use it to retry a call
    /// that takes unusually long.
    ///
    /// ```
    /// use selvedge::{Flow, Submission};
    /// use std::time::Duration;
    ///
    /// let query = || Submission::new("query").max_retries(0);
    /// let hedge = Flow::hedge("answer", Duration::from_millis(200), [query(), query(), query()]);
    /// ```
    pub fn hedge<S: Into<Submission>>(
        winner: impl Into<Submission>,
        after: Duration,
        runners: impl IntoIterator<Item = S>,
    ) -> Self {
        let mut flow = Flow::new().node("winner", winner).join("winner", Join::any_of());
        for (runner, index) in runners.into_iter().zip(0u32..) {
            let name = format!("runner-{}", u64::from(index) + 1);
            let delay = after.saturating_mul(index);
            let runner = if delay.is_zero() { runner.into() } else { runner.into().delay(delay) };
            flow = flow.node(&name, runner).edge(name, "winner");
        }
        flow
    }

    /// Sets the name of the flow. Default: none.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.draft.name = Some(name.into());
        self
    }

    /// Sets the id of the flow, so that the submission is safe to repeat. Default: a new id.
    pub fn id(mut self, id: Uuid) -> Self {
        self.draft.id = Some(id);
        self
    }

    /// Sets the idempotency key. Default: none. Submitting again with this key returns the existing flow for 24 hours,
    /// and in any case until the flow ends.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.draft.idempotency_key = Some(key.into());
        self
    }

    /// Adds a tag by which the flow can be found. Default: none.
    pub fn tag(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.draft.tags.insert(name.into(), value.into());
        self
    }

    /// Sets the longest time from the submission to the end of the flow. Default: no limit.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.draft.deadline_ms = Some(millis(deadline));
        self
    }

    /// Sets how long the flow and its nodes are kept after its end. Default: the longest retention of its nodes.
    pub fn retention(mut self, retention: Duration) -> Self {
        self.draft.retention_ms = Some(millis(retention));
        self
    }

    /// Adds a node. See [`Nodes::node`].
    pub fn node(self, name: impl Into<String>, submission: impl Into<Submission>) -> Self {
        self.with(|nodes| nodes.node(name, submission))
    }

    /// Adds an edge: `downstream` runs when `upstream` has completed. See [`Nodes::edge`].
    pub fn edge(self, upstream: impl Into<String>, downstream: impl Into<String>) -> Self {
        self.with(|nodes| nodes.edge(upstream, downstream))
    }

    /// Adds an edge with a condition. See [`Nodes::edge_when`].
    pub fn edge_when(
        self,
        upstream: impl Into<String>,
        downstream: impl Into<String>,
        when: EdgeCondition,
    ) -> Self {
        self.with(|nodes| nodes.edge_when(upstream, downstream, when))
    }

    /// Adds an edge to `downstream` from each of these upstreams. See [`Nodes::after`].
    pub fn after<U: Into<String>>(
        self,
        downstream: impl Into<String>,
        upstreams: impl IntoIterator<Item = U>,
    ) -> Self {
        self.with(|nodes| nodes.after(downstream, upstreams))
    }

    /// Sets how the edges into a node join. See [`Nodes::join`].
    pub fn join(self, node: impl Into<String>, join: Join) -> Self {
        self.with(|nodes| nodes.join(node, join))
    }

    /// Sets default settings for all nodes. See [`Nodes::defaults`].
    pub fn defaults(self, defaults: impl FnOnce(Submission) -> Submission) -> Self {
        self.with(|nodes| nodes.defaults(defaults))
    }

    fn with(mut self, change: impl FnOnce(Nodes) -> Nodes) -> Self {
        self.nodes = change(self.nodes);
        self
    }

    /// Submits the flow atomically: either all nodes are stored or none.
    pub async fn submit(self, namespace: &Namespace) -> Result<SubmittedFlow, Error> {
        namespace.submit_flow(self).await
    }
}

impl From<Flow> for FlowDraft {
    fn from(flow: Flow) -> FlowDraft {
        FlowDraft { graph: flow.nodes.into(), ..flow.draft }
    }
}
