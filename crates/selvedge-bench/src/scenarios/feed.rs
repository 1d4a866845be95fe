//! `feed`: the delivery of events to subscribers, and the cost of the event log.
//!
//! Measures, on an idle engine, the time from the answer to a submission, when its commit is known to the caller, to
//! the arrival of the event at a subscriber; an event that arrives before the answer counts as zero. First on the
//! engine that commits; then, on PostgreSQL, on another engine of the same store that receives notifications
//! (`across_…`), and on one that polls instead (`polled_…`). These times are compared with the single-row commit of the
//! floor.
//!
//! Then drives the load of `queue` with and without the event log, and compares the two throughputs as
//! `queue_ratio_to_without_log`. Finally reads the log of that queue from its beginning, in events per second.

use crate::harness::drive::drive;
use crate::harness::{Target, Unlogged};
use crate::place::{FreshStore, StoreCleanup};
use crate::report::{Report, Times, rounded};
use crate::{Error, Load, Place, floor};
use selvedge_core::{Draft, ExecutionId};
use selvedge_engine::{Engine, EventFilter, From, Namespace, Notice, Options};
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// The largest number of executions of each driven queue.
const QUEUED: u64 = 30_000;
/// The number of turns in which the two queues are driven, so that a slowdown of the machine affects both.
const TURNS: usize = 3;

/// The parameters of the scenario.
#[derive(Clone, Copy, Debug)]
pub struct Study {
    /// The number of events for a subscriber on an engine that receives notifications. Default: 300.
    pub samples: usize,
    /// The number of events for a subscriber on an engine that polls. Default: 60.
    pub polled: usize,
}

impl Default for Study {
    fn default() -> Self {
        Study { samples: 300, polled: 60 }
    }
}

/// Runs the scenario.
pub async fn run(place: &Place, load: &Load, study: &Study) -> Result<Report, Error> {
    if load.http {
        return Err(Error::Usage("feed is measured in process; leave out --http".into()));
    }
    let floor = floor::measure_for(place, load).await?;
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
    let FreshStore { store, cleanup } = place.create_store().await?;
    let engine = Engine::start(store, Options::default()).await?;
    let measured = measure_delivery(&engine, &cleanup, study, &mut report).await;
    engine.shutdown().await;
    cleanup.run().await?;
    measured?;
    measure_throughput(place, load, &mut report).await?;
    Ok(report)
}

/// Measures the delivery of events on the engine that commits, and on other engines of the same store.
async fn measure_delivery(
    engine: &Engine,
    store: &StoreCleanup,
    study: &Study,
    report: &mut Report,
) -> Result<(), Error> {
    let here = engine.namespace("default").await?;
    // Prepares the statements.
    time_delivery(&here, &here, 20, Duration::ZERO).await?;
    let delivery = time_delivery(&here, &here, study.samples, Duration::from_millis(10)).await?;
    report.times = Times::of(delivery.from_answer);
    insert(report, "from_call", Times::of(delivery.from_call));
    for (name, notifications, samples, pause) in [
        ("across", true, study.samples, Duration::from_millis(10)),
        ("polled", false, study.polled, Duration::from_millis(250)),
    ] {
        let Some(store) = store.open_again().await? else { continue };
        let other = Engine::start(store, Options { notifications, ..Options::default() }).await?;
        let there = other.namespace("default").await?;
        let delivery = match time_delivery(&here, &there, 5, Duration::ZERO).await {
            Ok(_) => time_delivery(&here, &there, samples, pause).await,
            failed => failed,
        };
        other.shutdown().await;
        insert(report, name, Times::of(delivery?.from_answer));
    }
    Ok(())
}

fn insert(report: &mut Report, name: &str, times: Option<Times>) {
    let Some(times) = times else { return };
    for (part, value) in [("p50", times.p50), ("p95", times.p95), ("p99", times.p99)] {
        report.more.insert(format!("{name}_{part}_ms"), rounded(value));
    }
}

