//! A submission that names a budget or a quota which does not exist is refused, wherever the name stands.

use crate::support::{Server, check_problem, op_with, text_of};
use serde_json::{Value, json};

fn unknown(code: &str, pointer: &str) -> (u16, String, String) {
    (422, code.into(), pointer.into())
}

async fn start_with_known_gates() -> Server {
    let server = Server::start().await;
    server.configure("budgets/month", json!({ "limits": { "tokens": { "hard": 100 } } })).await;
    server.configure("quotas/calls", json!({ "concurrency": 5 })).await;
    server
}

#[tokio::test]
async fn a_typing_error_in_the_name_of_a_budget_or_a_quota_is_refused_and_creates_nothing() {
    let server = start_with_known_gates().await;
    for (field, value, code, pointer) in [
        ("budgets", json!(["moth"]), "unknown_budget", "/budgets/0"),
        ("budgets", json!(["month", { "name": "moth" }]), "unknown_budget", "/budgets/1/name"),
        (
            "budgets",
            json!([{ "name": "moth", "reserve": { "tokens": 1 } }]),
            "unknown_budget",
            "/budgets/0/name",
        ),
        ("quotas", json!(["calls", "call"]), "unknown_quota", "/quotas/1"),
    ] {
        let mut body = json!({ "kind": "k" });
        body[field] = value;
        let refused = server.post("/v1/executions", body.clone()).await;
        assert_eq!(refused.problem(), unknown(code, pointer), "{body}");
        assert!(refused.text().contains("create the"), "{}", refused.text());
    }
    assert_eq!(server.read("executions").await["items"], json!([]));
    server.submit(json!({ "kind": "k", "budgets": ["month"], "quotas": ["calls"] })).await;
}

#[tokio::test]
async fn an_unknown_name_in_a_batch_refuses_only_its_item() {
    let server = start_with_known_gates().await;
    let executions = json!([
        { "kind": "a", "budgets": ["month"] },
        { "kind": "b", "quotas": ["call"] },
        { "kind": "c", "budgets": ["month", { "name": "moth" }] },
        { "kind": "d" },
    ]);
    let results = server.post("/v1/executions/batch", json!({ "executions": executions })).await.json();
    let results = results["results"].as_array().expect("results is an array").clone();
    assert_eq!(results[0]["duplicate"], false);
    assert_eq!(results[3]["duplicate"], false);
    for (index, code, pointer) in [
        (1, "unknown_quota", "/executions/1/quotas/0"),
        (2, "unknown_budget", "/executions/2/budgets/1/name"),
    ] {
        let problem = &results[index]["error"];
        check_problem(problem);
        assert_eq!((&problem["code"], &problem["pointer"]), (&json!(code), &json!(pointer)));
    }
}

#[tokio::test]
async fn an_unknown_name_refuses_a_whole_flow_and_points_to_where_it_was_written() {
    let server = start_with_known_gates().await;
    let node = |name: &str, fields: Value| {
        let mut node = json!({ "name": name, "kind": "k" });
        fields.as_object().into_iter().flatten().for_each(|(key, value)| node[key] = value.clone());
        node
    };
    for (body, code, pointer) in [
        (
            json!({ "nodes": [node("a", json!({})), node("b", json!({ "quotas": ["calls", "call"] }))] }),
            "unknown_quota",
            "/nodes/1/quotas/1",
        ),
        (
            json!({ "defaults": { "budgets": ["month", { "name": "moth" }] }, "nodes": [node("a", json!({}))] }),
            "unknown_budget",
            "/defaults/budgets/1/name",
        ),
        (
            json!({
                "defaults": { "budgets": ["month"], "quotas": ["call"] },
                "nodes": [node("a", json!({ "budgets": [], "quotas": [] })), node("b", json!({ "budgets": [] }))],
            }),
            "unknown_quota",
            "/defaults/quotas/0",
        ),
    ] {
        assert_eq!(server.post("/v1/flows", body.clone()).await.problem(), unknown(code, pointer), "{body}");
    }
    assert_eq!(server.read("flows").await["items"], json!([]));
    assert_eq!(server.read("executions").await["items"], json!([]));
}

