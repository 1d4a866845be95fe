//! JSON merge patches of lanes, quotas and budgets, and the pause and resume of lanes.

use crate::support::Server;
use serde_json::{Value, json};

fn only(value: &Value, fields: &[&str]) -> Value {
    let chosen = fields.iter().map(|field| ((*field).to_owned(), value[*field].clone()));
    Value::Object(chosen.collect())
}

#[tokio::test]
async fn pausing_and_resuming_a_lane_keeps_its_limits() {
    let server = Server::start().await;
    let limits = json!({ "concurrency": 3, "rate": { "count": 5, "window_ms": 1000 }, "weight": 2 });
    let names = ["concurrency", "rate", "weight"];
    server.configure("lanes/default", limits.clone()).await;
    for (action, state) in
        [("pause", "paused"), ("pause", "paused"), ("resume", "active"), ("resume", "active")]
    {
        let reply = server.send("POST", &format!("/v1/lanes/default/{action}"), &[], Vec::new()).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert_eq!((&reply.json()["state"], only(&reply.json(), &names)), (&json!(state), limits.clone()));
        assert_eq!(only(&server.read("lanes/default").await, &names), limits);
    }
    let unknown = server.post("/v1/lanes/default/pause", json!({ "weight": 1 })).await;
    assert_eq!(unknown.problem(), (422, "unknown_field".into(), "/weight".into()));
}

#[tokio::test]
async fn a_paused_lane_hands_out_its_work_when_it_is_resumed() {
    let server = Server::start().await;
    // A lane that nobody has configured can be paused, too.
    let paused = server.post("/v1/lanes/default/pause", json!({})).await;
    assert_eq!((paused.status, &paused.json()["state"]), (200, &json!("paused")));
    let id = server.submit(json!({ "kind": "k" })).await;
    assert!(server.claim("i", 1).await.is_empty());
    let (claim, resumed) = tokio::join!(server.claim_one("i"), async {
        server.wait_for_claims(1).await;
        server.post("/v1/lanes/default/resume", json!({})).await
    });
    assert_eq!((claim["execution"]["id"].as_str(), resumed.status), (Some(id.as_str()), 200));
    let untouched = server.post("/v1/lanes/other/resume", json!({})).await.json();
    assert_eq!((&untouched["state"], &untouched["configured"]), (&json!("active"), &json!(false)));
}

#[tokio::test]
async fn a_patch_changes_only_the_fields_that_it_names_and_null_lifts_a_limit() {
    let server = Server::start().await;
    let lane = |state: &str, concurrency: Value, rate: Value, weight: u32| json!({ "state": state, "concurrency": concurrency, "rate": rate, "weight": weight });
    for (patch, expected) in [
        (json!({ "concurrency": 3 }), lane("active", json!(3), json!(null), 1)),
        (
            json!({ "rate": { "count": 5, "window_ms": 1000 }, "weight": 4 }),
            lane("active", json!(3), json!({ "count": 5, "window_ms": 1000 }), 4),
        ),
        (
            json!({ "rate": { "count": 6 }, "state": "draining" }),
            lane("draining", json!(3), json!({ "count": 6, "window_ms": 1000 }), 4),
        ),
        (
            json!({ "concurrency": null, "state": null, "weight": null }),
            lane("active", json!(null), json!({ "count": 6, "window_ms": 1000 }), 1),
        ),
        (json!({ "rate": null }), lane("active", json!(null), json!(null), 1)),
        (json!({}), lane("active", json!(null), json!(null), 1)),
    ] {
        let patched = server.patch("/v1/lanes/l", patch.clone()).await;
        assert_eq!(patched.status, 200, "{patch}: {}", patched.text());
        assert_eq!(only(&patched.json(), &["state", "concurrency", "rate", "weight"]), expected, "{patch}");
        assert_eq!(server.read("lanes/l").await, patched.json());
    }
    let limits = json!({ "tokens": { "hard": 100, "soft": 50 }, "cost": { "hard": 1 } });
    let config = json!({ "limits": limits, "period_ms": 60_000, "on_hard": "fail", "scope": "lane" });
    server.configure("budgets/b", config).await;
    let fields = ["limits", "scope", "period_ms", "on_hard"];
    for (patch, expected) in [
        (
            json!({ "limits": { "tokens": { "hard": 200.5 }, "pages": { "soft": 7 } } }),
            json!({
                "limits": { "tokens": { "hard": 200.5, "soft": 50 }, "cost": { "hard": 1 }, "pages": { "soft": 7 } },
                "scope": "lane", "period_ms": 60_000, "on_hard": "fail",
            }),
        ),
        (
            json!({ "limits": { "tokens": { "soft": null }, "pages": null, "cost": { "hard": null } }, "on_hard": null }),
            json!({
                "limits": { "tokens": { "hard": 200.5 } }, "scope": "lane", "period_ms": 60_000, "on_hard": "hold",
            }),
        ),
        (
            json!({ "limits": null, "scope": null, "period_ms": null }),
            json!({ "limits": {}, "scope": "namespace", "period_ms": null, "on_hard": "hold" }),
        ),
    ] {
        let patched = server.patch("/v1/budgets/b", patch.clone()).await;
        assert_eq!((patched.status, only(&patched.json(), &fields)), (200, expected), "{patch}");
    }
    server.configure("quotas/q", json!({ "concurrency": 2, "rate": { "count": 1, "window_ms": 10 } })).await;
    let patched = server.patch("/v1/quotas/q", json!({ "rate": { "window_ms": 20 } })).await.json();
    let expected = json!({ "concurrency": 2, "rate": { "count": 1, "window_ms": 20 } });
    assert_eq!(only(&patched, &["concurrency", "rate"]), expected);
}

