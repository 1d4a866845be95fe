//! The limits of requests with many parts: counts are limited, and a response is never much larger than its request.

use crate::support::{Server, fence, op, op_with};
use serde_json::{Value, json};

/// A fence of no lease.
fn unknown_fence() -> Value {
    let id = "00000000-0000-7000-8000-000000000000";
    json!({ "execution": id, "attempt": 0, "lease_id": id, "epoch": 1 })
}

#[tokio::test]
async fn a_report_of_more_than_1000_operations_is_refused_whole() {
    let server = Server::start().await;
    let (id, claim) = server.submit_and_claim().await;
    let mut ops = vec![op("complete", &claim)];
    ops.extend((0..1000).map(|_| json!({})));
    let reply = server.post("/v1/workers/i/report", json!({ "ops": ops })).await;
    assert_eq!(reply.problem(), (422, "invalid_field".into(), "/ops".into()));
    assert!(reply.text().contains("has 1001 entries; at most 1000 are allowed"), "{}", reply.text());
    assert_eq!(server.execution(&id).await["state"], "active", "nothing was reported");
    ops.pop();
    let reply = server.post("/v1/workers/i/report", json!({ "ops": ops })).await;
    assert_eq!(reply.json()["results"].as_array().map(Vec::len), Some(1000));
    assert_eq!(server.execution(&id).await["state"], "completed");
}

#[tokio::test]
async fn operations_with_which_a_report_creates_more_than_10_000_waitpoints_are_refused() {
    let server = Server::start().await;
    let names: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
    let mut suspend = unknown_fence();
    suspend["op"] = json!("suspend");
    suspend["condition"] = json!({ "operator": true });
    suspend["waitpoints"] = json!(names);
    let reply = server.post("/v1/workers/i/report", json!({ "ops": vec![suspend; 11] })).await;
    let results = reply.json()["results"].clone();
    for index in 0..10 {
        assert_eq!(results[index]["error"]["code"], "not_found", "{}", results[index]);
    }
    assert_eq!(results[10]["error"]["code"], "invalid_field");
    assert_eq!(results[10]["error"]["pointer"], "/ops/10/waitpoints");
}

#[tokio::test]
async fn a_report_of_16_mb_of_tiny_wrong_operations_gets_a_small_answer() {
    let server = Server::start().await;
    let ops = format!("{{\"ops\":[{}{{}}]}}", "{},".repeat(16_000_000 / 3));
    let reply = server.post_text("/v1/workers/i/report", &ops).await;
    assert_eq!(reply.problem(), (422, "invalid_field".into(), "/ops".into()));
    assert!(reply.body.len() < 1000, "{} bytes", reply.body.len());
}

#[tokio::test]
async fn a_refused_operation_is_answered_without_a_copy_of_its_content() {
    let server = Server::start().await;
    let (_, claim) = server.submit_and_claim().await;
    let long = "x".repeat(100_000);
    let wrong = |fields: Value| op_with("complete", &claim, fields);
    let ops = vec![
        json!({ "op": long }),
        wrong(json!({ "op": long })),
        wrong(json!({ (long.clone()): 1 })),
        wrong(json!({ "op": "usage", "budget": "b", "usage": { (long.clone()): "x" } })),
        wrong(json!({ "op": "step", "name": long })),
        wrong(json!({ "op": "fail", "message": "m", "class": long })),
        wrong(json!({ "op": "frame", "kind": long, "data": 1 })),
        wrong(
            json!({ "op": "spawn", "nodes": [{ "name": "n", "kind": "k" }], "edges": [{ "from": long, "to": "n" }] }),
        ),
    ];
    let count = ops.len();
    let reply = server.post("/v1/workers/i/report", json!({ "ops": ops })).await;
    let results = reply.json()["results"].clone();
    for result in results.as_array().expect("results is an array") {
        let problem = &result["error"];
        assert_eq!(problem["status"], 422, "{problem}");
        assert!(problem.to_string().len() < 6000, "{} bytes", problem.to_string().len());
    }
    assert!(reply.body.len() < count * 6000, "{} bytes", reply.body.len());
}

#[tokio::test]
async fn a_heartbeat_of_more_than_10_000_leases_is_refused_whole() {
    let server = Server::start().await;
    let (_, claim) = server.submit_and_claim().await;
    let mut leases = vec![fence(&claim)];
    leases.extend((0..10_000).map(|_| unknown_fence()));
    let reply = server.post("/v1/workers/i/heartbeat", json!({ "leases": leases })).await;
    assert_eq!(reply.problem(), (422, "invalid_field".into(), "/leases".into()));
    leases.pop();
    let reply = server.post("/v1/workers/i/heartbeat", json!({ "leases": leases })).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(reply.json()["renewed"], json!([fence(&claim)]));
    assert!(reply.body.len() < 10_000 * 1000, "{} bytes", reply.body.len());
}
