//! A worker whose key has several namespaces: its claims rotate over them, its heartbeats and reports follow its leases.

use super::{ADMIN, call, call_in, check, key, start};
use crate::support::{Server, within};
use serde_json::{Value, json};

async fn submit(server: &Server, namespace: &str, count: usize) {
    for _ in 0..count {
        let body = json!({"kind": "k"});
        let reply = call_in(server, ADMIN, Some(namespace), "POST", "/v1/executions", body).await;
        assert_eq!(reply.status, 201, "{}", reply.text());
    }
}

fn claim_body(max: u32, wait_ms: u64) -> Value {
    json!({"worker": "w", "lanes": ["default"], "max": max, "wait_ms": wait_ms})
}

async fn claim(server: &Server, key: &str, max: u32, wait_ms: u64) -> Vec<Value> {
    let reply = call(server, key, "POST", "/v1/workers/w/claim", claim_body(max, wait_ms)).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()["claims"].as_array().expect("claims is a list").clone()
}

fn count_in(claims: &[Value], namespace: &str) -> usize {
    claims.iter().filter(|claim| claim["namespace"] == namespace).count()
}

fn fence(claim: &Value) -> Value {
    json!({
        "execution": claim["execution"]["id"], "attempt": claim["attempt"],
        "lease_id": claim["lease"]["id"], "epoch": claim["lease"]["epoch"],
    })
}

fn complete(claim: &Value) -> Value {
    let mut op = fence(claim);
    op["op"] = json!("complete");
    op
}

#[tokio::test]
async fn claims_rotate_over_the_namespaces_of_a_key_by_weight() {
    let server = start().await;
    let weight = json!({"weight": 3});
    assert_eq!(call(&server, ADMIN, "PUT", "/v1/admin/namespaces/a", weight).await.status, 201);
    let worker = key(&server, "worker", "worker", &["a", "b"]).await;
    submit(&server, "a", 12).await;
    submit(&server, "b", 12).await;
    submit(&server, "c", 1).await;
    let mut claims = Vec::new();
    for _ in 0..8 {
        claims.extend(claim(&server, &worker, 1, 0).await);
    }
    assert_eq!((count_in(&claims, "a"), count_in(&claims, "b")), (6, 2));
    for claim in &claims {
        assert_eq!(claim["execution"]["namespace"], claim["namespace"], "{claim}");
    }
    claims.extend(claim(&server, &worker, 100, 0).await);
    assert_eq!((count_in(&claims, "a"), count_in(&claims, "b"), claims.len()), (12, 12, 24));
}

#[tokio::test]
async fn a_waiting_claim_wakes_up_for_work_in_any_namespace_of_its_key() {
    let server = start().await;
    let worker = key(&server, "worker", "worker", &["a", "b"]).await;
    for namespace in ["b", "a", "b"] {
        let waiting = claim(&server, &worker, 1, 30_000);
        let submitting = async {
            within(async {
                while server.engine.activity().1 < 2 {
                    tokio::task::yield_now().await
                }
            })
            .await;
            submit(&server, namespace, 1).await;
        };
        let (claims, ()) = tokio::join!(waiting, submitting);
        assert_eq!((claims.len(), count_in(&claims, namespace)), (1, 1), "{claims:?}");
    }
    assert_eq!(claim(&server, &worker, 10, 0).await, Vec::<Value>::new(), "nothing is claimed twice");
}

