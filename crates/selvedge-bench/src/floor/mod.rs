//! The floor: the throughput of hand-written, set-based SQL on a plain table through the same driver, and the time of
//! one single-row commit.
//!
//! The floor has no history, no events, no expiring leases and no keys, so an engine with these features cannot be as
//! fast. The figure that counts is the ratio of the engine's throughput to the floor's.

pub mod postgres;
pub mod sqlite;

use crate::report::{Report, Times};
use crate::{Error, Load, Place, task_result};
use serde_json::json;
use std::time::Duration;

/// The figures of the floor.
#[derive(Clone, Copy, Debug)]
pub struct Floor {
    /// Executions per second, each inserted, claimed and completed.
    pub per_second: f64,
    /// The time of one single-row commit.
    pub commit: Times,
    /// Commits per execution.
    pub commits: Option<f64>,
    /// Bytes of write-ahead log per execution.
    pub wal_bytes: Option<f64>,
    /// The number of executions.
    pub executions: u64,
}

/// Time for which the floor's throughput is measured.
pub const DURATION: Duration = Duration::from_secs(4);
/// The number of single-row commits that are timed.
const COMMITS: usize = 300;
/// The number of connections on which scenarios measure the floor.
const CONNECTIONS: usize = 4;

/// Measures the floor with which a scenario compares a load.
pub async fn measure_for(place: &Place, load: &Load) -> Result<Floor, Error> {
    measure(place, load.batch, CONNECTIONS).await
}

/// Measures the floor. SQLite uses one connection.
pub async fn measure(place: &Place, batch: usize, connections: usize) -> Result<Floor, Error> {
    match place {
        Place::Postgres(url) => postgres::measure(url, batch, connections).await,
        Place::Sqlite(directory) => {
            let directory = directory.clone();
            let measure = move || sqlite::measure(&directory, batch);
            task_result(tokio::task::spawn_blocking(measure).await)
        }
    }
}

/// Runs the scenario `floor`.
pub async fn run(place: &Place, batch: usize, connections: usize) -> Result<Report, Error> {
    let floor = measure(place, batch, connections).await?;
    let mut report = Report {
        scenario: "floor",
        store: place.name(),
        transport: "in_process",
        executions: floor.executions,
        throughput: Some(floor.per_second),
        times: Some(floor.commit),
        commits: floor.commits,
        wal_bytes: floor.wal_bytes,
        floor: Some(floor.per_second),
        commit_ms: Some(floor.commit.p50),
        ..Report::default()
    };
    report.settings.insert("batch".into(), json!(batch));
    report.settings.insert("connections".into(), json!(connections));
    Ok(report)
}
