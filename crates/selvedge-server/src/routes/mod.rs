//! The routes of the API, each with the permission that it needs, and their handlers: one file per resource.

mod budgets;
mod bulk;
mod bulk_jobs;
pub mod clock;
pub mod events;
mod executions;
pub mod flows;
pub mod gates;
mod health;
mod inbox;
pub mod keys;
mod lanes;
mod metrics;
mod namespaces;
mod operators;
mod quotas;
mod relatives;
mod report;
mod schedules;
mod signals;
mod stats;
mod steps;
mod streams;
mod table;
pub mod typed;
pub mod waitpoints;
pub mod webhooks;
mod workers;

use crate::wire::problem::{Code, Problem};
use crate::{AppState, auth, chaos, compression, http_metrics, openapi, pages, request_id, sending};
use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderValue, Method, Uri, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use selvedge_core::Permission::{AdministerServer, Open, Operate, Read, Submit, Work};
use std::panic::AssertUnwindSafe;

pub use executions::BATCH_MAX;
pub use table::{Route, Routes};

pub type HandlerResult = Result<Response, Problem>;

/// Returns the router of the whole API.
pub fn router(state: AppState) -> Router {
    let http_metrics = state.http_metrics.clone();
    all_routes()
        .into_router()
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_method)
        .layer(from_fn_with_state(state.clone(), auth::refuse_other_sites))
        .layer(from_fn(pages::show_problems))
        .layer(from_fn(sending::charge))
        .layer(compression::layer())
        .layer(from_fn(compression::finish))
        .layer(from_fn_with_state(state.clone(), chaos::disturb))
        .layer(from_fn(|request: Request, next: Next| {
            request_id::identify(request, |request| catch_panics(request, next))
        }))
        .layer(from_fn_with_state(http_metrics, http_metrics::observe))
        .with_state(state)
}

/// Returns the router of a listener for metrics, which takes no keys. `checks_site` refuses requests from pages of other
/// sites, as on loopback.
pub fn metrics_router(state: AppState, checks_site: bool) -> Router {
    let router = Routes::new()
        .get("/healthz", Open, health::healthz)
        .get("/readyz", Open, health::readyz)
        .get("/metrics", Open, metrics::metrics)
        .into_router()
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_method);
    let check = from_fn_with_state(state.clone(), auth::refuse_other_sites);
    let router = if checks_site { router.layer(check) } else { router };
    router.layer(from_fn(catch_panics)).with_state(state)
}

/// Returns every route of the API with its permission.
pub fn all_routes() -> Routes {
    Routes::new()
        .get("/openapi.json", Open, openapi::openapi)
        .get("/healthz", Open, health::healthz)
        .get("/readyz", Open, health::readyz)
        .get("/metrics", AdministerServer, metrics::metrics)
        .merge(pages::routes())
        .merge(execution_routes())
        .merge(waitpoint_routes())
        .merge(bulk_job_routes())
        .merge(flow_routes())
        .merge(inbox_routes())
        .merge(worker_routes())
        .merge(gate_routes())
        .merge(webhook_routes())
        .merge(schedule_routes())
        .merge(admin_routes())
        .get("/v1/events", Read, events::page)
        .get("/v1/stats", Read, stats::list)
        .get("/v1/clock", Read, clock::get)
        .post("/v1/clock/advance", Operate, clock::advance)
}

