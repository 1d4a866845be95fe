//! Sessions of workers: one row per (instance, time to live) pair. A heartbeat renews the session, and thereby all its
//! leases.

use crate::{ClaimScope, Name, NamespaceId, SessionId, Timestamp};

/// The shortest time between two updates of `seen_at` by claims, in milliseconds.
pub const SEEN_EVERY_MS: i64 = 10_000;
/// The time after which an unseen worker no longer counts as live, in milliseconds.
pub const LIVE_MS: i64 = 90_000;
/// The time after which an unseen session without leases is deleted, in milliseconds.
pub const FORGET_MS: i64 = 3_600_000;

/// The row of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    /// The session's id.
    pub id: SessionId,
    /// The worker.
    pub worker: Name,
    /// The worker's instance.
    pub instance: Name,
    /// The time to live of its leases, in milliseconds.
    pub ttl_ms: i64,
    /// The scope of the worker's latest claim.
    pub scope: ClaimScope,
    /// The time of registration.
    pub registered_at: Timestamp,
    /// The time at which the worker was last seen.
    pub seen_at: Timestamp,
    /// The time of the last renewal; none before the first.
    pub renewed_at: Option<Timestamp>,
    /// True if the worker was asked to drain.
    pub draining: bool,
}

impl Session {
    /// Returns the namespace.
    pub fn namespace(&self) -> NamespaceId {
        self.scope.namespace
    }

    /// Returns the time until which the last renewal extends its leases; none before the first renewal.
    pub fn renewed_until(&self) -> Option<Timestamp> {
        self.renewed_at.map(|renewed| renewed.plus_ms(self.ttl_ms))
    }

    /// Reports whether the worker counts as live.
    pub fn is_live(&self, now: Timestamp) -> bool {
        let window = LIVE_MS.max(self.ttl_ms);
        self.seen_at.plus_ms(window) >= now || self.renewed_until().is_some_and(|until| until >= now)
    }

    /// Returns the session of a departed worker: not live, and without a renewal, so that its leases expire after their
    /// first term. The row is kept for a while, because a concurrent claim may refer to it.
    pub fn departed(mut self, now: Timestamp) -> Session {
        self.seen_at = self.seen_at.min(now.minus_ms(LIVE_MS.max(self.ttl_ms) + 1));
        self.renewed_at = None;
        self.draining = false;
        self
    }

    /// Reports whether the session was unseen for long enough to be deleted.
    pub fn is_forgotten(&self, now: Timestamp) -> bool {
        !self.is_live(now) && self.seen_at.plus_ms(FORGET_MS.max(2 * self.ttl_ms)) < now
    }
}
