//! Finished scenes of suspensions: every way to end a wait, steps of every kind, and waitpoints in every state.

use crate::driver::{Driver, FOREVER_MS, text};
use crate::server::wait_until;
use serde_json::json;

/// Plays all scenes.
pub async fn play(driver: &mut Driver) {
    resumed(driver).await;
    timed_out(driver).await;
    steps(driver).await;
    waitpoints(driver).await;
    partly_satisfied(driver).await;
}

async fn resumed(driver: &Driver) {
    // By signals from before and after the suspension, with and without keys; one signal stays buffered.
    let id = driver.submit(101, "resumed", json!({})).await;
    driver.signal(&id, json!({ "name": "early", "payload": { "n": 1 }, "idempotency_key": "early-1" })).await;
    let claim = driver.claim_one("resumed").await;
    let both = json!({ "all": [{ "signal": "early" }, { "signal": "late" }] });
    driver.report("suspend", &claim, json!({ "condition": both })).await;
    driver.signal(&id, json!({ "name": "other", "source": "somebody", "payload": "kept" })).await;
    driver.signal(&id, json!({ "name": "late", "payload": [1, 2], "source": "ada" })).await;
    let claim = driver.claim_one("resumed").await;
    assert_eq!(claim["signals"].as_array().map(Vec::len), Some(2), "{claim}");
    driver.complete(&claim, json!("both came")).await;
    // By a time.
    driver.submit(102, "resumed-by-time", json!({})).await;
    let claim = driver.claim_one("resumed-by-time").await;
    driver.report("suspend", &claim, json!({ "condition": { "delay_ms": 1 } })).await;
    driver.server.tick("delay_promoter", 1).await;
    driver.complete(&driver.claim_one("resumed-by-time").await, json!(null)).await;
    // By an operator, although the condition does not name one.
    let id = driver.submit(103, "resumed-by-operator", json!({})).await;
    let claim = driver.claim_one("resumed-by-operator").await;
    driver.report("suspend", &claim, json!({ "condition": { "signal": "never" } })).await;
    driver.operate(&id, "resume", json!({})).await;
    driver.complete(&driver.claim_one("resumed-by-operator").await, json!(null)).await;
    // By a condition that was satisfied before the suspension.
    let id = driver.submit(104, "resumed-at-once", json!({})).await;
    driver.signal(&id, json!({ "name": "go" })).await;
    let claim = driver.claim_one("resumed-at-once").await;
    let result = driver.report("suspend", &claim, json!({ "condition": { "signal": "go" } })).await;
    assert_eq!(result["state"], "waiting");
    driver.complete(&driver.claim_one("resumed-at-once").await, json!(null)).await;
}

async fn timed_out(driver: &Driver) {
    let policies = ["fail", "cancel", "expire", "resume", "escalate"];
    for (number, policy) in (105..).zip(policies) {
        let lane = format!("timed-out-{policy}");
        driver.submit(number, &lane, json!({})).await;
        let claim = driver.claim_one(&lane).await;
        let wait = json!({ "condition": { "signal": "never" }, "timeout_ms": 1, "on_timeout": policy });
        driver.report("suspend", &claim, wait).await;
    }
    driver.server.tick("suspension_timeout", 5).await;
    driver.complete(&driver.claim_one("timed-out-resume").await, json!("late")).await;
}

