//! `latency`: from the call of submit to the start of the handler.
//!
//! First on an idle engine: one execution at a time, a worker waits. Then at half of the throughput that the same load
//! reaches at its peak in the same run: submitted at an even rate whatever the engine does, so that waiting is not hidden.

use crate::bed::Bed;
use crate::report::{Report, Times, rounded};
use crate::target::{Claimer, Target};
use crate::{Error, Load, Place, queue};
use selvedge_engine::Engine;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How many are sent through the idle engine.
const SAMPLES: usize = 500;
/// How long the loaded part runs.
const LOADED: Duration = Duration::from_secs(8);

/// Runs it, next to its floor.
pub async fn run(place: &Place, load: &Load) -> Result<Report, Error> {
    let bed = Bed::open(place, load).await?;
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

async fn measure(
    engine: &Engine,
    target: &Target,
    load: &Load,
) -> Result<(Option<Times>, f64, Option<Times>), Error> {
    let idle = idle(target).await?;
    let brief = Load { executions: load.executions.min(60_000), ..load.clone() };
    let peak = queue::drive(engine, target, &brief).await?.per_second;
    let loaded = loaded(target, load, peak / 2.0).await?;
    Ok((Times::of(idle), peak, Times::of(loaded)))
}

/// One at a time.
async fn idle(target: &Target) -> Result<Vec<Duration>, Error> {
    let started = Instant::now();
    let claimer = Claimer::new(0, 1);
    let worker = {
        let target = target.clone();
        tokio::spawn(async move {
            let mut times = Vec::new();
            let mut taken = Vec::new();
            while times.len() < SAMPLES {
                taken = target.work(&taken, &claimer).await?;
                let now = started.elapsed().as_nanos() as u64;
                times.extend(taken.iter().map(|one| Duration::from_nanos(now.saturating_sub(one.mark))));
            }
            target.complete(&taken, &claimer).await?;
            Ok::<_, Error>(times)
        })
    };
    for _ in 0..SAMPLES {
        // Long enough for the worker to have completed the last one and to wait again.
        tokio::time::sleep(Duration::from_millis(10)).await;
        target.submit(1, "default", started).await?;
    }
    worker.await.map_err(|error| Error::Usage(error.to_string()))?
}

/// At an even rate.
async fn loaded(target: &Target, load: &Load, rate: f64) -> Result<Vec<Duration>, Error> {
    let started = Instant::now();
    let over = Arc::new(AtomicBool::new(false));
    let mut workers = Vec::new();
    for index in 0..load.workers {
        let (target, over) = (target.clone(), over.clone());
        let claimer = Claimer::new(index, load.batch);
        workers.push(tokio::spawn(async move {
            let mut times = Vec::new();
            let mut taken = Vec::new();
            loop {
                taken = target.work(&taken, &claimer).await?;
                let now = started.elapsed().as_nanos() as u64;
                times.extend(taken.iter().map(|one| Duration::from_nanos(now.saturating_sub(one.mark))));
                if taken.is_empty() && over.load(Ordering::Relaxed) {
                    return Ok::<_, Error>(times);
                }
            }
        }));
    }
    // Small batches, each sent at its time, whether or not the ones before were answered.
    let batch = 20;
    let every = Duration::from_secs_f64(batch as f64 / rate);
    let mut submitted = Vec::new();
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Burst);
    while started.elapsed() < LOADED {
        ticks.tick().await;
        let target = target.clone();
        submitted.push(tokio::spawn(async move { target.submit(batch, "default", started).await }));
    }
    for one in submitted {
        one.await.map_err(|error| Error::Usage(error.to_string()))??;
    }
    over.store(true, Ordering::Relaxed);
    let mut times = Vec::new();
    for worker in workers {
        times.extend(worker.await.map_err(|error| Error::Usage(error.to_string()))??);
    }
    Ok(times)
}
