//! `waitpoint_expiry`: expires waitpoints whose time is over.

use super::scans::due::DueScan;
use selvedge_core::DueKind;
use std::time::Duration;

pub const WAITPOINT_EXPIRY: DueScan = DueScan {
    name: "waitpoint_expiry",
    kind: DueKind::WaitpointExpiry,
    interval: Duration::from_millis(1000),
};
