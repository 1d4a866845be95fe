//! Finished scenes of single executions: every outcome, every way to lose a lease, replays, a long history, and keys.

use crate::driver::{Driver, FOREVER_MS, op};
use crate::server::wait_until;
use serde_json::{Value, json};

/// Plays all scenes. Reconcilers are ticked by hand, and a tick processes everything that is due. Therefore these
/// scenes are played before any work that must stay pending.
pub async fn play(driver: &mut Driver) {
    completed(driver).await;
    failed(driver).await;
    cancelled(driver).await;
    expired(driver).await;
    put_back(driver).await;
    changed_by_operators(driver).await;
    replayed(driver).await;
    with_a_long_history(driver).await;
    interrupted(driver).await;
    with_streams(driver).await;
    deleted(driver).await;
}

/// A submission with every field, repeated reports, and a batch with an idempotency key.
async fn completed(driver: &mut Driver) {
    let everything = json!({
        "kind": "resize", "input": { "width": 800, "name": "élan 🧵", "long": "x".repeat(700) },
        "idempotency_key": "order-1", "idempotency_window_ms": FOREVER_MS, "unique_while_active": "customer-1",
        "priority": 7, "capabilities": ["gpu", "linux"], "tags": { "customer": "seven", "unit": "a:b" },
        "start_by_ms": FOREVER_MS, "attempt_timeout_ms": FOREVER_MS, "deadline_ms": FOREVER_MS,
        "retry": { "max_retries": 5, "max_interruptions": 9, "retry_on": ["transient", "timeout"],
                   "backoff": { "type": "exponential", "initial_ms": 10, "multiplier": 1.5, "max_ms": 20, "jitter": false } },
    });
    driver.submit(1, "completed", everything.clone()).await;
    driver.notes.add("idempotent_submission", everything);
    let capable = json!({ "capabilities": ["gpu", "linux", "fast"], "kinds": ["resize"] });
    let claim = driver.claim_as("worker-1", "completed", 1, capable).await.remove(0);
    driver.report("progress", &claim, json!({ "percent": 33.5, "message": "a third" })).await;
    let complete =
        op("complete", &claim, json!({ "op_id": "done-1", "result": { "size": 12.50, "ok": true } }));
    let reported =
        driver.server.call_ok("POST", "/v1/workers/worker-1/report", json!({ "ops": [complete] })).await;
    assert_eq!(reported["results"][0]["state"], "completed");
    driver.notes.add("repeated_report", complete);
    // A batch with an idempotency key, which is stored as the key of an operation.
    let batch = json!({ "executions": [
        { "kind": "work", "lane": "batch", "retention_ms": FOREVER_MS, "input": [1, 2.0, "three"] },
        { "kind": "", "lane": "batch" },
    ] });
    let (status, response) =
        driver.server.call("POST", "/v1/executions/batch", Some("batch-1"), Some(batch)).await;
    assert_eq!(status, 200, "{response}");
    let claim = driver.claim_one("batch").await;
    driver.complete(&claim, Value::Null).await;
}

async fn failed(driver: &Driver) {
    let id = driver.submit(2, "failed", json!({})).await;
    driver.fail(&driver.claim_one("failed").await, "it broke: \"quoted\"\n💥").await;
    driver.check_state(&id, "failed").await;
    let retry = json!({ "max_retries": 1, "backoff": { "type": "fixed", "delay_ms": 0 } });
    let id = driver.submit(3, "retried", json!({ "retry": retry })).await;
    for attempt in 0..2 {
        let claim = driver.claim_one("retried").await;
        let error = json!({ "message": format!("attempt {attempt}"), "class": "transient" });
        driver.report("fail", &claim, error).await;
    }
    driver.check_state(&id, "failed").await;
}

async fn cancelled(driver: &Driver) {
    let id = driver.submit(4, "cancelled", json!({ "tags": { "why": "operator" } })).await;
    driver.operate(&id, "cancel", json!({ "reason": "not needed" })).await;
    let id = driver.submit(5, "cancelled-gracefully", json!({})).await;
    let claim = driver.claim_one("cancelled-gracefully").await;
    driver.operate(&id, "cancel", json!({ "reason": "in a while", "grace_ms": 60_000 })).await;
    driver.report("release", &claim, json!({})).await;
    driver.check_state(&id, "cancelled").await;
    let id = driver.submit(6, "cancelled-while-active", json!({})).await;
    driver.claim_one("cancelled-while-active").await;
    driver.operate(&id, "cancel", json!({})).await;
}

async fn expired(driver: &Driver) {
    for (number, fields) in [
        (7, json!({ "deadline_ms": 1 })),
        (8, json!({ "start_by_ms": 1 })),
        (9, json!({ "deadline_ms": 1, "delay_ms": FOREVER_MS })),
    ] {
        driver.submit(number, "expired", fields).await;
    }
    driver.submit(10, "expired-while-active", json!({ "deadline_ms": 300 })).await;
    driver.claim_one("expired-while-active").await;
    driver.server.tick("execution_deadline", 4).await;
    let retry = json!({ "max_interruptions": 0 });
    let id = driver.submit(11, "interrupted-too-often", json!({ "retry": retry })).await;
    driver.claim_one("interrupted-too-often").await;
    driver.server.tick("lease_expiry", 1).await;
    driver.check_state(&id, "expired").await;
}

