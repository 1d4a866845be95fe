//! `edge_cancel_reconciler`: closes edge groups whose cancellation was interrupted after the last sibling had ended.
//! Groups with live siblings are left to `edge_cancel_dispatcher`.

use super::scans::outbox::OutboxScan;
use selvedge_core::outbox::OutboxKind;
use std::time::Duration;

/// Closes edge groups.
pub const EDGE_CANCEL_RECONCILER: OutboxScan = OutboxScan {
    name: "edge_cancel_reconciler",
    kinds: &[OutboxKind::Siblings],
    interval: Duration::from_secs(10),
    stale_ms: 10_000,
    only_close: true,
    settles: false,
};
