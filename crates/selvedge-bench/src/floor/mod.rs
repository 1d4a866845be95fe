//! The floor: what hand-written set-based SQL on a plain table does through the same driver, and what one commit takes.
//!
//! It keeps no history, no events, no leases that lapse and no keys. Nothing that does these things can be as fast; how
//! close the engine comes is the figure that counts.

pub mod postgres;
pub mod sqlite;

use crate::report::{Report, Times};
use crate::{Error, Place};
use serde_json::json;
use std::time::Duration;

/// What the floor does.
#[derive(Clone, Copy, Debug)]
pub struct Floor {
    /// Executions per second: inserted, claimed, completed.
    pub per_second: f64,
    /// One single-row commit.
    pub commit: Times,
    /// Commits per execution.
    pub commits: Option<f64>,
    /// Bytes of write-ahead log per execution.
    pub wal_bytes: Option<f64>,
    /// How many executions it ran.
    pub executions: u64,
}

/// How long the floor's throughput is measured.
pub const DURATION: Duration = Duration::from_secs(4);

/// Measures the floor of a place.
pub async fn measure(place: &Place, batch: usize, connections: usize) -> Result<Floor, Error> {
    match place {
        Place::Postgres(url) => postgres::measure(url, batch, connections).await,
        Place::Sqlite(directory) => {
            let directory = directory.clone();
            let measure = move || sqlite::measure(&directory, batch);
            tokio::task::spawn_blocking(measure).await.map_err(|error| Error::Usage(error.to_string()))?
        }
    }
}

/// The scenario `floor`.
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
