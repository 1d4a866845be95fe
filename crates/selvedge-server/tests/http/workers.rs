//! Claims, reports, heartbeats, and the list of workers.

use crate::support::{Server, fence, op, text_of, within};
use serde_json::{Value, json};

#[tokio::test]
async fn an_execution_is_claimed_renewed_completed_and_its_result_read() {
    let server = Server::start().await;
    let id = server.submit(json!({ "kind": "k", "input": [1] })).await;
    let reply = server.get(&format!("/v1/executions/{id}/result")).await;
    let no_result = json!({ "outcome": null, "result": null, "error": null });
    assert_eq!((reply.status, reply.json()), (202, no_result));

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
        ("children_outcomes", json!({})),
        ("steps", json!({})),
        ("step_records", json!({})),
        ("signals", json!([])),
    ] {
        assert_eq!(claim[field], empty, "{field}");
    }

    let heartbeat = json!({ "leases": [fence(claim)] });
    let heartbeat = server.post("/v1/workers/i-1/heartbeat", heartbeat).await.json();
    let renewed = json!({ "renewed": [fence(claim)], "lost": [], "orphaned": [], "cancel_requested": [], "drain": false });
    assert_eq!(heartbeat, renewed);

    let mut progress = op("progress", claim);
    progress["percent"] = json!(40);
    assert_eq!(server.report("i-1", progress).await, json!({ "ok": true, "state": "active" }));
    assert_eq!(server.execution(&id).await["progress"], json!({ "percent": 40.0, "message": null }));

    let mut complete = op("complete", claim);
    complete["result"] = json!({ "ok": 1 });
    let expected = json!({ "ok": true, "state": "completed" });
    assert_eq!(server.report("i-1", complete.clone()).await, expected);
    assert_eq!(server.report("i-1", complete).await, expected, "a repeated report gets the same result");
    let reply = server.get(&format!("/v1/executions/{id}/result?wait_ms=1000")).await;
    let ended = json!({ "outcome": "completed", "result": { "ok": 1 }, "error": null });
    assert_eq!((reply.status, reply.json()), (200, ended));
}

#[tokio::test]
async fn a_transient_failure_is_retried_and_a_permanent_one_is_final() {
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
    fail["message"] = json!("broken permanently");
    fail["class"] = json!("permanent");
    assert_eq!(server.report("i", fail).await["state"], "failed");
    let reply = server.get(&format!("/v1/executions/{id}/result")).await.json();
    assert_eq!(reply["error"], json!({ "message": "broken permanently", "class": "permanent" }));

    let attempts = server.get(&format!("/v1/executions/{id}/attempts?limit=1")).await.json();
    assert_eq!(attempts["items"][0]["attempt"], 0);
    assert_eq!(attempts["items"][0]["error"]["message"], "broken");
    let next = format!("/v1/executions/{id}/attempts?cursor={}", text_of(&attempts["next_cursor"]));
    let attempts = server.get(&next).await.json();
    assert_eq!(attempts["items"][0]["attempt"], 1);
    assert_eq!(
        (&attempts["items"][0]["outcome"], &attempts["next_cursor"]),
        (&json!("failed"), &json!(null))
    );
}

#[tokio::test]
async fn an_execution_that_is_put_back_is_claimed_again() {
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
    let response = server.post("/v1/workers/i/report", body).await.json();
    assert_eq!(response["results"], json!([{ "ok": true, "state": "completed" }]));
    let claims = response["claims"].as_array().expect("claims is an array");
    assert_eq!(claims.len(), 1);
    assert_eq!(claims[0]["execution"]["kind"], "second");
}

#[tokio::test]
async fn a_submission_wakes_up_a_waiting_claim() {
    let server = Server::start().await;
    // Both claims wait longer than the test's timeout, so only the submissions can wake them up.
    let body = json!({ "worker": "w", "lanes": ["default"], "max": 1, "wait_ms": 60_000 });
    let claim = server.post("/v1/workers/i/claim", body.clone());
    let submit = async {
        server.wait_for_claims(1).await;
        server.submit(json!({ "kind": "k" })).await
    };
    let (claimed, id) = within(async { tokio::join!(claim, submit) }).await;
    let claim = claimed.json()["claims"][0].clone();
    assert_eq!(claim["execution"]["id"], json!(id));

    let report =
        server.post("/v1/workers/i/report", json!({ "ops": [op("complete", &claim)], "claim": body }));
    let submit = async {
        server.wait_for_claims(1).await;
        server.submit(json!({ "kind": "k" })).await
    };
    let (reported, id) = within(async { tokio::join!(report, submit) }).await;
    assert_eq!(reported.json()["results"][0]["state"], "completed");
    assert_eq!(reported.json()["claims"][0]["execution"]["id"], json!(id));
}

