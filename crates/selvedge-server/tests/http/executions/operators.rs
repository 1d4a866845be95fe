//! Operator actions on one execution.

use crate::support::{Server, op, text_of};
use serde_json::{Value, json};

async fn act(server: &Server, id: &str, action: &str, body: Value) -> Value {
    let reply = server.post(&format!("/v1/executions/{id}/{action}"), body).await;
    assert_eq!(reply.status, 200, "{action}: {}", reply.text());
    reply.json()["execution"].clone()
}

#[tokio::test]
async fn every_action_returns_the_changed_execution() {
    let server = Server::start().await;
    let id = server.submit(json!({ "kind": "k", "input": "in", "tags": { "a": "1" } })).await;
    assert_eq!(act(&server, &id, "priority", json!({ "priority": 7 })).await["priority"], 7);
    let tagged = act(&server, &id, "tags", json!({ "set": { "b": "2" }, "remove": ["a"] })).await;
    assert_eq!(tagged["tags"], json!({ "b": "2" }));
    let at = json!({ "until_at": "2100-01-01T00:00:00Z" });
    let rescheduled = act(&server, &id, "reschedule", at).await;
    assert_eq!(
        (&rescheduled["state"], &rescheduled["delayed_until_at"]),
        (&json!("delayed"), &json!("2100-01-01T00:00:00.000Z"))
    );
    assert_eq!(act(&server, &id, "reschedule", json!({ "delay_ms": 0 })).await["state"], "waiting");
    let claim = server.claim("i", 1).await.remove(0);
    assert_eq!(act(&server, &id, "revoke-lease", json!({ "reason": "r" })).await["state"], "waiting");
    assert!(server.report("i", op("complete", &claim)).await["error"].is_object());
    let cancelled = act(&server, &id, "cancel", json!({ "reason": "r" })).await;
    assert_eq!((&cancelled["state"], &cancelled["outcome"]), (&json!("cancelled"), &json!("cancelled")));
    let left_out = ["input", "result", "progress"].map(|field| cancelled.get(field));
    assert_eq!(left_out, [None; 3], "payloads are read with GET");
    assert_eq!(server.execution(&id).await["input"], "in");
    let replayed = act(&server, &id, "replay", json!({})).await;
    assert_eq!((&replayed["state"], &replayed["generation"]), (&json!("waiting"), &json!(1)));

    let events = server.get(&format!("/v1/executions/{id}/events")).await.json();
    let actors: Vec<&Value> = events["items"]
        .as_array()
        .expect("items is an array")
        .iter()
        .filter(|event| text_of(&event["type"]).starts_with("operator."))
        .map(|event| &event["actor"])
        .collect();
    assert!(actors.len() >= 4 && actors.iter().all(|actor| **actor == "admin"), "{actors:?}");
}

#[tokio::test]
async fn an_action_without_a_body_uses_the_defaults() {
    let server = Server::start().await;
    let id = server.submit(json!({ "kind": "k" })).await;
    let reply = server.post_text(&format!("/v1/executions/{id}/cancel"), "").await;
    assert_eq!(reply.json()["execution"]["state"], "cancelled");
}

#[tokio::test]
async fn an_action_that_does_not_apply_is_a_conflict() {
    let server = Server::start().await;
    let id = server.submit(json!({ "kind": "k" })).await;
    let path = |action: &str| format!("/v1/executions/{id}/{action}");
    let conflict = |code: &str| (409, code.to_owned(), String::new());
    for action in ["replay", "revoke-lease"] {
        let reply = server.post(&path(action), json!({})).await;
        assert_eq!(reply.problem(), conflict("wrong_state"));
    }
    let reply = server.post(&path("replay"), json!({ "dry_run": true })).await;
    assert_eq!(reply.problem(), conflict("wrong_state"));
    let reply = server.post(&path("priority"), json!({ "priority": 1, "if_version": 9 })).await;
    assert_eq!(reply.problem(), conflict("version_mismatch"));
    let reply = server.post(&path("priority"), json!({ "priority": 1, "if_version": 1 })).await;
    assert_eq!(reply.json()["execution"]["version"], 2);
    server.post(&path("cancel"), json!({})).await;
    let reply = server.post(&path("priority"), json!({ "priority": 2 })).await;
    assert_eq!(reply.problem(), conflict("already_terminal"));
}

#[tokio::test]
async fn an_invalid_field_of_an_action_is_named() {
    let server = Server::start().await;
    let id = server.submit(json!({ "kind": "k" })).await;
    for (action, body, pointer) in [
        ("cancel", json!({ "grace_ms": -1 }), "/grace_ms"),
        ("cancel", json!({ "reason": "\u{0}" }), "/reason"),
        ("cancel", json!({ "if_version": "1" }), "/if_version"),
        ("priority", json!({}), "/priority"),
        ("priority", json!({ "priority": 99_999 }), "/priority"),
        ("reschedule", json!({}), "/until_at"),
        ("reschedule", json!({ "delay_ms": -1 }), "/delay_ms"),
        ("tags", json!({ "set": { "a:b": "" } }), "/set/a:b"),
        ("tags", json!({ "remove": [1] }), "/remove/0"),
        ("replay", json!({ "dry_run": "yes" }), "/dry_run"),
    ] {
        let reply = server.post(&format!("/v1/executions/{id}/{action}"), body.clone()).await;
        assert_eq!(reply.problem(), (422, "invalid_field".into(), pointer.into()), "{body}");
    }
    let reply = server.post(&format!("/v1/executions/{id}/cancel"), json!({ "x": 1 })).await;
    assert_eq!(reply.problem(), (422, "unknown_field".into(), "/x".into()));
    assert_eq!(server.execution(&id).await["version"], 1);
}

#[tokio::test]
async fn a_dry_run_of_a_replay_changes_nothing() {
    let server = Server::start().await;
    let id = server.submit(json!({ "kind": "k" })).await;
    server.post(&format!("/v1/executions/{id}/cancel"), json!({})).await;
    let reply = server.post(&format!("/v1/executions/{id}/replay"), json!({ "dry_run": true })).await;
    assert_eq!((reply.status, &reply.json()["would_reopen"]), (200, &json!([])));
    assert_eq!(reply.json()["execution"]["id"], json!(id));
    assert_eq!(server.execution(&id).await["state"], "cancelled");
}
