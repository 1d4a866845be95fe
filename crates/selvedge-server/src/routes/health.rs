//! Liveness and readiness.

use crate::routes::HandlerResult;
use crate::wire::json;
use crate::wire::problem::{Code, Problem};
use crate::{AppState, VERSION};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use std::time::Duration;

/// The longest time that the store may take to write before the server counts as not ready.
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest time that a ready server takes to find uncovered namespaces.
const COVERAGE_TIMEOUT: Duration = Duration::from_secs(1);

/// `GET /healthz`: succeeds while the process responds.
pub async fn healthz() -> Response {
    json::response(StatusCode::OK, |object| {
        object.value("status", "ok");
        object.value("version", VERSION);
    })
}

/// `GET /readyz`: succeeds if the store accepts writes and the server is not shutting down. A server is also ready if there
/// are namespaces whose background work no server does: it serves requests, and others would not do more.
pub async fn readyz(State(state): State<AppState>) -> HandlerResult {
    if state.draining.has_begun() {
        return Err(selvedge_engine::Error::Closed.into());
    }
    let store = state.engine.store_name();
    let cause = match tokio::time::timeout(PING_TIMEOUT, state.engine.ping()).await {
        Ok(Ok(())) => {
            // Only their number: this path needs no key, and names of namespaces are not for everyone.
            let uncovered = tokio::time::timeout(COVERAGE_TIMEOUT, state.engine.uncovered_namespaces()).await;
            let uncovered = uncovered.ok().and_then(Result::ok).map(|names| names.len() as u64);
            return Ok(json::response(StatusCode::OK, |object| {
                object.value("status", "ready");
                object.value("store", store);
                object.value("uncovered_namespaces", &uncovered);
                object.value("clock_behind_ms", &(state.engine.clock_behind().as_millis() as u64));
            }));
        }
        Ok(Err(error)) => error.to_string(),
        Err(_elapsed) => format!("no response within {} s", PING_TIMEOUT.as_secs()),
    };
    let detail = format!("the {store} store does not accept writes: {cause}");
    Err(Problem::new(Code::StoreUnavailable, detail))
}
