//! Budget limits that are reached, and resets of budgets.

use super::claimed_ids;
use crate::support::{Server, op_with, text_of};
use selvedge_engine::Options;
use selvedge_memory::Clock;
use serde_json::{Value, json};

async fn start_with_reconcilers() -> Server {
    Server::start_with(Options::default(), Clock::system()).await
}

async fn report_usage(server: &Server, budget: &str, tokens: u32) {
    let path = format!("/v1/budgets/{budget}/usage");
    let reply = server.post(&path, json!({ "usage": { "tokens": tokens } })).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
}

async fn events_of_type(server: &Server, types: &str) -> Vec<Value> {
    server.read(&format!("events?types={types}")).await["items"]
        .as_array()
        .expect("items is an array")
        .clone()
}

#[tokio::test]
async fn reaching_a_soft_and_a_hard_limit_emits_one_event_each() {
    let server = Server::start().await;
    let limits = json!({ "tokens": { "soft": 5, "hard": 10 }, "cost": { "soft": 100 } });
    server.configure("budgets/month", json!({ "limits": limits })).await;
    for _ in 0..4 {
        report_usage(&server, "month", 4).await;
    }
    let gate = json!({ "kind": "budget", "name": "month", "part": null });
    let soft = events_of_type(&server, "budget.soft_breach").await;
    assert_eq!(soft.len(), 1);
    assert_eq!(soft[0]["data"], json!({ "gate": gate, "dimension": "tokens", "limit": 5, "used": 8 }));
    let hard = events_of_type(&server, "budget.hard_breach").await;
    assert_eq!(hard.len(), 1);
    assert_eq!(hard[0]["data"], json!({ "gate": gate, "dimension": "tokens", "limit": 10, "used": 12 }));
    assert_eq!((&hard[0]["execution"], &hard[0]["version"]), (&json!(null), &json!(null)));
    let used = events_of_type(&server, "budget.used").await;
    assert_eq!(used.len(), 4);
    assert_eq!(used[0]["data"]["usage"], json!({ "tokens": 4 }));
    assert_eq!(server.read("budgets/month").await["usage"], json!({ "tokens": 16 }), "overshoot is counted");
}

#[tokio::test]
async fn a_reset_clears_the_usage_and_releases_held_executions() {
    let server = Server::start().await;
    server.configure("budgets/month", json!({ "limits": { "tokens": { "hard": 5 } } })).await;
    report_usage(&server, "month", 9).await;
    let id = server.submit(json!({ "kind": "k", "budgets": ["month"] })).await;
    assert!(server.claim("i", 10).await.is_empty());
    assert_eq!(server.execution(&id).await["state"], "held");
    let reset = server.post("/v1/budgets/month/reset", json!({})).await;
    assert_eq!(reset.status, 200, "{}", reset.text());
    let budget = reset.json()["budget"].clone();
    assert_eq!((&budget["usage"], &budget["period"]), (&json!({}), &json!(1)));
    let events = events_of_type(&server, "budget.reset").await;
    assert_eq!((&events[0]["actor"], &events[0]["data"]["period"]), (&json!("admin"), &json!(1)));
    let claims = server.claim("i", 10).await;
    assert_eq!(claimed_ids(&claims), [id.as_str()]);

    // The ledger has one entry per period.
    for (period, tokens) in [(1, 2), (2, 3)] {
        let usage = json!({ "budget": "month", "usage": { "tokens": tokens } });
        assert_eq!(server.report("i", op_with("usage", &claims[0], usage)).await["ok"], true);
        let ledger = server.read(&format!("executions/{id}/usage")).await["items"].clone();
        let entry =
            json!({ "budget": "month", "part": null, "period": period, "spent": { "tokens": tokens } });
        assert_eq!(ledger.as_array().and_then(|items| items.last()), Some(&entry));
        assert_eq!(server.send("POST", "/v1/budgets/month/reset", &[], Vec::new()).await.status, 200);
    }
}

#[tokio::test]
async fn a_budget_with_a_period_is_reset_automatically() {
    let server = start_with_reconcilers().await;
    let config = json!({ "limits": { "tokens": { "hard": 5 } }, "period_ms": 1500 });
    let configured = server.configure("budgets/brief", config).await;
    assert!(configured["next_reset_at"].is_string(), "{configured}");
    report_usage(&server, "brief", 9).await;
    let id = server.submit(json!({ "kind": "k", "budgets": ["brief"] })).await;
    let claim = server.claim_one("i").await;
    assert_eq!(claim["execution"]["id"], json!(id));
    let events = events_of_type(&server, "budget.reset").await;
    assert!(!events.is_empty());
    assert_eq!(events[0]["actor"], json!(null), "no operator reset it");
}

