//! The return values of a handler: a result, a request to put the execution back, or a failure.

use super::protocol::Op;
use crate::submission::millis;
use crate::worker::Context;
use crate::{FailureClass, When};
use bytes::Bytes;
use selvedge_core::rules::report::MESSAGE_LIMIT;
use selvedge_core::submission::check_payload;
use selvedge_core::text::cut;
use serde::Serialize;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// The handler of a kind, with its type erased.
#[derive(Clone)]
pub(super) enum Handler {
    /// Runs one execution.
    One(OneFn),
    /// Runs up to this many executions in one call.
    Batch(usize, BatchFn),
}

/// A handler of one execution.
pub(super) type OneFn = Arc<dyn Fn(Context) -> HandlerFuture + Send + Sync>;
pub(super) type HandlerFuture = Pin<Box<dyn Future<Output = Result<Return, Failure>> + Send>>;
/// A handler of several executions, which answers each alone.
pub(super) type BatchFn = Arc<dyn Fn(Vec<Context>) -> BatchFuture + Send + Sync>;
type BatchFuture = Pin<Box<dyn Future<Output = Vec<Result<Return, Failure>>> + Send>>;

/// Erases the type of a batch handler.
pub(super) fn erase_batch<F, Fut, T>(max: usize, handler: F) -> Handler
where
    F: Fn(Vec<Context>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Vec<Result<T, Failure>>> + Send + 'static,
    T: IntoReturn,
{
    let run = move |batch| -> BatchFuture {
        let future = handler(batch);
        Box::pin(async move {
            let results = future.await;
            results.into_iter().map(|result| result.and_then(IntoReturn::into_return)).collect()
        })
    };
    Handler::Batch(max.max(1), Arc::new(run))
}

/// Erases the type of a handler.
pub(super) fn erase<F, Fut, T>(handler: F) -> OneFn
where
    F: Fn(Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<T, Failure>> + Send + 'static,
    T: IntoReturn,
{
    Arc::new(move |ctx| {
        let future = handler(ctx);
        Box::pin(async move { future.await?.into_return() })
    })
}

/// The return value of a handler that did not fail. Any value that serialises to JSON completes the execution with that
/// result; use `Return` for the other endings.
///
/// ```
/// # use selvedge::{Context, Failure, Return};
/// # use std::time::Duration;
/// # fn is_ready() -> bool { true }
/// async fn poll(ctx: Context) -> Result<Return, Failure> {
///     if !is_ready() {
///         return Ok(Return::delay(Duration::from_secs(60)));
///     }
///     Return::complete(&ctx.attempt())
/// }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Return {
    /// Completes the execution with this result, as JSON.
    Complete(Bytes),
    /// Delays the execution until this time. No retry is charged.
    Delay(When),
    /// Puts the execution back; it is claimable again at once. No retry is charged.
    Release,
    /// Acknowledges that the cancellation was requested: the execution ends as cancelled.
    Cancelled,
}

impl Return {
    /// Completes the execution with this result, serialised as JSON.
    pub fn complete<T: Serialize + ?Sized>(result: &T) -> Result<Return, Failure> {
        let json = serde_json::to_vec(result).map_err(|error| {
            Failure::permanent(format!("the result cannot be serialised as JSON: {error}"))
        })?;
        Ok(Return::Complete(json.into()))
    }

    /// Delays the execution for this long. No retry is charged.
    pub fn delay(delay: Duration) -> Return {
        Return::Delay(When::AfterMs(millis(delay)))
    }
}

/// A value that a handler may return: a [`Return`], or any value that serialises to JSON.
pub trait IntoReturn: Send + 'static {
    /// Converts the value.
    fn into_return(self) -> Result<Return, Failure>;
}

impl<T: Serialize + Send + 'static> IntoReturn for T {
    fn into_return(self) -> Result<Return, Failure> {
        Return::complete(&self)
    }
}

impl IntoReturn for Return {
    fn into_return(self) -> Result<Return, Failure> {
        Ok(self)
    }
}

