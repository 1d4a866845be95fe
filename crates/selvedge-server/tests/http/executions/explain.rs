//! Explain: every reason that holds now is named, with its subject.

use crate::support::{Server, text_of};
use serde_json::{Value, json};

/// A reason without its message and time: code, type of the subject and its id.
type Named = (String, Option<String>, Option<String>);

fn named(code: &str, kind: &str, id: &str) -> Named {
    (code.into(), Some(kind.into()), Some(id.into()))
}

async fn explain(server: &Server, id: &str) -> Value {
    server.read(&format!("executions/{id}/explain")).await
}

/// Returns the reasons of an execution, in order.
async fn reasons(server: &Server, id: &str) -> Vec<Named> {
    let explained = explain(server, id).await;
    let reasons = explained["reasons"].as_array().expect("reasons is an array").iter();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    reasons
        .map(|reason| (text_of(&reason["code"]), text(&reason["ref"]["type"]), text(&reason["ref"]["id"])))
        .collect()
}

/// Returns the message of the reason with this code.
async fn message(server: &Server, id: &str, code: &str) -> String {
    let explained = explain(server, id).await;
    let reasons = explained["reasons"].as_array().expect("reasons is an array");
    let found = reasons.iter().find(|reason| reason["code"] == code);
    text_of(&found.unwrap_or_else(|| panic!("{code} is missing: {explained}"))["message"])
}

#[tokio::test]
async fn a_waiting_execution_names_full_limits_before_any_claim_has_met_them() {
    let server = Server::start().await;
    server.configure("quotas/calls", json!({ "concurrency": 0 })).await;
    server.configure("budgets/month", json!({ "limits": { "tokens": { "hard": 10 } } })).await;
    let spent = server.post("/v1/budgets/month/usage", json!({ "usage": { "tokens": 10 } })).await;
    assert_eq!(spent.status, 200, "{}", spent.text());
    let holder = server.submit(json!({ "kind": "k", "concurrency": { "key": "tenant", "limit": 1 } })).await;
    assert_eq!(server.claim("i", 1).await.len(), 1);
    let draws = json!({
        "kind": "k", "lane": "empty", "concurrency": { "key": "tenant", "limit": 1 },
        "quotas": ["calls"], "budgets": ["month"],
    });
    let id = server.submit(draws).await;
    assert_eq!(server.execution(&id).await["state"], "waiting", "no claim has met its limits");
    assert_eq!(
        reasons(&server, &id).await,
        [
            named("concurrency_limit", "concurrency_key", "tenant"),
            named("holder", "execution", &holder),
            named("concurrency_limit", "quota", "calls"),
            named("budget_limit", "budget", "month"),
            named("no_worker_in_lane", "lane", "empty"),
        ]
    );
}

#[tokio::test]
async fn a_paused_lane_that_is_also_full_names_both_limits() {
    let server = Server::start().await;
    server.configure("lanes/default", json!({ "concurrency": 1 })).await;
    let first = server.submit(json!({ "kind": "k" })).await;
    assert_eq!(server.claim("i", 1).await.len(), 1);
    server.configure("lanes/default", json!({ "state": "paused", "concurrency": 1 })).await;
    let id = server.submit(json!({ "kind": "k" })).await;
    assert_eq!(
        reasons(&server, &id).await,
        [
            named("lane_paused", "lane", "default"),
            named("concurrency_limit", "lane", "default"),
            named("holder", "execution", &first),
        ]
    );
}

#[tokio::test]
async fn a_held_execution_also_says_that_no_worker_is_there() {
    let server = Server::start().await;
    let key = json!({ "kind": "k", "concurrency": { "key": "tenant", "limit": 1 } });
    let first = server.submit(key.clone()).await;
    let second = server.submit(key).await;
    assert_eq!(server.claim("i", 2).await.len(), 1);
    let drain = server.post("/v1/workers/i/drain", json!({})).await;
    assert_eq!(drain.status, 200, "{}", drain.text());
    assert_eq!(
        reasons(&server, &second).await,
        [
            named("concurrency_limit", "concurrency_key", "tenant"),
            named("holder", "execution", &first),
            named("workers_draining", "lane", "default"),
        ]
    );
}

#[tokio::test]
async fn a_line_names_its_head_and_whether_a_worker_could_run_it() {
    let server = Server::start().await;
    let mut line = Vec::new();
    for _ in 0..3 {
        line.push(server.submit(json!({ "kind": "k", "fairness_key": "tenant" })).await);
    }
    let behind = |head: &str| {
        [named("fairness_turn", "fairness_key", "tenant"), named("line_head", "execution", head)]
    };
    let without_worker = reasons(&server, &line[2]).await;
    assert_eq!(without_worker[..2], behind(&line[0]));
    assert_eq!(without_worker[2..], [named("no_worker_in_lane", "lane", "default")]);
    assert!(message(&server, &line[2], "line_head").await.contains("no live worker can run it"));
    assert_eq!(server.claim("i", 1).await.len(), 1);
    assert_eq!(reasons(&server, &line[2]).await, behind(&line[1]), "the line has moved up");
    assert!(message(&server, &line[2], "line_head").await.contains("1 live worker can run it"));
}

