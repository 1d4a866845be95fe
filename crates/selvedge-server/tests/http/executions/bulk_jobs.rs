//! Bulk jobs: started, watched, stopped and repeated over HTTP, and done by the reconciler.

use crate::support::{Server, text_of, within};
use serde_json::{Value, json};

async fn start(server: &Server, body: Value) -> Value {
    let reply = server.post("/v1/bulk-jobs", body).await;
    assert_eq!(reply.status, 201, "{}", reply.text());
    reply.json()
}

/// Waits until a job has ended, and returns it.
async fn ended(server: &Server, job: &Value) -> Value {
    let path = format!("bulk-jobs/{}", text_of(&job["id"]));
    within(async {
        loop {
            server.engine.tick("bulk_jobs").await.expect("the tick succeeds");
            let job = server.read(&path).await;
            if job["state"] != "running" {
                return job;
            }
        }
    })
    .await
}

#[tokio::test]
async fn a_job_acts_on_every_execution_that_matches() {
    let server = Server::start().await;
    let mut ids = Vec::new();
    let batch: Vec<Value> = (0..250).map(|_| json!({ "kind": "k", "tags": { "t": "1" } })).collect();
    let reply = server.post("/v1/executions/batch", json!({ "executions": batch })).await.json();
    ids.extend(
        reply["results"].as_array().expect("a list").iter().map(|one| text_of(&one["execution"]["id"])),
    );
    let other = server.submit(json!({ "kind": "k" })).await;
    let action = json!({ "type": "cancel", "reason": "obsolete" });
    let job = start(&server, json!({ "action": action, "filter": { "tag": ["t:1"], "kind": "k" } })).await;
    assert_eq!(
        (&job["state"], &job["matched"], &job["duplicate"]),
        (&json!("running"), &json!(0), &json!(false))
    );
    let job = ended(&server, &job).await;
    assert_eq!(
        (&job["state"], &job["matched"], &job["done"]),
        (&json!("completed"), &json!(250), &json!(250)),
        "{job}"
    );
    assert_eq!(job["action"], json!({ "type": "cancel", "reason": "obsolete", "grace_ms": 0 }));
    assert_eq!(job["filter"], json!({ "tag": ["t:1"], "kind": "k" }));
    for id in [&ids[0], &ids[249]] {
        let cancelled = server.execution(id).await;
        assert_eq!(cancelled["state"], "cancelled", "{cancelled}");
    }
    assert_eq!(server.execution(&other).await["state"], "waiting");
    let jobs = server.read("bulk-jobs").await;
    assert_eq!(jobs["items"][0]["id"], job["id"], "{jobs}");
    let events = server.read("events?types=operator.bulk_job_started,operator.bulk_job_ended").await;
    let kinds: Vec<&Value> =
        events["items"].as_array().expect("a list").iter().map(|event| &event["type"]).collect();
    assert_eq!(kinds, ["operator.bulk_job_started", "operator.bulk_job_ended"], "{events}");
}

#[tokio::test]
async fn every_action_of_bulk_calls_is_an_action_of_jobs() {
    let server = Server::start().await;
    let id = server.submit(json!({ "kind": "k" })).await;
    let actions = [
        json!({ "type": "priority", "priority": 7 }),
        json!({ "type": "tags", "set": { "a": "b" }, "remove": [] }),
        json!({ "type": "reschedule", "delay_ms": 3_600_000 }),
        json!({ "type": "cancel" }),
        json!({ "type": "replay" }),
    ];
    for action in actions {
        let job = start(&server, json!({ "action": action, "all": true })).await;
        let job = ended(&server, &job).await;
        assert_eq!((&job["done"], &job["action"]["type"]), (&json!(1), &action["type"]), "{job}");
    }
    let replayed = server.execution(&id).await;
    assert_eq!((&replayed["priority"], &replayed["tags"]["a"]), (&json!(7), &json!("b")), "{replayed}");
    let refused = start(&server, json!({ "action": { "type": "replay" }, "all": true })).await;
    let refused = ended(&server, &refused).await;
    assert_eq!(refused["refused"], json!([{ "id": id, "code": "wrong_state" }]), "{refused}");
    assert_eq!(refused["refused_count"], 1);
}

#[tokio::test]
async fn a_job_is_stopped_and_a_repeated_start_names_the_first() {
    let server = Server::start().await;
    let body = json!({ "action": { "type": "cancel" }, "filter": { "lane": "none" } }).to_string();
    let headers = [("idempotency-key", "once")];
    let first = server.send("POST", "/v1/bulk-jobs", &headers, body.clone().into()).await;
    let again = server.send("POST", "/v1/bulk-jobs", &headers, body.into()).await;
    assert_eq!((first.status, again.status), (201, 200));
    let (first, again) = (first.json(), again.json());
    assert_eq!((&again["id"], &again["duplicate"]), (&first["id"], &json!(true)));
    ended(&server, &first).await;
    let path = format!("/v1/bulk-jobs/{}", text_of(&first["id"]));
    let stopped = server.delete(&path).await;
    assert_eq!(
        (stopped.status, &stopped.json()["state"]),
        (200, &json!("completed")),
        "an ended job stays as it is"
    );
    let none = "/v1/bulk-jobs/0190aaaa-bbbb-7ccc-8ddd-eeeeffff0001";
    for reply in [server.get(none).await, server.delete(none).await] {
        assert_eq!(reply.problem().1, "not_found");
    }
}

#[tokio::test]
async fn a_job_without_a_condition_or_with_two_is_refused() {
    let server = Server::start().await;
    let action = json!({ "type": "cancel" });
    let wrong = [
        (json!({ "action": action }), "/filter"),
        (json!({ "action": action, "filter": {} }), "/filter"),
        (json!({ "action": action, "filter": { "lane": "a" }, "all": true }), "/all"),
        (json!({ "action": { "type": "resume" }, "all": true }), "/action/type"),
        (json!({ "action": action, "filter": { "state": "odd" } }), "/filter/state"),
        (json!({ "filter": { "lane": "a" } }), "/action"),
    ];
    for (body, pointer) in wrong {
        let reply = server.post("/v1/bulk-jobs", body).await;
        assert_eq!((reply.status, &reply.json()["pointer"]), (422, &json!(pointer)), "{}", reply.text());
    }
}
