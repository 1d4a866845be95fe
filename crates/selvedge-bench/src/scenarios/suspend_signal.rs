//! `suspend-signal`: the cost of suspensions, signals and durable steps.
//!
//! Measures the time from the call that sends a signal to the start of the handler that waited for it. Compared with
//! the single-row commit of the floor: the goal for the median is 3 commits plus 1 ms.
//!
//! Then measures commits of a handler with ten durable steps, alone and with many others at once; its throughput in
//! handlers per second is compared with that of the floor. Finally, on PostgreSQL, measures the rate of claims next to
//! many suspended executions, and compares it with the rate without them as `ratio_beside_suspended`.
//!
//! The scenario always runs in process: a worker over HTTP makes the same calls.

use super::backlog::rates_beside_suspended;
use crate::harness::{BenchWorker, TestBed, report_all};
use crate::report::{Report, Times, rounded};
use crate::{Error, Load, Place, task_result};
use bytes::Bytes;
use selvedge_core::rules::claim::Claimed;
use selvedge_core::rules::report::{Fence, Op};
use selvedge_core::rules::signal::SignalDraft;
use selvedge_core::rules::step::StepDraft;
use selvedge_core::step::StepKind;
use selvedge_core::suspension::{Condition, WaitDraft};
use selvedge_core::{Draft, Name};
use selvedge_engine::Namespace;
use serde_json::json;
use std::time::{Duration, Instant};

/// The number of steps of a handler.
const STEPS: usize = 10;
/// Longest time for which a claim waits.
const CLAIM_WAIT: Duration = Duration::from_secs(10);

/// The parameters of the scenario.
#[derive(Clone, Debug)]
pub struct Study {
    /// The number of signals, one after another. Default: 500.
    pub signals: usize,
    /// The number of handlers of ten steps that run one after another. Default: 50.
    pub alone: usize,
    /// The number of handlers of ten steps that run at once. Default: 200.
    pub at_once: usize,
    /// The number of times that so many handlers run at once. Default: 10.
    pub rounds: usize,
    /// The number of suspended executions next to which claims are timed; 0 skips that. Default: 1 000 000.
    pub suspended: u64,
}

impl Default for Study {
    fn default() -> Self {
        Study { signals: 500, alone: 50, at_once: 200, rounds: 10, suspended: 1_000_000 }
    }
}

/// Runs the scenario.
pub async fn run(place: &Place, load: &Load, study: &Study) -> Result<Report, Error> {
    let bed = TestBed::open(place, load).await?;
    let report = bed.report("suspend-signal", place, load);
    let report = measure(&bed, study, report).await;
    bed.close().await?;
    let mut report = report?;
    if let (Place::Postgres(_), true) = (place, study.suspended > 0) {
        let (without, with) = rates_beside_suspended(place, load, study.suspended).await?;
        report.more.insert("suspended".into(), json!(study.suspended));
        report.more.insert("claims_per_s_without_suspended".into(), json!(without.round()));
        report.more.insert("claims_per_s_beside_suspended".into(), json!(with.round()));
        report.more.insert("ratio_beside_suspended".into(), rounded(with / without));
    }
    Ok(report)
}

async fn measure(bed: &TestBed, study: &Study, report: Report) -> Result<Report, Error> {
    let namespace = bed.engine.namespace("default").await?;
    // Creates connections, prepared statements and the class of the lane.
    time_signals(&namespace, bed, 20).await?;
    let times = Times::of(time_signals(&namespace, bed, study.signals).await?);

    let (before, log_before) = (bed.counters().await?, last_log_entry(bed).await?);
    for _ in 0..study.alone {
        run_handler_alone(bed, &namespace).await?;
    }
    let log_entries = (last_log_entry(bed).await? - log_before) as f64 / study.alone.max(1) as f64;
    let alone = bed.cost_since(before).await?.commits_per(study.alone as u64);

    let before = bed.counters().await?;
    let begun = Instant::now();
    for _ in 0..study.rounds {
        run_handlers_at_once(&namespace, study.at_once).await?;
    }
    let elapsed = begun.elapsed();
    let handlers = (study.rounds * study.at_once) as u64;
    let cost = bed.cost_since(before).await?;

    let mut report = Report {
        executions: handlers,
        throughput: Some(handlers as f64 / elapsed.as_secs_f64()),
        times,
        commits: cost.commits_per(handlers),
        wal_bytes: cost.wal_bytes_per(handlers),
        ..report
    };
    let commit = bed.floor.commit.p50;
    report.more.insert("goal_p50_ms".into(), rounded(3.0 * commit + 1.0));
    report.more.insert("p50_in_commits".into(), rounded(times.map_or(0.0, |times| times.p50) / commit));
    // One log entry belongs to the submission, which hands the execution over to the waiting claim.
    report.more.insert("commits_of_ten_steps_alone".into(), rounded(log_entries - 1.0));
    report.more.insert("commits_of_ten_steps_with_news".into(), alone.map_or(json!(null), rounded));
    report.more.insert("at_once".into(), json!(study.at_once));
    Ok(report)
}

