//! Facts about the life of an execution outside of its attempts.

use super::declaration::declare;
use super::events::{next_events, revoked};
use super::{LeaseRef, Next, shorten};
use crate::state::StateName;
use crate::{Outcome, Timestamp};
use serde_json::json;
use std::collections::BTreeMap;

declare! {
    /// The execution was submitted without upstreams.
    pub struct Submitted {
        /// The time until which it is delayed; none if it waits for a worker at once.
        delayed_until: Option<Timestamp>,
    }
    publishes "execution.submitted" {} with "delayed_until_at" = delayed_until;
    then if delayed_until.is_some() { StateName::Delayed } else { StateName::Waiting };

    /// The delay of the execution ended, and it waits for a worker.
    pub struct DelayOver {}
    publishes "execution.ready" {};
    then StateName::Waiting;

    /// A further submission with its debounce key replaced its input and restarted its delay.
    pub struct Debounced {
        /// The new end of the delay.
        until: Timestamp,
    }
    publishes "execution.debounced" {} with "until_at" = until;
    then StateName::Delayed;

    /// The execution was cancelled.
    pub struct Cancelled {
        /// The lease that ended with it, if the execution was active.
        lease: Option<LeaseRef>,
        reason: Option<String>,
    }
    events {
        let last = ("execution.cancelled", json!({ "reason": reason }));
        revoked(lease.as_ref(), "cancelled", reason.as_deref().unwrap_or("cancelled"), last)
    };
    ends lease.as_ref()?.attempt(), "cancelled", Next::Terminal(Outcome::Cancelled), None;
    then StateName::Cancelled;
    shortens reason.iter_mut().for_each(shorten);

    /// An operator asked its worker to cancel.
    pub struct CancelRequested {
        reason: Option<String>,
        /// The end of the grace period.
        until: Timestamp,
    }
    publishes "execution.cancel_requested" { "reason": reason } with "until_at" = until;
    shortens reason.iter_mut().for_each(shorten);

    pub struct DeadlinePassed {
        /// The lease that ended with it, if the execution was active.
        lease: Option<LeaseRef>,
    }
    events {
        let last = ("execution.expired", json!({ "reason": "deadline" }));
        revoked(lease.as_ref(), "expired", "deadline", last)
    };
    ends lease.as_ref()?.attempt(), "expired", Next::Terminal(Outcome::Expired), None;
    then StateName::Expired;

    /// Its first attempt did not start in time.
    pub struct StartByPassed {}
    publishes "execution.expired" { "reason": "start_by" };
    then StateName::Expired;

    /// An operator rescheduled the execution.
    pub struct Rescheduled { next: Next, }
    events {
        let mut events = vec![("operator.rescheduled", json!({}))];
        events.extend(next_events(*next, "execution.delayed", json!({})));
        events
    };
    then next.state();

    /// An operator replayed the execution, which waits for a worker.
    pub struct Replayed { generation: u32, }
    publishes "execution.replayed" { "generation": generation }, "execution.ready" {};
    then StateName::Waiting;

    /// An operator changed its priority.
    pub struct Prioritised { from: i16, to: i16, }
    publishes "operator.prioritised" { "from": from, "to": to };

    /// An operator changed its tags.
    pub struct Tagged {
        set: BTreeMap<String, String>,
        /// The names of the removed tags.
        remove: Vec<String>,
    }
    publishes "operator.tagged" { "set": set, "remove": remove };
}
