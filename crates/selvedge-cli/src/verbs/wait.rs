//! `selvedge wait`: waits for the end of an execution or a flow. The exit code is that of the outcome.

use super::get::neither;
use super::still_waits;
use super::values::{millis, span};
use crate::failure::{End, Failure};
use crate::remote::{Remote, Session};
use crate::terminal::{at, compact, spinner, text};
use clap::Args;
use selvedge_client::Response;
use selvedge_core::headline::headline;
use serde_json::Value;
use std::time::{Duration, Instant};

/// The longest wait of one request.
const POLL: Duration = Duration::from_secs(30);

/// The arguments of `selvedge wait`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
#[group(skip)]
pub struct Arguments {
    /// The id of an execution or a flow
    id: String,
    /// Wait at most this long [default: until it ends]
    #[arg(long, value_name = "TIME", value_parser = span)]
    timeout: Option<Duration>,
    #[command(flatten)]
    remote: Remote,
}

const EXAMPLES: &str = "\
The exit code is 0 if it completed, 10 if it failed, 11 if it was cancelled, 12 if it expired, 13 if it was skipped, and 14
if it has not ended within --timeout. While an execution does not start, standard error says why.

Examples:
  selvedge wait 0197f3c8-2b1e-7c4e-9d0a-1f2e3d4c5b6a
  selvedge wait $(selvedge submit demo.echo 7) --timeout 1m --json";

/// Waits for the end of an execution, or of a flow if no execution has the id.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let session = arguments.remote.open()?;
    match for_execution(&session, &arguments.id, arguments.timeout).await {
        Err(Failure::NotFound(_)) => for_flow(&session, &arguments.id, arguments.timeout)
            .await
            .map_err(|failure| neither(failure, &arguments.id)),
        ended => ended,
    }
}

/// Waits for an execution and prints its result.
pub async fn for_execution(session: &Session, id: &str, timeout: Option<Duration>) -> Result<(), Failure> {
    let spinner = spinner(&session.out, &format!("waiting for {id}"));
    let polled = tokio::select! {
        polled = poll(session, "executions", id, timeout) => polled,
        never = still_waits::tell(session, id, &spinner) => match never {},
    };
    spinner.finish_and_clear();
    let (response, answer) = polled?;
    if session.out.json {
        session.out.json_line(response.text()?)?;
    } else if text(&answer, "/outcome") == "completed" {
        session.out.line(result_text(response.text()?))?;
    }
    ended(text(&answer, "/outcome"), message(id, &answer))
}

/// Returns the end of an execution as a sentence. `ended` has its outcome and its error.
pub fn message(id: &str, ended: &Value) -> String {
    let outcome = text(ended, "/outcome");
    match at(ended, "/error/message").as_str() {
        Some(error) => format!("{id} ended as {outcome}: {}", headline(error)),
        None => format!("{id} ended as {outcome}"),
    }
}

/// Waits for a flow and prints the results of its members.
pub async fn for_flow(session: &Session, id: &str, timeout: Option<Duration>) -> Result<(), Failure> {
    let spinner = spinner(&session.out, &format!("waiting for {id}"));
    let polled = poll(session, "flows", id, timeout).await;
    spinner.finish_and_clear();
    let (response, answer) = polled?;
    match session.out.json {
        true => session.out.json_line(response.text()?)?,
        false => session.out.line(super::flow::ended_text(&answer))?,
    }
    let outcome = text(&answer, "/outcome");
    ended(outcome, format!("the flow {id} ended as {outcome}; `selvedge flow explain {id}` says why"))
}

/// Returns success for completion, and the failure of any other outcome.
pub fn ended(outcome: &str, message: String) -> Result<(), Failure> {
    match End::of_outcome(outcome) {
        None => Ok(()),
        Some(end) => Err(Failure::Ended { end, message }),
    }
}

/// Asks for the result until there is one. Returns the answer, with its text.
async fn poll(
    session: &Session,
    collection: &str,
    id: &str,
    timeout: Option<Duration>,
) -> Result<(Response, Value), Failure> {
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    let patient = session.patient();
    let mut asked_before = false;
    loop {
        let left = deadline.map_or(POLL, |deadline| deadline.saturating_duration_since(Instant::now()));
        // The first request asks without waiting, and fails if the server cannot be reached: the address may be wrong.
        let wait = if asked_before { left.min(POLL) } else { Duration::ZERO };
        let client = if asked_before { &patient.client } else { &session.client };
        let request = client.get(&[collection, id, "result"]).query("wait_ms", millis(wait)).waits(wait);
        let response = request.send().await?;
        asked_before = true;
        if response.status == 200 {
            let answer = response.json()?;
            return Ok((response, answer));
        }
        if left.is_zero() || deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            let message = format!("{id} has not ended in time; `selvedge explain {id}` says why");
            return Err(Failure::Ended { end: End::TimedOut, message });
        }
    }
}

/// Returns the text of the field `result` as the server sent it.
fn result_text(answer: &str) -> String {
    #[derive(serde::Deserialize)]
    struct Answer<'a> {
        #[serde(borrow)]
        result: &'a serde_json::value::RawValue,
    }
    serde_json::from_str::<Answer>(answer)
        .map_or_else(|_| compact(answer), |answer| answer.result.get().to_owned())
}
