//! The HTTP API of Selvedge.
//!
//! `routes` has one file of handlers per resource; `wire` has the shapes of requests and responses. A handler reads its
//! request with `selvedge_api::fields` and `wire::query`, calls the engine through the namespace of its `Caller`, and writes
//! its response with `wire::json` and `wire::views`. Every error becomes a `Problem`. The server contains no rules and
//! does not depend on a store.

mod auth;
mod chaos;
mod compression;
mod configuration;
mod connections;
mod http_metrics;
mod openapi;
mod pages;
mod request_id;
mod routes;
mod sending;
mod shutdown;
mod sse;
mod tls;
mod webhooks;
mod wire;

pub use auth::{AddressBlock, AdminKey, AuthOptions, NotLoopback, check_listen};
pub use chaos::Chaos;
pub use configuration::Setting;
pub use connections::ConnectionLimits;
pub use http_metrics::HttpMetrics;
pub use routes::Route;
pub use selvedge_core::rules::webhook::RetryPolicy;
pub use selvedge_core::{Permission, Role};
pub use shutdown::Draining;
pub use tls::{Tls, TlsError, TlsFiles};
pub use webhooks::{Resolve, Resolved, WebhookMetrics, WebhookOptions};

use auth::Auth;
use axum::Router;
use selvedge_engine::Engine;
use sending::ResponseRoom;
use shutdown::ShutdownWatch;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
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
    pub connections: ConnectionLimits,
    /// The maximum size of all request bodies that are being read or handled, in bytes. Default: 256 MiB.
    pub body_bytes: usize,
    /// The maximum size of all responses that are being sent, in bytes; one connection gets a quarter of it. Default: 256 MiB.
    pub response_bytes: usize,
    /// Authentication. Default: without keys.
    pub auth: AuthOptions,
    /// The longest time between two parts of a request body. Default: 10 s.
    pub body_part_time: Duration,
    /// The longest time for a whole request body. Default: 60 s.
    pub body_time: Duration,
    /// The certificate with which the server speaks TLS. Default: none, so the server speaks plain HTTP.
    pub tls: Option<Tls>,
    /// Interval at which the files of the certificate are checked for changes. Default: 10 s.
    pub tls_reload: Duration,
    /// The counters of requests. Listeners that are given clones of one publish the same. Default: counters of their own.
    pub metrics: HttpMetrics,
    /// The readiness. Listeners that are given clones of one are not ready as soon as one of them shuts down. Default:
    /// readiness of their own.
    pub draining: Draining,
    /// The delivery of webhooks.
    pub webhooks: WebhookOptions,
    /// Faults on purpose, for tests of workers and clients. Default: none.
    pub chaos: Chaos,
    /// The settings of the program, which administrators see on the page of settings. Default: none.
    pub configuration: Vec<Setting>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            grace: Duration::from_secs(10),
            keep_alive: Duration::from_secs(15),
            connections: ConnectionLimits::default(),
            body_bytes: 256 * 1024 * 1024,
            response_bytes: 256 * 1024 * 1024,
            auth: AuthOptions::default(),
            body_part_time: Duration::from_secs(10),
            body_time: Duration::from_secs(60),
            tls: None,
            tls_reload: Duration::from_secs(10),
            metrics: HttpMetrics::default(),
            draining: Draining::default(),
            webhooks: WebhookOptions::default(),
            chaos: Chaos::default(),
            configuration: Vec::new(),
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
    http_metrics: HttpMetrics,
    draining: Draining,
    overviews: pages::SharedOverviews,
    shared: Arc<SharedOptions>,
}

/// The options that handlers read.
struct SharedOptions {
    webhooks: Arc<WebhookOptions>,
    /// True if the server speaks TLS.
    has_tls: bool,
    chaos: Chaos,
    configuration: Vec<Setting>,
    started: Instant,
}

impl AppState {
    fn new(engine: Engine, shutdown: ShutdownWatch, options: &Options) -> AppState {
        let bodies = BodyRoom::new(options);
        let auth = Arc::new(Auth::new(options.auth.clone(), &engine));
        let (http_metrics, draining) = (options.metrics.clone(), options.draining.clone());
        let shared = Arc::new(SharedOptions {
            webhooks: Arc::new(options.webhooks.clone()),
            has_tls: options.tls.is_some(),
            chaos: options.chaos,
            configuration: options.configuration.clone(),
            started: Instant::now(),
        });
        let (keep_alive, overviews) = (options.keep_alive, pages::SharedOverviews::default());
        AppState { engine, shutdown, keep_alive, bodies, auth, http_metrics, draining, overviews, shared }
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
/// running: shut it down afterwards. Meanwhile webhooks are delivered.
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
    let (stop, watch) = ShutdownWatch::new();
    let losing = tokio::spawn(chaos::lose_leases(engine.clone(), options.chaos, watch.clone()));
    let sending = webhooks::run(engine.clone(), options.webhooks.clone(), watch, options.grace);
    let sending = tokio::spawn(sending);
    let stop = Arc::new(stop);
    let shutdown = {
        let stop = stop.clone();
        async move {
            shutdown.await;
            stop.send_replace(true);
        }
    };
    let served = serve_router(options, engine, listener, shutdown, routes::router).await;
    stop.send_replace(true);
    let _ = tokio::join!(sending, losing);
    served
}

/// Serves `/metrics`, `/healthz` and `/readyz` on `listener` until `shutdown` completes. With the [`Options::draining`] of the
/// server, it tells a load balancer of the shutdown while the server no longer accepts connections. Takes no keys, so the listener should
/// be reachable only for those who may know the names of namespaces, lanes, quotas and budgets.
pub async fn serve_metrics(
    options: Options,
    engine: Engine,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let is_loopback = check_listen(listener.local_addr()?).is_ok();
    let router = move |state| routes::metrics_router(state, is_loopback);
    serve_router(options, engine, listener, shutdown, router).await
}

async fn serve_router(
    options: Options,
    engine: Engine,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send + 'static,
    router: impl FnOnce(AppState) -> Router,
) -> io::Result<()> {
    let (begin_shutdown, watch) = ShutdownWatch::new();
    let router = router(AppState::new(engine, watch.clone(), &options));
    let reloading = tls::follow(options.tls.clone(), options.tls_reload, watch.clone());
    let room = ResponseRoom::new(options.response_bytes, options.metrics.sending());
    let serving = connections::serve(listener, options.tls, router, options.connections, room, watch);
    let mut serving = pin!(async { tokio::join!(serving, reloading).0 });
    tokio::select! {
        () = &mut serving => return Ok(()),
        () = shutdown => {}
    }
    options.draining.begin();
    begin_shutdown.send_replace(true);
    if timeout(options.grace, serving).await.is_err() {
        tracing::warn!("requests were still in progress when the grace period of the shutdown ended");
    }
    Ok(())
}
