//! Timers: delays end, attempts and executions time out, leases expire, ended executions are deleted.
//!
//! A reconciler finds due rows without a lock. The rule reads the row again with a lock and acts only if the timer is
//! still due. So any number of servers may run the same reconciler, and each timer fires once.

use super::{after_failure, after_interruption, follow, suspend, waitpoint};
use crate::fact::{self, Fact, Failure, Next};
use crate::rows::Needs;
use crate::rule::{IfLocked, Locks, Phase, Profile, Rule};
use crate::text::duration;
use crate::{DueKind, Execution, ExecutionId, FailureClass, Outcome, Refusal, State, Work};

/// Fires a timer of an execution if it is due.
#[derive(Clone, Debug, PartialEq)]
pub struct FireTimer {
    pub execution: ExecutionId,
    pub timer: Timer,
}

/// A timer of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Timer {
    /// A timer in the execution's row.
    Due(DueKind),
    /// The expiry of its lease, which depends on the session too.
    LeaseExpiry,
}

/// The reply to [`FireTimer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerReply {
    /// The timer was due and fired.
    Fired,
    /// Another transaction has locked the row, or fired the timer before.
    Superseded,
    NotDue,
}

impl Rule for FireTimer {
    type Reply = Result<TimerReply, Refusal>;
    const PHASE: Phase = Phase::Timers;

    fn profile(&self) -> Profile {
        let locks = Locks { sessions: self.timer == Timer::LeaseExpiry, ..Locks::default() };
        Profile { if_locked: IfLocked::Skip, locks, ..Profile::on(self.execution) }
    }

    /// Needs the row, unless another transaction has locked it; for a lease expiry, also the locked session; for a
    /// suspension, also its steps.
    fn needs(&self, work: &Work, needs: &mut Needs) {
        needs.executions.lock_if_free([self.execution]);
        let Ok(Some(row)) = work.find(self.execution) else { return };
        match self.timer {
            Timer::LeaseExpiry => {
                needs.sessions.lock(row.state.lease().map(|lease| lease.session));
                waitpoint::needs_closed(row, needs);
            }
            Timer::Due(DueKind::WaitpointExpiry) => needs.queries.waitpoints.push(row.id),
            Timer::Due(_) => suspend::needs(row, needs),
        }
    }

    /// Fires the timer if it is still due.
    fn decide(&self, work: &mut Work) -> Result<TimerReply, Refusal> {
        let Some(row) = work.find(self.execution)?.cloned().filter(|row| !work.is_skipped(row.id)) else {
            return Ok(TimerReply::Superseded);
        };
        match self.timer {
            Timer::LeaseExpiry => Ok(expire_lease(&row, work)),
            Timer::Due(kind) => match row.due() {
                Some(due) if due.kind == kind && due.at <= work.now() => {
                    fire(&row, kind, work);
                    Ok(TimerReply::Fired)
                }
                Some(_) | None => Ok(TimerReply::NotDue),
            },
        }
    }
}

fn fire(row: &Execution, kind: DueKind, work: &mut Work) {
    match kind {
        DueKind::Delay => match row.state.suspension() {
            Some(suspension) => suspend::pass_times(row, suspension, work),
            None => work
                .apply(row.id, Fact::DelayOver(fact::DelayOver {}), None, |row| follow(row, Next::Waiting)),
        },
        DueKind::SuspensionTimeout => {
            if let Some(suspension) = row.state.suspension() {
                suspend::time_out(row, suspension, work);
            }
        }
        DueKind::WaitpointExpiry => drop(waitpoint::expire(row, work)),
        DueKind::Deadline => pass_deadline(row, work),
        DueKind::AttemptTimeout => time_out_attempt(row, work),
        DueKind::Retention => work.delete(row.id),
    }
}

/// Handles the deadline, the end of a grace period and the start-by time, which share one reconciler. The deadline
/// takes precedence.
fn pass_deadline(row: &Execution, work: &mut Work) {
    let now = work.now();
    let lease = row.lease_ref();
    if row.deadline_at().is_some_and(|at| at <= now) {
        let fact = Fact::DeadlinePassed(fact::DeadlinePassed { lease });
        work.apply(row.id, fact, None, |row| follow(row, Next::Terminal(Outcome::Expired)));
    } else if let Some(cancel) = row.detail.cancel.clone().filter(|cancel| cancel.until <= now) {
        let fact = Fact::Cancelled(fact::Cancelled { lease, reason: cancel.reason });
        work.apply(row.id, fact, cancel.actor, |row| follow(row, Next::Terminal(Outcome::Cancelled)));
    } else {
        work.apply(row.id, Fact::StartByPassed(fact::StartByPassed {}), None, |row| {
            follow(row, Next::Terminal(Outcome::Expired))
        });
    }
}

fn time_out_attempt(row: &Execution, work: &mut Work) {
    let Some(lease) = row.lease_ref() else { return };
    let limit = row.spec.policy.attempt_timeout_ms.unwrap_or_default();
    let error = Failure {
        message: format!("attempt {} ran longer than {}", lease.attempt(), duration(limit)),
        class: FailureClass::Timeout,
    };
    let next = after_failure(work, row, FailureClass::Timeout, None);
    work.apply(row.id, Fact::TimedOut(fact::TimedOut { lease, next }), None, |row| {
        follow(row, next);
        row.detail.error = Some(error);
        row.detail.retries += u32::from(!matches!(next, Next::Terminal(_)));
    });
}

/// Expires the lease if both its first term and the last renewal of its session have passed.
fn expire_lease(row: &Execution, work: &mut Work) -> TimerReply {
    let State::Active(lease) = &row.state else {
        return TimerReply::Superseded;
    };
    let now = work.now();
    let renewed_until = work.session(lease.session).and_then(|session| session.renewed_until());
    if lease.first_term() > now || renewed_until.is_some_and(|until| until > now) {
        return TimerReply::NotDue;
    }
    let Some(ended) = row.lease_ref() else {
        return TimerReply::Superseded;
    };
    let next = after_interruption(work, row);
    work.apply(row.id, Fact::LeaseExpired(fact::LeaseExpired { lease: ended.clone(), next }), None, |row| {
        follow(row, next);
        match next {
            Next::Terminal(_) | Next::Suspended => {}
            Next::Waiting | Next::Delayed(_) => {
                row.detail.interruptions += 1;
                row.detail.interrupted = Some(ended);
            }
        }
    });
    TimerReply::Fired
}
