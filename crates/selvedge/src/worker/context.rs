//! What a handler gets: the attempt it runs, its input, what its upstreams gave, and the way to be told that it should
//! stop. Its durable steps are in `steps`.

use super::finished::Pause;
use super::steps::{BranchScope, Ledger};
use crate::worker::Failure;
use crate::{
    Error, ExecutionId, FlowId, FrameKind, FrameMode, Name, Namespace, Nodes, Outcome, Refusal, Timestamp,
};
use bytes::Bytes;
use selvedge_core::rows::Relative;
use selvedge_core::rules::claim::Claimed;
use selvedge_core::rules::report::{Fence, Op, Reported};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

/// How long a frame is repeated while the store is away.
const APPEND_PATIENCE: Duration = Duration::from_secs(30);

/// The attempt that a handler runs. Cheap to clone.
#[derive(Clone)]
pub struct Context {
    attempt: Arc<Attempt>,
    cancel: watch::Receiver<bool>,
    scope: BranchScope,
}

struct Attempt {
    namespace: Namespace,
    fence: Fence,
    claimed: Claimed,
    kind: Name,
    lane: Name,
    ledger: Arc<Ledger>,
}

impl Context {
    pub(super) fn new(
        namespace: Namespace,
        fence: Fence,
        mut claimed: Claimed,
        (kind, lane): (Name, Name),
        cancel: watch::Receiver<bool>,
    ) -> Self {
        let ledger = Ledger::new(std::mem::take(&mut claimed.steps));
        let attempt = Arc::new(Attempt { namespace, fence, claimed, kind, lane, ledger });
        Context { attempt, cancel, scope: BranchScope::default() }
    }

    /// What this attempt knows of its steps.
    pub(super) fn ledger(&self) -> &Arc<Ledger> {
        &self.attempt.ledger
    }

    /// In which branch of the handler its steps are.
    pub(super) fn scope(&self) -> &BranchScope {
        &self.scope
    }

    /// The same attempt in another branch of the handler.
    pub(super) fn within(&self, scope: BranchScope) -> Context {
        Context { scope, ..self.clone() }
    }

    /// When this generation of the execution began.
    pub(super) fn opened_at(&self) -> Timestamp {
        self.attempt.claimed.execution.opened_at()
    }

    /// The execution.
    pub fn execution(&self) -> ExecutionId {
        self.attempt.fence.execution
    }

    /// Which attempt of it this is, from 0; one more with every claim, whatever ended the one before.
    pub fn attempt(&self) -> u32 {
        self.attempt.fence.attempt
    }

    /// How often it was replayed.
    pub fn generation(&self) -> u32 {
        self.attempt.claimed.execution.detail.generation
    }

    /// Its kind.
    pub fn kind(&self) -> &str {
        &self.attempt.kind
    }

    /// The lane it came from.
    pub fn lane(&self) -> &str {
        &self.attempt.lane
    }

    /// Its tags.
    pub fn tags(&self) -> &BTreeMap<String, String> {
        &self.attempt.claimed.execution.tags
    }

    /// A key that is the same for every attempt of this execution, and another one after a replay. For calls to others
    /// that should take effect once.
    pub fn key(&self) -> String {
        format!("{}-{}", self.execution(), self.generation())
    }

    /// Its input, JSON as it was submitted.
    pub fn input_json(&self) -> &Bytes {
        &self.attempt.claimed.input
    }

