//! `suspend-signal`: from the call that sends a signal to the start of the handler that waited for it; what a handler of ten
//! durable steps costs, alone and among others; and, on Postgres, whether much that is suspended slows claims down.
//!
//! It runs in this process: a worker over HTTP makes the same calls.

use crate::backlog::{self, Copies};
use crate::bed::Bed;
use crate::report::{Report, Times, rounded};
use crate::target::Claimer;
use crate::{Error, Load, Place};
use bytes::Bytes;
use selvedge_core::rules::claim::Claimed;
use selvedge_core::rules::report::{Fence, Op};
use selvedge_core::rules::signal::SignalDraft;
use selvedge_core::rules::step::StepDraft;
use selvedge_core::step::StepKind;
use selvedge_core::suspension::{Condition, WaitDraft};
use selvedge_core::{Draft, Name};
use selvedge_engine::{ClaimWait, Namespace};
use serde_json::json;
use std::time::{Duration, Instant};

/// How many steps a handler has.
const STEPS: usize = 10;

/// How much there is.
#[derive(Clone, Debug)]
pub struct Study {
    /// How many signals are sent, one after another.
    pub signals: usize,
    /// How many handlers of ten steps run, one after another.
    pub alone: usize,
    /// How many of them run at once, and how often.
    pub at_once: usize,
    /// How often so many run at once.
    pub rounds: usize,
    /// How many are suspended while the rate of claims is measured; 0 leaves that out.
    pub suspended: u64,
}

impl Default for Study {
    fn default() -> Self {
        Study { signals: 500, alone: 50, at_once: 200, rounds: 10, suspended: 1_000_000 }
    }
}

/// Runs it, next to its floor.
pub async fn run(place: &Place, load: &Load, study: &Study) -> Result<Report, Error> {
    let bed = Bed::open(place, load).await?;
    let report = bed.report("suspend-signal", place, load);
    let report = measure(&bed, study, report).await;
    bed.close().await?;
    let mut report = report?;
    if let (Place::Postgres(_), true) = (place, study.suspended > 0) {
        let (without, with) = backlog::beside(place, load, Copies::Suspended(study.suspended)).await?;
        report.more.insert("suspended".into(), json!(study.suspended));
        report.more.insert("claims_per_s_without_suspended".into(), json!(without.round()));
        report.more.insert("claims_per_s_beside_suspended".into(), json!(with.round()));
        report.more.insert("ratio_beside_suspended".into(), rounded(with / without));
    }
    Ok(report)
}

async fn measure(bed: &Bed, study: &Study, report: Report) -> Result<Report, Error> {
    let namespace = bed.engine.namespace("default").await?;
    // Connections, statements and the lane's class are there before anything is measured.
    signals(&namespace, bed, 20).await?;
    let times = Times::of(signals(&namespace, bed, study.signals).await?);

    let (before, entries) = (bed.figures().await?, newest(bed).await?);
    for _ in 0..study.alone {
        handler(&namespace, None).await?;
    }
    let entries = (newest(bed).await? - entries) as f64 / study.alone.max(1) as f64;
    let alone = bed.spent(before).await?.commits_per(study.alone as u64);

    let before = bed.figures().await?;
    let begun = Instant::now();
    for _ in 0..study.rounds {
        at_once(&namespace, study.at_once).await?;
    }
    let elapsed = begun.elapsed();
    let handlers = (study.rounds * study.at_once) as u64;
    let spent = bed.spent(before).await?;

    let mut report = Report {
        executions: handlers,
        throughput: Some(handlers as f64 / elapsed.as_secs_f64()),
        times,
        commits: spent.commits_per(handlers),
        wal_bytes: spent.wal_bytes_per(handlers),
        ..report
    };
    let commit = bed.floor.commit.p50;
    report.more.insert("goal_p50_ms".into(), rounded(3.0 * commit + 1.0));
    report.more.insert("p50_in_commits".into(), rounded(times.map_or(0.0, |times| times.p50) / commit));
    // The submission that hands the execution to its worker is one of them, and is not the handler's.
    report.more.insert("commits_of_ten_steps_alone".into(), rounded(entries - 1.0));
    report.more.insert("commits_of_ten_steps_with_news".into(), alone.map_or(json!(null), rounded));
    report.more.insert("at_once".into(), json!(study.at_once));
    Ok(report)
}

