//! Suspensions until a time, and timeouts of waits.

use crate::support::{Server, text_of};
use selvedge_core::Timestamp;
use selvedge_engine::Options;
use selvedge_memory::Clock;
use serde_json::{Value, json};

/// 2023-11-14T22:13:20Z.
const START_MS: i64 = 1_700_000_000_000;

/// Starts a server with a manual clock and without reconcilers.
async fn start_with_manual_clock() -> (Server, Clock) {
    let clock = Clock::manual(Timestamp::from_millis(START_MS));
    let options = Options { reconcilers: false, ..Options::default() };
    (Server::start_with(options, clock.clone()).await, clock)
}

/// Submits an execution and suspends it with these fields. Returns its id.
async fn submit_and_suspend(server: &Server, fields: Value) -> String {
    let (id, claim) = server.submit_and_claim().await;
    assert_eq!(server.suspend("i", &claim, fields).await["state"], "suspended");
    id
}

async fn tick(server: &Server, reconciler: &str) {
    server.engine.tick(reconciler).await.expect("the tick succeeds");
}

#[tokio::test]
async fn an_execution_resumes_when_its_time_has_come() {
    let (server, clock) = start_with_manual_clock().await;
    for condition in [json!({ "until_at": "2023-11-14T22:13:25Z" }), json!({ "delay_ms": 5_000 })] {
        let id = submit_and_suspend(&server, json!({ "condition": condition })).await;
        let until_at = &server.execution(&id).await["suspension"]["waits"][0]["condition"]["until_at"];
        assert!(text_of(until_at).starts_with("2023-11-14T22:13:"), "{until_at}");
        let explained = server.get(&format!("/v1/executions/{id}/explain")).await.json();
        assert_eq!(&explained["next_change_at"], until_at);
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
async fn a_wait_that_resumes_on_timeout_carries_a_timeout_signal() {
    let (server, clock) = start_with_manual_clock().await;
    let fields = json!({
        "condition": { "all": [{ "signal": "a" }, { "signal": "b" }] }, "timeout_ms": 1000, "on_timeout": "resume",
        "step": "both",
    });
    let id = submit_and_suspend(&server, fields).await;
    let wait = server.execution(&id).await["suspension"]["waits"][0].clone();
    assert_eq!(wait["timeout_at"], "2023-11-14T22:13:21.000Z");
    server.signal(&id, json!({ "name": "a", "payload": 1 })).await;
    clock.advance_ms(1000);
    tick(&server, "suspension_timeout").await;
    let claim = server.claim("i", 1).await.remove(0);
    assert_eq!(claim["resumed_by"], "timeout");
    let delivered = json!({ "name": "a", "payload": 1, "source": "admin", "waitpoint": null });
    let timeout = json!({ "name": "timeout", "payload": null, "source": "selvedge", "waitpoint": null });
    assert_eq!(claim["signals"], json!([delivered, timeout]));
    assert_eq!(claim["steps"], json!({ "both": { "resumed_by": "timeout", "signals": [delivered] } }));
    let signals = server.list_of(&id, "signals").await;
    assert_eq!((signals.len(), &signals[0]["taken_by"]), (1, &json!(1)), "only delivered signals are listed");
}

#[tokio::test]
async fn a_wait_that_ends_the_execution_on_timeout_names_its_condition() {
    let (server, clock) = start_with_manual_clock().await;
    for (on_timeout, outcome) in [
        (json!(null), "failed"),
        (json!("fail"), "failed"),
        (json!("cancel"), "cancelled"),
        (json!("expire"), "expired"),
    ] {
        let fields = json!({ "condition": { "signal": "go" }, "timeout_ms": 1000, "on_timeout": on_timeout });
        let id = submit_and_suspend(&server, fields).await;
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
async fn an_escalated_wait_keeps_waiting() {
    let (server, clock) = start_with_manual_clock().await;
    let fields = json!({ "condition": { "signal": "go" }, "timeout_ms": 1000, "on_timeout": "escalate" });
    let id = submit_and_suspend(&server, fields).await;
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

#[tokio::test]
async fn a_suspension_without_a_timeout_has_that_of_its_namespace() {
    let (server, clock) = start_with_manual_clock().await;
    let path = "/v1/admin/namespaces/default";
    let unset = server.get(path).await.json();
    assert_eq!(unset["suspension_timeout_ms"], json!(null), "there is none unless it is set");
    let waits = async |fields: Value| {
        let id = submit_and_suspend(&server, fields).await;
        let timeout = server.execution(&id).await["suspension"]["waits"][0]["timeout_at"].clone();
        (id, timeout)
    };
    let signal = json!({ "signal": "go" });
    assert_eq!(waits(json!({ "condition": signal })).await.1, json!(null));

    let reply = server.put(path, json!({ "suspension_timeout_ms": 60_000 })).await;
    assert_eq!((reply.status, &reply.json()["suspension_timeout_ms"]), (200, &json!(60_000)));
    let (id, timeout) = waits(json!({ "condition": signal })).await;
    assert_eq!(timeout, "2023-11-14T22:14:20.000Z");
    let given = waits(json!({ "condition": signal, "timeout_ms": 5_000 })).await.1;
    assert_eq!(given, "2023-11-14T22:13:25.000Z", "a timeout of its own wins");
    let time = json!({ "any": [signal, { "until_at": "2030-01-01T00:00:00Z" }] });
    assert_eq!(waits(json!({ "condition": time })).await.1, json!(null), "a time ends this wait anyway");
    let both = json!({ "all": [signal, { "until_at": "2030-01-01T00:00:00Z" }] });
    assert_eq!(waits(json!({ "condition": both })).await.1, "2023-11-14T22:14:20.000Z");

    clock.advance_ms(60_000);
    tick(&server, "suspension_timeout").await;
    assert_eq!(server.execution(&id).await["state"], "failed");
    assert_eq!(server.put(path, json!({})).await.json(), unset);
    assert_eq!(waits(json!({ "condition": signal })).await.1, json!(null));
}

#[tokio::test]
async fn an_invalid_setting_of_a_namespace_is_named() {
    let server = Server::start().await;
    let path = "/v1/admin/namespaces/other";
    assert_eq!(server.get(path).await.problem().1, "not_found");
    for (body, code, pointer) in [
        (json!({ "suspension_timeout_ms": -1 }), "invalid_field", "/suspension_timeout_ms"),
        (json!({ "suspension_timeout_ms": "1" }), "invalid_field", "/suspension_timeout_ms"),
        (json!({ "suspension_timeout": 1 }), "unknown_field", "/suspension_timeout"),
    ] {
        assert_eq!(server.put(path, body).await.problem(), (422, code.into(), pointer.into()));
    }
    assert_eq!(server.get(path).await.problem().1, "not_found", "a refused call creates nothing");
    assert_eq!(server.put(path, json!({ "suspension_timeout_ms": 1 })).await.status, 201);
    assert_eq!(server.get(path).await.json()["suspension_timeout_ms"], 1);
}
