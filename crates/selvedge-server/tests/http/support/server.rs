//! A server with an engine, in memory unless a test gives another store, and a client of its API.

use super::{EventStream, contract};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{HeaderMap, Request, Response};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use selvedge_engine::store::Store;
use selvedge_engine::{Engine, Options};
use selvedge_memory::{Clock, MemoryStore};
use serde_json::{Value, json};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The longest time that a test waits; nothing here takes as long.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A running server and a client of it.
pub struct Server {
    pub engine: Engine,
    pub address: SocketAddr,
    client: Client<HttpConnector, Full<Bytes>>,
    shutdown: Option<oneshot::Sender<()>>,
    serving: Option<JoinHandle<std::io::Result<()>>>,
}

/// A response, read to its end.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Server {
    /// Starts a server with the system clock and without reconcilers.
    pub async fn start() -> Server {
        Self::start_with(Options { reconcilers: false, ..Options::default() }, Clock::system()).await
    }

    pub async fn start_with(options: Options, clock: Clock) -> Server {
        Self::start_serving(options, clock, selvedge_server::Options::default()).await
    }

    pub async fn start_serving(options: Options, clock: Clock, serving: selvedge_server::Options) -> Server {
        Self::start_on(Arc::new(MemoryStore::with_clock(clock)), options, serving).await
    }

    /// Starts a server on a store.
    pub async fn start_on(
        store: Arc<dyn Store>,
        options: Options,
        serving: selvedge_server::Options,
    ) -> Server {
        let engine = Engine::start(store, options).await;
        let engine = engine.expect("the engine starts");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port is bound");
        let address = listener.local_addr().expect("the listener has an address");
        selvedge_server::check_listen(address).expect("the address is loopback");
        let (shutdown, shutdown_begun) = oneshot::channel::<()>();
        let shutdown_begun = async move { drop(shutdown_begun.await) };
        let serving = selvedge_server::serve_with(serving, engine.clone(), listener, shutdown_begun);
        let serving = tokio::spawn(serving);
        Server {
            engine,
            address,
            client: Client::builder(TokioExecutor::new()).build_http(),
            shutdown: Some(shutdown),
            serving: Some(serving),
        }
    }

    async fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Response<Incoming> {
        let mut request = Request::builder().method(method).uri(format!("http://{}{path}", self.address));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::from(body))).expect("the request is valid");
        within(self.client.request(request)).await.expect("the server responds")
    }

    /// Opens an event stream.
    pub async fn open_stream(&self, path: &str, headers: &[(&str, &str)]) -> EventStream {
        let headers = [&[("accept", "text/event-stream")], headers].concat();
        let response = self.request("GET", path, &headers, Vec::new()).await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        EventStream::new(response.into_body())
    }

    /// Sends a request, and checks it and its answer against the OpenAPI document.
    pub async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Vec<u8>) -> Reply {
        let reply = self.send_raw(method, path, headers, body.clone()).await;
        contract::check(method, path, &body, &reply);
        reply
    }

    /// Sends a request.
    pub async fn send_raw(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Vec<u8>) -> Reply {
        let response = self.request(method, path, headers, body).await;
        let (parts, body) = response.into_parts();
        let body = within(body.collect()).await.expect("the body is read").to_bytes();
        Reply { status: parts.status.as_u16(), headers: parts.headers, body: body.to_vec() }
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], Vec::new()).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Reply {
        self.post_text(path, &body.to_string()).await
    }

    pub async fn post_text(&self, path: &str, body: &str) -> Reply {
        self.send("POST", path, &[("content-type", "application/json")], body.into()).await
    }

    pub async fn put(&self, path: &str, body: Value) -> Reply {
        let json = [("content-type", "application/json")];
        self.send("PUT", path, &json, body.to_string().into()).await
    }

    pub async fn patch(&self, path: &str, body: Value) -> Reply {
        let json = [("content-type", "application/merge-patch+json")];
        self.send("PATCH", path, &json, body.to_string().into()).await
    }

    pub async fn delete(&self, path: &str) -> Reply {
        self.send("DELETE", path, &[], Vec::new()).await
    }

    /// Configures a lane, a quota or a budget successfully. Returns the response.
    pub async fn configure(&self, path: &str, body: Value) -> Value {
        let reply = self.put(&format!("/v1/{path}"), body).await;
        assert!(matches!(reply.status, 200 | 201), "{}", reply.text());
        reply.json()
    }

    /// Reads a path under `/v1/` successfully.
    pub async fn read(&self, path: &str) -> Value {
        let reply = self.get(&format!("/v1/{path}")).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json()
    }

    /// Waits until an execution has the given state. Returns the execution.
    pub async fn wait_for_state(&self, id: &str, state: &str) -> Value {
        within(async {
            loop {
                let execution = self.execution(id).await;
                if execution["state"] == state {
                    return execution;
                }
                tokio::task::yield_now().await;
            }
        })
        .await
    }

    /// Submits a new execution. Returns its id.
    pub async fn submit(&self, body: Value) -> String {
        let reply = self.post("/v1/executions", body).await;
        assert_eq!(reply.status, 201, "{}", reply.text());
        text_of(&reply.json()["execution"]["id"])
    }

    /// Submits an execution and claims it. Returns its id and the claim.
    pub async fn submit_and_claim(&self) -> (String, Value) {
        let id = self.submit(json!({ "kind": "k" })).await;
        let claim = self.claim("i", 1).await.remove(0);
        assert_eq!(claim["execution"]["id"], json!(id));
        (id, claim)
    }

    /// Submits a new flow. Returns the response.
    pub async fn submit_flow(&self, body: Value) -> Value {
        let reply = self.post("/v1/flows", body).await;
        assert_eq!(reply.status, 201, "{}", reply.text());
        reply.json()
    }

    pub async fn flow(&self, id: &str) -> Value {
        let reply = self.get(&format!("/v1/flows/{id}")).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json()
    }

    /// Waits until a flow has ended. Returns its result.
    pub async fn flow_result(&self, id: &str) -> Value {
        let reply = self.get(&format!("/v1/flows/{id}/result?wait_ms=20000")).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json()
    }

    /// Waits for an execution of lane `default` and claims it.
    pub async fn claim_one(&self, instance: &str) -> Value {
        let body = json!({ "worker": "w", "lanes": ["default"], "max": 1, "wait_ms": 20_000 });
        let reply = self.post(&format!("/v1/workers/{instance}/claim"), body).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        let claim = reply.json()["claims"][0].clone();
        assert!(claim.is_object(), "no execution became claimable");
        claim
    }

    /// Completes a claimed execution.
    pub async fn complete(&self, instance: &str, claim: &Value, result: Value) {
        let mut complete = op("complete", claim);
        complete["result"] = result;
        assert_eq!(self.report(instance, complete).await["state"], "completed");
    }

    /// Suspends a claimed execution successfully. Returns the result of the report.
    pub async fn suspend(&self, instance: &str, claim: &Value, fields: Value) -> Value {
        let suspended = self.report(instance, op_with("suspend", claim, fields)).await;
        assert_eq!(suspended["ok"], true, "{suspended}");
        suspended
    }

    /// Sends a signal successfully. Returns the response.
    pub async fn signal(&self, execution: &str, body: Value) -> Value {
        let reply = self.post(&format!("/v1/executions/{execution}/signals"), body).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json()
    }

    /// Returns the items of one of the lists of an execution.
    pub async fn list_of(&self, execution: &str, list: &str) -> Vec<Value> {
        let reply = self.get(&format!("/v1/executions/{execution}/{list}")).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json()["items"].as_array().expect("items is an array").clone()
    }

    /// Fails a claimed execution permanently.
    pub async fn fail(&self, instance: &str, claim: &Value, message: &str) {
        let mut fail = op("fail", claim);
        (fail["message"], fail["class"]) = (json!(message), json!("permanent"));
        assert_eq!(self.report(instance, fail).await["state"], "failed");
    }

    pub async fn execution(&self, id: &str) -> Value {
        let reply = self.get(&format!("/v1/executions/{id}")).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json()
    }

    /// Claims up to `max` executions of lane `default` without waiting.
    pub async fn claim(&self, instance: &str, max: u32) -> Vec<Value> {
        let body = json!({ "worker": "w", "lanes": ["default"], "max": max });
        let reply = self.post(&format!("/v1/workers/{instance}/claim"), body).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json()["claims"].as_array().expect("claims is an array").clone()
    }

    /// Reports one operation. Returns its result.
    pub async fn report(&self, instance: &str, op: Value) -> Value {
        let path = format!("/v1/workers/{instance}/report");
        let reply = self.post(&path, json!({ "ops": [op] })).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json()["results"][0].clone()
    }

    /// Waits until exactly `count` claims wait in the engine.
    pub async fn wait_for_claims(&self, count: usize) {
        within(async {
            while self.engine.activity().1 != count {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    /// Shuts the server down and waits until it has stopped.
    pub async fn stop(&mut self) {
        drop(self.shutdown.take());
        let serving = self.serving.take().expect("the server runs");
        within(serving).await.expect("the server does not panic").expect("the server does not fail");
    }
}

/// Awaits `future`, and panics if it takes longer than [`TIMEOUT`].
pub async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(TIMEOUT, future).await.expect("the test does not time out")
}

/// Returns a JSON string as text.
pub fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is not a string")).to_owned()
}

/// Returns an operation on a claim: its name and the claim's fence.
pub fn op(name: &str, claim: &Value) -> Value {
    let mut op = fence(claim);
    op["op"] = json!(name);
    op
}

/// Returns an operation on a claim with further fields.
pub fn op_with(name: &str, claim: &Value, fields: Value) -> Value {
    let mut op = op(name, claim);
    for (field, value) in fields.as_object().expect("a JSON object") {
        op[field] = value.clone();
    }
    op
}

/// Returns the fence of a claim.
pub fn fence(claim: &Value) -> Value {
    json!({
        "execution": claim["execution"]["id"], "attempt": claim["attempt"],
        "lease_id": claim["lease"]["id"], "epoch": claim["lease"]["epoch"],
    })
}

impl Reply {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value.and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// Asserts that the response is a well-formed problem. Returns its status, code and pointer.
    pub fn problem(&self) -> (u16, String, String) {
        assert_eq!(self.header("content-type"), "application/problem+json", "{}", self.text());
        let problem = self.json();
        check_problem(&problem);
        assert_eq!(problem["status"], self.status);
        let pointer = problem["pointer"].as_str().unwrap_or_default().to_owned();
        (self.status, text_of(&problem["code"]), pointer)
    }
}

/// Asserts that a value has the shape of a problem.
pub fn check_problem(problem: &Value) {
    let code = text_of(&problem["code"]);
    assert_eq!(problem["type"], format!("/docs/problems#{code}"), "{problem}");
    assert!(!text_of(&problem["title"]).is_empty());
    assert!(!text_of(&problem["detail"]).is_empty());
    assert!(problem["status"].as_u64().is_some_and(|status| status >= 400));
}
