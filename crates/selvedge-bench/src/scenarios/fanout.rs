//! `fanout`: flows of one node, then many, then one that joins them.
//!
//! Workers complete nodes and claim up to a batch more in the same call.
//!
//! Measures nodes per second; the time of a whole flow, from the call of submit to the answer to the completion of the
//! join; and the time of the join (`join_…`), from the last call that reports upstreams complete to the moment a worker
//! has the join. The throughput is compared with that of the floor, the time of the join with its single-row commit:
//! the goal for the median is 5 commits plus 1 ms.

use crate::harness::graphs::{self, JOIN, MIDDLE};
use crate::harness::{ActiveExecution, BenchWorker, Cost, Target, TestBed};
use crate::report::{Report, Times, rounded};
use crate::{Error, Load, Place, task_result};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

/// The parameters of the scenario.
#[derive(Clone, Debug)]
pub struct Study {
    /// The number of nodes between the first and the join. Default: 1000.
    pub width: usize,
    /// The number of flows, one after another. Default: 20.
    pub rounds: usize,
}

impl Default for Study {
    fn default() -> Self {
        Study { width: 1000, rounds: 20 }
    }
}

/// Runs the scenario.
pub async fn run(place: &Place, load: &Load, study: &Study) -> Result<Report, Error> {
    let bed = TestBed::open(place, load).await?;
    let report = bed.report("fanout", place, load);
    let figures = measure(&bed, load, study).await;
    let commit = bed.floor.commit.p50;
    bed.close().await?;
    let Figures { flows, joins, cost } = figures?;
    let executions = (study.rounds * (study.width + 2)) as u64;
    let seconds: f64 = flows.iter().map(Duration::as_secs_f64).sum();
    let mut report = Report {
        executions,
        throughput: Some(executions as f64 / seconds),
        times: Times::of(flows),
        commits: cost.commits_per(executions),
        wal_bytes: cost.wal_bytes_per(executions),
        ..report
    };
    if let Some(join) = Times::of(joins) {
        report.more.insert("join_p50_ms".into(), rounded(join.p50));
        report.more.insert("join_p95_ms".into(), rounded(join.p95));
        report.more.insert("goal_join_p50_ms".into(), rounded(5.0 * commit + 1.0));
    }
    report.more.insert("commits_per_round".into(), json!(cost.commits_per(study.rounds as u64)));
    report.settings.extend([
        ("width".to_owned(), json!(study.width)),
        ("rounds".to_owned(), json!(study.rounds)),
        ("batch".to_owned(), json!(load.batch)),
        ("workers".to_owned(), json!(load.workers)),
    ]);
    Ok(report)
}

/// The figures of all rounds.
struct Figures {
    /// The time of each flow.
    flows: Vec<Duration>,
    /// The time of each join.
    joins: Vec<Duration>,
    cost: Cost,
}

/// The times that workers observe, in nanoseconds since the start.
#[derive(Clone)]
struct Observations {
    started: Instant,
    /// The last call that reports upstreams of the join.
    last_upstream: Arc<AtomicU64>,
    /// The moment in which a worker got the join.
    join_started: Arc<AtomicU64>,
    /// Receives the time of the answer to the completion of each join.
    join_completed: UnboundedSender<u64>,
    /// True when the workers have to stop.
    over: Arc<AtomicBool>,
}

impl Observations {
    fn now(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }
}

async fn measure(bed: &TestBed, load: &Load, study: &Study) -> Result<Figures, Error> {
    let (join_completed, mut completions) = unbounded_channel();
    let observations = Observations {
        started: Instant::now(),
        last_upstream: Arc::default(),
        join_started: Arc::default(),
        join_completed,
        over: Arc::default(),
    };
    let mut workers = JoinSet::new();
    for index in 0..load.workers {
        workers.spawn(work(bed.target.clone(), BenchWorker::new(index, load.batch), observations.clone()));
    }
    let (mut flows, mut joins) = (Vec::new(), Vec::new());
    let mut before = bed.counters().await?;
    for round in 0..=study.rounds {
        // The first round creates connections, prepared statements and the class of the lane, and is not counted.
        if round == 1 {
            before = bed.counters().await?;
            (flows, joins) = (Vec::new(), Vec::new());
        }
        bed.wait_for_waiting_claims(load.workers).await;
        let graph = graphs::fanout(study.width);
        let submitted = observations.now();
        bed.target.submit_flow(graph).await?;
        let completed = tokio::select! {
            Some(completed) = completions.recv() => completed,
            Some(joined) = workers.join_next() => {
                task_result(joined)?;
                return Err(Error::Usage("a worker ended too early".into()));
            }
        };
        flows.push(Duration::from_nanos(completed - submitted));
        let join_started = observations.join_started.load(Ordering::Relaxed);
        let last_upstream = observations.last_upstream.load(Ordering::Relaxed);
        joins.push(Duration::from_nanos(join_started.saturating_sub(last_upstream)));
    }
    let cost = bed.cost_since(before).await?;
    observations.over.store(true, Ordering::Relaxed);
    while let Some(joined) = workers.join_next().await {
        task_result(joined)?;
    }
    Ok(Figures { flows, joins, cost })
}

async fn work(target: Target, worker: BenchWorker, observations: Observations) -> Result<(), Error> {
    let mut active: Vec<ActiveExecution> = Vec::new();
    while !observations.over.load(Ordering::Relaxed) || !active.is_empty() {
        if active.iter().any(|node| node.mark == MIDDLE) {
            // Stored before the call, so that it is known when any worker gets the join.
            observations.last_upstream.fetch_max(observations.now(), Ordering::Relaxed);
        }
        let next = target.work(&active, &worker).await?;
        let now = observations.now();
        if next.iter().any(|node| node.mark == JOIN) {
            observations.join_started.store(now, Ordering::Relaxed);
        }
        if active.iter().any(|node| node.mark == JOIN) {
            // The receiver is gone if the measurement has failed.
            let _ = observations.join_completed.send(now);
        }
        active = next;
    }
    Ok(())
}