fn execution_routes() -> Routes {
    Routes::new()
        .get("/v1/executions", Read, executions::list)
        .post("/v1/executions", Submit, executions::submit)
        .post("/v1/executions/batch", Submit, executions::submit_batch)
        .post("/v1/executions/bulk", Operate, bulk::bulk)
        .get("/v1/executions/{id}", Read, executions::get)
        .get("/v1/executions/{id}/explain", Read, executions::explain)
        .get("/v1/executions/{id}/attempts", Read, executions::attempts)
        .get("/v1/executions/{id}/events", Read, events::of_execution)
        .get("/v1/executions/{id}/result", Read, executions::result)
        .get("/v1/executions/{id}/stream", Read, streams::page)
        .get("/v1/executions/{id}/stream/tail", Read, streams::tail)
        .get("/v1/executions/{id}/summary", Read, streams::summary)
        .get("/v1/executions/{id}/signals", Read, signals::list)
        .post("/v1/executions/{id}/signals", Submit, signals::send)
        .get("/v1/executions/{id}/steps", Read, steps::list)
        .get("/v1/executions/{id}/waitpoints", Read, waitpoints::list)
        .get("/v1/executions/{id}/upstreams", Read, relatives::upstreams)
        .get("/v1/executions/{id}/children", Read, relatives::children)
        .get("/v1/executions/{id}/usage", Read, budgets::of_execution)
        .post("/v1/executions/{id}/cancel", Operate, operators::cancel)
        .post("/v1/executions/{id}/replay", Operate, operators::replay)
        .post("/v1/executions/{id}/reschedule", Operate, operators::reschedule)
        .post("/v1/executions/{id}/priority", Operate, operators::priority)
        .post("/v1/executions/{id}/tags", Operate, operators::tags)
        .post("/v1/executions/{id}/revoke-lease", Operate, operators::revoke_lease)
        .post("/v1/executions/{id}/resume", Operate, operators::resume)
}

fn bulk_job_routes() -> Routes {
    Routes::new().repeatable(bulk_jobs::start).on(bulk_jobs::list).on(bulk_jobs::get).on(bulk_jobs::stop)
}

fn inbox_routes() -> Routes {
    Routes::new()
        .get("/v1/inbox", Read, inbox::list)
        .post("/v1/inbox/{number}/retry", Operate, inbox::retry)
        .delete("/v1/inbox/{number}", Operate, inbox::delete)
}

fn waitpoint_routes() -> Routes {
    Routes::new()
        .get("/v1/waitpoints", Read, waitpoints::list_all)
        .get("/v1/waitpoints/{id}", Read, waitpoints::get)
        .post("/v1/waitpoints/{id}/signal", Open, waitpoints::signal)
        .post("/v1/waitpoints/{id}/look", Open, waitpoints::look)
        .post("/v1/waitpoints/{id}/answer", Operate, waitpoints::answer)
        .post("/v1/waitpoints/{id}/reissue", Operate, waitpoints::reissue)
        .post("/v1/waitpoints/{id}/revoke", Operate, waitpoints::revoke)
}

fn admin_routes() -> Routes {
    Routes::new()
        .repeatable(keys::create)
        .on(keys::list)
        .on(keys::revoke)
        .on(namespaces::list)
        .on(namespaces::get)
        .on(namespaces::put)
        .on(namespaces::delete)
        .get("/v1/admin/waitpoint-keys", AdministerServer, waitpoints::list_keys)
        .post("/v1/admin/waitpoint-keys/rotate", AdministerServer, waitpoints::rotate_keys)
}

fn flow_routes() -> Routes {
    Routes::new()
        .get("/v1/flows", Read, flows::list)
        .post("/v1/flows", Submit, flows::submit)
        .get("/v1/flows/{id}", Read, flows::get)
        .get("/v1/flows/{id}/explain", Read, flows::explain)
        .post("/v1/flows/{id}/nodes", Submit, flows::grow)
        .get("/v1/flows/{id}/graph", Read, flows::graph)
        .get("/v1/flows/{id}/result", Read, flows::result)
        .post("/v1/flows/{id}/cancel", Operate, flows::cancel)
}

fn worker_routes() -> Routes {
    Routes::new()
        .get("/v1/workers", Read, workers::list)
        .delete("/v1/workers/{instance}", Work, workers::remove)
        .post("/v1/workers/{instance}/claim", Work, workers::claim)
        .post("/v1/workers/{instance}/heartbeat", Work, workers::heartbeat)
        .post("/v1/workers/{instance}/report", Work, report::report)
        .post("/v1/workers/{instance}/drain", Work, workers::drain)
}

