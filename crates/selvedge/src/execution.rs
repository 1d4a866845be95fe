//! Executions as a program sees them, the same from an embedded engine and over HTTP.

use crate::wire::values::{any_json, optional_json, optional_time, time};
use crate::{Error, ExecutionId, FailureClass, FlowId, Outcome, State, Timestamp};
use bytes::Bytes;
use selvedge_core::json;
use selvedge_core::state::StateName;
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error as _};
use std::collections::BTreeMap;

/// An execution as it was when the engine answered.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct Execution {
    /// Generated, unless the submission set it.
    pub id: ExecutionId,
    /// The name of the namespace.
    pub namespace: String,
    /// The queue from which workers claim it. Default: `default`.
    pub lane: String,
    /// The name by which workers choose its handler.
    pub kind: String,
    /// Waiting, active, …; a terminal state has the name of its outcome.
    #[serde(deserialize_with = "state")]
    pub state: State,
    /// The outcome; none until the execution has ended.
    pub outcome: Option<Outcome>,
    /// The flow. An execution that was submitted alone is a flow of its own.
    #[serde(rename = "flow_id")]
    pub flow: FlowId,
    /// The name of its node in the flow; none if it was submitted alone.
    pub node: Option<String>,
    /// Higher ones start first, from −100 to 100. Default: 0.
    pub priority: i64,
    /// The number of attempts so far.
    pub attempts: u32,
    /// The number of replays.
    pub generation: u32,
    /// The number of retries that failures of this generation were charged with.
    pub retries: u32,
    /// The number of interruptions of this generation, such as expired leases.
    pub interruptions: u32,
    /// The tags, by name.
    pub tags: BTreeMap<String, String>,
    /// The input, as JSON text. Only [`Namespace::get`](crate::Namespace::get) reads it.
    #[serde(default, deserialize_with = "any_json")]
    pub input: Option<Bytes>,
    /// The result, as JSON text. Only [`Namespace::get`](crate::Namespace::get) reads it.
    #[serde(default, deserialize_with = "optional_json")]
    pub result: Option<Bytes>,
    /// The latest error of an attempt.
    pub error: Option<ExecutionError>,
    /// The progress that the worker reported last.
    #[serde(default)]
    pub progress: Option<Progress>,
    /// True if the cancellation was requested and the worker has not answered yet.
    pub cancel_requested: bool,
    /// The version, raised by every change.
    pub version: u32,
    /// The time of the submission.
    #[serde(deserialize_with = "time")]
    pub submitted_at: Timestamp,
    /// The start of the first attempt.
    #[serde(deserialize_with = "optional_time")]
    pub started_at: Option<Timestamp>,
    /// The time at which it reached its outcome; none until then.
    #[serde(deserialize_with = "optional_time")]
    pub ended_at: Option<Timestamp>,
    /// The end of the delay, while the execution is delayed.
    #[serde(rename = "delayed_until_at", deserialize_with = "optional_time")]
    pub delayed_until: Option<Timestamp>,
}

fn state<'de, D: Deserializer<'de>>(deserializer: D) -> Result<State, D::Error> {
    let word = String::deserialize(deserializer)?;
    StateName::parse(&word).ok_or_else(|| D::Error::custom(format!("{word:?} is not a state")))
}

/// The error of an attempt.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct ExecutionError {
    /// The text of the worker or the engine, with the trace if the worker sent one.
    pub message: String,
    /// The class, which decides about retries.
    pub class: FailureClass,
}

impl From<selvedge_core::fact::Failure> for ExecutionError {
    fn from(failure: selvedge_core::fact::Failure) -> ExecutionError {
        ExecutionError { message: failure.message, class: failure.class }
    }
}

/// The progress of an attempt.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Progress {
    /// The percentage done, 0 to 100.
    pub percent: Option<f64>,
    /// The progress in words.
    pub message: Option<String>,
}

/// The answer to a submission.
#[derive(Clone, Debug, Deserialize)]
pub struct Submitted {
    /// The new execution, or the one that existed.
    pub execution: Execution,
    /// True if the execution existed before.
    pub duplicate: bool,
}

/// The end of an execution.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Completed, failed, cancelled, expired or skipped.
    pub outcome: Outcome,
    /// The result as JSON text, if the execution completed.
    pub result: Option<Bytes>,
    /// The last error, if there was one.
    pub error: Option<ExecutionError>,
}

impl Ended {
    /// Deserialises the result. Fails if the execution did not complete, or has a result of another type.
    ///
    /// ```
    /// # use selvedge::{Context, Engine, Failure, Submission, Worker};
    /// # use std::time::Duration;
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), selvedge::Error> {
    /// # let engine = Engine::open("memory:").await?;
    /// # let namespace = engine.namespace("default").await?;
    /// # let worker = Worker::new(namespace.clone(), "w")
    /// #     .handler("add", |ctx: Context| async move { Ok::<_, Failure>(1 + ctx.input::<u32>()?) })
    /// #     .start()?;
    /// let id = Submission::new("add").input(&41)?.submit(&namespace).await?.execution.id;
    /// let ended = namespace.result(id, Duration::from_secs(10)).await?.expect("the execution ends");
    /// assert_eq!(ended.json::<u32>()?, 42);
    /// # worker.drain().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let Some(result) = &self.result else {
            let outcome = self.outcome.as_str();
            let detail = match &self.error {
                Some(error) => {
                    format!("is missing, because the execution ended as {outcome}: {}", error.message)
                }
                None => format!("is missing, because the execution ended as {outcome}"),
            };
            return Err(Error::field("/result", detail));
        };
        json::parse(result)
            .map_err(|error| Error::field("/result", format!("has an unexpected type: {error}")))
    }
}