#[tokio::test]
async fn heartbeats_and_reports_follow_the_leases_to_their_namespaces() {
    let server = start().await;
    let worker = key(&server, "worker", "worker", &["a", "b"]).await;
    submit(&server, "a", 2).await;
    submit(&server, "b", 2).await;
    let claims = claim(&server, &worker, 4, 0).await;
    assert_eq!(claims.len(), 4);
    let leases: Vec<Value> = claims.iter().map(fence).collect();
    let unknown = json!({
        "execution": "0190aaaa-bbbb-7ccc-8ddd-eeeeffff0001", "attempt": 0,
        "lease_id": "0190aaaa-bbbb-7ccc-8ddd-eeeeffff0002", "epoch": 1,
    });
    let named: Vec<Value> = leases.iter().chain([&unknown]).cloned().collect();
    let reply = call(&server, &worker, "POST", "/v1/workers/w/heartbeat", json!({"leases": named})).await;
    let beat = reply.json();
    assert_eq!(beat["renewed"].as_array().map(Vec::len), Some(4), "{beat}");
    assert_eq!(
        (&beat["lost"][0]["code"], beat["lost"].as_array().map(Vec::len)),
        (&json!("not_found"), Some(1))
    );

    // A waiting heartbeat returns early when something happens in one of the namespaces.
    let cancelled = claims.iter().find(|claim| claim["namespace"] == "b").expect("one is of b");
    let id = cancelled["execution"]["id"].as_str().expect("an id").to_owned();
    let body = json!({"leases": leases, "wait_ms": 60_000});
    let waiting = call(&server, &worker, "POST", "/v1/workers/w/heartbeat", body);
    let cancel = async {
        let path = format!("/v1/executions/{id}/cancel");
        let body = json!({"grace_ms": 60_000});
        let reply = call_in(&server, ADMIN, Some("b"), "POST", &path, body).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
    };
    let (beat, ()) = within(async { tokio::join!(waiting, cancel) }).await;
    let asked = &beat.json()["cancel_requested"];
    assert_eq!(
        (asked.as_array().map(Vec::len), &asked[0]["execution"]),
        (Some(1), &json!(id)),
        "{}",
        beat.text()
    );

    submit(&server, "b", 1).await;
    let mut ops: Vec<Value> = claims.iter().map(complete).collect();
    ops.insert(2, json!({"op": "complete"}));
    let body = json!({"ops": ops, "claim": claim_body(5, 0)});
    let report = call(&server, &worker, "POST", "/v1/workers/w/report", body).await.json();
    let results = report["results"].as_array().expect("results is a list");
    let ok: Vec<bool> = results.iter().map(|result| result["ok"] == true).collect();
    assert_eq!(ok, [true, true, false, true, true], "{report}");
    assert_eq!(results[2]["error"]["pointer"], "/ops/2/execution", "{report}");
    let next = report["claims"].as_array().expect("claims is a list");
    assert_eq!((next.len(), count_in(next, "b")), (1, 1), "{report}");
}

#[tokio::test]
async fn a_worker_cannot_touch_the_leases_of_other_namespaces() {
    let server = start().await;
    let one = key(&server, "one", "worker", &["a"]).await;
    let other = key(&server, "other", "worker", &["b", "c"]).await;
    submit(&server, "a", 1).await;
    let claims = claim(&server, &one, 1, 0).await;
    let (lease, op) = (fence(&claims[0]), complete(&claims[0]));
    let beat =
        call(&server, &other, "POST", "/v1/workers/w/heartbeat", json!({"leases": [lease]})).await.json();
    assert_eq!((&beat["renewed"], &beat["lost"][0]["code"]), (&json!([]), &json!("not_found")), "{beat}");
    let report = call(&server, &other, "POST", "/v1/workers/w/report", json!({"ops": [op]})).await.json();
    assert_eq!(report["results"][0]["error"]["code"], "not_found", "{report}");
    let mine = call(&server, &one, "POST", "/v1/workers/w/report", json!({"ops": [op]})).await.json();
    assert_eq!(mine["results"][0]["ok"], true, "{mine}");
}

#[tokio::test]
async fn a_claim_over_several_namespaces_takes_no_idempotency_key() {
    let server = start().await;
    let worker = key(&server, "worker", "worker", &["a", "b"]).await;
    let authorization = format!("Bearer {worker}");
    let headers = [("authorization", authorization.as_str()), ("idempotency-key", "once")];
    let body = claim_body(1, 0).to_string();
    let reply = server.send("POST", "/v1/workers/w/claim", &headers, body.clone().into()).await;
    check(&reply, 422, "invalid_field");
    let headers = [headers[0], headers[1], ("selvedge-namespace", "a")];
    assert_eq!(server.send("POST", "/v1/workers/w/claim", &headers, body.into()).await.status, 200);
}