#[tokio::test]
async fn an_unknown_name_refuses_growth_and_a_spawn() {
    let server = start_with_known_gates().await;
    let flow = server.submit_flow(json!({ "nodes": [{ "name": "a", "kind": "k" }] })).await;
    let path = format!("/v1/flows/{}/nodes", text_of(&flow["flow"]["id"]));
    let grown = json!({ "nodes": [{ "name": "b", "kind": "k", "budgets": [{ "name": "moth" }] }] });
    assert_eq!(
        server.post(&path, grown).await.problem(),
        unknown("unknown_budget", "/nodes/0/budgets/0/name")
    );
    let claim = server.claim("i", 1).await.remove(0);
    let nodes =
        |quota: &str| json!({ "nodes": [{ "name": "c", "kind": "other", "quotas": ["calls", quota] }] });
    let refused = server.report("i", op_with("spawn", &claim, nodes("call"))).await["error"].clone();
    check_problem(&refused);
    assert_eq!(
        (&refused["code"], &refused["pointer"]),
        (&json!("unknown_quota"), &json!("/ops/0/nodes/0/quotas/1"))
    );
    server.configure("quotas/call", json!({})).await;
    let spawn = op_with("spawn", &claim, nodes("call"));
    assert_eq!(server.report("i", spawn.clone()).await["ok"], true);
    // The children exist, so a repeat does not need the quota any more.
    assert_eq!(server.delete("/v1/quotas/call").await.status, 200);
    assert_eq!(server.report("i", spawn).await["ok"], true);
}

#[tokio::test]
async fn a_call_that_was_refused_may_be_repeated_with_its_key_once_the_budget_exists() {
    let server = Server::start().await;
    let submit = async || {
        let key = [("idempotency-key", "one")];
        server.send("POST", "/v1/executions", &key, br#"{"kind": "k", "budgets": ["new"]}"#.to_vec()).await
    };
    assert_eq!(submit().await.problem(), unknown("unknown_budget", "/budgets/0"));
    server.configure("budgets/new", json!({ "limits": {} })).await;
    assert_eq!(submit().await.status, 201);
    assert_eq!(submit().await.status, 200);
    // A duplicate is answered although the budget is gone.
    assert_eq!(server.delete("/v1/budgets/new").await.status, 200);
    assert_eq!(submit().await.status, 200);
}

#[tokio::test]
async fn a_soft_limit_above_the_hard_limit_is_refused() {
    let server = Server::start().await;
    let limits = |hard: u32, soft: u32| json!({ "limits": { "to/kens": { "hard": hard, "soft": soft } } });
    let invalid = || unknown("invalid_field", "/limits/to~1kens/soft");
    assert_eq!(server.put("/v1/budgets/b", limits(5, 6)).await.problem(), invalid());
    server.configure("budgets/b", limits(5, 5)).await;
    let patch = json!({ "limits": { "to/kens": { "hard": 4 } } });
    assert_eq!(server.patch("/v1/budgets/b", patch).await.problem(), invalid());
    assert_eq!(server.read("budgets/b").await["limits"], limits(5, 5)["limits"]);
}

#[tokio::test]
async fn a_reserve_above_the_hard_limit_is_held_and_explained_as_never() {
    let server = Server::start().await;
    let config =
        json!({ "limits": { "cost": { "hard": 1 }, "tokens": { "hard": 100 } }, "period_ms": 60_000 });
    server.configure("budgets/month", config).await;
    let usage = json!({ "usage": { "cost": 1 } });
    assert_eq!(server.post("/v1/budgets/month/usage", usage).await.status, 200);
    let budgets = json!([{ "name": "month", "reserve": { "tokens": 101 } }]);
    let id = server.submit(json!({ "kind": "k", "budgets": budgets })).await;
    assert!(server.claim("i", 1).await.is_empty());
    let explained = server.read(&format!("executions/{id}/explain")).await;
    assert_eq!(explained["state"], "held");
    let reasons = explained["reasons"].as_array().expect("reasons is an array");
    let reason = reasons.iter().find(|reason| reason["code"] == "reserve_exceeds_limit");
    let reason = reason.unwrap_or_else(|| panic!("{explained}"));
    assert_eq!(reason["until_at"], json!(null));
    assert!(text_of(&reason["message"]).contains("allows 100 tokens and it asks for 101"), "{reason}");
    server.patch("/v1/budgets/month", json!({ "limits": { "tokens": { "hard": 101 }, "cost": null } })).await;
    assert_eq!(server.claim("i", 1).await.len(), 1);
}

#[tokio::test]
async fn usage_of_an_unknown_budget_is_refused_by_name_and_later_counted() {
    let server = Server::start().await;
    server.submit(json!({ "kind": "k" })).await;
    let claim = server.claim("i", 1).await.remove(0);
    let usage =
        op_with("usage", &claim, json!({ "budget": "month", "usage": { "tokens": 3 }, "dedup_key": "a" }));
    let refused = server.report("i", usage.clone()).await["error"].clone();
    check_problem(&refused);
    assert_eq!(
        (&refused["code"], &refused["status"], &refused["pointer"]),
        (&json!("unknown_budget"), &json!(422), &json!("/ops/0/budget"))
    );
    server.configure("budgets/month", json!({ "limits": { "tokens": { "hard": 100 } } })).await;
    server.complete("i", &claim, json!(null)).await;
    let counted = server.report("i", usage).await;
    assert_eq!(counted, json!({ "ok": true, "state": "completed", "breached": [] }));
    assert_eq!(server.read("budgets/month").await["usage"], json!({ "tokens": 3 }));
}
