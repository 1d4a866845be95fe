//! The HTTP API of Selvedge.
//!
//! One file per noun. A handler reads its call with `fields` and `query`, asks the engine through the namespace of its
//! `Caller`, and writes its answer with `json` and `views`; whatever goes wrong is a `Problem`. The server knows no rule
//! and no store.

#![warn(missing_docs)]

mod amounts;
mod auth;
mod body;
mod budgets;
mod bulk;
mod closing;
mod draws;
mod events;
mod executions;
mod feed;
mod fields;
mod filter;
mod flow_views;
mod flows;
mod gates;
mod graph;
mod health;
mod json;
mod lanes;
mod named;
mod numbered;
mod operators;
mod page;
mod problem;
mod query;
mod quotas;
mod report;
mod signals;
mod sse;
mod steps;
mod streams;
mod submission;
mod suspension;
mod times;
mod views;
mod waitpoints;
mod workers;

pub use auth::{NotLoopback, check_listen};

use axum::Router;
use axum::extract::Request;
use axum::http::{Method, Uri};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::serve::ListenerExt;
use closing::Closing;
use futures_util::FutureExt;
use problem::{Code, Problem};
use selvedge_engine::Engine;
use std::future::{Future, pending};
use std::io;
use std::panic::AssertUnwindSafe;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// The version that answers and pages show.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// How the server runs.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long a shutdown waits for calls that are under way; 10 s.
    pub grace: Duration,
    /// How long a live feed is silent before it says that it is still there; 15 s.
    pub keep_alive: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options { grace: Duration::from_secs(10), keep_alive: Duration::from_secs(15) }
    }
}

/// What every handler may use.
#[derive(Clone)]
struct App {
    engine: Engine,
    closing: Closing,
    keep_alive: Duration,
}

/// What a handler answers.
type Answer = Result<Response, Problem>;

/// The API of `engine`, to be served by whatever serves a [`Router`].
pub fn router(engine: Engine) -> Router {
    let keep_alive = Options::default().keep_alive;
    routes(App { engine, closing: Closing::never(), keep_alive })
}

/// Serves the API of `engine` on `listener` until `shutdown` is done. Then no more connections are accepted, calls that
/// wait answer at once, and calls that are under way may end within the grace period. The engine itself is left running:
/// shut it down afterwards.
///
/// A listener that others could reach is refused; ask [`check_listen`] before binding one.
pub async fn serve(
    engine: Engine,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    serve_with(Options::default(), engine, listener, shutdown).await
}

/// [`serve`], with options.
pub async fn serve_with(
    options: Options,
    engine: Engine,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    check_listen(listener.local_addr()?).map_err(io::Error::other)?;
    let (close, closing) = Closing::new();
    let routes = routes(App { engine, closing, keep_alive: options.keep_alive });
    let listener = listener.tap_io(|connection| {
        // Answers are written whole: waiting for more of them would only delay them.
        let _ = connection.set_nodelay(true);
    });
    let (asked, told) = oneshot::channel();
    let shutdown = async move {
        shutdown.await;
        close.send_replace(true);
        let _ = asked.send(());
    };
    let grace_over = async move {
        match told.await {
            Ok(()) => tokio::time::sleep(options.grace).await,
            Err(_never) => pending().await,
        }
    };
    let serving = axum::serve(listener, routes).with_graceful_shutdown(shutdown);
    tokio::select! {
        served = serving.into_future() => served,
        () = grace_over => {
            tracing::warn!("calls were still under way when the grace period of the shutdown ended");
            Ok(())
        }
    }
}

