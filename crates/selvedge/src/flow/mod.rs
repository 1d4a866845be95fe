//! Flows: graphs of executions, put together step by step.
//!
//! - [`Flow`] is a whole graph that is submitted in one call, all of it or nothing;
//! - [`Nodes`] is a part of one: what a flow grows by, or what a handler spawns;
//! - [`Join`] says how many of the edges into a node must hold;
//! - [`SubmittedFlow`] is a flow that was submitted: its ids by name, its result, its cancel.

mod nodes;
mod submitted;

pub use nodes::{Join, Nodes};
pub use submitted::{FlowResult, SubmittedFlow};

use crate::submission::millis;
use crate::{EdgeCondition, Error, Namespace, Submission};
use selvedge_core::rules::submit_flow::FlowDraft;
use std::time::Duration;
use uuid::Uuid;

/// A flow: nodes, which are executions, and edges from upstream to downstream. A node runs when its upstreams have
/// succeeded, unless its edges or its [`Join`] say otherwise, and gets their results by name. Nothing is checked before it
/// is submitted; what is wrong is then refused by name.
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
/// let result = flow.result(Duration::from_secs(10)).await?.expect("it ends");
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
    /// A flow without nodes.
    pub fn new() -> Self {
        Flow::default()
    }

    /// The first of these that succeeds wins: the others are cancelled, and the node `winner` runs, which sees what it won
    /// with by [`Context::winner`](crate::Context::winner). They are called `runner-1`, `runner-2` and so on. If none
    /// succeeds, `winner` is skipped and the flow has failed.
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
    /// # let result = race.result(Duration::from_secs(10)).await?.expect("it ends");
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

    /// A [race](Flow::race) in which the second starts `after` this long, the third after twice as long, and so on, if
    /// nobody has won by then: one more try for what takes unusually long.
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
        for (runner, earlier) in runners.into_iter().zip(0u32..) {
            let name = format!("runner-{}", u64::from(earlier) + 1);
            let delay = after.saturating_mul(earlier);
            let runner = if delay.is_zero() { runner.into() } else { runner.into().delay(delay) };
            flow = flow.node(&name, runner).edge(name, "winner");
        }
        flow
    }

    /// Its name; none.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.draft.name = Some(name.into());
        self
    }

    /// Its id, for a submission that is safe to repeat; minted where none is given.
    pub fn id(mut self, id: Uuid) -> Self {
        self.draft.id = Some(id);
        self
    }

    /// A second submission with this key is the first, for 24 hours and as long as it runs.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.draft.idempotency_key = Some(key.into());
        self
    }

    /// A name and value to find it by.
    pub fn tag(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.draft.tags.insert(name.into(), value.into());
        self
    }

    /// The longest it may live from its submission; no limit.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.draft.deadline_ms = Some(millis(deadline));
        self
    }

    /// How long it and its nodes stay after its end; as long as the longest of its nodes.
    pub fn retention(mut self, retention: Duration) -> Self {
        self.draft.retention_ms = Some(millis(retention));
        self
    }

    /// One more node. See [`Nodes::node`].
    pub fn node(self, name: impl Into<String>, submission: impl Into<Submission>) -> Self {
        self.with(|nodes| nodes.node(name, submission))
    }

    /// `downstream` runs when `upstream` has succeeded. See [`Nodes::edge`].
    pub fn edge(self, upstream: impl Into<String>, downstream: impl Into<String>) -> Self {
        self.with(|nodes| nodes.edge(upstream, downstream))
    }

    /// The same on another condition than success. See [`Nodes::edge_when`].
    pub fn edge_when(
        self,
        upstream: impl Into<String>,
        downstream: impl Into<String>,
        when: EdgeCondition,
    ) -> Self {
        self.with(|nodes| nodes.edge_when(upstream, downstream, when))
    }

    /// An edge to `downstream` from each of these. See [`Nodes::after`].
    pub fn after<U: Into<String>>(
        self,
        downstream: impl Into<String>,
        upstreams: impl IntoIterator<Item = U>,
    ) -> Self {
        self.with(|nodes| nodes.after(downstream, upstreams))
    }

    /// How the edges into a node join. See [`Nodes::join`].
    pub fn join(self, node: impl Into<String>, join: Join) -> Self {
        self.with(|nodes| nodes.join(node, join))
    }

    /// What all nodes have that say nothing else themselves. See [`Nodes::defaults`].
    pub fn defaults(self, defaults: impl FnOnce(Submission) -> Submission) -> Self {
        self.with(|nodes| nodes.defaults(defaults))
    }

    fn with(mut self, more: impl FnOnce(Nodes) -> Nodes) -> Self {
        self.nodes = more(self.nodes);
        self
    }

    /// Submits it: all of it or nothing.
    pub async fn submit(self, namespace: &Namespace) -> Result<SubmittedFlow, Error> {
        let grown = namespace.submit_flow(self.into(), None).await?;
        Ok(SubmittedFlow::new(namespace.clone(), grown))
    }
}

impl From<Flow> for FlowDraft {
    fn from(flow: Flow) -> FlowDraft {
        FlowDraft { graph: flow.nodes.into(), ..flow.draft }
    }
}
