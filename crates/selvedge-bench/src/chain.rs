//! `chain`: nodes one after another, one worker.
//!
//! The time of a hop goes from the call that reports a node complete to the moment the worker has the next one. It is
//! measured in two ways. First as in a worker with a free slot: its next claim waits while the handler runs, and the
//! completion hands the next node to it. Then as in a worker with one slot: the call that reports claims as well.

use crate::bed::Bed;
use crate::report::{Report, Times, rounded};
use crate::shape;
use crate::target::{Claimer, Taken, Target};
use crate::{Error, Load, Place};
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// How much there is.
#[derive(Clone, Debug)]
pub struct Study {
    /// How many nodes a chain has.
    pub length: usize,
    /// How many chains run, one after another, in each of the two ways.
    pub chains: usize,
}

impl Default for Study {
    fn default() -> Self {
        Study { length: 50, chains: 20 }
    }
}

/// Runs it, next to its floor.
pub async fn run(place: &Place, load: &Load, study: &Study) -> Result<Report, Error> {
    let bed = Bed::open(place, load).await?;
    let report = bed.report("chain", place, load);
    let report = measure(&bed, study, report).await;
    bed.close().await?;
    report
}

async fn measure(bed: &Bed, study: &Study, report: Report) -> Result<Report, Error> {
    let claimer = Claimer { wait: Duration::from_secs(10), ..Claimer::new(0, 1) };
    // Connections, statements and the lane's class are there before anything is measured.
    let warm = Study { chains: 1, ..study.clone() };
    waiting(bed, &claimer, &warm).await?;
    same_call(bed, &claimer, &warm).await?;

    let executions = (study.chains * study.length) as u64;
    let before = bed.figures().await?;
    let begun = Instant::now();
    let hops = waiting(bed, &claimer, study).await?;
    let elapsed = begun.elapsed();
    let spent = bed.spent(before).await?;
    let before = bed.figures().await?;
    let same = same_call(bed, &claimer, study).await?;
    let same_spent = bed.spent(before).await?;

    let mut report = Report {
        executions,
        throughput: Some(executions as f64 / elapsed.as_secs_f64()),
        times: Times::of(hops),
        commits: spent.commits_per(executions),
        wal_bytes: spent.wal_bytes_per(executions),
        ..report
    };
    let commit = bed.floor.commit.p50;
    report.more.insert("goal_p50_ms".into(), rounded(2.5 * commit + 1.0));
    if let Some(times) = report.times {
        report.more.insert("p50_in_commits".into(), rounded(times.p50 / commit));
    }
    if let Some(times) = Times::of(same) {
        report.more.insert("same_call_p50_ms".into(), rounded(times.p50));
        report.more.insert("same_call_p95_ms".into(), rounded(times.p95));
        report.more.insert("same_call_p99_ms".into(), rounded(times.p99));
    }
    report.more.insert("same_call_commits_per_execution".into(), json!(same_spent.commits_per(executions)));
    report.settings.insert("length".into(), json!(study.length));
    report.settings.insert("chains".into(), json!(study.chains));
    Ok(report)
}

/// The next claim waits while a handler runs.
async fn waiting(bed: &Bed, claimer: &Claimer, study: &Study) -> Result<Vec<Duration>, Error> {
    let mut claiming = claim(&bed.target, claimer);
    let mut hops = Vec::with_capacity(study.chains * study.length);
    for _ in 0..study.chains {
        bed.claims_wait(1).await;
        bed.target.submit_flow(shape::chain(study.length, shape::JOIN)).await?;
        let mut reported: Option<Instant> = None;
        for _ in 0..study.length {
            let (taken, started) = claiming.await.map_err(|error| Error::Usage(error.to_string()))??;
            hops.extend(reported.map(|reported| started - reported));
            // The handler takes as long as its worker needs to ask for more.
            claiming = claim(&bed.target, claimer);
            bed.claims_wait(1).await;
            reported = Some(Instant::now());
            bed.target.complete(&taken, claimer).await?;
        }
    }
    // The claim that still waits is given something, so that it takes nothing of what follows.
    bed.target.submit_flow(shape::chain(1, shape::JOIN)).await?;
    let (taken, _) = claiming.await.map_err(|error| Error::Usage(error.to_string()))??;
    bed.target.complete(&taken, claimer).await?;
    Ok(hops)
}

type Claiming = JoinHandle<Result<(Vec<Taken>, Instant), Error>>;

/// Claims until there is something; says when that was.
fn claim(target: &Target, claimer: &Claimer) -> Claiming {
    let (target, claimer) = (target.clone(), claimer.clone());
    tokio::spawn(async move {
        loop {
            let taken = target.work(&[], &claimer).await?;
            if !taken.is_empty() {
                return Ok((taken, Instant::now()));
            }
        }
    })
}

/// The call that reports a node claims the next.
async fn same_call(bed: &Bed, claimer: &Claimer, study: &Study) -> Result<Vec<Duration>, Error> {
    let mut hops = Vec::with_capacity(study.chains * study.length);
    for _ in 0..study.chains {
        bed.target.submit_flow(shape::chain(study.length, shape::JOIN)).await?;
        let mut taken = bed.target.work(&[], claimer).await?;
        for _ in 1..study.length {
            let reported = Instant::now();
            taken = bed.target.work(&taken, claimer).await?;
            while taken.is_empty() {
                taken = bed.target.work(&[], claimer).await?;
            }
            hops.push(reported.elapsed());
        }
        bed.target.complete(&taken, claimer).await?;
    }
    Ok(hops)
}
