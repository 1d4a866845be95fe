//! `latency --beside`: how long those wait who want little, beside somebody who wants much.
//!
//! One fairness key has so many executions waiting; another submits one at a time, at an even pace. All workers are busy with
//! work of some milliseconds. What is measured is how long the second's wait, from the call of submit to the start of the
//! handler, beside what they wait with the same workers when there is nothing else. Then the same with two namespaces, whose
//! work each worker takes by turns, in this process.

use crate::bed::Bed;
use crate::report::{Report, Times, rounded};
use crate::target::{Claimer, Taken, Target, taken};
use crate::terms::Asks;
use crate::{Error, Load, Place, floor};
use selvedge_core::Name;
use selvedge_core::gate::Draws;
use selvedge_core::rules::claim::Claimed;
use selvedge_engine::{ClaimWait, Namespace, Namespaces};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How many are submitted in one call.
const BATCH: usize = 1000;
/// What the ones who want little may wait: this often what they wait alone, and so many milliseconds more.
const GOAL: (f64, f64) = (2.0, 20.0);
/// How long a handler works.
const WORK: Duration = Duration::from_millis(5);

/// How much there is.
#[derive(Clone, Copy, Debug)]
pub struct Study {
    /// How many wait beside.
    pub waiting: u64,
    /// How many are sent by the one who wants little.
    pub samples: usize,
    /// How far apart.
    pub every: Duration,
}

impl Default for Study {
    fn default() -> Self {
        Study { waiting: 100_000, samples: 200, every: Duration::from_millis(200) }
    }
}

/// The one who wants much, or the one who wants little.
#[derive(Clone, Copy)]
enum Side {
    Much,
    Little,
}

/// What the two are.
#[derive(Clone)]
enum Sides {
    /// Fairness keys of one lane.
    Keys(Target),
    /// Namespaces.
    Namespaces { much: Namespace, little: Namespace },
}

/// A worker of both.
enum Worker {
    Keys(Target, Claimer),
    Namespaces(Namespaces, Claimer),
}

/// What was measured.
struct Measured {
    alone: Times,
    beside: Times,
    /// How many of the others ended meanwhile, per second.
    others_per_second: f64,
}

/// Runs it, next to its floor.
pub async fn run(place: &Place, load: &Load, study: &Study) -> Result<Report, Error> {
    let floor = floor::measure(place, load.batch, 4).await?;
    let mut report = None;
    let mut found: Vec<(&str, Measured)> = Vec::new();
    for kind in ["fairness_key", "namespace"] {
        if load.http && kind == "namespace" {
            continue;
        }
        let bed = Bed::beside(place, load, floor).await?;
        report.get_or_insert_with(|| bed.report("latency", place, load));
        let measured = match Sides::of(kind, &bed).await {
            Ok(sides) => measure(&sides, load, study).await,
            Err(error) => Err(error),
        };
        bed.close().await?;
        found.push((kind, measured?));
    }
    let mut report = report.ok_or_else(|| Error::Usage("nothing was measured".into()))?;
    report.executions = study.samples as u64;
    report.settings.extend([
        ("beside".to_owned(), json!(study.waiting)),
        ("workers".to_owned(), json!(load.workers)),
        ("work_ms".to_owned(), json!(WORK.as_millis() as u64)),
        ("every_ms".to_owned(), json!(study.every.as_millis() as u64)),
        ("samples".to_owned(), json!(study.samples)),
    ]);
    for (name, Measured { alone, beside, others_per_second }) in found {
        let figures = [
            ("alone_p50_ms", alone.p50),
            ("alone_p99_ms", alone.p99),
            ("beside_p50_ms", beside.p50),
            ("beside_p99_ms", beside.p99),
            ("goal_p99_ms", GOAL.0 * alone.p99 + GOAL.1),
            ("others_per_s", others_per_second),
        ];
        for (figure, value) in figures {
            report.more.insert(format!("{name}_{figure}"), rounded(value));
        }
    }
    Ok(report)
}

impl Sides {
    async fn of(kind: &str, bed: &Bed) -> Result<Sides, Error> {
        if kind == "fairness_key" {
            return Ok(Sides::Keys(bed.target.clone()));
        }
        let (much, little) = (bed.engine.namespace("much").await?, bed.engine.namespace("little").await?);
        Ok(Sides::Namespaces { much, little })
    }

    async fn submit(&self, side: Side, count: usize, mark: u64) -> Result<(), Error> {
        let plain = Asks::lane("default");
        match self {
            Sides::Keys(target) => {
                let key = match side {
                    Side::Much => "much",
                    Side::Little => "little",
                };
                let draws = Draws { fairness_key: Some(Name::trusted(key)), ..Draws::default() };
                target.submit_asking(count, &[Asks { draws, ..plain }], mark).await
            }
            Sides::Namespaces { much, little } => {
                let namespace = match side {
                    Side::Much => much,
                    Side::Little => little,
                };
                Target::InProcess(namespace.clone()).submit_asking(count, &[plain], mark).await
            }
        }
    }

