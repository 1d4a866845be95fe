//! Facts about the life of an execution outside of its attempts.

use super::events::{EventBody, next_events, revoked, time_data};
use super::{LeaseRef, Next, Recorded, shorten};
use crate::history::AttemptEnd;
use crate::state::StateName;
use crate::{Outcome, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;

/// The execution was submitted without upstreams.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Submitted {
    /// The time until which it is delayed; none if it waits for a worker at once.
    pub delayed_until: Option<Timestamp>,
}

impl Recorded for Submitted {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { delayed_until } = self;
        vec![("execution.submitted", time_data("delayed_until_at", *delayed_until))]
    }

    fn state_after(&self) -> Option<StateName> {
        Some(if self.delayed_until.is_some() { StateName::Delayed } else { StateName::Waiting })
    }
}

/// Its delay ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DelayOver;

impl Recorded for DelayOver {
    fn public_events(&self) -> Vec<EventBody> {
        vec![("execution.ready", json!({}))]
    }

    fn state_after(&self) -> Option<StateName> {
        Some(StateName::Waiting)
    }
}

/// A further submission with its debounce key replaced its input and restarted its delay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Debounced {
    /// The new end of the delay.
    pub until: Timestamp,
}

impl Recorded for Debounced {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { until } = self;
        vec![("execution.debounced", time_data("until_at", Some(*until)))]
    }

    fn state_after(&self) -> Option<StateName> {
        Some(StateName::Delayed)
    }
}

/// The execution was cancelled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cancelled {
    /// The lease that ended with it, if the execution was active.
    pub lease: Option<LeaseRef>,
    /// The operator's reason.
    pub reason: Option<String>,
}

impl Recorded for Cancelled {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { lease, reason } = self;
        let last = ("execution.cancelled", json!({ "reason": reason }));
        revoked(lease.as_ref(), "cancelled", reason.as_deref().unwrap_or("cancelled"), last)
    }

    fn attempt_end(&self) -> Option<(u32, AttemptEnd)> {
        let lease = self.lease.as_ref()?;
        Some((
            lease.attempt(),
            AttemptEnd { outcome: "cancelled", next: Next::Terminal(Outcome::Cancelled), digest: None },
        ))
    }

    fn state_after(&self) -> Option<StateName> {
        Some(StateName::Cancelled)
    }

    fn shorten(&mut self) {
        self.reason.iter_mut().for_each(shorten);
    }
}

/// An operator asked its worker to cancel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CancelRequested {
    /// The operator's reason.
    pub reason: Option<String>,
    /// The end of the grace period.
    pub until: Timestamp,
}

impl Recorded for CancelRequested {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { reason, until } = self;
        let mut data = time_data("until_at", Some(*until));
        data["reason"] = json!(reason);
        vec![("execution.cancel_requested", data)]
    }

    fn shorten(&mut self) {
        self.reason.iter_mut().for_each(shorten);
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeadlinePassed {
    /// The lease that ended with it, if the execution was active.
    pub lease: Option<LeaseRef>,
}

impl Recorded for DeadlinePassed {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { lease } = self;
        let last = ("execution.expired", json!({ "reason": "deadline" }));
        revoked(lease.as_ref(), "expired", "deadline", last)
    }

    fn attempt_end(&self) -> Option<(u32, AttemptEnd)> {
        let lease = self.lease.as_ref()?;
        Some((
            lease.attempt(),
            AttemptEnd { outcome: "expired", next: Next::Terminal(Outcome::Expired), digest: None },
        ))
    }

    fn state_after(&self) -> Option<StateName> {
        Some(StateName::Expired)
    }
}

/// Its first attempt did not start in time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StartByPassed;

impl Recorded for StartByPassed {
    fn public_events(&self) -> Vec<EventBody> {
        vec![("execution.expired", json!({ "reason": "start_by" }))]
    }

    fn state_after(&self) -> Option<StateName> {
        Some(StateName::Expired)
    }
}

/// An operator rescheduled the execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rescheduled {
    /// The state that follows.
    pub next: Next,
}

impl Recorded for Rescheduled {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { next } = self;
        let mut events = vec![("operator.rescheduled", json!({}))];
        events.extend(next_events(*next, "execution.delayed", json!({})));
        events
    }

    fn state_after(&self) -> Option<StateName> {
        Some(self.next.state())
    }
}

/// An operator replayed the execution, which waits for a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Replayed {
    pub generation: u32,
}

impl Recorded for Replayed {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { generation } = self;
        vec![("execution.replayed", json!({ "generation": generation })), ("execution.ready", json!({}))]
    }

    fn state_after(&self) -> Option<StateName> {
        Some(StateName::Waiting)
    }
}

/// An operator changed its priority.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prioritised {
    /// The old priority.
    pub from: i16,
    /// The new priority.
    pub to: i16,
}

impl Recorded for Prioritised {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { from, to } = self;
        vec![("operator.prioritised", json!({ "from": from, "to": to }))]
    }
}

/// An operator changed its tags.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tagged {
    /// The tags that were set.
    pub set: BTreeMap<String, String>,
    /// The names of the tags that were removed.
    pub remove: Vec<String>,
}

impl Recorded for Tagged {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { set, remove } = self;
        vec![("operator.tagged", json!({ "set": set, "remove": remove }))]
    }
}
