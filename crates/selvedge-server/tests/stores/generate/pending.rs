//! Scenes that stay pending: executions in every state that is not terminal, held by every kind of gate, leases, open
//! waits, and a row of every kind in the outbox. The engine that plays these scenes neither dispatches nor reconciles.

use crate::driver::{Driver, FAR_FUTURE, FOREVER_MS, op, text};
use crate::generate::flows::nodes;
use selvedge_server::Role;
use serde_json::{Value, json};

/// Plays all scenes.
pub async fn play(driver: &mut Driver) {
    waiting(driver).await;
    held(driver).await;
    active(driver).await;
    suspended(driver).await;
    outbox(driver).await;
    sessions(driver).await;
}

async fn waiting(driver: &Driver) {
    driver.submit(401, "waiting", json!({ "capabilities": ["rare"], "tags": { "kept": "waiting" } })).await;
    driver.submit(402, "waiting", json!({ "priority": 3, "unique_while_active": "only-one" })).await;
    driver.submit(403, "delayed", json!({ "delay_until_at": FAR_FUTURE })).await;
    let retry = json!({ "backoff": { "type": "fixed", "delay_ms": FOREVER_MS } });
    driver.submit(404, "backing-off", json!({ "retry": retry })).await;
    let error = json!({ "message": "try later", "class": "infrastructure" });
    driver.report("fail", &driver.claim_one("backing-off").await, error).await;
    driver
        .flow(
            405,
            "blocked",
            json!({
                "name": "blocked", "tags": { "kept": "blocked" }, "deadline_ms": FOREVER_MS,
                "nodes": nodes(["up", "down"]), "edges": [{ "from": "up", "to": "down" }],
            }),
        )
        .await;
    for input in [1, 2] {
        let debounce = json!({ "key": "quiet", "delay_ms": FOREVER_MS });
        let body = json!({ "kind": "debounced", "input": input, "debounce": debounce });
        driver.server.call_ok("POST", "/v1/executions", body).await;
    }
    // A bulk job that runs, and one that was stopped.
    let job = json!({ "action": { "type": "replay" }, "filter": { "lane": "no such lane" } });
    driver.server.call_ok("POST", "/v1/bulk-jobs", job.clone()).await;
    let stopped = driver.server.call_ok("POST", "/v1/bulk-jobs", job).await;
    driver.server.call_ok("DELETE", &format!("/v1/bulk-jobs/{}", text(&stopped["id"])), Value::Null).await;
    // A paused lane and a draining lane.
    driver.submit(407, "paused", json!({})).await;
    driver.configure("lanes/paused", json!({ "state": "paused" })).await;
    driver.submit(408, "draining", json!({})).await;
    driver.configure("lanes/draining", json!({ "state": "draining", "concurrency": 1 })).await;
}

async fn held(driver: &mut Driver) {
    // By a concurrency key: one execution is active, the other is held until it ends.
    let concurrency = json!({ "concurrency": { "key": "one at a time", "limit": 1 } });
    for number in [410, 411] {
        driver.submit(number, "held-by-key", concurrency.clone()).await;
    }
    let claim = driver.claim_as("worker-1", "held-by-key", 2, json!({})).await.remove(0);
    driver.notes.add("holder_of_key", claim);
    // By a quota with a rate of 0.
    driver.configure("quotas/closed", json!({ "rate": { "count": 0, "window_ms": 1000 } })).await;
    driver.submit(412, "held-by-quota", json!({ "quotas": ["closed"] })).await;
    assert!(driver.claim_as("worker-1", "held-by-quota", 1, json!({})).await.is_empty());
    // By a budget of which an active execution has reserved nearly everything.
    driver.configure("budgets/reserved", json!({ "limits": { "tokens": { "hard": 100 } } })).await;
    for (number, tokens) in [(413, 90), (414, 20)] {
        let budgets = json!([{ "name": "reserved", "reserve": { "tokens": tokens } }]);
        driver.submit(number, "held-by-budget", json!({ "budgets": budgets })).await;
    }
    assert_eq!(driver.claim_as("worker-1", "held-by-budget", 2, json!({})).await.len(), 1);
    // By the line of a fairness key, whose first execution is waiting.
    for number in [415, 416, 417] {
        driver.submit(number, "held-by-fairness", json!({ "fairness_key": "tenant", "priority": 2 })).await;
    }
}

