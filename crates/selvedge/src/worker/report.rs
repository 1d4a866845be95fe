//! Reports of finished attempts that the engine has not accepted yet.
//!
//! Attempts that finish together are reported together, along with a claim for the slots that they free. While the
//! store is unavailable, reports are kept and retried. The fence of the lease makes a retry safe. Nothing new can be
//! claimed meanwhile, so there are never more pending reports than slots.

use super::WorkerSummary;
use super::handler::Failure;
use crate::{Error, Namespace, Refusal};
use selvedge_core::rules::claim::ClaimDraft;
use selvedge_core::rules::report::{Fence, Op, Reported};
use selvedge_engine::{ClaimResult, ReportItem};
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
    pub next: ClaimResult,
}

impl ReportAnswer {
    /// Returns true if a report has to be retried because the store is unavailable.
    pub fn store_is_unavailable(&self) -> bool {
        let mut results = self.attempts.iter().map(|(_, result)| result);
        results.any(|result| matches!(result, Err(Error::Store(error)) if error.is_transient()))
    }
}

/// Waits for `delay`, then reports these attempts and claims in the same call.
pub async fn report(
    namespace: Namespace,
    attempts: Vec<FinishedAttempt>,
    claim: Option<ClaimDraft>,
    delay: RetryDelay,
) -> ReportAnswer {
    sleep(delay.get()).await;
    match namespace.report_and_claim(attempts.iter().map(item).collect(), claim).await {
        Ok((results, next)) => {
            let results = results.into_iter().map(|result| result.map_err(Error::from));
            // A refused claim is refused again by the next one, which reports it.
            ReportAnswer {
                attempts: attempts.into_iter().zip(results).collect(),
                next: next.unwrap_or_default(),
            }
        }
        Err(Error::Store(selvedge_store::Error::Failed(detail))) => {
            tracing::warn!(detail, "a report of several attempts failed; they are reported one by one");
            report_one_by_one(&namespace, attempts).await
        }
        Err(error) => ReportAnswer {
            attempts: attempts.into_iter().map(|attempt| (attempt, Err(error.clone()))).collect(),
            next: ClaimResult::default(),
        },
    }
}

/// Reports each attempt alone, so that one that the store cannot save does not block the others.
async fn report_one_by_one(namespace: &Namespace, attempts: Vec<FinishedAttempt>) -> ReportAnswer {
    let mut answered = Vec::with_capacity(attempts.len());
    for attempt in attempts {
        let result = match namespace.report(vec![item(&attempt)], None).await {
            Ok((results, _)) => results.into_iter().next().map_or_else(
                || Err(Refusal::field("/ops", "has no answer").into()),
                |result| result.map_err(Error::from),
            ),
            Err(error) => Err(error),
        };
        answered.push((attempt, result));
    }
    ReportAnswer { attempts: answered, next: ClaimResult::default() }
}

fn item(attempt: &FinishedAttempt) -> ReportItem {
    Ok((attempt.fence, None, attempt.op.clone()))
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
                Op::Suspend(_) => summary.suspended += 1,
                Op::Progress { .. }
                | Op::Spawn(_)
                | Op::Frame { .. }
                | Op::Waitpoint { .. }
                | Op::Step(_)
                | Op::Cancelled { .. }
                | Op::Usage(_) => {}
            }
            return Settled::Done;
        }
        Err(Error::Store(error))
            if error.is_transient() && attempt.finished_at.elapsed() < REPORT_RETRY_LIMIT =>
        {
            tracing::debug!(%execution, %error, "a report is retried");
            return Settled::Report(attempt);
        }
        Err(Error::Refused(refusal)) if refuses_content(&refusal, &attempt.op) => {
            // The lease is still held and a retry would be refused again, so the attempt fails instead.
            let is_wait = matches!(attempt.op, Op::Suspend(_));
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
    let content = match refusal {
        Refusal::InvalidField { .. } | Refusal::UnknownField { .. } | Refusal::PayloadTooLarge { .. } => true,
        // A suspension is refused if a wait has the name of another step, or if there are too many steps.
        Refusal::IdempotencyMismatch { .. } | Refusal::LimitReached { .. } => matches!(op, Op::Suspend(_)),
        Refusal::NotFound { .. }
        | Refusal::StaleLease(_)
        | Refusal::AlreadyTerminal { .. }
        | Refusal::WrongState { .. }
        | Refusal::Token { .. }
        | Refusal::VersionMismatch { .. }
        | Refusal::Cycle { .. }
        | Refusal::UnknownNode { .. }
        | Refusal::UnknownBudget { .. }
        | Refusal::UnknownQuota { .. }
        | Refusal::FlowEnded { .. }
        | Refusal::LaneDraining { .. }
        | Refusal::Superseded { .. }
        | Refusal::TooMany { .. }
        | Refusal::Unreadable { .. } => false,
    };
    content && !matches!(op, Op::Fail { .. })
}
