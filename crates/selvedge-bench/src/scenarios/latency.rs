//! `latency`: the time from the call of submit to the start of the handler.
//!
//! First on an idle engine: one execution at a time, while a worker's claim waits. Then at half of the peak throughput
//! of the same run: batches are submitted at an even rate whether or not earlier calls were answered, so that waiting
//! times are not hidden. `--held` is measured by [`held`](crate::held), `--beside` by [`beside`](crate::beside).
//!
//! The times of the idle engine are compared with the single-row commit of the floor: the goal for the median is 3
//! commits plus 1 ms. Of the loaded engine, the 99th percentile is compared with the median.

use crate::harness::drive::drive;
use crate::harness::{BenchWorker, Target, TestBed};
use crate::report::{Report, Times, rounded};
use crate::{Error, Load, Place, task_result};
use selvedge_engine::Engine;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The number of executions on the idle engine.
const SAMPLES: usize = 500;
/// Pause before each of them: long enough for the worker to complete the last one and to claim again.
const PAUSE: Duration = Duration::from_millis(10);
/// Time for which the loaded engine is measured.
const LOADED_DURATION: Duration = Duration::from_secs(8);
/// The number of executions in one call on the loaded engine.
const LOADED_BATCH: usize = 20;
/// The largest number of executions with which the peak throughput is measured.
const PEAK_EXECUTIONS: u64 = 60_000;

/// Runs the scenario.
pub async fn run(place: &Place, load: &Load) -> Result<Report, Error> {
    let bed = TestBed::open(place, load).await?;
    let commit = bed.floor.commit.p50;
    let mut report = bed.report("latency", place, load);
    let result = measure(&bed.engine, &bed.target, load).await;
    bed.close().await?;
    let (idle, peak, loaded) = result?;
    report.executions = SAMPLES as u64;
    report.times = idle;
    report.more.insert("peak_per_s".into(), json!(peak.round()));
    report.more.insert("loaded_per_s".into(), json!((peak / 2.0).round()));
    if let Some(loaded) = loaded {
        report.more.insert("loaded_p50_ms".into(), rounded(loaded.p50));
        report.more.insert("loaded_p95_ms".into(), rounded(loaded.p95));
        report.more.insert("loaded_p99_ms".into(), rounded(loaded.p99));
        report.more.insert("loaded_p99_to_p50".into(), rounded(loaded.p99 / loaded.p50));
    }
    if let Some(idle) = idle {
        report.more.insert("goal_p50_ms".into(), rounded(3.0 * commit + 1.0));
        report.more.insert("p50_in_commits".into(), rounded(idle.p50 / commit));
    }
    Ok(report)
}

/// Returns the times of the idle engine, its peak throughput, and the times of the loaded engine.
async fn measure(
    engine: &Engine,
    target: &Target,
    load: &Load,
) -> Result<(Option<Times>, f64, Option<Times>), Error> {
    let idle = measure_idle(target).await?;
    let peak_load = Load { executions: load.executions.min(PEAK_EXECUTIONS), ..load.clone() };
    let peak = drive(engine, target, &peak_load).await?.per_second;
    let loaded = measure_loaded(target, load, peak / 2.0).await?;
    Ok((Times::of(idle), peak, Times::of(loaded)))
}

/// Submits one execution at a time.
async fn measure_idle(target: &Target) -> Result<Vec<Duration>, Error> {
    let started = Instant::now();
    let worker = BenchWorker::new(0, 1);
    let working = {
        let target = target.clone();
        tokio::spawn(async move {
            let mut times = Vec::new();
            let mut active = Vec::new();
            while times.len() < SAMPLES {
                active = target.work(&active, &worker).await?;
                let now = started.elapsed().as_nanos() as u64;
                times.extend(active.iter().map(|execution| execution.time_until(now)));
            }
            target.complete(&active, &worker).await?;
            Ok::<_, Error>(times)
        })
    };
    for _ in 0..SAMPLES {
        tokio::time::sleep(PAUSE).await;
        target.submit(1, "default", started).await?;
    }
    task_result(working.await)
}

/// Submits at an even rate, in executions per second.
async fn measure_loaded(target: &Target, load: &Load, rate: f64) -> Result<Vec<Duration>, Error> {
    let started = Instant::now();
    let all_submitted = Arc::new(AtomicBool::new(false));
    let mut workers = Vec::new();
    for index in 0..load.workers {
        let (target, all_submitted) = (target.clone(), all_submitted.clone());
        let worker = BenchWorker::new(index, load.batch);
        workers.push(tokio::spawn(async move {
            let mut times = Vec::new();
            let mut active = Vec::new();
            loop {
                active = target.work(&active, &worker).await?;
                let now = started.elapsed().as_nanos() as u64;
                times.extend(active.iter().map(|execution| execution.time_until(now)));
                if active.is_empty() && all_submitted.load(Ordering::Relaxed) {
                    return Ok::<_, Error>(times);
                }
            }
        }));
    }
    let interval = Duration::from_secs_f64(LOADED_BATCH as f64 / rate);
    let mut submissions = Vec::new();
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Burst);
    while started.elapsed() < LOADED_DURATION {
        ticks.tick().await;
        let target = target.clone();
        submissions.push(tokio::spawn(async move { target.submit(LOADED_BATCH, "default", started).await }));
    }
    for submission in submissions {
        task_result(submission.await)?;
    }
    all_submitted.store(true, Ordering::Relaxed);
    let mut times = Vec::new();
    for worker in workers {
        times.extend(task_result(worker.await)?);
    }
    Ok(times)
}
