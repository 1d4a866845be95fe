//! `edge_cancel_dispatcher`: cancels the remaining siblings of satisfied edge groups, where the dispatcher did not.

use super::scans::outbox::OutboxScan;
use selvedge_core::outbox::OutboxKind;
use std::time::Duration;

pub const EDGE_CANCEL_DISPATCHER: OutboxScan = OutboxScan {
    name: "edge_cancel_dispatcher",
    kinds: &[OutboxKind::Siblings],
    interval: Duration::from_millis(1000),
    stale_ms: 1000,
    only_close: false,
    settles: false,
};
