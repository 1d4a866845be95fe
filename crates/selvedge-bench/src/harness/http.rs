//! The HTTP transport: a server in this process on a loopback port, and a plain client with keep-alive connections.

use super::graphs::mark;
use super::workload::{ReportedUsage, Requirements};
use super::{ActiveExecution, BenchWorker};
use crate::Error;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::header::HeaderValue;
use hyper_util::client::legacy::{Client as Hyper, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use selvedge_core::join::JoinPolicy;
use selvedge_core::plan::{EdgeDraft, GraphDraft, GroupDraft};
use selvedge_core::rules::report::Fence;
use selvedge_core::{ExecutionId, FlowId, LeaseId, Name, Role};
use selvedge_engine::{ApiKeyDraft, Engine};
use selvedge_server::AuthOptions;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::fmt::Write;
use std::time::Duration;
use uuid::Uuid;

/// A client of the benchmark's server.
#[derive(Clone)]
pub struct Client {
    base: String,
    client: Hyper<HttpConnector, Full<Bytes>>,
    keys: Option<Keys>,
}

/// The `Authorization` headers of a server that demands keys.
#[derive(Clone)]
struct Keys {
    submitter: HeaderValue,
    worker: HeaderValue,
}

impl Keys {
    /// Creates a key for submitters and one for workers.
    async fn create(engine: &Engine) -> Result<Keys, Error> {
        let namespace = engine.namespace("default").await?;
        let create = async |role: Role| {
            let draft = ApiKeyDraft {
                name: format!("bench {}", role.as_str()),
                role,
                namespaces: vec!["default".into()],
                expires_at: None,
            };
            let created = namespace.keyed(None).create_api_key(draft, &Name::trusted("bench")).await?;
            let (_, text) = created.done;
            let header =
                text.and_then(|text| HeaderValue::try_from(format!("Bearer {}", text.reveal())).ok());
            header.ok_or_else(|| Error::Http("a key was not created".into()))
        };
        Ok(Keys { submitter: create(Role::Submitter).await?, worker: create(Role::Worker).await? })
    }
}

#[derive(Deserialize)]
struct SubmitAnswer<'a> {
    #[serde(borrow)]
    results: Vec<Answer<'a>>,
}

#[derive(Deserialize)]
struct ReportAnswer<'a> {
    #[serde(borrow)]
    results: Vec<Answer<'a>>,
    #[serde(borrow, default)]
    claims: Vec<Claim<'a>>,
}

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Claim<'a> {
    #[serde(borrow)]
    execution: Execution<'a>,
    attempt: u32,
    lease: Lease,
}

#[derive(Deserialize)]
struct Execution<'a> {
    id: Uuid,
    #[serde(borrow)]
    input: &'a RawValue,
}

#[derive(Deserialize)]
struct Lease {
    id: Uuid,
    epoch: u32,
}

impl Client {
    /// Serves the engine on a loopback port and returns a client of that server. `with_keys` lets the server demand keys.
    pub async fn serve(engine: Engine, with_keys: bool) -> Result<Client, Error> {
        let keys = match with_keys {
            true => Some(Keys::create(&engine).await?),
            false => None,
        };
        let auth = AuthOptions { keys_required: with_keys, ..AuthOptions::default() };
        let options = selvedge_server::Options { auth, ..selvedge_server::Options::default() };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let base = format!("http://{}", listener.local_addr()?);
        let never = std::future::pending::<()>();
        tokio::spawn(selvedge_server::serve_with(options, engine, listener, never));
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Ok(Client { base, client: Hyper::builder(TokioExecutor::new()).build(connector), keys })
    }

    async fn post(&self, path: &str, key: Option<&HeaderValue>, body: String) -> Result<Bytes, Error> {
        let failed = |error: &dyn std::fmt::Display| Error::Http(format!("POST {path}: {error}"));
        let mut request =
            Request::post(format!("{}{path}", self.base)).header("content-type", "application/json");
        if let Some(key) = key {
            request = request.header("authorization", key);
        }
        let request = request.body(Full::new(Bytes::from(body))).map_err(|error| failed(&error))?;
        let response = self.client.request(request).await.map_err(|error| failed(&error))?;
        let status = response.status();
        let body = response.into_body().collect().await.map_err(|error| failed(&error))?.to_bytes();
        match status.is_success() {
            true => Ok(body),
            false => Err(Error::Http(format!("POST {path}: {status}: {}", String::from_utf8_lossy(&body)))),
        }
    }

    fn submitter(&self) -> Option<&HeaderValue> {
        self.keys.as_ref().map(|keys| &keys.submitter)
    }

    /// Submits `count` executions with this input, which have these requirements in turn.
    pub async fn submit(
        &self,
        count: usize,
        requirements: &[Requirements],
        input: &str,
    ) -> Result<(), Error> {
        let item = |requirements: &Requirements| -> Result<String, Error> {
            let mut fields = requirements.fields();
            fields["kind"] = json!("noop");
            fields["input"] = parse(input.as_bytes())?;
            Ok(fields.to_string())
        };
        let items = requirements.iter().map(item).collect::<Result<Vec<String>, Error>>()?;
        let items: Vec<&str> = items.iter().map(String::as_str).cycle().take(count).collect();
        let body = format!("{{\"executions\":[{}]}}", items.join(","));
        let answer = self.post("/v1/executions/batch", self.submitter(), body).await?;
        let submitted: SubmitAnswer<'_> = parse(&answer)?;
        check_accepted(&submitted.results)
    }

