//! Claiming, reporting, heartbeats.

use crate::client::{Server, fence, op, within};
use serde_json::{Value, json};

#[tokio::test]
async fn work_goes_round_from_submission_to_result() {
    let server = Server::start().await;
    let id = server.submit(json!({ "kind": "k", "input": [1] })).await;
    let reply = server.get(&format!("/v1/executions/{id}/result")).await;
    let nothing = json!({ "outcome": null, "result": null, "error": null });
    assert_eq!((reply.status, reply.json()), (202, nothing));

    let claims = server.claim("i-1", 10).await;
    assert_eq!(claims.len(), 1);
    let claim = &claims[0];
    assert_eq!((&claim["namespace"], &claim["attempt"]), (&json!("default"), &json!(0)));
    assert_eq!(claim["execution"]["id"], json!(id));
    assert_eq!(claim["execution"]["state"], "active");
    assert_eq!(claim["execution"]["input"], json!([1]));
    assert_eq!(claim["execution"]["lease"]["worker"], "w");
    assert_eq!(claim["execution"]["lease"]["instance"], "i-1");
    assert_eq!((&claim["lease"]["epoch"], &claim["lease"]["ttl_ms"]), (&json!(1), &json!(30_000)));
    for (field, empty) in [
        ("upstream", json!({})),
        ("upstream_outcomes", json!({})),
        ("children", json!({})),
        ("steps", json!({})),
        ("signals", json!([])),
    ] {
        assert_eq!(claim[field], empty, "{field}");
    }

    let beat = server.post("/v1/workers/i-1/heartbeat", json!({ "leases": [fence(claim)] })).await.json();
    let quiet = json!({ "renewed": [fence(claim)], "lost": [], "orphaned": [], "cancel_requested": [], "drain": false });
    assert_eq!(beat, quiet);

    let mut progress = op("progress", claim);
    progress["percent"] = json!(40);
    assert_eq!(server.report("i-1", progress).await, json!({ "ok": true, "state": "active" }));
    assert_eq!(server.execution(&id).await["progress"], json!({ "percent": 40.0, "message": null }));

    let mut done = op("complete", claim);
    done["result"] = json!({ "ok": 1 });
    let expected = json!({ "ok": true, "state": "completed" });
    assert_eq!(server.report("i-1", done.clone()).await, expected);
    assert_eq!(server.report("i-1", done).await, expected, "repeated, it gives the same answer");
    let reply = server.get(&format!("/v1/executions/{id}/result?wait_ms=1000")).await;
    let ended = json!({ "outcome": "completed", "result": { "ok": 1 }, "error": null });
    assert_eq!((reply.status, reply.json()), (200, ended));
}

#[tokio::test]
async fn a_failure_is_retried_and_then_shown_with_its_class() {
    let server = Server::start().await;
    let retry = json!({ "max_retries": 1, "backoff": { "type": "fixed", "delay_ms": 3_600_000 } });
    let id = server.submit(json!({ "kind": "k", "retry": retry })).await;
    let claim = server.claim("i", 1).await.remove(0);
    let mut fail = op("fail", &claim);
    fail["message"] = json!("broken");
    let result = server.report("i", fail).await;
    assert_eq!(result["state"], "delayed");
    assert!(result["delayed_until_at"].is_string());
    let execution = server.execution(&id).await;
    assert_eq!(execution["error"], json!({ "message": "broken", "class": "transient" }));
    assert_eq!((&execution["retries"], &execution["attempts"]), (&json!(1), &json!(1)));
    assert_eq!(execution["delayed_until_at"], result["delayed_until_at"]);

    server.post(&format!("/v1/executions/{id}/reschedule"), json!({ "delay_ms": 0 })).await;
    let claim = server.claim("i", 1).await.remove(0);
    let mut fail = op("fail", &claim);
    fail["message"] = json!("broken for good");
    fail["class"] = json!("permanent");
    assert_eq!(server.report("i", fail).await["state"], "failed");
    let reply = server.get(&format!("/v1/executions/{id}/result")).await.json();
    assert_eq!(reply["error"], json!({ "message": "broken for good", "class": "permanent" }));

    let attempts = server.get(&format!("/v1/executions/{id}/attempts?limit=1")).await.json();
    assert_eq!(attempts["items"][0]["attempt"], 0);
    assert_eq!(attempts["items"][0]["error"]["message"], "broken");
    let next =
        format!("/v1/executions/{id}/attempts?cursor={}", attempts["next_cursor"].as_str().expect("more"));
    let attempts = server.get(&next).await.json();
    assert_eq!(attempts["items"][0]["attempt"], 1);
    assert_eq!(
        (&attempts["items"][0]["outcome"], &attempts["next_cursor"]),
        (&json!("failed"), &json!(null))
    );
}

#[tokio::test]
async fn work_that_is_put_back_is_claimed_again() {
    let server = Server::start().await;
    let id = server.submit(json!({ "kind": "k" })).await;
    let claim = server.claim("i", 1).await.remove(0);
    assert_eq!(server.report("i", op("release", &claim)).await["state"], "waiting");
    let claim = server.claim("i", 1).await.remove(0);
    assert_eq!((&claim["attempt"], &claim["lease"]["epoch"]), (&json!(1), &json!(2)));
    let mut delay = op("delay", &claim);
    delay["until_at"] = json!("2100-01-01T00:00:00Z");
    let result = server.report("i", delay).await;
    assert_eq!(
        result,
        json!({ "ok": true, "state": "delayed", "delayed_until_at": "2100-01-01T00:00:00.000Z" })
    );
    assert_eq!(server.execution(&id).await["retries"], 0);
}

