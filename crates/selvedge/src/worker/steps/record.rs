//! Steps: a closure runs once, its result is recorded, and later attempts get the recorded result.

use super::tracker::ReservedName;
use crate::submission::millis;
use crate::worker::protocol::Op;
use crate::worker::{Context, Failure};
use crate::{Error, Refusal};
use bytes::Bytes;
use selvedge_core::Name;
use selvedge_core::json;
use selvedge_core::name::NAME_LIMIT;
use selvedge_core::rules::step::StepDraft;
use selvedge_core::step::StepKind;
use selvedge_core::submission::DURATION_LIMIT_MS;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::future::Future;
use std::time::Duration;
use tokio::time::Instant;

/// Time for which recording a step is retried while the store is unavailable. A step that is not recorded runs again.
pub const RECORD_RETRY_LIMIT: Duration = Duration::from_secs(300);

impl Context {
    /// Runs a closure once and records its result. The first attempt that reaches the step runs the closure; later
    /// attempts get the recorded result without running it. The record is committed when this returns.
    ///
    /// The name identifies the step and must be unique in the execution. Code around the step may change or be
    /// reordered, because nothing but steps is replayed, as long as the handler still reaches every recorded step. The result is stored as JSON, and the returned value is
    /// deserialised from that JSON, so that every attempt sees the same value. A failure of the closure is not
    /// recorded.
    ///
    /// If the process dies after the effect of the closure and before the record is committed, a later attempt runs the
    /// closure again. Where that matters, make the effect itself idempotent: for example, pass
    /// [`step_key`](Context::step_key) to the other service. A replay keeps the recorded steps with their results and
    /// runs only the others.
    ///
    /// The following are permanent failures, because they mean that the code no longer fits the recorded steps: a
    /// recorded result of another type, a name that was recorded by a wait or another operation, a name that is used
    /// twice in one attempt, and a recorded step that the handler did not reach before it returned.
    ///
    /// ```
    /// use selvedge::{Backoff, Context, Engine, Failure, Submission, Worker};
    /// use std::sync::atomic::{AtomicU32, Ordering};
    /// use std::time::Duration;
    ///
    /// static CHARGED: AtomicU32 = AtomicU32::new(0);
    ///
    /// async fn order(ctx: Context) -> Result<String, Failure> {
    ///     let receipt: u32 = ctx.step("charge", || async { Ok(CHARGED.fetch_add(1, Ordering::SeqCst)) }).await?;
    ///     if ctx.attempt() == 0 {
    ///         return Err(Failure::transient("the warehouse is unavailable"));
    ///     }
    ///     ctx.step("ship", || async { Ok(format!("shipped against receipt {receipt}")) }).await
    /// }
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), selvedge::Error> {
    /// # let engine = Engine::open("memory:").await?;
    /// # let namespace = engine.namespace("default").await?;
    /// let worker = Worker::new(namespace.clone(), "orders").handler("order", order).start()?;
    /// let no_delay = Backoff::Fixed { delay_ms: 0 };
    /// let order = Submission::new("order").backoff(no_delay).submit(&namespace).await?.execution.id;
    /// let ended = namespace.result(order, Duration::from_secs(10)).await?.expect("the execution ends");
    /// assert_eq!(ended.result.expect("a result"), r#""shipped against receipt 0""#);
    /// assert_eq!(CHARGED.load(Ordering::SeqCst), 1);
    /// # worker.drain().await;
    /// # engine.shutdown().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn step<T, F, Fut>(
        &self,
        name: impl Into<String>,
        run: F,
    ) -> impl Future<Output = Result<T, Failure>> + Send
    where
        T: Serialize + DeserializeOwned + Send,
        F: FnOnce() -> Fut + Send,
        Fut: Future<Output = Result<T, Failure>> + Send,
    {
        let request = self.request_step(name);
        async move {
            let mut reserved = request.reserve()?;
            if let Some(value) = request.recorded(StepKind::Step)? {
                reserved.keep();
                return Ok(value);
            }
            let _in_progress = request.context.begin_step().await?;
            let begun = Instant::now();
            let result = run().await?;
            let (value, json) = request.round_trip(&result)?;
            drop(result);
            reserved.keep();
            request.record(StepKind::Step, json, begun.elapsed()).await?;
            Ok(value)
        }
    }

    /// Allows this attempt to return without having reached every recorded step. Otherwise that is a permanent failure.
    /// For steps that were removed on purpose while executions were in progress.
    ///
    /// ```
    /// # use selvedge::{Context, Failure};
    /// async fn order(ctx: Context) -> Result<(), Failure> {
    ///     // The step "greet" was removed; older executions may have recorded it.
    ///     ctx.allow_vanished_steps();
    ///     ctx.step("ship", || async { Ok(()) }).await
    /// }
    /// ```
    pub fn allow_vanished_steps(&self) {
        self.tracker().allow_vanished();
    }

    /// Requests a step of this name in this branch.
    pub(super) fn request_step(&self, name: impl Into<String>) -> StepRequest {
        let name = self.scope().name(&name.into());
        self.tracker().request(&name);
        StepRequest { context: self.clone(), name }
    }
}

