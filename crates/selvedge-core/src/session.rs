//! Sessions of workers: the pair (instance, time to live) that a heartbeat renews, one row however many leases it holds.

use crate::{ClaimScope, Name, NamespaceId, SessionId, Timestamp};

/// A claim or heartbeat writes the session's row only if it was last seen longer ago than this.
pub const SEEN_EVERY_MS: i64 = 10_000;
/// A worker not seen for this long is not counted as live.
pub const LIVE_MS: i64 = 90_000;
/// A session not seen for this long, and without leases, is forgotten.
pub const FORGET_MS: i64 = 3_600_000;

/// A session's row.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// The worker.
    pub worker: Name,
    /// The worker's instance.
    pub instance: Name,
    /// The time to live of its leases.
    pub ttl_ms: i64,
    /// What the worker can run, as its newest claim said.
    pub scope: ClaimScope,
    /// When it came.
    pub registered_at: Timestamp,
    /// When it was last seen.
    pub seen_at: Timestamp,
    /// When a heartbeat last renewed it.
    pub renewed_at: Option<Timestamp>,
    /// Whether the worker was asked to drain.
    pub draining: bool,
}

impl Session {
    /// Its namespace.
    pub fn namespace(&self) -> NamespaceId {
        self.scope.namespace
    }

    /// Until when its last renewal carries its leases; none before the first.
    pub fn renewed_until(&self) -> Option<Timestamp> {
        self.renewed_at.map(|renewed| renewed.plus_ms(self.ttl_ms))
    }

    /// Whether its worker counts as live.
    pub fn is_live(&self, now: Timestamp) -> bool {
        let window = LIVE_MS.max(self.ttl_ms);
        self.seen_at.plus_ms(window) >= now || self.renewed_until().is_some_and(|until| until >= now)
    }

    /// The session of a worker that said that it has gone: no longer live, its leases on their own first term. The row
    /// stays for a while, so that a claim that is under way never refers to a session that is not there.
    pub fn departed(mut self, now: Timestamp) -> Session {
        self.seen_at = self.seen_at.min(now.minus_ms(LIVE_MS.max(self.ttl_ms) + 1));
        self.renewed_at = None;
        self.draining = false;
        self
    }

    /// Whether it may be forgotten, as far as time goes.
    pub fn is_forgotten(&self, now: Timestamp) -> bool {
        !self.is_live(now) && self.seen_at.plus_ms(FORGET_MS.max(2 * self.ttl_ms)) < now
    }
}
