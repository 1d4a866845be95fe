//! `gate_release`: releases executions held by gates that have room again, stops active executions that draw on a
//! used-up budget, and counts the active executions of a lane whose limit was set.

use super::scans::gates::{DueGates, GateScan};
use std::time::Duration;

/// Releases held executions.
pub const GATE_RELEASE: GateScan =
    GateScan { name: "gate_release", interval: Duration::from_millis(20), gates: DueGates::Others };
