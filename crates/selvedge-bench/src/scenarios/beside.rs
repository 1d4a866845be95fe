//! `latency --beside`: the waiting time of a light tenant next to a heavy one.
//!
//! The heavy tenant has many waiting executions; the light tenant submits one at a time, at an even pace. All workers
//! are busy with handlers of 5 milliseconds. The tenants are first two fairness keys of one lane, then two namespaces,
//! from which each worker claims in turn (in process only).
//!
//! Measures the time from the call of submit to the start of the handler for the light tenant. Compared with the same
//! time without the heavy tenant: the goal for the 99th percentile is twice that time plus 20 ms.

use crate::harness::{ActiveExecution, BenchWorker, Requirements, Target, TestBed, active_execution};
use crate::report::{Report, Times, rounded};
use crate::{Error, Load, Place, floor, task_result};
use selvedge_core::Name;
use selvedge_core::gate::RequiredGates;
use selvedge_core::rules::claim::Claimed;
use selvedge_engine::{Namespace, Namespaces};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The number of executions in one call of submit.
const BATCH: usize = 1000;
/// The goal for the light tenant: a multiple of the time without the heavy tenant, plus milliseconds.
const GOAL: (f64, f64) = (2.0, 20.0);
const HANDLER: Duration = Duration::from_millis(5);

/// The parameters of the scenario.
#[derive(Clone, Copy, Debug)]
pub struct Study {
    /// The number of waiting executions of the heavy tenant. Default: 100 000.
    pub waiting: u64,
    /// The number of executions of the light tenant. Default: 200.
    pub samples: usize,
    /// The interval between them. Default: 200 milliseconds.
    pub every: Duration,
}

impl Default for Study {
    fn default() -> Self {
        Study { waiting: 100_000, samples: 200, every: Duration::from_millis(200) }
    }
}

#[derive(Clone, Copy)]
enum Tenant {
    Heavy,
    Light,
}

/// The two tenants.
#[derive(Clone)]
enum Tenants {
    /// Two fairness keys of one lane.
    Keys(Target),
    Namespaces {
        heavy: Namespace,
        light: Namespace,
    },
}

/// A worker that serves both tenants.
enum SharedWorker {
    Keys(Target, BenchWorker),
    Namespaces(Namespaces, BenchWorker),
}

/// The figures of one kind of tenants.
struct TenantFigures {
    /// The times of the light tenant without the heavy one.
    alone: Times,
    /// The times of the light tenant next to the heavy one.
    beside: Times,
    /// The throughput of the heavy tenant meanwhile, in executions per second.
    heavy_per_second: f64,
}

/// Runs the scenario.
pub async fn run(place: &Place, load: &Load, study: &Study) -> Result<Report, Error> {
    let floor = floor::measure_for(place, load).await?;
    let mut report = None;
    let mut figures: Vec<(&str, TenantFigures)> = Vec::new();
    for kind in ["fairness_key", "namespace"] {
        if load.http && kind == "namespace" {
            continue;
        }
        let bed = TestBed::with_floor(place, load, floor).await?;
        report.get_or_insert_with(|| bed.report("latency", place, load));
        let measured = match Tenants::new(kind, &bed).await {
            Ok(tenants) => measure(&tenants, load, study).await,
            Err(error) => Err(error),
        };
        bed.close().await?;
        figures.push((kind, measured?));
    }
    let mut report = report.ok_or_else(|| Error::Usage("no tenants were measured".into()))?;
    report.executions = study.samples as u64;
    report.settings.extend([
        ("beside".to_owned(), json!(study.waiting)),
        ("workers".to_owned(), json!(load.workers)),
        ("work_ms".to_owned(), json!(HANDLER.as_millis() as u64)),
        ("every_ms".to_owned(), json!(study.every.as_millis() as u64)),
        ("samples".to_owned(), json!(study.samples)),
    ]);
    for (kind, TenantFigures { alone, beside, heavy_per_second }) in figures {
        let figures = [
            ("alone_p50_ms", alone.p50),
            ("alone_p99_ms", alone.p99),
            ("beside_p50_ms", beside.p50),
            ("beside_p99_ms", beside.p99),
            ("goal_p99_ms", GOAL.0 * alone.p99 + GOAL.1),
            ("others_per_s", heavy_per_second),
        ];
        for (name, value) in figures {
            report.more.insert(format!("{kind}_{name}"), rounded(value));
        }
    }
    Ok(report)
}

impl Tenants {
    async fn new(kind: &str, bed: &TestBed) -> Result<Tenants, Error> {
        if kind == "fairness_key" {
            return Ok(Tenants::Keys(bed.target.clone()));
        }
        let (heavy, light) = (bed.engine.namespace("heavy").await?, bed.engine.namespace("light").await?);
        Ok(Tenants::Namespaces { heavy, light })
    }

    async fn submit(&self, tenant: Tenant, count: usize, mark: u64) -> Result<(), Error> {
        let lane = Requirements::lane("default");
        match self {
            Tenants::Keys(target) => {
                let key = match tenant {
                    Tenant::Heavy => "heavy",
                    Tenant::Light => "light",
                };
                let required_gates =
                    RequiredGates { fairness_key: Some(Name::trusted(key)), ..RequiredGates::default() };
                target.submit_with(count, &[Requirements { required_gates, ..lane }], mark).await
            }
            Tenants::Namespaces { heavy, light } => {
                let namespace = match tenant {
                    Tenant::Heavy => heavy,
                    Tenant::Light => light,
                };
                Target::InProcess(namespace.clone()).submit_with(count, &[lane], mark).await
            }
        }
    }

