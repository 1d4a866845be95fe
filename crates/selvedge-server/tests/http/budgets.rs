//! Budgets: reserved by claims, settled by what was spent, counted once, and shown.

use crate::client::{Server, check_problem, op_with, text_of};
use crate::lanes::ids;
use serde_json::{Value, json};

async fn drawing(server: &Server, budget: &str, reserve: Value) -> String {
    let budgets = json!([{ "name": budget, "reserve": { "tokens": reserve } }]);
    server.submit(json!({ "kind": "k", "budgets": budgets })).await
}

fn hard(limit: Value) -> Value {
    json!({ "limits": { "tokens": { "hard": limit } } })
}

#[tokio::test]
async fn a_budget_is_created_replaced_shown_listed_and_removed() {
    let server = Server::start().await;
    let limits = json!({ "tokens": { "hard": 1000, "soft": 800.5 }, "cost": { "hard": 0.000001 } });
    let config = json!({ "limits": limits, "period_ms": 86_400_000, "on_hard": "suspend" });
    let created = server.put("/v1/budgets/month", config).await;
    assert_eq!(created.status, 201, "{}", created.text());
    let shown = created.json();
    let next_reset = text_of(&shown["next_reset_at"]);
    assert_eq!(
        shown,
        json!({
            "name": "month", "limits": limits, "scope": "namespace", "period_ms": 86_400_000, "on_hard": "suspend",
            "usage": {}, "reserved": {}, "period": 0, "next_reset_at": next_reset, "held": 0,
        })
    );
    assert_eq!(server.shown("budgets/month").await, shown);
    let replaced = server.put("/v1/budgets/month", json!({ "limits": {} })).await;
    assert_eq!(replaced.status, 200);
    let defaults = json!({
        "name": "month", "limits": {}, "scope": "namespace", "period_ms": null, "on_hard": "hold", "usage": {},
        "reserved": {}, "period": 0, "next_reset_at": null, "held": 0,
    });
    assert_eq!(replaced.json(), defaults);
    server.configure("budgets/day", hard(json!(1))).await;
    let page = server.shown("budgets?limit=1").await;
    assert_eq!(page["items"][0]["name"], "day");
    let cursor = text_of(&page["next_cursor"]);
    let page = server.shown(&format!("budgets?limit=1&cursor={cursor}")).await;
    assert_eq!((&page["items"][0], &page["next_cursor"]), (&defaults, &json!(null)));
    assert_eq!(server.delete("/v1/budgets/month").await.json(), json!({ "name": "month", "removed": true }));
    assert_eq!(server.get("/v1/budgets/month").await.problem(), (404, "not_found".into(), "".into()));
}

#[tokio::test]
async fn a_claim_reserves_the_estimate_and_the_report_settles_what_it_cost() {
    let server = Server::start().await;
    server.configure("budgets/month", hard(json!(100))).await;
    let mut all = Vec::new();
    for _ in 0..4 {
        all.push(drawing(&server, "month", json!(40)).await);
    }
    let claims = server.claim("i", 10).await;
    assert_eq!(ids(&claims), all[..2]);
    let budget = server.shown("budgets/month").await;
    assert_eq!((&budget["usage"], &budget["reserved"]), (&json!({}), &json!({ "tokens": 80 })));
    let held = server.execution(&all[2]).await;
    assert_eq!(held["held_reason"]["gate"], json!({ "kind": "budget", "name": "month", "part": null }));
    assert_eq!(
        held["held_reason"]["message"],
        "budget month allows 100 tokens: 0 are used, 80 reserved, and it asks for 40"
    );
    let explained = server.shown(&format!("executions/{}/explain", all[2])).await;
    assert_eq!(explained["reasons"][0]["code"], "budget_limit");
    assert_eq!(explained["reasons"][0]["message"], held["held_reason"]["message"]);
    let mut holders: Vec<String> = explained["reasons"].as_array().expect("reasons")[1..]
        .iter()
        .map(|one| text_of(&one["ref"]))
        .collect();
    holders.sort();
    let mut running = all[..2].to_vec();
    running.sort();
    assert_eq!(holders, running);

    let usage = json!({ "budget": "month", "usage": { "tokens": 10.5 }, "dedup_key": "call-1" });
    for _ in 0..2 {
        let spent = server.report("i", op_with("usage", &claims[0], usage.clone())).await;
        assert_eq!(spent, json!({ "ok": true, "state": "active" }));
    }
    server.complete("i", &claims[0], json!(null)).await;
    let budget = server.shown("budgets/month").await;
    assert_eq!(
        (&budget["usage"], &budget["reserved"]),
        (&json!({ "tokens": 10.5 }), &json!({ "tokens": 40 }))
    );
    assert_eq!(budget["held"], 1, "the end let the next go on");
    let next = server.claim("i", 10).await;
    assert_eq!(ids(&next), all[2..3]);

    // An attempt that has ended may still say what it spent.
    let late = json!({ "budget": "month", "usage": { "tokens": 0.25, "cost": 3 } });
    let spent = server.report("i", op_with("usage", &claims[0], late)).await;
    assert_eq!(spent, json!({ "ok": true, "state": "completed" }));
    let stranger = json!({ "budget": "month", "usage": {}, "lease_id": claims[1]["lease"]["id"] });
    let refused = server.report("i", op_with("usage", &claims[0], stranger)).await;
    assert_eq!(refused["error"]["code"], "stale_lease");
    assert_eq!(server.shown("budgets/month").await["usage"], json!({ "tokens": 10.75, "cost": 3 }));
    let ledger = server.shown(&format!("executions/{}/usage", all[0])).await;
    let entry =
        json!({ "budget": "month", "part": null, "period": 0, "spent": { "tokens": 10.75, "cost": 3 } });
    assert_eq!(ledger, json!({ "items": [entry], "next_cursor": null }));
    assert_eq!(server.shown(&format!("executions/{}/usage", all[3])).await["items"], json!([]));

    // A limit that is raised lets the rest go on.
    assert_eq!(server.execution(&all[3]).await["state"], "held");
    let (last, _) = tokio::join!(server.claim_one("two"), async {
        server.until_claims_wait(1).await;
        server.configure("budgets/month", hard(json!(1000))).await
    });
    assert_eq!(last["execution"]["id"], json!(all[3]));
}

