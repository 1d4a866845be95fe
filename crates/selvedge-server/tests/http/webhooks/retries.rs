//! Failed deliveries are tried again, in order, until they succeed or are dead.

use super::{Answer, Receiver, create, deliveries, quick, start, wait_for};
use selvedge_server::{RetryPolicy, WebhookOptions};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[tokio::test]
async fn a_failed_delivery_is_repeated_with_its_id_before_later_events_of_its_execution() {
    // The first attempts at every `execution.submitted` fail.
    let receiver = Receiver::answering(|received, earlier| {
        let fails = received.kind() == "execution.submitted" && earlier < 10;
        Answer::Status(if fails { 500 } else { 200 })
    })
    .await;
    let server = start(quick()).await;
    create(&server, "w", &receiver.url(), &["execution.submitted", "execution.completed"]).await;
    for _ in 0..5 {
        let (_, claim) = server.submit_and_claim().await;
        server.complete("i", &claim, json!(1)).await;
    }
    let webhook = wait_for(&server, "w", |webhook| webhook["delivered"] == 10).await;
    assert_eq!((&webhook["pending"], &webhook["failing_since_at"]), (&json!(0), &json!(null)));
    let mut seen: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for one in receiver.received() {
        seen.entry(one.execution().to_owned())
            .or_default()
            .push((one.kind().to_owned(), one.id().to_owned()));
    }
    assert_eq!(seen.len(), 5);
    for attempts in seen.values() {
        let (last, before) = attempts.split_last().expect("there are attempts");
        assert_eq!(last.0, "execution.completed", "{attempts:?}");
        assert!(before.iter().all(|one| *one == before[0]), "{attempts:?}");
        assert_eq!(before[0].0, "execution.submitted", "{attempts:?}");
    }
}

#[tokio::test]
async fn a_delivery_that_fails_for_too_long_is_dead_and_can_be_replayed() {
    let works = Arc::new(AtomicBool::new(false));
    let receiver = {
        let works = works.clone();
        Receiver::answering(move |_, _| Answer::Status(if works.load(Ordering::SeqCst) { 200 } else { 503 }))
            .await
    };
    let retry = RetryPolicy { first_ms: 20, max_ms: 50, give_up_ms: 200, pause_ms: 3_600_000 };
    let server = start(WebhookOptions { retry, ..quick() }).await;
    create(&server, "w", &receiver.url(), &["execution.submitted"]).await;
    let id = server.submit(json!({ "kind": "k" })).await;
    let webhook = wait_for(&server, "w", |webhook| webhook["dead"] == 1).await;
    assert_eq!((&webhook["pending"], &webhook["delivered"]), (&json!(0), &json!(0)));
    assert_eq!(webhook["last_error"], "status 503");
    let dead = deliveries(&server, "w", "dead").await.remove(0);
    assert_eq!((&dead["execution"], &dead["status"]), (&json!(id), &json!(503)));
    assert!(dead["failures"].as_u64() > Some(1) && dead["ended_at"].is_string(), "{dead}");
    works.store(true, Ordering::SeqCst);
    let path = format!("/v1/webhooks/w/deliveries/{}/replay", dead["id"].as_str().expect("an id"));
    let replayed = server.post(&path, json!({})).await.json();
    assert_eq!(replayed["delivery"]["state"], "pending");
    let webhook = wait_for(&server, "w", |webhook| webhook["delivered"] == 1).await;
    assert_eq!((&webhook["pending"], &webhook["dead"]), (&json!(0), &json!(0)));
    assert_eq!(deliveries(&server, "w", "dead").await, [] as [serde_json::Value; 0]);
}

#[tokio::test]
async fn a_webhook_that_fails_for_days_or_is_gone_is_paused_with_an_event() {
    let failing = Receiver::answering(|_, _| Answer::Status(500)).await;
    let gone = Receiver::answering(|_, _| Answer::Status(410)).await;
    let retry = RetryPolicy { first_ms: 20, max_ms: 50, give_up_ms: 3_600_000, pause_ms: 200 };
    let server = start(WebhookOptions { retry, ..quick() }).await;
    create(&server, "failing", &failing.url(), &["execution.submitted"]).await;
    create(&server, "gone", &gone.url(), &["execution.submitted"]).await;
    server.submit(json!({ "kind": "k" })).await;
    let webhook = wait_for(&server, "failing", |webhook| webhook["paused"] == true).await;
    assert_eq!((&webhook["paused_reason"], &webhook["pending"]), (&json!("failing"), &json!(1)));
    let webhook = wait_for(&server, "gone", |webhook| webhook["paused"] == true).await;
    assert_eq!(webhook["paused_reason"], "gone");
    assert_eq!(gone.received().len(), 1);
    let events = server.read("events?types=webhook.paused").await;
    let paused: Vec<&Value> =
        events["items"].as_array().expect("items").iter().map(|one| &one["data"]).collect();
    assert_eq!(paused.len(), 2, "{events}");
    for name in ["failing", "gone"] {
        assert!(paused.contains(&&json!({ "reason": name, "webhook": name })), "{events}");
    }
    let works = Receiver::start().await;
    let resumed = server.patch("/v1/webhooks/failing", json!({ "paused": false, "url": works.url() })).await;
    assert_eq!(resumed.json()["failing_since_at"], json!(null));
    wait_for(&server, "failing", |webhook| webhook["delivered"] == 1 && webhook["pending"] == 0).await;
}

#[tokio::test]
async fn a_receiver_that_fails_leaves_events_in_the_log_and_gets_all_when_it_works_again() {
    let works = Arc::new(AtomicBool::new(false));
    let receiver = {
        let works = works.clone();
        Receiver::answering(move |_, _| Answer::Status(if works.load(Ordering::SeqCst) { 200 } else { 500 }))
            .await
    };
    let server = start(quick()).await;
    create(&server, "w", &receiver.url(), &["execution.submitted"]).await;
    for _ in 0..40 {
        server.submit(json!({ "kind": "k" })).await;
    }
    // After many failures in a row no further events are taken.
    wait_for(&server, "w", |webhook| webhook["failing_since_at"].is_string()).await;
    receiver.wait_for(40).await;
    for _ in 0..100 {
        server.submit(json!({ "kind": "k" })).await;
    }
    let webhook = server.read("webhooks/w").await;
    assert!(webhook["pending"].as_u64() < Some(140), "{webhook}");
    works.store(true, Ordering::SeqCst);
    let webhook = wait_for(&server, "w", |webhook| webhook["delivered"] == 140).await;
    assert_eq!((&webhook["pending"], &webhook["dead"]), (&json!(0), &json!(0)));
}
