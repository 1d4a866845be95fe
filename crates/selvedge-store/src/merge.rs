//! The rules that a store decides by itself, because the transaction has not read the row that it writes: merging sessions,
//! adding to the ledger, and counting the members of flows.
//!
//! SQL stores express them in statements. The conformance suite compares every store with these definitions.

use selvedge_core::flow::Counts;
use selvedge_core::gate::{Amounts, add};
use selvedge_core::{Flow, Session};

/// Returns the row of a session after a write. A write of an earlier life changes nothing, one of a later life replaces the
/// row. Within a life, times never go back, a requested drain stays requested, and the detail stays. The time at which the
/// worker was seen never goes back.
pub fn session(stored: Option<Session>, written: Session) -> Session {
    let Some(stored) = stored else { return written };
    if stored.life > written.life {
        return stored;
    }
    let seen_at = stored.seen_at.max(written.seen_at);
    if stored.life < written.life {
        return Session { seen_at, ..written };
    }
    Session {
        seen_at,
        registered_at: stored.registered_at,
        renewed_at: stored.renewed_at.max(written.renewed_at),
        draining: stored.draining || written.draining,
        detail: stored.detail,
        ..written
    }
}

/// Returns the amounts of a ledger entry after an addition to it, dimension by dimension.
pub fn spent(stored: Option<Amounts>, more: &Amounts) -> Amounts {
    let Some(mut spent) = stored else { return more.clone() };
    add(&mut spent, more);
    spent
}

/// Adds to the counts of a flow. Returns whether it was emptied: it is running without a live member.
pub fn count(flow: &mut Flow, more: Counts) -> bool {
    flow.counts += more;
    flow.version += 1;
    flow.is_unsettled()
}
