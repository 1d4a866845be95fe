//! Budgets: configuration, reservations, usage that is counted once, scopes, and the ledger.

use super::claimed_ids;
use crate::support::{Server, check_problem, op_with, text_of};
use serde_json::{Value, json};

/// Submits an execution that reserves tokens of a budget. Returns its id.
async fn submit_with_reserve(server: &Server, budget: &str, reserve: Value) -> String {
    let budgets = json!([{ "name": budget, "reserve": { "tokens": reserve } }]);
    server.submit(json!({ "kind": "k", "budgets": budgets })).await
}

/// Returns a configuration with a hard limit of tokens.
fn hard_limit(limit: Value) -> Value {
    json!({ "limits": { "tokens": { "hard": limit } } })
}

#[tokio::test]
async fn a_budget_is_created_replaced_shown_listed_and_removed() {
    let server = Server::start().await;
    let limits = json!({ "tokens": { "hard": 1000, "soft": 800.5 }, "cost": { "hard": 0.000001 } });
    let config = json!({ "limits": limits, "period_ms": 86_400_000, "on_hard": "suspend" });
    let created = server.put("/v1/budgets/month", config).await;
    assert_eq!(created.status, 201, "{}", created.text());
    let created = created.json();
    let next_reset = text_of(&created["next_reset_at"]);
    assert_eq!(
        created,
        json!({
            "name": "month", "limits": limits, "scope": "namespace", "period_ms": 86_400_000, "on_hard": "suspend",
            "usage": {}, "reserved": {}, "period": 0, "next_reset_at": next_reset, "held": 0,
        })
    );
    assert_eq!(server.read("budgets/month").await, created);
    let replaced = server.put("/v1/budgets/month", json!({ "limits": {} })).await;
    assert_eq!(replaced.status, 200);
    let defaults = json!({
        "name": "month", "limits": {}, "scope": "namespace", "period_ms": null, "on_hard": "hold", "usage": {},
        "reserved": {}, "period": 0, "next_reset_at": null, "held": 0,
    });
    assert_eq!(replaced.json(), defaults);
    server.configure("budgets/day", hard_limit(json!(1))).await;
    let page = server.read("budgets?limit=1").await;
    assert_eq!(page["items"][0]["name"], "day");
    let cursor = text_of(&page["next_cursor"]);
    let page = server.read(&format!("budgets?limit=1&cursor={cursor}")).await;
    assert_eq!((&page["items"][0], &page["next_cursor"]), (&defaults, &json!(null)));
    assert_eq!(server.delete("/v1/budgets/month").await.json(), json!({ "name": "month", "removed": true }));
    assert_eq!(server.get("/v1/budgets/month").await.problem(), (404, "not_found".into(), "".into()));
}