#[tokio::test]
async fn an_invalid_patch_is_refused_like_an_invalid_configuration_and_changes_nothing() {
    let server = Server::start().await;
    let invalid = |pointer: &str| (422, "invalid_field".to_owned(), pointer.to_owned());
    let not_found = (404, "not_found".to_owned(), String::new());
    for resource in ["quotas", "budgets"] {
        assert_eq!(server.patch(&format!("/v1/{resource}/none"), json!({})).await.problem(), not_found);
    }
    server.configure("quotas/q", json!({ "concurrency": 2 })).await;
    server.configure("budgets/b", json!({ "limits": { "tokens": { "hard": 5 } } })).await;
    for (path, patch, expected) in [
        ("/v1/lanes/l", json!({ "weight": 0 }), invalid("/weight")),
        ("/v1/lanes/l", json!({ "rate": { "count": 5 } }), invalid("/rate/window_ms")),
        ("/v1/lanes/l", json!({ "state": "stopped" }), invalid("/state")),
        ("/v1/quotas/q", json!({ "rate": { "count": null, "window_ms": 5 } }), invalid("/rate/count")),
        ("/v1/quotas/q", json!({ "weight": 1 }), (422, "unknown_field".into(), "/weight".into())),
        ("/v1/budgets/b", json!({ "limits": { "tokens": { "soft": 6 } } }), invalid("/limits/tokens/soft")),
        ("/v1/budgets/b", json!({ "limits": { "cost": {} } }), invalid("/limits/cost")),
        ("/v1/budgets/b", json!({ "limits": { "cost": { "hard": -1 } } }), invalid("/limits/cost/hard")),
        ("/v1/budgets/b", json!([]), invalid("")),
    ] {
        assert_eq!(server.patch(path, patch.clone()).await.problem(), expected, "{path} {patch}");
    }
    assert_eq!(server.read("quotas/q").await["concurrency"], 2);
    assert_eq!(server.read("budgets/b").await["limits"], json!({ "tokens": { "hard": 5 } }));
    assert_eq!(server.read("lanes").await["items"], json!([]));
}

#[tokio::test]
async fn concurrent_patches_of_different_fields_all_take_effect() {
    let server = Server::start().await;
    for round in 1..=5_u32 {
        let rate = json!({ "count": round, "window_ms": 1000 });
        let (a, b, c, d) = tokio::join!(
            server.patch("/v1/lanes/l", json!({ "concurrency": round })),
            server.patch("/v1/lanes/l", json!({ "weight": round })),
            server.patch("/v1/lanes/l", json!({ "rate": rate })),
            server.post("/v1/lanes/l/pause", json!({})),
        );
        assert_eq!([a, b, c, d].map(|reply| reply.status), [200; 4]);
        let lane = server.read("lanes/l").await;
        let expected = json!({ "state": "paused", "concurrency": round, "weight": round, "rate": rate });
        assert_eq!(only(&lane, &["state", "concurrency", "weight", "rate"]), expected);
        assert_eq!(server.delete("/v1/lanes/l").await.status, 200);
    }
}
