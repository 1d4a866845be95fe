//! `queue`: the throughput of executions from submission to completion.
//!
//! Submitters submit batches; workers complete their executions and claim more in the same call. At most `outstanding`
//! executions are submitted and not yet completed, as in a queue whose workers keep up. With `--outstanding 0`
//! submitters run ahead as far as they can, so every execution waits in a backlog and none is handed over to a waiting
//! claim. `--limits` is measured by [`limits`](crate::limits).
//!
//! Measures executions per second, and the time from the call of submit to the answer to the completion. Compared with
//! the throughput of the floor.

use crate::harness::TestBed;
use crate::harness::drive::drive;
use crate::report::{Report, Times};
use crate::{Error, Load, Place};
use serde_json::json;

/// Runs the scenario.
pub async fn run(place: &Place, load: &Load) -> Result<Report, Error> {
    let bed = TestBed::open(place, load).await?;
    let floor_wal_bytes = bed.floor.wal_bytes;
    let report = bed.report("queue", place, load);
    let result = drive(&bed.engine, &bed.target, load).await;
    bed.close().await?;
    let result = result?;
    let mut report = Report {
        executions: result.executions,
        throughput: Some(result.per_second),
        times: Times::of(result.times),
        commits: result.commits,
        wal_bytes: result.wal_bytes,
        ..report
    };
    report.settings.extend([
        ("batch".to_owned(), json!(load.batch)),
        ("submitters".to_owned(), json!(load.submitters)),
        ("workers".to_owned(), json!(load.workers)),
        ("outstanding".to_owned(), json!(load.outstanding)),
    ]);
    report.more.insert("floor_wal_bytes_per_execution".into(), json!(floor_wal_bytes.map(f64::round)));
    Ok(report)
}
