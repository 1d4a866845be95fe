//! The `Idempotency-Key` header.

use crate::support::{Reply, Server, op, text_of};
use serde_json::{Value, json};

/// Posts `body` with an `Idempotency-Key`.
async fn post_with_key(server: &Server, path: &str, key: &str, body: Value) -> Reply {
    server.send("POST", path, &[("idempotency-key", key)], body.to_string().into()).await
}

fn mismatch() -> (u16, String, String) {
    (409, "idempotency_mismatch".into(), "/headers/idempotency-key".into())
}

#[tokio::test]
async fn a_repeated_submission_is_a_duplicate_and_with_another_body_a_conflict() {
    let server = Server::start().await;
    let first = post_with_key(&server, "/v1/executions", "key", json!({ "kind": "k" })).await;
    assert_eq!(first.status, 201);
    let again = post_with_key(&server, "/v1/executions", "key", json!({ "kind": "k" })).await;
    assert_eq!((again.status, &again.json()["duplicate"]), (200, &json!(true)));
    assert_eq!(again.json()["execution"]["id"], first.json()["execution"]["id"]);
    let other = post_with_key(&server, "/v1/executions", "key", json!({ "kind": "other" })).await;
    assert_eq!(other.problem(), mismatch());
}

#[tokio::test]
async fn a_repeated_batch_gets_the_same_results_and_with_another_body_a_conflict() {
    let server = Server::start().await;
    let body = json!({ "executions": [{ "kind": "a" }, { "kind": "" }, { "kind": "b" }] });
    let first =
        post_with_key(&server, "/v1/executions/batch", "key", body.clone()).await.json()["results"].clone();
    let again = post_with_key(&server, "/v1/executions/batch", "key", body).await.json()["results"].clone();
    assert_eq!(first[0]["execution"]["id"], again[0]["execution"]["id"]);
    assert_eq!(first[2]["execution"]["id"], again[2]["execution"]["id"]);
    assert_eq!((&again[0]["duplicate"], &again[2]["duplicate"]), (&json!(true), &json!(true)));
    assert_eq!(first[1], again[1]);
    assert_eq!(again[1]["error"]["pointer"], "/executions/1/kind");
    let other = json!({ "executions": [{ "kind": "other" }] });
    assert_eq!(post_with_key(&server, "/v1/executions/batch", "key", other).await.problem(), mismatch());
}

#[tokio::test]
async fn a_repeated_claim_returns_the_same_leases() {
    let server = Server::start().await;
    server.submit(json!({ "kind": "k" })).await;
    server.submit(json!({ "kind": "k" })).await;
    let body = json!({ "worker": "w", "lanes": ["default"], "max": 1 });
    let first = post_with_key(&server, "/v1/workers/i/claim", "key", body.clone()).await.json();
    let again = post_with_key(&server, "/v1/workers/i/claim", "key", body.clone()).await.json();
    assert_eq!(first["claims"].as_array().map(Vec::len), Some(1));
    assert_eq!(first["claims"], again["claims"]);
    assert_eq!((&first["duplicate"], &again["duplicate"]), (&json!(false), &json!(true)));
    let new = post_with_key(&server, "/v1/workers/i/claim", "new key", body).await.json();
    assert_ne!(new["claims"][0]["lease"]["id"], first["claims"][0]["lease"]["id"]);
}

#[tokio::test]
async fn a_malformed_key_is_refused() {
    let server = Server::start().await;
    let long = "k".repeat(513);
    for key in ["", long.as_str(), "a\tb"] {
        let reply = post_with_key(&server, "/v1/executions", key, json!({ "kind": "k" })).await;
        let expected = (422, "invalid_field".into(), "/headers/idempotency-key".into());
        assert_eq!(reply.problem(), expected, "{key:?}");
    }
}

/// Posts the same body twice with one key. The second answer is a duplicate; a different body is a conflict.
async fn post_twice(server: &Server, path: &str, body: Value) -> (Value, Value) {
    let first = post_with_key(server, path, path, body.clone()).await;
    assert!(first.status < 300, "{path}: {}", first.text());
    let again = post_with_key(server, path, path, body).await;
    assert_eq!(again.status, 200, "{path}: {}", again.text());
    let (first, again) = (first.json(), again.json());
    assert_eq!((&first["duplicate"], &again["duplicate"]), (&json!(false), &json!(true)), "{path}");
    let other = post_with_key(server, path, path, json!({ "other": true })).await;
    assert!(matches!(other.status, 409 | 422), "{path}: {}", other.text());
    (first, again)
}

