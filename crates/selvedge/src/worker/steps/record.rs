//! A step is done once: its result is recorded, and a later attempt is given that.

use super::ledger::Taken;
use crate::submission::millis;
use crate::worker::{Context, Failure};
use crate::{Error, Name, Refusal};
use bytes::Bytes;
use selvedge_core::name::NAME_LIMIT;
use selvedge_core::rules::report::Op;
use selvedge_core::rules::step::StepDraft;
use selvedge_core::step::StepKind;
use selvedge_core::submission::DURATION_LIMIT_MS;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::future::Future;
use std::time::Duration;
use tokio::time::Instant;

/// How long a step is reported again while the store is away. Without its record it would be done a second time.
pub const RECORD_PATIENCE: Duration = Duration::from_secs(300);

impl Context {
    /// Does something once: the first attempt that comes here runs the closure and records what it gives, and a later
    /// attempt is given that without running it. The record is committed when this returns.
    ///
    /// The name says which step it is. It is unique in the execution; code around it may change, be reordered and do what
    /// it likes, because nothing else is replayed. What the closure gives is kept as JSON, and what this returns has been
    /// read back from that, so that every attempt sees the same value. A failure of the closure is not recorded.
    ///
    /// If the process dies after the closure has had its effect and before the record is committed, a later attempt runs
    /// the closure again. Where that matters, let the effect itself be done once: for example with
    /// [`key`](Context::key), given along to the other side.
    ///
    /// A step that was recorded with a result of another type, or as something other than a step, a name that is used
    /// twice in one attempt, and a recorded step that a handler returns without having asked for are permanent failures:
    /// each means that the code was changed in a way that does not fit what has already been done.
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
    ///         return Err(Failure::transient("the warehouse does not answer"));
    ///     }
    ///     ctx.step("ship", || async { Ok(format!("shipped against receipt {receipt}")) }).await
    /// }
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), selvedge::Error> {
    /// # let engine = Engine::open("memory:").await?;
    /// # let namespace = engine.namespace("default").await?;
    /// let worker = Worker::new(namespace.clone(), "orders").handler("order", order).start()?;
    /// let at_once = Backoff::Fixed { delay_ms: 0 };
    /// let order = Submission::new("order").backoff(at_once).submit(&namespace).await?.execution.id;
    /// let ended = namespace.result(order, Duration::from_secs(10)).await?.expect("it ends");
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
        let asked = self.ask(name);
        async move {
            let mut taken = asked.take()?;
            if let Some(value) = asked.recorded(StepKind::Step)? {
                taken.keep();
                return Ok(value);
            }
            let _running = asked.context.begin().await?;
            let begun = Instant::now();
            let given = run().await?;
            let (value, json) = asked.written(&given)?;
            drop(given);
            taken.keep();
            asked.record(StepKind::Step, json, begun.elapsed()).await?;
            Ok(value)
        }
    }

    /// Lets this attempt return although it has not asked for every step that earlier ones have recorded, which is a
    /// permanent failure otherwise. For code that was changed on purpose while executions were under way.
    ///
    /// ```
    /// # use selvedge::{Context, Failure};
    /// async fn order(ctx: Context) -> Result<(), Failure> {
    ///     // Until last week there was a step "greet" here.
    ///     ctx.allow_vanished_steps();
    ///     ctx.step("ship", || async { Ok(()) }).await
    /// }
    /// ```
    pub fn allow_vanished_steps(&self) {
        self.ledger().allow_vanished();
    }

    /// Asks for a step of this name in this branch.
    pub(super) fn ask(&self, name: impl Into<String>) -> Asked {
        let name = self.scope().name(&name.into());
        self.ledger().ask(&name);
        Asked { context: self.clone(), name }
    }
}

/// A step that the handler has asked for.
pub struct Asked {
    /// Where.
    pub context: Context,
    /// Its name, with those of the branches that it is in.
    pub name: String,
}

impl Asked {
    /// The handler has come to it.
    pub fn take(&self) -> Result<Taken, Failure> {
        Name::parse("/name", &self.name, NAME_LIMIT).map_err(|refusal| self.refused(refusal.into()))?;
        self.context.ledger().take(&self.name)
    }

    /// What an earlier attempt has recorded for it.
    pub fn recorded<T: DeserializeOwned>(&self, kind: StepKind) -> Result<Option<T>, Failure> {
        let Some(result) = self.context.ledger().recorded(&self.name, kind)? else { return Ok(None) };
        serde_json::from_slice(&result).map(Some).map_err(|error| {
            let name = &self.name;
            Failure::permanent(format!(
                "the result that is recorded for the step {name:?} is not what the handler expects: {error}; give a step \
                 whose result has changed another name"
            ))
        })
    }

    /// A result as it is recorded, and as a later attempt will read it.
    fn written<T: Serialize + DeserializeOwned>(&self, value: &T) -> Result<(T, Bytes), Failure> {
        let name = &self.name;
        let json = serde_json::to_vec(value).map_err(|error| {
            Failure::permanent(format!("the result of the step {name:?} cannot be written as JSON: {error}"))
        })?;
        let value = serde_json::from_slice(&json).map_err(|error| {
            Failure::permanent(format!(
                "the result of the step {name:?} cannot be read back from its JSON, so no later attempt could: {error}"
            ))
        })?;
        Ok((value, json.into()))
    }

    /// Records it.
    pub async fn record(&self, kind: StepKind, result: Bytes, took: Duration) -> Result<(), Failure> {
        let duration_ms = millis(took).min(DURATION_LIMIT_MS);
        let draft = StepDraft { name: Name::trusted(&self.name), kind, result, duration_ms };
        let recorded = self.context.repeat(vec![(None, Op::Step(draft))], RECORD_PATIENCE).await;
        recorded.map(drop).map_err(|error| self.refused(error))
    }

    /// The failure of a step that was refused.
    pub fn refused(&self, error: Error) -> Failure {
        refused(&format!("the step {:?}", self.name), error)
    }
}

/// The failure of what a handler asked for and did not get: permanent where it was refused for what it is, and not for the
/// lease or the store.
pub fn refused(what: &str, error: Error) -> Failure {
    match error {
        Error::Refused(
            refusal @ (Refusal::InvalidField { .. }
            | Refusal::PayloadTooLarge { .. }
            | Refusal::IdempotencyMismatch { .. }
            | Refusal::LimitReached { .. }),
        ) => Failure::permanent(format!("{what} was refused: {refusal}")),
        error => Failure::transient(format!("{what} could not be written: {error}")),
    }
}
