//! The argument of a handler: its attempt, its input, the results of its upstreams and children, its stream, and its
//! cancellation. The durable operations are in `steps`.

use super::cancellation::CancellationToken;
use super::link::Link;
use super::protocol::{Claim, Op, Reported};
use super::report::RetryDelay;
use super::steps::{BranchScope, StepTracker};
use crate::worker::Failure;
use crate::{
    Amount, Error, ExecutionId, FlowId, FrameKind, FrameMode, Namespace, Nodes, Outcome, Relative, Timestamp,
    TraceParent,
};
use bytes::Bytes;
use selvedge_core::name::{KEY_LIMIT, NAME_LIMIT};
use selvedge_core::{Name, json};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

/// Time for which appending a frame is retried while the store is unavailable.
const APPEND_RETRY_LIMIT: Duration = Duration::from_secs(30);

/// The attempt that a handler runs. Cheap to clone; all clones refer to the same attempt.
#[derive(Clone)]
pub struct Context {
    attempt: Arc<Attempt>,
    cancel: CancellationToken,
    scope: BranchScope,
}

struct Attempt {
    namespace: Namespace,
    link: Link,
    claim: Claim,
    tracker: Arc<StepTracker>,
}

impl Context {
    pub(super) fn new(
        namespace: Namespace,
        link: Link,
        mut claim: Claim,
        cancel: watch::Receiver<bool>,
    ) -> Self {
        let tracker = StepTracker::new(std::mem::take(&mut claim.steps));
        let attempt = Arc::new(Attempt { namespace, link, claim, tracker });
        Context { attempt, cancel: CancellationToken::new(cancel), scope: BranchScope::default() }
    }

    /// Returns the state of this attempt's steps.
    pub(super) fn tracker(&self) -> &Arc<StepTracker> {
        &self.attempt.tracker
    }

    /// Returns the branch of the handler to which this context belongs.
    pub(super) fn scope(&self) -> &BranchScope {
        &self.scope
    }

    /// Returns a context of the same attempt in another branch of the handler.
    pub(super) fn within(&self, scope: BranchScope) -> Context {
        Context { scope, ..self.clone() }
    }

    /// Returns the time at which this generation of the execution began.
    pub(super) fn opened_at(&self) -> Timestamp {
        self.attempt.claim.opened_at
    }

    /// Returns the link to the engine.
    pub(super) fn link(&self) -> &Link {
        &self.attempt.link
    }

    /// Returns the id of the execution.
    pub fn execution(&self) -> ExecutionId {
        self.attempt.claim.fence.execution
    }

    /// Returns the number of this attempt, starting at 0. Every claim of the execution increments it.
    pub fn attempt(&self) -> u32 {
        self.attempt.claim.fence.attempt
    }

    /// Returns how many times the execution has been replayed.
    pub fn generation(&self) -> u32 {
        self.attempt.claim.generation
    }

    /// Returns the kind of the execution.
    pub fn kind(&self) -> &str {
        &self.attempt.claim.kind
    }

    /// Returns the lane of the execution.
    pub fn lane(&self) -> &str {
        &self.attempt.claim.lane
    }

    /// Returns the tags of the execution.
    pub fn tags(&self) -> &BTreeMap<String, String> {
        &self.attempt.claim.tags
    }

    /// Returns the parent of the spans of this handler: the span of the attempt if the engine publishes spans, else the span
    /// that submitted the execution, if there is one. Its text is a `traceparent` header.
    pub fn trace(&self) -> Option<TraceParent> {
        self.attempt.claim.trace
    }

    /// Returns an idempotency key for calls to other services: the id of the execution. It is the same in every attempt,
    /// also after a replay, so an effect whose record was lost is recognised by the other service and not repeated. A
    /// handler that makes several calls to one service needs a key for each: [`step_key`](Context::step_key).
    pub fn idempotency_key(&self) -> String {
        self.execution().to_string()
    }

    /// Returns an idempotency key for the effect of the step of this name in this branch. It is the same in every attempt,
    /// also after a replay, and no other step of any execution has it.
    ///
    /// ```
    /// # use selvedge::{Context, Failure};
    /// # async fn charge(_cents: u64, _key: String) -> Result<String, Failure> { Ok("receipt".into()) }
    /// # async fn book(_carrier: &str, _key: String) -> Result<String, Failure> { Ok("parcel".into()) }
    /// async fn order(ctx: Context) -> Result<String, Failure> {
    ///     ctx.step("charge", || charge(990, ctx.step_key("charge"))).await?;
    ///     ctx.step("book", || book("express", ctx.step_key("book"))).await
    /// }
    /// ```
    pub fn step_key(&self, name: &str) -> String {
        format!("{}/{}", self.execution(), self.scope.name(name))
    }