    pub async fn submit_flow(&self, graph: &GraphDraft) -> Result<FlowId, Error> {
        #[derive(Deserialize)]
        struct Accepted {
            flow: Flow,
        }
        #[derive(Deserialize)]
        struct Flow {
            id: Uuid,
        }
        let answer = self.post("/v1/flows", self.submitter(), flow_body(graph)?.to_string()).await?;
        Ok(FlowId(parse::<Accepted>(&answer)?.flow.id))
    }

    /// Completes executions and claims more in one round trip.
    pub async fn work(
        &self,
        active: &[ActiveExecution],
        worker: &BenchWorker,
    ) -> Result<Vec<ActiveExecution>, Error> {
        // A call with completions does not wait for work, so that its answer confirms the completions at once.
        let wait = if active.is_empty() { worker.wait } else { Duration::ZERO };
        let claim = json!({
            "worker": "bench",
            "lanes": worker.lanes,
            "capabilities": worker.capabilities,
            "max": worker.max,
            "wait_ms": wait.as_millis() as u64,
            "lease_ttl_ms": 60_000,
        });
        self.report(active, worker, Some(claim)).await
    }

    pub async fn complete(&self, active: &[ActiveExecution], worker: &BenchWorker) -> Result<(), Error> {
        self.report(active, worker, None).await.map(drop)
    }

    async fn report(
        &self,
        active: &[ActiveExecution],
        worker: &BenchWorker,
        claim: Option<Value>,
    ) -> Result<Vec<ActiveExecution>, Error> {
        let failed = |error: std::fmt::Error| Error::Http(error.to_string());
        let mut body = String::from("{\"ops\":[");
        for (index, active) in active.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            let Fence { execution, attempt, lease_id, epoch } = active.fence;
            let fence = format!(
                "\"execution\":\"{execution}\",\"attempt\":{attempt},\"lease_id\":\"{lease_id}\",\"epoch\":{epoch}"
            );
            body.push_str(comma);
            if let Some(ReportedUsage { budget, amounts }) = &worker.usage {
                let usage = json!({"budget": budget, "usage": amounts}).to_string();
                let usage = usage.trim_start_matches('{');
                write!(body, "{{\"op\":\"usage\",{fence},{usage},").map_err(failed)?;
            }
            write!(body, "{{\"op\":\"complete\",{fence},\"result\":{{\"ok\":true}}}}").map_err(failed)?;
        }
        body.push(']');
        if let Some(claim) = claim {
            write!(body, ",\"claim\":{claim}").map_err(failed)?;
        }
        body.push('}');
        let key = self.keys.as_ref().map(|keys| &keys.worker);
        let answer = self.post(&format!("/v1/workers/{}/report", worker.instance), key, body).await?;
        let answer: ReportAnswer<'_> = parse(&answer)?;
        check_accepted(&answer.results)?;
        let claimed = answer.claims.iter().map(|claim| ActiveExecution {
            fence: Fence {
                execution: ExecutionId(claim.execution.id),
                attempt: claim.attempt,
                lease_id: LeaseId(claim.lease.id),
                epoch: claim.lease.epoch,
            },
            mark: mark(claim.execution.input.get().as_bytes()),
        });
        Ok(claimed.collect())
    }
}

/// Returns the body of a request that submits a flow.
fn flow_body(graph: &GraphDraft) -> Result<Value, Error> {
    let mut nodes = Vec::with_capacity(graph.nodes.len());
    for node in &graph.nodes {
        let input: Value = parse(&node.draft.input)?;
        nodes.push(json!({"name": node.name, "kind": node.draft.kind, "input": input}));
    }
    let edge = |edge: &EdgeDraft| json!({"from": edge.from, "to": edge.to, "when": edge.when.as_str()});
    let edges: Vec<Value> = graph.edges.iter().map(edge).collect();
    let policy = |policy: JoinPolicy| match policy {
        JoinPolicy::AllOf => json!({"type": policy.as_str()}),
        JoinPolicy::AnyOf { on_satisfied } => {
            json!({"type": policy.as_str(), "on_satisfied": on_satisfied.as_str()})
        }
        JoinPolicy::Quorum { k, on_satisfied } => {
            json!({"type": policy.as_str(), "k": k, "on_satisfied": on_satisfied.as_str()})
        }
    };
    let group = |group: &GroupDraft| json!({"node": group.node, "policy": policy(group.policy)});
    let groups: Vec<Value> = graph.groups.iter().map(group).collect();
    Ok(json!({"nodes": nodes, "edges": edges, "groups": groups}))
}

fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Error> {
    serde_json::from_slice(body).map_err(|error| Error::Http(format!("an answer cannot be parsed: {error}")))
}

/// Fails with the first error among the answers.
fn check_accepted(answers: &[Answer<'_>]) -> Result<(), Error> {
    match answers.iter().find_map(|answer| answer.error) {
        Some(error) => Err(Error::Http(error.get().to_owned())),
        None => Ok(()),
    }
}