/// Returns the number of the last entry of the event log. Every commit that changes an execution writes one entry.
async fn last_log_entry(bed: &TestBed) -> Result<i64, Error> {
    Ok(bed.engine.store().log_after(i64::MAX - 1, 1).await?.upto)
}

/// Claims one execution.
async fn claim(namespace: &Namespace) -> Result<Claimed, Error> {
    let claimed = claim_many(namespace, 1).await?.pop();
    claimed.ok_or_else(|| Error::Usage("there was nothing to claim".into()))
}

async fn claim_many(namespace: &Namespace, max: usize) -> Result<Vec<Claimed>, Error> {
    let worker = BenchWorker { wait: CLAIM_WAIT, ..BenchWorker::new(0, max) };
    Ok(namespace.claim(worker.waiting_claim()).await?)
}

async fn report(namespace: &Namespace, fence: Fence, op: Op) -> Result<(), Error> {
    report_all(namespace, vec![Ok((fence, None, op))], None).await.map(drop)
}

fn fence(claimed: &Claimed) -> Result<Fence, Error> {
    Fence::of(&claimed.execution).ok_or_else(|| Error::Usage("a claimed execution has no lease".into()))
}

/// Suspends and signals one execution repeatedly, while its worker's claim waits. Returns the time from each signal to
/// the claim.
async fn time_signals(namespace: &Namespace, bed: &TestBed, count: usize) -> Result<Vec<Duration>, Error> {
    let mut times = Vec::with_capacity(count);
    let id = namespace.submit(Draft::new("wait")).await?.execution.id;
    let mut claimed = claim(namespace).await?;
    for _ in 0..count {
        let wait = WaitDraft::new(Condition::signal(Name::trusted("go")));
        report(namespace, fence(&claimed)?, namespace.suspend(vec![wait], vec![])).await?;
        let waiting_claim = {
            let namespace = namespace.clone();
            tokio::spawn(async move { Ok::<_, Error>((claim(&namespace).await?, Instant::now())) })
        };
        bed.wait_for_waiting_claims(1).await;
        let sent = Instant::now();
        let payload = Bytes::from_static(b"{\"approved\":true}");
        let signal = SignalDraft { name: Some("go".into()), payload, key: None };
        namespace.signal(id, signal, &Name::trusted("bench")).await?;
        let (resumed, started) = task_result(waiting_claim.await)?;
        times.push(started.duration_since(sent));
        claimed = resumed;
    }
    report(namespace, fence(&claimed)?, complete()).await?;
    Ok(times)
}

fn complete() -> Op {
    Op::Complete { result: Bytes::from_static(b"{\"ok\":true}") }
}

/// Submits an execution while a claim waits, and runs its handler.
async fn run_handler_alone(bed: &TestBed, namespace: &Namespace) -> Result<(), Error> {
    let waiting_claim = {
        let namespace = namespace.clone();
        tokio::spawn(async move { claim(&namespace).await })
    };
    bed.wait_for_waiting_claims(1).await;
    namespace.submit(Draft::new("steps")).await?;
    run_handler(namespace, task_result(waiting_claim.await)?).await
}

/// Records ten steps, one after another, and completes the execution.
async fn run_handler(namespace: &Namespace, claimed: Claimed) -> Result<(), Error> {
    let fence = fence(&claimed)?;
    for step in 0..STEPS {
        let step = StepDraft {
            name: Name::trusted(&format!("step-{step}")),
            kind: StepKind::Step,
            result: Bytes::from_static(b"{\"charged\":1999}"),
            duration_ms: 0,
        };
        report(namespace, fence, Op::Step(step)).await?;
    }
    report(namespace, fence, complete()).await
}

/// Runs this many handlers at once, from their submission to their completion.
async fn run_handlers_at_once(namespace: &Namespace, count: usize) -> Result<(), Error> {
    let drafts = (0..count).map(|_| Ok(Draft::new("steps"))).collect();
    for submitted in namespace.submit_many(drafts, None).await? {
        submitted.map_err(selvedge_engine::Error::from)?;
    }
    let mut running = Vec::with_capacity(count);
    while running.len() < count {
        for claimed in claim_many(namespace, count - running.len()).await? {
            let namespace = namespace.clone();
            running.push(tokio::spawn(async move { run_handler(&namespace, claimed).await }));
        }
    }
    for handler in running {
        task_result(handler.await)?;
    }
    Ok(())
}
