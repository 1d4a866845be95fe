//! A worker of the API, which does what a test says.

use crate::support::{claim, post};
use serde_json::{Value, json};

/// Claims the next execution of lane `default` for the instance `w-1`.
pub fn claim_one(url: &str) -> Value {
    claim(url, "w-1", 1, 30_000).pop().expect("there is an execution to claim")
}

/// Reports an operation of a claimed execution. Returns its result.
pub fn report(url: &str, claim: &Value, mut op: Value) -> Value {
    op["execution"] = claim["execution"]["id"].clone();
    op["attempt"] = claim["attempt"].clone();
    op["lease_id"] = claim["lease"]["id"].clone();
    op["epoch"] = claim["lease"]["epoch"].clone();
    let (status, response) = post(&format!("{url}/v1/workers/w-1/report"), &json!({"ops": [op]}));
    assert_eq!(status, 200, "{response}");
    let result = response["results"][0].clone();
    assert!(result["error"].is_null(), "{op}: {result}");
    result
}

/// Claims the next execution and completes it.
pub fn complete_one(url: &str) {
    report(url, &claim_one(url), json!({"op": "complete", "result": "done"}));
}

/// Claims the next execution and fails it for good.
pub fn fail_one(url: &str, message: &str) {
    let op = json!({"op": "fail", "message": message, "class": "permanent"});
    report(url, &claim_one(url), op);
}
