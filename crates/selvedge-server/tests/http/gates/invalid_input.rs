//! Invalid input for lanes, quotas and budgets is refused with the field named, and changes nothing.

use crate::support::{Server, check_problem, op_with};
use serde_json::{Value, json};
use uuid::Uuid;

fn invalid_field(pointer: &str) -> (u16, String, String) {
    (422, "invalid_field".into(), pointer.into())
}

fn unknown_field(pointer: &str) -> (u16, String, String) {
    (422, "unknown_field".into(), pointer.into())
}

#[tokio::test]
async fn an_invalid_gate_field_of_a_submission_is_named() {
    let server = Server::start().await;
    let reserve = |amount: &str| format!(r#"[{{"name": "b", "reserve": {{"tokens": {amount}}}}}]"#);
    let long = "x".repeat(513);
    for (name, value, pointer) in [
        ("budgets", json!("b").to_string(), "/budgets"),
        ("budgets", json!([""]).to_string(), "/budgets/0"),
        ("budgets", json!(["b", 7]).to_string(), "/budgets/1"),
        ("budgets", json!(["b", "b"]).to_string(), "/budgets/1"),
        ("budgets", json!(["x".repeat(201)]).to_string(), "/budgets/0"),
        ("budgets", json!(vec!["b"; 17]).to_string(), "/budgets"),
        ("budgets", json!([{}]).to_string(), "/budgets/0/name"),
        ("budgets", json!([{ "name": "" }]).to_string(), "/budgets/0/name"),
        ("budgets", json!([{ "name": "b", "reserve": [] }]).to_string(), "/budgets/0/reserve"),
        ("budgets", json!([{ "name": "b", "reserve": { "": 1 } }]).to_string(), "/budgets/0/reserve/"),
        (
            "budgets",
            json!([{ "name": "b", "reserve": { "a/b": -1 } }]).to_string(),
            "/budgets/0/reserve/a~1b",
        ),
        ("budgets", reserve("-1"), "/budgets/0/reserve/tokens"),
        ("budgets", reserve("0.0000001"), "/budgets/0/reserve/tokens"),
        ("budgets", reserve("1e300"), "/budgets/0/reserve/tokens"),
        ("budgets", reserve("\"5\""), "/budgets/0/reserve/tokens"),
        ("budgets", reserve("null"), "/budgets/0/reserve/tokens"),
        ("budgets", reserve("1, \"tokens\": 2"), "/budgets/0/reserve/tokens"),
        ("quotas", json!(["q", ""]).to_string(), "/quotas/1"),
        ("quotas", json!(["q", "q"]).to_string(), "/quotas/1"),
        ("quotas", json!([7]).to_string(), "/quotas/0"),
        ("quotas", json!({}).to_string(), "/quotas"),
        ("concurrency", json!(5).to_string(), "/concurrency"),
        ("concurrency", json!({ "limit": 1 }).to_string(), "/concurrency/key"),
        ("concurrency", json!({ "key": "k" }).to_string(), "/concurrency/limit"),
        ("concurrency", json!({ "key": "k", "limit": 0 }).to_string(), "/concurrency/limit"),
        ("concurrency", json!({ "key": "k", "limit": -1 }).to_string(), "/concurrency/limit"),
        ("concurrency", json!({ "key": "k", "limit": 1_000_000_001 }).to_string(), "/concurrency/limit"),
        ("concurrency", json!({ "key": "a\u{0}", "limit": 1 }).to_string(), "/concurrency/key"),
        ("fairness_key", json!("").to_string(), "/fairness_key"),
        ("fairness_key", json!(long).to_string(), "/fairness_key"),
        ("fairness_key", json!(7).to_string(), "/fairness_key"),
    ] {
        let body = format!(r#"{{"kind": "k", "{name}": {value}}}"#);
        assert_eq!(
            server.post_text("/v1/executions", &body).await.problem(),
            invalid_field(pointer),
            "{body}"
        );
    }
    for (name, value, pointer) in [
        ("budgets", json!([{ "name": "b", "limit": 1 }]), "/budgets/0/limit"),
        ("concurrency", json!({ "key": "k", "limit": 1, "max": 1 }), "/concurrency/max"),
    ] {
        let mut body = json!({ "kind": "k" });
        body[name] = value;
        assert_eq!(server.post("/v1/executions", body).await.problem(), unknown_field(pointer));
    }
    assert_eq!(server.read("executions").await["items"], json!([]));
}

#[tokio::test]
async fn an_invalid_field_of_a_lane_or_a_quota_is_named() {
    let server = Server::start().await;
    for (body, expected) in [
        (json!({ "concurrency": -1 }), invalid_field("/concurrency")),
        (json!({ "concurrency": 1_000_000_001 }), invalid_field("/concurrency")),
        (json!({ "concurrency": "5" }), invalid_field("/concurrency")),
        (json!({ "rate": 5 }), invalid_field("/rate")),
        (json!({ "rate": {} }), invalid_field("/rate/count")),
        (json!({ "rate": { "count": 1 } }), invalid_field("/rate/window_ms")),
        (json!({ "rate": { "count": 1, "window_ms": 0 } }), invalid_field("/rate/window_ms")),
        (json!({ "rate": { "count": 1, "window_ms": -1 } }), invalid_field("/rate/window_ms")),
        (json!({ "rate": { "count": 1_000_000_001, "window_ms": 1 } }), invalid_field("/rate/count")),
        (json!({ "rate": { "count": 1, "window_ms": 1, "burst": 1 } }), unknown_field("/rate/burst")),
        (json!({ "limits": {} }), unknown_field("/limits")),
    ] {
        for path in ["/v1/lanes/l", "/v1/quotas/q"] {
            assert_eq!(server.put(path, body.clone()).await.problem(), expected, "{path} {body}");
        }
    }
    for (body, expected) in [
        (json!({ "state": "stopped" }), invalid_field("/state")),
        (json!({ "state": 1 }), invalid_field("/state")),
        (json!({ "weight": 0 }), invalid_field("/weight")),
        (json!({ "weight": 1_000_001 }), invalid_field("/weight")),
        (json!({ "name": "l" }), unknown_field("/name")),
    ] {
        assert_eq!(server.put("/v1/lanes/l", body.clone()).await.problem(), expected, "{body}");
    }
    for body in [json!({ "state": "active" }), json!({ "weight": 1 })] {
        assert_eq!(server.put("/v1/quotas/q", body.clone()).await.problem().1, "unknown_field", "{body}");
    }
    for path in ["lanes", "quotas", "budgets"] {
        assert_eq!(server.read(path).await["items"], json!([]));
    }
}

#[tokio::test]
async fn an_invalid_field_of_a_budget_is_named() {
    let server = Server::start().await;
    let limit = |limit: Value| json!({ "limits": { "tokens": limit } });
    let many: serde_json::Map<String, Value> =
        (0..65).map(|index| (index.to_string(), json!({ "hard": 1 }))).collect();
    for (body, expected) in [
        (json!({}), invalid_field("/limits")),
        (json!({ "limits": null }), invalid_field("/limits")),
        (json!({ "limits": [] }), invalid_field("/limits")),
        (json!({ "limits": many }), invalid_field("/limits")),
        (json!({ "limits": { "": { "hard": 1 } } }), invalid_field("/limits/")),
        (limit(json!({})), invalid_field("/limits/tokens")),
        (limit(json!(5)), invalid_field("/limits/tokens")),
        (limit(json!({ "hard": -1 })), invalid_field("/limits/tokens/hard")),
        (limit(json!({ "soft": "5" })), invalid_field("/limits/tokens/soft")),
        (limit(json!({ "hard": 0.1234567 })), invalid_field("/limits/tokens/hard")),
        (limit(json!({ "hard": 1, "warn": 1 })), unknown_field("/limits/tokens/warn")),
        (json!({ "limits": {}, "scope": "world" }), invalid_field("/scope")),
        (json!({ "limits": {}, "on_hard": "panic" }), invalid_field("/on_hard")),
        (json!({ "limits": {}, "period_ms": 0 }), invalid_field("/period_ms")),
        (json!({ "limits": {}, "period_ms": -1 }), invalid_field("/period_ms")),
        (json!({ "limits": {}, "period_ms": 1.5 }), invalid_field("/period_ms")),
        (json!({ "limits": {}, "concurrency": 1 }), unknown_field("/concurrency")),
        (json!({ "limits": {}, "usage": {} }), unknown_field("/usage")),
    ] {
        assert_eq!(server.put("/v1/budgets/b", body.clone()).await.problem(), expected, "{body}");
    }
    assert_eq!(server.read("budgets").await["items"], json!([]));
}

#[tokio::test]
async fn an_invalid_field_of_a_usage_report_is_named() {
    let server = Server::start().await;
    server.configure("budgets/b", json!({ "limits": {} })).await;
    server.submit(json!({ "kind": "k" })).await;
    let claim = server.claim("i", 1).await.remove(0);
    for (fields, pointer) in [
        (json!({}), "/usage"),
        (json!({ "usage": 5 }), "/usage"),
        (json!({ "usage": { "tokens": -0.5 } }), "/usage/tokens"),
        (json!({ "usage": { "tokens": "5" } }), "/usage/tokens"),
        (json!({ "usage": { "": 5 } }), "/usage/"),
        (json!({ "usage": { "a\u{0}": 5 } }), "/usage/a\u{0}"),
        (json!({ "usage": {}, "dedup_key": "" }), "/dedup_key"),
        (json!({ "usage": {}, "dedup_key": "x".repeat(400) }), "/dedup_key"),
        (json!({ "usage": {}, "dedup_key": 5 }), "/dedup_key"),
    ] {
        let reply = server.post("/v1/budgets/b/usage", fields.clone()).await;
        assert_eq!(reply.problem(), invalid_field(pointer), "{fields}");
        let mut op = op_with("usage", &claim, fields.clone());
        op["budget"] = json!("b");
        let problem = server.report("i", op).await["error"].clone();
        check_problem(&problem);
        assert_eq!(
            (&problem["code"], &problem["pointer"]),
            (&json!("invalid_field"), &json!(format!("/ops/0{pointer}")))
        );
    }
    let body = json!({ "usage": {}, "execution": "seven" });
    assert_eq!(server.post("/v1/budgets/b/usage", body).await.problem(), invalid_field("/execution"));
    let body = json!({ "usage": {}, "amount": 1 });
    assert_eq!(server.post("/v1/budgets/b/usage", body).await.problem(), unknown_field("/amount"));
    assert_eq!(server.post("/v1/budgets/b/reset", json!({ "to": 5 })).await.problem(), unknown_field("/to"));
    let long = "x".repeat(400);
    let key = [("idempotency-key", long.as_str())];
    let reply = server.send("POST", "/v1/budgets/b/usage", &key, br#"{"usage": {}}"#.to_vec()).await;
    assert_eq!(reply.problem(), invalid_field("/headers/idempotency-key"));
    for (fields, pointer) in [
        (json!({ "usage": {} }), "/ops/0/budget"),
        (json!({ "usage": {}, "budget": "" }), "/ops/0/budget"),
        (json!({ "usage": {}, "budget": "b", "execution_id": 1 }), "/ops/0/execution_id"),
    ] {
        let problem = server.report("i", op_with("usage", &claim, fields)).await["error"].clone();
        assert_eq!(problem["pointer"], pointer);
    }
    assert_eq!(server.read("budgets/b").await["usage"], json!({}));
}

#[tokio::test]
async fn an_unknown_gate_is_not_found() {
    let server = Server::start().await;
    let not_found = (404, "not_found".to_owned(), String::new());
    for path in ["/v1/lanes/none", "/v1/quotas/none", "/v1/budgets/none"] {
        assert_eq!(server.get(path).await.problem(), not_found, "{path}");
        let removed = server.delete(path).await;
        assert_eq!(removed.problem(), not_found, "{path}");
        assert!(removed.text().contains("none"), "{}", removed.text());
    }
    assert_eq!(server.post("/v1/budgets/none/reset", json!({})).await.problem(), not_found);
    assert_eq!(server.post("/v1/budgets/none/usage", json!({ "usage": {} })).await.problem(), not_found);
    server.submit(json!({ "kind": "k" })).await;
    let claim = server.claim("i", 1).await.remove(0);
    let usage = op_with("usage", &claim, json!({ "budget": "none", "usage": {} }));
    let result = server.report("i", usage).await;
    assert_eq!(
        (&result["error"]["code"], &result["error"]["status"]),
        (&json!("unknown_budget"), &json!(422))
    );
    server.configure("budgets/b", json!({ "limits": {} })).await;
    let body = json!({ "usage": {}, "execution": Uuid::now_v7() });
    assert_eq!(server.post("/v1/budgets/b/usage", body).await.problem(), not_found);
}

#[tokio::test]
async fn an_invalid_name_query_or_body_is_refused() {
    let server = Server::start().await;
    let long = "x".repeat(201);
    for resource in ["lanes", "quotas", "budgets"] {
        for name in [long.as_str(), "a%00b"] {
            let path = format!("/v1/{resource}/{name}");
            assert_eq!(server.get(&path).await.problem(), invalid_field("/name"), "{path}");
            assert_eq!(server.put(&path, json!({ "limits": {} })).await.problem().0, 422, "{path}");
            assert_eq!(server.delete(&path).await.problem(), invalid_field("/name"), "{path}");
        }
        for (query, expected) in [
            ("limit=0", invalid_field("/query/limit")),
            ("state=active", unknown_field("/query/state")),
            ("cursor=zz", (400, "invalid_cursor".into(), "".into())),
        ] {
            assert_eq!(
                server.get(&format!("/v1/{resource}?{query}")).await.problem(),
                expected,
                "{resource} {query}"
            );
        }
        assert_eq!(server.get(&format!("/v1/{resource}/a?x=1")).await.problem(), unknown_field("/query/x"));
        let reply = server.send("PUT", &format!("/v1/{resource}/a"), &[], b"{".to_vec()).await;
        assert_eq!(reply.problem(), (400, "invalid_json".into(), "".into()));
    }
    for path in ["usage", "reset"] {
        let reply = server.post(&format!("/v1/budgets/{long}/{path}"), json!({ "usage": {} })).await;
        assert_eq!(reply.problem().0, 422, "{path}");
    }
}
