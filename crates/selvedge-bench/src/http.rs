//! The HTTP transport: a server in this process on a loopback port, and a plain client with kept-alive connections.

use crate::Error;
use crate::target::{Claimer, Taken, submitted};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper_util::client::legacy::{Client as Hyper, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use selvedge_core::rules::report::Fence;
use selvedge_core::{ExecutionId, LeaseId};
use selvedge_engine::Engine;
use serde::Deserialize;
use serde_json::value::RawValue;
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
    #[serde(borrow)]
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
    pub async fn submit(&self, count: usize, lane: &str, input: &str) -> Result<(), Error> {
        let item = format!("{{\"kind\":\"noop\",\"lane\":\"{lane}\",\"input\":{input}}}");
        let body = format!("{{\"executions\":[{}]}}", vec![item; count].join(","));
        let answer = self.post("/v1/executions/batch", body).await?;
        let submitted: Submitted<'_> = parse(&answer)?;
        all_well(&submitted.results)
    }

    /// Completes and claims in one round trip.
    pub async fn work(&self, done: &[Taken], claimer: &Claimer, wait: Duration) -> Result<Vec<Taken>, Error> {
        let mut body = String::from("{\"ops\":[");
        for (index, taken) in done.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            let Fence { execution, attempt, lease_id, epoch } = taken.fence;
            write!(
                body,
                "{comma}{{\"op\":\"complete\",\"execution\":\"{execution}\",\"attempt\":{attempt},\
                 \"lease_id\":\"{lease_id}\",\"epoch\":{epoch},\"result\":{{\"ok\":true}}}}"
            )
            .map_err(|error| Error::Http(error.to_string()))?;
        }
        write!(
            body,
            "],\"claim\":{{\"worker\":\"bench\",\"lanes\":{},\"max\":{},\"wait_ms\":{},\"lease_ttl_ms\":60000}}}}",
            serde_json::to_string(&claimer.lanes).unwrap_or_default(),
            claimer.max,
            wait.as_millis()
        )
        .map_err(|error| Error::Http(error.to_string()))?;
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
            submitted: submitted(claim.execution.input.get().as_bytes()),
        });
        Ok(taken.collect())
    }
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
