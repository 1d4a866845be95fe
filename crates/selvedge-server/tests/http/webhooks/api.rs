//! Webhooks are created, changed, listed, deleted, and refused.

use super::{Answer, Receiver, create, deliveries, quick, start, wait_for};
use crate::auth;
use crate::support::Server;
use selvedge_server::WebhookOptions;
use serde_json::json;
use std::time::Duration;

#[tokio::test]
async fn a_webhook_is_created_with_its_secret_once_changed_and_deleted() {
    let server = start(quick()).await;
    let body = json!({ "url": "https://example.com/hook?key=1", "types": ["execution.failed", "execution.completed"],
        "filter": { "tag": "team:blue" } });
    let created = server.put("/v1/webhooks/audit", body.clone()).await;
    assert_eq!(created.status, 201, "{}", created.text());
    assert_eq!(created.header("cache-control"), "no-store");
    let created = created.json();
    assert!(created["secret"].as_str().is_some_and(|secret| secret.starts_with("whsec_")), "{created}");
    assert_eq!(created["types"], json!(["execution.completed", "execution.failed"]));
    assert_eq!(created["filter"]["tag"], "team:blue");
    assert_eq!((&created["paused"], &created["missed"]), (&json!(false), &json!(0)));
    let again = server.put("/v1/webhooks/audit", body).await;
    assert_eq!(again.status, 200);
    assert!(again.json().get("secret").is_none(), "{}", again.text());
    let patched =
        server.patch("/v1/webhooks/audit", json!({ "types": ["*"], "filter": null, "paused": true })).await;
    let patched = patched.json();
    assert_eq!(patched["types"], json!(["*"]));
    assert_eq!(patched["filter"], json!({ "execution": null, "flow": null, "tag": null }));
    assert_eq!((&patched["paused"], &patched["paused_reason"]), (&json!(true), &json!("operator")));
    assert_eq!(patched["url"], "https://example.com/hook?key=1");
    let resumed = server.patch("/v1/webhooks/audit", json!({ "paused": null })).await.json();
    assert_eq!(resumed["paused"], false);
    for name in ["b", "a"] {
        create(&server, name, "https://example.com/", &["*"]).await;
    }
    let first = server.read("webhooks?limit=2").await;
    let names: Vec<_> =
        first["items"].as_array().expect("items").iter().map(|one| one["name"].clone()).collect();
    assert_eq!(names, ["a", "audit"]);
    let cursor = first["next_cursor"].as_str().expect("there is more");
    let second = server.read(&format!("webhooks?cursor={cursor}")).await;
    assert_eq!((&second["items"][0]["name"], &second["next_cursor"]), (&json!("b"), &json!(null)));
    assert_eq!(server.delete("/v1/webhooks/audit").await.json(), json!({ "name": "audit", "removed": true }));
    assert_eq!(server.get("/v1/webhooks/audit").await.status, 404);
    assert_eq!(server.delete("/v1/webhooks/audit").await.status, 404);
    assert_eq!(server.get("/v1/webhooks/audit/deliveries").await.status, 404);
    let types = "webhook.created,webhook.changed,webhook.deleted,webhook.paused";
    let events = server.read(&format!("events?types={types}")).await;
    let kinds: Vec<_> =
        events["items"].as_array().expect("items").iter().map(|one| one["type"].clone()).collect();
    let expected = ["created", "paused", "changed", "created", "created", "deleted"];
    assert_eq!(kinds, expected.map(|kind| json!(format!("webhook.{kind}"))));
}