/// The times until the arrival of each event.
struct DeliveryTimes {
    /// From the answer to the call of submit.
    from_answer: Vec<Duration>,
    /// From the begin of the call of submit.
    from_call: Vec<Duration>,
}

/// Submits executions `here`, one after another with random pauses of `pause` on average, and waits for each event
/// `there`.
async fn time_delivery(
    here: &Namespace,
    there: &Namespace,
    samples: usize,
    pause: Duration,
) -> Result<DeliveryTimes, Error> {
    let submitted = EventFilter { types: vec!["execution.submitted".into()], ..EventFilter::default() };
    let mut subscription = there.subscribe(submitted, From::Now).await?;
    let (sender, mut arrivals) = mpsc::unbounded_channel();
    let subscriber = tokio::spawn(async move {
        while let Some(notice) = subscription.next().await {
            if let Notice::Event(event) = notice
                && sender.send((event.execution, Instant::now())).is_err()
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
        while let Some((execution, arrived)) = arrivals.recv().await {
            if execution == Some(id) {
                from_answer.push(arrived.saturating_duration_since(answered));
                from_call.push(arrived - called);
                break;
            }
        }
    }
    subscriber.abort();
    Ok(DeliveryTimes { from_answer, from_call })
}

/// Submits an execution to a lane without workers.
async fn submit(namespace: &Namespace) -> Result<ExecutionId, Error> {
    let draft = Draft { lane: "feed".into(), ..Draft::new("noop") };
    Ok(namespace.submit(draft).await?.execution.id)
}

/// Drives a queue with and without the event log, in turn, and reads the last log.
async fn measure_throughput(place: &Place, load: &Load, report: &mut Report) -> Result<(), Error> {
    let load = Load { executions: load.executions.min(QUEUED), ..load.clone() };
    let mut best = [0.0_f64; 2];
    let mut log_read = None;
    for turn in 0..TURNS {
        for (index, logged) in [true, false].into_iter().enumerate() {
            let FreshStore { store, cleanup } = place.create_store().await?;
            if !logged {
                store.meter().intercept(Arc::new(Unlogged));
            }
            let engine = Engine::start(store, Options::default()).await?;
            let result = drive_queue(&engine, &load, logged && turn + 1 == TURNS).await;
            engine.shutdown().await;
            cleanup.run().await?;
            let (per_second, turn_log_read) = result?;
            best[index] = best[index].max(per_second);
            log_read = log_read.or(turn_log_read);
        }
    }
    let [logged, unlogged] = best;
    report.settings.insert("queued".into(), json!(load.executions));
    report.more.insert("queue_per_s".into(), json!(logged.round()));
    report.more.insert("queue_without_log_per_s".into(), json!(unlogged.round()));
    report.more.insert("queue_ratio_to_without_log".into(), rounded(logged / unlogged));
    if let Some(LogRead { events, seconds }) = log_read {
        report.more.insert("read_events".into(), json!(events));
        report.more.insert("read_events_per_s".into(), json!((events as f64 / seconds).round()));
    }
    Ok(())
}

/// The events that were read from the log, and the time that took.
struct LogRead {
    events: u64,
    seconds: f64,
}

/// Returns the throughput of a queue, and with `reads_log` the result of reading its log.
async fn drive_queue(engine: &Engine, load: &Load, reads_log: bool) -> Result<(f64, Option<LogRead>), Error> {
    let target = Target::new(engine, load).await?;
    let per_second = drive(engine, &target, load).await?.per_second;
    let log_read = match reads_log {
        true => Some(read_log(&engine.namespace("default").await?).await?),
        false => None,
    };
    Ok((per_second, log_read))
}

/// Reads the log from its beginning to its end.
async fn read_log(namespace: &Namespace) -> Result<LogRead, Error> {
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
    Ok(LogRead { events, seconds: started.elapsed().as_secs_f64() })
}
