//! Signals: delivery, idempotency keys, lists and events.

use crate::support::{Reply, Server, text_of};
use serde_json::{Value, json};

async fn send(server: &Server, id: &str, headers: &[(&str, &str)], body: Value) -> Reply {
    let path = format!("/v1/executions/{id}/signals");
    server.send("POST", &path, headers, body.to_string().into()).await
}

fn problem(status: u16, code: &str, pointer: &str) -> (u16, String, String) {
    (status, code.into(), pointer.into())
}

#[tokio::test]
async fn a_signal_with_a_key_is_delivered_once() {
    let server = Server::start().await;
    let id = server.submit(json!({ "kind": "k" })).await;
    let body = json!({ "name": "go", "payload": { "a": 1 }, "idempotency_key": "one" });
    let first = server.signal(&id, body.clone()).await;
    let signal = json!({ "number": 1, "name": "go", "source": "admin" });
    assert_eq!(first, json!({ "signal": signal, "duplicate": false, "effect": "buffered" }));
    let again = server.signal(&id, body.clone()).await;
    assert_eq!(again, json!({ "signal": signal, "duplicate": true, "effect": "buffered" }));
    let mut other = body;
    other["payload"] = json!(2);
    let reply = send(&server, &id, &[], other).await;
    assert_eq!(reply.problem(), problem(409, "idempotency_mismatch", "/idempotency_key"));
    assert_eq!(server.list_of(&id, "signals").await.len(), 1);
}

#[tokio::test]
async fn the_idempotency_key_header_is_the_default_key_of_a_signal() {
    let server = Server::start().await;
    let id = server.submit(json!({ "kind": "k" })).await;
    let header = [("idempotency-key", "one")];
    let first = send(&server, &id, &header, json!({ "name": "go" })).await.json();
    assert_eq!(first["duplicate"], false);
    let again = send(&server, &id, &header, json!({ "name": "go" })).await.json();
    assert_eq!((&again["duplicate"], &again["signal"]), (&json!(true), &first["signal"]));
    // The key in the body is the same kind of key, and takes precedence over the header.
    assert_eq!(
        server.signal(&id, json!({ "name": "go", "idempotency_key": "one" })).await["duplicate"],
        true
    );
    let own = send(&server, &id, &header, json!({ "name": "go", "idempotency_key": "two" })).await.json();
    assert_eq!((&own["duplicate"], &own["signal"]["number"]), (&json!(false), &json!(2)));
    let reply = send(&server, &id, &header, json!({ "name": "stop" })).await;
    assert_eq!(reply.problem(), problem(409, "idempotency_mismatch", "/headers/idempotency-key"));
    let long = "x".repeat(513);
    let reply = send(&server, &id, &[("idempotency-key", &long)], json!({ "name": "go" })).await;
    assert_eq!(reply.problem(), problem(422, "invalid_field", "/headers/idempotency-key"));
}

#[tokio::test]
async fn an_invalid_field_of_a_signal_is_named() {
    let server = Server::start().await;
    let id = server.submit(json!({ "kind": "k" })).await;
    let long = "x".repeat(201);
    for (body, code, pointer) in [
        (json!({}), "invalid_field", "/name"),
        (json!({ "name": "" }), "invalid_field", "/name"),
        (json!({ "name": 7 }), "invalid_field", "/name"),
        (json!({ "name": long }), "invalid_field", "/name"),
        (json!({ "name": "a\u{0}" }), "invalid_field", "/name"),
        (json!({ "name": "go", "source": "" }), "invalid_field", "/source"),
        (json!({ "name": "go", "source": long }), "invalid_field", "/source"),
        (json!({ "name": "go", "idempotency_key": "x".repeat(513) }), "invalid_field", "/idempotency_key"),
        (json!({ "name": "go", "idempotency_key": 1 }), "invalid_field", "/idempotency_key"),
        (json!({ "name": "go", "pay": 1 }), "unknown_field", "/pay"),
        (json!({ "name": "go", "namespace": "other" }), "unknown_field", "/namespace"),
    ] {
        assert_eq!(
            send(&server, &id, &[], body.clone()).await.problem(),
            problem(422, code, pointer),
            "{body}"
        );
    }
    let body = json!({ "name": "go", "payload": "x".repeat(256 * 1024) });
    assert_eq!(send(&server, &id, &[], body).await.problem(), problem(413, "payload_too_large", "/payload"));
    let reply = server.post_text(&format!("/v1/executions/{id}/signals"), "{").await;
    assert_eq!(reply.problem(), problem(400, "invalid_json", ""));
    assert_eq!(server.list_of(&id, "signals").await, [Value::Null; 0]);
    assert_eq!(server.execution(&id).await["version"], 1, "nothing was changed");
}

