//! Scenes of admission that have happened: gates that held and let go on, budgets that were spent, breached, reset, removed.

use crate::driver::{Driver, FOR_EVER_MS};
use crate::generate::flows::nodes;
use crate::server::until;
use serde_json::json;

/// Plays all scenes.
pub async fn play(driver: &Driver) {
    lanes(driver).await;
    let_go_on(driver).await;
    spent(driver).await;
    breached(driver).await;
    in_parts(driver).await;
}

/// Lanes with limits that something went through. The window of the rate is over when the fixture is read.
async fn lanes(driver: &Driver) {
    let limits = json!({ "concurrency": 4, "rate": { "count": 100, "window_ms": 1000 }, "weight": 3 });
    driver.configure("lanes/limited", limits).await;
    driver.submit(301, "limited", json!({})).await;
    driver.complete(&driver.claim_one("limited").await, json!(null)).await;
    driver.configure("lanes/brief", json!({ "state": "paused" })).await;
    driver.server.done("DELETE", "/v1/lanes/brief", json!({})).await;
}

/// Held by a key and by a quota, and released by an end.
async fn let_go_on(driver: &Driver) {
    driver
        .configure("quotas/past", json!({ "concurrency": 1, "rate": { "count": 50, "window_ms": 1000 } }))
        .await;
    for (number, draws) in [
        (302, json!({ "concurrency": { "key": "past", "limit": 1 } })),
        (304, json!({ "quotas": ["past"] })),
        (306, json!({ "fairness_key": "past" })),
    ] {
        for number in [number, number + 1] {
            driver.submit(number, "let-go-on", draws.clone()).await;
        }
    }
    let mut left = 6;
    while left > 0 {
        for claim in driver.claim_as("worker-1", "let-go-on", 6, json!({})).await {
            driver.complete(&claim, json!(null)).await;
            left -= 1;
        }
    }
}

/// A ledger with entries of executions and of nobody, in two periods; a budget that resets itself; one that was removed.
async fn spent(driver: &Driver) {
    let limits = json!({ "tokens": { "soft": 5, "hard": 1000 }, "cost": { "hard": 0.25 } });
    driver.configure("budgets/month", json!({ "limits": limits, "period_ms": FOR_EVER_MS })).await;
    let reserve = json!({ "budgets": [{ "name": "month", "reserve": { "tokens": 20, "cost": 0.000001 } }] });
    driver.submit(308, "spent", reserve).await;
    let claim = driver.claim_one("spent").await;
    let usage = json!({ "budget": "month", "usage": { "tokens": 3120.5 / 1000.0 }, "dedup_key": "call-1" });
    driver.report("usage", &claim, usage).await;
    let spent = json!({ "usage": { "tokens": 4, "cost": 0.01 }, "dedup_key": "outside-1" });
    driver.server.done("POST", "/v1/budgets/month/usage", spent).await;
    driver.server.done("POST", "/v1/budgets/month/reset", json!({})).await;
    driver.report("usage", &claim, json!({ "budget": "month", "usage": { "tokens": 7 } })).await;
    driver.server.done("POST", "/v1/budgets/month/usage", json!({ "usage": { "tokens": 2 } })).await;
    driver.complete(&claim, json!(null)).await;

    driver
        .configure("budgets/brief", json!({ "limits": { "tokens": { "hard": 10 } }, "period_ms": 1 }))
        .await;
    driver.server.done("POST", "/v1/budgets/brief/usage", json!({ "usage": { "tokens": 1 } })).await;
    until("the budget is reset", async || {
        driver.server.engine.tick("budget_reset").await.expect("the tick runs");
        driver.server.get("/v1/budgets/brief").await["period"] == 1
    })
    .await;
    driver.server.done("DELETE", "/v1/budgets/brief", json!({})).await;
}

/// Budgets that are used up: one fails what runs, one suspends it until there is room.
async fn breached(driver: &Driver) {
    for (number, name, on_hard) in [(309, "fails", "fail"), (310, "suspends", "suspend")] {
        let config = json!({ "limits": { "tokens": { "hard": 10 } }, "on_hard": on_hard });
        driver.configure(&format!("budgets/{name}"), config).await;
        let id = driver.submit(number, name, json!({ "budgets": [name] })).await;
        let claim = driver.claim_one(name).await;
        driver.report("usage", &claim, json!({ "budget": name, "usage": { "tokens": 12 } })).await;
        driver.server.tick("gate_release", 1).await;
        driver.is(&id, if on_hard == "fail" { "failed" } else { "suspended" }).await;
    }
}

/// Budgets that count for each flow and for each lane.
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
    // A flow whose member is held: its counts say so, and it does not end.
    driver.configure("quotas/shut", json!({ "rate": { "count": 0, "window_ms": 1000 } })).await;
    let held = json!({ "nodes": nodes(["held"]), "defaults": {
        "kind": "work", "lane": "held-in-flow", "retention_ms": FOR_EVER_MS, "quotas": ["shut"] } });
    driver.flow(312, "held-in-flow", held).await;
    assert!(driver.claim_as("worker-1", "held-in-flow", 1, json!({})).await.is_empty());
}
