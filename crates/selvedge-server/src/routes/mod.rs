//! The routes of the API, and their handlers: one file per resource.

mod budgets;
mod bulk;
mod events;
mod executions;
mod flows;
mod gates;
mod health;
mod lanes;
mod metrics;
mod namespaces;
mod operators;
mod quotas;
mod relatives;
mod report;
mod signals;
mod stats;
mod steps;
mod streams;
mod waitpoints;
mod workers;

use crate::wire::problem::{Code, Problem};
use crate::{AppState, auth, http_metrics, pages};
use axum::Router;
use axum::extract::Request;
use axum::http::{Method, Uri};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;

/// The result of a handler.
pub type HandlerResult = Result<Response, Problem>;

/// Returns the router of the whole API.
pub fn router(state: AppState) -> Router {
    let http_metrics = state.http_metrics.clone();
    Router::new()
        .route("/", get(pages::overview))
        .route("/docs/problems", get(pages::problems))
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(metrics::metrics))
        .merge(execution_routes())
        .merge(waitpoint_routes())
        .merge(flow_routes())
        .merge(worker_routes())
        .merge(gate_routes())
        .route("/v1/events", get(events::page))
        .route("/v1/stats", get(stats::list))
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_method)
        .layer(from_fn(auth::refuse_other_sites))
        .layer(from_fn(catch_panics))
        .layer(from_fn_with_state(http_metrics, http_metrics::observe))
        .with_state(state)
}

/// Returns the router of a listener for metrics, which takes no keys. `checks_site` refuses requests from pages of other
/// sites, as on loopback.
pub fn metrics_router(state: AppState, checks_site: bool) -> Router {
    let router = Router::new()
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(metrics::metrics))
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_method);
    let router = if checks_site { router.layer(from_fn(auth::refuse_other_sites)) } else { router };
    router.layer(from_fn(catch_panics)).with_state(state)
}

fn execution_routes() -> Router<AppState> {
    Router::new()
        .route("/v1/executions", get(executions::list).post(executions::submit))
        .route("/v1/executions/batch", post(executions::submit_batch))
        .route("/v1/executions/bulk", post(bulk::bulk))
        .route("/v1/executions/{id}", get(executions::get))
        .route("/v1/executions/{id}/explain", get(executions::explain))
        .route("/v1/executions/{id}/attempts", get(executions::attempts))
        .route("/v1/executions/{id}/events", get(events::of_execution))
        .route("/v1/executions/{id}/result", get(executions::result))
        .route("/v1/executions/{id}/stream", get(streams::page))
        .route("/v1/executions/{id}/stream/tail", get(streams::tail))
        .route("/v1/executions/{id}/summary", get(streams::summary))
        .route("/v1/executions/{id}/signals", get(signals::list).post(signals::send))
        .route("/v1/executions/{id}/steps", get(steps::list))
        .route("/v1/executions/{id}/waitpoints", get(waitpoints::list))
        .route("/v1/executions/{id}/upstreams", get(relatives::upstreams))
        .route("/v1/executions/{id}/children", get(relatives::children))
        .route("/v1/executions/{id}/usage", get(budgets::of_execution))
        .route("/v1/executions/{id}/cancel", post(operators::cancel))
        .route("/v1/executions/{id}/replay", post(operators::replay))
        .route("/v1/executions/{id}/reschedule", post(operators::reschedule))
        .route("/v1/executions/{id}/priority", post(operators::priority))
        .route("/v1/executions/{id}/tags", post(operators::tags))
        .route("/v1/executions/{id}/revoke-lease", post(operators::revoke_lease))
        .route("/v1/executions/{id}/resume", post(operators::resume))
}

fn waitpoint_routes() -> Router<AppState> {
    Router::new()
        .route("/v1/waitpoints", get(waitpoints::list_all))
        .route("/v1/waitpoints/{id}", get(waitpoints::get))
        .route("/v1/waitpoints/{id}/signal", post(waitpoints::signal))
        .route("/v1/waitpoints/{id}/look", post(waitpoints::look))
        .route("/v1/waitpoints/{id}/answer", post(waitpoints::answer))
        .route("/v1/waitpoints/{id}/reissue", post(waitpoints::reissue))
        .route("/v1/waitpoints/{id}/revoke", post(waitpoints::revoke))
        .route("/v1/admin/namespaces/{name}", get(namespaces::get).put(namespaces::put))
        .route("/v1/admin/waitpoint-keys", get(waitpoints::list_keys))
        .route("/v1/admin/waitpoint-keys/rotate", post(waitpoints::rotate_keys))
}

