//! A server on an open store, and a client of its API.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use selvedge_core::token::Secret;
use selvedge_engine::store::Store;
use selvedge_engine::{Engine, Options};
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The longest time that a test waits; nothing here takes as long.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A log window of a hundred years, so that reconcilers keep every event of a fixture.
const LOG_WINDOW: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// An engine and its server.
pub struct Server {
    /// The engine on the store.
    pub engine: Engine,
    address: SocketAddr,
    client: Client<HttpConnector, Full<Bytes>>,
    shutdown: oneshot::Sender<()>,
    serving: JoinHandle<std::io::Result<()>>,
}

/// Returns the options of an engine without reconcilers and without dispatch, so that outbox rows stay.
pub fn passive_options() -> Options {
    Options { reconcilers: false, dispatch: false, ..full_options() }
}

/// Returns the options of an engine with all reconcilers and dispatch.
pub fn full_options() -> Options {
    Options { secret: Some(secret()), log_window: LOG_WINDOW, ..Options::default() }
}

/// Returns the root secret of the tokens in the fixtures.
fn secret() -> Secret {
    Secret::new(b"the root secret of every fixture".to_vec()).expect("the secret is long enough")
}

impl Server {
    /// Starts an engine and a server on a store.
    pub async fn start(store: Arc<dyn Store>, options: Options) -> Server {
        Self::start_with(store, options, selvedge_server::Options::default()).await
    }

    /// Starts an engine and a server with these options on a store.
    pub async fn start_with(
        store: Arc<dyn Store>,
        options: Options,
        serving: selvedge_server::Options,
    ) -> Server {
        let engine = Engine::start(store, options).await.expect("the engine starts");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port is bound");
        let address = listener.local_addr().expect("the listener has an address");
        let (shutdown, shutdown_begun) = oneshot::channel::<()>();
        let shutdown_begun = async move { drop(shutdown_begun.await) };
        let serving = selvedge_server::serve_with(serving, engine.clone(), listener, shutdown_begun);
        let serving = tokio::spawn(serving);
        let client = Client::builder(TokioExecutor::new()).build_http();
        Server { engine, address, client, shutdown, serving }
    }

    /// Stops the server, the engine and the store.
    pub async fn stop(self) {
        drop(self.shutdown);
        drop(self.client);
        self.serving.await.expect("the server does not panic").expect("the server does not fail");
        self.engine.shutdown().await;
    }

    /// Makes a request, optionally with an idempotency key. Returns status and JSON body.
    pub async fn call(
        &self,
        method: &str,
        path: &str,
        key: Option<&str>,
        body: Option<Value>,
    ) -> (u16, Value) {
        let key = key.map(|key| ("idempotency-key", key));
        self.call_with(method, path, key.as_slice(), body).await
    }

    /// Makes a request with headers. Returns status and JSON body.
    pub async fn call_with(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Value>,
    ) -> (u16, Value) {
        let mut request = Request::builder().method(method).uri(format!("http://{}{path}", self.address));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let request = request.header("content-type", "application/json");
        let request = request.body(Full::new(Bytes::from(body))).expect("the request is valid");
        let response = tokio::time::timeout(TIMEOUT, self.client.request(request)).await;
        let response = response.expect("the request does not time out").expect("the server responds");
        let (parts, body) = response.into_parts();
        let body = body.collect().await.expect("the body is read").to_bytes();
        let json = serde_json::from_slice(&body)
            .unwrap_or_else(|error| panic!("{method} {path}: {error}: {}", String::from_utf8_lossy(&body)));
        (parts.status.as_u16(), json)
    }

    /// Makes a request successfully. Returns the response.
    pub async fn call_ok(&self, method: &str, path: &str, body: Value) -> Value {
        let (status, response) = self.call(method, path, None, Some(body.clone())).await;
        assert!((200..300).contains(&status), "{method} {path} {body}: {status} {response}");
        response
    }

    /// Reads a path successfully.
    pub async fn get(&self, path: &str) -> Value {
        let (status, response) = self.call("GET", path, None, None).await;
        assert!((200..300).contains(&status), "GET {path}: {status} {response}");
        response
    }

    /// Reads an execution.
    pub async fn execution(&self, id: &str) -> Value {
        self.get(&format!("/v1/executions/{id}")).await
    }

    /// Waits until an execution has the given state. Returns the execution.
    pub async fn wait_for_state(&self, id: &str, state: &str) -> Value {
        let mut execution = Value::Null;
        wait_until(&format!("execution {id} is {state}"), async || {
            execution = self.execution(id).await;
            execution["state"] == state
        })
        .await;
        execution
    }

    /// Ticks a reconciler until it has processed `count` rows, which become due within milliseconds.
    pub async fn tick(&self, reconciler: &str, count: u64) {
        let mut done = 0;
        wait_until(&format!("{reconciler} processes {count} rows"), async || {
            done += self.engine.tick(reconciler).await.expect("the tick succeeds").done;
            done >= count
        })
        .await;
    }
}

/// Polls `condition` until it is true. `description` says what is waited for.
pub async fn wait_until(description: &str, mut condition: impl AsyncFnMut() -> bool) {
    wait_until_within(TIMEOUT, description, &mut condition).await;
}

/// Polls `condition` until it is true, for at most `timeout`.
pub async fn wait_until_within(
    timeout: Duration,
    description: &str,
    condition: &mut impl AsyncFnMut() -> bool,
) {
    let deadline = Instant::now() + timeout;
    while !condition().await {
        assert!(Instant::now() < deadline, "timed out waiting until {description}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
