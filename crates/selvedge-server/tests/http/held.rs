//! What a concurrency key or a fairness key holds: how it is shown, listed and counted, and that it goes on by itself.

use crate::client::{Server, text_of};
use crate::lanes::ids;
use serde_json::{Value, json};

async fn keyed(server: &Server, key: &str, limit: u32) -> String {
    server.submit(json!({ "kind": "k", "concurrency": { "key": key, "limit": limit } })).await
}

#[tokio::test]
async fn what_an_execution_draws_on_is_shown_as_it_was_submitted() {
    let server = Server::start().await;
    let draws = json!({
        "fairness_key": "tenant", "budgets": ["month", { "name": "day", "reserve": { "tokens": 0.000001, "cost": 12 } }],
        "quotas": ["calls", "mails"], "concurrency": { "key": "customer 7", "limit": 3 },
    });
    let mut body = draws.clone();
    body["kind"] = json!("k");
    let id = server.submit(body.clone()).await;
    let shown = server.execution(&id).await;
    for field in ["fairness_key", "budgets", "quotas", "concurrency"] {
        assert_eq!(shown[field], draws[field], "{field}");
    }
    let text = server.get(&format!("/v1/executions/{id}")).await.text();
    assert!(text.contains(r#""reserve":{"cost":12,"tokens":0.000001}"#), "{text}");
    let plain = server.execution(&server.submit(json!({ "kind": "k" })).await).await;
    assert_eq!((&plain["fairness_key"], &plain["concurrency"]), (&json!(null), &json!(null)));
    assert_eq!((&plain["budgets"], &plain["quotas"]), (&json!([]), &json!([])));

    // It is part of what the same content means.
    let named = |budgets: Value| json!({ "kind": "k", "idempotency_key": "one", "budgets": budgets });
    server.submit(named(json!(["month"]))).await;
    assert_eq!(server.post("/v1/executions", named(json!(["month"]))).await.status, 200);
    let other = server.post("/v1/executions", named(json!(["day"]))).await;
    assert_eq!(other.problem(), (409, "idempotency_mismatch".into(), "/idempotency_key".into()));
}

#[tokio::test]
async fn nodes_draw_on_what_the_defaults_of_their_flow_say() {
    let server = Server::start().await;
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
async fn a_concurrency_key_lets_so_many_run_and_holds_the_others() {
    let server = Server::start().await;
    let first = keyed(&server, "tenant", 1).await;
    let second = keyed(&server, "tenant", 1).await;
    let other = keyed(&server, "someone else", 1).await;
    let claims = server.claim("i", 10).await;
    assert_eq!(ids(&claims), [first.clone(), other.clone()]);

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
    let listed = server.shown("executions?state=held").await["items"].clone();
    assert_eq!((&listed[0]["id"], &listed[0]["held_reason"]), (&json!(second), &reason));
    assert_eq!(listed.as_array().map(Vec::len), Some(1));
    let explained = server.shown(&format!("executions/{second}/explain")).await;
    assert_eq!(explained["state"], "held");
    assert_eq!(
        (&explained["reasons"][0]["code"], &explained["reasons"][0]["ref"]),
        (&json!("concurrency_limit"), &json!("tenant"))
    );
    assert_eq!(
        (&explained["reasons"][1]["code"], &explained["reasons"][1]["ref"]),
        (&json!("holder"), &json!(first))
    );
    assert_eq!(explained["reasons"].as_array().map(Vec::len), Some(2));

    let (next, ()) = tokio::join!(server.claim_one("two"), async {
        server.until_claims_wait(1).await;
        server.complete("i", &claims[0], json!(null)).await;
    });
    assert_eq!(next["execution"]["id"], json!(second));
    let events = server.shown(&format!("executions/{second}/events")).await;
    let types: Vec<&str> =
        events["items"].as_array().expect("items").iter().filter_map(|one| one["type"].as_str()).collect();
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
    let of_type = server.shown("events?types=execution.held,execution.released").await;
    assert_eq!(of_type["items"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn a_flow_counts_what_is_held() {
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
    let graph = server.shown(&format!("flows/{id}/graph")).await;
    let held = graph["nodes"].as_array().expect("nodes").iter().filter(|node| node["state"] == "held");
    assert_eq!(held.count(), 2);
    for _ in 0..3 {
        server.complete("i", &claims.remove(0), json!(null)).await;
        claims.extend(server.claim("i", 10).await);
    }
    assert_eq!(server.flow_result(&id).await["outcome"], "completed");
    assert_eq!(server.flow(&id).await["counts"]["held"], 0);
}

#[tokio::test]
async fn what_is_held_can_be_cancelled_and_is_then_held_by_nothing() {
    let server = Server::start().await;
    let first = keyed(&server, "tenant", 1).await;
    let second = keyed(&server, "tenant", 1).await;
    assert_eq!(ids(&server.claim("i", 10).await), [first]);
    let cancelled = server.post(&format!("/v1/executions/{second}/cancel"), json!({})).await.json();
    assert_eq!(cancelled["execution"]["state"], "cancelled");
    assert_eq!(cancelled["execution"]["held_reason"], json!(null));
    assert_eq!(server.shown("executions?state=held").await["items"], json!([]));
}

#[tokio::test]
async fn fairness_keys_take_turns_however_many_wait_with_one_of_them() {
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
    let explained = server.shown(&format!("executions/{}/explain", many[1])).await;
    assert_eq!(
        (&explained["reasons"][0]["code"], &explained["reasons"][0]["ref"]),
        (&json!("fairness_turn"), &json!("many"))
    );
    let mut order = Vec::new();
    for _ in 0..6 {
        order.extend(ids(&server.claim("i", 1).await));
    }
    assert_eq!(order, [&many[0], &few, &many[1], &many[2], &many[3], &many[4]].map(String::clone));
}