#[tokio::test]
async fn a_budget_of_nothing_admits_nothing_and_a_budget_that_is_removed_holds_nothing() {
    let server = Server::start().await;
    server.configure("budgets/none", hard(json!(0))).await;
    let id = server.submit(json!({ "kind": "k", "budgets": ["none"] })).await;
    assert!(server.claim("i", 10).await.is_empty());
    assert_eq!(server.execution(&id).await["state"], "held");
    assert_eq!(server.delete("/v1/budgets/none").await.status, 200);
    assert_eq!(ids(&server.claim("i", 10).await), [id]);
}

#[tokio::test]
async fn what_was_spent_is_counted_once_for_its_key() {
    let server = Server::start().await;
    server.configure("budgets/month", hard(json!(100))).await;
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
    // The key of the call counts where the body has none.
    let keyed = async |tokens: u32| {
        let body = json!({ "usage": { "tokens": tokens } }).to_string();
        server.send("POST", path, &[("idempotency-key", "two")], body.into()).await
    };
    assert_eq!(keyed(1).await.json()["duplicate"], false);
    assert_eq!(keyed(1).await.json()["duplicate"], true);
    assert_eq!(
        keyed(2).await.problem(),
        (409, "idempotency_mismatch".into(), "/headers/idempotency-key".into())
    );
    // Without any key everything counts.
    for _ in 0..2 {
        server.post(path, json!({ "usage": { "tokens": 1 } })).await;
    }
    assert_eq!(server.shown("budgets/month").await["usage"], json!({ "tokens": 10 }));
    let ledger = server.shown(&format!("executions/{id}/usage")).await;
    assert_eq!(ledger["items"][0]["spent"], json!({ "tokens": 7 }));

    // A key that a report has used is the same key.
    let claim = server.claim("i", 1).await.remove(0);
    let usage = json!({ "budget": "month", "usage": { "tokens": 7 }, "dedup_key": "one" });
    assert_eq!(server.report("i", op_with("usage", &claim, usage)).await["ok"], true);
    assert_eq!(server.shown("budgets/month").await["usage"], json!({ "tokens": 10 }));
    let other = json!({ "budget": "month", "usage": { "tokens": 9 }, "dedup_key": "one" });
    let refused = server.report("i", op_with("usage", &claim, other)).await["error"].clone();
    check_problem(&refused);
    assert_eq!(
        (&refused["code"], &refused["pointer"]),
        (&json!("idempotency_mismatch"), &json!("/ops/0/dedup_key"))
    );
}

