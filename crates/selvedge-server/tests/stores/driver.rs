//! The requests that scenes consist of: submit, claim, report and so on, all over HTTP.

use crate::notes::Notes;
use crate::server::Server;
use serde_json::{Value, json};

/// The longest duration that the API accepts, in milliseconds: about 317 years. It never passes while a fixture is
/// used.
pub const FOREVER_MS: i64 = 10_000_000_000_000;

/// A time that is not reached while a fixture is used.
pub const FAR_FUTURE: &str = "2200-01-01T00:00:00.000Z";

/// The shortest time to live of a lease, in milliseconds.
const TTL_MS: u32 = 500;

/// A server on the store of a new fixture, and the notes of the fixture.
pub struct Driver {
    pub server: Server,
    pub notes: Notes,
}

/// Returns the id with this number. Ids in a fixture are fixed wherever the API accepts one.
pub fn fixed_id(number: u32) -> String {
    format!("f1c70000-0000-7000-8000-{number:012}")
}

/// Returns `first` with the fields of `second`.
pub fn with(mut first: Value, second: Value) -> Value {
    for (field, value) in second.as_object().expect("a JSON object") {
        first[field] = value.clone();
    }
    first
}

/// Returns an operation on a claim: its name, the claim's fence, and further fields.
pub fn op(name: &str, claim: &Value, fields: Value) -> Value {
    let fence = json!({
        "op": name, "execution": claim["execution"]["id"], "attempt": claim["attempt"],
        "lease_id": claim["lease"]["id"], "epoch": claim["lease"]["epoch"],
    });
    with(fence, fields)
}

/// Returns a JSON string as text.
pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is not a string")).to_owned()
}

impl Driver {
    /// Submits an execution with a fixed id and unlimited retention to a lane. Returns its id.
    pub async fn submit(&self, number: u32, lane: &str, fields: Value) -> String {
        let base =
            json!({ "id": fixed_id(number), "kind": "work", "lane": lane, "retention_ms": FOREVER_MS });
        let response = self.server.call_ok("POST", "/v1/executions", with(base, fields)).await;
        text(&response["execution"]["id"])
    }

    /// Submits a flow with a fixed id and unlimited retention, with its nodes in a lane. Returns the response.
    pub async fn flow(&self, number: u32, lane: &str, fields: Value) -> Value {
        let base = json!({
            "id": fixed_id(number), "retention_ms": FOREVER_MS,
            "defaults": { "kind": "work", "lane": lane, "retention_ms": FOREVER_MS },
        });
        self.server.call_ok("POST", "/v1/flows", with(base, fields)).await
    }

    /// Claims up to `max` executions of a lane as an instance.
    pub async fn claim_as(&self, instance: &str, lane: &str, max: u32, fields: Value) -> Vec<Value> {
        let base = json!({ "worker": "fixture", "lanes": [lane], "max": max, "lease_ttl_ms": TTL_MS });
        let path = format!("/v1/workers/{instance}/claim");
        let response = self.server.call_ok("POST", &path, with(base, fields)).await;
        response["claims"].as_array().expect("claims is an array").clone()
    }

    /// Claims exactly `count` executions of a lane.
    pub async fn claim(&self, lane: &str, count: usize) -> Vec<Value> {
        let claims = self.claim_as("worker-1", lane, count as u32, json!({})).await;
        assert_eq!(claims.len(), count, "claims in {lane}");
        claims
    }

    /// Claims one execution of a lane.
    pub async fn claim_one(&self, lane: &str) -> Value {
        self.claim(lane, 1).await.remove(0)
    }

    /// Reports an operation successfully. Returns its result.
    pub async fn report(&self, name: &str, claim: &Value, fields: Value) -> Value {
        let body = json!({ "ops": [op(name, claim, fields)] });
        let response = self.server.call_ok("POST", "/v1/workers/worker-1/report", body.clone()).await;
        let result = response["results"][0].clone();
        assert_eq!(result["ok"], true, "{body}: {result}");
        result
    }

    /// Completes a claimed execution.
    pub async fn complete(&self, claim: &Value, result: Value) {
        self.report("complete", claim, json!({ "result": result })).await;
    }

    /// Fails a claimed execution permanently.
    pub async fn fail(&self, claim: &Value, message: &str) {
        self.report("fail", claim, json!({ "message": message, "class": "permanent" })).await;
    }

    /// Runs an operator action on an execution.
    pub async fn operate(&self, id: &str, action: &str, body: Value) {
        self.server.call_ok("POST", &format!("/v1/executions/{id}/{action}"), body).await;
    }

    /// Sends a signal.
    pub async fn signal(&self, id: &str, body: Value) {
        self.operate(id, "signals", body).await;
    }

    /// Configures a lane, a quota or a budget.
    pub async fn configure(&self, gate: &str, body: Value) {
        self.server.call_ok("PUT", &format!("/v1/{gate}"), body).await;
    }

    /// Asserts that an execution has the given state.
    pub async fn check_state(&self, id: &str, state: &str) {
        let execution = self.server.execution(id).await;
        assert_eq!(execution["state"], state, "{execution}");
    }
}