/// The number of the newest entry of the log: every commit that changes an execution writes one.
async fn newest(bed: &Bed) -> Result<i64, Error> {
    Ok(bed.engine.store().log_after(i64::MAX - 1, 1).await?.upto)
}

async fn claim(namespace: &Namespace, claimer: &Claimer) -> Result<Claimed, Error> {
    let wanted = ClaimWait { claim: claimer.draft(), wait: Duration::from_secs(10), operation: None };
    let claimed = namespace.claim(wanted).await?.pop();
    claimed.ok_or_else(|| Error::Usage("there was nothing to claim".into()))
}

async fn report(namespace: &Namespace, fence: Fence, op: Op) -> Result<(), Error> {
    let (results, _) = namespace.report(vec![Ok((fence, None, op))], None).await?;
    for result in results {
        result.map_err(selvedge_engine::Error::from)?;
    }
    Ok(())
}

fn fence(claimed: &Claimed) -> Result<Fence, Error> {
    Fence::of(&claimed.execution).ok_or_else(|| Error::Usage("a claim gave no lease".into()))
}

/// One execution is suspended and signalled again and again, while its worker's claim waits.
async fn signals(namespace: &Namespace, bed: &Bed, count: usize) -> Result<Vec<Duration>, Error> {
    let claimer = Claimer::new(0, 1);
    let mut times = Vec::with_capacity(count);
    let id = namespace.submit(Draft::new("wait")).await?.execution.id;
    let mut claimed = claim(namespace, &claimer).await?;
    for _ in 0..count {
        let wait = WaitDraft::new(Condition::signal(Name::trusted("go")));
        report(namespace, fence(&claimed)?, namespace.suspend(vec![wait], vec![])).await?;
        let waiting = {
            let (namespace, claimer) = (namespace.clone(), claimer.clone());
            tokio::spawn(async move { Ok::<_, Error>((claim(&namespace, &claimer).await?, Instant::now())) })
        };
        bed.claims_wait(1).await;
        let sent = Instant::now();
        let payload = Bytes::from_static(b"{\"approved\":true}");
        let signal = SignalDraft { name: Some("go".into()), payload, key: None };
        namespace.signal(id, signal, &Name::trusted("bench")).await?;
        let (again, started) = waiting.await.map_err(|error| Error::Usage(error.to_string()))??;
        times.push(started.duration_since(sent));
        claimed = again;
    }
    report(namespace, fence(&claimed)?, complete()).await?;
    Ok(times)
}

fn complete() -> Op {
    Op::Complete { result: Bytes::from_static(b"{\"ok\":true}") }
}

/// A handler of ten steps, each recorded before the next; of what was claimed, or of what it submits itself while its claim
/// waits.
async fn handler(namespace: &Namespace, claimed: Option<Claimed>) -> Result<(), Error> {
    let claimed = match claimed {
        Some(claimed) => claimed,
        None => {
            let waiting = {
                let namespace = namespace.clone();
                tokio::spawn(async move { claim(&namespace, &Claimer::new(0, 1)).await })
            };
            while namespace.engine().activity().1 < 1 {
                tokio::time::sleep(Duration::from_micros(100)).await;
            }
            namespace.submit(Draft::new("steps")).await?;
            waiting.await.map_err(|error| Error::Usage(error.to_string()))??
        }
    };
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

/// So many handlers at once, from their submission to their ends.
async fn at_once(namespace: &Namespace, count: usize) -> Result<(), Error> {
    let drafts = (0..count).map(|_| Ok(Draft::new("steps"))).collect();
    for submitted in namespace.submit_many(drafts, None).await? {
        submitted.map_err(selvedge_engine::Error::from)?;
    }
    let mut running = Vec::with_capacity(count);
    while running.len() < count {
        let claimer = Claimer::new(0, count - running.len());
        let wanted = ClaimWait { claim: claimer.draft(), wait: Duration::from_secs(10), operation: None };
        for claimed in namespace.claim(wanted).await? {
            let namespace = namespace.clone();
            running.push(tokio::spawn(async move { handler(&namespace, Some(claimed)).await }));
        }
    }
    for handler in running {
        handler.await.map_err(|error| Error::Usage(error.to_string()))??;
    }
    Ok(())
}
