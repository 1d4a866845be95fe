//! Suspensions that wait for a time, or for too long.

use crate::client::{Server, text_of};
use selvedge_core::Timestamp;
use selvedge_engine::Options;
use selvedge_memory::Clock;
use serde_json::{Value, json};

/// 2023-11-14T22:13:20Z.
const START_MS: i64 = 1_700_000_000_000;

async fn at_rest() -> (Server, Clock) {
    let clock = Clock::manual(Timestamp::from_millis(START_MS));
    let options = Options { reconcilers: false, ..Options::default() };
    (Server::start_with(options, clock.clone()).await, clock)
}

/// An execution that is suspended like this.
async fn suspended(server: &Server, more: Value) -> String {
    let id = server.submit(json!({ "kind": "k" })).await;
    let claim = server.claim("i", 1).await.remove(0);
    assert_eq!(server.suspend("i", &claim, more).await["state"], "suspended");
    id
}

async fn tick(server: &Server, reconciler: &str) {
    server.engine.tick(reconciler).await.expect("the tick runs");
}

#[tokio::test]
async fn an_execution_goes_on_when_its_time_has_come() {
    let (server, clock) = at_rest().await;
    for condition in [json!({ "until_at": "2023-11-14T22:13:25Z" }), json!({ "delay_ms": 5_000 })] {
        let id = suspended(&server, json!({ "condition": condition })).await;
        let told = &server.execution(&id).await["suspension"]["waits"][0]["condition"]["until_at"];
        assert!(text_of(told).starts_with("2023-11-14T22:13:"), "{told}");
        let explained = server.get(&format!("/v1/executions/{id}/explain")).await.json();
        assert_eq!(&explained["next_change_at"], told);
        tick(&server, "delay_promoter").await;
        assert_eq!(server.execution(&id).await["state"], "suspended");
        clock.advance_ms(5_000);
        tick(&server, "delay_promoter").await;
        let claim = server.claim("i", 1).await.remove(0);
        assert_eq!((&claim["resumed_by"], &claim["signals"]), (&json!("condition"), &json!([])));
        server.complete("i", &claim, json!(null)).await;
    }
}

#[tokio::test]
async fn a_wait_that_goes_on_after_its_time_carries_a_signal_that_says_so() {
    let (server, clock) = at_rest().await;
    let more = json!({
        "condition": { "all": [{ "signal": "a" }, { "signal": "b" }] }, "timeout_ms": 1000, "on_timeout": "resume",
        "step": "both",
    });
    let id = suspended(&server, more).await;
    let wait = server.execution(&id).await["suspension"]["waits"][0].clone();
    assert_eq!(wait["timeout_at"], "2023-11-14T22:13:21.000Z");
    server.signal(&id, json!({ "name": "a", "payload": 1 })).await;
    clock.advance_ms(1000);
    tick(&server, "suspension_timeout").await;
    let claim = server.claim("i", 1).await.remove(0);
    assert_eq!(claim["resumed_by"], "timeout");
    let heard = json!({ "name": "a", "payload": 1, "source": "admin", "waitpoint": null });
    let timeout = json!({ "name": "timeout", "payload": null, "source": "selvedge", "waitpoint": null });
    assert_eq!(claim["signals"], json!([heard, timeout]));
    assert_eq!(claim["steps"], json!({ "both": { "resumed_by": "timeout", "signals": [heard] } }));
    let signals = server.listed(&id, "signals").await;
    assert_eq!((signals.len(), &signals[0]["taken_by"]), (1, &json!(1)), "only what was delivered is listed");
}

#[tokio::test]
async fn a_wait_that_ends_the_execution_after_its_time_says_what_was_waited_for() {
    let (server, clock) = at_rest().await;
    for (on_timeout, outcome) in [
        (json!(null), "failed"),
        (json!("fail"), "failed"),
        (json!("cancel"), "cancelled"),
        (json!("expire"), "expired"),
    ] {
        let more = json!({ "condition": { "signal": "go" }, "timeout_ms": 1000, "on_timeout": on_timeout });
        let id = suspended(&server, more).await;
        clock.advance_ms(1000);
        tick(&server, "suspension_timeout").await;
        let ended = server.get(&format!("/v1/executions/{id}/result")).await.json();
        assert_eq!((&ended["outcome"], &ended["error"]["class"]), (&json!(outcome), &json!("timeout")));
        let message = text_of(&ended["error"]["message"]);
        assert!(message.contains("signal \"go\""), "{message}");
        assert_eq!(server.execution(&id).await["suspension"], json!(null));
    }
}

#[tokio::test]
async fn a_wait_that_is_escalated_waits_on() {
    let (server, clock) = at_rest().await;
    let more = json!({ "condition": { "signal": "go" }, "timeout_ms": 1000, "on_timeout": "escalate" });
    let id = suspended(&server, more).await;
    clock.advance_ms(1000);
    tick(&server, "suspension_timeout").await;
    let events = server.get("/v1/events?types=execution.escalated").await.json();
    assert_eq!(events["items"][0]["execution"], json!(id));
    let wait = server.execution(&id).await["suspension"]["waits"][0].clone();
    assert_eq!(wait["escalated"], true);
    tick(&server, "suspension_timeout").await;
    assert_eq!(
        server.get("/v1/events?types=execution.escalated").await.json()["items"].as_array().map(Vec::len),
        Some(1)
    );
    assert_eq!(server.signal(&id, json!({ "name": "go" })).await["effect"], "resumed");
}