#[tokio::test]
async fn the_end_of_an_execution_wakes_up_a_request_that_waits_for_its_result() {
    let server = Server::start().await;
    let id = server.submit(json!({ "kind": "k" })).await;
    let claim = server.claim("i", 1).await.remove(0);
    let path = format!("/v1/executions/{id}/result?wait_ms=60000");
    let (reply, _) =
        within(async { tokio::join!(server.get(&path), server.report("i", op("complete", &claim))) }).await;
    assert_eq!((reply.status, &reply.json()["outcome"]), (200, &json!("completed")));
}

#[tokio::test]
async fn a_cancellation_wakes_up_a_waiting_heartbeat() {
    let server = Server::start().await;
    let id = server.submit(json!({ "kind": "k" })).await;
    let claim = server.claim("i", 1).await.remove(0);
    let body = json!({ "leases": [fence(&claim)], "wait_ms": 60_000 });
    let cancel = format!("/v1/executions/{id}/cancel");
    let with_grace = json!({ "grace_ms": 3_600_000, "reason": "enough" });
    let (heartbeat, cancelled) = within(async {
        tokio::join!(server.post("/v1/workers/i/heartbeat", body.clone()), server.post(&cancel, with_grace))
    })
    .await;
    assert_eq!(cancelled.json()["execution"]["cancel_requested"], true);
    assert_eq!(heartbeat.json()["cancel_requested"], json!([fence(&claim)]));

    server.post(&cancel, json!({})).await;
    let heartbeat = server.post("/v1/workers/i/heartbeat", body).await.json();
    let lost = &heartbeat["lost"][0];
    assert_eq!((&lost["execution"], &lost["epoch"]), (&json!(id), &json!(1)));
    assert_eq!((&lost["code"], &lost["outcome"]), (&json!("stale_lease"), &json!("cancelled")));
    assert!(lost["reason"].as_str().is_some_and(|reason| reason.contains("cancelled")));
    assert_eq!(heartbeat["renewed"], json!([]));
}

#[tokio::test]
async fn the_list_of_workers_is_paged_and_follows_drain_and_removal() {
    let server = Server::start().await;
    let id = server.submit(json!({ "kind": "k" })).await;
    let claim = server.claim("b", 1).await.remove(0);
    server.claim("a", 1).await;
    let instances = |response: &Value| -> Vec<Value> {
        let items = response["items"].as_array().expect("items is an array");
        items.iter().map(|worker| worker["instance"].clone()).collect()
    };
    let workers = server.get("/v1/workers").await.json();
    assert_eq!(instances(&workers), ["a", "b"]);
    let worker = &workers["items"][1];
    assert_eq!(
        (&worker["worker"], &worker["live"], &worker["draining"]),
        (&json!("w"), &json!(true), &json!(false))
    );
    assert_eq!((&worker["lanes"], &worker["kinds"]), (&json!(["default"]), &json!(null)));
    assert_eq!(worker["sessions"][0]["lease_ttl_ms"], 30_000);

    let first = server.get("/v1/workers?limit=1").await.json();
    assert_eq!(instances(&first), ["a"]);
    let next = format!("/v1/workers?cursor={}", text_of(&first["next_cursor"]));
    let second = server.get(&next).await.json();
    assert_eq!((instances(&second), &second["next_cursor"]), (vec![json!("b")], &json!(null)));

    assert_eq!(server.post("/v1/workers/b/drain", json!({})).await.status, 200);
    let heartbeat = server.post("/v1/workers/b/heartbeat", json!({ "leases": [fence(&claim)] })).await;
    assert_eq!(heartbeat.json()["drain"], true);
    assert_eq!(server.claim("b", 1).await.len(), 0);

    let removed = server.send("DELETE", "/v1/workers/b", &[], Vec::new()).await;
    assert_eq!(removed.json()["released"], json!([fence(&claim)]));
    assert_eq!(server.execution(&id).await["state"], "waiting");
    let workers = server.get("/v1/workers").await.json();
    assert_eq!(instances(&workers), ["a", "b"]);
    assert_eq!((&workers["items"][0]["live"], &workers["items"][1]["live"]), (&json!(true), &json!(false)));
}
