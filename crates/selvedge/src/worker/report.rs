//! Reports of finished attempts that the engine has not accepted yet.
//!
//! Attempts that finish together are reported together, along with a claim for the slots that they free. While the
//! store is unavailable, reports are kept and retried. The fence of the lease makes a retry safe. Nothing new can be
//! claimed meanwhile, so there are never more pending reports than slots.

use super::WorkerSummary;
use super::handler::Failure;
use super::link::Link;
use super::protocol::{ClaimAnswer, Op, Report, Reported};
use crate::{Error, Refusal};
use selvedge_core::rules::claim::ClaimDraft;
use selvedge_core::rules::report::Fence;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Time for which a report is retried while the store is unavailable.
const REPORT_RETRY_LIMIT: Duration = Duration::from_secs(300);
const MIN_RETRY_DELAY: Duration = Duration::from_millis(100);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(2);

/// The delay before a call: zero, or doubling from 100 milliseconds to 2 seconds while calls fail.
#[derive(Clone, Copy, Debug, Default)]
pub struct RetryDelay(Duration);

impl RetryDelay {
    /// Returns the delay before the next call.
    pub fn get(self) -> Duration {
        self.0
    }

    /// Resets the delay to zero after a successful call.
    pub fn reset(&mut self) {
        self.0 = Duration::ZERO;
    }

    /// Increases the delay after a failed call.
    pub fn increase(&mut self) {
        self.0 = (self.0 * 2).clamp(MIN_RETRY_DELAY, MAX_RETRY_DELAY);
    }
}

/// A finished attempt whose report the engine has not accepted yet.
#[derive(Clone, Debug)]
pub struct FinishedAttempt {
    /// The fence of the attempt's lease.
    pub fence: Fence,
    /// The operation to report.
    pub op: Op,
    finished_at: Instant,
}

impl FinishedAttempt {
    /// Creates the record of an attempt that finished just now.
    pub fn new(fence: Fence, op: Op) -> Self {
        FinishedAttempt { fence, op, finished_at: Instant::now() }
    }
}

/// The answer to a report of several attempts, and to the claim that went with it.
pub struct ReportAnswer {
    /// The attempts, each with the answer to its report.
    pub attempts: Vec<(FinishedAttempt, Result<Reported, Error>)>,
    /// The answer to the claim.
    pub next: ClaimAnswer,
}

impl ReportAnswer {
    /// Returns true if a report has to be retried because the store is unavailable.
    pub fn store_is_unavailable(&self) -> bool {
        let mut results = self.attempts.iter().map(|(_, result)| result);
        results.any(|result| result.as_ref().is_err_and(Error::is_transient))
    }
}

/// Waits for `delay`, then reports these attempts and claims in the same call.
pub async fn report(
    link: Link,
    attempts: Vec<FinishedAttempt>,
    claim: Option<ClaimDraft>,
    delay: RetryDelay,
) -> ReportAnswer {
    sleep(delay.get()).await;
    match link.report(attempts.iter().map(item).collect(), claim).await {
        Ok((results, next)) => ReportAnswer { attempts: attempts.into_iter().zip(results).collect(), next },
        Err(error) if error.is_transient() || matches!(error, Error::Closed) => ReportAnswer {
            attempts: attempts.into_iter().map(|attempt| (attempt, Err(error.clone()))).collect(),
            next: ClaimAnswer::default(),
        },
        Err(error) => {
            tracing::warn!(%error, "a report of several attempts failed; they are reported one by one");
            report_one_by_one(&link, attempts).await
        }
    }
}

/// Reports each attempt alone, so that one that the store cannot save does not block the others.
async fn report_one_by_one(link: &Link, attempts: Vec<FinishedAttempt>) -> ReportAnswer {
    let mut answered = Vec::with_capacity(attempts.len());
    for attempt in attempts {
        let result = match link.report(vec![item(&attempt)], None).await {
            Ok((results, _)) => {
                let no_answer = || Err(Error::Failed("a report has no answer".into()));
                results.into_iter().next().unwrap_or_else(no_answer)
            }
            Err(error) => Err(error),
        };
        answered.push((attempt, result));
    }
    ReportAnswer { attempts: answered, next: ClaimAnswer::default() }
}

fn item(attempt: &FinishedAttempt) -> Report {
    (attempt.fence, None, attempt.op.clone())
}

/// The consequence of the answer to one report.
pub enum Settled {
    /// The attempt is settled: it was accepted, or its report was given up.
    Done,
    /// This has to be reported: the same attempt again, or a failure in its place.
    Report(FinishedAttempt),
}

/// Processes the answer to the report of one attempt, and counts the attempt if it is settled.
pub fn settle(
    attempt: FinishedAttempt,
    result: Result<Reported, Error>,
    summary: &mut WorkerSummary,
) -> Settled {
    let execution = attempt.fence.execution;
    let error = match result {
        Ok(_) => {
            match attempt.op {
                Op::Complete { .. } => summary.completed += 1,
                Op::Fail { .. } => summary.failed += 1,
                Op::Delay { .. } | Op::Release => summary.released += 1,
                Op::Suspend { .. } => summary.suspended += 1,
                Op::Cancelled { .. } => summary.cancelled += 1,
                Op::Progress { .. }
                | Op::Spawn { .. }
                | Op::Frame { .. }
                | Op::Waitpoint(_)
                | Op::Step(_)
                | Op::Usage { .. } => {}
            }
            return Settled::Done;
        }
        Err(error) if error.is_transient() && attempt.finished_at.elapsed() < REPORT_RETRY_LIMIT => {
            tracing::debug!(%execution, %error, "a report is retried");
            return Settled::Report(attempt);
        }
        Err(Error::Invalid(refusal) | Error::Conflict(refusal)) if refuses_content(&refusal, &attempt.op) => {
            // The lease is still held and a retry would be refused again, so the attempt fails instead.
            let is_wait = matches!(attempt.op, Op::Suspend { .. });
            let subject = if is_wait { "wait" } else { "return value" };
            let failure = Failure::permanent(format!("the {subject} of the handler was refused: {refusal}"));
            return Settled::Report(FinishedAttempt::new(attempt.fence, failure.into()));
        }
        Err(error) => error,
    };
    tracing::warn!(%execution, attempt = attempt.fence.attempt, %error, "the end of an attempt was not accepted");
    summary.aborted += 1;
    Settled::Done
}

/// Returns true if the refusal concerns the content of the report and not the lease.
fn refuses_content(refusal: &Refusal, op: &Op) -> bool {
    let content = match refusal.code.as_str() {
        "invalid_field" | "unknown_field" | "payload_too_large" => true,
        // A suspension is refused if a wait has the name of another step, or if there are too many steps.
        "idempotency_mismatch" | "limit_reached" => matches!(op, Op::Suspend { .. }),
        // Nobody has asked for the cancellation that the handler acknowledges.
        "wrong_state" => matches!(op, Op::Cancelled { .. }),
        _ => false,
    };
    content && !matches!(op, Op::Fail { .. })
}
