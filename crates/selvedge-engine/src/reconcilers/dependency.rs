//! `dependency`: propagates ends to downstreams and parents, cancels children and flow members, and settles flows,
//! where the dispatcher did not.

use super::scans::outbox::OutboxScan;
use selvedge_core::outbox::OutboxKind;
use std::time::Duration;

/// Dispatches the outbox rows of flows.
pub const DEPENDENCY: OutboxScan = OutboxScan {
    name: "dependency",
    kinds: &[OutboxKind::Edges, OutboxKind::Children, OutboxKind::Flow, OutboxKind::Parent],
    interval: Duration::from_millis(1000),
    stale_ms: 1000,
    only_close: false,
    settles: true,
};
