//! Finished scenes of gates: gates that held and released executions, and budgets with usage, breaches, resets and
//! removal.

use crate::driver::{Driver, FOREVER_MS};
use crate::generate::flows::nodes;
use crate::server::wait_until;
use serde_json::json;

/// Plays all scenes.
pub async fn play(driver: &Driver) {
    lanes(driver).await;
    held_and_released(driver).await;
    used(driver).await;
    breached(driver).await;
    in_parts(driver).await;
}

/// Lanes with limits that admitted executions. The window of the rate has passed when the fixture is read.
async fn lanes(driver: &Driver) {
    let limits = json!({ "concurrency": 4, "rate": { "count": 100, "window_ms": 1000 }, "weight": 3 });
    driver.configure("lanes/limited", limits).await;
    driver.submit(301, "limited", json!({})).await;
    driver.complete(&driver.claim_one("limited").await, json!(null)).await;
    // A limit that counts an execution which is already active.
    driver.submit(330, "adopting", json!({})).await;
    let claim = driver.claim_one("adopting").await;
    driver.configure("lanes/adopting", json!({ "concurrency": 2 })).await;
    driver.complete(&claim, json!(null)).await;
    driver.configure("lanes/brief", json!({ "state": "paused" })).await;
    driver.server.call_ok("DELETE", "/v1/lanes/brief", json!({})).await;
}

/// Executions held by a concurrency key, a quota and a fairness key, and released by a completion.
async fn held_and_released(driver: &Driver) {
    driver
        .configure("quotas/past", json!({ "concurrency": 1, "rate": { "count": 50, "window_ms": 1000 } }))
        .await;
    for (number, required_gates) in [
        (302, json!({ "concurrency": { "key": "past", "limit": 1 } })),
        (304, json!({ "quotas": ["past"] })),
        (306, json!({ "fairness_key": "past" })),
    ] {
        for number in [number, number + 1] {
            driver.submit(number, "let-go-on", required_gates.clone()).await;
        }
    }
    let mut remaining = 6;
    while remaining > 0 {
        for claim in driver.claim_as("worker-1", "let-go-on", 6, json!({})).await {
            driver.complete(&claim, json!(null)).await;
            remaining -= 1;
        }
    }
}

/// A ledger with and without executions in two periods, and a budget that was reset automatically and then removed.
async fn used(driver: &Driver) {
    let limits = json!({ "tokens": { "soft": 5, "hard": 1000 }, "cost": { "hard": 0.25 } });
    driver.configure("budgets/month", json!({ "limits": limits, "period_ms": FOREVER_MS })).await;
    let reserve = json!({ "budgets": [{ "name": "month", "reserve": { "tokens": 20, "cost": 0.000001 } }] });
    driver.submit(308, "spent", reserve).await;
    let claim = driver.claim_one("spent").await;
    let usage = json!({ "budget": "month", "usage": { "tokens": 3120.5 / 1000.0 }, "dedup_key": "call-1" });
    driver.report("usage", &claim, usage).await;
    let usage = json!({ "usage": { "tokens": 4, "cost": 0.01 }, "dedup_key": "outside-1" });
    driver.server.call_ok("POST", "/v1/budgets/month/usage", usage).await;
    driver.server.call_ok("POST", "/v1/budgets/month/reset", json!({})).await;
    driver.report("usage", &claim, json!({ "budget": "month", "usage": { "tokens": 7 } })).await;
    driver.server.call_ok("POST", "/v1/budgets/month/usage", json!({ "usage": { "tokens": 2 } })).await;
    driver.complete(&claim, json!(null)).await;

    driver
        .configure("budgets/brief", json!({ "limits": { "tokens": { "hard": 10 } }, "period_ms": 1 }))
        .await;
    driver.server.call_ok("POST", "/v1/budgets/brief/usage", json!({ "usage": { "tokens": 1 } })).await;
    wait_until("the budget is reset", async || {
        driver.server.engine.tick("budget_reset").await.expect("the tick succeeds");
        driver.server.get("/v1/budgets/brief").await["period"] == 1
    })
    .await;
    driver.server.call_ok("DELETE", "/v1/budgets/brief", json!({})).await;
}

/// Exhausted budgets: one fails active executions, the other suspends them until it has room.
async fn breached(driver: &Driver) {
    for (number, name, on_hard) in [(309, "fails", "fail"), (310, "suspends", "suspend")] {
        let config = json!({ "limits": { "tokens": { "hard": 10 } }, "on_hard": on_hard });
        driver.configure(&format!("budgets/{name}"), config).await;
        let id = driver.submit(number, name, json!({ "budgets": [name] })).await;
        let claim = driver.claim_one(name).await;
        driver.report("usage", &claim, json!({ "budget": name, "usage": { "tokens": 12 } })).await;
        driver.server.engine.tick("gate_release").await.expect("the tick succeeds");
        driver.check_state(&id, if on_hard == "fail" { "failed" } else { "suspended" }).await;
    }
}

/// Budgets that count each flow or each lane separately.
async fn in_parts(driver: &Driver) {
    for scope in ["flow", "lane"] {
        let limits = json!({ "tokens": { "hard": 100, "soft": 1 } });
        driver.configure(&format!("budgets/per-{scope}"), json!({ "limits": limits, "scope": scope })).await;
    }
    let budgets = json!([{ "name": "per-flow", "reserve": { "tokens": 3 } }, "per-lane"]);
    let node = |name: &str| json!({ "name": name, "budgets": budgets });
    driver.flow(311, "parts", json!({ "nodes": [node("a"), node("b")] })).await;
    for claim in driver.claim("parts", 2).await {
        for budget in ["per-flow", "per-lane"] {
            driver.report("usage", &claim, json!({ "budget": budget, "usage": { "tokens": 5 } })).await;
        }
        driver.complete(&claim, json!(null)).await;
    }
    // A flow whose only node is held, so that it does not end.
    driver.configure("quotas/shut", json!({ "rate": { "count": 0, "window_ms": 1000 } })).await;
    let held = json!({ "nodes": nodes(["held"]), "defaults": {
        "kind": "work", "lane": "held-in-flow", "retention_ms": FOREVER_MS, "quotas": ["shut"] } });
    driver.flow(312, "held-in-flow", held).await;
    assert!(driver.claim_as("worker-1", "held-in-flow", 1, json!({})).await.is_empty());
}
