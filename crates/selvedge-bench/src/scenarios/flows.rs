//! `flows`: the throughput of many linear flows at once.
//!
//! Each call submits one flow, with many calls at a time; workers complete nodes and claim more in the same call. At
//! most `at_once` flows are submitted and not yet completed.
//!
//! Measures nodes per second, and the time from the call of submit to the answer to the completion of the flow's last
//! node. Compared with the throughput of the floor; the goal is a ratio of 0.25.

use crate::harness::graphs::{self, MIDDLE};
use crate::harness::{ActiveExecution, BenchWorker, Target, TestBed};
use crate::report::{Report, Times};
use crate::{Error, Load, Place, task_result};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// The largest number of concurrent calls of submit.
const SUBMITTERS: usize = 100;

/// The parameters of the scenario.
#[derive(Clone, Debug)]
pub struct Study {
    /// The number of nodes in a flow. Default: 10.
    pub length: usize,
    /// The number of flows. Default: 5000.
    pub flows: u64,
    /// The largest number of flows that are submitted and not yet completed. Default: 1000.
    pub at_once: usize,
}

impl Default for Study {
    fn default() -> Self {
        Study { length: 10, flows: 5000, at_once: 1000 }
    }
}

/// Runs the scenario.
pub async fn run(place: &Place, load: &Load, study: &Study) -> Result<Report, Error> {
    let bed = TestBed::open(place, load).await?;
    let report = bed.report("flows", place, load);
    let report = measure(&bed, load, study, report).await;
    bed.close().await?;
    report
}

/// The state that submitters and workers share.
#[derive(Clone)]
struct Run {
    target: Target,
    started: Instant,
    /// One permit for each flow that may still be submitted before others complete.
    window: Arc<Semaphore>,
    /// The number of flows whose submission has begun.
    submitted: Arc<AtomicU64>,
    /// The number of completed flows.
    completed: Arc<AtomicU64>,
}

async fn measure(bed: &TestBed, load: &Load, study: &Study, report: Report) -> Result<Report, Error> {
    // Creates connections, prepared statements and the class of the lane.
    run_flows(bed, load, &Study { flows: 10, ..study.clone() }).await?;
    let before = bed.counters().await?;
    let (times, elapsed) = run_flows(bed, load, study).await?;
    let cost = bed.cost_since(before).await?;
    let executions = study.flows * study.length as u64;
    let mut report = Report {
        executions,
        throughput: Some(executions as f64 / elapsed.as_secs_f64()),
        times: Times::of(times),
        commits: cost.commits_per(executions),
        wal_bytes: cost.wal_bytes_per(executions),
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

/// Submits and completes all flows. Returns the time of each flow, and the time until the last completion.
async fn run_flows(bed: &TestBed, load: &Load, study: &Study) -> Result<(Vec<Duration>, Duration), Error> {
    let run = Run {
        target: bed.target.clone(),
        started: Instant::now(),
        window: Arc::new(Semaphore::new(study.at_once.max(1))),
        submitted: Arc::default(),
        completed: Arc::default(),
    };
    let mut tasks = JoinSet::new();
    for _ in 0..SUBMITTERS.min(study.at_once) {
        tasks.spawn(submit(run.clone(), study.clone()));
    }
    for index in 0..load.workers {
        tasks.spawn(work(run.clone(), BenchWorker::new(index, load.batch), study.flows));
    }
    let (mut times, mut elapsed) = (Vec::new(), Duration::ZERO);
    while let Some(joined) = tasks.join_next().await {
        let (task_times, last) = task_result(joined)?;
        times.extend(task_times);
        elapsed = elapsed.max(last);
    }
    Ok((times, elapsed))
}

/// Submits flows until all are submitted. Returns no times.
async fn submit(run: Run, study: Study) -> Result<(Vec<Duration>, Duration), Error> {
    while run.submitted.fetch_add(1, Ordering::Relaxed) < study.flows {
        if let Ok(permit) = run.window.acquire().await {
            permit.forget();
        }
        // The last node carries the time of submission; no other mark is as large.
        let mark = run.started.elapsed().as_nanos() as u64 + MIDDLE + 1;
        run.target.submit_flow(graphs::chain(study.length, mark)).await?;
    }
    Ok((Vec::new(), Duration::ZERO))
}

/// Completes nodes until all flows are completed. Returns the time of each flow whose last node it completed, and the
/// time until the last of them.
async fn work(run: Run, worker: BenchWorker, flows: u64) -> Result<(Vec<Duration>, Duration), Error> {
    let mut times = Vec::new();
    let mut last = Duration::ZERO;
    let mut active: Vec<ActiveExecution> = Vec::new();
    while !active.is_empty() || run.completed.load(Ordering::Relaxed) < flows {
        let next = run.target.work(&active, &worker).await?;
        let now = run.started.elapsed();
        let ended: Vec<&ActiveExecution> = active.iter().filter(|node| node.mark > MIDDLE).collect();
        if !ended.is_empty() {
            last = now;
        }
        times.extend(ended.iter().map(|node| node.time_until(now.as_nanos() as u64)));
        run.window.add_permits(ended.len());
        run.completed.fetch_add(ended.len() as u64, Ordering::Relaxed);
        active = next;
    }
    Ok((times, last))
}