#[tokio::test]
async fn amounts_are_exact_however_often_they_are_added() {
    let server = Server::start().await;
    server.configure("budgets/month", json!({ "limits": {} })).await;
    for _ in 0..10 {
        server.post_text("/v1/budgets/month/usage", r#"{"usage": {"cost": 0.1, "calls": 1e0}}"#).await;
    }
    let text = server.get("/v1/budgets/month").await.text();
    assert!(text.contains(r#""usage":{"calls":10,"cost":1}"#), "{text}");
}

#[tokio::test]
async fn a_budget_counts_each_lane_on_its_own_where_that_is_its_scope() {
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
    let claims = claims.as_array().expect("claims").clone();
    assert_eq!(ids(&claims), [all[0].clone(), all[2].clone()]);
    let held = server.execution(&all[1]).await["held_reason"].clone();
    assert_eq!(held["gate"], json!({ "kind": "budget", "name": "daily", "part": "a" }));
    let explained = server.shown(&format!("executions/{}/explain", all[1])).await;
    assert_eq!(
        (&explained["reasons"][0]["code"], &explained["reasons"][1]["ref"]),
        (&json!("budget_limit"), &json!(all[0]))
    );
    assert_eq!(explained["reasons"].as_array().map(Vec::len), Some(2), "only those of its own part hold it");

    let usage = json!({ "budget": "daily", "usage": { "tokens": 3 } });
    server.report("i", op_with("usage", &claims[0], usage)).await;
    let budget = server.shown("budgets/daily").await;
    assert_eq!((&budget["scope"], &budget["usage"]), (&json!("lane"), &json!({})));
    let part = |part: &str, used: Value| {
        json!({
            "part": part, "usage": used, "reserved": { "tokens": 8 }, "period": 0, "next_reset_at": null,
        })
    };
    assert_eq!(budget["parts"], json!([part("a", json!({ "tokens": 3 })), part("b", json!({}))]));
    assert_eq!(budget["more_parts"], false);
    let ledger = server.shown(&format!("executions/{}/usage", all[0])).await;
    assert_eq!(
        ledger["items"],
        json!([{ "budget": "daily", "part": "a", "period": 0, "spent": { "tokens": 3 } }])
    );
    // A limit that is raised lets go on what its parts hold.
    server
        .configure("budgets/daily", json!({ "limits": { "tokens": { "hard": 100 } }, "scope": "lane" }))
        .await;
    let claims = server.post("/v1/workers/i/claim", claim).await.json()["claims"].clone();
    assert_eq!(ids(claims.as_array().expect("claims")), [all[1].clone()]);
}

#[tokio::test]
async fn a_budget_counts_each_flow_on_its_own_where_that_is_its_scope() {
    let server = Server::start().await;
    let config = json!({ "limits": { "tokens": { "hard": 10 } }, "scope": "flow" });
    server.configure("budgets/each", config).await;
    let budgets = json!([{ "name": "each", "reserve": { "tokens": 10 } }]);
    let nodes = json!([{ "name": "a", "kind": "k" }, { "name": "b", "kind": "k" }]);
    let flow = server.submit_flow(json!({ "defaults": { "budgets": budgets }, "nodes": nodes })).await;
    let alone = server.submit(json!({ "kind": "k", "budgets": budgets })).await;
    let claims = server.claim("i", 10).await;
    assert_eq!(ids(&claims), [text_of(&flow["executions"]["a"]), alone.clone()]);
    let held = server.execution(&text_of(&flow["executions"]["b"])).await;
    assert_eq!(held["held_reason"]["gate"]["part"], flow["flow"]["id"]);
    let parts = server.shown("budgets/each").await["parts"].clone();
    let mut names: Vec<String> =
        parts.as_array().expect("parts").iter().map(|part| text_of(&part["part"])).collect();
    names.sort();
    let mut expected = vec![text_of(&flow["flow"]["id"]), alone];
    expected.sort();
    assert_eq!(names, expected);
}

#[tokio::test]
async fn the_ledger_of_an_execution_names_budgets_it_does_not_draw_on_and_is_paged() {
    let server = Server::start().await;
    let id = server.submit(json!({ "kind": "k", "budgets": ["drawn"] })).await;
    for name in ["drawn", "other", "third"] {
        server.configure(&format!("budgets/{name}"), json!({ "limits": {} })).await;
        let body = json!({ "usage": { "tokens": 1 }, "execution": id });
        assert_eq!(server.post(&format!("/v1/budgets/{name}/usage"), body).await.status, 200);
    }
    let mut names = Vec::new();
    let mut path = format!("executions/{id}/usage?limit=1");
    loop {
        let page = server.shown(&path).await;
        names.push(text_of(&page["items"][0]["budget"]));
        match page["next_cursor"].as_str() {
            Some(cursor) => path = format!("executions/{id}/usage?limit=1&cursor={cursor}"),
            None => break,
        }
    }
    assert_eq!(names, ["drawn", "other", "third"]);
    // A budget that was removed is still known by its name.
    for name in ["drawn", "other"] {
        assert_eq!(server.delete(&format!("/v1/budgets/{name}")).await.status, 200);
    }
    let items = server.shown(&format!("executions/{id}/usage")).await["items"].clone();
    let names: Vec<String> =
        items.as_array().expect("items").iter().map(|one| text_of(&one["budget"])).collect();
    assert_eq!(names, ["drawn", "other", "third"]);
}
