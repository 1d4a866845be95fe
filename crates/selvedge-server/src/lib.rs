//! The HTTP API of Selvedge.
//!
//! `routes` has one file of handlers per resource; `wire` has the shapes of requests and responses. A handler reads its
//! request with `wire::fields` and `wire::query`, calls the engine through the namespace of its `Caller`, and writes
//! its response with `wire::json` and `wire::views`. Every error becomes a `Problem`. The server contains no rules and
//! does not depend on a store.

#![warn(missing_docs)]

mod auth;
mod compression;
mod connections;
mod openapi;
mod pages;
mod routes;
mod shutdown;
mod sse;
mod wire;

pub use auth::{AddressBlock, AdminKey, AuthOptions, NotLoopback, check_listen};
pub use connections::ConnectionLimits;
pub use routes::Route;
pub use selvedge_core::{Permission, Role};

use auth::Auth;
use axum::Router;
use selvedge_engine::Engine;
use shutdown::ShutdownWatch;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::time::timeout;
use wire::body::BodyRoom;

/// The version that responses and pages show.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Options of a server.
#[derive(Clone, Debug)]
pub struct Options {
    /// Longest time that a shutdown waits for requests in progress. Default: 10 s.
    pub grace: Duration,
    /// Interval of keep-alive comments on a silent event stream. Default: 15 s.
    pub keep_alive: Duration,
    /// The limits of connections.
    pub connections: ConnectionLimits,
    /// The maximum size of all request bodies that are being read or handled, in bytes. Default: 256 MiB.
    pub body_bytes: usize,
    /// Authentication. Default: without keys.
    pub auth: AuthOptions,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            grace: Duration::from_secs(10),
            keep_alive: Duration::from_secs(15),
            connections: ConnectionLimits::default(),
            body_bytes: 256 * 1024 * 1024,
            auth: AuthOptions::default(),
        }
    }
}

/// The state that all handlers share.
#[derive(Clone)]
struct AppState {
    engine: Engine,
    shutdown: ShutdownWatch,
    keep_alive: Duration,
    bodies: BodyRoom,
    auth: Arc<Auth>,
}

impl AppState {
    fn new(engine: Engine, shutdown: ShutdownWatch, options: &Options) -> AppState {
        let bodies = BodyRoom::new(options.body_bytes);
        let auth = Arc::new(Auth::new(options.auth.clone()));
        AppState { engine, shutdown, keep_alive: options.keep_alive, bodies, auth }
    }
}

/// Returns the API of `engine` as a [`Router`], for callers that run their own HTTP server.
pub fn router(engine: Engine) -> Router {
    routes::router(AppState::new(engine, ShutdownWatch::never(), &Options::default()))
}

/// Returns every route of the API with the permission that it needs.
pub fn route_table() -> Vec<Route> {
    routes::all_routes().table().to_vec()
}

/// Returns the description of the API, an OpenAPI 3.1 document, as JSON. The server has it at `/openapi.json`.
pub fn openapi() -> String {
    serde_json::to_string(&openapi::document()).expect("the document serialises")
}

/// Serves the API of `engine` on `listener` until `shutdown` completes. Then the server accepts no more connections,
/// waiting requests are answered at once, and requests in progress have the grace period to complete. The engine keeps
/// running: shut it down afterwards.
///
/// A listener that is not on loopback is refused without keys; call [`check_listen`] before binding.
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
    if !options.auth.is_on() {
        check_listen(listener.local_addr()?).map_err(io::Error::other)?;
    }
    let (begin_shutdown, watch) = ShutdownWatch::new();
    let router = routes::router(AppState::new(engine, watch.clone(), &options));
    let mut serving = pin!(connections::serve(listener, router, options.connections, watch));
    tokio::select! {
        () = &mut serving => return Ok(()),
        () = shutdown => {}
    }
    begin_shutdown.send_replace(true);
    if timeout(options.grace, serving).await.is_err() {
        tracing::warn!("requests were still in progress when the grace period of the shutdown ended");
    }
    Ok(())
}