    fn worker(&self, index: usize) -> Worker {
        let claimer = Claimer::new(index, 1);
        match self {
            Sides::Keys(target) => Worker::Keys(target.clone(), claimer),
            Sides::Namespaces { much, little } => {
                let members = vec![(much.clone(), 1), (little.clone(), 1)];
                Worker::Namespaces(much.engine().namespaces(members), claimer)
            }
        }
    }
}

/// What a worker has, and where it is completed.
type Has = (Target, Taken);

impl Worker {
    /// Completes what was taken and takes more, waiting a moment if there is nothing.
    async fn work(&self, done: &[Has]) -> Result<Vec<Has>, Error> {
        match self {
            Worker::Keys(target, claimer) => {
                let done: Vec<Taken> = done.iter().map(|(_, taken)| *taken).collect();
                let taken = target.work(&done, claimer).await?;
                Ok(taken.into_iter().map(|one| (target.clone(), one)).collect())
            }
            Worker::Namespaces(namespaces, claimer) => {
                self.complete(done).await?;
                let wanted = ClaimWait { claim: claimer.draft(), wait: claimer.wait, operation: None };
                let claimed = namespaces.claim(wanted).await?;
                let of = |one: &Claimed| Some((Target::InProcess(namespaces.of(one)?.clone()), taken(one)?));
                Ok(claimed.iter().filter_map(of).collect())
            }
        }
    }

    /// Completes what was taken.
    async fn complete(&self, done: &[Has]) -> Result<(), Error> {
        let (Worker::Keys(_, claimer) | Worker::Namespaces(_, claimer)) = self;
        for (target, taken) in done {
            target.complete(&[*taken], claimer).await?;
        }
        Ok(())
    }
}

/// How long the little one waits: alone, and beside the other.
async fn measure(sides: &Sides, load: &Load, study: &Study) -> Result<Measured, Error> {
    let warm = Study { samples: 20, every: Duration::from_millis(20), ..*study };
    watch(sides, load, &warm).await?;
    let (alone, _) = watch(sides, load, study).await?;
    let mut left = study.waiting as usize;
    while left > 0 {
        let count = left.min(BATCH);
        sides.submit(Side::Much, count, 0).await?;
        left -= count;
    }
    let (beside, others_per_second) = watch(sides, load, study).await?;
    Ok(Measured { alone, beside, others_per_second })
}

/// Workers work, and one at a time is sent to them. Gives the times that those waited, and how many others ended per second.
async fn watch(sides: &Sides, load: &Load, study: &Study) -> Result<(Times, f64), Error> {
    let started = Instant::now();
    let over = Arc::new(AtomicBool::new(false));
    let others = Arc::new(AtomicU64::new(0));
    let mut workers = Vec::new();
    for index in 0..load.workers {
        let (worker, over, others) = (sides.worker(index), over.clone(), others.clone());
        workers.push(tokio::spawn(async move {
            let (mut times, mut taken) = (Vec::new(), Vec::new());
            while !over.load(Ordering::Relaxed) {
                taken = worker.work(&taken).await?;
                let now = started.elapsed().as_nanos() as u64;
                for (_, one) in &taken {
                    // Only those of the one who wants little carry their time.
                    match one.mark {
                        0 => drop(others.fetch_add(1, Ordering::Relaxed)),
                        mark => times.push(Duration::from_nanos(now.saturating_sub(mark))),
                    }
                }
                if !taken.is_empty() {
                    tokio::time::sleep(WORK).await;
                }
            }
            worker.complete(&taken).await?;
            Ok::<_, Error>(times)
        }));
    }
    let mut ticks = tokio::time::interval(study.every);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Burst);
    for _ in 0..study.samples {
        ticks.tick().await;
        sides.submit(Side::Little, 1, started.elapsed().as_nanos() as u64).await?;
    }
    // The last one has its time as well.
    ticks.tick().await;
    over.store(true, Ordering::Relaxed);
    let elapsed = started.elapsed().as_secs_f64();
    let mut times = Vec::new();
    for worker in workers {
        times.extend(worker.await.map_err(|error| Error::Usage(error.to_string()))??);
    }
    if times.len() < study.samples {
        let missing = study.samples - times.len();
        return Err(Error::Usage(format!("{missing} of {} were not started", study.samples)));
    }
    let times = Times::of(times).ok_or_else(|| Error::Usage("nothing was started".into()))?;
    Ok((times, others.load(Ordering::Relaxed) as f64 / elapsed))
}
