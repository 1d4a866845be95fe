//! What a handler gives back: a result, a wish to be put back, or a failure.

use crate::submission::millis;
use crate::worker::Context;
use crate::{FailureClass, When};
use bytes::Bytes;
use selvedge_core::rules::report::{MESSAGE_LIMIT, Op};
use selvedge_core::submission::check_payload;
use serde::Serialize;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// A handler of any type.
pub(super) type Handler = Arc<dyn Fn(Context) -> Handling + Send + Sync>;
type Handling = Pin<Box<dyn Future<Output = Result<Return, Failure>> + Send>>;

/// Forgets the type of a handler.
pub(super) fn erase<F, Fut, T>(handler: F) -> Handler
where
    F: Fn(Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<T, Failure>> + Send + 'static,
    T: IntoReturn,
{
    Arc::new(move |ctx| {
        let handling = handler(ctx);
        Box::pin(async move { handling.await?.into_return() })
    })
}

/// What a handler returns when it has not failed. Any value that can be written as JSON is the result of a completed
/// execution; the other endings are named here.
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
    /// It is done; here is the result, as JSON.
    Complete(Bytes),
    /// Put it back until then; that charges nothing.
    Delay(When),
    /// Put it back now; that charges nothing.
    Release,
}

impl Return {
    /// It is done, and this is its result.
    pub fn complete<T: Serialize + ?Sized>(result: &T) -> Result<Return, Failure> {
        let json = serde_json::to_vec(result)
            .map_err(|error| Failure::permanent(format!("the result cannot be written as JSON: {error}")))?;
        Ok(Return::Complete(json.into()))
    }

    /// Put it back for this long.
    pub fn delay(delay: Duration) -> Return {
        Return::Delay(When::AfterMs(millis(delay)))
    }
}

/// What may stand for a [`Return`]: that itself, or any value that can be written as JSON.
pub trait IntoReturn: Send + 'static {
    /// The return it stands for.
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

/// Why an attempt failed. Every error turns into a transient one with `?`.
///
/// ```
/// # use selvedge::Failure;
/// fn parse(text: &str) -> Result<u32, Failure> {
///     Ok(text.parse()?)
/// }
/// assert_eq!(parse("x").expect_err("fails").to_string(), "invalid digit found in string");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    message: String,
    class: FailureClass,
    retry_after: Option<Duration>,
}

impl Failure {
    /// A failure of this class.
    pub fn new(class: FailureClass, message: impl Into<String>) -> Self {
        Failure { message: message.into(), class, retry_after: None }
    }

    /// One that may pass by itself: it is retried.
    pub fn transient(message: impl Into<String>) -> Self {
        Failure::new(FailureClass::Transient, message)
    }

    /// One that will not pass by itself: it is not retried.
    pub fn permanent(message: impl Into<String>) -> Self {
        Failure::new(FailureClass::Permanent, message)
    }

    /// Wait this long before the next attempt, instead of the back-off.
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

// A failure is not an error itself, so that every error can turn into one.
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Failure {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let text = cause.to_string();
            // Some errors repeat their cause in their own words.
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
            message: shortened(failure.message),
            class: failure.class,
            retry_after_ms: failure.retry_after.map(millis),
        }
    }
}

/// What to report for what a handler gave back.
pub(super) fn op(given: Result<Return, Failure>) -> Op {
    match given {
        Ok(Return::Complete(result)) => match check_payload("/result", &result) {
            Ok(()) => Op::Complete { result },
            Err(refusal) => Failure::permanent(refusal.to_string()).into(),
        },
        Ok(Return::Delay(until)) => Op::Delay { until },
        Ok(Return::Release) => Op::Release,
        Err(failure) => failure.into(),
    }
}

/// A message within its limit.
fn shortened(mut message: String) -> String {
    if message.len() > MESSAGE_LIMIT {
        let ends = (0..=MESSAGE_LIMIT).rev();
        let end = ends.into_iter().find(|end| message.is_char_boundary(*end));
        message.truncate(end.unwrap_or_default());
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use selvedge_core::submission::PAYLOAD_LIMIT;

    #[test]
    fn a_value_is_the_result_and_a_return_is_itself() {
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
        let cause = "x".parse::<u8>().expect_err("is no number");
        let failure = Failure::from(Outer(cause));
        assert_eq!(failure, Failure::transient("cannot read: invalid digit found in string"));
    }

    #[test]
    fn a_result_beyond_the_limit_is_a_permanent_failure() {
        let result = Return::Complete(vec![b' '; PAYLOAD_LIMIT + 1].into());
        assert!(matches!(op(Ok(result)), Op::Fail { class: FailureClass::Permanent, .. }));
    }

    #[test]
    fn a_message_beyond_the_limit_is_cut_between_characters() {
        let message = format!("x{}", "ä".repeat(MESSAGE_LIMIT));
        assert_eq!(shortened(message).len(), MESSAGE_LIMIT - 1);
    }
}
