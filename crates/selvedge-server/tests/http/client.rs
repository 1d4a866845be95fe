//! A server of its own for every test, and a small client for it.

use crate::live::Live;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{HeaderMap, Request, Response};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
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

/// Longer than anything here takes; a test that waits this long has failed.
const PATIENCE: Duration = Duration::from_secs(30);

pub struct Server {
    pub engine: Engine,
    pub address: SocketAddr,
    client: Client<HttpConnector, Full<Bytes>>,
    shutdown: Option<oneshot::Sender<()>>,
    serving: Option<JoinHandle<std::io::Result<()>>>,
}

#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Server {
    pub async fn start() -> Server {
        Self::start_with(Options { reconcilers: false, ..Options::default() }, Clock::system()).await
    }

    pub async fn start_with(options: Options, clock: Clock) -> Server {
        Self::start_serving(options, clock, selvedge_server::Options::default()).await
    }

    pub async fn start_serving(options: Options, clock: Clock, serving: selvedge_server::Options) -> Server {
        let engine = Engine::start(Arc::new(MemoryStore::with_clock(clock)), options).await;
        let engine = engine.expect("the engine starts");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        selvedge_server::check_listen(address).expect("loopback");
        let (shutdown, asked) = oneshot::channel::<()>();
        let asked = async move { drop(asked.await) };
        let serving = selvedge_server::serve_with(serving, engine.clone(), listener, asked);
        let serving = tokio::spawn(serving);
        Server {
            engine,
            address,
            client: Client::builder(TokioExecutor::new()).build_http(),
            shutdown: Some(shutdown),
            serving: Some(serving),
        }
    }

    async fn answer(
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
        let request = request.body(Full::new(Bytes::from(body))).expect("a request");
        within(self.client.request(request)).await.expect("an answer")
    }

    /// Opens a live answer.
    pub async fn live(&self, path: &str, headers: &[(&str, &str)]) -> Live {
        let headers = [&[("accept", "text/event-stream")], headers].concat();
        let response = self.answer("GET", path, &headers, Vec::new()).await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Live::new(response.into_body())
    }

    pub async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Vec<u8>) -> Reply {
        let response = self.answer(method, path, headers, body).await;
        let (parts, body) = response.into_parts();
        let body = within(body.collect()).await.expect("its body").to_bytes();
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

    pub async fn delete(&self, path: &str) -> Reply {
        self.send("DELETE", path, &[], Vec::new()).await
    }

    /// Configures a lane, a quota or a budget, which must be allowed, and gives the answer.
    pub async fn configure(&self, path: &str, body: Value) -> Value {
        let reply = self.put(&format!("/v1/{path}"), body).await;
        assert!(matches!(reply.status, 200 | 201), "{}", reply.text());
        reply.json()
    }

    /// What a path shows, which must be there.
    pub async fn shown(&self, path: &str) -> Value {
        let reply = self.get(&format!("/v1/{path}")).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json()
    }

    /// Waits until an execution is in a state, and gives it.
    pub async fn until_state(&self, id: &str, state: &str) -> Value {
        within(async {
            loop {
                let shown = self.execution(id).await;
                if shown["state"] == state {
                    return shown;
                }
                tokio::task::yield_now().await;
            }
        })
        .await
    }

    /// Submits one that must be new, and gives its id.
    pub async fn submit(&self, body: Value) -> String {
        let reply = self.post("/v1/executions", body).await;
        assert_eq!(reply.status, 201, "{}", reply.text());
        text_of(&reply.json()["execution"]["id"])
    }

    /// Submits a flow that must be new, and gives the answer.
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

    /// Waits until a flow has ended, and gives its result.
    pub async fn flow_result(&self, id: &str) -> Value {
        let reply = self.get(&format!("/v1/flows/{id}/result?wait_ms=20000")).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json()
    }

    /// Waits for one execution of lane `default` and claims it.
    pub async fn claim_one(&self, instance: &str) -> Value {
        let body = json!({ "worker": "w", "lanes": ["default"], "max": 1, "wait_ms": 20_000 });
        let reply = self.post(&format!("/v1/workers/{instance}/claim"), body).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        let claim = reply.json()["claims"][0].clone();
        assert!(claim.is_object(), "nothing to claim");
        claim
    }

    /// Completes a claim.
    pub async fn complete(&self, instance: &str, claim: &Value, result: Value) {
        let mut done = op("complete", claim);
        done["result"] = result;
        assert_eq!(self.report(instance, done).await["state"], "completed");
    }

    /// Suspends a claim, which must be allowed, and gives the answer.
    pub async fn suspend(&self, instance: &str, claim: &Value, more: Value) -> Value {
        let suspended = self.report(instance, op_with("suspend", claim, more)).await;
        assert_eq!(suspended["ok"], true, "{suspended}");
        suspended
    }

    /// Sends a signal, which must be taken, and gives the answer.
    pub async fn signal(&self, execution: &str, body: Value) -> Value {
        let reply = self.post(&format!("/v1/executions/{execution}/signals"), body).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json()
    }

    /// The items of a list of an execution.
    pub async fn listed(&self, execution: &str, list: &str) -> Vec<Value> {
        let reply = self.get(&format!("/v1/executions/{execution}/{list}")).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json()["items"].as_array().expect("items").clone()
    }

    /// Fails a claim for good.
    pub async fn fail(&self, instance: &str, claim: &Value, message: &str) {
        let mut failed = op("fail", claim);
        (failed["message"], failed["class"]) = (json!(message), json!("permanent"));
        assert_eq!(self.report(instance, failed).await["state"], "failed");
    }

    pub async fn execution(&self, id: &str) -> Value {
        let reply = self.get(&format!("/v1/executions/{id}")).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json()
    }

    /// Claims up to `max` from lane `default` at once.
    pub async fn claim(&self, instance: &str, max: u32) -> Vec<Value> {
        let body = json!({ "worker": "w", "lanes": ["default"], "max": max });
        let reply = self.post(&format!("/v1/workers/{instance}/claim"), body).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json()["claims"].as_array().expect("claims").clone()
    }

    /// Reports one op and gives its result.
    pub async fn report(&self, instance: &str, op: Value) -> Value {
        let path = format!("/v1/workers/{instance}/report");
        let reply = self.post(&path, json!({ "ops": [op] })).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json()["results"][0].clone()
    }

    /// Waits until this many claims wait in the engine.
    pub async fn until_claims_wait(&self, count: usize) {
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
        let serving = self.serving.take().expect("it runs");
        within(serving).await.expect("no panic").expect("no error");
    }
}

pub async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("in time")
}

pub fn text_of(value: &Value) -> String {
    value.as_str().expect("text").to_owned()
}

/// The fence of a claim, with an op.
pub fn op(name: &str, claim: &Value) -> Value {
    let mut op = fence(claim);
    op["op"] = json!(name);
    op
}

/// The same, with further fields.
pub fn op_with(name: &str, claim: &Value, more: Value) -> Value {
    let mut op = op(name, claim);
    for (field, value) in more.as_object().expect("an object") {
        op[field] = value.clone();
    }
    op
}

/// The fence of a claim.
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

    /// Asserts that this is a well-formed problem, and gives its code and pointer.
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
