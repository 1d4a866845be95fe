//! Quotas: limits on the rate and concurrency of the executions that refer to them.

use super::claimed_ids;
use crate::support::{Server, text_of};
use selvedge_engine::Options;
use selvedge_memory::Clock;
use serde_json::json;

/// Submits an execution that draws on these quotas. Returns its id.
async fn submit_with_quotas(server: &Server, quotas: &[&str]) -> String {
    server.submit(json!({ "kind": "k", "quotas": quotas })).await
}

#[tokio::test]
async fn a_quota_is_created_replaced_shown_listed_and_removed() {
    let server = Server::start().await;
    let config = json!({ "rate": { "count": 3, "window_ms": 1000 }, "concurrency": 2 });
    let created = server.put("/v1/quotas/calls", config).await;
    let expected = json!({
        "name": "calls", "rate": { "count": 3, "window_ms": 1000 }, "concurrency": 2, "retry_after_ms": null,
        "active": 0, "held": 0,
    });
    assert_eq!((created.status, created.json()), (201, expected.clone()));
    assert_eq!(server.read("quotas/calls").await, expected);
    let replaced = server.put("/v1/quotas/calls", json!({})).await;
    assert_eq!((replaced.status, &replaced.json()["rate"]), (200, &json!(null)));
    server.configure("quotas/b", json!({})).await;
    let first = server.read("quotas?limit=1").await;
    assert_eq!(first["items"][0]["name"], "b");
    let cursor = text_of(&first["next_cursor"]);
    let second = server.read(&format!("quotas?limit=1&cursor={cursor}")).await;
    assert_eq!((&second["items"][0]["name"], &second["next_cursor"]), (&json!("calls"), &json!(null)));
    assert_eq!(server.delete("/v1/quotas/calls").await.status, 200);
    assert_eq!(server.get("/v1/quotas/calls").await.problem(), (404, "not_found".into(), "".into()));
    assert_eq!(server.delete("/v1/quotas/calls").await.problem(), (404, "not_found".into(), "".into()));
}

#[tokio::test]
async fn a_quota_limits_concurrency_across_lanes() {
    let server = Server::start().await;
    server.configure("quotas/few", json!({ "concurrency": 1 })).await;
    let first = submit_with_quotas(&server, &["few"]).await;
    let second = server.submit(json!({ "kind": "k", "lane": "other", "quotas": ["few"] })).await;
    let body = json!({ "worker": "w", "lanes": ["default", "other"], "max": 5 });
    let claims = server.post("/v1/workers/i/claim", body.clone()).await.json()["claims"].clone();
    let claims = claims.as_array().expect("claims is an array").clone();
    assert_eq!(claimed_ids(&claims), [first.as_str()]);
    let quota = server.read("quotas/few").await;
    assert_eq!((&quota["active"], &quota["held"]), (&json!(1), &json!(1)));
    let held = server.execution(&second).await;
    assert_eq!(held["held_reason"]["gate"], json!({ "kind": "quota", "name": "few", "part": null }));
    let explained = server.read(&format!("executions/{second}/explain")).await;
    assert_eq!(
        (&explained["reasons"][0]["message"], &explained["reasons"][1]["ref"]["id"]),
        (&json!("Quota few has 1 active and allows 1"), &json!(first))
    );
    server.complete("i", &claims[0], json!(null)).await;
    assert_eq!(server.execution(&second).await["state"], "waiting");
    let claims = server.post("/v1/workers/i/claim", body).await.json()["claims"].clone();
    assert_eq!(claimed_ids(claims.as_array().expect("claims is an array")), [second]);
}

#[tokio::test]
async fn an_exhausted_quota_shows_when_to_retry_and_releases_when_its_window_has_room() {
    let server = Server::start_with(Options::default(), Clock::system()).await;
    server.configure("quotas/calls", json!({ "rate": { "count": 2, "window_ms": 600_000 } })).await;
    let mut all = Vec::new();
    for _ in 0..3 {
        all.push(submit_with_quotas(&server, &["calls"]).await);
    }
    assert_eq!(claimed_ids(&server.claim("i", 10).await), all[..2]);
    let quota = server.read("quotas/calls").await;
    let wait = quota["retry_after_ms"].as_i64().expect("retry_after_ms is an integer");
    assert!((500_000..=606_000).contains(&wait), "{wait}");
    assert_eq!((&quota["active"], &quota["held"]), (&json!(2), &json!(1)));
    let held = server.execution(&all[2]).await;
    let reason = &held["held_reason"];
    assert_eq!(reason["message"], "quota calls allows 2 starts in 10 min, and as many were started");
    let explained = server.read(&format!("executions/{}/explain", all[2])).await;
    assert_eq!(
        (&explained["reasons"][0]["code"], &explained["reasons"][0]["until_at"]),
        (&json!("rate_limit"), &reason["until_at"])
    );
    assert_eq!(explained["next_change_at"], reason["until_at"]);
    assert_eq!(server.read("quotas").await["items"][0]["held"], 1);

    // With a shorter window, the reconciler releases the held execution and a waiting claim gets it.
    server.configure("quotas/calls", json!({ "rate": { "count": 2, "window_ms": 400 } })).await;
    assert_eq!(server.claim_one("i").await["execution"]["id"], json!(all[2]));
    assert_eq!(server.read("quotas/calls").await["held"], 0);
}

#[tokio::test]
async fn a_removed_quota_holds_nothing() {
    let server = Server::start().await;
    server.configure("quotas/none", json!({ "concurrency": 0 })).await;
    let id = submit_with_quotas(&server, &["none"]).await;
    assert!(server.claim("i", 10).await.is_empty());
    assert_eq!(server.execution(&id).await["state"], "held");
    assert_eq!(server.delete("/v1/quotas/none").await.status, 200);
    assert_eq!(claimed_ids(&server.claim("i", 10).await), [id]);
}

#[tokio::test]
async fn an_execution_may_draw_on_quotas_that_limit_nothing_or_were_removed() {
    let server = Server::start().await;
    server.configure("quotas/open", json!({})).await;
    server.configure("quotas/removed", json!({ "concurrency": 0 })).await;
    let id = submit_with_quotas(&server, &["open", "removed"]).await;
    assert_eq!(server.delete("/v1/quotas/removed").await.status, 200);
    assert_eq!(claimed_ids(&server.claim("i", 10).await), [id]);
}
