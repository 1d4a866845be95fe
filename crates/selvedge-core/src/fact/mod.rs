//! Facts: the compact record of changes, one fact per change, in the execution's history and in the event log.
//!
//! A fact is published as one or more public events: a claim, for instance, is one fact and two events,
//! `lease.acquired` and `execution.started`. Each subject has a file that declares its facts.
//!
//! To add a fact, declare it in the file of its subject, append it to the list below, and add its new types of events.

mod api_keys;
mod attempts;
mod bulk_jobs;
mod declaration;
mod events;
mod flows;
mod gates;
mod inbox;
mod life;
mod parts;
mod schedules;
mod suspensions;
mod webhooks;

pub use api_keys::*;
pub use attempts::*;
pub use bulk_jobs::*;
pub use events::EventBody;
pub use flows::*;
pub use gates::*;
pub use inbox::*;
pub use life::*;
pub use parts::*;
pub use schedules::*;
pub use suspensions::*;
pub use webhooks::*;

pub(crate) use declaration::Recorded;

use crate::history::LINE_MESSAGE_LIMIT;
use crate::text;
use crate::transition::Cause;
use serde::{Deserialize, Serialize};

macro_rules! cause {
    () => {
        None
    };
    ($cause:ident) => {
        Some(Cause::$cause)
    };
}

/// Defines the facts, from the list in their stored order: `subject::Fact: Cause`, or `subject::Fact` if it is not about
/// one execution.
macro_rules! facts {
    ($($subject:ident::$name:ident $(: $cause:ident)?,)*) => {
        /// A recorded change of an execution, a flow, a session or a gate. In the facts about an execution, "its" means
        /// the execution's.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        pub enum Fact {
            $($name($subject::$name),)*
        }

        impl Fact {
            /// Returns the cause of the change; none for facts that are not about one execution.
            pub fn cause(&self) -> Option<Cause> {
                match self {
                    $(Fact::$name(_) => cause!($($cause)?),)*
                }
            }

            pub(crate) fn recorded(&self) -> &dyn Recorded {
                match self {
                    $(Fact::$name(fact) => fact,)*
                }
            }

            fn recorded_mut(&mut self) -> &mut dyn Recorded {
                match self {
                    $(Fact::$name(fact) => fact,)*
                }
            }
        }
    };
}

// Facts are stored with postcard, which stores neither the names of variants nor of fields. So append facts; never
// change, reorder or remove one.
facts! {
    life::Submitted: Submit,
    life::DelayOver: DelayOver,
    attempts::Claimed: Claim,
    attempts::Completed: Complete,
    attempts::Failed: Fail,
    attempts::TimedOut: AttemptTimeout,
    attempts::LeaseExpired: LeaseExpiry,
    attempts::Delayed: Delay,
    attempts::Released: Release,
    attempts::Orphaned: Orphan,
    attempts::Revoked: Revoke,
    life::Cancelled: Cancel,
    life::CancelRequested: RequestCancel,
    life::DeadlinePassed: Deadline,
    life::StartByPassed: StartBy,
    life::Rescheduled: Reschedule,
    life::Replayed: Replay,
    attempts::Progressed: Progress,
    life::Prioritised: Prioritise,
    life::Tagged: Tag,
    attempts::Renewed,
    attempts::DrainRequested,
    flows::SubmittedWaitingDependencies: Submit,
    flows::UpstreamChanged: UpstreamChange,
    flows::Joined: Join,
    flows::Reopened: Reopen,
    flows::ReplayedWaitingDependencies: Replay,
    flows::Wired: Wire,
    flows::FlowSubmitted,
    flows::FlowGrown,
    flows::FlowEnded,
    flows::FlowReopened,
    flows::FlowCancelRequested,
    suspensions::Suspended: Suspend,
    suspensions::Signalled: Signal,
    suspensions::Noticed: Notice,
    suspensions::Resumed: Resume,
    suspensions::SuspensionTimedOut: SuspensionTimeout,
    suspensions::WaitpointCreated: Waitpoint,
    suspensions::WaitpointExpired: Waitpoint,
    suspensions::WaitpointRevoked: Waitpoint,
    suspensions::Stepped: Step,
    suspensions::TokenKeysRotated,
    gates::Held: Hold,
    gates::Admitted: Admit,
    gates::GateConfigured,
    gates::GateRemoved,
    gates::Breached: Breach,
    gates::Spent,
    gates::LimitReached,
    gates::BudgetReset,
    gates::Adopted: Adopt,
    attempts::CancelAcknowledged: Cancel,
    suspensions::WaitpointReissued: Waitpoint,
    flows::EndAwaited: Await,
    api_keys::ApiKeyCreated,
    api_keys::ApiKeyRevoked,
    bulk_jobs::BulkJobStarted,
    bulk_jobs::BulkJobEnded,
    life::Debounced: Debounce,
    webhooks::WebhookChanged,
    schedules::ScheduleSaved,
    schedules::ScheduleDeleted,
    schedules::ScheduleFired,
    schedules::ScheduleSkipped,
    schedules::ScheduleRefused,
    inbox::InboxRefused,
}

