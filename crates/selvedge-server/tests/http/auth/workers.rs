//! A worker whose key has several namespaces: its claims rotate over them, its heartbeats and reports follow its leases.

use super::{ADMIN, call, call_in, key, start};
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
    call(&server, ADMIN, "PUT", "/v1/admin/namespaces/c", json!({})).await;
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
async fn a_repeated_claim_over_several_namespaces_gets_its_leases_again_and_no_others() {
    let server = start().await;
    let worker = key(&server, "worker", "worker", &["a", "b"]).await;
    let stranger = key(&server, "stranger", "worker", &["a", "c"]).await;
    for namespace in ["b", "a", "b"] {
        submit(&server, namespace, 2).await;
    }
    let keyed = async |worker: &str, key: &str| {
        let authorization = format!("Bearer {worker}");
        let headers = [("authorization", authorization.as_str()), ("idempotency-key", key)];
        let body = claim_body(2, 60_000).to_string();
        within(server.send("POST", "/v1/workers/w/claim", &headers, body.into())).await.json()
    };
    let mut all = Vec::new();
    for key in ["one", "two", "three"] {
        let first = keyed(&worker, key).await;
        let claims = first["claims"].as_array().expect("claims is a list").clone();
        assert_eq!((claims.len(), &first["duplicate"]), (2, &json!(false)), "{first}");
        assert_eq!(claims[0]["namespace"], claims[1]["namespace"], "{first}");
        for _ in 0..2 {
            let again = keyed(&worker, key).await;
            assert_eq!((&again["claims"], &again["duplicate"]), (&first["claims"], &json!(true)));
        }
        // A key of other namespaces shares the first one, and sees only its own.
        let other = keyed(&stranger, key).await;
        assert_eq!(count_in(other["claims"].as_array().expect("claims is a list"), "b"), 0, "{other}");
        all.extend(claims);
    }
    assert_eq!((count_in(&all, "a"), count_in(&all, "b")), (2, 4));
    let mut ids: Vec<String> = all.iter().map(|claim| claim["execution"]["id"].to_string()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 6, "nothing is claimed twice");
    // Once the leases have ended, the repeat has none, and does not wait.
    let ops: Vec<Value> = all.iter().map(complete).collect();
    let report = call(&server, &worker, "POST", "/v1/workers/w/report", json!({"ops": ops})).await;
    assert_eq!(report.status, 200, "{}", report.text());
    let again = keyed(&worker, "one").await;
    assert_eq!((&again["claims"], &again["duplicate"]), (&json!([]), &json!(true)));
}

#[tokio::test]
async fn a_heartbeat_over_several_namespaces_keeps_what_is_claimed_while_it_waits() {
    let server = start().await;
    let worker = key(&server, "worker", "worker", &["a", "b"]).await;
    submit(&server, "a", 1).await;
    submit(&server, "b", 1).await;
    let first = claim(&server, &worker, 2, 0).await;
    let leases: Vec<Value> = first.iter().map(fence).collect();
    let body = json!({"leases": leases, "wait_ms": 60_000});
    let waiting = call(&server, &worker, "POST", "/v1/workers/w/heartbeat", body);
    let meanwhile = async {
        for namespace in ["a", "b"] {
            let path = "/v1/events?types=lease.renewed";
            let renewed = async || {
                let events = call_in(&server, ADMIN, Some(namespace), "GET", path, Value::Null).await.json();
                events["items"].as_array().is_some_and(|events| !events.is_empty())
            };
            within(async { while !renewed().await {} }).await;
        }
        submit(&server, "b", 1).await;
        let second = claim(&server, &worker, 1, 0).await;
        let cancelled = first.iter().find(|claim| claim["namespace"] == "a").expect("one is of a");
        let path = format!("/v1/executions/{}/cancel", cancelled["execution"]["id"].as_str().expect("an id"));
        let reply = call_in(&server, ADMIN, Some("a"), "POST", &path, json!({"grace_ms": 60_000})).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        second
    };
    let (beat, second) = within(async { tokio::join!(waiting, meanwhile) }).await;
    let beat = beat.json();
    assert_eq!(beat["cancel_requested"].as_array().map(Vec::len), Some(1), "{beat}");
    assert_eq!((&beat["orphaned"], &beat["lost"]), (&json!([]), &json!([])), "{beat}");
    let report =
        call(&server, &worker, "POST", "/v1/workers/w/report", json!({"ops": [complete(&second[0])]})).await;
    assert_eq!(report.json()["results"][0]["ok"], true, "{}", report.text());
}

#[tokio::test]
async fn usage_of_an_execution_that_does_not_exist_is_booked_to_no_namespace() {
    let server = start().await;
    let worker = key(&server, "worker", "worker", &["a", "b"]).await;
    let limits = json!({"limits": {"tokens": {"hard": 100}}});
    let created = call_in(&server, ADMIN, Some("a"), "PUT", "/v1/budgets/tokens", limits).await;
    assert_eq!(created.status, 201, "{}", created.text());
    let op = json!({
        "op": "usage", "execution": "0190aaaa-bbbb-7ccc-8ddd-eeeeffff0001", "attempt": 1, "epoch": 1,
        "lease_id": "0190aaaa-bbbb-7ccc-8ddd-eeeeffff0002", "budget": "tokens", "usage": {"tokens": 10},
    });
    let report = call(&server, &worker, "POST", "/v1/workers/w/report", json!({"ops": [op]})).await.json();
    assert_eq!(report["results"][0]["error"]["code"], "not_found", "{report}");
    let budget = call_in(&server, ADMIN, Some("a"), "GET", "/v1/budgets/tokens", Value::Null).await.json();
    assert_ne!(budget["usage"]["tokens"], json!(10), "{budget}");
}
