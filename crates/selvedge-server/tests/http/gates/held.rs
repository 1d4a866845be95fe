//! Executions held by concurrency keys and fairness keys: details, lists, counts, and release.

use super::claimed_ids;
use crate::support::{Server, text_of};
use serde_json::{Value, json};

/// Starts a server that has the budgets and quotas that the submissions below name.
async fn start_with_gates() -> Server {
    let server = Server::start().await;
    for name in ["month", "day"] {
        server.configure(&format!("budgets/{name}"), json!({ "limits": {} })).await;
    }
    for name in ["calls", "mails"] {
        server.configure(&format!("quotas/{name}"), json!({})).await;
    }
    server
}

/// Submits an execution with a concurrency key. Returns its id.
async fn submit_with_key(server: &Server, key: &str, limit: u32) -> String {
    server.submit(json!({ "kind": "k", "concurrency": { "key": key, "limit": limit } })).await
}

#[tokio::test]
async fn the_gates_of_an_execution_are_shown_as_they_were_submitted() {
    let server = start_with_gates().await;
    let gates = json!({
        "fairness_key": "tenant", "budgets": ["month", { "name": "day", "reserve": { "tokens": 0.000001, "cost": 12 } }],
        "quotas": ["calls", "mails"], "concurrency": { "key": "customer 7", "limit": 3 },
    });
    let mut body = gates.clone();
    body["kind"] = json!("k");
    let id = server.submit(body.clone()).await;
    let execution = server.execution(&id).await;
    for field in ["fairness_key", "budgets", "quotas", "concurrency"] {
        assert_eq!(execution[field], gates[field], "{field}");
    }
    let text = server.get(&format!("/v1/executions/{id}")).await.text();
    assert!(text.contains(r#""reserve":{"cost":12,"tokens":0.000001}"#), "{text}");
    let plain = server.execution(&server.submit(json!({ "kind": "k" })).await).await;
    assert_eq!((&plain["fairness_key"], &plain["concurrency"]), (&json!(null), &json!(null)));
    assert_eq!((&plain["budgets"], &plain["quotas"]), (&json!([]), &json!([])));

    // A repeat with other gates is not a duplicate but a conflict.
    let with_budgets = |budgets: Value| json!({ "kind": "k", "idempotency_key": "one", "budgets": budgets });
    server.submit(with_budgets(json!(["month"]))).await;
    assert_eq!(server.post("/v1/executions", with_budgets(json!(["month"]))).await.status, 200);
    let other = server.post("/v1/executions", with_budgets(json!(["day"]))).await;
    assert_eq!(other.problem(), (409, "idempotency_mismatch".into(), "/idempotency_key".into()));
}

#[tokio::test]
async fn nodes_take_their_gates_from_the_defaults_of_their_flow() {
    let server = start_with_gates().await;
    let flow = server
        .submit_flow(json!({
            "defaults": { "quotas": ["calls"], "budgets": ["month"], "fairness_key": "tenant" },
            "nodes": [{ "name": "a", "kind": "k" }, { "name": "b", "kind": "k", "quotas": [], "fairness_key": "b" }],
        }))
        .await;
    let a = server.execution(&text_of(&flow["executions"]["a"])).await;
    let b = server.execution(&text_of(&flow["executions"]["b"])).await;
    assert_eq!(
        (&a["quotas"], &a["budgets"], &a["fairness_key"]),
        (&json!(["calls"]), &json!(["month"]), &json!("tenant"))
    );
    assert_eq!(
        (&b["quotas"], &b["budgets"], &b["fairness_key"]),
        (&json!([]), &json!(["month"]), &json!("b"))
    );
}

#[tokio::test]
async fn a_concurrency_key_admits_up_to_its_limit_and_holds_the_others() {
    let server = Server::start().await;
    let first = submit_with_key(&server, "tenant", 1).await;
    let second = submit_with_key(&server, "tenant", 1).await;
    let other = submit_with_key(&server, "someone else", 1).await;
    let claims = server.claim("i", 10).await;
    assert_eq!(claimed_ids(&claims), [first.clone(), other.clone()]);

    let held = server.execution(&second).await;
    assert_eq!(
        (&held["state"], &held["ready_at"], &held["lease"]),
        (&json!("held"), &json!(null), &json!(null))
    );
    let reason = json!({
        "gate": { "kind": "concurrency", "name": "tenant", "part": null },
        "message": "concurrency tenant has 1 active and allows 1", "until_at": null,
    });
    assert_eq!(held["held_reason"], reason);
    assert_eq!(server.execution(&first).await["held_reason"], json!(null));
    let listed = server.read("executions?state=held").await["items"].clone();
    assert_eq!((&listed[0]["id"], &listed[0]["held_reason"]), (&json!(second), &reason));
    assert_eq!(listed.as_array().map(Vec::len), Some(1));
    let explained = server.read(&format!("executions/{second}/explain")).await;
    assert_eq!(explained["state"], "held");
    assert_eq!(
        (&explained["reasons"][0]["code"], &explained["reasons"][0]["ref"]),
        (&json!("concurrency_limit"), &json!({ "type": "concurrency_key", "id": "tenant" }))
    );
    assert_eq!(
        (&explained["reasons"][1]["code"], &explained["reasons"][1]["ref"]),
        (&json!("holder"), &json!({ "type": "execution", "id": first }))
    );
    assert_eq!(explained["reasons"].as_array().map(Vec::len), Some(2));

    let (next, ()) = tokio::join!(server.claim_one("two"), async {
        server.wait_for_claims(1).await;
        server.complete("i", &claims[0], json!(null)).await;
    });
    assert_eq!(next["execution"]["id"], json!(second));
    let events = server.read(&format!("executions/{second}/events")).await;
    let types: Vec<&str> = events["items"]
        .as_array()
        .expect("items is an array")
        .iter()
        .filter_map(|event| event["type"].as_str())
        .collect();
    assert_eq!(
        types,
        [
            "execution.submitted",
            "execution.held",
            "execution.released",
            "execution.ready",
            "lease.acquired",
            "execution.started"
        ]
    );
    assert_eq!(events["items"][1]["data"]["gate"], reason["gate"]);
    assert_eq!(events["items"][1]["data"]["reason"], reason["message"]);
    let of_type = server.read("events?types=execution.held,execution.released").await;
    assert_eq!(of_type["items"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn a_flow_counts_held_nodes() {
    let server = Server::start().await;
    let concurrency = json!({ "key": "one", "limit": 1 });
    let nodes =
        json!([{ "name": "a", "kind": "k" }, { "name": "b", "kind": "k" }, { "name": "c", "kind": "k" }]);
    let flow =
        server.submit_flow(json!({ "defaults": { "concurrency": concurrency }, "nodes": nodes })).await;
    let id = text_of(&flow["flow"]["id"]);
    let mut claims = server.claim("i", 10).await;
    let counts = server.flow(&id).await["counts"].clone();
    assert_eq!((&counts["total"], &counts["active"], &counts["held"]), (&json!(3), &json!(1), &json!(2)));
    let graph = server.read(&format!("flows/{id}/graph")).await;
    let held =
        graph["nodes"].as_array().expect("nodes is an array").iter().filter(|node| node["state"] == "held");
    assert_eq!(held.count(), 2);
    for _ in 0..3 {
        server.complete("i", &claims.remove(0), json!(null)).await;
        claims.extend(server.claim("i", 10).await);
    }
    assert_eq!(server.flow_result(&id).await["outcome"], "completed");
    assert_eq!(server.flow(&id).await["counts"]["held"], 0);
}

#[tokio::test]
async fn a_held_execution_can_be_cancelled_and_is_then_no_longer_held() {
    let server = Server::start().await;
    let first = submit_with_key(&server, "tenant", 1).await;
    let second = submit_with_key(&server, "tenant", 1).await;
    assert_eq!(claimed_ids(&server.claim("i", 10).await), [first]);
    let cancelled = server.post(&format!("/v1/executions/{second}/cancel"), json!({})).await.json();
    assert_eq!(cancelled["execution"]["state"], "cancelled");
    assert_eq!(cancelled["execution"]["held_reason"], json!(null));
    assert_eq!(server.read("executions?state=held").await["items"], json!([]));
}

#[tokio::test]
async fn held_executions_start_before_later_ones_while_their_key_is_always_overloaded() {
    let server = Server::start().await;
    let mut all = vec![submit_with_key(&server, "tenant", 1).await];
    let mut claim = server.claim("i", 1).await.remove(0);
    let mut started = claimed_ids(std::slice::from_ref(&claim));
    all.push(submit_with_key(&server, "tenant", 1).await);
    assert!(server.claim("i", 1).await.is_empty());
    for _ in 0..10 {
        // Newcomers wait when the slot is given back, so they come before the held execution in the claim order.
        all.push(submit_with_key(&server, "tenant", 1).await);
        server.complete("i", &claim, json!(null)).await;
        all.push(submit_with_key(&server, "tenant", 1).await);
        claim = server.claim("i", 1).await.remove(0);
        started.extend(claimed_ids(std::slice::from_ref(&claim)));
    }
    assert_eq!(started, all[..started.len()]);
    let newcomer = server.execution(&all[all.len() - 2]).await;
    assert_eq!(newcomer["state"], "held", "{newcomer}");
}

#[tokio::test]
async fn fairness_keys_take_turns_regardless_of_their_backlogs() {
    let server = Server::start().await;
    let mut many = Vec::new();
    for _ in 0..5 {
        many.push(server.submit(json!({ "kind": "k", "fairness_key": "many" })).await);
    }
    let few = server.submit(json!({ "kind": "k", "fairness_key": "few" })).await;
    let behind = server.execution(&many[1]).await;
    assert_eq!(behind["state"], "held");
    assert_eq!(
        (&behind["held_reason"]["gate"]["kind"], &behind["held_reason"]["gate"]["name"]),
        (&json!("fairness_key"), &json!("many"))
    );
    let explained = server.read(&format!("executions/{}/explain", many[1])).await;
    assert_eq!(
        (&explained["reasons"][0]["code"], &explained["reasons"][0]["ref"]),
        (&json!("fairness_turn"), &json!({ "type": "fairness_key", "id": "many" }))
    );
    assert_eq!(
        (&explained["reasons"][1]["code"], &explained["reasons"][1]["ref"]),
        (&json!("line_head"), &json!({ "type": "execution", "id": many[0] }))
    );
    let mut order = Vec::new();
    for _ in 0..6 {
        order.extend(claimed_ids(&server.claim("i", 1).await));
    }
    assert_eq!(order, [&many[0], &few, &many[1], &many[2], &many[3], &many[4]].map(String::clone));
}
