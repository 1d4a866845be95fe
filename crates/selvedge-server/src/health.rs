//! Whether the server lives, whether it is ready, and its metrics as Prometheus text.

use crate::problem::{Code, Problem};
use crate::{Answer, App, VERSION, json};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use selvedge_engine::Tally;
use std::fmt::Write;
use std::time::Duration;

/// How long the store may take to answer before the server counts as not ready.
const PING_PATIENCE: Duration = Duration::from_secs(5);

/// `GET /healthz`: the process answers.
pub async fn healthz() -> Response {
    json::answer(StatusCode::OK, |object| {
        object.value("status", "ok");
        object.value("version", VERSION);
    })
}

/// `GET /readyz`: the store answers, and the server is not closing.
pub async fn readyz(State(app): State<App>) -> Answer {
    if app.closing.is_closing() {
        return Err(selvedge_engine::Error::Closed.into());
    }
    let store = app.engine.store_name();
    let wrong = match tokio::time::timeout(PING_PATIENCE, app.engine.ping()).await {
        Ok(Ok(())) => {
            return Ok(json::answer(StatusCode::OK, |object| {
                object.value("status", "ready");
                object.value("store", store);
            }));
        }
        Ok(Err(error)) => error.to_string(),
        Err(_elapsed) => format!("it did not answer within {} s", PING_PATIENCE.as_secs()),
    };
    let detail = format!("the {store} store does not answer: {wrong}");
    Err(Problem::new(Code::StoreUnavailable, detail))
}

/// `GET /metrics`
pub async fn metrics(State(app): State<App>) -> Response {
    let (batches, waiting_claims) = app.engine.activity();
    let mut text = String::new();
    let mut metric = |name: &str, kind: &str, help: &str, samples: &[(String, u64)]| {
        let _ = writeln!(text, "# HELP selvedge_{name} {help}\n# TYPE selvedge_{name} {kind}");
        for (labels, value) in samples {
            let _ = writeln!(text, "selvedge_{name}{labels} {value}");
        }
    };
    let plain = |value: u64| vec![(String::new(), value)];
    let about = format!("{{version=\"{VERSION}\",store=\"{}\"}}", app.engine.store_name());
    metric("info", "gauge", "What runs here.", &[(about, 1)]);
    metric("batches_total", "counter", "Batches that were committed.", &plain(batches));
    metric("waiting_claims", "gauge", "Claims that wait for work here.", &plain(waiting_claims as u64));
    let tallies = app.engine.reconcilers();
    for (name, help, value) in RECONCILER_METRICS {
        let samples: Vec<(String, u64)> = tallies
            .iter()
            .map(|(reconciler, tally)| (format!("{{reconciler=\"{reconciler}\"}}"), value(tally)))
            .collect();
        metric(&format!("reconciler_{name}_total"), "counter", help, &samples);
    }
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

type TallyField = fn(&Tally) -> u64;

/// What is counted of every reconciler.
const RECONCILER_METRICS: [(&str, &str, TallyField); 7] = [
    ("ticks", "Ticks that ran.", |tally| tally.ticks),
    ("scanned", "Rows that were found.", |tally| tally.scanned),
    ("done", "Rows that were acted on.", |tally| tally.done),
    ("filtered", "Rows that another server looks after.", |tally| tally.filtered),
    ("lost", "Rows that another server was quicker with, or that were not due.", |tally| tally.lost),
    ("errors", "Rows that failed and were set aside, and ticks that failed.", |tally| tally.errors),
    ("panics", "Ticks that panicked.", |tally| tally.panics),
];
