//! `suspension_timeout`: applies the timeout behaviour of suspensions that exceeded their timeout.

use super::scans::due::DueScan;
use selvedge_core::DueKind;
use std::time::Duration;

/// Times suspensions out.
pub const SUSPENSION_TIMEOUT: DueScan = DueScan {
    name: "suspension_timeout",
    kind: DueKind::SuspensionTimeout,
    interval: Duration::from_millis(2000),
};