#[tokio::test]
async fn signals_are_listed_in_the_order_of_their_delivery() {
    let server = Server::start().await;
    let id = server.submit(json!({ "kind": "k" })).await;
    for number in 1..=5 {
        let body = json!({ "name": format!("s{number}"), "payload": number, "idempotency_key": format!("k{number}") });
        server.signal(&id, body).await;
    }
    let mut seen = Vec::new();
    let mut path = format!("/v1/executions/{id}/signals?limit=2");
    loop {
        let page = server.get(&path).await.json();
        seen.extend(page["items"].as_array().expect("items is an array").clone());
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        path = format!("/v1/executions/{id}/signals?limit=2&cursor={cursor}");
    }
    let names: Vec<String> = seen.iter().map(|signal| text_of(&signal["name"])).collect();
    assert_eq!(names, ["s1", "s2", "s3", "s4", "s5"]);
    let first = &seen[0];
    assert!(text_of(&first["delivered_at"]).ends_with('Z'), "{first}");
    for (field, value) in [
        ("number", json!(1)),
        ("source", json!("admin")),
        ("waitpoint", json!(null)),
        ("waitpoint_id", json!(null)),
        ("payload", json!(1)),
        ("effect", json!("buffered")),
        ("taken_by", json!(null)),
        ("idempotency_key", json!("k1")),
    ] {
        assert_eq!(first[field], value, "{field}");
    }
    for list in ["signals", "steps", "waitpoints"] {
        let reply = server.get(&format!("/v1/executions/{id}/{list}?cursor=x")).await;
        assert_eq!(reply.problem(), problem(400, "invalid_cursor", ""));
        let reply = server.get(&format!("/v1/executions/{id}/{list}?limit=501")).await;
        assert_eq!(reply.problem(), problem(422, "invalid_field", "/query/limit"));
        let reply = server.get(&format!("/v1/executions/{id}/{list}?after=1")).await;
        assert_eq!(reply.problem(), problem(422, "unknown_field", "/query/after"));
    }
}

#[tokio::test]
async fn a_delivery_emits_an_event_without_the_payload() {
    let server = Server::start().await;
    let id = server.submit(json!({ "kind": "k" })).await;
    server.signal(&id, json!({ "name": "go", "payload": "for its claim only", "source": "ann" })).await;
    let events = server.get("/v1/events?types=signal.delivered").await;
    let event = events.json()["items"][0].clone();
    let data = json!({ "number": 1, "name": "go", "source": "ann", "effect": "buffered", "waitpoint": null });
    assert_eq!((&event["execution"], &event["data"]), (&json!(id), &data));
    assert!(!events.text().contains("for its claim only"));
}

#[tokio::test]
async fn a_page_of_large_signals_is_short_and_names_the_next_one() {
    const SIGNALS: u64 = 12;
    let server = Server::start().await;
    let id = server.submit(json!({ "kind": "k" })).await;
    for _ in 0..SIGNALS {
        server.signal(&id, json!({ "name": "go", "payload": "x".repeat(250_000) })).await;
    }
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = server.get(&format!("/v1/executions/{id}/signals?limit=500{cursor}")).await.json();
        let items = page["items"].as_array().expect("there are items");
        assert!(items.len() <= 5, "{} signals of 250 kB in one page", items.len());
        seen.extend(items.iter().map(|signal| signal["number"].as_u64().expect("a number")));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(seen, (1..=SIGNALS).collect::<Vec<_>>());
}
