//! `budget_reset`: resets the usage of budgets whose period has ended.

use super::scans::gates::{DueGates, GateScan};
use std::time::Duration;

pub const BUDGET_RESET: GateScan =
    GateScan { name: "budget_reset", interval: Duration::from_millis(1000), gates: DueGates::EndedPeriods };
