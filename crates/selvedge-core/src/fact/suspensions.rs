//! Facts about suspensions, signals, waitpoints and steps.

use super::events::{EventBody, attempt_ended, next_events, time_data};
use super::{Next, Recorded, SuspensionNotice};
use crate::history::AttemptEnd;
use crate::signal::Effect;
use crate::state::StateName;
use crate::step::StepKind;
use crate::suspension::{OnTimeout, ResumedBy};
use crate::{Name, Suspension, Timestamp, WaitpointId};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Its worker suspended the execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Suspended {
    /// The suspension as requested, before earlier signals and elapsed times are applied.
    pub suspension: Suspension,
    /// The state that follows: waiting, if the suspension was fulfilled at once.
    pub next: Next,
    /// The digest of the report.
    pub digest: u64,
}

impl Recorded for Suspended {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { suspension, next, .. } = self;
        let next = if matches!(next, Next::Terminal(_)) { *next } else { Next::Suspended };
        let mut events = attempt_ended(&suspension.lease, "suspended", None, next, "execution.delayed");
        if let Some((_, data)) = events.last_mut().filter(|_| next == Next::Suspended) {
            *data = suspension.public_data();
        }
        events
    }

    fn attempt_end(&self) -> Option<(u32, AttemptEnd)> {
        Some((
            self.suspension.lease.attempt(),
            AttemptEnd { outcome: "suspended", next: self.next, digest: Some(self.digest) },
        ))
    }

    fn state_after(&self) -> Option<StateName> {
        // A suspension that is fulfilled at once is followed by a fact of its own.
        Some(match self.next {
            Next::Terminal(_) => self.next.state(),
            Next::Waiting | Next::Delayed(_) | Next::Suspended => StateName::Suspended,
        })
    }
}

/// A signal was delivered to the execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Signalled {
    /// The signal's number.
    pub number: u32,
    /// The signal's name.
    pub name: Name,
    pub source: Name,
    /// The id and name of the waitpoint through which it was delivered, if it was.
    pub waitpoint: Option<(WaitpointId, Name)>,
    /// The size of the payload, in bytes.
    pub bytes: u32,
    /// The effect of the delivery.
    pub effect: Effect,
}

impl Recorded for Signalled {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { number, name, source, waitpoint, effect, .. } = self;
        let data = json!({
            "number": number, "name": name, "source": source, "effect": effect.as_str(),
            "waitpoint": waitpoint.as_ref().map(|(id, _)| id),
        });
        vec![("signal.delivered", data)]
    }
}

/// Part of its suspension was fulfilled, and it remains suspended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Noticed {
    /// The fulfilled part.
    pub notice: SuspensionNotice,
}

impl Recorded for Noticed {
    fn public_events(&self) -> Vec<EventBody> {
        vec![match self.notice {
            SuspensionNotice::Escalated(wait) => ("execution.escalated", json!({ "wait": wait })),
            SuspensionNotice::Time => ("execution.noticed", json!({ "of": "time" })),
            SuspensionNotice::Operator => ("execution.noticed", json!({ "of": "operator" })),
            SuspensionNotice::Gate => ("execution.noticed", json!({ "of": "gate" })),
            SuspensionNotice::Children => ("execution.noticed", json!({ "of": "children" })),
        }]
    }
}

/// The execution was resumed and waits for a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resumed {
    /// The number of the suspension that ended.
    pub suspension: u32,
    /// The reason for the resumption.
    pub by: ResumedBy,
    /// The numbers of the signals that its waits took.
    pub signals: Vec<u32>,
    /// The names of the steps that were recorded.
    pub steps: Vec<Name>,
}

impl Recorded for Resumed {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { suspension, by, signals, steps } = self;
        let recorded = steps.iter().map(|name| ("step.recorded", json!({ "name": name })));
        let mut events: Vec<EventBody> = recorded.collect();
        let data = json!({ "suspension": suspension, "by": by.as_str(), "signals": signals });
        events.push(("execution.resumed", data));
        events.push(("execution.ready", json!({})));
        events
    }

    fn state_after(&self) -> Option<StateName> {
        Some(StateName::Waiting)
    }
}

/// A wait of its suspension timed out and ended the execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SuspensionTimedOut {
    /// The number of the suspension that ended.
    pub suspension: u32,
    /// The action set for the timeout.
    pub on_timeout: OnTimeout,
    /// The state that follows.
    pub next: Next,
}

impl Recorded for SuspensionTimedOut {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { suspension, on_timeout, next } = self;
        let data = json!({
            "reason": "suspension_timeout", "suspension": suspension, "on_timeout": on_timeout.as_str(),
        });
        next_events(*next, "execution.delayed", data)
    }

    fn state_after(&self) -> Option<StateName> {
        Some(self.next.state())
    }
}

/// A waitpoint was created, or its token was signed with another key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitpointCreated {
    /// The waitpoint's id.
    pub waitpoint: WaitpointId,
    /// The waitpoint's name.
    pub name: Name,
    /// The source of signals delivered through it.
    pub source: Name,
    /// The time at which it expires; none if it does not.
    pub expires_at: Option<Timestamp>,
}

impl Recorded for WaitpointCreated {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { waitpoint, name, source, expires_at } = self;
        let mut data = time_data("expires_at", *expires_at);
        data["waitpoint"] = json!(waitpoint);
        data["name"] = json!(name);
        data["source"] = json!(source);
        vec![("waitpoint.created", data)]
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitpointExpired {
    /// The waitpoint's id.
    pub waitpoint: WaitpointId,
    /// The waitpoint's name.
    pub name: Name,
}

impl Recorded for WaitpointExpired {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { waitpoint, name } = self;
        vec![("waitpoint.expired", json!({ "waitpoint": waitpoint, "name": name }))]
    }
}

/// An operator revoked the token of a waitpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitpointRevoked {
    /// The waitpoint's id.
    pub waitpoint: WaitpointId,
    /// The waitpoint's name.
    pub name: Name,
}

impl Recorded for WaitpointRevoked {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { waitpoint, name } = self;
        vec![("waitpoint.revoked", json!({ "waitpoint": waitpoint, "name": name }))]
    }
}

/// An operator issued a new token of a waitpoint, which is open again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitpointReissued {
    /// The waitpoint's id.
    pub waitpoint: WaitpointId,
    /// The waitpoint's name.
    pub name: Name,
    /// The time at which it expires; none if it does not.
    pub expires_at: Option<Timestamp>,
}

impl Recorded for WaitpointReissued {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { waitpoint, name, expires_at } = self;
        let mut data = time_data("expires_at", *expires_at);
        data["waitpoint"] = json!(waitpoint);
        data["name"] = json!(name);
        vec![("waitpoint.reissued", data)]
    }
}

/// Its worker recorded a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stepped {
    /// The step's name.
    pub name: Name,
    /// The step's kind.
    pub kind: StepKind,
    /// The index of the attempt that recorded it.
    pub attempt: u32,
    /// The duration of the step, in milliseconds.
    pub duration_ms: i64,
    /// The size of the result, in bytes.
    pub bytes: u32,
}

impl Recorded for Stepped {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { name, kind, attempt, duration_ms, .. } = self;
        let data = json!({
            "name": name, "kind": kind.as_str(), "attempt": attempt, "duration_ms": duration_ms,
        });
        vec![("step.recorded", data)]
    }
}