    fn worker(&self, index: usize) -> SharedWorker {
        let worker = BenchWorker::new(index, 1);
        match self {
            Tenants::Keys(target) => SharedWorker::Keys(target.clone(), worker),
            Tenants::Namespaces { heavy, light } => {
                let members = vec![(heavy.clone(), 1), (light.clone(), 1)];
                SharedWorker::Namespaces(heavy.engine().namespaces(members), worker)
            }
        }
    }
}

/// A claimed execution, and the target on which it is completed.
type TenantExecution = (Target, ActiveExecution);

impl SharedWorker {
    /// Completes executions and claims more. Waits a moment if there is nothing to claim.
    async fn work(&self, active: &[TenantExecution]) -> Result<Vec<TenantExecution>, Error> {
        match self {
            SharedWorker::Keys(target, worker) => {
                let active: Vec<ActiveExecution> = active.iter().map(|(_, execution)| *execution).collect();
                let claimed = target.work(&active, worker).await?;
                Ok(claimed.into_iter().map(|execution| (target.clone(), execution)).collect())
            }
            SharedWorker::Namespaces(namespaces, worker) => {
                self.complete(active).await?;
                let claimed = namespaces.claim(worker.waiting_claim()).await?;
                let with_target = |claimed: &Claimed| {
                    let target = Target::InProcess(namespaces.of(claimed)?.clone());
                    Some((target, active_execution(claimed)?))
                };
                Ok(claimed.iter().filter_map(with_target).collect())
            }
        }
    }

    async fn complete(&self, active: &[TenantExecution]) -> Result<(), Error> {
        let (SharedWorker::Keys(_, worker) | SharedWorker::Namespaces(_, worker)) = self;
        for (target, execution) in active {
            target.complete(&[*execution], worker).await?;
        }
        Ok(())
    }
}

/// Times the light tenant without and next to the heavy one.
async fn measure(tenants: &Tenants, load: &Load, study: &Study) -> Result<TenantFigures, Error> {
    let warm_up = Study { samples: 20, every: Duration::from_millis(20), ..*study };
    time_light_tenant(tenants, load, &warm_up).await?;
    let (alone, _) = time_light_tenant(tenants, load, study).await?;
    let mut left = study.waiting as usize;
    while left > 0 {
        let count = left.min(BATCH);
        tenants.submit(Tenant::Heavy, count, 0).await?;
        left -= count;
    }
    let (beside, heavy_per_second) = time_light_tenant(tenants, load, study).await?;
    Ok(TenantFigures { alone, beside, heavy_per_second })
}

/// Submits executions of the light tenant at an even pace while workers serve both tenants. Returns the times of the
/// light tenant, and the throughput of the heavy one.
async fn time_light_tenant(tenants: &Tenants, load: &Load, study: &Study) -> Result<(Times, f64), Error> {
    let started = Instant::now();
    let over = Arc::new(AtomicBool::new(false));
    let heavy = Arc::new(AtomicU64::new(0));
    let mut workers = Vec::new();
    for index in 0..load.workers {
        let (worker, over, heavy) = (tenants.worker(index), over.clone(), heavy.clone());
        workers.push(tokio::spawn(serve(worker, started, over, heavy)));
    }
    let mut ticks = tokio::time::interval(study.every);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Burst);
    for _ in 0..study.samples {
        ticks.tick().await;
        tenants.submit(Tenant::Light, 1, started.elapsed().as_nanos() as u64).await?;
    }
    // The last execution gets as much time to start as the others.
    ticks.tick().await;
    over.store(true, Ordering::Relaxed);
    let elapsed = started.elapsed().as_secs_f64();
    let mut times = Vec::new();
    for worker in workers {
        times.extend(task_result(worker.await)?);
    }
    if times.len() < study.samples {
        let missing = study.samples - times.len();
        return Err(Error::Usage(format!("{missing} of {} executions did not start", study.samples)));
    }
    let times = Times::of(times).ok_or_else(|| Error::Usage("no execution started".into()))?;
    Ok((times, heavy.load(Ordering::Relaxed) as f64 / elapsed))
}

/// Runs a worker until `over` is set. Returns the times of the light tenant's executions and counts those of the heavy
/// one.
async fn serve(
    worker: SharedWorker,
    started: Instant,
    over: Arc<AtomicBool>,
    heavy: Arc<AtomicU64>,
) -> Result<Vec<Duration>, Error> {
    let (mut times, mut active) = (Vec::new(), Vec::new());
    while !over.load(Ordering::Relaxed) {
        active = worker.work(&active).await?;
        let now = started.elapsed().as_nanos() as u64;
        for (_, execution) in &active {
            // Only executions of the light tenant are marked with their time.
            match execution.mark {
                0 => drop(heavy.fetch_add(1, Ordering::Relaxed)),
                _ => times.push(execution.time_until(now)),
            }
        }
        if !active.is_empty() {
            tokio::time::sleep(HANDLER).await;
        }
    }
    worker.complete(&active).await?;
    Ok(times)
}
