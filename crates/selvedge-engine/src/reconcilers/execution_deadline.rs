//! `execution_deadline`: ends executions whose deadline, start-by time or cancel grace period has passed.

use super::scans::due::DueScan;
use selvedge_core::DueKind;
use std::time::Duration;

/// Ends executions that ran out of time.
pub const EXECUTION_DEADLINE: DueScan =
    DueScan { name: "execution_deadline", kind: DueKind::Deadline, interval: Duration::from_millis(100) };