    /// Returns the input, as the JSON text that was submitted.
    pub fn input_json(&self) -> &Bytes {
        &self.attempt.claim.input
    }

    /// Deserialises the input. Input of another type is a permanent failure.
    pub fn input<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        json::parse(self.input_json()).map_err(|error| {
            Failure::permanent(format!("the input is not what {} expects: {error}", self.kind()))
        })
    }

    /// Returns the flow of the execution. An execution that was submitted alone is a flow of its own.
    pub fn flow(&self) -> FlowId {
        self.attempt.claim.flow
    }

    /// Returns the name of the execution's node, or none if the execution was submitted alone.
    pub fn node(&self) -> Option<&str> {
        self.attempt.claim.node.as_deref()
    }

    /// Returns the upstreams in the order of their edges, each with its outcome and its error or JSON result. An
    /// upstream that the join did not need may not have ended. Errors and results beyond 4 MiB together are
    /// [left out](Relative::left_out); [`fetch_upstream`](Context::fetch_upstream) reads them one by one.
    pub fn upstreams(&self) -> &[Relative] {
        &self.attempt.claim.upstreams
    }

    /// Deserialises the result of an upstream. A missing result, one of another type, or one that was
    /// [left out](Relative::left_out) is a permanent failure.
    pub fn upstream<T: DeserializeOwned>(&self, name: &str) -> Result<T, Failure> {
        self.read_result("upstream", self.relative("upstream", self.upstreams(), name)?)
    }

    /// Deserialises the result of an upstream like [`upstream`](Context::upstream). A result that was
    /// [left out](Relative::left_out) is read from the store.
    ///
    /// ```
    /// use selvedge::{Context, Failure};
    ///
    /// async fn total(ctx: Context) -> Result<usize, Failure> {
    ///     let mut bytes = 0;
    ///     for upstream in ctx.upstreams() {
    ///         bytes += ctx.fetch_upstream::<String>(&upstream.name).await?.len();
    ///     }
    ///     Ok(bytes)
    /// }
    /// ```
    pub async fn fetch_upstream<T: DeserializeOwned>(&self, name: &str) -> Result<T, Failure> {
        let found = self.relative("upstream", self.upstreams(), name)?;
        self.read_result("upstream", &self.whole(found).await?)
    }

    /// Returns the outcome of an upstream, or none if the upstream has not ended or does not exist.
    pub fn upstream_outcome(&self, name: &str) -> Option<Outcome> {
        self.upstreams().iter().find(|upstream| upstream.name.as_str() == name)?.outcome
    }

    /// Deserialises the result of the first upstream, in the order of edges, that has completed: the winner of a
    /// [race](crate::Flow::race). It is a permanent failure if none has.
    pub fn winner<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        let winner = self.upstreams().iter().find(|upstream| upstream.outcome == Some(Outcome::Completed));
        match winner {
            Some(winner) => self.read_result("upstream", winner),
            None => Err(Failure::permanent("no upstream has completed")),
        }
    }

    /// Returns the children that earlier attempts spawned, in the order of their spawning. The fields are those of
    /// [`upstreams`](Context::upstreams).
    pub fn children(&self) -> &[Relative] {
        &self.attempt.claim.children
    }

    /// Deserialises the result of a child. A missing result, one of another type, or one that was
    /// [left out](Relative::left_out) is a permanent failure.
    pub fn child<T: DeserializeOwned>(&self, name: &str) -> Result<T, Failure> {
        self.read_result("child", self.relative("child", self.children(), name)?)
    }

    /// Deserialises the result of a child like [`child`](Context::child). A result that was
    /// [left out](Relative::left_out) is read from the store.
    pub async fn fetch_child<T: DeserializeOwned>(&self, name: &str) -> Result<T, Failure> {
        let found = self.relative("child", self.children(), name)?;
        self.read_result("child", &self.whole(found).await?)
    }

    fn relative<'a>(
        &self,
        role: &str,
        relatives: &'a [Relative],
        name: &str,
    ) -> Result<&'a Relative, Failure> {
        let found = relatives.iter().find(|relative| relative.name.as_str() == name);
        found.ok_or_else(|| Failure::permanent(format!("{} has no {role} {name:?}", self.kind())))
    }

    /// Returns a relative with its error and its result, which are read if they were left out. A failed read is a
    /// transient failure.
    async fn whole(&self, relative: &Relative) -> Result<Relative, Failure> {
        if !relative.left_out {
            return Ok(relative.clone());
        }
        let ended = self.attempt.namespace.result(relative.execution, Duration::ZERO).await?;
        let (outcome, error, result) =
            ended.map_or((None, None, None), |ended| (Some(ended.outcome), ended.error, ended.result));
        Ok(Relative { outcome, error, result, left_out: false, ..relative.clone() })
    }

    fn read_result<T: DeserializeOwned>(&self, role: &str, relative: &Relative) -> Result<T, Failure> {
        let name = &relative.name;
        if relative.left_out {
            let detail = format!("the result of {role} {name:?} was left out of the claim; use fetch_{role}");
            return Err(Failure::permanent(detail));
        }
        let Some(result) = &relative.result else {
            let end = relative
                .outcome
                .map_or("has not ended".into(), |outcome| format!("ended as {}", outcome.as_str()));
            return Err(Failure::permanent(format!("the {role} {name:?} has no result: it {end}")));
        };
        json::parse(result).map_err(|error| {
            let kind = self.kind();
            Failure::permanent(format!("the result of {role} {name:?} is not what {kind} expects: {error}"))
        })
    }

    /// Adds children to the flow of this execution. They are cancelled if this execution ends without completing.
    /// Spawning the same names again, for example in the next attempt, changes nothing. Refused if the lease is no
    /// longer held.
    ///
    /// ```
    /// use selvedge::{Context, Failure, Nodes, Submission};
    ///
    /// async fn split(ctx: Context) -> Result<usize, Failure> {
    ///     let pages: Vec<String> = ctx.input()?;
    ///     let mut nodes = Nodes::new();
    ///     for (number, page) in pages.iter().enumerate() {
    ///         nodes = nodes.node(format!("page-{number}"), Submission::new("render").input(page)?);
    ///     }
    ///     ctx.spawn(nodes).await?;
    ///     Ok(pages.len())
    /// }
    /// ```
    pub async fn spawn(&self, children: Nodes) -> Result<(), Error> {
        self.report(Op::Spawn { graph: Box::new(children.into()), detach: false }).await
    }

    /// Adds children to the flow of this execution that keep running however this execution ends. Otherwise like
    /// [`spawn`](Context::spawn).
    pub async fn spawn_detached(&self, children: Nodes) -> Result<(), Error> {
        self.report(Op::Spawn { graph: Box::new(children.into()), detach: true }).await
    }

    /// Returns the namespace, for operations on other executions.
    pub fn namespace(&self) -> &Namespace {
        &self.attempt.namespace
    }

    /// Reports progress: a percentage from 0 to 100, and a message. Refused if the lease is no longer held.
    pub async fn progress(&self, percent: f64, message: impl Into<String>) -> Result<(), Error> {
        self.report(Op::Progress { percent, message: message.into() }).await
    }

    /// Appends a frame to the stream of this attempt: output, or an event such as a token of a language model. The
    /// stream is kept as long as the execution. The frame is durable when this returns; the append is retried for up to
    /// 30 seconds while the store is unavailable. Frames keep their order if each is awaited before the next. Refused
    /// if the lease is no longer held.
    ///
    /// ```
    /// use selvedge::{Context, Failure, FrameKind};
    ///
    /// async fn answer(ctx: Context) -> Result<usize, Failure> {
    ///     let tokens = ["Hello", ", ", "world"];
    ///     for token in tokens {
    ///         ctx.emit(FrameKind::Event, token).await?;
    ///         ctx.summarise(&serde_json::json!({ "last": token })).await?;
    ///     }
    ///     Ok(tokens.len())
    /// }
    /// ```
    pub async fn emit(&self, kind: FrameKind, data: impl Serialize) -> Result<(), Error> {
        self.append(kind, FrameMode::Durable, &data).await
    }

    /// Appends a frame that is kept only for a while. Best effort: the append is not retried if the store is
    /// unavailable.
    pub async fn emit_best_effort(&self, kind: FrameKind, data: impl Serialize) -> Result<(), Error> {
        self.report(frame(kind, FrameMode::BestEffort, &data)?).await
    }

    /// Applies a JSON merge patch (RFC 7396) to the summary document of this attempt, which readers get as a whole.
    pub async fn summarise(&self, patch: impl Serialize) -> Result<(), Error> {
        self.append(FrameKind::Event, FrameMode::Summary, &patch).await
    }

    /// Appends a frame, with retries while the store is unavailable. The operation's unique name makes a retry
    /// idempotent.
    async fn append(&self, kind: FrameKind, mode: FrameMode, data: &impl Serialize) -> Result<(), Error> {
        let op = frame(kind, mode, data)?;
        let name = Uuid::now_v7().to_string();
        self.report_with_retries(vec![(Some(name), op)], APPEND_RETRY_LIMIT).await.map(drop)
    }

    /// Appends an event to the stream of this attempt: [`emit`](Context::emit) with the kind [`FrameKind::Event`].
    pub async fn frame(&self, data: impl Serialize) -> Result<(), Error> {
        self.emit(FrameKind::Event, data).await
    }

    /// Counts usage of a budget, such as tokens of a language model, by dimension. Every call counts, also in a later
    /// attempt, because what was spent is spent. Accepted even after the lease has ended. Retried for up to 30 seconds while
    /// the store is unavailable; a retry counts once.
    ///
    /// Returns the dimensions whose hard limit is reached. What then happens to this execution is up to the budget: it may
    /// be suspended, and its handler dropped at the next await point.
    ///
    /// ```
    /// use selvedge::{Amount, Context, Failure};
    ///
    /// async fn ask(ctx: Context) -> Result<bool, Failure> {
    ///     let breached = ctx.usage("tokens", [("input", Amount::whole(812)), ("output", Amount::whole(120))]).await?;
    ///     Ok(breached.is_empty())
    /// }
    /// ```
    pub async fn usage<D: Into<String>>(
        &self,
        budget: impl AsRef<str>,
        usage: impl IntoIterator<Item = (D, Amount)>,
    ) -> Result<Vec<String>, Error> {
        self.usage_once(budget, Uuid::now_v7().to_string(), usage).await
    }

    /// Counts usage of a budget once for this key: repeated within 30 days, also by a later attempt, it counts nothing.
    /// Otherwise like [`usage`](Context::usage).
    pub async fn usage_once<D: Into<String>>(
        &self,
        budget: impl AsRef<str>,
        key: impl AsRef<str>,
        usage: impl IntoIterator<Item = (D, Amount)>,
    ) -> Result<Vec<String>, Error> {
        let op = Op::Usage {
            budget: Name::parse("/budget", budget.as_ref(), NAME_LIMIT)?,
            usage: usage.into_iter().map(|(dimension, amount)| (dimension.into(), amount)).collect(),
            dedup_key: Some(Name::parse("/dedup_key", key.as_ref(), KEY_LIMIT)?),
        };
        let reported = self.report_with_retries(vec![(None, op)], APPEND_RETRY_LIMIT).await?;
        Ok(reported.into_iter().flat_map(|reported| reported.breached).collect())
    }

    async fn report(&self, op: Op) -> Result<(), Error> {
        self.report_all(vec![(None, op)]).await.map(drop)
    }

    /// Reports operations together, with retries while the store is unavailable, for up to `retry_limit`. The attempt
    /// is not suspended meanwhile.
    pub(super) async fn report_with_retries(
        &self,
        ops: Vec<(Option<String>, Op)>,
        retry_limit: Duration,
    ) -> Result<Vec<Reported>, Error> {
        let _in_progress = self.tracker().begin_report();
        let deadline = Instant::now() + retry_limit;
        let mut delay = RetryDelay::default();
        loop {
            match self.report_all(ops.clone()).await {
                Err(error) if error.is_transient() && Instant::now() < deadline => {
                    tracing::debug!(execution = %self.execution(), %error, "a report is retried");
                    delay.increase();
                    sleep(delay.get()).await;
                }
                reported => return reported,
            }
        }
    }

    /// Reports operations together. The attempt is not suspended meanwhile.
    async fn report_all(&self, ops: Vec<(Option<String>, Op)>) -> Result<Vec<Reported>, Error> {
        let _in_progress = self.tracker().begin_report();
        let fence = self.attempt.claim.fence;
        let reports = ops.into_iter().map(|(name, op)| (fence, name, op)).collect();
        let (results, _) = self.attempt.link.report(reports, None).await?;
        results.into_iter().collect()
    }

    /// Returns true if the cancellation of this execution has been requested.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// Resolves when the cancellation of this execution is requested with a grace period. The handler should then clean
    /// up and return. Its return value still counts: a result completes the execution, a failure ends it as cancelled.
    pub async fn cancelled(&self) {
        self.cancel.cancelled().await;
    }

    /// Returns a token that tells of the cancellation and of a lost lease, for tasks and threads that the handler starts.
    pub fn cancellation(&self) -> CancellationToken {
        self.cancel.clone()
    }
}

/// Builds the operation that appends a frame. Fails if the data cannot be serialised.
fn frame(kind: FrameKind, mode: FrameMode, data: &impl Serialize) -> Result<Op, Error> {
    let data = serde_json::to_vec(data)
        .map_err(|error| Error::field("/data", format!("cannot be serialised as JSON: {error}")))?;
    Ok(Op::Frame { kind, mode, data: data.into() })
}
