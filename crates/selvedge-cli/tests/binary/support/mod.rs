//! Fixtures: servers, requests, and a separate store for each test.

mod curl;
mod place;
mod server;

pub use curl::{Call, get, post, start_call};
pub use place::{Directory, Place, Postgres, Sqlite};
pub use server::{Server, command};

use serde_json::{Value, json};

/// Defines a test of each function for each store.
macro_rules! on_each_store {
    ($($name:ident),+ $(,)?) => {
        mod on_sqlite {
            use crate::support::Sqlite;
            $(#[test] fn $name() { super::$name(&Sqlite::new()); })+
        }
        mod on_postgres {
            use crate::support::Postgres;
            $(#[test] fn $name() { super::$name(&Postgres::new()); })+
        }
    };
}
pub(crate) use on_each_store;

/// Submits an execution. Returns its id.
pub fn submit(url: &str, submission: Value) -> String {
    let (status, response) = post(&format!("{url}/v1/executions"), &submission);
    assert_eq!(status, 201, "{response}");
    text(&response["execution"]["id"])
}

/// Returns the body of a claim of up to `max` executions of lane `default`.
pub fn claim_body(max: u32, wait_ms: u64) -> Value {
    json!({"worker": "w", "lanes": ["default"], "max": max, "wait_ms": wait_ms, "lease_ttl_ms": 60_000})
}

/// Claims up to `max` executions of lane `default`. Returns the claims.
pub fn claim(url: &str, instance: &str, max: u32, wait_ms: u64) -> Vec<Value> {
    let (status, response) = post(&format!("{url}/v1/workers/{instance}/claim"), &claim_body(max, wait_ms));
    assert_eq!(status, 200, "{response}");
    response["claims"].as_array().expect("claims is an array").clone()
}

/// Completes a claimed execution. Returns the result of the report.
pub fn complete(url: &str, instance: &str, claim: &Value, result: Value) -> Value {
    let op = json!({
        "op": "complete",
        "execution": claim["execution"]["id"],
        "attempt": claim["attempt"],
        "lease_id": claim["lease"]["id"],
        "epoch": claim["lease"]["epoch"],
        "result": result,
    });
    let (status, response) = post(&format!("{url}/v1/workers/{instance}/report"), &json!({"ops": [op]}));
    assert_eq!(status, 200, "{response}");
    response["results"][0].clone()
}

/// Waits for the end of an execution. Returns status and body with its outcome and result.
pub fn result(url: &str, id: &str) -> (u16, Value) {
    get(&format!("{url}/v1/executions/{id}/result?wait_ms=30000"))
}

/// Reads the state of an execution.
pub fn state(url: &str, id: &str) -> String {
    let (status, execution) = get(&format!("{url}/v1/executions/{id}"));
    assert_eq!(status, 200, "{execution}");
    text(&execution["state"])
}

/// Returns a JSON string as text.
pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is not a string")).to_owned()
}
