//! Facts: the compact record of changes, one fact per change, in the execution's history and in the event log.
//!
//! A fact is published as one or more public events: a claim, for instance, is one fact and two events,
//! `lease.acquired` and `execution.started`. `Recorded` says what a fact means; each subject has a file.
//!
//! To add a fact, append it to the list below, and write its struct and its `Recorded` in the file of its subject.

mod administration;
mod attempts;
mod events;
mod flows;
mod gates;
mod life;
mod parts;
mod schedules;
mod suspensions;

pub use administration::*;
pub use attempts::*;
pub use events::{EVENT_TYPES, EventBody};
pub use flows::*;
pub use gates::*;
pub use life::*;
pub use parts::{EdgeUpdate, Failure, LeaseRef, Next, RenewedLease, SuspensionNotice, WebhookChange};
pub use schedules::*;
pub use suspensions::*;

use crate::history::{AttemptEnd, LINE_MESSAGE_LIMIT};
use crate::state::StateName;
use crate::text;
use crate::transition::Cause;
use serde::{Deserialize, Serialize};

/// Gives the readers of the log the events, the end of an attempt and the state that follow from a fact.
pub(crate) trait Recorded {
    /// Returns the public events, in order, with the texts as they are stored.
    fn public_events(&self) -> Vec<EventBody>;

    /// Returns the attempt that the change ended, and its end. Default: it ended none.
    fn attempt_end(&self) -> Option<(u32, AttemptEnd)> {
        None
    }

    /// Returns the state after the change; none if it does not change the state. Default: the state that follows the
    /// end of the attempt.
    fn state_after(&self) -> Option<StateName> {
        self.attempt_end().map(|(_, end)| end.next.state())
    }

    /// Shortens each message to at most [`LINE_MESSAGE_LIMIT`] bytes. Default: the fact has no message.
    fn shorten(&mut self) {}
}

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
    administration::TokenKeysRotated,
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
    administration::ApiKeyCreated,
    administration::ApiKeyRevoked,
    administration::BulkJobStarted,
    administration::BulkJobEnded,
    life::Debounced: Debounce,
    administration::WebhookChanged,
    schedules::ScheduleSaved,
    schedules::ScheduleDeleted,
    schedules::ScheduleFired,
    schedules::ScheduleSkipped,
    schedules::ScheduleRefused,
    administration::InboxRefused,
}

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