/// All types of public events. Filters are checked against them.
pub const EVENT_TYPES: &[&str] = &[
    "execution.submitted",
    "execution.ready",
    "execution.started",
    "execution.completed",
    "execution.failed",
    "execution.cancelled",
    "execution.expired",
    "execution.skipped",
    "execution.retry_scheduled",
    "execution.delayed",
    "execution.debounced",
    "execution.cancel_requested",
    "execution.progressed",
    "execution.replayed",
    "execution.reopened",
    "execution.wired",
    "execution.suspended",
    "execution.resumed",
    "execution.noticed",
    "execution.escalated",
    "signal.delivered",
    "waitpoint.created",
    "waitpoint.expired",
    "waitpoint.revoked",
    "waitpoint.reissued",
    "step.recorded",
    "operator.token_keys_rotated",
    "key.created",
    "key.revoked",
    "operator.bulk_job_started",
    "operator.bulk_job_ended",
    "webhook.created",
    "webhook.changed",
    "webhook.deleted",
    "webhook.secret_rotated",
    "webhook.paused",
    "webhook.missed",
    "operator.schedule_saved",
    "operator.schedule_deleted",
    "schedule.fired",
    "schedule.skipped",
    "schedule.refused",
    "inbox.refused",
    "execution.held",
    "execution.released",
    "execution.adopted",
    "operator.gate_configured",
    "operator.gate_removed",
    "budget.used",
    "budget.soft_breach",
    "budget.hard_breach",
    "budget.reset",
    "attempt.ended",
    "lease.acquired",
    "lease.renewed",
    "lease.expired",
    "lease.reclaimed",
    "lease.revoked",
    "lease.orphaned",
    "lease.released",
    "operator.rescheduled",
    "operator.prioritised",
    "operator.tagged",
    "operator.drain_requested",
    "edge.resolved",
    "group.decided",
    "flow.submitted",
    "flow.grown",
    "flow.completed",
    "flow.failed",
    "flow.cancelled",
    "flow.reopened",
    "flow.cancel_requested",
];

impl Fact {
    /// Returns the public events of this fact, in order. Texts have no U+0000, also those of facts that were stored with it.
    pub fn public_events(&self) -> Vec<EventBody> {
        let mut events = self.recorded().public_events();
        events.iter_mut().for_each(|(_, data)| text::replace_nul_in(data));
        events
    }

    /// Returns the error of the attempt that failed, without U+0000, also if it was stored with it. No other end has an error.
    pub fn error(&self) -> Option<Failure> {
        let Fact::Failed(fact) = self else { return None };
        let mut error = fact.error.clone();
        text::replace_nul(&mut error.message);
        Some(error)
    }

    /// Returns the fact as the execution's history keeps it: with at most [`LINE_MESSAGE_LIMIT`] bytes of each message.
    pub fn shortened(mut self) -> Fact {
        self.recorded_mut().shorten();
        self
    }

    /// Reports whether the fact is a line of the execution's history. Left out are facts that can occur thousands of
    /// times: progress, further submissions, undecided changes of upstreams, and signals, waitpoints and steps, which have rows of their
    /// own; and that a parent awaits its end, which changes nothing for the execution itself.
    pub fn is_history(&self) -> bool {
        self.cause().is_some()
            && !matches!(
                self,
                Fact::Progressed { .. }
                    | Fact::Debounced { .. }
                    | Fact::UpstreamChanged { .. }
                    | Fact::Signalled { .. }
                    | Fact::WaitpointCreated { .. }
                    | Fact::Stepped { .. }
                    | Fact::EndAwaited(_)
            )
    }
}

/// Shortens a message for a history line.
fn shorten(message: &mut String) {
    *message = text::shortened(std::mem::take(message), LINE_MESSAGE_LIMIT);
}
