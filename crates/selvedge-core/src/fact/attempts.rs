//! Facts about attempts: their claims and ends, and what their workers do in between.

use super::events::{EventBody, attempt_ended, lease_data, lease_event};
use super::{Failure, LeaseRef, Next, Recorded, RenewedLease, shorten};
use crate::headline::shortened_error;
use crate::history::{AttemptEnd, LINE_MESSAGE_LIMIT};
use crate::state::StateName;
use crate::{Name, Outcome};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A worker claimed the execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claimed {
    pub lease: LeaseRef,
    /// The lease's time to live, in milliseconds.
    pub ttl_ms: i64,
    /// The expired lease whose interruption made the execution claimable, if one did.
    pub after: Option<LeaseRef>,
}

impl Recorded for Claimed {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { lease, ttl_ms, after } = self;
        let mut data = lease_data(lease);
        data.insert("ttl_ms".into(), json!(ttl_ms));
        let kind = match after {
            None => "lease.acquired",
            Some(previous) => {
                data.insert("previous".into(), Value::Object(lease_data(previous)));
                "lease.reclaimed"
            }
        };
        vec![(kind, Value::Object(data)), ("execution.started", json!({ "attempt": lease.attempt() }))]
    }

    fn state_after(&self) -> Option<StateName> {
        Some(StateName::Active)
    }
}

/// Its worker completed the execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Completed {
    /// The index of the attempt.
    pub attempt: u32,
    /// The digest of the report, by which a repeat is recognised.
    pub digest: u64,
}

impl Recorded for Completed {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { attempt, .. } = self;
        vec![
            ("attempt.ended", json!({ "attempt": attempt, "outcome": "completed" })),
            ("execution.completed", json!({ "attempt": attempt })),
        ]
    }

    fn attempt_end(&self) -> Option<(u32, AttemptEnd)> {
        Some((
            self.attempt,
            AttemptEnd {
                outcome: "completed",
                next: Next::Terminal(Outcome::Completed),
                digest: Some(self.digest),
            },
        ))
    }
}

/// Its worker reported a failure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failed {
    /// The lease that ended.
    pub lease: LeaseRef,
    pub error: Failure,
    /// The state that follows.
    pub next: Next,
    /// The digest of the report.
    pub digest: u64,
}

impl Recorded for Failed {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { lease, error, next, .. } = self;
        attempt_ended(lease, "failed", Some(error), *next, "execution.retry_scheduled")
    }

    fn attempt_end(&self) -> Option<(u32, AttemptEnd)> {
        Some((
            self.lease.attempt(),
            AttemptEnd { outcome: "failed", next: self.next, digest: Some(self.digest) },
        ))
    }

    fn shorten(&mut self) {
        let message = &mut self.error.message;
        *message = shortened_error(message, LINE_MESSAGE_LIMIT);
    }
}

/// Its attempt exceeded the attempt timeout.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimedOut {
    /// The lease that ended.
    pub lease: LeaseRef,
    /// The state that follows.
    pub next: Next,
}

impl Recorded for TimedOut {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { lease, next } = self;
        attempt_ended(lease, "timeout", None, *next, "execution.retry_scheduled")
    }

    fn attempt_end(&self) -> Option<(u32, AttemptEnd)> {
        Some((self.lease.attempt(), AttemptEnd { outcome: "timeout", next: self.next, digest: None }))
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeaseExpired {
    /// The lease that ended.
    pub lease: LeaseRef,
    /// The state that follows.
    pub next: Next,
}

impl Recorded for LeaseExpired {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { lease, next } = self;
        lease_event(
            "lease.expired",
            lease,
            None,
            attempt_ended(lease, "interrupted", None, *next, "execution.delayed"),
        )
    }

    fn attempt_end(&self) -> Option<(u32, AttemptEnd)> {
        Some((self.lease.attempt(), AttemptEnd { outcome: "interrupted", next: self.next, digest: None }))
    }
}

/// Its worker put the execution back until a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Delayed {
    /// The lease that ended.
    pub lease: LeaseRef,
    /// The state that follows.
    pub next: Next,
    /// The digest of the report.
    pub digest: u64,
}

impl Recorded for Delayed {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { lease, next, .. } = self;
        attempt_ended(lease, "delayed", None, *next, "execution.delayed")
    }

    fn attempt_end(&self) -> Option<(u32, AttemptEnd)> {
        Some((
            self.lease.attempt(),
            AttemptEnd { outcome: "delayed", next: self.next, digest: Some(self.digest) },
        ))
    }
}

