//! `queue`: executions from submission to their end, as many as go.
//!
//! Submitters submit batches, workers complete what they hold and claim more in the same call. At most `outstanding`
//! executions are submitted and not yet completed, as in a queue whose workers keep up. With `--outstanding 0` the
//! submitters run ahead as far as they can, so that every execution waits in a backlog and none is handed over. What limits
//! cost is measured by [`crate::limits`].

use crate::bed::Bed;
use crate::report::{Report, Times};
use crate::target::Target;
use crate::terms::Terms;
use crate::{Error, Load, Place};
use selvedge_engine::Engine;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Runs it, next to its floor.
pub async fn run(place: &Place, load: &Load) -> Result<Report, Error> {
    let bed = Bed::open(place, load).await?;
    let floor_wal_bytes = bed.floor.wal_bytes;
    let report = bed.report("queue", place, load);
    let driven = drive(&bed.engine, &bed.target, load).await;
    bed.close().await?;
    let driven = driven?;
    let mut report = Report {
        executions: driven.executions,
        throughput: Some(driven.per_second),
        times: Times::of(driven.times),
        commits: driven.commits,
        wal_bytes: driven.wal_bytes,
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

/// What driving a load showed.
pub struct Driven {
    /// How many were completed.
    pub executions: u64,
    /// Per second.
    pub per_second: f64,
    /// From submission to the answer to the completion.
    pub times: Vec<Duration>,
    /// Commits per execution.
    pub commits: Option<f64>,
    /// Bytes of write-ahead log per execution.
    pub wal_bytes: Option<f64>,
}

/// Drives a load against a target.
pub async fn drive(engine: &Engine, target: &Target, load: &Load) -> Result<Driven, Error> {
    drive_on(engine, target, load, &Terms::default()).await
}

/// Drives a load against a target, on these terms.
pub async fn drive_on(engine: &Engine, target: &Target, load: &Load, terms: &Terms) -> Result<Driven, Error> {
    let started = Instant::now();
    // Connections, statements and the classes are there before the clock starts.
    target.submit_asking(terms.asks.len(), &terms.asks, 0).await?;
    let mut left = terms.asks.len();
    for warm in (0..).map(|index| terms.worker(index, load.batch)) {
        let taken = target.work(&[], &warm).await?;
        target.complete(&taken, &warm).await?;
        left -= taken.len();
        if left == 0 {
            break;
        }
    }

    let before = engine.store().figures().await?;
    let begun = Instant::now();
    let batches = load.executions / load.batch as u64;
    let executions = batches * load.batch as u64;
    let window = if load.outstanding == 0 { executions } else { load.outstanding.max(load.batch as u64) };
    let window = Arc::new(Semaphore::new(window as usize));
    let next = Arc::new(AtomicU64::new(0));
    let done = Arc::new(AtomicU64::new(0));
    let mut submitters = Vec::new();
    for _ in 0..load.submitters {
        let (target, window, next, batch) = (target.clone(), window.clone(), next.clone(), load.batch);
        let (asks, mixed) = (terms.asks.clone(), terms.mixed);
        submitters.push(tokio::spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= batches {
                    return Ok::<(), Error>(());
                }
                if let Ok(places) = window.acquire_many(batch as u32).await {
                    places.forget();
                }
                let asks = match mixed {
                    true => &asks[..],
                    false => std::slice::from_ref(&asks[number as usize % asks.len()]),
                };
                target.submit_asking(batch, asks, started.elapsed().as_nanos() as u64).await?;
            }
        }));
    }
    let mut workers = Vec::new();
    for index in 0..load.workers {
        let (target, window, done) = (target.clone(), window.clone(), done.clone());
        let claimer = terms.worker(index, load.batch);
        workers.push(tokio::spawn(async move {
            let mut times = Vec::new();
            let mut taken = Vec::new();
            loop {
                let next = target.work(&taken, &claimer).await?;
                let now = started.elapsed().as_nanos() as u64;
                times.extend(taken.iter().map(|one| Duration::from_nanos(now.saturating_sub(one.mark))));
                window.add_permits(taken.len());
                let all = done.fetch_add(taken.len() as u64, Ordering::Relaxed) + taken.len() as u64;
                taken = next;
                if all >= executions && taken.is_empty() {
                    return Ok::<_, Error>((times, begun.elapsed()));
                }
            }
        }));
    }
    for submitter in submitters {
        submitter.await.map_err(|error| Error::Usage(error.to_string()))??;
    }
    let mut times = Vec::new();
    let mut elapsed = Duration::MAX;
    for worker in workers {
        let (of_worker, ended) = worker.await.map_err(|error| Error::Usage(error.to_string()))??;
        times.extend(of_worker);
        // The first to see that all is done; the others notice when their last claim has waited.
        elapsed = elapsed.min(ended);
    }
    let after = engine.store().figures().await?;
    let per = |of: fn(&(i64, i64)) -> i64| {
        let (before, after) = (before.as_ref()?, after.as_ref()?);
        Some((of(after) - of(before)) as f64 / executions as f64)
    };
    Ok(Driven {
        executions,
        per_second: executions as f64 / elapsed.as_secs_f64(),
        times,
        commits: per(|figures| figures.0),
        wal_bytes: per(|figures| figures.1).filter(|bytes| *bytes > 0.0),
    })
}
