//! `backlog`: how fast claims are when much waits and much has ended, and while a foreign session holds an old snapshot.
//!
//! Rows are made by SQL, not through the engine, because a million of them would take a minute; their form is that of
//! rows the engine wrote. Then workers claim and complete, and the rate is compared with that of a small store in the
//! same run.

use crate::floor::postgres::connect;
use crate::report::Report;
use crate::target::{Claimer, Target};
use crate::{Error, Load, Place, Remains};
use selvedge_core::Name;
use selvedge_core::suspension::{Condition, WaitDraft};
use selvedge_engine::{Engine, Options};
use serde_json::json;
use std::time::{Duration, Instant};

/// How much there is.
#[derive(Clone, Debug)]
pub struct Study {
    /// How many wait.
    pub waiting: u64,
    /// Over how many lanes.
    pub lanes: u64,
    /// How many lanes each claimer names.
    pub named: u64,
    /// How many have ended.
    pub finished: u64,
    /// How long a foreign session holds an old snapshot, under load, before the rate is measured.
    pub old_snapshot: Duration,
    /// How long the rate is measured.
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

/// Copies one template row `count` times, spread over the classes of its kind. A ready row has an empty-handed history:
/// the one line of its submission, taken from the template.
const COPY: &str = "
    insert into executions (
      id, submitted_at, namespace, class, partition, flow, spec, input, version, epoch, state, priority, due_kind,
      ready_order, due_at, session, until_at, started_at, ended_at, lease_id, tags, detail, history, result, suspension
    )
    select gen_random_uuid(), submitted_at, namespace, $2 + (n % $3)::integer, partition, flow, spec, input, version,
      epoch, state, priority, due_kind, ready_order + n * interval '1 microsecond', due_at, session, until_at,
      started_at, ended_at, lease_id, tags, detail, history, result, suspension
    from executions, generate_series(1, $4::bigint) as n
    where id = $1";

/// What stands beside what is claimed.
#[derive(Clone, Copy, Debug)]
pub enum Copies {
    /// So many that are suspended, in the class that is claimed from.
    Suspended(u64),
}

/// How fast claims are in a small store, and in the same store with copies beside what is claimed.
pub async fn beside(place: &Place, load: &Load, copies: Copies) -> Result<(f64, f64), Error> {
    let Place::Postgres(url) = place else {
        return Err(Error::Usage("copies are made on Postgres: give --store postgres://…".into()));
    };
    let study = Study { waiting: 10_000, lanes: 1, named: 1, finished: 0, ..Study::default() };
    let fresh = place.open().await?;
    let Remains::Schema(_, schema) = &fresh.remains else {
        return Err(Error::Usage("not on Postgres".into()));
    };
    let engine = Engine::start(fresh.store.clone(), Options::default()).await?;
    let target = Target::new(&engine, load).await?;
    let claimer = Claimer { lanes: vec!["lane-0".into()], ..Claimer::new(0, 1) };
    target.submit(1, "lane-0", Instant::now()).await?;
    let taken = target.work(&[], &claimer).await?;
    let Copies::Suspended(count) = copies;
    let namespace = engine.namespace("default").await?;
    let wait = WaitDraft::new(Condition::signal(Name::trusted("go")));
    let suspend =
        taken.iter().map(|one| Ok((one.fence, None, namespace.suspend(vec![wait.clone()], vec![]))));
    namespace.report(suspend.collect(), None).await?;
    target.submit(study.waiting as usize, "lane-0", Instant::now()).await?;
    let client = connect(url).await?;
    client.batch_execute(&format!("set search_path to {schema}")).await?;
    let (without, _) = churn(&target, load, &study, study.measure).await?;
    let row = client.query_one("select id, class from executions where state = 4 limit 1", &[]).await?;
    let (id, class) = (row.get::<_, uuid::Uuid>(0), row.get::<_, i32>(1));
    client.execute(COPY, &[&id, &class, &1_i64, &(count as i64)]).await?;
    client.batch_execute("vacuum analyze executions").await?;
    let (with, _) = churn(&target, load, &study, study.measure).await?;
    engine.shutdown().await;
    fresh.remains.remove().await?;
    Ok((without, with))
}

/// Runs it: the small store first, then the large one.
pub async fn run(place: &Place, load: &Load, study: &Study) -> Result<Report, Error> {
    let Place::Postgres(url) = place else {
        return Err(Error::Usage("the scenario backlog runs on Postgres: give --store postgres://…".into()));
    };
    let small = Study {
        waiting: 10_000,
        lanes: 1,
        named: 1,
        finished: 0,
        old_snapshot: Duration::ZERO,
        measure: study.measure,
    };
    let base = rate(place, url, load, &small).await?;
    let large = rate(place, url, load, study).await?;
    let mut report = Report {
        scenario: "backlog",
        store: place.name(),
        transport: "in_process",
        executions: large.1,
        throughput: Some(large.0),
        ..Report::default()
    };
    report.settings.extend([
        ("waiting".to_owned(), json!(study.waiting)),
        ("lanes".to_owned(), json!(study.lanes)),
        ("finished".to_owned(), json!(study.finished)),
        ("old_snapshot_s".to_owned(), json!(study.old_snapshot.as_secs())),
    ]);
    report.more.insert("small_store_per_s".into(), json!(base.0.round()));
    report.more.insert("ratio_to_small_store".into(), json!((large.0 / base.0 * 1000.0).round() / 1000.0));
    Ok(report)
}

/// Claims and completions per second with so much in the store, refilled as it is claimed.
async fn rate(place: &Place, url: &str, load: &Load, study: &Study) -> Result<(f64, u64), Error> {
    let fresh = place.open().await?;
    let Remains::Schema(_, schema) = &fresh.remains else {
        return Err(Error::Usage("not on Postgres".into()));
    };
    let engine = Engine::start(fresh.store.clone(), Options::default()).await?;
    let target = Target::new(&engine, load).await?;
    let started = Instant::now();
    // One of each lane makes the classes; they are interned in this order.
    for lane in 0..study.lanes {
        target.submit(1, &format!("lane-{lane}"), started).await?;
    }
    target.submit(1, "default", started).await?;
    let done = target.work(&[], &Claimer::new(0, 1)).await?;
    target.complete(&done, &Claimer::new(0, 1)).await?;
    let client = connect(url).await?;
    client.batch_execute(&format!("set search_path to {schema}")).await?;
    let waiting = client
        .query_one("select id, class from executions where state = 0 order by class limit 1", &[])
        .await?;
    let finished = client.query_one("select id, class from executions where state = 10 limit 1", &[]).await?;
    let copies = [
        (waiting.get::<_, uuid::Uuid>(0), waiting.get::<_, i32>(1), study.lanes as i64, study.waiting as i64),
        (finished.get::<_, uuid::Uuid>(0), finished.get::<_, i32>(1), 1, study.finished as i64),
    ];
    for (id, class, lanes, count) in copies {
        client.execute(COPY, &[&id, &class, &lanes, &count]).await?;
    }
    client.batch_execute("vacuum analyze executions").await?;
    let snapshot = match study.old_snapshot.is_zero() {
        true => None,
        false => {
            let holder = connect(url).await?;
            let begin = "begin isolation level repeatable read; select count(*) from pg_class";
            holder.batch_execute(begin).await?;
            churn(&target, load, study, study.old_snapshot).await?;
            Some(holder)
        }
    };
    let measured = churn(&target, load, study, study.measure).await?;
    drop(snapshot);
    engine.shutdown().await;
    fresh.remains.remove().await?;
    Ok(measured)
}

/// Claims and completes for so long. Every completed one is submitted anew, so that as much waits at the end as did at the
/// beginning.
async fn churn(target: &Target, load: &Load, study: &Study, duration: Duration) -> Result<(f64, u64), Error> {
    let started = Instant::now();
    let mut workers = Vec::new();
    for index in 0..load.workers {
        let target = target.clone();
        let lanes: Vec<String> = (0..study.named)
            .map(|n| format!("lane-{}", (index as u64 * study.named + n) % study.lanes))
            .collect();
        let claimer = Claimer { lanes: lanes.clone(), ..Claimer::new(index, load.batch) };
        workers.push(tokio::spawn(async move {
            let mut done = 0;
            let mut taken = Vec::new();
            while started.elapsed() < duration {
                let next = target.work(&taken, &claimer).await?;
                done += taken.len() as u64;
                if !taken.is_empty() {
                    let lane = &lanes[done as usize / claimer.max % lanes.len()];
                    target.submit(taken.len(), lane, started).await?;
                }
                taken = next;
            }
            target.complete(&taken, &claimer).await?;
            Ok::<u64, Error>(done + taken.len() as u64)
        }));
    }
    let mut done = 0;
    for worker in workers {
        done += worker.await.map_err(|error| Error::Usage(error.to_string()))??;
    }
    Ok((done as f64 / started.elapsed().as_secs_f64(), done))
}
