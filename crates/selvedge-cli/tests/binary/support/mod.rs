//! What the tests of the binary use: servers, calls, and a store of its own for each test.

mod curl;
mod place;
mod server;

pub use curl::{calling, get, post};
pub use place::{Directory, Place, Postgres, Sqlite};
pub use server::{Server, command};

use serde_json::{Value, json};

/// Makes a test of each of these functions on each store.
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

/// Submits an execution; gives its id.
pub fn submit(url: &str, submission: Value) -> String {
    let (status, answer) = post(&format!("{url}/v1/executions"), &submission);
    assert_eq!(status, 201, "{answer}");
    text(&answer["execution"]["id"])
}

/// The body of a claim of up to `max` from lane `default`.
pub fn claim_of(max: u32, wait_ms: u64) -> Value {
    json!({"worker": "w", "lanes": ["default"], "max": max, "wait_ms": wait_ms, "lease_ttl_ms": 60_000})
}

/// Claims; gives the claims.
pub fn claim(url: &str, instance: &str, max: u32, wait_ms: u64) -> Vec<Value> {
    let (status, answer) = post(&format!("{url}/v1/workers/{instance}/claim"), &claim_of(max, wait_ms));
    assert_eq!(status, 200, "{answer}");
    answer["claims"].as_array().expect("a list").clone()
}

/// Reports what was claimed as complete; gives the one result.
pub fn complete(url: &str, instance: &str, claim: &Value, result: Value) -> Value {
    let op = json!({
        "op": "complete",
        "execution": claim["execution"]["id"],
        "attempt": claim["attempt"],
        "lease_id": claim["lease"]["id"],
        "epoch": claim["lease"]["epoch"],
        "result": result,
    });
    let (status, answer) = post(&format!("{url}/v1/workers/{instance}/report"), &json!({"ops": [op]}));
    assert_eq!(status, 200, "{answer}");
    answer["results"][0].clone()
}

/// The outcome and result of an execution, waited for.
pub fn result(url: &str, id: &str) -> (u16, Value) {
    get(&format!("{url}/v1/executions/{id}/result?wait_ms=30000"))
}

/// The public state of an execution.
pub fn state(url: &str, id: &str) -> String {
    let (status, execution) = get(&format!("{url}/v1/executions/{id}"));
    assert_eq!(status, 200, "{execution}");
    text(&execution["state"])
}

/// The text in a value.
pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}
