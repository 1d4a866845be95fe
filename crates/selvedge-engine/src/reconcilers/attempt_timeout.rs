//! `attempt_timeout`: ends attempts that exceeded their timeout. The retry policy decides what follows.

use super::scans::due::DueScan;
use selvedge_core::DueKind;
use std::time::Duration;

/// Ends attempts that exceeded their timeout.
pub const ATTEMPT_TIMEOUT: DueScan =
    DueScan { name: "attempt_timeout", kind: DueKind::AttemptTimeout, interval: Duration::from_millis(2000) };