fn flow_routes() -> Router<AppState> {
    Router::new()
        .route("/v1/flows", get(flows::list).post(flows::submit))
        .route("/v1/flows/{id}", get(flows::get))
        .route("/v1/flows/{id}/explain", get(flows::explain))
        .route("/v1/flows/{id}/nodes", post(flows::grow))
        .route("/v1/flows/{id}/graph", get(flows::graph))
        .route("/v1/flows/{id}/result", get(flows::result))
        .route("/v1/flows/{id}/cancel", post(flows::cancel))
}

fn worker_routes() -> Router<AppState> {
    Router::new()
        .route("/v1/workers", get(workers::list))
        .route("/v1/workers/{instance}", delete(workers::remove))
        .route("/v1/workers/{instance}/claim", post(workers::claim))
        .route("/v1/workers/{instance}/heartbeat", post(workers::heartbeat))
        .route("/v1/workers/{instance}/report", post(report::report))
        .route("/v1/workers/{instance}/drain", post(workers::drain))
}

fn gate_routes() -> Router<AppState> {
    Router::new()
        .route("/v1/lanes", get(lanes::list))
        .route("/v1/lanes/{name}", get(lanes::get).put(lanes::put).patch(lanes::patch).delete(lanes::remove))
        .route("/v1/lanes/{name}/pause", post(lanes::pause))
        .route("/v1/lanes/{name}/resume", post(lanes::resume))
        .route("/v1/quotas", get(quotas::list))
        .route(
            "/v1/quotas/{name}",
            get(quotas::get).put(quotas::put).patch(quotas::patch).delete(quotas::remove),
        )
        .route("/v1/budgets", get(budgets::list))
        .route(
            "/v1/budgets/{name}",
            get(budgets::get).put(budgets::put).patch(budgets::patch).delete(budgets::remove),
        )
        .route("/v1/budgets/{name}/usage", post(budgets::report_usage))
        .route("/v1/budgets/{name}/reset", post(budgets::reset))
}

async fn no_such_path(method: Method, uri: Uri) -> Problem {
    let detail = format!("there is no path {} (requested with {method})", uri.path());
    Problem::new(Code::NotFound, detail)
}

async fn no_such_method(method: Method, uri: Uri) -> Problem {
    let detail = format!("{} does not support {method}; the Allow header lists its methods", uri.path());
    Problem::new(Code::MethodNotAllowed, detail)
}

/// Turns a panic of a handler into a 500 response, so that it fails only its own request.
async fn catch_panics(request: Request, next: Next) -> Response {
    let call = format!("{} {}", request.method(), request.uri().path());
    match AssertUnwindSafe(next.run(request)).catch_unwind().await {
        Ok(response) => response,
        Err(_panic) => {
            // The panic hook has logged the message and its location.
            tracing::error!(call, "a handler panicked");
            Problem::new(Code::Internal, "the server failed; see its log").into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    async fn panicking_handler() -> Response {
        panic!("a handler that panics, on purpose")
    }

    #[tokio::test]
    async fn a_handler_that_panics_fails_only_its_own_request() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port is bound");
        let address = listener.local_addr().expect("the listener has an address");
        let router = Router::new().route("/", get(panicking_handler)).layer(from_fn(catch_panics));
        let serving = tokio::spawn(axum::serve(listener, router).into_future());
        for _ in 0..2 {
            let mut stream = TcpStream::connect(address).await.expect("the server accepts");
            let request = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
            stream.write_all(request).await.expect("the request is sent");
            let mut response = String::new();
            stream.read_to_string(&mut response).await.expect("the response is text");
            assert!(response.starts_with("HTTP/1.1 500"), "{response}");
            assert!(response.contains("application/problem+json"), "{response}");
        }
        serving.abort();
    }
}
