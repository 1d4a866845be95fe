//! The real server on an open store, on a loopback port of its own, and a small client for it.

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

/// The longest wait for anything here. A test that waits this long has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// A log window that no fixture outgrows, so that reconcilers keep every entry: a hundred years.
const LOG_WINDOW: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// An engine and its server.
pub struct Server {
    /// The engine.
    pub engine: Engine,
    address: SocketAddr,
    client: Client<HttpConnector, Full<Bytes>>,
    shutdown: oneshot::Sender<()>,
    serving: JoinHandle<std::io::Result<()>>,
}

/// The options of an engine that does only what a call asks for: no reconciler runs, and outbox rows stay.
pub fn quiet() -> Options {
    Options { reconcilers: false, dispatch: false, ..running() }
}

/// The options of an engine that runs everything.
pub fn running() -> Options {
    Options { secret: Some(secret()), log_window: LOG_WINDOW, ..Options::default() }
}

/// The root secret of the tokens in the fixtures.
fn secret() -> Secret {
    Secret::new(b"the root secret of every fixture".to_vec()).expect("it is long enough")
}

impl Server {
    /// Starts an engine and a server on a store.
    pub async fn start(store: Arc<dyn Store>, options: Options) -> Server {
        let engine = Engine::start(store, options).await.expect("the engine starts");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("the port has an address");
        let (shutdown, asked) = oneshot::channel::<()>();
        let asked = async move { drop(asked.await) };
        let serving = tokio::spawn(selvedge_server::serve(engine.clone(), listener, asked));
        let client = Client::builder(TokioExecutor::new()).build_http();
        Server { engine, address, client, shutdown, serving }
    }

    /// Stops the server, the engine and the store.
    pub async fn stop(self) {
        drop(self.shutdown);
        drop(self.client);
        self.serving.await.expect("no panic").expect("no error");
        self.engine.shutdown().await;
    }

    /// Makes a call and returns status and JSON body.
    pub async fn call(
        &self,
        method: &str,
        path: &str,
        key: Option<&str>,
        body: Option<Value>,
    ) -> (u16, Value) {
        let mut request = Request::builder().method(method).uri(format!("http://{}{path}", self.address));
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let request = request.header("content-type", "application/json");
        let request = request.body(Full::new(Bytes::from(body))).expect("a request");
        let answered = tokio::time::timeout(PATIENCE, self.client.request(request)).await;
        let (parts, body) = answered.expect("in time").expect("an answer").into_parts();
        let body = body.collect().await.expect("a body").to_bytes();
        let json = serde_json::from_slice(&body)
            .unwrap_or_else(|error| panic!("{method} {path}: {error}: {}", String::from_utf8_lossy(&body)));
        (parts.status.as_u16(), json)
    }

    /// Makes a call that must succeed, and returns the answer.
    pub async fn done(&self, method: &str, path: &str, body: Value) -> Value {
        let (status, answer) = self.call(method, path, None, Some(body.clone())).await;
        assert!((200..300).contains(&status), "{method} {path} {body}: {status} {answer}");
        answer
    }

    /// Reads a path, which must be there.
    pub async fn get(&self, path: &str) -> Value {
        let (status, answer) = self.call("GET", path, None, None).await;
        assert!((200..300).contains(&status), "GET {path}: {status} {answer}");
        answer
    }

    /// Reads an execution.
    pub async fn execution(&self, id: &str) -> Value {
        self.get(&format!("/v1/executions/{id}")).await
    }

    /// Reads an execution until it is in a state.
    pub async fn until_state(&self, id: &str, state: &str) -> Value {
        let mut seen = Value::Null;
        until(&format!("execution {id} is {state}"), async || {
            seen = self.execution(id).await;
            seen["state"] == state
        })
        .await;
        seen
    }

    /// Runs ticks of a reconciler until it has acted on `count` rows: what it waits for is due within milliseconds.
    pub async fn tick(&self, reconciler: &str, count: u64) {
        let mut done = 0;
        until(&format!("{reconciler} acts on {count} rows"), async || {
            done += self.engine.tick(reconciler).await.expect("the tick runs").done;
            done >= count
        })
        .await;
    }
}

/// Looks again until it is so.
pub async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    within(PATIENCE, what, &mut is_so).await;
}

/// Looks again until it is so, for at most this long.
pub async fn within(patience: Duration, what: &str, is_so: &mut impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + patience;
    while !is_so().await {
        assert!(Instant::now() < deadline, "in vain: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
