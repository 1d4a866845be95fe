//! A draining lane hands out its waiting executions and refuses new ones.

use super::claimed_ids;
use crate::support::{Server, check_problem, op_with, text_of};
use serde_json::json;

fn draining() -> (u16, String, String) {
    (409, "lane_draining".into(), "".into())
}

#[tokio::test]
async fn a_draining_lane_refuses_new_executions_and_hands_out_waiting_ones() {
    let server = Server::start().await;
    let submission = json!({ "kind": "k", "lane": "old", "idempotency_key": "one" });
    let id = server.submit(submission.clone()).await;
    server.configure("lanes/old", json!({ "state": "draining" })).await;
    let refused = server.post("/v1/executions", json!({ "kind": "k", "lane": "old" })).await;
    assert_eq!(refused.problem(), draining());
    assert!(refused.text().contains("lane old"), "{}", refused.text());
    let again = server.post("/v1/executions", submission).await;
    assert_eq!((again.status, &again.json()["duplicate"]), (200, &json!(true)), "a duplicate is not new");

    let items = json!([{ "kind": "a" }, { "kind": "b", "lane": "old" }, { "kind": "c" }]);
    let results = server.post("/v1/executions/batch", json!({ "executions": items })).await.json();
    check_problem(&results["results"][1]["error"]);
    assert_eq!(results["results"][1]["error"]["code"], "lane_draining");
    for index in [0, 2] {
        assert_eq!(results["results"][index]["duplicate"], false);
    }

    let claim = json!({ "worker": "w", "lanes": ["old"], "max": 5 });
    let claims = server.post("/v1/workers/i/claim", claim).await.json()["claims"].clone();
    let claims = claims.as_array().expect("claims is an array").clone();
    assert_eq!(claimed_ids(&claims), [id.as_str()]);
    // An execution that is put back is not new either.
    let put_back = server.report("i", op_with("release", &claims[0], json!({}))).await;
    assert_eq!(put_back["state"], "waiting");
    assert_eq!(server.execution(&id).await["held_reason"], json!(null));
    server.configure("lanes/old", json!({})).await;
    server.submit(json!({ "kind": "k", "lane": "old" })).await;
}

#[tokio::test]
async fn a_draining_lane_refuses_nodes_of_flows() {
    let server = Server::start().await;
    server.configure("lanes/old", json!({ "state": "draining" })).await;
    let nodes = json!([{ "name": "a", "kind": "k" }, { "name": "b", "kind": "k", "lane": "old" }]);
    let refused = server.post("/v1/flows", json!({ "nodes": nodes })).await;
    assert_eq!(refused.problem(), draining());
    assert_eq!(server.read("executions").await["items"], json!([]), "the whole flow is refused");

    let flow = server.submit_flow(json!({ "nodes": [{ "name": "a", "kind": "k" }] })).await;
    let id = text_of(&flow["flow"]["id"]);
    let path = format!("/v1/flows/{id}/nodes");
    let more = json!({ "nodes": [{ "name": "b", "kind": "k", "lane": "old" }] });
    assert_eq!(server.post(&path, more.clone()).await.problem(), draining());
    assert_eq!(server.flow(&id).await["counts"]["total"], 1);

    let claim = server.claim("i", 1).await.remove(0);
    let spawned = server.report("i", op_with("spawn", &claim, more.clone())).await;
    check_problem(&spawned["error"]);
    assert_eq!(spawned["error"]["code"], "lane_draining");
    server.configure("lanes/old", json!({})).await;
    let spawned = server.report("i", op_with("spawn", &claim, more.clone())).await;
    assert_eq!(spawned["ok"], true, "{spawned}");
    server.configure("lanes/old", json!({ "state": "draining" })).await;
    let again = server.report("i", op_with("spawn", &claim, more)).await;
    assert_eq!(again["executions"], spawned["executions"], "nodes that were spawned before are not new");
}