/// Recorded steps of every kind; open waits of steps are part of the pending scenes.
async fn steps(driver: &Driver) {
    driver.submit(110, "steps", json!({})).await;
    let claim = driver.claim_one("steps").await;
    for (kind, result) in
        [("step", json!({ "id": 5 })), ("spawn", json!(["a"])), ("join", json!({})), ("race", json!(1))]
    {
        let step = json!({ "name": format!("a {kind}"), "kind": kind, "result": result, "duration_ms": 12 });
        driver.report("step", &claim, step).await;
    }
    let waits = json!({ "waits": [
        { "step": "a sleep", "kind": "sleep", "condition": { "delay_ms": 1 } },
        { "step": "a wait", "kind": "wait", "condition": { "signal": "word" }, "timeout_ms": FOREVER_MS },
    ] });
    driver.report("suspend", &claim, waits).await;
    driver.server.tick("delay_promoter", 1).await;
    let claim = driver.claim_one("steps").await;
    let wait = json!({ "step": "a wait", "kind": "wait", "condition": { "signal": "word" } });
    driver.report("suspend", &claim, wait).await;
    driver.signal(&text(&claim["execution"]["id"]), json!({ "name": "word", "payload": "said" })).await;
    driver.complete(&driver.claim_one("steps").await, json!("all steps")).await;
}

/// Waitpoints that were delivered, revoked, issued again and expired.
async fn waitpoints(driver: &mut Driver) {
    let id = driver.submit(111, "waitpoints", json!({})).await;
    let claim = driver.claim_one("waitpoints").await;
    let created = driver.report("waitpoint", &claim, json!({ "name": "brief", "expires_ms": 1 })).await;
    driver.notes.add("expired_waitpoint", created["waitpoints"][0].clone());
    let suspended = driver
        .report(
            "suspend",
            &claim,
            json!({
                "condition": { "count": { "n": 2, "of": ["used", "second"], "distinct": "waitpoints" } },
                "waitpoints": ["used", { "name": "second", "source": "bob" }, "revoked", "reissued"],
            }),
        )
        .await;
    driver.server.tick("waitpoint_expiry", 1).await;
    let [used, second, revoked, reissued] = [0, 1, 2, 3].map(|index| suspended["waitpoints"][index].clone());
    for waitpoint in [&used, &second] {
        let path = format!("/v1/waitpoints/{}/signal", text(&waitpoint["id"]));
        let body = json!({ "token": waitpoint["token"], "payload": { "approved": true } });
        driver.server.call_ok("POST", &path, body).await;
    }
    driver
        .server
        .call_ok("POST", &format!("/v1/waitpoints/{}/revoke", text(&revoked["id"])), json!({}))
        .await;
    let path = format!("/v1/waitpoints/{}/reissue", text(&reissued["id"]));
    driver.server.call_ok("POST", &path, json!({})).await;
    driver.notes.add("used_waitpoint", used);
    driver.notes.add("revoked_waitpoint", revoked);
    driver.complete(&driver.claim_one("waitpoints").await, json!("approved twice")).await;
    driver.check_state(&id, "completed").await;
}

/// Suspensions whose conditions are partly satisfied, by a time and by the end of a child. They still wait for a
/// signal.
async fn partly_satisfied(driver: &Driver) {
    driver.submit(112, "half-resumed", json!({})).await;
    let claim = driver.claim_one("half-resumed").await;
    let condition = json!({ "all": [{ "delay_ms": 1 }, { "signal": "rest" }] });
    driver.report("suspend", &claim, json!({ "condition": condition })).await;
    driver.server.tick("delay_promoter", 1).await;

    driver.submit(113, "half-joined", json!({})).await;
    let claim = driver.claim_one("half-joined").await;
    let child = json!({ "name": "child", "kind": "child", "lane": "half-child", "retention_ms": FOREVER_MS });
    driver.report("spawn", &claim, json!({ "nodes": [child] })).await;
    let condition = json!({ "all": [{ "children": true }, { "signal": "rest" }] });
    driver.report("suspend", &claim, json!({ "condition": condition })).await;
    driver.complete(&driver.claim_one("half-child").await, json!(null)).await;
    let path = format!("/v1/executions/{}/events", text(&claim["execution"]["id"]));
    wait_until("the end of the child is propagated", async || {
        let events = driver.server.get(&path).await;
        events["items"]
            .as_array()
            .expect("items is an array")
            .iter()
            .any(|event| event["type"] == "execution.noticed")
    })
    .await;
}