/// The failure of an attempt: a message, a class, and optionally the delay before the next attempt. `?` converts every
/// error into a transient failure.
///
/// ```
/// # use selvedge::Failure;
/// fn parse(text: &str) -> Result<u32, Failure> {
///     Ok(text.parse()?)
/// }
/// assert_eq!(parse("x").expect_err("x is not a number").to_string(), "invalid digit found in string");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    message: String,
    class: FailureClass,
    retry_after: Option<Duration>,
}

impl Failure {
    /// Creates a failure of this class.
    pub fn new(class: FailureClass, message: impl Into<String>) -> Self {
        Failure { message: message.into(), class, retry_after: None }
    }

    /// Creates a failure that a retry may cure. The execution is retried.
    pub fn transient(message: impl Into<String>) -> Self {
        Failure::new(FailureClass::Transient, message)
    }

    /// Creates a failure that a retry cannot cure. The execution is not retried.
    pub fn permanent(message: impl Into<String>) -> Self {
        Failure::new(FailureClass::Permanent, message)
    }

    /// Sets the delay before the next attempt. Default: the backoff of the execution's retry policy.
    pub fn retry_after(mut self, retry_after: Duration) -> Self {
        self.retry_after = Some(retry_after);
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

// `Failure` must not implement `Error`: this blanket conversion would then conflict with `From<Failure> for Failure`.
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Failure {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let text = cause.to_string();
            // Some errors already include the message of their cause.
            if !message.contains(&text) {
                message.push_str(": ");
                message.push_str(&text);
            }
            source = cause.source();
        }
        Failure::transient(message)
    }
}

impl From<Failure> for Op {
    fn from(failure: Failure) -> Op {
        Op::Fail {
            message: truncated(failure.message),
            class: failure.class,
            retry_after_ms: failure.retry_after.map(millis),
        }
    }
}

/// Converts the return value of a handler into the operation to report.
pub(super) fn op(returned: Result<Return, Failure>) -> Op {
    match returned {
        Ok(Return::Complete(result)) => match check_payload("/result", &result) {
            Ok(()) => Op::Complete { result },
            Err(refusal) => Failure::permanent(refusal.to_string()).into(),
        },
        Ok(Return::Delay(until)) => Op::Delay { until },
        Ok(Return::Release) => Op::Release,
        Ok(Return::Cancelled) => Op::Cancelled { message: None },
        Err(failure) => failure.into(),
    }
}

/// Truncates a message to the limit, at a character boundary.
fn truncated(mut message: String) -> String {
    message.truncate(cut(&message, MESSAGE_LIMIT).len());
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use selvedge_core::submission::PAYLOAD_LIMIT;

    #[test]
    fn a_value_becomes_the_result_and_a_return_stays_as_it_is() {
        let json = |text: &'static str| Ok(Return::Complete(Bytes::from_static(text.as_bytes())));
        assert_eq!("a".into_return(), json("\"a\""));
        assert_eq!(().into_return(), json("null"));
        assert_eq!(Return::Release.into_return(), Ok(Return::Release));
    }

    #[test]
    fn an_error_becomes_a_transient_failure_that_names_its_cause() {
        #[derive(Debug, thiserror::Error)]
        #[error("cannot read")]
        struct Outer(#[source] std::num::ParseIntError);
        let cause = "x".parse::<u8>().expect_err("x is not a number");
        let failure = Failure::from(Outer(cause));
        assert_eq!(failure, Failure::transient("cannot read: invalid digit found in string"));
    }

    #[test]
    fn a_result_beyond_the_limit_is_a_permanent_failure() {
        let result = Return::Complete(vec![b' '; PAYLOAD_LIMIT + 1].into());
        assert!(matches!(op(Ok(result)), Op::Fail { class: FailureClass::Permanent, .. }));
    }

    #[test]
    fn a_message_beyond_the_limit_is_truncated_at_a_character_boundary() {
        let message = format!("x{}", "ä".repeat(MESSAGE_LIMIT));
        assert_eq!(truncated(message).len(), MESSAGE_LIMIT - 1);
    }
}