/// A step that the handler has requested and may reach later.
pub struct StepRequest {
    /// The context of the request.
    pub context: Context,
    /// The full name of the step, which begins with the names of its branches.
    pub name: String,
}

impl StepRequest {
    /// Reserves the name when the handler reaches the step.
    pub fn reserve(&self) -> Result<ReservedName, Failure> {
        Name::parse("/name", &self.name, NAME_LIMIT).map_err(|refusal| self.failure(refusal.into()))?;
        self.context.tracker().reserve(&self.name)
    }

    /// Returns the result that an earlier attempt recorded for the step.
    pub fn recorded<T: DeserializeOwned>(&self, kind: StepKind) -> Result<Option<T>, Failure> {
        let Some(result) = self.context.tracker().recorded(&self.name, kind)? else { return Ok(None) };
        json::parse(&result).map(Some).map_err(|error| {
            let name = &self.name;
            Failure::permanent(format!(
                "the recorded result of the step {name:?} is not what the handler expects: {error}; give a step whose \
                 result type has changed another name"
            ))
        })
    }

    /// Serialises a result, and deserialises the value that a later attempt will see.
    fn round_trip<T: Serialize + DeserializeOwned>(&self, value: &T) -> Result<(T, Bytes), Failure> {
        let name = &self.name;
        let json = serde_json::to_vec(value).map_err(|error| {
            Failure::permanent(format!(
                "the result of the step {name:?} cannot be serialised as JSON: {error}"
            ))
        })?;
        let value = json::parse(&json).map_err(|error| {
            Failure::permanent(format!(
                "the result of the step {name:?} cannot be read back from its JSON, so later attempts could not use it: \
                 {error}"
            ))
        })?;
        Ok((value, json.into()))
    }

    /// Records the result of the step.
    pub async fn record(&self, kind: StepKind, result: Bytes, took: Duration) -> Result<(), Failure> {
        let duration_ms = millis(took).min(DURATION_LIMIT_MS);
        let draft = StepDraft { name: Name::trusted(&self.name), kind, result, duration_ms };
        let op = (None, Op::Step(draft));
        let recorded = self.context.report_with_retries(vec![op], RECORD_RETRY_LIMIT).await;
        recorded.map(drop).map_err(|error| self.failure(error))
    }

    /// Converts an error of this step into a failure.
    pub fn failure(&self, error: Error) -> Failure {
        failure_of(&format!("the step {:?}", self.name), error)
    }
}

/// Converts the error of a durable operation into a failure: permanent if its content was refused, transient if the
/// lease or the store is the reason.
pub fn failure_of(what: &str, error: Error) -> Failure {
    let is_content = |refusal: &&Refusal| {
        matches!(
            refusal.code.as_str(),
            "invalid_field" | "payload_too_large" | "idempotency_mismatch" | "id_taken" | "limit_reached"
        )
    };
    match error.refusal().filter(is_content) {
        Some(refusal) => Failure::permanent(format!("{what} was refused: {refusal}")),
        None => Failure::transient(format!("{what} could not be recorded: {error}")),
    }
}
