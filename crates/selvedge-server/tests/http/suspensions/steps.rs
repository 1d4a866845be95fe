//! Durable steps: each is recorded once and carried by every later claim.

use crate::support::{Server, op, op_with, text_of};
use serde_json::{Value, json};

async fn record(server: &Server, claim: &Value, fields: Value) -> Value {
    server.report("i", op_with("step", claim, fields)).await
}

#[tokio::test]
async fn a_step_is_recorded_once_and_carried_by_the_next_attempt() {
    let server = Server::start().await;
    let id = server.submit(json!({ "kind": "k" })).await;
    let claim = server.claim("i", 1).await.remove(0);
    let recorded = json!({ "ok": true, "state": "active" });
    let body = json!({ "name": "charge", "result": { "id": 7 }, "duration_ms": 1500 });
    assert_eq!(record(&server, &claim, body.clone()).await, recorded);
    assert_eq!(record(&server, &claim, body).await, recorded, "a repeat changes nothing");
    assert_eq!(record(&server, &claim, json!({ "name": "nothing" })).await, recorded);
    let spawned = json!({ "name": "spawned", "kind": "spawn", "result": ["one"] });
    assert_eq!(record(&server, &claim, spawned).await, recorded);
    let other = record(&server, &claim, json!({ "name": "charge", "result": 8 })).await["error"].clone();
    assert_eq!((&other["code"], &other["pointer"]), (&json!("idempotency_mismatch"), &json!("/ops/0/name")));

    server.report("i", op("release", &claim)).await;
    let claim = server.claim("i", 1).await.remove(0);
    let steps = json!({ "charge": { "id": 7 }, "nothing": null, "spawned": ["one"] });
    assert_eq!((&claim["steps"], &claim["resumed_by"]), (&steps, &json!(null)));

    let steps = server.list_of(&id, "steps?limit=2").await;
    let first = &steps[0];
    for (field, value) in [
        ("number", json!(1)),
        ("name", json!("charge")),
        ("kind", json!("step")),
        ("attempt", json!(0)),
        ("state", json!("recorded")),
        ("duration_ms", json!(1500)),
        ("result", json!({ "id": 7 })),
    ] {
        assert_eq!(first[field], value, "{field}");
    }
    assert!(text_of(&first["started_at"]) < text_of(&first["recorded_at"]));
    let page = server.get(&format!("/v1/executions/{id}/steps?limit=2")).await.json();
    let next = text_of(&page["next_cursor"]);
    let rest = server.get(&format!("/v1/executions/{id}/steps?limit=2&cursor={next}")).await.json();
    assert_eq!((&rest["items"][0]["name"], &rest["next_cursor"]), (&json!("spawned"), &json!(null)));
    let events = server.get("/v1/events?types=step.recorded").await.json();
    let data = json!({ "name": "charge", "kind": "step", "attempt": 0, "duration_ms": 1500 });
    assert_eq!((&events["items"][0]["data"], events["items"].as_array().map(Vec::len)), (&data, Some(3)));
}

#[tokio::test]
async fn the_result_of_a_step_is_kept_byte_for_byte() {
    let server = Server::start().await;
    let id = server.submit(json!({ "kind": "k" })).await;
    let claim = server.claim("i", 1).await.remove(0);
    let result = r#"{"z": 1.0e+2, "a":  [ 1,2 ], "é":"\u0000"}"#;
    let fence = op_with("step", &claim, json!({ "name": "s" })).to_string();
    let body = format!(r#"{{"ops": [{}, "result":  {result} }}]}}"#, fence.trim_end_matches('}'));
    server.post_text("/v1/workers/i/report", &body).await;
    let list = server.get(&format!("/v1/executions/{id}/steps")).await.text();
    assert!(list.contains(&format!(r#""result":{result}}}"#)), "{list}");
    server.report("i", op("release", &claim)).await;
    let claim = r#"{"worker": "w", "lanes": ["default"], "max": 1}"#;
    let claim = server.post_text("/v1/workers/i/claim", claim).await.text();
    assert!(claim.contains(&format!(r#""steps":{{"s":{result}}}"#)), "{claim}");
}

#[tokio::test]
async fn an_invalid_field_of_a_step_is_named() {
    let server = Server::start().await;
    server.submit(json!({ "kind": "k" })).await;
    let claim = server.claim("i", 1).await.remove(0);
    for (body, status, code, pointer) in [
        (json!({}), 422, "invalid_field", "/ops/0/name"),
        (json!({ "name": "" }), 422, "invalid_field", "/ops/0/name"),
        (json!({ "name": ["a"] }), 422, "invalid_field", "/ops/0/name"),
        (json!({ "name": "s", "kind": "odd" }), 422, "invalid_field", "/ops/0/kind"),
        (json!({ "name": "s", "duration_ms": -1 }), 422, "invalid_field", "/ops/0/duration_ms"),
        (json!({ "name": "s", "duration_ms": "1" }), 422, "invalid_field", "/ops/0/duration_ms"),
        (json!({ "name": "s", "results": 1 }), 422, "unknown_field", "/ops/0/results"),
        (
            json!({ "name": "s", "result": "x".repeat(1024 * 1024) }),
            413,
            "payload_too_large",
            "/ops/0/result",
        ),
    ] {
        let refused = record(&server, &claim, body.clone()).await["error"].clone();
        crate::support::check_problem(&refused);
        let actual = (&refused["status"], &refused["code"], &refused["pointer"]);
        assert_eq!(actual, (&json!(status), &json!(code), &json!(pointer)), "{refused}");
    }
}

#[tokio::test]
async fn the_steps_and_signals_of_an_execution_have_a_size_limit() {
    let server = Server::start().await;
    let id = server.submit(json!({ "kind": "k" })).await;
    let claim = server.claim("i", 1).await.remove(0);
    let result = "x".repeat(1024 * 1024 - 2);
    for number in 0..16 {
        let step = json!({ "name": format!("s{number}"), "result": result });
        assert_eq!(record(&server, &claim, step).await["ok"], true, "{number}");
    }
    let refused = record(&server, &claim, json!({ "name": "more", "result": 1 })).await["error"].clone();
    crate::support::check_problem(&refused);
    assert_eq!((&refused["status"], &refused["code"]), (&json!(409), &json!("limit_reached")));
    let reply = server.post(&format!("/v1/executions/{id}/signals"), json!({ "name": "go" })).await;
    assert_eq!(reply.problem(), (409, "limit_reached".into(), "".into()));
    server.complete("i", &claim, json!(null)).await;
}
