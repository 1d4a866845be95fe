//! `queue`: the throughput of executions from submission to completion.
//!
//! Submitters submit batches; workers complete their executions and claim more in the same call. At most `outstanding`
//! executions are submitted and not yet completed, as in a queue whose workers keep up. With `--outstanding 0`
//! submitters run ahead as far as they can, so every execution waits in a backlog and none is handed over to a waiting
//! claim. `--limits` is measured by [`limits`](crate::limits).
//!
//! With `--event-views` the engine also fills the SQL views of events and attempts. `event_views_behind_ms` is the time that
//! it needed after the last completion, and `event_views_per_second` the number of events by the time of all.
//!
//! Measures executions per second, and the time from the call of submit to the answer to the completion. Compared with
//! the throughput of the floor.

use crate::harness::TestBed;
use crate::harness::drive::drive;
use crate::report::{Report, Times};
use crate::{Error, Load, Place};
use selvedge_engine::{Engine, SampleValue};
use serde_json::json;
use std::time::{Duration, Instant};

/// Runs the scenario.
pub async fn run(place: &Place, load: &Load) -> Result<Report, Error> {
    let bed = TestBed::open(place, load).await?;
    let floor_wal_bytes = bed.floor.wal_bytes;
    let report = bed.report("queue", place, load);
    let begun = Instant::now();
    let result = drive(&bed.engine, &bed.target, load).await;
    let views = if load.event_views { Some(catch_up(&bed.engine, begun).await?) } else { None };
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
    if let Some((behind, per_second)) = views {
        report.settings.insert("event_views".into(), json!(true));
        report.more.insert("event_views_behind_ms".into(), json!(behind.as_millis() as u64));
        report.more.insert("event_views_per_second".into(), json!(per_second.round()));
    }
    Ok(report)
}

/// Waits until the views have all events. Returns the time that this took, and the events by the time since `begun`.
async fn catch_up(engine: &Engine, begun: Instant) -> Result<(Duration, f64), Error> {
    let ended = Instant::now();
    while engine.tick("projection").await?.scanned > 0 {}
    let families = engine.metrics().await;
    let written = families.iter().find(|family| family.name == "event_view_events_total");
    let numbers = written.iter().flat_map(|family| &family.samples).map(|sample| match sample.value {
        SampleValue::Number(number) => number,
        SampleValue::Distribution(_) => 0.0,
    });
    let events: f64 = numbers.sum();
    Ok((ended.elapsed(), events / begun.elapsed().as_secs_f64()))
}
