//! Facts about suspensions, signals, waitpoints with their tokens, and steps.

use super::declaration::declare;
use super::events::{attempt_ended, next_events};
use super::{Next, SuspensionNotice};
use crate::signal::Effect;
use crate::state::StateName;
use crate::step::StepKind;
use crate::suspension::{OnTimeout, ResumedBy};
use crate::token::TokenKeyId;
use crate::{Name, Suspension, Timestamp, WaitpointId};
use serde_json::json;

declare! {
    /// Its worker suspended the execution.
    pub struct Suspended {
        /// The suspension as requested, before earlier signals and elapsed times are applied.
        suspension: Suspension,
        /// The state that follows: waiting, if the suspension was fulfilled at once.
        next: Next,
        /// The digest of the report.
        digest: u64,
    }
    events {
        let next = if matches!(next, Next::Terminal(_)) { *next } else { Next::Suspended };
        let mut events = attempt_ended(&suspension.lease, "suspended", None, next, "execution.delayed");
        if let Some((_, data)) = events.last_mut().filter(|_| next == Next::Suspended) {
            *data = suspension.public_data();
        }
        events
    };
    ends suspension.lease.attempt(), "suspended", *next, Some(*digest);
    // A suspension that is fulfilled at once is followed by a fact of its own.
    then match next {
        Next::Terminal(_) => next.state(),
        Next::Waiting | Next::Delayed(_) | Next::Suspended => StateName::Suspended,
    };

    /// A signal was delivered to the execution.
    pub struct Signalled {
        number: u32,
        name: Name,
        source: Name,
        /// The id and name of the waitpoint through which it was delivered, if it was.
        waitpoint: Option<(WaitpointId, Name)>,
        /// The size of the payload, in bytes.
        bytes: u32,
        effect: Effect,
    }
    publishes "signal.delivered" {
        "number": number, "name": name, "source": source, "effect": effect.as_str(),
        "waitpoint": waitpoint.as_ref().map(|(id, _)| id),
    };

    /// Part of its suspension was fulfilled, and it remains suspended.
    pub struct Noticed { notice: SuspensionNotice, }
    events vec![match notice {
        SuspensionNotice::Escalated(wait) => ("execution.escalated", json!({ "wait": wait })),
        SuspensionNotice::Time => ("execution.noticed", json!({ "of": "time" })),
        SuspensionNotice::Operator => ("execution.noticed", json!({ "of": "operator" })),
        SuspensionNotice::Gate => ("execution.noticed", json!({ "of": "gate" })),
        SuspensionNotice::Children => ("execution.noticed", json!({ "of": "children" })),
    }];

    /// The execution was resumed and waits for a worker.
    pub struct Resumed {
        /// The number of the suspension that ended.
        suspension: u32,
        by: ResumedBy,
        /// The numbers of the signals that its waits took.
        signals: Vec<u32>,
        /// The names of the steps that were recorded.
        steps: Vec<Name>,
    }
    events {
        let recorded = steps.iter().map(|name| ("step.recorded", json!({ "name": name })));
        let data = json!({ "suspension": suspension, "by": by.as_str(), "signals": signals });
        recorded.chain([("execution.resumed", data), ("execution.ready", json!({}))]).collect()
    };
    then StateName::Waiting;

    /// A wait of its suspension timed out and ended the execution.
    pub struct SuspensionTimedOut {
        /// The number of the suspension that ended.
        suspension: u32,
        on_timeout: OnTimeout,
        next: Next,
    }
    events {
        let on_timeout = on_timeout.as_str();
        let data = json!({ "reason": "suspension_timeout", "suspension": suspension, "on_timeout": on_timeout });
        next_events(*next, "execution.delayed", data)
    };
    then next.state();

    /// A waitpoint was created, or its token was signed with another key.
    pub struct WaitpointCreated {
        waitpoint: WaitpointId,
        name: Name,
        /// The source of signals delivered through it.
        source: Name,
        /// The time at which it expires; none if it does not.
        expires_at: Option<Timestamp>,
    }
    publishes "waitpoint.created" { "waitpoint": waitpoint, "name": name, "source": source } with "expires_at" = expires_at;

    pub struct WaitpointExpired { waitpoint: WaitpointId, name: Name, }
    publishes "waitpoint.expired" { "waitpoint": waitpoint, "name": name };

    /// An operator revoked the token of a waitpoint.
    pub struct WaitpointRevoked { waitpoint: WaitpointId, name: Name, }
    publishes "waitpoint.revoked" { "waitpoint": waitpoint, "name": name };

    /// An operator issued a new token of a waitpoint, which is open again.
    pub struct WaitpointReissued {
        waitpoint: WaitpointId,
        name: Name,
        /// The time at which it expires; none if it does not.
        expires_at: Option<Timestamp>,
    }
    publishes "waitpoint.reissued" { "waitpoint": waitpoint, "name": name } with "expires_at" = expires_at;

    /// An operator rotated the key that signs tokens.
    pub struct TokenKeysRotated {
        key: TokenKeyId,
        /// The time during which tokens of the old keys are still accepted, in milliseconds.
        grace_ms: i64,
    }
    publishes "operator.token_keys_rotated" { "key": key.to_string(), "grace_ms": grace_ms };

    /// Its worker recorded a step.
    pub struct Stepped {
        name: Name,
        kind: StepKind,
        /// The index of the attempt that recorded it.
        attempt: u32,
        /// The duration of the step, in milliseconds.
        duration_ms: i64,
        /// The size of the result, in bytes.
        bytes: u32,
    }
    publishes "step.recorded" {
        "name": name, "kind": kind.as_str(), "attempt": attempt, "duration_ms": duration_ms,
    };
}