/// Attempts that end without ending their execution, which then completes.
async fn put_back(driver: &Driver) {
    driver
        .submit(
            12,
            "put-back",
            json!({ "attempt_timeout_ms": 1, "retry": {
        "max_retries": 2, "backoff": { "type": "fixed", "delay_ms": 0 } } }),
        )
        .await;
    driver.claim_one("put-back").await;
    driver.server.tick("attempt_timeout", 1).await;
    driver.report("release", &driver.claim_one("put-back").await, json!({})).await;
    driver.report("delay", &driver.claim_one("put-back").await, json!({ "delay_ms": 1 })).await;
    driver.server.tick("delay_promoter", 1).await;
    driver.complete(&driver.claim_one("put-back").await, json!("at last")).await;

    // A claim whose response was lost: the worker's heartbeat does not name the lease.
    for number in [13, 14] {
        driver.submit(number, "orphaned", json!({})).await;
    }
    let claims = driver.claim_as("worker-2", "orphaned", 2, json!({})).await;
    let mut known_lease = op("", &claims[0], json!({}));
    known_lease.as_object_mut().expect("a JSON object").remove("op");
    wait_until("the lease that no heartbeat names is orphaned", async || {
        let heartbeat = json!({ "leases": [known_lease] });
        let response = driver.server.call_ok("POST", "/v1/workers/worker-2/heartbeat", heartbeat).await;
        response["orphaned"] != json!([])
    })
    .await;
    driver.complete(&claims[0], json!("renewed")).await;
    driver.complete(&driver.claim_one("orphaned").await, json!("orphaned before")).await;

    // A worker that departs with a lease.
    driver.submit(15, "left", json!({})).await;
    assert_eq!(driver.claim_as("worker-3", "left", 1, json!({})).await.len(), 1);
    driver.server.call_ok("DELETE", "/v1/workers/worker-3", json!({})).await;
    driver.complete(&driver.claim_one("left").await, json!(null)).await;
}

async fn changed_by_operators(driver: &Driver) {
    let id = driver.submit(16, "moved", json!({ "tags": { "team": "red", "old": "yes" } })).await;
    driver.operate(&id, "reschedule", json!({ "delay_ms": 60_000 })).await;
    driver.operate(&id, "reschedule", json!({ "delay_ms": 0 })).await;
    driver.operate(&id, "priority", json!({ "priority": -5 })).await;
    driver.operate(&id, "tags", json!({ "set": { "team": "blue" }, "remove": ["old"] })).await;
    driver.claim_one("moved").await;
    driver.operate(&id, "revoke-lease", json!({ "reason": "a bad host" })).await;
    driver.complete(&driver.claim_one("moved").await, json!(16)).await;
}

async fn replayed(driver: &Driver) {
    let id = driver.submit(17, "replayed", json!({})).await;
    driver.fail(&driver.claim_one("replayed").await, "the first generation").await;
    driver.operate(&id, "replay", json!({})).await;
    driver.complete(&driver.claim_one("replayed").await, json!("the second generation")).await;
    let id = driver.submit(18, "replayed-and-waiting", json!({})).await;
    driver.complete(&driver.claim_one("replayed-and-waiting").await, json!("is gone")).await;
    driver.operate(&id, "replay", json!({})).await;
}

/// A history that is too long for the execution's row: older lines move to pages.
async fn with_a_long_history(driver: &Driver) {
    let id = driver.submit(19, "long", json!({})).await;
    for round in 0..14 {
        driver.claim_one("long").await;
        let reason = format!("round {round}: {}", "reason ".repeat(100));
        driver.operate(&id, "revoke-lease", json!({ "reason": reason })).await;
    }
    driver.complete(&driver.claim_one("long").await, json!("after many attempts")).await;
}

/// Executions whose leases expired and that wait again; one of them is claimed later.
async fn interrupted(driver: &Driver) {
    for (number, lane) in [(20, "interrupted"), (23, "interrupted-and-waiting")] {
        driver.submit(number, lane, json!({ "tags": { "kept": "interrupted" } })).await;
        driver.claim_one(lane).await;
    }
    driver.server.tick("lease_expiry", 2).await;
}

/// Streams of every mode and kind, in two attempts.
async fn with_streams(driver: &Driver) {
    driver.submit(21, "streams", json!({})).await;
    let claim = driver.claim_one("streams").await;
    for (kind, data) in [
        ("stdout", json!("line one")),
        ("stderr", json!("a warning")),
        ("event", json!({ "token": "Hello", "n": 1.0 })),
        ("blob", json!("AAEC")),
    ] {
        driver.report("frame", &claim, json!({ "kind": kind, "data": data })).await;
    }
    let best_effort = json!({ "kind": "event", "mode": "best_effort", "data": { "percent": 5 } });
    driver.report("frame", &claim, best_effort).await;
    driver.report("release", &claim, json!({})).await;
    let claim = driver.claim_one("streams").await;
    for data in [json!({ "done": 1, "gone": true }), json!({ "done": 2, "gone": null, "list": [1] })] {
        let summary = json!({ "kind": "event", "mode": "summary", "data": data });
        driver.report("frame", &claim, summary).await;
    }
    driver.report("frame", &claim, json!({ "kind": "stdout", "data": "the second attempt" })).await;
    driver.complete(&claim, json!(null)).await;
}

/// An execution that was deleted after its retention: only its events remain in the log.
async fn deleted(driver: &Driver) {
    let id = driver.submit(22, "deleted", json!({ "retention_ms": 0, "tags": { "gone": "yes" } })).await;
    driver.complete(&driver.claim_one("deleted").await, json!(null)).await;
    driver.server.tick("retention", 1).await;
    let (status, _) = driver.server.call("GET", &format!("/v1/executions/{id}"), None, None).await;
    assert_eq!(status, 404);
}
