//! The end of an execution and its cause: the last error, the operator, the limit, or the upstreams.

use super::upstreams::impossible;
use super::{Code, ExplainContext, Reason, Reference, ReferenceKind, deaths};
use crate::fact::{self, Fact, Next};
use crate::headline::headline;
use crate::history::{HistoryLine, attempt_end};
use crate::{Execution, Outcome};

/// Explains how an execution ended, and why.
pub(super) fn ended(row: &Execution, outcome: Outcome, around: &ExplainContext<'_>) -> Vec<Reason> {
    let attempts = match row.epoch {
        0 => "without an attempt".to_owned(),
        1 => "after 1 attempt".to_owned(),
        count => format!("after {count} attempts"),
    };
    let message = format!("it ended as {outcome} {attempts}");
    let mut reasons = vec![Reason::new(Code::Ended, message).until(row.delete_at())];
    // A line that cannot be read, or has moved to a page, leaves the cause unnamed.
    let lines = row.history.lines().unwrap_or_default();
    let line = lines.iter().rev().find(|line| is_end(&line.fact));
    match outcome {
        Outcome::Completed => {}
        Outcome::Failed => reasons.push(failed(row, line)),
        Outcome::Cancelled => reasons.push(cancelled(row, line, &lines)),
        Outcome::Expired => reasons.push(expired(row, line)),
        Outcome::Skipped => reasons.extend(impossible(row, around)),
    }
    reasons
}

/// Reports whether a fact ends the execution.
fn is_end(fact: &Fact) -> bool {
    match fact {
        Fact::Cancelled { .. }
        | Fact::DeadlinePassed { .. }
        | Fact::StartByPassed(fact::StartByPassed {}) => true,
        Fact::SuspensionTimedOut { .. } => true,
        Fact::Joined(fact::Joined { next, .. }) => matches!(next, Next::Terminal(_)),
        fact => attempt_end(fact).is_some_and(|(_, end)| matches!(end.next, Next::Terminal(_))),
    }
}

/// Names the last error, and the budget if that ended the execution.
fn failed(row: &Execution, line: Option<&HistoryLine>) -> Reason {
    let message = match &row.detail.error {
        None => "it failed without an error".to_owned(),
        Some(error) => {
            let (retries, limit) = (row.detail.retries, row.spec.policy.retry.max_retries);
            let class = error.class.as_str();
            let cause = headline(&error.message);
            format!("last error, of class {class}, after {retries} of {limit} retries: {cause}")
        }
    };
    let budget = line.and_then(|line| match &line.fact {
        Fact::Breached(fact::Breached { gate, .. }) => Some(Reference::gate(gate)),
        _ => None,
    });
    Reason { reference: budget, ..Reason::new(Code::Failed, message) }
}

/// Names the operator and the reason of a cancellation. If the worker ended a cancelled attempt itself, both are in the
/// request.
fn cancelled(row: &Execution, line: Option<&HistoryLine>, lines: &[HistoryLine]) -> Reason {
    let request = || lines.iter().rev().find(|line| matches!(line.fact, Fact::CancelRequested { .. }));
    let cause = match line.map(|line| &line.fact) {
        Some(Fact::Cancelled { .. }) => line,
        Some(Fact::SuspensionTimedOut { .. }) => None,
        Some(_) | None => request(),
    };
    let by = match cause.and_then(|line| line.actor.as_ref()) {
        Some(actor) => format!("it was cancelled by {actor}"),
        None => "it was cancelled".to_owned(),
    };
    let reason = cause.and_then(|line| match &line.fact {
        Fact::Cancelled(fact::Cancelled { reason, .. })
        | Fact::CancelRequested(fact::CancelRequested { reason, .. }) => reason.clone(),
        _ => None,
    });
    let timed_out = matches!(line.map(|line| &line.fact), Some(Fact::SuspensionTimedOut { .. }));
    let error =
        row.detail.error.as_ref().filter(|_| timed_out).map(|error| headline(&error.message).to_owned());
    let message = match reason.or(error) {
        Some(reason) => format!("{by}: {reason}"),
        None => by,
    };
    Reason::new(Code::Cancelled, message)
}

/// Names the limit that the execution exceeded.
fn expired(row: &Execution, line: Option<&HistoryLine>) -> Reason {
    let interrupted = |count: u32| {
        let limit = row.spec.policy.retry.max_interruptions;
        match limit {
            0 => "its worker died while running this, and no further attempt was allowed".to_owned(),
            _ => format!(
                "{} without progress, and at most {limit} further attempts were allowed",
                deaths(count + 1)
            ),
        }
    };
    let message = match line.map(|line| &line.fact) {
        Some(Fact::DeadlinePassed { .. }) => "its deadline passed".to_owned(),
        Some(Fact::StartByPassed(fact::StartByPassed {})) => "it did not start in time".to_owned(),
        Some(Fact::LeaseExpired { .. }) => interrupted(row.detail.interruptions_without_progress()),
        Some(_) | None => match &row.detail.error {
            Some(error) => headline(&error.message).to_owned(),
            None => "it ran out of time or of interruptions".to_owned(),
        },
    };
    let lease = line.and_then(|line| match &line.fact {
        Fact::LeaseExpired(fact::LeaseExpired { lease, .. })
        | Fact::DeadlinePassed(fact::DeadlinePassed { lease: Some(lease) }) => {
            Some(Reference::new(ReferenceKind::Lease, lease.id))
        }
        _ => None,
    });
    Reason { reference: lease, ..Reason::new(Code::Expired, message) }
}