#[tokio::test]
async fn a_claim_reserves_an_amount_and_usage_reports_replace_it() {
    let server = Server::start().await;
    server.configure("budgets/month", hard_limit(json!(100))).await;
    let mut all = Vec::new();
    for _ in 0..4 {
        all.push(submit_with_reserve(&server, "month", json!(40)).await);
    }
    let claims = server.claim("i", 10).await;
    assert_eq!(claimed_ids(&claims), all[..2]);
    let budget = server.read("budgets/month").await;
    assert_eq!((&budget["usage"], &budget["reserved"]), (&json!({}), &json!({ "tokens": 80 })));
    let held = server.execution(&all[2]).await;
    assert_eq!(held["held_reason"]["gate"], json!({ "kind": "budget", "name": "month", "part": null }));
    assert_eq!(
        held["held_reason"]["message"],
        "budget month allows 100 tokens: 0 are used, 80 reserved, and it asks for 40"
    );
    let explained = server.read(&format!("executions/{}/explain", all[2])).await;
    assert_eq!(explained["reasons"][0]["code"], "budget_limit");
    assert_eq!(
        explained["reasons"][0]["message"],
        "Budget month allows 100 tokens: 0 are used, 80 reserved, and it asks for 40"
    );
    let mut holders: Vec<String> = explained["reasons"].as_array().expect("reasons is an array")[1..]
        .iter()
        .map(|reason| text_of(&reason["ref"]["id"]))
        .collect();
    holders.sort();
    let mut active = all[..2].to_vec();
    active.sort();
    assert_eq!(holders, active);

    let usage = json!({ "budget": "month", "usage": { "tokens": 10.5 }, "dedup_key": "call-1" });
    for _ in 0..2 {
        let spent = server.report("i", op_with("usage", &claims[0], usage.clone())).await;
        assert_eq!(spent, json!({ "ok": true, "state": "active", "breached": [] }));
    }
    server.complete("i", &claims[0], json!(null)).await;
    let budget = server.read("budgets/month").await;
    assert_eq!(
        (&budget["usage"], &budget["reserved"]),
        (&json!({ "tokens": 10.5 }), &json!({ "tokens": 40 }))
    );
    assert_eq!(budget["held"], 1, "the completion released the next one");
    let next = server.claim("i", 10).await;
    assert_eq!(claimed_ids(&next), all[2..3]);

    // An attempt that has ended may still report usage.
    let late = json!({ "budget": "month", "usage": { "tokens": 0.25, "cost": 3 } });
    let spent = server.report("i", op_with("usage", &claims[0], late)).await;
    assert_eq!(spent, json!({ "ok": true, "state": "completed", "breached": [] }));
    let other_lease = json!({ "budget": "month", "usage": {}, "lease_id": claims[1]["lease"]["id"] });
    let refused = server.report("i", op_with("usage", &claims[0], other_lease)).await;
    assert_eq!(refused["error"]["code"], "stale_lease");
    assert_eq!(server.read("budgets/month").await["usage"], json!({ "tokens": 10.75, "cost": 3 }));
    let ledger = server.read(&format!("executions/{}/usage", all[0])).await;
    let entry =
        json!({ "budget": "month", "part": null, "period": 0, "spent": { "tokens": 10.75, "cost": 3 } });
    assert_eq!(ledger, json!({ "items": [entry], "next_cursor": null }));
    assert_eq!(server.read(&format!("executions/{}/usage", all[3])).await["items"], json!([]));

    // Raising the limit releases the last one.
    assert_eq!(server.execution(&all[3]).await["state"], "held");
    let (last, _) = tokio::join!(server.claim_one("two"), async {
        server.wait_for_claims(1).await;
        server.configure("budgets/month", hard_limit(json!(1000))).await
    });
    assert_eq!(last["execution"]["id"], json!(all[3]));
}

#[tokio::test]
async fn a_limit_of_zero_admits_nothing_and_a_removed_budget_holds_nothing() {
    let server = Server::start().await;
    server.configure("budgets/none", hard_limit(json!(0))).await;
    let id = server.submit(json!({ "kind": "k", "budgets": ["none"] })).await;
    assert!(server.claim("i", 10).await.is_empty());
    assert_eq!(server.execution(&id).await["state"], "held");
    assert_eq!(server.delete("/v1/budgets/none").await.status, 200);
    assert_eq!(claimed_ids(&server.claim("i", 10).await), [id]);
}

