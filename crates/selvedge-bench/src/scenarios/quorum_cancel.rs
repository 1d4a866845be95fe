//! `quorum-cancel`: the cost of cancelling the remaining upstreams of a join that is satisfied by a quorum.
//!
//! Measures commits and time, from the call that reports the last upstream of the quorum to the cancellation of every
//! remaining upstream; the commit of the report is included. First with remaining upstreams that are waiting
//! (`waiting_…`), then with active ones (`running_…`).
//!
//! The number of commits is compared with a goal: 6 for up to 100 upstreams, otherwise 20. The throughput of the whole
//! scenario is compared with that of the floor.

use crate::harness::{ActiveExecution, BenchWorker, Cost, Target, TestBed, graphs};
use crate::report::{Report, Times, rounded};
use crate::{Error, Load, Place};
use selvedge_core::FlowId;
use selvedge_core::state::StateName;
use selvedge_engine::Namespace;
use serde_json::json;
use std::time::{Duration, Instant};

/// The parameters of the scenario.
#[derive(Clone, Debug)]
pub struct Study {
    /// The number of upstreams of the join. Default: 100.
    pub width: usize,
    /// The number of upstreams that satisfy the join. Default: 2.
    pub quorum: usize,
    /// The number of flows, one after another, in each of the two ways. Default: 10.
    pub rounds: usize,
}

impl Default for Study {
    fn default() -> Self {
        Study { width: 100, quorum: 2, rounds: 10 }
    }
}

/// Longest time to wait for the cancellations of one flow.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(60);

/// Runs the scenario.
pub async fn run(place: &Place, load: &Load, study: &Study) -> Result<Report, Error> {
    if load.http {
        return Err(Error::Usage("the scenario quorum-cancel runs in process: leave --http out".into()));
    }
    if study.quorum == 0 || study.quorum >= study.width {
        let (quorum, width) = (study.quorum, study.width);
        return Err(Error::Usage(format!(
            "--quorum {quorum} must lie between 1 and --width {width} minus 1"
        )));
    }
    let bed = TestBed::open(place, load).await?;
    let report = bed.report("quorum-cancel", place, load);
    let report = measure(&bed, study, report).await;
    bed.close().await?;
    report
}

async fn measure(bed: &TestBed, study: &Study, report: Report) -> Result<Report, Error> {
    let Target::InProcess(namespace) = &bed.target else {
        return Err(Error::Usage("the target is not in process".into()));
    };
    // Creates connections, prepared statements and the class of the lane.
    run_rounds(bed, namespace, &Study { rounds: 1, ..study.clone() }, false).await?;
    let before = bed.counters().await?;
    let begun = Instant::now();
    let waiting = run_rounds(bed, namespace, study, false).await?;
    let elapsed = begun.elapsed();
    let cost = bed.cost_since(before).await?;
    let active = run_rounds(bed, namespace, study, true).await?;
    let executions = (study.rounds * (study.width + 1)) as u64;
    let mut report = Report {
        executions,
        throughput: Some(executions as f64 / elapsed.as_secs_f64()),
        times: waiting.times(),
        commits: cost.commits_per(executions),
        wal_bytes: cost.wal_bytes_per(executions),
        ..report
    };
    for (name, rounds) in [("waiting", &waiting), ("running", &active)] {
        report.more.insert(format!("{name}_commits_median"), json!(rounds.commits(rounds.costs.len() / 2)));
        report.more.insert(format!("{name}_commits_most"), json!(rounds.commits(rounds.costs.len() - 1)));
        if let Some(times) = rounds.times() {
            report.more.insert(format!("{name}_p50_ms"), rounded(times.p50));
            report.more.insert(format!("{name}_p99_ms"), rounded(times.p99));
        }
    }
    report.more.insert("goal_commits".into(), json!(if study.width <= 100 { 6 } else { 20 }));
    report.settings.extend([
        ("width".to_owned(), json!(study.width)),
        ("quorum".to_owned(), json!(study.quorum)),
        ("rounds".to_owned(), json!(study.rounds)),
    ]);
    Ok(report)
}

/// The time and cost of each round.
#[derive(Default)]
struct Rounds {
    durations: Vec<Duration>,
    costs: Vec<Cost>,
}

impl Rounds {
    fn times(&self) -> Option<Times> {
        Times::of(self.durations.clone())
    }

    /// Returns the number of commits at this index of the sorted numbers of all rounds.
    fn commits(&self, index: usize) -> Option<i64> {
        let mut commits: Vec<i64> = self.costs.iter().filter_map(|cost| cost.commits).collect();
        commits.sort_unstable();
        commits.get(index).copied()
    }
}

/// Runs all rounds, with remaining upstreams that are waiting or, if `active`, claimed.
async fn run_rounds(
    bed: &TestBed,
    namespace: &Namespace,
    study: &Study,
    active: bool,
) -> Result<Rounds, Error> {
    let worker = BenchWorker::new(0, study.quorum);
    let remaining = study.width - study.quorum;
    let mut rounds = Rounds::default();
    for _ in 0..study.rounds {
        let flow = bed.target.submit_flow(graphs::quorum(study.width, study.quorum as u32)).await?;
        let quorum = claim(&bed.target, &worker, study.quorum).await?;
        if active {
            claim(&bed.target, &BenchWorker::new(0, remaining.min(1000)), remaining).await?;
        }
        let before = bed.counters().await?;
        let begun = Instant::now();
        bed.target.complete(&quorum, &worker).await?;
        wait_for_cancellations(namespace, flow, remaining as i32, begun).await?;
        rounds.durations.push(begun.elapsed());
        rounds.costs.push(bed.cost_since(before).await?);
        let join = claim(&bed.target, &worker, 1).await?;
        bed.target.complete(&join, &worker).await?;
    }
    Ok(rounds)
}

/// Claims this many executions, in several calls if necessary.
async fn claim(target: &Target, worker: &BenchWorker, count: usize) -> Result<Vec<ActiveExecution>, Error> {
    let mut active = Vec::new();
    while active.len() < count {
        let more = target.work(&[], worker).await?;
        if more.is_empty() {
            return Err(Error::Usage(format!("only {} of {count} nodes could be claimed", active.len())));
        }
        active.extend(more);
    }
    Ok(active)
}

/// Waits until this many nodes of the flow are cancelled.
async fn wait_for_cancellations(
    namespace: &Namespace,
    flow: FlowId,
    count: i32,
    begun: Instant,
) -> Result<(), Error> {
    loop {
        let cancelled = namespace.flow(flow).await?.flow.counts.of(StateName::Cancelled);
        if cancelled == count {
            return Ok(());
        }
        if begun.elapsed() > CANCEL_TIMEOUT {
            return Err(Error::Usage(format!("only {cancelled} of {count} nodes were cancelled in time")));
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
