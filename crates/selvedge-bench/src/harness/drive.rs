//! Drives a workload: submitters submit batches, workers complete them and claim more in the same call, until all
//! executions are completed.

use super::{Requirements, Target, Workload};
use crate::{Error, Load, task_result};
use selvedge_engine::Engine;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// The figures of a driven workload.
pub struct DriveResult {
    /// The number of completed executions.
    pub executions: u64,
    /// Completed executions per second.
    pub per_second: f64,
    /// The time of each execution, from the call of submit to the answer to its completion.
    pub times: Vec<Duration>,
    /// Commits per execution.
    pub commits: Option<f64>,
    /// Bytes of write-ahead log per execution.
    pub wal_bytes: Option<f64>,
}

/// Drives the default workload.
pub async fn drive(engine: &Engine, target: &Target, load: &Load) -> Result<DriveResult, Error> {
    drive_workload(engine, target, load, &Workload::default()).await
}

/// Drives a workload, after a warm-up.
pub async fn drive_workload(
    engine: &Engine,
    target: &Target,
    load: &Load,
    workload: &Workload,
) -> Result<DriveResult, Error> {
    let started = Instant::now();
    warm_up(target, load, workload).await?;

    let before = engine.store().figures().await?;
    let run = Run::new(target.clone(), load, workload, started);
    let submitters: Vec<_> = (0..load.submitters).map(|_| tokio::spawn(run.clone().submit())).collect();
    let workers: Vec<WorkerTask> =
        (0..load.workers).map(|index| tokio::spawn(run.clone().work(index))).collect();
    for submitter in submitters {
        task_result(submitter.await)?;
    }
    let mut times = Vec::new();
    let mut elapsed = Duration::MAX;
    for worker in workers {
        let (worker_times, ended) = task_result(worker.await)?;
        times.extend(worker_times);
        // The first worker to notice the end defines it; the others notice only when their last claim has waited.
        elapsed = elapsed.min(ended);
    }
    let after = engine.store().figures().await?;
    let executions = run.executions;
    let per_execution = |of: fn(&(i64, i64)) -> i64| {
        let (before, after) = (before.as_ref()?, after.as_ref()?);
        Some((of(after) - of(before)) as f64 / executions as f64)
    };
    Ok(DriveResult {
        executions,
        per_second: executions as f64 / elapsed.as_secs_f64(),
        times,
        commits: per_execution(|counters| counters.0),
        wal_bytes: per_execution(|counters| counters.1).filter(|bytes| *bytes > 0.0),
    })
}

/// Runs one execution of each requirement, so that connections, prepared statements and classes exist before the
/// measurement.
async fn warm_up(target: &Target, load: &Load, workload: &Workload) -> Result<(), Error> {
    target.submit_with(workload.requirements.len(), &workload.requirements, 0).await?;
    let mut left = workload.requirements.len();
    for worker in (0..).map(|index| workload.worker(index, load.batch)) {
        let active = target.work(&[], &worker).await?;
        target.complete(&active, &worker).await?;
        left -= active.len();
        if left == 0 {
            break;
        }
    }
    Ok(())
}

/// The times that a worker measured, and the time from the begin of the run to its end.
type WorkerTask = JoinHandle<Result<(Vec<Duration>, Duration), Error>>;

/// The state that the submitters and workers of a run share.
#[derive(Clone)]
struct Run {
    target: Target,
    workload: Arc<Workload>,
    /// The origin of the marks.
    started: Instant,
    begun: Instant,
    batch: usize,
    batches: u64,
    executions: u64,
    /// One permit for each execution that may still be submitted before others complete.
    window: Arc<Semaphore>,
    next_batch: Arc<AtomicU64>,
    completed: Arc<AtomicU64>,
}

impl Run {
    fn new(target: Target, load: &Load, workload: &Workload, started: Instant) -> Run {
        let batches = load.executions / load.batch as u64;
        let executions = batches * load.batch as u64;
        let window = if load.outstanding == 0 { executions } else { load.outstanding.max(load.batch as u64) };
        Run {
            target,
            workload: Arc::new(workload.clone()),
            started,
            begun: Instant::now(),
            batch: load.batch,
            batches,
            executions,
            window: Arc::new(Semaphore::new(window as usize)),
            next_batch: Arc::default(),
            completed: Arc::default(),
        }
    }

    fn now(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    /// Submits batches until all are submitted.
    async fn submit(self) -> Result<(), Error> {
        loop {
            let number = self.next_batch.fetch_add(1, Ordering::Relaxed);
            if number >= self.batches {
                return Ok(());
            }
            if let Ok(permits) = self.window.acquire_many(self.batch as u32).await {
                permits.forget();
            }
            self.target.submit_with(self.batch, self.requirements_of(number), self.now()).await?;
        }
    }

    fn requirements_of(&self, batch: u64) -> &[Requirements] {
        let all = &self.workload.requirements;
        match self.workload.mixed_batches {
            true => all,
            false => std::slice::from_ref(&all[batch as usize % all.len()]),
        }
    }

    /// Completes executions and claims more until all are completed.
    async fn work(self, index: usize) -> Result<(Vec<Duration>, Duration), Error> {
        let worker = self.workload.worker(index, self.batch);
        let mut times = Vec::new();
        let mut active = Vec::new();
        loop {
            let next = self.target.work(&active, &worker).await?;
            let now = self.now();
            times.extend(active.iter().map(|execution| execution.time_until(now)));
            self.window.add_permits(active.len());
            let count = active.len() as u64;
            let completed = self.completed.fetch_add(count, Ordering::Relaxed) + count;
            active = next;
            if completed >= self.executions && active.is_empty() {
                return Ok((times, self.begun.elapsed()));
            }
        }
    }
}