#[tokio::test]
async fn a_webhook_with_an_invalid_field_is_refused_with_its_pointer() {
    let server = Server::start().await;
    let url = "https://example.com/";
    for (body, pointer) in [
        (json!({ "types": ["*"] }), "/url"),
        (json!({ "url": url }), "/types"),
        (json!({ "url": url, "types": [] }), "/types"),
        (json!({ "url": url, "types": ["execution.succeeded"] }), "/types"),
        (json!({ "url": url, "types": ["*", "flow.completed"] }), "/types"),
        (json!({ "url": "http://example.com/", "types": ["*"] }), "/url"),
        (json!({ "url": "https://10.0.0.1/", "types": ["*"] }), "/url"),
        (json!({ "url": "https://[fd00::1]/", "types": ["*"] }), "/url"),
        (json!({ "url": "https://ada:secret@example.com/", "types": ["*"] }), "/url"),
        (json!({ "url": url, "types": ["*"], "filter": { "tag": "x" } }), "/filter/tag"),
        (json!({ "url": url, "types": ["*"], "secret": "whsec_x" }), "/secret"),
    ] {
        let reply = server.send_raw("PUT", "/v1/webhooks/w", &[], body.to_string().into()).await;
        assert_eq!(reply.status, 422, "{body}: {}", reply.text());
        assert_eq!(reply.json()["pointer"], pointer, "{body}: {}", reply.text());
        assert!(!reply.text().contains("ada:secret"), "{}", reply.text());
    }
    assert_eq!(server.get("/v1/webhooks/w").await.status, 404);
    create(&server, "w", url, &["*"]).await;
    for body in [json!({ "url": null }), json!({ "types": null }), json!({ "url": "https://127.0.0.1/" })] {
        let reply = server.send_raw("PATCH", "/v1/webhooks/w", &[], body.to_string().into()).await;
        assert_eq!(reply.status, 422, "{body}: {}", reply.text());
    }
    assert_eq!(server.patch("/v1/webhooks/none", json!({})).await.status, 404);
    assert_eq!(server.post("/v1/webhooks/none/rotate-secret", json!({ "grace_ms": 0 })).await.status, 404);
    let replay = "/v1/webhooks/w/deliveries/019a0000-0000-7000-8000-00000000000a/replay";
    assert_eq!(server.post(replay, json!({})).await.status, 404);
    assert_eq!(server.get("/v1/webhooks/w/deliveries?cursor=x").await.status, 400);
}

#[tokio::test]
async fn path_and_query_of_a_url_are_shown_to_operators_only() {
    let server = auth::start().await;
    let operator = auth::key(&server, "an operator", "operator", &["default"]).await;
    let admin = auth::key(&server, "an admin", "admin", &["default"]).await;
    let url = "https://example.com/services/planted?token=planted";
    let body = json!({ "url": url, "types": ["*"] });
    assert_eq!(auth::call(&server, &operator, "PUT", "/v1/webhooks/w", body).await.status, 201);
    for path in ["/v1/webhooks/w", "/v1/webhooks"] {
        for key in [&operator, &admin] {
            let seen = auth::call(&server, key, "GET", path, json!(null)).await.text();
            assert!(seen.contains(url), "{seen}");
        }
    }
    for role in ["reader", "submitter", "worker"] {
        let key = auth::key(&server, role, role, &["default"]).await;
        for path in ["/v1/webhooks/w", "/v1/webhooks"] {
            let seen = auth::call(&server, &key, "GET", path, json!(null)).await.text();
            assert!(
                seen.contains("\"https://example.com/…\"") && !seen.contains("planted"),
                "{role}: {seen}"
            );
        }
        let authorization = format!("Bearer {key}");
        for path in ["/webhooks", "/webhooks/w", "/v1/webhooks/w/deliveries", "/v1/events"] {
            let seen = server.send("GET", path, &[("authorization", &authorization)], Vec::new()).await;
            assert_eq!(seen.status, 200, "{path}: {}", seen.text());
            assert!(!seen.text().contains("planted"), "{role} sees it on {path}");
        }
    }
}

