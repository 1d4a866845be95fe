//! Events are delivered: signed, in order, each of the chosen types once.

use super::{Answer, Receiver, create, deliveries, quick, start, start_engine, wait_for};
use crate::support::Server;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use selvedge_core::webhook::sign;
use selvedge_engine::Options;
use selvedge_server::WebhookOptions;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

fn secret_bytes(secret: &str) -> [u8; 32] {
    let text = secret.strip_prefix("whsec_").expect("a secret has its prefix");
    STANDARD.decode(text).expect("a secret is base64").try_into().expect("a secret has 32 bytes")
}

async fn complete_one(server: &Server) -> String {
    let (id, claim) = server.submit_and_claim().await;
    server.complete("i", &claim, json!(1)).await;
    id
}

#[tokio::test]
async fn chosen_events_are_delivered_with_a_valid_signature() {
    let receiver = Receiver::start().await;
    let server = start(quick()).await;
    complete_one(&server).await;
    let secret = create(&server, "w", &receiver.url(), &["execution.completed"]).await;
    let id = complete_one(&server).await;
    let received = receiver.wait_for(1).await.remove(0);
    // Only events after the creation of the webhook.
    assert_eq!((received.kind(), received.execution()), ("execution.completed", id.as_str()));
    assert_eq!(received.header("content-type"), "application/json");
    let log = server.read("events?types=execution.completed").await;
    assert_eq!(received.event, log["items"][1], "the body is the event as in the log");
    let seconds: i64 = received.header("webhook-timestamp").parse().expect("the time is a number");
    let expected = sign(&[secret_bytes(&secret)], received.id(), seconds, &received.raw);
    assert_eq!(received.header("webhook-signature"), expected);
    let webhook = wait_for(&server, "w", |webhook| webhook["delivered"] == 1).await;
    assert_eq!((&webhook["pending"], &webhook["dead"]), (&json!(0), &json!(0)));
    let delivered = deliveries(&server, "w", "delivered").await;
    assert_eq!(delivered.len(), 1);
    assert_eq!((&delivered[0]["id"], &delivered[0]["status"]), (&json!(received.id()), &json!(204)));
    assert_eq!(delivered[0]["event_cursor"], received.event["cursor"]);
    let metrics = server.get("/metrics").await.text();
    for line in [
        "selvedge_webhook_deliveries_total{outcome=\"delivered\"} 1",
        "selvedge_webhook_pending{namespace=\"default\",webhook=\"w\"} 0",
        "selvedge_webhook_delivery_seconds_count 1",
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
}

#[tokio::test]
async fn during_the_grace_period_each_secret_signs_and_afterwards_only_the_new_one() {
    let receiver = Receiver::start().await;
    let server = start(quick()).await;
    let old = create(&server, "w", &receiver.url(), &["execution.submitted"]).await;
    let rotated = server.post("/v1/webhooks/w/rotate-secret", json!({ "grace_ms": 3_600_000 })).await.json();
    let new = rotated["secret"].as_str().expect("the new secret is shown").to_owned();
    assert_ne!(old, new);
    server.submit(json!({ "kind": "k" })).await;
    let received = receiver.wait_for(1).await.remove(0);
    let seconds: i64 = received.header("webhook-timestamp").parse().expect("the time is a number");
    let secrets = [secret_bytes(&old), secret_bytes(&new)];
    assert_eq!(received.header("webhook-signature"), sign(&secrets, received.id(), seconds, &received.raw));
    let rotated = server.post("/v1/webhooks/w/rotate-secret", json!({ "grace_ms": 0 })).await.json();
    let newest = rotated["secret"].as_str().expect("the new secret is shown").to_owned();
    server.submit(json!({ "kind": "k" })).await;
    let received = receiver.wait_for(2).await.remove(1);
    let seconds: i64 = received.header("webhook-timestamp").parse().expect("the time is a number");
    // The first grace period is not shortened.
    let secrets = [secret_bytes(&old), secret_bytes(&newest)];
    assert_eq!(received.header("webhook-signature"), sign(&secrets, received.id(), seconds, &received.raw));
}

#[tokio::test]
async fn the_events_of_every_execution_arrive_in_order_and_once() {
    let receiver = Receiver::start().await;
    let server = start(quick()).await;
    create(&server, "w", &receiver.url(), &["*"]).await;
    let mut expected = BTreeSet::new();
    for _ in 0..30 {
        expected.insert(complete_one(&server).await);
    }
    let log = server.read("events?limit=500").await;
    let events: Vec<_> = log["items"].as_array().expect("items").iter().skip(1).cloned().collect();
    let received = receiver.wait_for(events.len()).await;
    let mut by_execution: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for one in &received {
        if one.event["execution"].is_string() {
            by_execution.entry(one.execution().to_owned()).or_default().push(one.event.clone());
        }
    }
    for (execution, received) in by_execution {
        let logged: Vec<_> =
            events.iter().filter(|one| one["execution"] == execution.as_str()).cloned().collect();
        assert_eq!(received, logged, "{execution}");
    }
    let ids: BTreeSet<&str> = received.iter().map(|one| one.id()).collect();
    assert_eq!(ids.len(), received.len(), "every delivery has its own id");
}

#[tokio::test]
async fn a_filter_selects_the_events_of_a_tag() {
    let receiver = Receiver::start().await;
    let server = start(quick()).await;
    let body =
        json!({ "url": receiver.url(), "types": ["execution.submitted"], "filter": { "tag": "team:blue" } });
    assert_eq!(server.put("/v1/webhooks/w", body).await.status, 201);
    server.submit(json!({ "kind": "k" })).await;
    let blue = server.submit(json!({ "kind": "k", "tags": { "team": "blue" } })).await;
    assert_eq!(receiver.wait_for(1).await[0].execution(), blue);
}

#[tokio::test]
async fn a_held_receiver_delays_no_other() {
    let held = Receiver::answering(|_, _| Answer::Hang).await;
    let free = Receiver::start().await;
    let server = start(WebhookOptions { timeout: Duration::from_secs(60), ..quick() }).await;
    create(&server, "held", &held.url(), &["execution.submitted"]).await;
    create(&server, "free", &free.url(), &["execution.submitted"]).await;
    server.submit(json!({ "kind": "k" })).await;
    held.wait_for(1).await;
    for count in 2..=50 {
        server.submit(json!({ "kind": "k" })).await;
        free.wait_for(count).await;
    }
    assert!(held.received().len() <= quick().concurrency, "{}", held.received().len());
}

async fn create_paused(server: &Server, receiver: &Receiver) {
    let body = json!({ "url": receiver.url(), "types": ["execution.submitted"], "paused": true });
    assert_eq!(server.put("/v1/webhooks/w", body).await.status, 201);
}

#[tokio::test]
async fn a_paused_webhook_gets_its_events_when_it_is_resumed() {
    let receiver = Receiver::start().await;
    let server = start(quick()).await;
    create_paused(&server, &receiver).await;
    let mut submitted = Vec::new();
    for _ in 0..5 {
        submitted.push(server.submit(json!({ "kind": "k" })).await);
    }
    let other = Receiver::start().await;
    server.patch("/v1/webhooks/w", json!({ "paused": false, "url": other.url() })).await;
    let mut received: Vec<String> =
        other.wait_for(5).await.iter().map(|one| one.execution().to_owned()).collect();
    received.sort();
    submitted.sort();
    assert_eq!(received, submitted);
    assert_eq!(receiver.received().len(), 0, "the first URL gets nothing");
}

#[tokio::test]
async fn what_the_log_drops_while_a_webhook_is_paused_is_counted_and_published() {
    let receiver = Receiver::start().await;
    let window = Duration::from_secs(3);
    let server = start_engine(Options { log_window: window, ..Options::default() }, quick()).await;
    create_paused(&server, &receiver).await;
    for _ in 0..7 {
        server.submit(json!({ "kind": "k" })).await;
    }
    let webhook = wait_for(&server, "w", |webhook| webhook["missed"] == 7).await;
    assert_eq!(webhook["delivered"], 0);
    let events = server.read("events?types=webhook.missed").await;
    let counts = events["items"].as_array().expect("items").iter();
    let counts: Vec<i64> = counts.map(|one| one["data"]["count"].as_i64().expect("a count")).collect();
    assert_eq!(counts.iter().sum::<i64>(), 7, "{events}");
    let last = events["items"].as_array().and_then(|items| items.last().cloned()).expect("an event");
    assert_eq!((&last["data"]["webhook"], &last["data"]["total"]), (&json!("w"), &json!(7)));
    server.engine.tick("log_window").await.expect("the log is cut");
    server.patch("/v1/webhooks/w", json!({ "paused": false })).await;
    let id = server.submit(json!({ "kind": "k" })).await;
    let received = receiver.wait_for(1).await;
    assert_eq!(received[0].execution(), id);
}