#[tokio::test]
async fn an_exhausted_budget_suspends_active_executions_until_it_has_room_or_an_operator_resumes_them() {
    let server = start_with_reconcilers().await;
    let config = |hard: u32| json!({ "limits": { "tokens": { "hard": hard } }, "on_hard": "suspend" });
    server.configure("budgets/month", config(10)).await;
    let mut all = Vec::new();
    for _ in 0..2 {
        all.push(server.submit(json!({ "kind": "k", "budgets": ["month"] })).await);
    }
    let claims = server.claim("i", 2).await;
    assert_eq!(claimed_ids(&claims), all);
    let usage = json!({ "budget": "month", "usage": { "tokens": 10 } });
    let breached = server.report("i", op_with("usage", &claims[0], usage)).await;
    assert_eq!(breached, json!({ "ok": true, "state": "suspended", "breached": ["tokens"] }));
    for (id, claim) in all.iter().zip(&claims) {
        let suspended = server.wait_for_state(id, "suspended").await;
        let condition = &suspended["suspension"]["waits"][0]["condition"];
        assert!(condition.to_string().contains("month"), "{condition}");
        let stale = server.report("i", op_with("release", claim, json!({}))).await;
        assert_eq!(stale["error"]["code"], "stale_lease");
    }
    let explained = server.read(&format!("executions/{}/explain", all[0])).await;
    let codes: Vec<&str> = explained["reasons"]
        .as_array()
        .expect("reasons is an array")
        .iter()
        .filter_map(|reason| reason["code"].as_str())
        .collect();
    assert_eq!(codes, ["suspended", "budget_limit"]);
    assert_eq!(explained["reasons"][1]["ref"], json!({ "type": "budget", "id": "month" }));
    let attempts = server.list_of(&all[0], "attempts").await;
    assert_eq!(attempts[0]["outcome"], "breached");

    // The operator resumes one of them; the budget holds it when it is claimed.
    let resumed = server.post(&format!("/v1/executions/{}/resume", all[0]), json!({})).await;
    assert_eq!(resumed.status, 200, "{}", resumed.text());
    assert!(server.claim("i", 5).await.is_empty());
    assert_eq!(server.execution(&all[0]).await["state"], "held");
    assert_eq!(server.execution(&all[1]).await["state"], "suspended");
    server.configure("budgets/month", config(100)).await;
    let mut claimed = Vec::new();
    while claimed.len() < 2 {
        claimed.push(text_of(&server.claim_one("i").await["execution"]["id"]));
    }
    claimed.sort();
    all.sort();
    assert_eq!(claimed, all);
}

#[tokio::test]
async fn a_result_is_accepted_after_its_budget_suspended_the_execution() {
    let server = Server::start().await;
    let config =
        json!({ "limits": { "tokens": { "hard": 10 }, "cost": { "hard": 5 } }, "on_hard": "suspend" });
    server.configure("budgets/month", config).await;
    let usage =
        |claim: &Value| op_with("usage", claim, json!({ "budget": "month", "usage": { "tokens": 10 } }));
    let done = |claim: &Value| op_with("complete", claim, json!({ "result": 7 }));
    // In a later report: the execution is suspended in between.
    let id = server.submit(json!({ "kind": "k", "budgets": ["month"] })).await;
    let claim = server.claim("i", 1).await.remove(0);
    let breached = server.report("i", usage(&claim)).await;
    assert_eq!(breached, json!({ "ok": true, "state": "suspended", "breached": ["tokens"] }));
    assert_eq!(server.execution(&id).await["state"], "suspended");
    for _ in 0..2 {
        assert_eq!(server.report("i", done(&claim)).await, json!({ "ok": true, "state": "completed" }));
    }
    let execution = server.execution(&id).await;
    assert_eq!((&execution["outcome"], &execution["result"]), (&json!("completed"), &json!(7)));
    assert_eq!(server.read("budgets/month").await["reserved"], json!({}));
    // In the same report: it is completed and not suspended at all.
    server.post("/v1/budgets/month/reset", json!({})).await;
    let id = server.submit(json!({ "kind": "k", "budgets": ["month"] })).await;
    let claim = server.claim("i", 1).await.remove(0);
    let body = json!({ "ops": [usage(&claim), done(&claim)] });
    let results = server.post("/v1/workers/i/report", body).await.json()["results"].clone();
    assert_eq!(results[0], json!({ "ok": true, "state": "completed", "breached": ["tokens"] }));
    assert_eq!(results[1], json!({ "ok": true, "state": "completed" }));
    assert_eq!(server.list_of(&id, "attempts").await[0]["outcome"], "completed");
    // Not after the next claim.
    server.post("/v1/budgets/month/reset", json!({})).await;
    server.submit(json!({ "kind": "k", "budgets": ["month"] })).await;
    let claim = server.claim("i", 1).await.remove(0);
    assert_eq!(server.report("i", usage(&claim)).await["state"], "suspended");
    server.post("/v1/budgets/month/reset", json!({})).await;
    let next = server.claim("j", 1).await.remove(0);
    assert_eq!(server.report("i", done(&claim)).await["error"]["code"], "stale_lease");
    server.complete("j", &next, json!(8)).await;
}

