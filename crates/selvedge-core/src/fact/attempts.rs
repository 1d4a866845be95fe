//! Facts about attempts: their claims and ends, and what their workers do in between.

use super::declaration::declare;
use super::events::{attempt_ended, lease_data, lease_event};
use super::{Failure, LeaseRef, Next, RenewedLease, shorten};
use crate::headline::shortened_error;
use crate::history::LINE_MESSAGE_LIMIT;
use crate::state::StateName;
use crate::{Name, Outcome};
use serde_json::{Value, json};

// Of each end of an attempt: `lease` is the lease that ended, `next` the state that follows, `digest` that of the report.
declare! {
    /// A worker claimed the execution.
    pub struct Claimed {
        lease: LeaseRef,
        /// The lease's time to live, in milliseconds.
        ttl_ms: i64,
        /// The expired lease whose interruption made the execution claimable, if one did.
        after: Option<LeaseRef>,
    }
    events {
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
    };
    then StateName::Active;

    /// Its worker completed the execution.
    pub struct Completed {
        attempt: u32,
        /// The digest of the report, by which a repeat is recognised.
        digest: u64,
    }
    publishes
        "attempt.ended" { "attempt": attempt, "outcome": "completed" },
        "execution.completed" { "attempt": attempt };
    ends *attempt, "completed", Next::Terminal(Outcome::Completed), Some(*digest);

    /// Its worker reported a failure.
    pub struct Failed { lease: LeaseRef, error: Failure, next: Next, digest: u64, }
    events attempt_ended(lease, "failed", Some(error), *next, "execution.retry_scheduled");
    ends lease.attempt(), "failed", *next, Some(*digest);
    shortens error.message = shortened_error(&error.message, LINE_MESSAGE_LIMIT);

    /// Its attempt exceeded the attempt timeout.
    pub struct TimedOut { lease: LeaseRef, next: Next, }
    events attempt_ended(lease, "timeout", None, *next, "execution.retry_scheduled");
    ends lease.attempt(), "timeout", *next, None;

    pub struct LeaseExpired { lease: LeaseRef, next: Next, }
    events {
        let after = attempt_ended(lease, "interrupted", None, *next, "execution.delayed");
        lease_event("lease.expired", lease, None, after)
    };
    ends lease.attempt(), "interrupted", *next, None;

    /// Its worker put the execution back until a time.
    pub struct Delayed { lease: LeaseRef, next: Next, digest: u64, }
    events attempt_ended(lease, "delayed", None, *next, "execution.delayed");
    ends lease.attempt(), "delayed", *next, Some(*digest);

    /// Its worker put the execution back, or departed.
    pub struct Released {
        lease: LeaseRef,
        next: Next,
        /// None if the worker departed.
        digest: Option<u64>,
    }
    events {
        let after = attempt_ended(lease, "released", None, *next, "execution.delayed");
        lease_event("lease.released", lease, None, after)
    };
    ends lease.attempt(), "released", *next, *digest;

    /// Its lease was orphaned: the reply to the claim never reached the worker.
    pub struct Orphaned { lease: LeaseRef, next: Next, }
    events {
        let after = attempt_ended(lease, "orphaned", None, *next, "execution.delayed");
        lease_event("lease.orphaned", lease, None, after)
    };
    ends lease.attempt(), "orphaned", *next, None;

    /// An operator revoked the lease.
    pub struct Revoked {
        lease: LeaseRef,
        reason: Option<String>,
        next: Next,
    }
    events {
        let after = attempt_ended(lease, "revoked", None, *next, "execution.delayed");
        lease_event("lease.revoked", lease, reason.as_deref(), after)
    };
    ends lease.attempt(), "revoked", *next, None;
    shortens reason.iter_mut().for_each(shorten);

    /// Its worker acknowledged the request to cancel, which ended the execution.
    pub struct CancelAcknowledged {
        lease: LeaseRef,
        reason: Option<String>,
        message: Option<String>,
        digest: u64,
    }
    publishes
        "attempt.ended" { "attempt": lease.attempt(), "outcome": "cancelled" },
        "execution.cancelled" { "reason": reason, "message": message };
    ends lease.attempt(), "cancelled", Next::Terminal(Outcome::Cancelled), Some(*digest);
    shortens reason.iter_mut().chain(message).for_each(shorten);

    /// Its worker reported progress.
    pub struct Progressed {
        /// The percentage done, 0 to 100.
        percent: Option<f64>,
        /// The progress in words.
        message: Option<String>,
    }
    publishes "execution.progressed" { "percent": percent, "message": message };

    /// A heartbeat renewed leases.
    pub struct Renewed { worker: Name, instance: Name, leases: Vec<RenewedLease>, }
    events {
        let lease = |RenewedLease { execution, id, epoch }: &RenewedLease| {
            json!({ "execution": execution, "lease_id": id, "epoch": epoch, "attempt": epoch - 1 })
        };
        let leases: Vec<Value> = leases.iter().map(lease).collect();
        vec![("lease.renewed", json!({ "worker": worker, "instance": instance, "leases": leases }))]
    };

    /// An operator asked a worker to drain.
    pub struct DrainRequested { instance: Name, }
    publishes "operator.drain_requested" { "instance": instance };
}