/// Its worker put the execution back, or departed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Released {
    /// The lease that ended.
    pub lease: LeaseRef,
    /// The state that follows.
    pub next: Next,
    /// The digest of the report; none if the worker departed.
    pub digest: Option<u64>,
}

impl Recorded for Released {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { lease, next, .. } = self;
        lease_event(
            "lease.released",
            lease,
            None,
            attempt_ended(lease, "released", None, *next, "execution.delayed"),
        )
    }

    fn attempt_end(&self) -> Option<(u32, AttemptEnd)> {
        Some((self.lease.attempt(), AttemptEnd { outcome: "released", next: self.next, digest: self.digest }))
    }
}

/// Its lease was orphaned: the reply to the claim never reached the worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Orphaned {
    /// The lease that ended.
    pub lease: LeaseRef,
    /// The state that follows.
    pub next: Next,
}

impl Recorded for Orphaned {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { lease, next } = self;
        lease_event(
            "lease.orphaned",
            lease,
            None,
            attempt_ended(lease, "orphaned", None, *next, "execution.delayed"),
        )
    }

    fn attempt_end(&self) -> Option<(u32, AttemptEnd)> {
        Some((self.lease.attempt(), AttemptEnd { outcome: "orphaned", next: self.next, digest: None }))
    }
}

/// An operator revoked the lease.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Revoked {
    /// The lease that ended.
    pub lease: LeaseRef,
    /// The operator's reason.
    pub reason: Option<String>,
    /// The state that follows.
    pub next: Next,
}

impl Recorded for Revoked {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { lease, reason, next } = self;
        let after = attempt_ended(lease, "revoked", None, *next, "execution.delayed");
        lease_event("lease.revoked", lease, reason.as_deref(), after)
    }

    fn attempt_end(&self) -> Option<(u32, AttemptEnd)> {
        Some((self.lease.attempt(), AttemptEnd { outcome: "revoked", next: self.next, digest: None }))
    }

    fn shorten(&mut self) {
        self.reason.iter_mut().for_each(shorten);
    }
}

/// Its worker acknowledged the request to cancel, which ended the execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CancelAcknowledged {
    /// The lease that ended.
    pub lease: LeaseRef,
    /// The operator's reason.
    pub reason: Option<String>,
    /// The worker's message.
    pub message: Option<String>,
    /// The digest of the report.
    pub digest: u64,
}

impl Recorded for CancelAcknowledged {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { lease, reason, message, .. } = self;
        vec![
            ("attempt.ended", json!({ "attempt": lease.attempt(), "outcome": "cancelled" })),
            ("execution.cancelled", json!({ "reason": reason, "message": message })),
        ]
    }

    fn attempt_end(&self) -> Option<(u32, AttemptEnd)> {
        Some((
            self.lease.attempt(),
            AttemptEnd {
                outcome: "cancelled",
                next: Next::Terminal(Outcome::Cancelled),
                digest: Some(self.digest),
            },
        ))
    }

    fn shorten(&mut self) {
        self.reason.iter_mut().chain(&mut self.message).for_each(shorten);
    }
}

/// Its worker reported progress.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progressed {
    /// The percentage done, 0 to 100.
    pub percent: Option<f64>,
    /// The progress in words.
    pub message: Option<String>,
}

impl Recorded for Progressed {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { percent, message } = self;
        vec![("execution.progressed", json!({ "percent": percent, "message": message }))]
    }
}

/// A heartbeat renewed leases.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Renewed {
    pub worker: Name,
    /// The worker's instance.
    pub instance: Name,
    pub leases: Vec<RenewedLease>,
}

impl Recorded for Renewed {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { worker, instance, leases } = self;
        let leases: Vec<Value> = leases
            .iter()
            .map(|lease| {
                json!({
                    "execution": lease.execution, "lease_id": lease.id, "epoch": lease.epoch,
                    "attempt": lease.epoch - 1,
                })
            })
            .collect();
        vec![("lease.renewed", json!({ "worker": worker, "instance": instance, "leases": leases }))]
    }
}

/// An operator asked a worker to drain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DrainRequested {
    /// The worker's instance.
    pub instance: Name,
}

impl Recorded for DrainRequested {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { instance } = self;
        vec![("operator.drain_requested", json!({ "instance": instance }))]
    }
}
