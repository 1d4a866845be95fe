//! Comparisons of several workloads in one run.
//!
//! Each workload has an engine and a store of its own. They are driven in turn, so that a slowdown of the machine
//! affects all of them. The compared figures are the medians of the turns.

use super::drive::{DriveResult, drive_workload};
use super::{Target, Workload};
use crate::floor::Floor;
use crate::place::{FreshStore, StoreCleanup};
use crate::report::{Report, Times};
use crate::{Error, Load, Place};
use selvedge_engine::{Engine, Options};
use serde_json::json;

/// The figures of one workload over all turns.
pub struct TurnResults {
    /// The median throughput, in executions per second.
    pub per_second: f64,
    /// The number of executions of all turns.
    pub executions: u64,
    /// The percentiles of the times of all turns.
    pub times: Option<Times>,
    /// The median number of commits per execution.
    pub commits: Option<f64>,
    /// The median number of bytes of write-ahead log per execution.
    pub wal_bytes: Option<f64>,
}

/// Drives each workload once per turn. Returns the results in the order of the workloads.
pub async fn drive_in_turn(
    place: &Place,
    load: &Load,
    workloads: &[Workload],
    turns: usize,
) -> Result<Vec<TurnResults>, Error> {
    let mut engines: Vec<(Engine, Target, StoreCleanup)> = Vec::new();
    for workload in workloads {
        let FreshStore { store, cleanup } = place.create_store().await?;
        let engine = Engine::start(store, Options::default()).await?;
        workload.configure(&engine.namespace("default").await?).await?;
        let target = Target::new(&engine, load).await?;
        engines.push((engine, target, cleanup));
    }
    let mut results: Vec<Vec<DriveResult>> = workloads.iter().map(|_| Vec::new()).collect();
    let mut failed = None;
    'turns: for _ in 0..turns {
        for (index, (engine, target, _)) in engines.iter().enumerate() {
            match drive_workload(engine, target, load, &workloads[index]).await {
                Ok(result) => results[index].push(result),
                Err(error) => {
                    failed = Some(error);
                    break 'turns;
                }
            }
        }
    }
    for (engine, _, cleanup) in engines {
        engine.shutdown().await;
        cleanup.run().await?;
    }
    match failed {
        Some(error) => Err(error),
        None => Ok(results.into_iter().map(TurnResults::of).collect()),
    }
}

impl TurnResults {
    fn of(turns: Vec<DriveResult>) -> TurnResults {
        let median_of = |of: fn(&DriveResult) -> Option<f64>| median(turns.iter().filter_map(of).collect());
        TurnResults {
            per_second: median_of(|turn| Some(turn.per_second)).unwrap_or_default(),
            commits: median_of(|turn| turn.commits),
            wal_bytes: median_of(|turn| turn.wal_bytes),
            executions: turns.iter().map(|turn| turn.executions).sum(),
            times: Times::of(turns.into_iter().flat_map(|turn| turn.times).collect()),
        }
    }
}

/// Returns the middle value, or the mean of the two middle values.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() % 2 {
        1 => values.get(middle).copied(),
        _ => Some((values.get(middle.checked_sub(1)?)? + values.get(middle)?) / 2.0),
    }
}

/// Starts the report of a comparison with the figures of its main workload.
pub fn report(
    scenario: &'static str,
    place: &Place,
    load: &Load,
    floor: &Floor,
    results: &TurnResults,
) -> Report {
    let mut report = Report {
        scenario,
        store: place.name(),
        transport: load.transport(),
        executions: results.executions,
        throughput: Some(results.per_second),
        times: results.times,
        commits: results.commits,
        wal_bytes: results.wal_bytes,
        floor: Some(floor.per_second),
        commit_ms: Some(floor.commit.p50),
        ..Report::default()
    };
    report.settings.extend([
        ("batch".to_owned(), json!(load.batch)),
        ("submitters".to_owned(), json!(load.submitters)),
        ("workers".to_owned(), json!(load.workers)),
        ("outstanding".to_owned(), json!(load.outstanding)),
    ]);
    report
}

/// Adds the figures of another workload to the report, as fields that begin with `name`.
pub fn add_results(report: &mut Report, name: &str, results: &TurnResults) {
    let rounded = |value: Option<f64>, scale: f64| value.map(|value| (value * scale).round() / scale);
    let figures = [
        ("per_s", json!(results.per_second.round())),
        ("p99_ms", json!(rounded(results.times.map(|times| times.p99), 1000.0))),
        ("commits_per_execution", json!(rounded(results.commits, 10_000.0))),
        ("wal_bytes_per_execution", json!(rounded(results.wal_bytes, 1.0))),
    ];
    for (figure, value) in figures {
        report.more.insert(format!("{name}_{figure}"), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_value_or_the_mean_of_the_two_middle_values() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0]), Some(3.0));
        assert_eq!(median(vec![5.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![8.0, 1.0, 2.0, 4.0]), Some(3.0));
    }
}
