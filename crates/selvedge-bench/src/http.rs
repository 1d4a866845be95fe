//! The HTTP transport: a server in this process on a loopback port, and a plain client with kept-alive connections.

use crate::Error;
use crate::shape::mark;
use crate::target::{Claimer, Taken};
use crate::terms::{Asks, Spends};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper_util::client::legacy::{Client as Hyper, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use selvedge_core::join::JoinPolicy;
use selvedge_core::plan::{EdgeDraft, GraphDraft, GroupDraft};
use selvedge_core::rules::report::Fence;
use selvedge_core::{ExecutionId, FlowId, LeaseId};
use selvedge_engine::Engine;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::fmt::Write;
use std::time::Duration;
use uuid::Uuid;

/// A client of the server.
#[derive(Clone)]
pub struct Client {
    base: String,
    client: Hyper<HttpConnector, Full<Bytes>>,
}

#[derive(Deserialize)]
struct Submitted<'a> {
    #[serde(borrow)]
    results: Vec<Answer<'a>>,
}

#[derive(Deserialize)]
struct Worked<'a> {
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
    /// Serves the engine on a loopback port and gives a client for it.
    pub async fn serve(engine: Engine) -> Result<Client, Error> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let base = format!("http://{}", listener.local_addr()?);
        tokio::spawn(selvedge_server::serve(engine, listener, std::future::pending::<()>()));
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Ok(Client { base, client: Hyper::builder(TokioExecutor::new()).build(connector) })
    }

    async fn post(&self, path: &str, body: String) -> Result<Bytes, Error> {
        let failed = |error: &dyn std::fmt::Display| Error::Http(format!("POST {path}: {error}"));
        let request = Request::post(format!("{}{path}", self.base))
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| failed(&error))?;
        let response = self.client.request(request).await.map_err(|error| failed(&error))?;
        let status = response.status();
        let body = response.into_body().collect().await.map_err(|error| failed(&error))?.to_bytes();
        match status.is_success() {
            true => Ok(body),
            false => Err(Error::Http(format!("POST {path}: {status}: {}", String::from_utf8_lossy(&body)))),
        }
    }

    /// Submits a batch.
    pub async fn submit(&self, count: usize, asks: &[Asks], input: &str) -> Result<(), Error> {
        let item = |asks: &Asks| -> Result<String, Error> {
            let mut fields = asks.fields();
            fields["kind"] = json!("noop");
            fields["input"] = parse(input.as_bytes())?;
            Ok(fields.to_string())
        };
        let items = asks.iter().map(item).collect::<Result<Vec<String>, Error>>()?;
        let items: Vec<&str> = items.iter().map(String::as_str).cycle().take(count).collect();
        let body = format!("{{\"executions\":[{}]}}", items.join(","));
        let answer = self.post("/v1/executions/batch", body).await?;
        let submitted: Submitted<'_> = parse(&answer)?;
        all_well(&submitted.results)
    }

    /// Submits a flow.
    pub async fn submit_flow(&self, graph: &GraphDraft) -> Result<FlowId, Error> {
        #[derive(Deserialize)]
        struct Accepted {
            flow: Flow,
        }
        #[derive(Deserialize)]
        struct Flow {
            id: Uuid,
        }
        let answer = self.post("/v1/flows", body_of(graph)?.to_string()).await?;
        Ok(FlowId(parse::<Accepted>(&answer)?.flow.id))
    }

    /// Completes and claims in one round trip.
    pub async fn work(&self, done: &[Taken], claimer: &Claimer) -> Result<Vec<Taken>, Error> {
        // Whoever has something to report wants to know that it is done before waiting for more.
        let wait = if done.is_empty() { claimer.wait } else { Duration::ZERO };
        let claim = json!({
            "worker": "bench",
            "lanes": claimer.lanes,
            "capabilities": claimer.capabilities,
            "max": claimer.max,
            "wait_ms": wait.as_millis() as u64,
            "lease_ttl_ms": 60_000,
        });
        self.report(done, claimer, Some(claim)).await
    }

    /// Completes.
    pub async fn complete(&self, done: &[Taken], claimer: &Claimer) -> Result<(), Error> {
        self.report(done, claimer, None).await.map(drop)
    }

    async fn report(
        &self,
        done: &[Taken],
        claimer: &Claimer,
        claim: Option<Value>,
    ) -> Result<Vec<Taken>, Error> {
        let failed = |error: std::fmt::Error| Error::Http(error.to_string());
        let mut body = String::from("{\"ops\":[");
        for (index, taken) in done.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            let Fence { execution, attempt, lease_id, epoch } = taken.fence;
            let fence = format!(
                "\"execution\":\"{execution}\",\"attempt\":{attempt},\"lease_id\":\"{lease_id}\",\"epoch\":{epoch}"
            );
            body.push_str(comma);
            if let Some(Spends { budget, usage }) = &claimer.spends {
                let spent = json!({"budget": budget, "usage": usage}).to_string();
                let spent = spent.trim_start_matches('{');
                write!(body, "{{\"op\":\"usage\",{fence},{spent},").map_err(failed)?;
            }
            write!(body, "{{\"op\":\"complete\",{fence},\"result\":{{\"ok\":true}}}}").map_err(failed)?;
        }
        body.push(']');
        if let Some(claim) = claim {
            write!(body, ",\"claim\":{claim}").map_err(failed)?;
        }
        body.push('}');
        let answer = self.post(&format!("/v1/workers/{}/report", claimer.instance), body).await?;
        let worked: Worked<'_> = parse(&answer)?;
        all_well(&worked.results)?;
        let taken = worked.claims.iter().map(|claim| Taken {
            fence: Fence {
                execution: ExecutionId(claim.execution.id),
                attempt: claim.attempt,
                lease_id: LeaseId(claim.lease.id),
                epoch: claim.lease.epoch,
            },
            mark: mark(claim.execution.input.get().as_bytes()),
        });
        Ok(taken.collect())
    }
}

/// A graph as the API takes it.
fn body_of(graph: &GraphDraft) -> Result<Value, Error> {
    let mut nodes = Vec::with_capacity(graph.nodes.len());
    for node in &graph.nodes {
        let input: Value = parse(&node.draft.input)?;
        nodes.push(json!({"name": node.name, "kind": node.draft.kind, "input": input}));
    }
    let edge = |one: &EdgeDraft| json!({"from": one.from, "to": one.to, "when": one.when.as_str()});
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
    let group = |one: &GroupDraft| json!({"node": one.node, "policy": policy(one.policy)});
    let groups: Vec<Value> = graph.groups.iter().map(group).collect();
    Ok(json!({"nodes": nodes, "edges": edges, "groups": groups}))
}

fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Error> {
    serde_json::from_slice(body).map_err(|error| Error::Http(format!("an answer is not understood: {error}")))
}

fn all_well(answers: &[Answer<'_>]) -> Result<(), Error> {
    match answers.iter().find_map(|answer| answer.error) {
        Some(error) => Err(Error::Http(error.get().to_owned())),
        None => Ok(()),
    }
}
