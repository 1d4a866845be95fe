//! The outcome of a flow: failures that fail it, failures that are handled, and its explanation.

use crate::support::{Server, text_of};
use serde_json::{Value, json};

/// Runs every node that can be claimed until the flow has ended: nodes whose kind is `bad` fail, the others complete.
/// Returns the outcome of the flow and the codes of its explanation.
async fn run(server: &Server, graph: Value) -> (String, Vec<String>) {
    let submitted = server.submit_flow(graph).await;
    let id = text_of(&submitted["flow"]["id"]);
    loop {
        let flow = server.get(&format!("/v1/flows/{id}")).await.json();
        if flow["state"] != "running" {
            let explanation = server.get(&format!("/v1/flows/{id}/explain")).await.json();
            assert_eq!(explanation["state"], flow["state"]);
            let reasons = explanation["reasons"].as_array().expect("reasons are a list");
            return (text_of(&flow["state"]), reasons.iter().map(|one| text_of(&one["code"])).collect());
        }
        let claim = json!({ "worker": "w", "lanes": ["default"], "max": 1, "wait_ms": 20 });
        let claims = server.post("/v1/workers/i/claim", claim).await.json()["claims"].clone();
        for claim in claims.as_array().expect("claims are a list") {
            match claim["execution"]["kind"].as_str() {
                Some("bad") => server.fail("i", claim, "no money").await,
                _ => server.complete("i", claim, json!(1)).await,
            };
        }
    }
}

fn node(name: &str, kind: &str) -> Value {
    json!({ "name": name, "kind": kind })
}

fn edge(from: &str, to: &str, when: &str) -> Value {
    json!({ "from": from, "to": to, "when": when })
}

#[tokio::test]
async fn an_alert_that_was_skipped_does_not_handle_a_failure() {
    let server = Server::start().await;
    let graph = json!({
        "nodes": [node("a", "bad"), node("b", "good"), node("publish", "good"), node("alert", "good")],
        "edges": [
            edge("a", "publish", "success"), edge("b", "publish", "success"),
            edge("a", "alert", "failure"), edge("b", "alert", "failure"),
        ],
    });
    let (state, codes) = run(&server, graph).await;
    assert_eq!((state.as_str(), codes), ("failed", vec!["member_failed".to_owned(), "ended".into()]));
}

#[tokio::test]
async fn a_clean_up_behind_a_finished_edge_does_not_handle_a_failure() {
    let server = Server::start().await;
    let graph = json!({
        "nodes": [node("a", "bad"), node("clean", "good")],
        "edges": [edge("a", "clean", "finished")],
    });
    assert_eq!(run(&server, graph).await.0, "failed");
}

#[tokio::test]
async fn a_completed_alert_handles_the_failure_of_its_own_upstream_only() {
    let server = Server::start().await;
    for (when, from, state) in [
        ("failure", "a", "completed"),
        ("failure_or_skipped", "a", "completed"),
        ("failure_or_skipped", "b", "failed"),
    ] {
        let graph = json!({
            "nodes": [node("a", "bad"), node("b", "good"), node("alert", "good")],
            "edges": [edge("a", "b", "success"), edge(from, "alert", when)],
        });
        let (ended, codes) = run(&server, graph).await;
        assert_eq!(ended, state, "{when} from {from}");
        let expected = if state == "completed" { "failure_handled" } else { "member_failed" };
        assert!(codes.iter().any(|code| code == expected), "{codes:?}");
    }
}

#[tokio::test]
async fn cancelling_one_member_fails_its_flow_and_says_who_did_it() {
    let server = Server::start().await;
    let submitted = server.submit_flow(json!({ "nodes": [node("a", "good")] })).await;
    let [flow, a] = [&submitted["flow"]["id"], &submitted["executions"]["a"]].map(text_of);
    let reply = server.post(&format!("/v1/executions/{a}/cancel"), json!({})).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(server.flow_result(&flow).await["outcome"], "failed");
    let explanation = server.get(&format!("/v1/flows/{flow}/explain")).await.json();
    let reason = &explanation["reasons"][0];
    assert_eq!(
        (&reason["code"], &reason["ref"]),
        (&json!("member_failed"), &json!({ "type": "execution", "id": a }))
    );
    assert_eq!(reason["message"], "“a” was cancelled by admin; nothing handled that: no edge leads from it");
}

#[tokio::test]
async fn a_running_flow_names_the_members_that_have_not_ended_and_their_reasons() {
    let server = Server::start().await;
    let graph = json!({
        "nodes": [node("a", "good"), node("b", "good"), { "name": "late", "kind": "good", "delay_ms": 60_000 }],
        "edges": [edge("a", "b", "success")],
    });
    let submitted = server.submit_flow(graph).await;
    let id = text_of(&submitted["flow"]["id"]);
    let explanation = server.get(&format!("/v1/flows/{id}/explain")).await.json();
    assert_eq!(
        (&explanation["state"], &explanation["reasons"][0]["code"]),
        (&json!("running"), &json!("members_open"))
    );
    assert_eq!(explanation["reasons"][0]["message"], "3 of its 3 members have not ended");
    assert!(explanation["next_change_at"].is_string(), "the delay of a member ends");
    let open: Vec<Value> = explanation["reasons"].as_array().expect("a list")[1..].to_vec();
    assert_eq!(open.len(), 3, "{open:?}");
    assert!(open.iter().all(|reason| reason["code"] == "member_open"));
    assert_eq!(open[2]["ref"]["id"], submitted["executions"]["b"], "what waits for upstreams comes last");
    let no_worker = open.iter().any(|reason| text_of(&reason["message"]).contains("No live worker"));
    assert!(no_worker, "{open:?}");
}

#[tokio::test]
async fn a_lone_execution_is_explained_as_a_flow_and_an_unknown_flow_is_not_found() {
    let server = Server::start().await;
    let execution = server.post("/v1/executions", json!({ "kind": "k" })).await.json();
    let id = text_of(&execution["execution"]["id"]);
    let explanation = server.get(&format!("/v1/flows/{id}/explain")).await.json();
    assert_eq!(
        (&explanation["state"], &explanation["reasons"][0]["code"]),
        (&json!("running"), &json!("no_worker_in_lane"))
    );
    let missing = server.get("/v1/flows/00000000-0000-0000-0000-000000000000/explain").await;
    assert_eq!((missing.status, missing.json()["code"].clone()), (404, json!("not_found")));
}

#[tokio::test]
async fn the_tags_of_a_flow_find_its_members_and_their_events() {
    let server = Server::start().await;
    let graph = json!({
        "tags": { "team": "red", "env": "test" },
        "nodes": [node("a", "good"), { "name": "b", "kind": "good", "tags": { "team": "blue" } }],
    });
    let submitted = server.submit_flow(graph).await;
    let found = |tag: &str| {
        let path = format!("/v1/executions?tag={tag}");
        let server = &server;
        async move {
            let items = server.get(&path).await.json()["items"].clone();
            let ids = items.as_array().expect("items are a list").iter().map(|item| item["id"].clone());
            ids.collect::<Vec<Value>>()
        }
    };
    assert_eq!(found("team:red").await, [submitted["executions"]["a"].clone()]);
    assert_eq!(found("team:blue").await, [submitted["executions"]["b"].clone()]);
    assert_eq!(found("env:test").await.len(), 2);
    let events = server.get("/v1/events?tag=team:blue&types=execution.submitted").await.json();
    assert_eq!(events["items"][0]["execution"], submitted["executions"]["b"]);
}
