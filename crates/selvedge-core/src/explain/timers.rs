//! Reasons that time ends: delays, waits, leases, timeouts and deadlines.

use super::{Code, ExplainContext, Reason, Reference, ReferenceKind};
use crate::headline::headline;
use crate::suspension::{OnTimeout, Wait};
use crate::{Execution, Lease, Session, State, Suspension, Timestamp};

/// Explains which worker runs an active execution, and until when.
pub(super) fn active(row: &Execution, lease: &Lease, around: &ExplainContext<'_>) -> Vec<Reason> {
    let session = around.sessions.iter().find(|session| session.id == lease.session);
    let renewed = session.and_then(Session::renewed_until).unwrap_or_default();
    let (worker, instance) = (&lease.worker, &lease.instance);
    let attempt = row.attempt().unwrap_or_default();
    let message = format!("it is active: worker {worker} (instance {instance}) runs attempt {attempt}");
    let leased = Reason::new(Code::Active, message)
        .about(Reference::new(ReferenceKind::Lease, lease.id))
        .until(Some(lease.first_term().max(renewed)));
    let cancel = row.detail.cancel.as_ref().map(|cancel| {
        let message = "its worker was asked to cancel and has until the end of the grace period";
        Reason::new(Code::CancelRequested, message).until(Some(cancel.until))
    });
    let timeout = row.attempt_timeout_at().map(|at| {
        let message = "its attempt times out at that time, however well its lease is renewed";
        Reason::new(Code::AttemptTimeout, message).until(Some(at))
    });
    [leased].into_iter().chain(cancel).chain(timeout).collect()
}

/// Explains the waits of a suspended execution.
pub(super) fn suspended(suspension: &Suspension) -> Vec<Reason> {
    suspension.waits.iter().flat_map(|wait| [Some(condition(wait)), timeout(wait)]).flatten().collect()
}

fn condition(wait: &Wait) -> Reason {
    let message = format!("it waits for {}", wait.condition.describe());
    let step = wait.step.as_ref().map(|step| Reference::new(ReferenceKind::Step, step));
    Reason { reference: step, ..Reason::new(Code::Suspended, message).until(wait.next_time()) }
}

fn timeout(wait: &Wait) -> Option<Reason> {
    let at = wait.timeout_at?;
    let message = match wait.escalated {
        true => "the wait timed out and was escalated; it continues".to_owned(),
        false => format!("when the wait times out, {}", on_timeout(wait.on_timeout)),
    };
    let until = Some(at).filter(|_| !wait.escalated);
    Some(Reason::new(Code::SuspensionTimeout, message).until(until))
}

fn on_timeout(action: OnTimeout) -> &'static str {
    match action {
        OnTimeout::Fail => "it fails",
        OnTimeout::Cancel => "it is cancelled",
        OnTimeout::Expire => "it expires",
        OnTimeout::Resume => "it resumes",
        OnTimeout::Escalate => "it is escalated and goes on waiting",
    }
}

/// Explains the delay of an execution.
pub(super) fn delayed(row: &Execution, until: Timestamp) -> Reason {
    let detail = &row.detail;
    let reason = if detail.interrupted.is_some() {
        let message = format!("it backs off after interruption {}", detail.interruptions_without_progress());
        Reason::new(Code::Backoff, message)
    } else if let Some(error) = detail.error.as_ref().filter(|_| detail.retries > 0) {
        let (limit, retry) = (row.spec.policy.retry.max_retries, detail.retries);
        let message =
            format!("it backs off before retry {retry} of {limit}, after: {}", headline(&error.message));
        Reason::new(Code::Backoff, message)
    } else {
        match row.waits_for_quiet() {
            true => {
                let message =
                    "it starts when no further submission with its debounce key has come until then";
                Reason::new(Code::Debounced, message)
            }
            false => Reason::new(Code::Delayed, "its start was delayed by request"),
        }
    };
    reason.until(Some(until))
}

/// Names the deadline and the time by which the execution must start.
pub(super) fn deadlines(row: &Execution) -> Vec<Reason> {
    let live = row.state.outcome().is_none();
    let is_unstarted = match row.state {
        State::WaitingDependencies | State::Waiting | State::Delayed { .. } | State::Held(_) => true,
        State::Active(_) | State::Suspended(_) | State::Terminal(_) => false,
    };
    let deadline = row.deadline_at().filter(|_| live).map(|at| {
        let message = "it expires at that time unless it has ended by then";
        Reason::new(Code::Deadline, message).until(Some(at))
    });
    let start_by = row.start_by_at().filter(|_| is_unstarted).map(|at| {
        let message = "it expires at that time unless it has started by then";
        Reason::new(Code::StartBy, message).until(Some(at))
    });
    deadline.into_iter().chain(start_by).collect()
}