impl From<selvedge_engine::Ended> for Ended {
    fn from(ended: selvedge_engine::Ended) -> Ended {
        Ended { outcome: ended.outcome, result: ended.result, error: ended.error.map(Into::into) }
    }
}

/// The end of an execution as an answer has it; without an outcome while the execution is live.
#[derive(Deserialize)]
pub(crate) struct EndedItem {
    outcome: Option<Outcome>,
    #[serde(deserialize_with = "any_json")]
    result: Option<Bytes>,
    error: Option<ExecutionError>,
}

impl EndedItem {
    /// Returns the end, if the execution has ended.
    pub fn ended(self) -> Option<Ended> {
        let outcome = self.outcome?;
        let result = self.result.filter(|_| outcome == Outcome::Completed);
        Some(Ended { outcome, result, error: self.error })
    }
}

/// An upstream or a child of an execution.
#[derive(Clone, Debug, PartialEq)]
pub struct Relative {
    /// The id of the other execution.
    pub execution: ExecutionId,
    /// The name of its node in the flow.
    pub name: String,
    /// The outcome; none while the execution is live.
    pub outcome: Option<Outcome>,
    /// The error, if the execution ended with one and the error is not left out.
    pub error: Option<ExecutionError>,
    /// The result as JSON text, if the execution has one and it is not left out.
    pub result: Option<Bytes>,
    /// True if the error and the result were left out of the claim, because all of them together are too large.
    pub left_out: bool,
}

/// A page of a list.
#[derive(Clone, Debug, Deserialize)]
pub struct Page<T> {
    /// The items. A page may be short before the end of the list.
    pub items: Vec<T>,
    /// The cursor of the next page; none at the end of the list.
    pub next_cursor: Option<String>,
}

/// Selects executions. All conditions that are set must match. Default: every execution.
#[derive(Clone, Debug, Default)]
pub struct ExecutionFilter {
    /// Only executions of this lane.
    pub lane: Option<String>,
    /// Only executions of this kind.
    pub kind: Option<String>,
    /// Only executions in one of these states. Empty: all.
    pub states: Vec<State>,
    /// Only executions of this flow.
    pub flow: Option<FlowId>,
    /// Only executions with all of these tags.
    pub tags: BTreeMap<String, String>,
    /// Only executions that were submitted at this time or later.
    pub submitted_after: Option<Timestamp>,
    /// Only executions that were submitted before this time.
    pub submitted_before: Option<Timestamp>,
}

/// Why an execution or a flow is in its state.
#[derive(Clone, Debug, Deserialize)]
pub struct Explanation {
    /// The public name of the state.
    pub state: String,
    /// All reasons that hold now, the most important first.
    pub reasons: Vec<Reason>,
    /// The earliest time at which something changes by itself, if known.
    #[serde(rename = "next_change_at", deserialize_with = "optional_time")]
    pub next_change: Option<Timestamp>,
}

/// A reason in an explanation.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Reason {
    /// The stable code.
    pub code: String,
    /// The reason as a sentence.
    pub message: String,
    /// The time at which the reason ends, if known.
    #[serde(rename = "until_at", deserialize_with = "optional_time")]
    pub until: Option<Timestamp>,
}

impl From<selvedge_core::explain::Explanation> for Explanation {
    fn from(explanation: selvedge_core::explain::Explanation) -> Explanation {
        let reason = |reason: selvedge_core::explain::Reason| Reason {
            code: reason.code.as_str().to_owned(),
            message: reason.message,
            until: reason.until,
        };
        Explanation {
            state: explanation.state.to_owned(),
            reasons: explanation.reasons.into_iter().map(reason).collect(),
            next_change: explanation.next_change,
        }
    }
}

impl From<selvedge_engine::View> for Execution {
    fn from(view: selvedge_engine::View) -> Execution {
        let state = view.state();
        let row = view.stored.execution;
        let delayed_until = match row.state {
            selvedge_core::State::Delayed { until } => Some(until),
            _ => None,
        };
        Execution {
            id: row.id,
            namespace: view.namespace.to_string(),
            lane: view.class.lane.to_string(),
            kind: view.class.kind.to_string(),
            state,
            outcome: row.state.outcome(),
            flow: row.flow(),
            node: row.node().map(str::to_owned),
            priority: row.priority.into(),
            attempts: row.epoch,
            generation: row.detail.generation,
            retries: row.detail.retries,
            interruptions: row.detail.interruptions,
            input: Some(view.stored.input).filter(|input| !input.is_empty()),
            result: view.stored.result,
            cancel_requested: row.detail.cancel.is_some(),
            version: row.version,
            submitted_at: row.submitted_at,
            started_at: row.started_at,
            ended_at: row.ended_at,
            delayed_until,
            error: row.detail.error.map(Into::into),
            progress: row
                .detail
                .progress
                .map(|progress| Progress { percent: progress.percent, message: progress.message }),
            tags: row.tags,
        }
    }
}
