//! The HTTP API of Selvedge.
//!
//! `routes` has one file of handlers per resource; `wire` has the shapes of requests and responses. A handler reads its
//! request with `wire::fields` and `wire::query`, calls the engine through the namespace of its `Caller`, and writes
//! its response with `wire::json` and `wire::views`. Every error becomes a `Problem`. The server contains no rules and
//! does not depend on a store.

#![warn(missing_docs)]

mod auth;
mod pages;
mod routes;
mod shutdown;
mod sse;
mod wire;

pub use auth::{NotLoopback, check_listen};

use axum::Router;
use axum::serve::ListenerExt;
use selvedge_engine::Engine;
use shutdown::ShutdownWatch;
use std::future::{Future, pending};
use std::io;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// The version that responses and pages show.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Options of a server.
#[derive(Clone, Debug)]
pub struct Options {
    /// Longest time that a shutdown waits for requests in progress. Default: 10 s.
    pub grace: Duration,
    /// Interval of keep-alive comments on a silent event stream. Default: 15 s.
    pub keep_alive: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options { grace: Duration::from_secs(10), keep_alive: Duration::from_secs(15) }
    }
}

/// The state that all handlers share.
#[derive(Clone)]
struct AppState {
    engine: Engine,
    shutdown: ShutdownWatch,
    keep_alive: Duration,
}

/// Returns the API of `engine` as a [`Router`], for callers that run their own HTTP server.
pub fn router(engine: Engine) -> Router {
    let keep_alive = Options::default().keep_alive;
    routes::router(AppState { engine, shutdown: ShutdownWatch::never(), keep_alive })
}

/// Serves the API of `engine` on `listener` until `shutdown` completes. Then the server accepts no more connections,
/// waiting requests are answered at once, and requests in progress have the grace period to complete. The engine keeps
/// running: shut it down afterwards.
///
/// A listener that is not on loopback is refused; call [`check_listen`] before binding.
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
    let (begin_shutdown, watch) = ShutdownWatch::new();
    let router = routes::router(AppState { engine, shutdown: watch, keep_alive: options.keep_alive });
    let listener = listener.tap_io(|connection| {
        // Responses are written whole, so delaying small packets gains nothing.
        let _ = connection.set_nodelay(true);
    });
    let (start_grace, grace_started) = oneshot::channel();
    let shutdown = async move {
        shutdown.await;
        begin_shutdown.send_replace(true);
        let _ = start_grace.send(());
    };
    let grace_over = async move {
        match grace_started.await {
            Ok(()) => tokio::time::sleep(options.grace).await,
            Err(_never_started) => pending().await,
        }
    };
    let serving = axum::serve(listener, router).with_graceful_shutdown(shutdown);
    tokio::select! {
        served = serving.into_future() => served,
        () = grace_over => {
            tracing::warn!("requests were still in progress when the grace period of the shutdown ended");
            Ok(())
        }
    }
}
