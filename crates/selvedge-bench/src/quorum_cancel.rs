//! `quorum-cancel`: some of many are enough, and the rest is cancelled.
//!
//! What is measured begins with the call that reports the last upstream that was still needed, and ends when every
//! sibling is cancelled: how many commits that took, the one of the report included, and how long. First with siblings
//! that wait for a worker, then with siblings that are running.

use crate::bed::{Bed, Spent};
use crate::report::{Report, Times, rounded};
use crate::shape;
use crate::target::{Claimer, Taken, Target};
use crate::{Error, Load, Place};
use selvedge_core::FlowId;
use selvedge_core::state::StateName;
use selvedge_engine::Namespace;
use serde_json::json;
use std::time::{Duration, Instant};

/// How much there is.
#[derive(Clone, Debug)]
pub struct Study {
    /// How many upstreams the join has.
    pub width: usize,
    /// How many of them are enough.
    pub quorum: usize,
    /// How often it runs, one after another, in each of the two ways.
    pub rounds: usize,
}

impl Default for Study {
    fn default() -> Self {
        Study { width: 100, quorum: 2, rounds: 10 }
    }
}

/// How long siblings may take to be cancelled before the measurement is given up.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs it, next to its floor.
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
    let bed = Bed::open(place, load).await?;
    let report = bed.report("quorum-cancel", place, load);
    let report = measure(&bed, study, report).await;
    bed.close().await?;
    report
}

async fn measure(bed: &Bed, study: &Study, report: Report) -> Result<Report, Error> {
    let Target::InProcess(namespace) = &bed.target else {
        return Err(Error::Usage("not in process".into()));
    };
    // Connections, statements and the lane's class are there before anything is measured.
    rounds(bed, namespace, &Study { rounds: 1, ..study.clone() }, false).await?;
    let before = bed.figures().await?;
    let begun = Instant::now();
    let waiting = rounds(bed, namespace, study, false).await?;
    let elapsed = begun.elapsed();
    let spent = bed.spent(before).await?;
    let running = rounds(bed, namespace, study, true).await?;
    let executions = (study.rounds * (study.width + 1)) as u64;
    let mut report = Report {
        executions,
        throughput: Some(executions as f64 / elapsed.as_secs_f64()),
        times: waiting.times(),
        commits: spent.commits_per(executions),
        wal_bytes: spent.wal_bytes_per(executions),
        ..report
    };
    for (word, seen) in [("waiting", &waiting), ("running", &running)] {
        report.more.insert(format!("{word}_commits_median"), json!(seen.commits(seen.spent.len() / 2)));
        report.more.insert(format!("{word}_commits_most"), json!(seen.commits(seen.spent.len() - 1)));
        if let Some(times) = seen.times() {
            report.more.insert(format!("{word}_p50_ms"), rounded(times.p50));
            report.more.insert(format!("{word}_p99_ms"), rounded(times.p99));
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

/// What the rounds showed.
#[derive(Default)]
struct Seen {
    durations: Vec<Duration>,
    spent: Vec<Spent>,
}

impl Seen {
    fn times(&self) -> Option<Times> {
        Times::of(self.durations.clone())
    }

    /// The commits of the round at this place, by their number.
    fn commits(&self, place: usize) -> Option<i64> {
        let mut commits: Vec<i64> = self.spent.iter().filter_map(|spent| spent.commits).collect();
        commits.sort_unstable();
        commits.get(place).copied()
    }
}

async fn rounds(bed: &Bed, namespace: &Namespace, study: &Study, running: bool) -> Result<Seen, Error> {
    let claimer = Claimer::new(0, study.quorum);
    let mut seen = Seen::default();
    for _ in 0..study.rounds {
        let flow = bed.target.submit_flow(shape::quorum(study.width, study.quorum as u32)).await?;
        let needed = claim(&bed.target, &claimer, study.quorum).await?;
        if running {
            let rest = study.width - study.quorum;
            claim(&bed.target, &Claimer::new(0, rest.min(1000)), rest).await?;
        }
        let before = bed.figures().await?;
        let begun = Instant::now();
        bed.target.complete(&needed, &claimer).await?;
        all_cancelled(namespace, flow, (study.width - study.quorum) as i32, begun).await?;
        seen.durations.push(begun.elapsed());
        seen.spent.push(bed.spent(before).await?);
        let join = claim(&bed.target, &claimer, 1).await?;
        bed.target.complete(&join, &claimer).await?;
    }
    Ok(seen)
}

/// Claims so many, in as many calls as that needs.
async fn claim(target: &Target, claimer: &Claimer, count: usize) -> Result<Vec<Taken>, Error> {
    let mut taken = Vec::new();
    while taken.len() < count {
        let more = target.work(&[], claimer).await?;
        if more.is_empty() {
            return Err(Error::Usage(format!("only {} of {count} could be claimed", taken.len())));
        }
        taken.extend(more);
    }
    Ok(taken)
}

/// Waits until so many of the flow are cancelled.
async fn all_cancelled(namespace: &Namespace, flow: FlowId, count: i32, begun: Instant) -> Result<(), Error> {
    loop {
        let cancelled = namespace.flow(flow).await?.flow.counts.of(StateName::Cancelled);
        if cancelled == count {
            return Ok(());
        }
        if begun.elapsed() > PATIENCE {
            return Err(Error::Usage(format!("only {cancelled} of {count} siblings were cancelled in time")));
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
