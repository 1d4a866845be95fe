//! `flows`: many linear flows at once, as many nodes as go.
//!
//! Flows are submitted one in a call, many calls at a time; workers complete what they hold and claim more in the same
//! call. At most `at_once` flows are submitted and not yet completed. Times go from the call of submit to the answer to
//! the completion of a flow's last node.

use crate::bed::Bed;
use crate::report::{Report, Times};
use crate::shape::{self, MIDDLE};
use crate::target::{Claimer, Taken, Target};
use crate::{Error, Load, Place};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// How many calls of submit are under way at most.
const SUBMITTERS: usize = 100;

/// How much there is.
#[derive(Clone, Debug)]
pub struct Study {
    /// How many nodes a flow has.
    pub length: usize,
    /// How many flows.
    pub flows: u64,
    /// How many may be submitted and not yet completed.
    pub at_once: usize,
}

impl Default for Study {
    fn default() -> Self {
        Study { length: 10, flows: 5000, at_once: 1000 }
    }
}

/// Runs it, next to its floor.
pub async fn run(place: &Place, load: &Load, study: &Study) -> Result<Report, Error> {
    let bed = Bed::open(place, load).await?;
    let report = bed.report("flows", place, load);
    let report = measure(&bed, load, study, report).await;
    bed.close().await?;
    report
}

/// What submitters and workers share.
#[derive(Clone)]
struct Drive {
    target: Target,
    started: Instant,
    /// Places for flows that are under way.
    window: Arc<Semaphore>,
    /// How many flows were begun, and how many are done.
    begun: Arc<AtomicU64>,
    done: Arc<AtomicU64>,
}

async fn measure(bed: &Bed, load: &Load, study: &Study, report: Report) -> Result<Report, Error> {
    // Connections, statements and the lane's class are there before the clock starts.
    drive(bed, load, &Study { flows: 10, ..study.clone() }).await?;
    let before = bed.figures().await?;
    let (times, elapsed) = drive(bed, load, study).await?;
    let spent = bed.spent(before).await?;
    let executions = study.flows * study.length as u64;
    let mut report = Report {
        executions,
        throughput: Some(executions as f64 / elapsed.as_secs_f64()),
        times: Times::of(times),
        commits: spent.commits_per(executions),
        wal_bytes: spent.wal_bytes_per(executions),
        ..report
    };
    report.more.insert("goal_ratio_to_floor".into(), json!(0.25));
    report.settings.extend([
        ("length".to_owned(), json!(study.length)),
        ("flows".to_owned(), json!(study.flows)),
        ("at_once".to_owned(), json!(study.at_once)),
        ("batch".to_owned(), json!(load.batch)),
        ("workers".to_owned(), json!(load.workers)),
    ]);
    Ok(report)
}

/// Submits and runs all flows; gives how long each took, and all of them together.
async fn drive(bed: &Bed, load: &Load, study: &Study) -> Result<(Vec<Duration>, Duration), Error> {
    let drive = Drive {
        target: bed.target.clone(),
        started: Instant::now(),
        window: Arc::new(Semaphore::new(study.at_once.max(1))),
        begun: Arc::default(),
        done: Arc::default(),
    };
    let mut tasks = JoinSet::new();
    for _ in 0..SUBMITTERS.min(study.at_once) {
        tasks.spawn(submit(drive.clone(), study.clone()));
    }
    for index in 0..load.workers {
        tasks.spawn(work(drive.clone(), Claimer::new(index, load.batch), study.flows));
    }
    let (mut times, mut elapsed) = (Vec::new(), Duration::ZERO);
    while let Some(ended) = tasks.join_next().await {
        let (of_worker, last) = ended.map_err(|error| Error::Usage(error.to_string()))??;
        times.extend(of_worker);
        elapsed = elapsed.max(last);
    }
    Ok((times, elapsed))
}

async fn submit(drive: Drive, study: Study) -> Result<(Vec<Duration>, Duration), Error> {
    while drive.begun.fetch_add(1, Ordering::Relaxed) < study.flows {
        if let Ok(place) = drive.window.acquire().await {
            place.forget();
        }
        // The last node carries the time of submission; no other mark is as large.
        let mark = drive.started.elapsed().as_nanos() as u64 + MIDDLE + 1;
        drive.target.submit_flow(shape::chain(study.length, mark)).await?;
    }
    Ok((Vec::new(), Duration::ZERO))
}

/// Works until all flows are done; gives the time of each flow whose last node it completed, and when the last of them was.
async fn work(drive: Drive, claimer: Claimer, flows: u64) -> Result<(Vec<Duration>, Duration), Error> {
    let mut times = Vec::new();
    let mut last = Duration::ZERO;
    let mut taken: Vec<Taken> = Vec::new();
    while !taken.is_empty() || drive.done.load(Ordering::Relaxed) < flows {
        let next = drive.target.work(&taken, &claimer).await?;
        let now = drive.started.elapsed();
        let ended: Vec<&Taken> = taken.iter().filter(|one| one.mark > MIDDLE).collect();
        if !ended.is_empty() {
            last = now;
        }
        times.extend(ended.iter().map(|one| now.saturating_sub(Duration::from_nanos(one.mark))));
        drive.window.add_permits(ended.len());
        drive.done.fetch_add(ended.len() as u64, Ordering::Relaxed);
        taken = next;
    }
    Ok((times, last))
}