#[tokio::test]
async fn a_repeated_replay_and_a_repeated_rotation_change_nothing() {
    let receiver = Receiver::start().await;
    let server = start(quick()).await;
    create(&server, "w", &receiver.url(), &["execution.submitted"]).await;
    server.submit(json!({ "kind": "k" })).await;
    wait_for(&server, "w", |webhook| webhook["delivered"] == 1).await;
    let id = deliveries(&server, "w", "delivered").await[0]["id"].as_str().expect("an id").to_owned();
    let key = [("idempotency-key", "once"), ("content-type", "application/json")];
    let path = format!("/v1/webhooks/w/deliveries/{id}/replay");
    let first = server.send("POST", &path, &key, b"{}".into()).await;
    assert_eq!((first.status, &first.json()["duplicate"]), (200, &json!(false)), "{}", first.text());
    wait_for(&server, "w", |webhook| webhook["delivered"] == 2 && webhook["pending"] == 0).await;
    let second = server.send("POST", &path, &key, b"{}".into()).await;
    assert_eq!(second.json()["duplicate"], true);
    assert_eq!(second.json()["delivery"]["state"], "delivered");
    let received = receiver.received();
    assert_eq!(received.len(), 2);
    assert_eq!((received[0].id(), &received[0].raw), (received[1].id(), &received[1].raw));
    assert_eq!(received[0].id(), id);
    let key = [("idempotency-key", "twice"), ("content-type", "application/json")];
    let rotate = "/v1/webhooks/w/rotate-secret";
    let first = server.send("POST", rotate, &key, br#"{"grace_ms":60000}"#.into()).await.json();
    assert!(first["secret"].is_string() && first["duplicate"] == false, "{first}");
    let second = server.send("POST", rotate, &key, br#"{"grace_ms":60000}"#.into()).await.json();
    assert_eq!((&second["secret"], &second["duplicate"]), (&json!(null), &json!(true)));
    let webhook = server.read("webhooks/w").await;
    assert!(webhook["old_secret_expires_at"].is_string(), "{webhook}");
}

#[tokio::test]
async fn a_test_message_is_signed_sent_at_once_and_recorded_nowhere() {
    let receiver = Receiver::answering(|message, _| match message.kind() {
        "webhook.test" => Answer::Status(202),
        _ => Answer::Status(500),
    })
    .await;
    let server = start(quick()).await;
    create(&server, "audit", &receiver.url(), &["execution.failed"]).await;
    server.patch("/v1/webhooks/audit", json!({ "paused": true })).await;
    let tested = server.post("/v1/webhooks/audit/test", json!({})).await;
    assert_eq!(tested.status, 200, "{}", tested.text());
    let tested = tested.json();
    assert_eq!((&tested["delivered"], &tested["status"]), (&json!(true), &json!(202)), "{tested}");
    assert_eq!(tested["error"], json!(null));
    assert!(tested["took_ms"].as_u64().is_some_and(|ms| ms < 5000), "{tested}");
    let message = receiver.wait_for(1).await.remove(0);
    assert_eq!(message.id(), tested["id"].as_str().expect("it has an id"));
    assert!(message.header("webhook-signature").starts_with("v1,"));
    let event = &message.event;
    assert_eq!((&event["data"]["webhook"], &event["cursor"]), (&json!("audit"), &json!(null)), "{event}");
    let webhook = server.read("webhooks/audit").await;
    assert_eq!((&webhook["delivered"], &webhook["paused"]), (&json!(0), &json!(true)));
    for state in ["pending", "delivered", "dead"] {
        assert!(deliveries(&server, "audit", state).await.is_empty());
    }
    assert_eq!(server.post("/v1/webhooks/none/test", json!({})).await.status, 404);
}

#[tokio::test]
async fn a_test_of_a_receiver_that_fails_says_why() {
    let server = start(WebhookOptions { timeout: Duration::from_millis(200), ..quick() }).await;
    for (answer, status, error) in [
        (Answer::Status(500), json!(500), "status 500"),
        (Answer::Redirect("http://127.0.0.1:1/".into()), json!(307), "redirects are not followed"),
        (Answer::Hang, json!(null), "no response within 200 ms"),
        (Answer::Close, json!(null), "closed the connection"),
    ] {
        let receiver = Receiver::answering(move |_, _| answer.clone()).await;
        server.put("/v1/webhooks/w", json!({ "url": receiver.url(), "types": ["execution.failed"] })).await;
        let tested = server.post("/v1/webhooks/w/test", json!({})).await.json();
        assert_eq!((&tested["delivered"], &tested["status"]), (&json!(false), &status), "{tested}");
        assert!(tested["error"].as_str().is_some_and(|text| text.contains(error)), "{tested}");
    }
}
