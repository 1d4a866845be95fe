//! `backlog`: the rate of claims in a large store, or while another session holds an old snapshot (PostgreSQL).
//!
//! The rows are copied with SQL instead of being submitted, because a million submissions would take a minute. Their
//! content is that of a row that the engine wrote. Then workers claim, complete and resubmit executions.
//!
//! Measures executions per second. It has no floor: the rate is compared, as `ratio_to_small_store`, with that of a
//! store with 10 000 waiting executions in one lane, in the same run.

use crate::floor::postgres::connect;
use crate::harness::{BenchWorker, Target, report_all};
use crate::place::{FreshStore, StoreCleanup};
use crate::report::{Report, rounded};
use crate::{Error, Load, Place, task_result};
use selvedge_core::Name;
use selvedge_core::suspension::{Condition, WaitDraft};
use selvedge_engine::{Engine, Namespace, Options};
use serde_json::json;
use std::time::{Duration, Instant};
use tokio_postgres::{Client, Row};

/// The parameters of the scenario.
#[derive(Clone, Debug)]
pub struct Study {
    /// The number of waiting executions. Default: 1 000 000.
    pub waiting: u64,
    /// The number of lanes of the waiting executions. Default: 1000.
    pub lanes: u64,
    /// The number of lanes that each worker claims from. Default: 10.
    pub named: u64,
    /// The number of completed executions. Default: 1 000 000.
    pub finished: u64,
    /// The time for which another session holds an old snapshot, under load, before the measurement. Default: zero.
    pub old_snapshot: Duration,
    /// The time of the measurement. Default: 10 seconds.
    pub measure: Duration,
}

impl Default for Study {
    fn default() -> Self {
        Study {
            waiting: 1_000_000,
            lanes: 1000,
            named: 10,
            finished: 1_000_000,
            old_snapshot: Duration::ZERO,
            measure: Duration::from_secs(10),
        }
    }
}

impl Study {
    /// The parameters of the small store.
    fn small(measure: Duration) -> Study {
        Study { waiting: 10_000, lanes: 1, named: 1, finished: 0, old_snapshot: Duration::ZERO, measure }
    }
}

/// Copies the row $1, $4 times, over $3 classes from $2 on. The copies share its history, which for a waiting execution
/// has only the submission.
const COPY: &str = "
    insert into executions (
      id, submitted_at, namespace, class, partition, flow, spec, input, version, epoch, state, claim_priority, due_kind,
      ready_order, due_at, session, until_at, started_at, ended_at, lease_id, tags, detail, history, result, suspension
    )
    select gen_random_uuid(), submitted_at, namespace, $2 + (n % $3)::integer, partition, flow, spec, input, version,
      epoch, state, claim_priority, due_kind, ready_order + n * interval '1 microsecond', due_at, session, until_at,
      started_at, ended_at, lease_id, tags, detail, history, result, suspension
    from executions, generate_series(1, $4::bigint) as n
    where id = $1";

/// Selects a waiting row of the first class.
const WAITING_ROW: &str = "select id, class from executions where state = 0 order by class limit 1";
const SUSPENDED_ROW: &str = "select id, class from executions where state = 4 limit 1";
const COMPLETED_ROW: &str = "select id, class from executions where state = 10 limit 1";

/// Runs the scenario: on the small store first, then on the large one.
pub async fn run(place: &Place, load: &Load, study: &Study) -> Result<Report, Error> {
    let (small, _) = rate(place, load, &Study::small(study.measure)).await?;
    let (large, executions) = rate(place, load, study).await?;
    let mut report = Report {
        scenario: "backlog",
        store: place.name(),
        transport: "in_process",
        executions,
        throughput: Some(large),
        ..Report::default()
    };
    report.settings.extend([
        ("waiting".to_owned(), json!(study.waiting)),
        ("lanes".to_owned(), json!(study.lanes)),
        ("finished".to_owned(), json!(study.finished)),
        ("old_snapshot_s".to_owned(), json!(study.old_snapshot.as_secs())),
    ]);
    report.more.insert("small_store_per_s".into(), json!(small.round()));
    report.more.insert("ratio_to_small_store".into(), rounded(large / small));
    Ok(report)
}

/// Returns the rate of claims in a small store, and in the same store after `suspended` suspended executions of the
/// same class have been added.
pub(crate) async fn rates_beside_suspended(
    place: &Place,
    load: &Load,
    suspended: u64,
) -> Result<(f64, f64), Error> {
    let study = Study::small(Study::default().measure);
    let setup = Setup::new(place, load).await?;
    let namespace = setup.engine.namespace("default").await?;
    suspend_one(&setup.target, &namespace).await?;
    setup.target.submit(study.waiting as usize, "lane-0", Instant::now()).await?;
    let (without, _) = churn(&setup.target, load, &study, study.measure).await?;
    let row = setup.client.query_one(SUSPENDED_ROW, &[]).await?;
    setup.copy(&row, 1, suspended).await?;
    setup.client.batch_execute("vacuum analyze executions").await?;
    let (with, _) = churn(&setup.target, load, &study, study.measure).await?;
    setup.close().await?;
    Ok((without, with))
}