#[tokio::test]
async fn usage_is_counted_once_per_key() {
    let server = Server::start().await;
    server.configure("budgets/month", hard_limit(json!(100))).await;
    let id = server.submit(json!({ "kind": "k" })).await;
    let path = "/v1/budgets/month/usage";
    let body = json!({ "usage": { "tokens": 7 }, "dedup_key": "one", "execution": id });
    for duplicate in [false, true, true] {
        let spent = server.post(path, body.clone()).await;
        assert_eq!(spent.status, 200, "{}", spent.text());
        assert_eq!(spent.json()["duplicate"], duplicate);
        assert_eq!(spent.json()["budget"]["usage"], json!({ "tokens": 7 }));
    }
    let other = json!({ "usage": { "tokens": 8 }, "dedup_key": "one", "execution": id });
    assert_eq!(
        server.post(path, other).await.problem(),
        (409, "idempotency_mismatch".into(), "/dedup_key".into())
    );
    // The `Idempotency-Key` header is the default of `dedup_key`.
    let with_header = async |tokens: u32| {
        let body = json!({ "usage": { "tokens": tokens } }).to_string();
        server.send("POST", path, &[("idempotency-key", "two")], body.into()).await
    };
    assert_eq!(with_header(1).await.json()["duplicate"], false);
    assert_eq!(with_header(1).await.json()["duplicate"], true);
    assert_eq!(
        with_header(2).await.problem(),
        (409, "idempotency_mismatch".into(), "/headers/idempotency-key".into())
    );
    // Without a key every report counts.
    for _ in 0..2 {
        server.post(path, json!({ "usage": { "tokens": 1 } })).await;
    }
    assert_eq!(server.read("budgets/month").await["usage"], json!({ "tokens": 10 }));
    let ledger = server.read(&format!("executions/{id}/usage")).await;
    assert_eq!(ledger["items"][0]["spent"], json!({ "tokens": 7 }));

    // Keys are shared with the reports of workers.
    let claim = server.claim("i", 1).await.remove(0);
    let usage = json!({ "budget": "month", "usage": { "tokens": 7 }, "dedup_key": "one" });
    assert_eq!(server.report("i", op_with("usage", &claim, usage)).await["ok"], true);
    assert_eq!(server.read("budgets/month").await["usage"], json!({ "tokens": 10 }));
    let other = json!({ "budget": "month", "usage": { "tokens": 9 }, "dedup_key": "one" });
    let refused = server.report("i", op_with("usage", &claim, other)).await["error"].clone();
    check_problem(&refused);
    assert_eq!(
        (&refused["code"], &refused["pointer"]),
        (&json!("idempotency_mismatch"), &json!("/ops/0/dedup_key"))
    );
}

