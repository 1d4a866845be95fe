//! `fanout`: one node, then many, then one that joins them.
//!
//! Workers complete what they hold and claim up to a batch more in the same call. The whole time goes from the call of
//! submit to the answer to the completion of the join; the time of the join from the last call that reports upstreams
//! complete to the moment a worker has the join.

use crate::bed::Bed;
use crate::report::{Report, Times, rounded};
use crate::shape::{self, JOIN, MIDDLE};
use crate::target::{Claimer, Taken, Target};
use crate::{Error, Load, Place};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

/// How much there is.
#[derive(Clone, Debug)]
pub struct Study {
    /// How many nodes stand side by side.
    pub width: usize,
    /// How often it runs, one after another.
    pub rounds: usize,
}

impl Default for Study {
    fn default() -> Self {
        Study { width: 1000, rounds: 20 }
    }
}

/// Runs it, next to its floor.
pub async fn run(place: &Place, load: &Load, study: &Study) -> Result<Report, Error> {
    let bed = Bed::open(place, load).await?;
    let report = bed.report("fanout", place, load);
    let report = measure(&bed, load, study, report).await;
    bed.close().await?;
    report
}

/// What the workers saw, in nanoseconds from the start.
#[derive(Clone)]
struct Watch {
    started: Instant,
    last_upstream: Arc<AtomicU64>,
    join_started: Arc<AtomicU64>,
    joined: UnboundedSender<u64>,
    over: Arc<AtomicBool>,
}

impl Watch {
    fn now(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }
}

async fn measure(bed: &Bed, load: &Load, study: &Study, report: Report) -> Result<Report, Error> {
    let (joined, mut ends) = unbounded_channel();
    let watch = Watch {
        started: Instant::now(),
        last_upstream: Arc::default(),
        join_started: Arc::default(),
        joined,
        over: Arc::default(),
    };
    let mut workers = JoinSet::new();
    for index in 0..load.workers {
        workers.spawn(work(bed.target.clone(), Claimer::new(index, load.batch), watch.clone()));
    }
    let (mut wholes, mut joins) = (Vec::new(), Vec::new());
    let mut before = bed.figures().await?;
    for round in 0..=study.rounds {
        // The first makes connections, statements and the lane's class, and is not counted.
        if round == 1 {
            before = bed.figures().await?;
            (wholes, joins) = (Vec::new(), Vec::new());
        }
        bed.claims_wait(load.workers).await;
        let graph = shape::fanout(study.width);
        let submitted = watch.now();
        bed.target.submit_flow(graph).await?;
        let end = tokio::select! {
            Some(end) = ends.recv() => end,
            Some(ended) = workers.join_next() => {
                ended.map_err(|error| Error::Usage(error.to_string()))??;
                return Err(Error::Usage("a worker ended before its time".into()));
            }
        };
        wholes.push(Duration::from_nanos(end - submitted));
        let join_started = watch.join_started.load(Ordering::Relaxed);
        let waited = join_started.saturating_sub(watch.last_upstream.load(Ordering::Relaxed));
        joins.push(Duration::from_nanos(waited));
    }
    let spent = bed.spent(before).await?;
    watch.over.store(true, Ordering::Relaxed);
    while let Some(ended) = workers.join_next().await {
        ended.map_err(|error| Error::Usage(error.to_string()))??;
    }
    let executions = (study.rounds * (study.width + 2)) as u64;
    let seconds: f64 = wholes.iter().map(Duration::as_secs_f64).sum();
    let mut report = Report {
        executions,
        throughput: Some(executions as f64 / seconds),
        times: Times::of(wholes),
        commits: spent.commits_per(executions),
        wal_bytes: spent.wal_bytes_per(executions),
        ..report
    };
    if let Some(join) = Times::of(joins) {
        report.more.insert("join_p50_ms".into(), rounded(join.p50));
        report.more.insert("join_p95_ms".into(), rounded(join.p95));
        report.more.insert("goal_join_p50_ms".into(), rounded(5.0 * bed.floor.commit.p50 + 1.0));
    }
    report.more.insert("commits_per_round".into(), json!(spent.commits_per(study.rounds as u64)));
    report.settings.extend([
        ("width".to_owned(), json!(study.width)),
        ("rounds".to_owned(), json!(study.rounds)),
        ("batch".to_owned(), json!(load.batch)),
        ("workers".to_owned(), json!(load.workers)),
    ]);
    Ok(report)
}

async fn work(target: Target, claimer: Claimer, watch: Watch) -> Result<(), Error> {
    let mut taken: Vec<Taken> = Vec::new();
    while !watch.over.load(Ordering::Relaxed) || !taken.is_empty() {
        if taken.iter().any(|one| one.mark == MIDDLE) {
            // Before the call, so that it is known when the join starts, whoever gets it.
            watch.last_upstream.fetch_max(watch.now(), Ordering::Relaxed);
        }
        let next = target.work(&taken, &claimer).await?;
        let now = watch.now();
        if next.iter().any(|one| one.mark == JOIN) {
            watch.join_started.store(now, Ordering::Relaxed);
        }
        if taken.iter().any(|one| one.mark == JOIN) {
            // Nobody listens any more when the measurement has failed.
            let _ = watch.joined.send(now);
        }
        taken = next;
    }
    Ok(())
}
