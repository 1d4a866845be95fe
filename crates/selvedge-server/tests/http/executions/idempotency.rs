//! The `Idempotency-Key` header.

use crate::support::{Reply, Server};
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
    assert_eq!(first, again);
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

#[tokio::test]
async fn a_request_that_is_idempotent_by_itself_ignores_the_key() {
    let server = Server::start().await;
    let id = server.submit(json!({ "kind": "k" })).await;
    let path = format!("/v1/executions/{id}/priority");
    for priority in [1, 2] {
        let reply = post_with_key(&server, &path, "key", json!({ "priority": priority })).await;
        assert_eq!(reply.json()["execution"]["priority"], priority);
    }
}
