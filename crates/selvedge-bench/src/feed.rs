//! `feed`: from a commit to a subscriber, how fast the log is read, and what recording events costs.
//!
//! The times are from the answer to a submission, so from when its commit is known to the caller, to the subscriber, on an
//! idle engine; an event that comes before the answer counts as none. First on the engine that commits. On Postgres then
//! on another engine of the same store, which is told by the first (`across_…`), and on one that is not told and asks
//! (`polled_…`). Then a queue is driven with and without a log, and the log it leaves is read from its beginning.

use crate::report::{Report, Times, rounded};
use crate::target::Target;
use crate::unlogged::Unlogged;
use crate::{Error, Fresh, Load, Place, Remains, floor, queue};
use selvedge_core::{Draft, ExecutionId};
use selvedge_engine::{Engine, EventFilter, From, Namespace, Notice, Options};
use selvedge_store::Store;
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// How many executions go through the queue, with a log and without one.
const QUEUED: u64 = 30_000;
/// How often the two queues are driven in turn, so that a machine that slows down slows both.
const TURNS: usize = 3;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Study {
    /// How many events go to a subscriber that is told.
    pub samples: usize,
    /// How many to one that asks.
    pub polled: usize,
}

impl Default for Study {
    fn default() -> Self {
        Study { samples: 300, polled: 60 }
    }
}

/// Runs it, next to its floor.
pub async fn run(place: &Place, load: &Load, study: &Study) -> Result<Report, Error> {
    if load.http {
        return Err(Error::Usage("feed is measured in process; leave out --http".into()));
    }
    let floor = floor::measure(place, load.batch, 4).await?;
    let mut report = Report {
        scenario: "feed",
        store: place.name(),
        transport: "in_process",
        executions: study.samples as u64,
        floor: Some(floor.per_second),
        commit_ms: Some(floor.commit.p50),
        ..Report::default()
    };
    report.settings.insert("samples".into(), json!(study.samples));
    let Fresh { store, remains } = place.open().await?;
    let engine = Engine::start(store, Options::default()).await?;
    let measured = latencies(&engine, &remains, study, &mut report).await;
    engine.shutdown().await;
    remains.remove().await?;
    measured?;
    throughput(place, load, &mut report).await?;
    Ok(report)
}

/// From the commit to the subscriber: on the same engine, and on others of the same store.
async fn latencies(
    engine: &Engine,
    remains: &Remains,
    study: &Study,
    report: &mut Report,
) -> Result<(), Error> {
    let here = engine.namespace("default").await?;
    // Statements are prepared before the clock starts.
    told(&here, &here, 20, Duration::ZERO).await?;
    let (times, from_call) = told(&here, &here, study.samples, Duration::from_millis(10)).await?;
    report.times = Times::of(times);
    insert(report, "from_call", Times::of(from_call));
    for (name, notifications, samples, pause) in [
        ("across", true, study.samples, Duration::from_millis(10)),
        ("polled", false, study.polled, Duration::from_millis(250)),
    ] {
        let Some(store) = remains.open_again().await? else { continue };
        let other = Engine::start(store, Options { notifications, ..Options::default() }).await?;
        let there = other.namespace("default").await?;
        let times = match told(&here, &there, 5, Duration::ZERO).await {
            Ok(_) => told(&here, &there, samples, pause).await,
            failed => failed,
        };
        other.shutdown().await;
        insert(report, name, Times::of(times?.0));
    }
    Ok(())
}

fn insert(report: &mut Report, name: &str, times: Option<Times>) {
    let Some(times) = times else { return };
    for (part, value) in [("p50", times.p50), ("p95", times.p95), ("p99", times.p99)] {
        report.more.insert(format!("{name}_{part}_ms"), rounded(value));
    }
}

impl Remains {
    /// The same store once more, as another process would open it; none where only one may.
    async fn open_again(&self) -> Result<Option<Arc<dyn Store>>, Error> {
        match self {
            Remains::Schema(url, schema) => {
                let settings = selvedge_postgres::Settings { schema: schema.clone(), ..Default::default() };
                let store = selvedge_postgres::PostgresStore::connect_with(url, settings).await?;
                Ok(Some(Arc::new(store)))
            }
            Remains::File(_) => Ok(None),
        }
    }
}