/// Submits, claims and suspends one execution of the first lane.
async fn suspend_one(target: &Target, namespace: &Namespace) -> Result<(), Error> {
    let worker = BenchWorker { lanes: vec!["lane-0".into()], ..BenchWorker::new(0, 1) };
    target.submit(1, "lane-0", Instant::now()).await?;
    let active = target.work(&[], &worker).await?;
    let wait = WaitDraft::new(Condition::signal(Name::trusted("go")));
    let suspend = active
        .iter()
        .map(|execution| Ok((execution.fence, None, namespace.suspend(vec![wait.clone()], vec![]))));
    report_all(namespace, suspend.collect(), None).await.map(drop)
}

/// An engine on an empty schema, and a connection to that schema.
struct Setup {
    engine: Engine,
    target: Target,
    client: Client,
    url: String,
    cleanup: StoreCleanup,
}

impl Setup {
    async fn new(place: &Place, load: &Load) -> Result<Setup, Error> {
        let FreshStore { store, cleanup } = match place {
            Place::Postgres(_) => place.create_store().await?,
            Place::Sqlite(_) => return Err(postgres_only()),
        };
        let StoreCleanup::Schema(url, schema) = &cleanup else { return Err(postgres_only()) };
        let url = url.clone();
        let engine = Engine::start(store, Options::default()).await?;
        let target = Target::new(&engine, load).await?;
        let client = connect(&url).await?;
        client.batch_execute(&format!("set search_path to {schema}")).await?;
        Ok(Setup { engine, target, client, url, cleanup })
    }

    /// Copies a row, over this many classes.
    async fn copy(&self, row: &Row, classes: u64, count: u64) -> Result<(), Error> {
        let (id, class) = (row.get::<_, uuid::Uuid>(0), row.get::<_, i32>(1));
        self.client.execute(COPY, &[&id, &class, &(classes as i64), &(count as i64)]).await?;
        Ok(())
    }

    async fn close(self) -> Result<(), Error> {
        self.engine.shutdown().await;
        self.cleanup.run().await
    }
}

fn postgres_only() -> Error {
    Error::Usage("this scenario needs PostgreSQL: give --store postgres://…".into())
}

/// Returns the executions per second, and their number, in a store with the rows of the study.
async fn rate(place: &Place, load: &Load, study: &Study) -> Result<(f64, u64), Error> {
    let setup = Setup::new(place, load).await?;
    create_rows(&setup, study).await?;
    let snapshot = match study.old_snapshot.is_zero() {
        true => None,
        false => {
            let holder = connect(&setup.url).await?;
            let begin = "begin isolation level repeatable read; select count(*) from pg_class";
            holder.batch_execute(begin).await?;
            churn(&setup.target, load, study, study.old_snapshot).await?;
            Some(holder)
        }
    };
    let measured = churn(&setup.target, load, study, study.measure).await?;
    drop(snapshot);
    setup.close().await?;
    Ok(measured)
}

/// Creates the waiting and completed rows of the study.
async fn create_rows(setup: &Setup, study: &Study) -> Result<(), Error> {
    let (target, started) = (&setup.target, Instant::now());
    // One execution of each lane creates the classes, whose numbers follow this order.
    for lane in 0..study.lanes {
        target.submit(1, &format!("lane-{lane}"), started).await?;
    }
    target.submit(1, "default", started).await?;
    let worker = BenchWorker::new(0, 1);
    let active = target.work(&[], &worker).await?;
    target.complete(&active, &worker).await?;
    let waiting = setup.client.query_one(WAITING_ROW, &[]).await?;
    let completed = setup.client.query_one(COMPLETED_ROW, &[]).await?;
    setup.copy(&waiting, study.lanes, study.waiting).await?;
    setup.copy(&completed, 1, study.finished).await?;
    setup.client.batch_execute("vacuum analyze executions").await?;
    Ok(())
}

/// Claims and completes executions for this time. A new execution is submitted for each completed one, so that the
/// number of waiting executions stays the same. Returns the executions per second, and their number.
async fn churn(target: &Target, load: &Load, study: &Study, duration: Duration) -> Result<(f64, u64), Error> {
    let started = Instant::now();
    let mut workers = Vec::new();
    for index in 0..load.workers {
        let target = target.clone();
        let lanes: Vec<String> = (0..study.named)
            .map(|n| format!("lane-{}", (index as u64 * study.named + n) % study.lanes))
            .collect();
        let worker = BenchWorker { lanes: lanes.clone(), ..BenchWorker::new(index, load.batch) };
        workers.push(tokio::spawn(async move {
            let mut completed = 0;
            let mut active = Vec::new();
            while started.elapsed() < duration {
                let next = target.work(&active, &worker).await?;
                completed += active.len() as u64;
                if !active.is_empty() {
                    let lane = &lanes[completed as usize / worker.max % lanes.len()];
                    target.submit(active.len(), lane, started).await?;
                }
                active = next;
            }
            target.complete(&active, &worker).await?;
            Ok::<u64, Error>(completed + active.len() as u64)
        }));
    }
    let mut completed = 0;
    for worker in workers {
        completed += task_result(worker.await)?;
    }
    Ok((completed as f64 / started.elapsed().as_secs_f64(), completed))
}
