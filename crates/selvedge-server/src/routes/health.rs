//! Liveness, readiness, and metrics in the Prometheus text format.

use crate::routes::HandlerResult;
use crate::wire::json;
use crate::wire::problem::{Code, Problem};
use crate::{AppState, VERSION};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use selvedge_engine::Tally;
use std::fmt::Write;
use std::time::Duration;

/// The longest time that the store may take to write before the server counts as not ready.
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// `GET /healthz`: succeeds while the process responds.
pub async fn healthz() -> Response {
    json::response(StatusCode::OK, |object| {
        object.value("status", "ok");
        object.value("version", VERSION);
    })
}

/// `GET /readyz`: succeeds if the store accepts writes and the server is not shutting down.
pub async fn readyz(State(state): State<AppState>) -> HandlerResult {
    if state.shutdown.is_shutting_down() {
        return Err(selvedge_engine::Error::Closed.into());
    }
    let store = state.engine.store_name();
    let cause = match tokio::time::timeout(PING_TIMEOUT, state.engine.ping()).await {
        Ok(Ok(())) => {
            return Ok(json::response(StatusCode::OK, |object| {
                object.value("status", "ready");
                object.value("store", store);
            }));
        }
        Ok(Err(error)) => error.to_string(),
        Err(_elapsed) => format!("no response within {} s", PING_TIMEOUT.as_secs()),
    };
    let detail = format!("the {store} store does not accept writes: {cause}");
    Err(Problem::new(Code::StoreUnavailable, detail))
}

/// `GET /metrics`
pub async fn metrics(State(state): State<AppState>) -> Response {
    let (batches, waiting_claims) = state.engine.activity();
    let mut text = String::new();
    let mut metric = |name: &str, kind: &str, help: &str, samples: &[(String, u64)]| {
        let _ = writeln!(text, "# HELP selvedge_{name} {help}\n# TYPE selvedge_{name} {kind}");
        for (labels, value) in samples {
            let _ = writeln!(text, "selvedge_{name}{labels} {value}");
        }
    };
    let unlabelled = |value: u64| vec![(String::new(), value)];
    let info = format!("{{version=\"{VERSION}\",store=\"{}\"}}", state.engine.store_name());
    metric("info", "gauge", "Version and store of this server.", &[(info, 1)]);
    metric("batches_total", "counter", "Committed batches.", &unlabelled(batches));
    metric("waiting_claims", "gauge", "Claims waiting on this server.", &unlabelled(waiting_claims as u64));
    let tallies = state.engine.reconcilers();
    for (name, help, value) in RECONCILER_METRICS {
        let samples: Vec<(String, u64)> = tallies
            .iter()
            .map(|(reconciler, tally)| (format!("{{reconciler=\"{reconciler}\"}}"), value(tally)))
            .collect();
        metric(&format!("reconciler_{name}_total"), "counter", help, &samples);
    }
    let content_type = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, content_type)], text).into_response()
}

type TallyField = fn(&Tally) -> u64;

/// The counters of every reconciler: name, help text, value.
const RECONCILER_METRICS: [(&str, &str, TallyField); 7] = [
    ("ticks", "Ticks run.", |tally| tally.ticks),
    ("scanned", "Rows found by scans.", |tally| tally.scanned),
    ("done", "Rows processed.", |tally| tally.done),
    ("filtered", "Rows left to the server responsible for them.", |tally| tally.filtered),
    ("lost", "Rows that another server processed first, or that were not due.", |tally| tally.superseded),
    ("errors", "Rows that failed and were quarantined, and ticks that failed.", |tally| tally.errors),
    ("panics", "Ticks that panicked.", |tally| tally.panics),
];
