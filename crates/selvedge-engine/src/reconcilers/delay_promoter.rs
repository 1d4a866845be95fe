//! `delay_promoter`: makes delayed executions claimable when their delay is over, and resumes suspensions that wait for
//! a time.

use super::scans::due::DueScan;
use selvedge_core::DueKind;
use std::time::Duration;

/// Makes delayed executions claimable.
pub const DELAY_PROMOTER: DueScan =
    DueScan { name: "delay_promoter", kind: DueKind::Delay, interval: Duration::from_millis(20) };