/// Commits one after another here, each after a pause that is at random up to twice as long, and waits for it there.
/// Gives the times from the answer, and from the call.
async fn told(
    here: &Namespace,
    there: &Namespace,
    samples: usize,
    pause: Duration,
) -> Result<(Vec<Duration>, Vec<Duration>), Error> {
    let submitted = EventFilter { types: vec!["execution.submitted".into()], ..EventFilter::default() };
    let mut subscription = there.subscribe(submitted, From::Now).await?;
    let (heard, mut hear) = mpsc::unbounded_channel();
    let listener = tokio::spawn(async move {
        while let Some(notice) = subscription.next().await {
            if let Notice::Event(event) = notice
                && heard.send((event.execution, Instant::now())).is_err()
            {
                break;
            }
        }
    });
    let (mut from_answer, mut from_call) = (Vec::new(), Vec::new());
    for _ in 0..samples {
        tokio::time::sleep(pause.mul_f64(2.0 * fastrand::f64())).await;
        let called = Instant::now();
        let id = submit(here).await?;
        let answered = Instant::now();
        while let Some((execution, at)) = hear.recv().await {
            if execution == Some(id) {
                from_answer.push(at.saturating_duration_since(answered));
                from_call.push(at - called);
                break;
            }
        }
    }
    listener.abort();
    Ok((from_answer, from_call))
}

/// One that nobody claims.
async fn submit(namespace: &Namespace) -> Result<ExecutionId, Error> {
    let draft = Draft { lane: "feed".into(), ..Draft::new("noop") };
    Ok(namespace.submit(draft).await?.execution.id)
}

/// A queue with and without a log, in turn; then the log is read.
async fn throughput(place: &Place, load: &Load, report: &mut Report) -> Result<(), Error> {
    let load = Load { executions: load.executions.min(QUEUED), ..load.clone() };
    let mut best = [0.0_f64; 2];
    let mut read = None;
    for turn in 0..TURNS {
        for (index, logged) in [true, false].into_iter().enumerate() {
            let Fresh { store, remains } = place.open().await?;
            let store: Arc<dyn Store> = if logged { store } else { Arc::new(Unlogged(store)) };
            let engine = Engine::start(store, Options::default()).await?;
            let driven = drive(&engine, &load, logged && turn + 1 == TURNS).await;
            engine.shutdown().await;
            remains.remove().await?;
            let (per_second, of_log) = driven?;
            best[index] = best[index].max(per_second);
            read = read.or(of_log);
        }
    }
    let [logged, unlogged] = best;
    report.settings.insert("queued".into(), json!(load.executions));
    report.more.insert("queue_per_s".into(), json!(logged.round()));
    report.more.insert("queue_without_log_per_s".into(), json!(unlogged.round()));
    report.more.insert("queue_ratio_to_without_log".into(), rounded(logged / unlogged));
    if let Some((events, seconds)) = read {
        report.more.insert("read_events".into(), json!(events));
        report.more.insert("read_events_per_s".into(), json!((events as f64 / seconds).round()));
    }
    Ok(())
}

/// How many events were read, and in how many seconds.
type Read = (u64, f64);

async fn drive(engine: &Engine, load: &Load, reads: bool) -> Result<(f64, Option<Read>), Error> {
    let target = Target::new(engine, load).await?;
    let per_second = queue::drive(engine, &target, load).await?.per_second;
    let read = match reads {
        true => Some(read_all(&engine.namespace("default").await?).await?),
        false => None,
    };
    Ok((per_second, read))
}

/// Reads the log from its beginning to its end.
async fn read_all(namespace: &Namespace) -> Result<Read, Error> {
    let last = submit(namespace).await?;
    let started = Instant::now();
    let mut subscription = namespace.subscribe(EventFilter::default(), From::Beginning).await?;
    let mut events = 0;
    while let Some(notice) = subscription.next().await {
        if let Notice::Event(event) = notice {
            events += 1;
            if event.execution == Some(last) {
                break;
            }
        }
    }
    Ok((events, started.elapsed().as_secs_f64()))
}