#[tokio::test]
async fn sums_of_amounts_are_exact() {
    let server = Server::start().await;
    server.configure("budgets/month", json!({ "limits": {} })).await;
    for _ in 0..10 {
        server.post_text("/v1/budgets/month/usage", r#"{"usage": {"cost": 0.1, "calls": 1e0}}"#).await;
    }
    let text = server.get("/v1/budgets/month").await.text();
    assert!(text.contains(r#""usage":{"calls":10,"cost":1}"#), "{text}");
}

#[tokio::test]
async fn a_budget_of_scope_lane_counts_each_lane_separately() {
    let server = Server::start().await;
    let config = json!({ "limits": { "tokens": { "hard": 10 } }, "scope": "lane" });
    server.configure("budgets/daily", config.clone()).await;
    let budgets = json!([{ "name": "daily", "reserve": { "tokens": 8 } }]);
    let mut all = Vec::new();
    for lane in ["a", "a", "b"] {
        all.push(server.submit(json!({ "kind": "k", "lane": lane, "budgets": budgets })).await);
    }
    let claim = json!({ "worker": "w", "lanes": ["a", "b"], "max": 10 });
    let claims = server.post("/v1/workers/i/claim", claim.clone()).await.json()["claims"].clone();
    let claims = claims.as_array().expect("claims is an array").clone();
    assert_eq!(claimed_ids(&claims), [all[0].clone(), all[2].clone()]);
    let held = server.execution(&all[1]).await["held_reason"].clone();
    assert_eq!(held["gate"], json!({ "kind": "budget", "name": "daily", "part": "a" }));
    let explained = server.read(&format!("executions/{}/explain", all[1])).await;
    assert_eq!(
        (&explained["reasons"][0]["code"], &explained["reasons"][1]["ref"]["id"]),
        (&json!("budget_limit"), &json!(all[0]))
    );
    assert_eq!(
        explained["reasons"].as_array().map(Vec::len),
        Some(2),
        "only executions of the same part are named as holders"
    );

    let usage = json!({ "budget": "daily", "usage": { "tokens": 3 } });
    server.report("i", op_with("usage", &claims[0], usage)).await;
    let budget = server.read("budgets/daily").await;
    assert_eq!((&budget["scope"], &budget["usage"]), (&json!("lane"), &json!({})));
    let part = |part: &str, used: Value| {
        json!({
            "part": part, "usage": used, "reserved": { "tokens": 8 }, "period": 0, "next_reset_at": null,
        })
    };
    assert_eq!(budget["parts"], json!([part("a", json!({ "tokens": 3 })), part("b", json!({}))]));
    assert_eq!(budget["more_parts"], false);
    let ledger = server.read(&format!("executions/{}/usage", all[0])).await;
    assert_eq!(
        ledger["items"],
        json!([{ "budget": "daily", "part": "a", "period": 0, "spent": { "tokens": 3 } }])
    );
    // Raising the limit releases the executions that the parts hold.
    server
        .configure("budgets/daily", json!({ "limits": { "tokens": { "hard": 100 } }, "scope": "lane" }))
        .await;
    let claims = server.post("/v1/workers/i/claim", claim).await.json()["claims"].clone();
    assert_eq!(claimed_ids(claims.as_array().expect("claims is an array")), [all[1].clone()]);
}

#[tokio::test]
async fn a_budget_of_scope_flow_counts_each_flow_separately() {
    let server = Server::start().await;
    let config = json!({ "limits": { "tokens": { "hard": 10 } }, "scope": "flow" });
    server.configure("budgets/each", config).await;
    let budgets = json!([{ "name": "each", "reserve": { "tokens": 10 } }]);
    let nodes = json!([{ "name": "a", "kind": "k" }, { "name": "b", "kind": "k" }]);
    let flow = server.submit_flow(json!({ "defaults": { "budgets": budgets }, "nodes": nodes })).await;
    let alone = server.submit(json!({ "kind": "k", "budgets": budgets })).await;
    let claims = server.claim("i", 10).await;
    assert_eq!(claimed_ids(&claims), [text_of(&flow["executions"]["a"]), alone.clone()]);
    let held = server.execution(&text_of(&flow["executions"]["b"])).await;
    assert_eq!(held["held_reason"]["gate"]["part"], flow["flow"]["id"]);
    let parts = server.read("budgets/each").await["parts"].clone();
    let mut names: Vec<String> =
        parts.as_array().expect("parts is an array").iter().map(|part| text_of(&part["part"])).collect();
    names.sort();
    let mut expected = vec![text_of(&flow["flow"]["id"]), alone];
    expected.sort();
    assert_eq!(names, expected);
}

#[tokio::test]
async fn the_ledger_of_an_execution_names_budgets_it_does_not_draw_on_and_is_paged() {
    let server = Server::start().await;
    for name in ["drawn", "other", "third"] {
        server.configure(&format!("budgets/{name}"), json!({ "limits": {} })).await;
    }
    let id = server.submit(json!({ "kind": "k", "budgets": ["drawn"] })).await;
    for name in ["drawn", "other", "third"] {
        let body = json!({ "usage": { "tokens": 1 }, "execution": id });
        assert_eq!(server.post(&format!("/v1/budgets/{name}/usage"), body).await.status, 200);
    }
    let mut names = Vec::new();
    let mut path = format!("executions/{id}/usage?limit=1");
    loop {
        let page = server.read(&path).await;
        names.push(text_of(&page["items"][0]["budget"]));
        match page["next_cursor"].as_str() {
            Some(cursor) => path = format!("executions/{id}/usage?limit=1&cursor={cursor}"),
            None => break,
        }
    }
    assert_eq!(names, ["drawn", "other", "third"]);
    // The ledger still names budgets that were removed.
    for name in ["drawn", "other"] {
        assert_eq!(server.delete(&format!("/v1/budgets/{name}")).await.status, 200);
    }
    let items = server.read(&format!("executions/{id}/usage")).await["items"].clone();
    let names: Vec<String> =
        items.as_array().expect("items is an array").iter().map(|entry| text_of(&entry["budget"])).collect();
    assert_eq!(names, ["drawn", "other", "third"]);
}