#[tokio::test]
async fn a_result_is_accepted_with_the_usage_that_fails_the_execution_and_not_later() {
    let server = Server::start().await;
    let config = json!({ "limits": { "tokens": { "hard": 10 } }, "on_hard": "fail" });
    server.configure("budgets/month", config).await;
    let usage =
        |claim: &Value| op_with("usage", claim, json!({ "budget": "month", "usage": { "tokens": 10 } }));
    let done = |claim: &Value| op_with("complete", claim, json!({ "result": 7 }));
    let id = server.submit(json!({ "kind": "k", "budgets": ["month"] })).await;
    let claim = server.claim("i", 1).await.remove(0);
    let body = json!({ "ops": [usage(&claim), done(&claim)] });
    let results = server.post("/v1/workers/i/report", body).await.json()["results"].clone();
    assert_eq!(results[1], json!({ "ok": true, "state": "completed" }));
    assert_eq!(server.execution(&id).await["outcome"], "completed");
    server.post("/v1/budgets/month/reset", json!({})).await;
    let id = server.submit(json!({ "kind": "k", "budgets": ["month"] })).await;
    let claim = server.claim("i", 1).await.remove(0);
    let breached = server.report("i", usage(&claim)).await;
    assert_eq!(breached, json!({ "ok": true, "state": "failed", "breached": ["tokens"] }));
    let refused = server.report("i", done(&claim)).await["error"].clone();
    assert_eq!((&refused["code"], &refused["outcome"]), (&json!("stale_lease"), &json!("failed")));
    assert_eq!(server.execution(&id).await["outcome"], "failed");
    // Usage is counted, also after the end of its execution.
    let late = server.report("i", usage(&claim)).await;
    assert_eq!((&late["ok"], &late["state"]), (&json!(true), &json!("failed")));
    assert_eq!(server.read("budgets/month").await["usage"], json!({ "tokens": 20 }));
}

#[tokio::test]
async fn an_exhausted_budget_fails_active_executions_if_that_is_its_policy() {
    let server = start_with_reconcilers().await;
    let config = json!({ "limits": { "tokens": { "hard": 10 } }, "on_hard": "fail" });
    server.configure("budgets/month", config).await;
    let id = server.submit(json!({ "kind": "k", "budgets": ["month"] })).await;
    let other = server.submit(json!({ "kind": "k" })).await;
    assert_eq!(server.claim("i", 2).await.len(), 2);
    report_usage(&server, "month", 10).await;
    let failed = server.wait_for_state(&id, "failed").await;
    assert_eq!(failed["error"], json!({ "message": "budget month is used up", "class": "permanent" }));
    assert_eq!(
        server.execution(&other).await["state"],
        "active",
        "executions that do not draw on the budget are not affected"
    );
    let events = events_of_type(&server, "execution.failed").await;
    assert_eq!(events[0]["data"]["reason"], "budget");
    assert_eq!(server.read("budgets/month").await["reserved"], json!({}));
}

#[tokio::test]
async fn an_exhausted_budget_lets_active_executions_finish_by_default() {
    let server = start_with_reconcilers().await;
    server.configure("budgets/month", json!({ "limits": { "tokens": { "hard": 10 } } })).await;
    let id = server.submit(json!({ "kind": "k", "budgets": ["month"] })).await;
    let claim = server.claim_one("i").await;
    report_usage(&server, "month", 10).await;
    let next = server.submit(json!({ "kind": "k", "budgets": ["month"] })).await;
    assert!(server.claim("i", 5).await.is_empty());
    assert_eq!(server.execution(&next).await["state"], "held");
    server.complete("i", &claim, json!(null)).await;
    assert_eq!(server.execution(&id).await["outcome"], "completed");
    assert_eq!(server.execution(&next).await["state"], "held");
}