async fn active(driver: &mut Driver) {
    driver.submit(420, "leased", json!({ "attempt_timeout_ms": FOREVER_MS })).await;
    let claim = driver.claim_as("worker-1", "leased", 1, json!({ "kinds": ["work"] })).await.remove(0);
    driver.report("progress", &claim, json!({ "percent": 50, "message": "half" })).await;
    driver
        .report(
            "frame",
            &claim,
            json!({ "kind": "stdout", "data": "running", "correlation_id": "request-1" }),
        )
        .await;
    driver.report("step", &claim, json!({ "name": "first", "result": 1 })).await;
    let mut fence = op("", &claim, json!({}));
    fence.as_object_mut().expect("a JSON object").remove("op");
    driver.server.call_ok("POST", "/v1/workers/worker-1/heartbeat", json!({ "leases": [fence] })).await;
    driver.notes.add("live_lease", claim);
    let id = driver.submit(421, "asked-to-cancel", json!({})).await;
    driver.claim_one("asked-to-cancel").await;
    driver.operate(&id, "cancel", json!({ "reason": "soon", "grace_ms": FOREVER_MS })).await;
    // The second attempt of an execution that was interrupted before.
    driver.claim_one("interrupted").await;
}

async fn suspended(driver: &mut Driver) {
    let id = driver.submit(430, "suspended", json!({ "deadline_ms": FOREVER_MS })).await;
    let claim = driver.claim_one("suspended").await;
    let nested = json!({ "any": [
        { "all": [{ "signal": "first" }, { "any": [{ "signal": "second" }, { "until_at": FAR_FUTURE }] }] },
        { "count": { "n": 2, "of": ["vote", "veto"], "distinct": "sources" } },
        { "operator": true },
    ] });
    driver
        .report(
            "suspend",
            &claim,
            json!({
                "condition": nested, "timeout_ms": FOREVER_MS, "on_timeout": "resume",
                "waitpoints": ["vote", { "name": "long", "source": "carol", "expires_ms": FOREVER_MS }],
            }),
        )
        .await;
    driver
        .signal(&id, json!({ "name": "vote", "source": "ada", "payload": 1, "idempotency_key": "ada" }))
        .await;
    driver.signal(&id, json!({ "name": "first", "payload": { "counted": true } })).await;
    driver.signal(&id, json!({ "name": "unheard", "payload": "buffered" })).await;
    // Open waits of steps.
    driver.submit(431, "suspended-in-steps", json!({})).await;
    let claim = driver.claim_one("suspended-in-steps").await;
    driver
        .report(
            "suspend",
            &claim,
            json!({ "waits": [
        { "step": "nap", "kind": "sleep", "condition": { "until_at": FAR_FUTURE } },
        { "step": "answer", "kind": "wait", "condition": { "signal": "answer" },
          "timeout_ms": FOREVER_MS, "on_timeout": "escalate" },
    ] }),
        )
        .await;
    // Executions whose next due time is a timeout or the expiry of a waitpoint.
    driver.submit(434, "suspended-with-timeout", json!({})).await;
    let claim = driver.claim_one("suspended-with-timeout").await;
    let wait =
        json!({ "condition": { "signal": "never" }, "timeout_ms": FOREVER_MS, "on_timeout": "expire" });
    driver.report("suspend", &claim, wait).await;
    driver.submit(435, "suspended-with-waitpoint", json!({})).await;
    let claim = driver.claim_one("suspended-with-waitpoint").await;
    let expires = json!([{ "name": "never", "expires_ms": FOREVER_MS }]);
    driver
        .report("suspend", &claim, json!({ "condition": { "signal": "never" }, "waitpoints": expires }))
        .await;
    // Tokens of a rotated key within its grace period, and of the current key.
    for (number, name, grace_ms) in [(432, "graced", Some(FOREVER_MS)), (433, "signing", None)] {
        let lane = format!("token-{name}");
        driver.submit(number, &lane, json!({})).await;
        let claim = driver.claim_one(&lane).await;
        let wait = json!({ "condition": { "signal": "approval" }, "waitpoints": ["approval"] });
        let suspended = driver.report("suspend", &claim, wait).await;
        driver.notes.add(&format!("{name}_waitpoint"), suspended["waitpoints"][0].clone());
        if let Some(grace_ms) = grace_ms {
            let grace = json!({ "grace_ms": grace_ms });
            driver.server.call_ok("POST", "/v1/admin/waitpoint-keys/rotate", grace).await;
        }
    }
    // A key of each role. All are revoked, so that a server on this store needs no key.
    for role in Role::ALL.map(Role::as_str) {
        let expires_at = (role == "reader").then_some("2190-01-01T00:00:00.000Z");
        let body = json!({ "name": role, "role": role, "namespaces": ["default"], "expires_at": expires_at });
        let created = driver.server.call_ok("POST", "/v1/admin/keys", body).await;
        let path = format!("/v1/admin/keys/{}", created["id"].as_str().expect("the key has an id"));
        driver.server.call_ok("DELETE", &path, json!({})).await;
    }
}

