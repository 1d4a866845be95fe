//! `queue --limits`: the cost of limits.
//!
//! Drives the load of `queue` without limits and with limits, in turn: a concurrency limit on the lane, a budget of
//! which every execution reserves an amount, and a report of usage with every completion. No limit is reached, because
//! the lane may have as many active executions as may be outstanding. But every claim and every completion updates the
//! same two rows.
//!
//! Measures executions per second with limits. Compared with the throughput of the floor, and as `limits_ratio` with
//! the throughput without limits; the goal is 0.6.

use crate::harness::Workload;
use crate::harness::comparison::{add_results, drive_in_turn, report};
use crate::harness::workload::{ReportedUsage, token_budget, tokens};
use crate::report::{Report, rounded};
use crate::{Error, Load, Place, floor};
use selvedge_core::Name;
use selvedge_core::gate::{Config, GateKind};
use serde_json::json;

/// The number of turns in which the workloads are driven.
const TURNS: usize = 3;
/// The goal for the throughput with limits, as a share of the throughput without.
const GOAL: f64 = 0.6;
/// The name of the budget.
const BUDGET: &str = "month";
/// The tokens that an execution reserves.
const RESERVED: u32 = 10;
/// The tokens that an execution uses.
const USED: u32 = 7;

/// The limits of the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Limits the concurrency of the lane.
    pub lane: bool,
    /// Reserves an amount of a budget for every execution.
    pub budget: bool,
    /// Reports usage of the budget with every completion.
    pub usage: bool,
}

impl Limits {
    fn workload(self, load: &Load) -> Workload {
        let mut workload = Workload::default();
        if self.lane {
            let active = (load.workers * load.batch) as u64;
            let concurrency = if load.outstanding == 0 { 2 * active } else { load.outstanding };
            let config = Config { concurrency: Some(concurrency as u32), ..Config::default() };
            workload.gates.push((GateKind::Lane, "default", config));
        }
        if self.budget || self.usage {
            workload.gates.push((GateKind::Budget, BUDGET, token_budget(u32::MAX)));
        }
        if self.budget {
            for requirements in &mut workload.requirements {
                requirements.required_gates.budgets = vec![(Name::trusted(BUDGET), tokens(RESERVED))];
            }
        }
        if self.usage {
            workload.usage = Some(ReportedUsage { budget: Name::trusted(BUDGET), amounts: tokens(USED) });
        }
        workload
    }
}

/// Runs the scenario.
pub async fn run(place: &Place, load: &Load, limits: Limits) -> Result<Report, Error> {
    let floor = floor::measure_for(place, load).await?;
    let turn = Load { executions: load.executions / TURNS as u64, ..load.clone() };
    let workloads = [Workload::default(), limits.workload(load)];
    let results = drive_in_turn(place, &turn, &workloads, TURNS).await?;
    let [without, with] = &results[..] else {
        return Err(Error::Usage("expected the results of two workloads".into()));
    };
    let mut report = report("queue", place, load, &floor, with);
    report.settings.extend([
        ("turns".to_owned(), json!(TURNS)),
        ("lane_limit".to_owned(), json!(limits.lane)),
        ("budget".to_owned(), json!(limits.budget)),
        ("usage".to_owned(), json!(limits.usage)),
    ]);
    add_results(&mut report, "without_limits", without);
    report.more.insert("limits_ratio".into(), rounded(with.per_second / without.per_second));
    report.more.insert("goal_limits_ratio".into(), json!(GOAL));
    Ok(report)
}