#[tokio::test]
async fn a_repeated_operator_action_changes_nothing() {
    let server = Server::start().await;
    let (id, claim) = server.submit_and_claim().await;
    let of = |action: &str| format!("/v1/executions/{id}/{action}");
    let (first, again) = post_twice(&server, &of("priority"), json!({ "priority": 3 })).await;
    assert_eq!(first["execution"]["version"], again["execution"]["version"]);
    post_twice(&server, &of("tags"), json!({ "set": { "a": "b" } })).await;
    server.complete("i", &claim, json!(1)).await;

    let replay = of("replay");
    let first = post_with_key(&server, &replay, "replay", json!({})).await.json();
    assert_eq!((&first["execution"]["generation"], &first["duplicate"]), (&json!(1), &json!(false)));
    let claim = server.claim("i", 1).await.remove(0);
    server.complete("i", &claim, json!(2)).await;
    let again = post_with_key(&server, &replay, "replay", json!({})).await.json();
    assert_eq!((&again["execution"]["generation"], &again["duplicate"]), (&json!(1), &json!(true)));
    assert_eq!(again["execution"]["state"], "completed", "it was not replayed again");
    let other = post_with_key(&server, &replay, "replay", json!({ "dry_run": false })).await;
    assert_eq!(other.problem(), mismatch());
    assert_eq!(post_with_key(&server, &of("cancel"), "replay", json!({})).await.problem(), mismatch());

    let id = server.submit(json!({ "kind": "k" })).await;
    let of = |action: &str| format!("/v1/executions/{id}/{action}");
    post_twice(&server, &of("reschedule"), json!({ "delay_ms": 0 })).await;
    let claim = server.claim("i", 1).await.remove(0);
    let (first, again) = post_twice(&server, &of("revoke-lease"), json!({})).await;
    assert_eq!(first["execution"]["version"], again["execution"]["version"]);
    assert_eq!(server.report("i", op("complete", &claim)).await["error"]["code"], "stale_lease");
    let claim = server.claim("i", 1).await.remove(0);
    assert_eq!(post_with_key(&server, &of("revoke-lease"), &of("revoke-lease"), json!({})).await.status, 200);
    assert_eq!(server.execution(&id).await["state"], "active", "the repeat does not revoke the next lease");
    server.suspend("i", &claim, json!({ "condition": { "operator": true } })).await;
    post_twice(&server, &of("resume"), json!({})).await;
    post_twice(&server, &of("cancel"), json!({ "reason": "enough" })).await;
}

#[tokio::test]
async fn a_refused_call_may_be_repeated_with_its_key() {
    let server = Server::start().await;
    let (id, claim) = server.submit_and_claim().await;
    let replay = format!("/v1/executions/{id}/replay");
    assert_eq!(post_with_key(&server, &replay, "key", json!({})).await.problem().1, "wrong_state");
    server.complete("i", &claim, json!(1)).await;
    let replayed = post_with_key(&server, &replay, "key", json!({})).await.json();
    assert_eq!((&replayed["execution"]["state"], &replayed["duplicate"]), (&json!("waiting"), &json!(false)));
}

#[tokio::test]
async fn a_repeated_bulk_action_acts_on_the_executions_of_the_first_one() {
    let server = Server::start().await;
    let (id, claim) = server.submit_and_claim().await;
    let running = server.submit(json!({ "kind": "k" })).await;
    server.complete("i", &claim, json!(1)).await;
    let body = json!({ "action": { "type": "replay" }, "ids": [id, running] });
    let (first, again) = post_twice(&server, "/v1/executions/bulk", body.clone()).await;
    assert_eq!((&first["done"], &first["ids"]), (&json!(1), &json!([id])));
    for claim in server.claim("i", 2).await {
        server.complete("i", &claim, json!(2)).await;
    }
    let later = post_with_key(&server, "/v1/executions/bulk", "/v1/executions/bulk", body).await.json();
    for field in ["matched", "done", "ids", "refused"] {
        assert_eq!((&again[field], &later[field]), (&first[field], &first[field]), "{field}");
    }
    assert_eq!(server.execution(&id).await["generation"], 1, "it was replayed once");
    assert_eq!(server.execution(&running).await["generation"], 0, "it was refused, and stays refused");

    let by_filter = json!({ "action": { "type": "cancel" }, "filter": { "kind": "more" } });
    let old = server.submit(json!({ "kind": "more" })).await;
    let first = post_with_key(&server, "/v1/executions/bulk", "filter", by_filter.clone()).await.json();
    let new = server.submit(json!({ "kind": "more" })).await;
    let again = post_with_key(&server, "/v1/executions/bulk", "filter", by_filter).await.json();
    assert_eq!((&first["ids"], &again["ids"]), (&json!([old]), &json!([old])));
    assert_eq!(server.execution(&new).await["state"], "waiting");
}

