//! `chain`: the time from one node of a chain to the next, with one worker.
//!
//! Measures the time from the call that reports a node complete to the moment the worker has the next node, in two
//! ways. First for a worker with a free slot: its next claim waits while the handler runs, and the completion hands the
//! next node over to that claim. Then for a worker with one slot: the call that reports also claims (`same_call_…`).
//!
//! Compared with the single-row commit of the floor: the goal for the median is 2.5 commits plus 1 ms.

use crate::harness::{ActiveExecution, BenchWorker, Target, TestBed, graphs};
use crate::report::{Report, Times, rounded};
use crate::{Error, Load, Place, task_result};
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// The parameters of the scenario.
#[derive(Clone, Debug)]
pub struct Study {
    /// The number of nodes in a chain. Default: 50.
    pub length: usize,
    /// The number of chains, one after another, in each of the two ways. Default: 20.
    pub chains: usize,
}

impl Default for Study {
    fn default() -> Self {
        Study { length: 50, chains: 20 }
    }
}

/// Runs the scenario.
pub async fn run(place: &Place, load: &Load, study: &Study) -> Result<Report, Error> {
    let bed = TestBed::open(place, load).await?;
    let report = bed.report("chain", place, load);
    let report = measure(&bed, study, report).await;
    bed.close().await?;
    report
}

async fn measure(bed: &TestBed, study: &Study, report: Report) -> Result<Report, Error> {
    let worker = BenchWorker { wait: Duration::from_secs(10), ..BenchWorker::new(0, 1) };
    // Creates connections, prepared statements and the class of the lane.
    let warm_up = Study { chains: 1, ..study.clone() };
    with_waiting_claim(bed, &worker, &warm_up).await?;
    with_same_call(bed, &worker, &warm_up).await?;

    let executions = (study.chains * study.length) as u64;
    let before = bed.counters().await?;
    let begun = Instant::now();
    let times = with_waiting_claim(bed, &worker, study).await?;
    let elapsed = begun.elapsed();
    let cost = bed.cost_since(before).await?;
    let before = bed.counters().await?;
    let same_call_times = with_same_call(bed, &worker, study).await?;
    let same_call_cost = bed.cost_since(before).await?;

    let mut report = Report {
        executions,
        throughput: Some(executions as f64 / elapsed.as_secs_f64()),
        times: Times::of(times),
        commits: cost.commits_per(executions),
        wal_bytes: cost.wal_bytes_per(executions),
        ..report
    };
    let commit = bed.floor.commit.p50;
    report.more.insert("goal_p50_ms".into(), rounded(2.5 * commit + 1.0));
    if let Some(times) = report.times {
        report.more.insert("p50_in_commits".into(), rounded(times.p50 / commit));
    }
    if let Some(times) = Times::of(same_call_times) {
        report.more.insert("same_call_p50_ms".into(), rounded(times.p50));
        report.more.insert("same_call_p95_ms".into(), rounded(times.p95));
        report.more.insert("same_call_p99_ms".into(), rounded(times.p99));
    }
    let same_call_commits = same_call_cost.commits_per(executions);
    report.more.insert("same_call_commits_per_execution".into(), json!(same_call_commits));
    report.settings.insert("length".into(), json!(study.length));
    report.settings.insert("chains".into(), json!(study.chains));
    Ok(report)
}

/// Runs chains while the worker's next claim waits. Returns the times between nodes.
async fn with_waiting_claim(
    bed: &TestBed,
    worker: &BenchWorker,
    study: &Study,
) -> Result<Vec<Duration>, Error> {
    let mut claiming = claim(&bed.target, worker);
    let mut times = Vec::with_capacity(study.chains * study.length);
    for _ in 0..study.chains {
        bed.wait_for_waiting_claims(1).await;
        bed.target.submit_flow(graphs::chain(study.length, graphs::JOIN)).await?;
        let mut reported: Option<Instant> = None;
        for _ in 0..study.length {
            let (active, started) = task_result(claiming.await)?;
            times.extend(reported.map(|reported| started - reported));
            // The handler runs until the worker's next claim waits.
            claiming = claim(&bed.target, worker);
            bed.wait_for_waiting_claims(1).await;
            reported = Some(Instant::now());
            bed.target.complete(&active, worker).await?;
        }
    }
    // Satisfies the claim that still waits, so that it claims nothing of the following measurement.
    bed.target.submit_flow(graphs::chain(1, graphs::JOIN)).await?;
    let (active, _) = task_result(claiming.await)?;
    bed.target.complete(&active, worker).await?;
    Ok(times)
}

type Claiming = JoinHandle<Result<(Vec<ActiveExecution>, Instant), Error>>;

/// Claims until an execution is found. Returns the claimed executions and the time of the answer.
fn claim(target: &Target, worker: &BenchWorker) -> Claiming {
    let (target, worker) = (target.clone(), worker.clone());
    tokio::spawn(async move {
        loop {
            let active = target.work(&[], &worker).await?;
            if !active.is_empty() {
                return Ok((active, Instant::now()));
            }
        }
    })
}

/// Runs chains in which the call that reports a node claims the next one. Returns the times between nodes.
async fn with_same_call(bed: &TestBed, worker: &BenchWorker, study: &Study) -> Result<Vec<Duration>, Error> {
    let mut times = Vec::with_capacity(study.chains * study.length);
    for _ in 0..study.chains {
        bed.target.submit_flow(graphs::chain(study.length, graphs::JOIN)).await?;
        let mut active = bed.target.work(&[], worker).await?;
        for _ in 1..study.length {
            let reported = Instant::now();
            active = bed.target.work(&active, worker).await?;
            while active.is_empty() {
                active = bed.target.work(&[], worker).await?;
            }
            times.push(reported.elapsed());
        }
        bed.target.complete(&active, worker).await?;
    }
    Ok(times)
}