#[tokio::test]
async fn a_delayed_execution_names_the_delay_and_everything_that_would_hold_it_afterwards() {
    let server = Server::start().await;
    server.configure("lanes/default", json!({ "state": "paused" })).await;
    let id = server.submit(json!({ "kind": "k", "delay_ms": 600_000, "deadline_ms": 900_000 })).await;
    let explained = explain(&server, &id).await;
    assert_eq!(
        (&explained["state"], &explained["reasons"][0]["code"]),
        (&json!("delayed"), &json!("delayed"))
    );
    assert_eq!(explained["next_change_at"], explained["reasons"][0]["until_at"]);
    let codes: Vec<String> = reasons(&server, &id).await.into_iter().map(|(code, ..)| code).collect();
    assert_eq!(codes, ["delayed", "lane_paused", "no_worker_in_lane", "deadline"]);
}

#[tokio::test]
async fn a_reserve_above_the_hard_limit_is_explained_as_never() {
    let server = Server::start().await;
    let config = json!({ "limits": { "tokens": { "hard": 10 } }, "period_ms": 60_000 });
    server.configure("budgets/month", config).await;
    let budgets = json!([{ "name": "month", "reserve": { "tokens": 11 } }]);
    let id = server.submit(json!({ "kind": "k", "budgets": budgets })).await;
    for state in ["waiting", "held"] {
        let explained = explain(&server, &id).await;
        assert_eq!(explained["state"], state);
        let reason = &explained["reasons"][0];
        assert_eq!(
            (&reason["code"], &reason["ref"], &reason["until_at"]),
            (&json!("reserve_exceeds_limit"), &json!({ "type": "budget", "id": "month" }), &json!(null))
        );
        assert_eq!(explained["next_change_at"], json!(null));
        assert!(server.claim("i", 1).await.is_empty());
    }
}

#[tokio::test]
async fn a_failed_execution_names_its_last_error_and_its_attempts() {
    let server = Server::start().await;
    let retry = json!({ "max_retries": 1, "backoff": { "type": "fixed", "delay_ms": 0 } });
    let id = server.submit(json!({ "kind": "k", "retry": retry })).await;
    for attempt in 0..2 {
        let claim = server.claim_one("i").await;
        let mut fail = crate::support::op("fail", &claim);
        fail["message"] = json!(format!("error {attempt}"));
        assert_eq!(server.report("i", fail).await["ok"], true);
    }
    assert_eq!(explain(&server, &id).await["state"], "failed");
    assert_eq!(message(&server, &id, "ended").await, "It ended as failed after 2 attempts");
    assert_eq!(
        message(&server, &id, "failed").await,
        "Last error, of class transient, after 1 of 1 retries: error 1"
    );
}

#[tokio::test]
async fn a_skipped_execution_names_the_upstream_that_decided_it_and_where_the_skipping_began() {
    let server = Server::start().await;
    let body = json!({
        "defaults": { "kind": "k", "retry": { "max_retries": 0 } },
        "nodes": [{ "name": "a" }, { "name": "b" }, { "name": "c" }],
        "edges": [{ "from": "a", "to": "b" }, { "from": "b", "to": "c" }],
    });
    let ids = server.submit_flow(body).await["executions"].clone();
    let (a, b, c) = (text_of(&ids["a"]), text_of(&ids["b"]), text_of(&ids["c"]));
    let claim = server.claim_one("i").await;
    server.fail("i", &claim, "no route to host").await;
    server.wait_for_state(&c, "skipped").await;
    let codes: Vec<String> = reasons(&server, &b).await.into_iter().map(|(code, ..)| code).collect();
    assert_eq!(codes, ["ended", "skipped", "upstream_ended"]);
    assert_eq!(reasons(&server, &b).await[2], named("upstream_ended", "execution", &a));
    assert_eq!(
        message(&server, &b, "upstream_ended").await,
        "Upstream “a” ended as failed (no route to host); its edge needs success"
    );
    assert_eq!(reasons(&server, &c).await[2], named("upstream_ended", "execution", &b));
    assert_eq!(reasons(&server, &c).await[3], named("skip_origin", "execution", &a));
    assert_eq!(
        message(&server, &c, "skip_origin").await,
        "The skipping began with “a”, which ended as failed (no route to host)"
    );
}

#[tokio::test]
async fn a_cancelled_execution_names_the_operator_and_the_reason() {
    let server = Server::start().await;
    let id = server.submit(json!({ "kind": "k" })).await;
    server.post(&format!("/v1/executions/{id}/cancel"), json!({ "reason": "a typing error" })).await;
    assert_eq!(message(&server, &id, "cancelled").await, "It was cancelled by admin: a typing error");
    assert_eq!(message(&server, &id, "ended").await, "It ended as cancelled without an attempt");
}
