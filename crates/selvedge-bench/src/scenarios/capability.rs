//! `capability`: the cost of workers with different capabilities.
//!
//! Drives four workloads in turn: without capabilities; with ten sets of capabilities, where all executions of a batch
//! require the same set and each worker offers one; with workers that offer three sets; and with batches whose
//! executions require all sets in turn, so that each worker gets at most a tenth of a batch.
//!
//! Measures executions per second with capabilities. Compared with the throughput of the floor, and as
//! `capability_ratio` (`several_sets_ratio`, `mixed_batches_ratio`) with the throughput without capabilities; the goal
//! is 0.8.

use crate::harness::comparison::{add_results, drive_in_turn, report};
use crate::harness::{Requirements, Workload};
use crate::report::{Report, rounded};
use crate::{Error, Load, Place, floor};
use serde_json::json;

/// The number of turns in which the workloads are driven.
const TURNS: usize = 3;
/// The number of capability sets.
const SETS: usize = 10;
/// The number of sets that a worker offers in the workload `several_sets`.
const SEVERAL: usize = 3;
/// The goal for the throughput with capabilities, as a share of the throughput without.
const GOAL: f64 = 0.8;
/// The default number of workers.
pub const WORKERS: usize = 40;

/// Returns a set: a capability that all sets have, and one that only this set has.
fn set(index: usize) -> [String; 2] {
    ["accelerator".into(), format!("model-{}", index % SETS)]
}

/// Returns a workload in which each worker offers `offered` sets.
fn workload(offered: usize, mixed_batches: bool) -> Workload {
    let requirements =
        |index| Requirements { capabilities: set(index).into(), ..Requirements::lane("default") };
    let capabilities = |index: usize| {
        let mut capabilities: Vec<String> = (index..index + offered).flat_map(set).collect();
        capabilities.sort();
        capabilities.dedup();
        capabilities
    };
    Workload {
        requirements: (0..SETS).map(requirements).collect(),
        mixed_batches,
        worker_capabilities: (0..SETS).map(capabilities).collect(),
        ..Workload::default()
    }
}

/// Runs the scenario.
pub async fn run(place: &Place, load: &Load) -> Result<Report, Error> {
    if load.workers < SETS {
        let message =
            format!("--workers {}: capability has {SETS} sets and needs a worker for each", load.workers);
        return Err(Error::Usage(message));
    }
    let floor = floor::measure_for(place, load).await?;
    let turn = Load { executions: load.executions / TURNS as u64, ..load.clone() };
    let workloads = [Workload::default(), workload(1, false), workload(SEVERAL, false), workload(1, true)];
    let results = drive_in_turn(place, &turn, &workloads, TURNS).await?;
    let [without, with, several, mixed] = &results[..] else {
        return Err(Error::Usage("expected the results of four workloads".into()));
    };
    let mut report = report("capability", place, load, &floor, with);
    report.settings.extend([
        ("turns".to_owned(), json!(TURNS)),
        ("sets".to_owned(), json!(SETS)),
        ("several".to_owned(), json!(SEVERAL)),
    ]);
    add_results(&mut report, "without_capabilities", without);
    add_results(&mut report, "several_sets", several);
    add_results(&mut report, "mixed_batches", mixed);
    report.more.insert("capability_ratio".into(), rounded(with.per_second / without.per_second));
    report.more.insert("several_sets_ratio".into(), rounded(several.per_second / without.per_second));
    report.more.insert("mixed_batches_ratio".into(), rounded(mixed.per_second / without.per_second));
    report.more.insert("goal_capability_ratio".into(), json!(GOAL));
    Ok(report)
}