#[tokio::test]
async fn a_repeated_growth_and_a_repeated_cancel_of_a_flow_are_duplicates() {
    let server = Server::start().await;
    let flow = server.submit_flow(json!({ "nodes": [{ "name": "a", "kind": "k" }] })).await;
    let of = |call: &str| format!("/v1/flows/{}/{call}", text_of(&flow["flow"]["id"]));
    let more = json!({ "nodes": [{ "name": "b", "kind": "k" }], "edges": [{ "from": "a", "to": "b" }] });
    let (first, again) = post_twice(&server, &of("nodes"), more).await;
    assert_eq!(first["executions"], again["executions"]);
    post_twice(&server, &of("cancel"), json!({ "wait_ms": 10_000 })).await;
    let lone = server.submit(json!({ "kind": "k" })).await;
    post_twice(&server, &format!("/v1/flows/{lone}/cancel"), json!({})).await;
}

#[tokio::test]
async fn a_repeated_reset_keeps_newer_usage_and_a_repeated_rotation_makes_one_key() {
    let server = Server::start().await;
    let limits = json!({ "limits": { "tokens": { "hard": 100 } }, "scope": "lane" });
    server.configure("budgets/b", limits).await;
    let (id, _) = server.submit_and_claim().await;
    let spend = json!({ "usage": { "tokens": 5 }, "execution": id });
    server.post("/v1/budgets/b/usage", spend.clone()).await;
    let used = async || server.read("budgets/b").await["parts"][0]["usage"]["tokens"].clone();
    assert_eq!(used().await, json!(5));
    let (first, again) = post_twice(&server, "/v1/budgets/b/reset", json!({})).await;
    assert_eq!(first["budget"]["name"], again["budget"]["name"]);
    assert_eq!(used().await, Value::Null);
    server.post("/v1/budgets/b/usage", spend).await;
    let path = "/v1/budgets/b/reset";
    assert_eq!(post_with_key(&server, path, path, json!({})).await.json()["duplicate"], true);
    assert_eq!(used().await, json!(5), "the repeat does not clear newer usage");

    let (first, again) =
        post_twice(&server, "/v1/admin/waitpoint-keys/rotate", json!({ "grace_ms": 1000 })).await;
    assert_eq!(first["key_id"], again["key_id"]);
}

#[tokio::test]
async fn a_repeated_drain_does_not_drain_the_worker_that_came_back() {
    let server = Server::start().await;
    server.claim("i", 1).await;
    post_twice(&server, "/v1/workers/i/drain", json!({})).await;
    server.delete("/v1/workers/i").await;
    let id = server.submit(json!({ "kind": "k" })).await;
    let path = "/v1/workers/i/drain";
    assert_eq!(post_with_key(&server, path, path, json!({})).await.json()["duplicate"], true);
    assert_eq!(server.claim("i", 1).await[0]["execution"]["id"], json!(id));
}

#[tokio::test]
async fn a_repeated_pause_does_not_pause_a_lane_that_was_resumed() {
    let server = Server::start().await;
    let path = "/v1/lanes/mail/pause";
    post_twice(&server, path, json!({})).await;
    assert_eq!(server.post("/v1/lanes/mail/resume", json!({})).await.status, 200);
    assert_eq!(post_with_key(&server, path, path, json!({})).await.json()["duplicate"], true);
    assert_eq!(server.read("lanes/mail").await["state"], "active");
}

#[tokio::test]
async fn a_repeated_reissue_ends_no_newer_token_and_gets_none() {
    let server = Server::start().await;
    let (_, claim) = server.submit_and_claim().await;
    let mut op = op("waitpoint", &claim);
    op["name"] = json!("approval");
    let created = server.report("i", op).await;
    let id = text_of(&created["waitpoints"][0]["id"]);
    let path = format!("/v1/waitpoints/{id}/reissue");
    let (first, again) = post_twice(&server, &path, json!({})).await;
    assert!(first["token"].is_string() && again["token"].is_null(), "{again}");
    let token = text_of(&first["token"]);
    let reply = server.post(&format!("/v1/waitpoints/{id}/look"), json!({ "token": token })).await;
    assert_eq!(reply.status, 200, "the repeat has not ended the token: {}", reply.text());
}
