//! The end of a flow: its result, and cancellation.

use super::chain;
use crate::support::{Server, op, text_of};
use selvedge_core::Timestamp;
use selvedge_engine::Options;
use selvedge_memory::Clock;
use serde_json::{Value, json};

#[tokio::test]
async fn the_result_of_a_flow_can_be_waited_for() {
    let server = Server::start().await;
    let response = server.submit_flow(chain()).await;
    let id = text_of(&response["flow"]["id"]);
    let path = format!("/v1/flows/{id}/result");
    let reply = server.get(&path).await;
    assert_eq!(reply.status, 202);
    let running = json!({
        "outcome": null, "state": "running", "flow": response["flow"], "results": {}, "result_refs": {},
    });
    assert_eq!(reply.json(), running);
    let work = async {
        for result in ["\"first\"", r#"{"n": 1.50,  "é": "\u00e9"}"#] {
            let claim = server.claim_one("i").await;
            let fence = op("complete", &claim).to_string();
            let report = format!(r#"{{"ops": [{}, "result": {result}}}]}}"#, fence.trim_end_matches('}'));
            assert_eq!(server.post_text("/v1/workers/i/report", &report).await.status, 200);
        }
    };
    let waiting = format!("{path}?wait_ms=20000");
    let (reply, ()) = tokio::join!(server.get(&waiting), work);
    assert_eq!(reply.status, 200, "{}", reply.text());
    let ended = reply.json();
    assert_eq!((&ended["outcome"], &ended["state"]), (&json!("completed"), &json!("completed")));
    assert_eq!((&ended["flow"]["id"], &ended["flow"]["state"]), (&json!(id), &json!("completed")));
    assert_eq!(ended["flow"]["counts"]["completed"], 2);
    assert!(ended["flow"]["ended_at"].is_string());
    let results =
        r#""results":{"b":{"outcome":"completed","result":{"n": 1.50,  "é": "\u00e9"},"error":null}}"#;
    assert!(reply.text().contains(results), "{}", reply.text());
}

#[tokio::test]
async fn a_failure_without_a_failure_edge_fails_the_flow() {
    let server = Server::start().await;
    let response = server.submit_flow(chain()).await;
    let claim = server.claim_one("i").await;
    server.fail("i", &claim, "broke").await;
    let ended = server.flow_result(&text_of(&response["flow"]["id"])).await;
    assert_eq!((&ended["outcome"], &ended["state"]), (&json!("failed"), &json!("failed")));
    assert_eq!(ended["results"]["b"], json!({ "outcome": "skipped", "result": null, "error": null }));
    let skipped = server.execution(&text_of(&response["executions"]["b"])).await;
    assert_eq!((&skipped["state"], &skipped["ready_at"]), (&json!("skipped"), &json!(null)));
}

#[tokio::test]
async fn a_cancellation_reports_whether_it_is_complete() {
    // Without reconcilers and dispatch nothing is drained until the test ticks the dependency reconciler.
    let options = Options { reconcilers: false, dispatch: false, ..Options::default() };
    let clock = Clock::manual(Timestamp::from_millis(1_700_000_000_000));
    let server = Server::start_with(options, clock.clone()).await;
    let id = text_of(&server.submit_flow(chain()).await["flow"]["id"]);
    let path = format!("/v1/flows/{id}/cancel");
    let cancel = |draining: bool| json!({ "mode": "all", "reason": "no more", "actor": "admin", "draining": draining });
    for wait_ms in [0, 10] {
        let reply = server.post(&path, json!({ "reason": "no more", "wait_ms": wait_ms })).await;
        assert_eq!(reply.status, 202, "{}", reply.text());
        let flow = reply.json()["flow"].clone();
        assert_eq!((&flow["state"], &flow["cancel"]), (&json!("running"), &cancel(true)));
    }
    let drained = async {
        clock.advance_ms(5_000);
        server.engine.tick("dependency").await.expect("the tick succeeds");
    };
    let (reply, ()) = tokio::join!(server.post(&path, json!({ "wait_ms": 20_000 })), drained);
    assert_eq!(reply.status, 200, "{}", reply.text());
    let flow = reply.json()["flow"].clone();
    assert_eq!((&flow["counts"]["cancelled"], &flow["cancel"]), (&json!(2), &cancel(false)));
    assert_eq!(server.flow_result(&id).await["outcome"], "cancelled");
    // Cancelling again changes nothing.
    assert_eq!(server.post_text(&path, "").await.status, 200);
}

#[tokio::test]
async fn every_node_of_a_large_flow_is_cancelled() {
    let server = Server::start().await;
    let nodes: Vec<Value> =
        (0..3000).map(|index| json!({ "name": index.to_string(), "kind": "k" })).collect();
    let id = text_of(&server.submit_flow(json!({ "nodes": nodes })).await["flow"]["id"]);
    let reply = server.post(&format!("/v1/flows/{id}/cancel"), json!({ "wait_ms": 20_000 })).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(reply.json()["flow"]["counts"]["cancelled"], 3000);
}

#[tokio::test]
async fn cancelling_pending_nodes_lets_active_nodes_run() {
    let server = Server::start().await;
    let response = server.submit_flow(chain()).await;
    let id = text_of(&response["flow"]["id"]);
    let claim = server.claim_one("i").await;
    let path = format!("/v1/flows/{id}/cancel");
    let reply = server.post(&path, json!({ "mode": "pending", "wait_ms": 20_000 })).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let flow = reply.json()["flow"].clone();
    assert_eq!((&flow["state"], &flow["cancel"]["mode"]), (&json!("running"), &json!("pending")));
    assert_eq!((&flow["counts"]["active"], &flow["counts"]["cancelled"]), (&json!(1), &json!(1)));
    server.complete("i", &claim, json!(1)).await;
    assert_eq!(server.flow_result(&id).await["state"], "cancelled");
}