#[tokio::test]
async fn a_report_carries_the_next_claims() {
    let server = Server::start().await;
    server.submit(json!({ "kind": "first" })).await;
    server.submit(json!({ "kind": "second" })).await;
    let claim = server.claim("i", 1).await.remove(0);
    let next = json!({ "worker": "w", "lanes": ["default"], "max": 5 });
    let body = json!({ "ops": [op("complete", &claim)], "claim": next });
    let answer = server.post("/v1/workers/i/report", body).await.json();
    assert_eq!(answer["results"], json!([{ "ok": true, "state": "completed" }]));
    let claims = answer["claims"].as_array().expect("claims");
    assert_eq!(claims.len(), 1);
    assert_eq!(claims[0]["execution"]["kind"], "second");
}

#[tokio::test]
async fn a_waiting_claim_gets_a_submission_at_once() {
    let server = Server::start().await;
    // Either claim waits far longer than a test may take: only the submission can end them.
    let body = json!({ "worker": "w", "lanes": ["default"], "max": 1, "wait_ms": 60_000 });
    let claim = server.post("/v1/workers/i/claim", body.clone());
    let submit = async {
        server.until_claims_wait(1).await;
        server.submit(json!({ "kind": "k" })).await
    };
    let (claimed, id) = within(async { tokio::join!(claim, submit) }).await;
    let claim = claimed.json()["claims"][0].clone();
    assert_eq!(claim["execution"]["id"], json!(id));

    let report =
        server.post("/v1/workers/i/report", json!({ "ops": [op("complete", &claim)], "claim": body }));
    let submit = async {
        server.until_claims_wait(1).await;
        server.submit(json!({ "kind": "k" })).await
    };
    let (reported, id) = within(async { tokio::join!(report, submit) }).await;
    assert_eq!(reported.json()["results"][0]["state"], "completed");
    assert_eq!(reported.json()["claims"][0]["execution"]["id"], json!(id));
}

#[tokio::test]
async fn a_waiting_result_comes_at_once_when_the_execution_ends() {
    let server = Server::start().await;
    let id = server.submit(json!({ "kind": "k" })).await;
    let claim = server.claim("i", 1).await.remove(0);
    let path = format!("/v1/executions/{id}/result?wait_ms=60000");
    let (reply, _) =
        within(async { tokio::join!(server.get(&path), server.report("i", op("complete", &claim))) }).await;
    assert_eq!((reply.status, &reply.json()["outcome"]), (200, &json!("completed")));
}

#[tokio::test]
async fn a_waiting_heartbeat_returns_at_once_when_something_is_asked_of_its_worker() {
    let server = Server::start().await;
    let id = server.submit(json!({ "kind": "k" })).await;
    let claim = server.claim("i", 1).await.remove(0);
    let body = json!({ "leases": [fence(&claim)], "wait_ms": 60_000 });
    let cancel = format!("/v1/executions/{id}/cancel");
    let asked = json!({ "grace_ms": 3_600_000, "reason": "enough" });
    let (beat, cancelled) = within(async {
        tokio::join!(server.post("/v1/workers/i/heartbeat", body.clone()), server.post(&cancel, asked))
    })
    .await;
    assert_eq!(cancelled.json()["execution"]["cancel_requested"], true);
    assert_eq!(beat.json()["cancel_requested"], json!([fence(&claim)]));

    server.post(&cancel, json!({})).await;
    let beat = server.post("/v1/workers/i/heartbeat", body).await.json();
    let lost = &beat["lost"][0];
    assert_eq!((&lost["execution"], &lost["epoch"]), (&json!(id), &json!(1)));
    assert_eq!((&lost["code"], &lost["outcome"]), (&json!("stale_lease"), &json!("cancelled")));
    assert!(lost["reason"].as_str().is_some_and(|reason| reason.contains("cancelled")));
    assert_eq!(beat["renewed"], json!([]));
}

#[tokio::test]
async fn a_worker_that_leaves_or_drains_is_shown_so() {
    let server = Server::start().await;
    let id = server.submit(json!({ "kind": "k" })).await;
    let claim = server.claim("b", 1).await.remove(0);
    server.claim("a", 1).await;
    let names = |answer: &Value| -> Vec<Value> {
        let items = answer["items"].as_array().expect("items");
        items.iter().map(|worker| worker["instance"].clone()).collect()
    };
    let workers = server.get("/v1/workers").await.json();
    assert_eq!(names(&workers), ["a", "b"]);
    let worker = &workers["items"][1];
    assert_eq!(
        (&worker["worker"], &worker["live"], &worker["draining"]),
        (&json!("w"), &json!(true), &json!(false))
    );
    assert_eq!((&worker["lanes"], &worker["kinds"]), (&json!(["default"]), &json!(null)));
    assert_eq!(worker["sessions"][0]["lease_ttl_ms"], 30_000);

    let first = server.get("/v1/workers?limit=1").await.json();
    assert_eq!(names(&first), ["a"]);
    let next = format!("/v1/workers?cursor={}", first["next_cursor"].as_str().expect("more"));
    let second = server.get(&next).await.json();
    assert_eq!((names(&second), &second["next_cursor"]), (vec![json!("b")], &json!(null)));

    assert_eq!(server.post("/v1/workers/b/drain", json!({})).await.status, 200);
    let beat = server.post("/v1/workers/b/heartbeat", json!({ "leases": [fence(&claim)] })).await;
    assert_eq!(beat.json()["drain"], true);
    assert_eq!(server.claim("b", 1).await.len(), 0);

    let gone = server.send("DELETE", "/v1/workers/b", &[], Vec::new()).await;
    assert_eq!(gone.json()["released"], json!([fence(&claim)]));
    assert_eq!(server.execution(&id).await["state"], "waiting");
    assert_eq!(names(&server.get("/v1/workers").await.json()), ["a"]);
}
