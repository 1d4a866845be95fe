//! Finished scenes of schedules: times that submitted an execution and a flow, were skipped and refused, and a run that a caller
//! asked for. All of them are paused or deleted in the end.

use crate::driver::{Driver, FOREVER_MS};
use crate::server::wait_until;
use serde_json::json;

/// Plays all scenes.
pub async fn play(driver: &Driver) {
    let execution = json!({ "kind": "work", "lane": "scheduled", "retention_ms": FOREVER_MS });
    let mut refused = execution.clone();
    refused["quotas"] = json!(["no-such-quota"]);
    let node = json!({ "name": "a", "kind": "work", "lane": "scheduled", "retention_ms": FOREVER_MS });
    for (name, submit, counted) in [
        ("skipping", json!({ "execution": execution }), "skipped"),
        ("refused", json!({ "execution": refused }), "refused"),
        ("flow", json!({ "flow": { "nodes": [node] } }), "fired"),
    ] {
        let overlap = if name == "skipping" { "skip" } else { "queue" };
        let body = json!({ "interval_ms": 1000, "submit": submit, "overlap": overlap });
        driver.server.call_ok("PUT", &format!("/v1/schedules/{name}"), body).await;
        wait_until("the schedule has decided a time", async || {
            driver.server.tick("schedule", 0).await;
            driver.server.get(&format!("/v1/schedules/{name}")).await[counted] != 0
        })
        .await;
        driver.server.call_ok("PATCH", &format!("/v1/schedules/{name}"), json!({ "paused": true })).await;
    }
    driver.server.call_ok("POST", "/v1/schedules/skipping/run", json!({})).await;
    driver.server.call_ok("DELETE", "/v1/schedules/refused", json!({})).await;
    let cron = json!({
        "cron": "30 2 * * *", "time_zone": "Europe/Berlin", "catch_up": "all", "jitter_ms": 1000, "paused": true,
        "submit": { "execution": execution },
    });
    driver.server.call_ok("PUT", "/v1/schedules/cron", cron).await;
    loop {
        let claims = driver.claim_as("worker-1", "scheduled", 10, json!({})).await;
        if claims.is_empty() {
            break;
        }
        for claim in claims {
            driver.complete(&claim, json!(null)).await;
        }
    }
}
