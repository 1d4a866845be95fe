//! `webhooks`: deliveries per second to a fast receiver, and the time of a delivery beside receivers that do not answer.
//!
//! The server and the receivers are in this process, on loopback ports. First executions are submitted while the webhook is
//! paused; the throughput is measured from its resumption to the last delivery. Then the time from the answer to a submission
//! to the arrival of its event is measured, alone and beside held receivers (`held_…`), in turns, so that a slowdown
//! of the machine affects both. `held_ratio` is the ratio of the two 99th percentiles.

use crate::place::FreshStore;
use crate::report::{Report, Times, rounded};
use crate::{Error, Load, Place, task_result};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use selvedge_core::rules::webhook::WebhookPatch;
use selvedge_core::webhook::WebhookConfig;
use selvedge_core::{Draft, Name};
use selvedge_engine::{Engine, Namespace, Options};
use selvedge_server::WebhookOptions;
use serde_json::json;
use std::convert::Infallible;
use std::future::pending;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// The largest number of deliveries of the first part.
const DELIVERIES: u64 = 20_000;
/// The number of concurrent submitters.
const SUBMITTERS: u64 = 64;
/// The number of receivers that do not answer.
const HELD: usize = 4;
/// The number of turns, and of samples in each.
const TURNS: usize = 4;
const SAMPLES: usize = 250;
/// The longest time for the first part.
const LONGEST: Duration = Duration::from_secs(100);

/// Runs the scenario.
pub async fn run(place: &Place, load: &Load) -> Result<Report, Error> {
    let deliveries = load.executions.min(DELIVERIES);
    let FreshStore { store, cleanup } = place.create_store().await?;
    let engine = Engine::start(store, Options::default()).await?;
    let mut report = Report {
        scenario: "webhooks",
        store: place.name(),
        transport: "http",
        executions: deliveries,
        ..Report::default()
    };
    report.settings.insert("held_receivers".into(), json!(HELD));
    let measured = measure(&engine, deliveries, &mut report).await;
    engine.shutdown().await;
    cleanup.run().await?;
    measured.map(|()| report)
}

async fn measure(engine: &Engine, deliveries: u64, report: &mut Report) -> Result<(), Error> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let webhooks = WebhookOptions { allow_private: true, ..WebhookOptions::default() };
    report.settings.insert("concurrency".into(), json!(webhooks.concurrency));
    let options = selvedge_server::Options { webhooks, ..selvedge_server::Options::default() };
    let server = tokio::spawn(selvedge_server::serve_with(options, engine.clone(), listener, pending()));
    let namespace = engine.namespace("default").await?;
    let (sender, mut arrivals) = mpsc::unbounded_channel();
    let fast = receiver(Some(sender)).await?;
    create(&namespace, "fast", fast, true).await?;
    let submitters: Vec<_> = (0..SUBMITTERS)
        .map(|number| {
            let namespace = namespace.clone();
            let count = deliveries / SUBMITTERS + u64::from(number < deliveries % SUBMITTERS);
            tokio::spawn(async move {
                for _ in 0..count {
                    submit(&namespace).await?;
                }
                Ok::<_, Error>(())
            })
        })
        .collect();
    for submitter in submitters {
        task_result(submitter.await)?;
    }
    pause(&namespace, "fast", false).await?;
    let begun = Instant::now();
    for _ in 0..deliveries {
        let left = LONGEST.saturating_sub(begun.elapsed());
        let arrived = timeout(left, arrivals.recv()).await;
        arrived.map_err(|_| Error::Usage(format!("there were no {deliveries} deliveries in time")))?;
    }
    report.throughput = Some(deliveries as f64 / begun.elapsed().as_secs_f64());
    let held = receiver(None).await?;
    for number in 0..HELD {
        create(&namespace, &format!("held {number}"), held, true).await?;
    }
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    for turn in 0..2 * TURNS {
        let with_held = turn % 2 == 1;
        for number in 0..HELD {
            pause(&namespace, &format!("held {number}"), !with_held).await?;
        }
        let times = if with_held { &mut beside } else { &mut alone };
        for _ in 0..SAMPLES {
            tokio::time::sleep(Duration::from_millis(fastrand::u64(0..10))).await;
            submit(&namespace).await?;
            let answered = Instant::now();
            let Some(arrived) = arrivals.recv().await else { break };
            times.push(arrived.saturating_duration_since(answered));
        }
    }
    server.abort();
    let (alone, beside) = (Times::of(alone), Times::of(beside));
    report.times = alone;
    if let (Some(alone), Some(beside)) = (alone, beside) {
        report.more.insert("held_p50_ms".into(), rounded(beside.p50));
        report.more.insert("held_p99_ms".into(), rounded(beside.p99));
        report.more.insert("held_ratio".into(), rounded(beside.p99 / alone.p99));
    }
    Ok(())
}

async fn create(namespace: &Namespace, name: &str, address: SocketAddr, paused: bool) -> Result<(), Error> {
    let config = WebhookConfig {
        url: format!("http://{address}/"),
        types: vec!["execution.submitted".into()],
        filter: Default::default(),
    };
    namespace.put_webhook(name, config, paused, &Name::trusted("bench")).await?;
    Ok(())
}

async fn pause(namespace: &Namespace, name: &str, paused: bool) -> Result<(), Error> {
    let patch = WebhookPatch { paused: Some(paused), ..WebhookPatch::default() };
    namespace.patch_webhook(name, patch, &Name::trusted("bench")).await?;
    Ok(())
}

/// Submits an execution to a lane without workers.
async fn submit(namespace: &Namespace) -> Result<(), Error> {
    let draft = Draft { lane: "webhooks".into(), ..Draft::new("noop") };
    namespace.submit(draft).await?;
    Ok(())
}

/// Starts a receiver that sends the time of every delivery. Without a sender it does not answer.
async fn receiver(arrivals: Option<mpsc::UnboundedSender<Instant>>) -> Result<SocketAddr, Error> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let arrivals = arrivals.clone();
            let service = service_fn(move |request: Request<Incoming>| {
                let arrivals = arrivals.clone();
                async move {
                    let arrived = Instant::now();
                    let _ = request.into_body().collect().await;
                    match arrivals {
                        Some(arrivals) => drop(arrivals.send(arrived)),
                        None => pending().await,
                    }
                    Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
                }
            });
            let _ = stream.set_nodelay(true);
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    Ok(address)
}