/// One outbox row of each kind. The state of an affected execution shows that the row has not been dispatched.
async fn outbox(driver: &Driver) {
    // Edges: an upstream that an operator cancelled, which has not been propagated to its downstream.
    let flow = driver
        .flow(
            440,
            "outbox-edges",
            json!({
                "name": "edges", "tags": { "outbox": "edges" }, "nodes": nodes(["up", "down"]),
                "edges": [{ "from": "up", "to": "down", "when": "finished" }],
            }),
        )
        .await;
    driver.operate(&text(&flow["executions"]["up"]), "cancel", json!({})).await;
    driver.check_state(&text(&flow["executions"]["down"]), "waiting_dependencies").await;
    // Siblings: a satisfied group whose remaining upstream is still active.
    let flow = driver
        .flow(
            443,
            "outbox-siblings",
            json!({
                "name": "siblings", "nodes": nodes(["fast", "slow", "next"]),
                "edges": [{ "from": "fast", "to": "next" }, { "from": "slow", "to": "next" }],
                "groups": [{ "node": "next", "policy": { "type": "any_of" } }],
            }),
        )
        .await;
    let claims = driver.claim("outbox-siblings", 2).await;
    let fast =
        claims.iter().find(|claim| claim["execution"]["node"] == "fast").expect("node fast is claimed");
    driver.complete(fast, json!("won")).await;
    driver.check_state(&text(&flow["executions"]["slow"]), "active").await;
    // Children: a failed parent whose child is still waiting.
    let child = |lane: &str| json!({ "nodes": [{ "name": "child", "kind": "work", "lane": lane, "retention_ms": FOREVER_MS }] });
    driver.submit(447, "outbox-children", json!({})).await;
    let claim = driver.claim_one("outbox-children").await;
    let spawned = driver.report("spawn", &claim, child("outbox-child")).await;
    driver.fail(&claim, "its child is to be cancelled").await;
    driver.check_state(&text(&spawned["executions"]["child"]), "waiting").await;
    // Flow: a cancellation whose nodes are still waiting.
    driver.flow(448, "outbox-flow", json!({ "name": "to cancel", "nodes": nodes(["a", "b"]) })).await;
    let cancel = json!({ "mode": "pending", "reason": "enough" });
    let path = format!("/v1/flows/{}/cancel", crate::driver::fixed_id(448));
    driver.server.call_ok("POST", &path, cancel).await;
    // Parent: a terminal child whose parent is still suspended.
    let parent = driver.submit(451, "outbox-parent", json!({})).await;
    let claim = driver.claim_one("outbox-parent").await;
    driver.report("spawn", &claim, child("ended-child")).await;
    driver.report("suspend", &claim, json!({ "condition": { "children": true } })).await;
    driver.complete(&driver.claim_one("ended-child").await, json!("ended")).await;
    driver.check_state(&parent, "suspended").await;
}

/// The session of a draining worker, and a worker that was removed.
async fn sessions(driver: &Driver) {
    let scope = json!({ "lease_ttl_ms": 2000, "kinds": ["work", "other"], "capabilities": ["gpu"] });
    driver.claim_as("worker-4", "nothing-here", 1, scope).await;
    driver.server.call_ok("POST", "/v1/workers/worker-4/drain", json!({})).await;
    driver.claim_as("worker-5", "nothing-here", 1, json!({})).await;
    driver.server.call_ok("DELETE", "/v1/workers/worker-5", Value::Object(Default::default())).await;
}
