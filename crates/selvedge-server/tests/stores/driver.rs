//! The calls that scenes are made of: submit, claim, report and so on, all over HTTP.

use crate::notes::Notes;
use crate::server::Server;
use serde_json::{Value, json};

/// The longest duration that the API takes, about 317 years: what has it stays as it is.
pub const FOR_EVER_MS: i64 = 10_000_000_000_000;

/// A time that does not come while the fixture is used.
pub const FAR: &str = "2200-01-01T00:00:00.000Z";

/// The shortest time to live of a lease.
const TTL_MS: u32 = 500;

/// A server and what is noted about the fixture.
pub struct Driver {
    pub server: Server,
    pub notes: Notes,
}

/// The id with this number: ids in a fixture are fixed where the API takes one.
pub fn fixed(number: u32) -> String {
    format!("f1c70000-0000-7000-8000-{number:012}")
}

/// `first` with the fields of `second`.
pub fn with(mut first: Value, second: Value) -> Value {
    for (field, value) in second.as_object().expect("an object") {
        first[field] = value.clone();
    }
    first
}

/// An op with the fence of a claim.
pub fn op(name: &str, claim: &Value, more: Value) -> Value {
    let fence = json!({
        "op": name, "execution": claim["execution"]["id"], "attempt": claim["attempt"],
        "lease_id": claim["lease"]["id"], "epoch": claim["lease"]["epoch"],
    });
    with(fence, more)
}

/// The text of a value.
pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}

impl Driver {
    /// Submits an execution under a fixed id, in a lane that is named like it, and keeps it for ever.
    pub async fn submit(&self, number: u32, lane: &str, more: Value) -> String {
        let base = json!({ "id": fixed(number), "kind": "work", "lane": lane, "retention_ms": FOR_EVER_MS });
        let answer = self.server.done("POST", "/v1/executions", with(base, more)).await;
        text(&answer["execution"]["id"])
    }

    /// Submits a flow under a fixed id; its nodes are in the lane, and kept for ever.
    pub async fn flow(&self, number: u32, lane: &str, more: Value) -> Value {
        let base = json!({
            "id": fixed(number), "retention_ms": FOR_EVER_MS,
            "defaults": { "kind": "work", "lane": lane, "retention_ms": FOR_EVER_MS },
        });
        self.server.done("POST", "/v1/flows", with(base, more)).await
    }

    /// Claims up to `max` from a lane, as an instance.
    pub async fn claim_as(&self, instance: &str, lane: &str, max: u32, more: Value) -> Vec<Value> {
        let base = json!({ "worker": "fixture", "lanes": [lane], "max": max, "lease_ttl_ms": TTL_MS });
        let path = format!("/v1/workers/{instance}/claim");
        let answer = self.server.done("POST", &path, with(base, more)).await;
        answer["claims"].as_array().expect("claims").clone()
    }

    /// Claims `count` from a lane, all of which must be there.
    pub async fn claim(&self, lane: &str, count: usize) -> Vec<Value> {
        let claims = self.claim_as("worker-1", lane, count as u32, json!({})).await;
        assert_eq!(claims.len(), count, "claims in {lane}");
        claims
    }

    /// Claims the only one of a lane.
    pub async fn claim_one(&self, lane: &str) -> Value {
        self.claim(lane, 1).await.remove(0)
    }

    /// Reports an op, which must be accepted, and returns its result.
    pub async fn report(&self, name: &str, claim: &Value, more: Value) -> Value {
        let body = json!({ "ops": [op(name, claim, more)] });
        let answer = self.server.done("POST", "/v1/workers/worker-1/report", body.clone()).await;
        let result = answer["results"][0].clone();
        assert_eq!(result["ok"], true, "{body}: {result}");
        result
    }

    /// Completes a claim.
    pub async fn complete(&self, claim: &Value, result: Value) {
        self.report("complete", claim, json!({ "result": result })).await;
    }

    /// Fails a claim for good.
    pub async fn fail(&self, claim: &Value, message: &str) {
        self.report("fail", claim, json!({ "message": message, "class": "permanent" })).await;
    }

    /// Acts on an execution as an operator.
    pub async fn operate(&self, id: &str, action: &str, body: Value) {
        self.server.done("POST", &format!("/v1/executions/{id}/{action}"), body).await;
    }

    /// Sends a signal.
    pub async fn signal(&self, id: &str, body: Value) {
        self.operate(id, "signals", body).await;
    }

    /// Configures a lane, a quota or a budget.
    pub async fn configure(&self, gate: &str, body: Value) {
        self.server.done("PUT", &format!("/v1/{gate}"), body).await;
    }

    /// Asserts that an execution is in a state.
    pub async fn is(&self, id: &str, state: &str) {
        let seen = self.server.execution(id).await;
        assert_eq!(seen["state"], state, "{seen}");
    }
}