fn routes(app: App) -> Router {
    Router::new()
        .route("/", get(page::page))
        .route("/docs/problems", get(page::problems))
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(health::metrics))
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
        .route("/v1/executions/{id}/usage", get(budgets::of_execution))
        .route("/v1/executions/{id}/cancel", post(operators::cancel))
        .route("/v1/executions/{id}/replay", post(operators::replay))
        .route("/v1/executions/{id}/reschedule", post(operators::reschedule))
        .route("/v1/executions/{id}/priority", post(operators::priority))
        .route("/v1/executions/{id}/tags", post(operators::tags))
        .route("/v1/executions/{id}/revoke-lease", post(operators::revoke_lease))
        .route("/v1/executions/{id}/resume", post(operators::resume))
        .route("/v1/waitpoints/{id}/signal", post(waitpoints::signal))
        .route("/v1/waitpoints/{id}/revoke", post(waitpoints::revoke))
        .route("/v1/admin/waitpoint-keys/rotate", post(waitpoints::rotate))
        .route("/v1/flows", get(flows::list).post(flows::submit))
        .route("/v1/flows/{id}", get(flows::get))
        .route("/v1/flows/{id}/nodes", post(flows::grow))
        .route("/v1/flows/{id}/graph", get(flows::graph))
        .route("/v1/flows/{id}/result", get(flows::result))
        .route("/v1/flows/{id}/cancel", post(flows::cancel))
        .route("/v1/workers", get(workers::list))
        .route("/v1/workers/{instance}", delete(workers::remove))
        .route("/v1/workers/{instance}/claim", post(workers::claim))
        .route("/v1/workers/{instance}/heartbeat", post(workers::heartbeat))
        .route("/v1/workers/{instance}/report", post(report::report))
        .route("/v1/workers/{instance}/drain", post(workers::drain))
        .route("/v1/events", get(events::page))
        .route("/v1/lanes", get(lanes::list))
        .route("/v1/lanes/{name}", get(lanes::get).put(lanes::put).delete(lanes::remove))
        .route("/v1/quotas", get(quotas::list))
        .route("/v1/quotas/{name}", get(quotas::get).put(quotas::put).delete(quotas::remove))
        .route("/v1/budgets", get(budgets::list))
        .route("/v1/budgets/{name}", get(budgets::get).put(budgets::put).delete(budgets::remove))
        .route("/v1/budgets/{name}/usage", post(budgets::spend))
        .route("/v1/budgets/{name}/reset", post(budgets::reset))
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_method)
        .layer(from_fn(auth::own_pages_only))
        .layer(from_fn(catch_panics))
        .with_state(app)
}

async fn no_such_path(method: Method, uri: Uri) -> Problem {
    let detail = format!("there is no path {}, which {method} asked for", uri.path());
    Problem::new(Code::NotFound, detail)
}

async fn no_such_method(method: Method, uri: Uri) -> Problem {
    let detail = format!("{} does not take {method}; the Allow header says what it takes", uri.path());
    Problem::new(Code::MethodNotAllowed, detail)
}

/// A handler that panics fails its own call only.
async fn catch_panics(request: Request, next: Next) -> Response {
    let call = format!("{} {}", request.method(), request.uri().path());
    match AssertUnwindSafe(next.run(request)).catch_unwind().await {
        Ok(response) => response,
        Err(_panic) => {
            // The panic hook has written what and where.
            tracing::error!(call, "a handler panicked");
            Problem::new(Code::Internal, "the server failed; its log says how").into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    async fn broken() -> Response {
        panic!("a handler that panics, on purpose")
    }

    #[tokio::test]
    async fn a_handler_that_panics_fails_only_its_own_call() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let routes = Router::new().route("/", get(broken)).layer(from_fn(catch_panics));
        let serving = tokio::spawn(axum::serve(listener, routes).into_future());
        for _ in 0..2 {
            let mut stream = TcpStream::connect(address).await.expect("it listens");
            let request = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
            stream.write_all(request).await.expect("is sent");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.expect("an answer");
            assert!(answer.starts_with("HTTP/1.1 500"), "{answer}");
            assert!(answer.contains("application/problem+json"), "{answer}");
        }
        serving.abort();
    }
}