    /// Its input as a value. Input of another shape will not change by itself: a permanent failure.
    pub fn input<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_slice(self.input_json()).map_err(|error| {
            Failure::permanent(format!("the input is not what {} expects: {error}", self.kind()))
        })
    }

    /// Its flow; an execution that was submitted alone is its own.
    pub fn flow(&self) -> FlowId {
        self.attempt.claimed.execution.flow()
    }

    /// Its name in its flow, if it has one.
    pub fn node(&self) -> Option<&str> {
        self.attempt.claimed.execution.node()
    }

    /// Its upstreams, in the order of their edges: how each ended, with its error or its result as JSON. One that was not
    /// needed may still be live.
    pub fn upstreams(&self) -> &[Relative] {
        &self.attempt.claimed.upstreams
    }

    /// The result of an upstream as a value. That it has none, or one of another shape, will not change by itself: a
    /// permanent failure.
    pub fn upstream<T: DeserializeOwned>(&self, name: &str) -> Result<T, Failure> {
        self.result_of("upstream", self.upstreams(), name)
    }

    /// How an upstream ended; none while it is live, or if there is none of that name.
    pub fn upstream_outcome(&self, name: &str) -> Option<Outcome> {
        self.upstreams().iter().find(|one| one.name.as_str() == name)?.outcome
    }

    /// The result of the upstream that succeeded, where one of them was enough: the winner of a [race](crate::Flow::race).
    /// If several did, of the first in the order of their edges.
    pub fn winner<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        let winner = self.upstreams().iter().find(|one| one.outcome == Some(Outcome::Completed));
        match winner {
            Some(winner) => self.read("upstream", winner),
            None => Err(Failure::permanent("no upstream has succeeded")),
        }
    }

    /// The children that earlier attempts have spawned, in that order, as [`upstreams`](Context::upstreams) are.
    pub fn children(&self) -> &[Relative] {
        &self.attempt.claimed.children
    }

    /// The result of a child as a value, as [`upstream`](Context::upstream) gives it.
    pub fn child<T: DeserializeOwned>(&self, name: &str) -> Result<T, Failure> {
        self.result_of("child", self.children(), name)
    }

    fn result_of<T: DeserializeOwned>(
        &self,
        what: &str,
        among: &[Relative],
        name: &str,
    ) -> Result<T, Failure> {
        match among.iter().find(|one| one.name.as_str() == name) {
            Some(one) => self.read(what, one),
            None => Err(Failure::permanent(format!("{} has no {what} {name:?}", self.kind()))),
        }
    }

    fn read<T: DeserializeOwned>(&self, what: &str, one: &Relative) -> Result<T, Failure> {
        let name = &one.name;
        let Some(result) = &one.result else {
            let how = one
                .outcome
                .map_or("has not ended".into(), |outcome| format!("ended as {}", outcome.as_str()));
            return Err(Failure::permanent(format!("the {what} {name:?} has no result: it {how}")));
        };
        serde_json::from_slice(result).map_err(|error| {
            let kind = self.kind();
            Failure::permanent(format!("the result of {what} {name:?} is not what {kind} expects: {error}"))
        })
    }

    /// Adds children to its flow, which are cancelled if this execution ends other than by success. Repeated with the same
    /// names, as by another attempt, it changes nothing. Refused when the lease is over.
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
        self.report(self.attempt.namespace.spawn(children.into(), false).await?).await
    }

    /// The same with children that live on however this execution ends.
    pub async fn spawn_detached(&self, children: Nodes) -> Result<(), Error> {
        self.report(self.attempt.namespace.spawn(children.into(), true).await?).await
    }

    /// The namespace, for what a handler does beside its own execution.
    pub fn namespace(&self) -> &Namespace {
        &self.attempt.namespace
    }

    /// Says how far it has come: from 0 to 100, and in words. Refused when the lease is over.
    pub async fn progress(&self, percent: f64, message: impl Into<String>) -> Result<(), Error> {
        self.report(Op::Progress { percent: Some(percent), message: Some(message.into()) }).await
    }

    /// Appends a frame to the stream of this attempt, which lives as long as the execution: output, or an event such as a
    /// token of a model. It is there once this returns, also if the store was away for a moment. Frames keep their order if
    /// each is awaited before the next. Refused when the lease is over.
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

    /// The same with a frame that is kept only for a while, and not repeated if the store is away.
    pub async fn emit_best_effort(&self, kind: FrameKind, data: impl Serialize) -> Result<(), Error> {
        self.report(frame(kind, FrameMode::BestEffort, &data)?).await
    }

    /// Merges a JSON merge patch (RFC 7396) into the summary document of this attempt, which can be read whole.
    pub async fn summarise(&self, patch: impl Serialize) -> Result<(), Error> {
        self.append(FrameKind::Event, FrameMode::Summary, &patch).await
    }

    /// Appends a frame, and again while the store is away: its name says that it is the same.
    async fn append(&self, kind: FrameKind, mode: FrameMode, data: &impl Serialize) -> Result<(), Error> {
        let op = frame(kind, mode, data)?;
        let name = Uuid::now_v7().to_string();
        self.repeat(vec![(Some(name), op)], APPEND_PATIENCE).await.map(drop)
    }

    async fn report(&self, op: Op) -> Result<(), Error> {
        self.report_all(vec![(None, op)]).await.map(drop)
    }

    /// Reports, and again while the store is away, for as long as the patience lasts. The attempt is not suspended
    /// meanwhile.
    pub(super) async fn repeat(
        &self,
        ops: Vec<(Option<String>, Op)>,
        patience: Duration,
    ) -> Result<Vec<Reported>, Error> {
        let _running = self.ledger().run();
        let deadline = Instant::now() + patience;
        let mut pause = Pause::default();
        loop {
            match self.report_all(ops.clone()).await {
                Err(Error::Store(error)) if error.is_transient() && Instant::now() < deadline => {
                    tracing::debug!(execution = %self.execution(), %error, "a report is repeated");
                    pause.grow();
                    sleep(pause.length()).await;
                }
                reported => return reported,
            }
        }
    }

    /// Reports these together. The attempt is not suspended while they are under way.
    async fn report_all(&self, ops: Vec<(Option<String>, Op)>) -> Result<Vec<Reported>, Error> {
        let _running = self.ledger().run();
        let items = ops.into_iter().map(|(name, op)| Ok((self.attempt.fence, name, op))).collect();
        let (results, _) = self.attempt.namespace.report(items, None).await?;
        Ok(results.into_iter().collect::<Result<_, Refusal>>()?)
    }

    /// Whether this attempt was asked to stop.
    pub fn is_cancelled(&self) -> bool {
        *self.cancel.borrow()
    }

    /// Resolves when this attempt is asked to stop: its execution is cancelled, with a grace period to clean up in.
    /// What the handler returns then still counts: a result completes the execution, a failure ends it as cancelled.
    pub async fn cancelled(&self) {
        // A worker that is gone cannot ask any more; its handlers are dropped with it.
        let _ = self.cancel.clone().wait_for(|asked| *asked).await;
    }
}

/// The report that appends a frame. Data that cannot be written as JSON is refused.
fn frame(kind: FrameKind, mode: FrameMode, data: &impl Serialize) -> Result<Op, Error> {
    let data = serde_json::to_vec(data)
        .map_err(|error| Refusal::field("/data", format!("cannot be written as JSON: {error}")))?;
    Ok(Op::Frame { kind, mode, data: data.into() })
}
