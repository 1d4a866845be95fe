//! Sessions of workers: one row per (instance, time to live) pair. A heartbeat renews the session, and thereby all its
//! leases.
//!
//! A session has *lives*. It ends when its worker departs or when a new incarnation of the instance takes over, and begins
//! again with the next claim. Each end and each new beginning raises the number of the life. Claims read the session
//! without a lock, so a claim may write a session that has ended since: a write of an earlier life is ignored by the
//! store. A claim that waits remembers its life and gets nothing in a later one.

use crate::{ClaimScope, Name, NamespaceId, SessionId, Timestamp};
use serde::{Deserialize, Serialize};

/// The shortest time between two updates of `seen_at` by claims, in milliseconds; half the time to live of leases if that is
/// shorter.
const SEEN_EVERY_MS: i64 = 10_000;
/// The time after which an unseen session without leases is deleted, in milliseconds.
pub const FORGET_MS: i64 = 3_600_000;
/// The time for which a worker that has ended stays in the list of workers, in milliseconds.
pub const LISTED_MS: i64 = 900_000;
/// Maximum number of superseded incarnations that an instance remembers; the oldest are forgotten first.
pub const SUPERSEDED_MAX: usize = 32;

/// The row of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    pub id: SessionId,
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
    /// The number of the session's life, which grows with each end and each new beginning.
    pub life: u32,
    /// The incarnation of the instance, its predecessors, and the end. Changes only with `life`, or under a lock.
    pub detail: SessionDetail,
}

/// The part of a session that is stored as JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionDetail {
    /// The incarnation of the instance; none if its calls name none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<Name>,
    /// The end of the session; none while it lasts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<SessionEnd>,
    /// The superseded incarnations, oldest first; at most [`SUPERSEDED_MAX`]. Calls of these are refused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub superseded: Vec<SupersededIncarnation>,
}

/// The end of a session that was ended by a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionEnd {
    /// The time of the end.
    pub at: Timestamp,
    pub reason: EndReason,
}

/// The reason why a session has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// The worker departed.
    Deleted,
    /// The worker was not seen for too long. Derived from the times of the session, and never stored.
    Expired,
    /// A new incarnation of the instance took over.
    Superseded,
}

impl EndReason {
    /// Returns the public name.
    pub fn as_str(self) -> &'static str {
        match self {
            EndReason::Deleted => "deleted",
            EndReason::Expired => "expired",
            EndReason::Superseded => "superseded",
        }
    }
}

/// An incarnation of an instance that a newer one has superseded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SupersededIncarnation {
    pub incarnation: Name,
    /// The time of the first call of its successor.
    pub at: Timestamp,
}

impl SessionDetail {
    /// Reports whether a newer incarnation has superseded this one.
    pub fn has_superseded(&self, incarnation: &Name) -> bool {
        self.superseded.iter().any(|known| known.incarnation == *incarnation)
    }

    /// Records the first call of a new incarnation.
    fn supersede_by(&mut self, incarnation: &Name, now: Timestamp) {
        if let Some(before) = self.incarnation.replace(incarnation.clone()) {
            self.superseded.push(SupersededIncarnation { incarnation: before, at: now });
            let surplus = self.superseded.len().saturating_sub(SUPERSEDED_MAX);
            self.superseded.drain(..surplus);
        }
    }
}

impl Session {
    pub fn namespace(&self) -> NamespaceId {
        self.scope.namespace
    }

    /// Returns the time until which the last renewal extends its leases; none before the first renewal.
    pub fn renewed_until(&self) -> Option<Timestamp> {
        self.renewed_at.map(|renewed| renewed.plus_ms(self.ttl_ms))
    }

    /// Reports whether a call has ended the session.
    pub fn has_ended(&self) -> bool {
        self.detail.ended.is_some()
    }

    /// Reports whether a call has updated `seen_at` so lately that a claim need not write it again.
    pub fn was_just_seen(&self, now: Timestamp) -> bool {
        self.seen_at.plus_ms(SEEN_EVERY_MS.min(self.ttl_ms / 2)) > now
    }

    /// Reports whether the worker counts as live: its last call was within twice the time to live of its leases. A claim that
    /// waits is renewed once in that time to live, so its worker stays live. This is the only place that decides it.
    pub fn is_live(&self, now: Timestamp) -> bool {
        !self.has_ended() && self.silent_from() >= now
    }

    /// Returns the time from which the worker counts as silent, unless it is seen before.
    fn silent_from(&self) -> Timestamp {
        self.seen_at.plus_ms(2 * self.ttl_ms)
    }

    /// Returns the end of the session; none while the worker counts as live.
    pub fn end(&self, now: Timestamp) -> Option<SessionEnd> {
        let silent = SessionEnd { at: self.silent_from(), reason: EndReason::Expired };
        self.detail.ended.or((!self.is_live(now)).then_some(silent))
    }

    /// Returns the session after its end: without a renewal, so that its leases expire after their first term, and without
    /// a request to drain. The row is kept for a while, because a concurrent claim may refer to it.
    pub fn ended(mut self, reason: EndReason, now: Timestamp) -> Session {
        self.life += 1;
        self.renewed_at = None;
        self.draining = false;
        self.detail.ended = Some(SessionEnd { at: now, reason });
        self
    }

    /// Returns the session after the first call of a new incarnation of its instance. A session that had ended keeps its
    /// end.
    pub fn superseded_by(mut self, incarnation: &Name, now: Timestamp) -> Session {
        self.detail.supersede_by(incarnation, now);
        match self.has_ended() {
            true => Session { life: self.life + 1, ..self },
            false => self.ended(EndReason::Superseded, now),
        }
    }

    /// Returns the session after it has begun again, by a claim.
    pub fn begun_again(mut self, now: Timestamp) -> Session {
        if self.detail.ended.take().is_some() {
            self.life += 1;
            (self.registered_at, self.renewed_at, self.draining) = (now, None, false);
        }
        self
    }

    /// Reports whether the session was unseen for long enough to be deleted.
    pub fn is_forgotten(&self, now: Timestamp) -> bool {
        !self.is_live(now) && self.seen_at.plus_ms(FORGET_MS.max(2 * self.ttl_ms)) < now
    }
}