fn gate_routes() -> Routes {
    Routes::new()
        .get("/v1/lanes", Read, lanes::list)
        .get("/v1/lanes/{name}", Read, lanes::get)
        .put("/v1/lanes/{name}", Operate, lanes::put)
        .patch("/v1/lanes/{name}", Operate, lanes::patch)
        .delete("/v1/lanes/{name}", Operate, lanes::remove)
        .post("/v1/lanes/{name}/pause", Operate, lanes::pause)
        .post("/v1/lanes/{name}/resume", Operate, lanes::resume)
        .get("/v1/quotas", Read, quotas::list)
        .get("/v1/quotas/{name}", Read, quotas::get)
        .put("/v1/quotas/{name}", Operate, quotas::put)
        .patch("/v1/quotas/{name}", Operate, quotas::patch)
        .delete("/v1/quotas/{name}", Operate, quotas::remove)
        .get("/v1/budgets", Read, budgets::list)
        .get("/v1/budgets/{name}", Read, budgets::get)
        .put("/v1/budgets/{name}", Operate, budgets::put)
        .patch("/v1/budgets/{name}", Operate, budgets::patch)
        .delete("/v1/budgets/{name}", Operate, budgets::remove)
        .post("/v1/budgets/{name}/usage", Operate, budgets::report_usage)
        .post("/v1/budgets/{name}/reset", Operate, budgets::reset)
}

fn webhook_routes() -> Routes {
    Routes::new()
        .get("/v1/webhooks", Read, webhooks::list)
        .get("/v1/webhooks/{name}", Read, webhooks::get)
        .put("/v1/webhooks/{name}", Operate, webhooks::put)
        .patch("/v1/webhooks/{name}", Operate, webhooks::patch)
        .delete("/v1/webhooks/{name}", Operate, webhooks::remove)
        .post("/v1/webhooks/{name}/rotate-secret", Operate, webhooks::rotate_secret)
        .post("/v1/webhooks/{name}/test", Operate, webhooks::test)
        .get("/v1/webhooks/{name}/deliveries", Read, webhooks::deliveries)
        .post("/v1/webhooks/{name}/deliveries/{id}/replay", Operate, webhooks::replay)
}

fn schedule_routes() -> Routes {
    Routes::new()
        .get("/v1/schedules", Read, schedules::list)
        .get("/v1/schedules/{name}", Read, schedules::get)
        .put("/v1/schedules/{name}", Operate, schedules::put)
        .patch("/v1/schedules/{name}", Operate, schedules::patch)
        .delete("/v1/schedules/{name}", Operate, schedules::remove)
        .post("/v1/schedules/{name}/run", Operate, schedules::run)
        .get("/v1/schedules/{name}/next", Read, schedules::next)
        .get("/v1/schedules/{name}/runs", Read, schedules::runs)
}

async fn no_such_path(method: Method, uri: Uri) -> Problem {
    let detail = format!("there is no path {} (requested with {method})", uri.path());
    Problem::new(Code::NotFound, detail)
}

async fn no_such_method(method: Method, uri: Uri) -> Problem {
    let detail = format!("{} does not support {method}; the Allow header lists its methods", uri.path());
    Problem::new(Code::MethodNotAllowed, detail)
}

/// Turns a panic of a handler into a 500 response, so that it fails only its own request. Ends the connection after a request
/// with a `Transfer-Encoding`: it may have a `Content-Length` too, and then a proxy in front may take the bytes after the
/// body for the next request of another caller (request smuggling).
async fn catch_panics(request: Request, next: Next) -> Response {
    let call = format!("{} {}", request.method(), request.uri().path());
    let is_chunked = request.headers().contains_key(header::TRANSFER_ENCODING);
    match AssertUnwindSafe(next.run(request)).catch_unwind().await {
        Ok(mut response) => {
            if is_chunked {
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            response
        }
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
    use axum::routing::get;
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
