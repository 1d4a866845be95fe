//! Lanes: pause, limits on concurrency and rate, weights, and details.

use super::claimed_ids;
use crate::support::{Server, op, text_of, within};
use serde_json::{Value, json};

/// Submits `count` executions to lane `default`. Returns their ids.
async fn submit_many(server: &Server, count: usize) -> Vec<String> {
    let mut all = Vec::new();
    for _ in 0..count {
        all.push(server.submit(json!({ "kind": "k" })).await);
    }
    all
}

/// The reference of a reason to lane `default`.
fn lane_ref() -> Value {
    json!({ "type": "lane", "id": "default" })
}

async fn explain(server: &Server, id: &str) -> Value {
    server.read(&format!("executions/{id}/explain")).await
}

#[tokio::test]
async fn a_lane_without_configuration_exists_after_its_first_submission() {
    let server = Server::start().await;
    assert_eq!(server.get("/v1/lanes/mail").await.problem(), (404, "not_found".into(), "".into()));
    assert_eq!(server.read("lanes").await, json!({ "items": [], "next_cursor": null }));
    server.submit(json!({ "kind": "k", "lane": "mail" })).await;
    let defaults = json!({
        "name": "mail", "state": "active", "concurrency": null, "rate": null, "retry_after_ms": null, "weight": 1,
        "configured": false, "active": 0, "waiting": 1,
    });
    assert_eq!(server.read("lanes/mail").await, defaults);
    assert_eq!(server.read("lanes").await["items"], json!([defaults]));
}

#[tokio::test]
async fn a_lane_is_created_replaced_shown_listed_and_removed() {
    let server = Server::start().await;
    let config = json!({
        "state": "draining", "concurrency": 5, "rate": { "count": 7, "window_ms": 60_000 }, "weight": 3,
    });
    let created = server.put("/v1/lanes/a%2Fb", config).await;
    assert_eq!(created.status, 201, "{}", created.text());
    let expected = json!({
        "name": "a/b", "state": "draining", "concurrency": 5, "rate": { "count": 7, "window_ms": 60_000 },
        "retry_after_ms": null, "weight": 3, "configured": true, "active": 0, "waiting": 0,
    });
    assert_eq!(created.json(), expected);
    assert_eq!(server.read("lanes/a%2Fb").await, expected);
    let replaced = server.put("/v1/lanes/a%2Fb", json!({ "weight": 2 })).await;
    assert_eq!((replaced.status, &replaced.json()["concurrency"]), (200, &json!(null)));
    assert_eq!((&replaced.json()["state"], &replaced.json()["weight"]), (&json!("active"), &json!(2)));

    server.configure("lanes/c", json!({})).await;
    server.submit(json!({ "kind": "k", "lane": "b" })).await;
    let mut names = Vec::new();
    let mut path = "lanes?limit=1".to_owned();
    loop {
        let page = server.read(&path).await;
        names.push(text_of(&page["items"][0]["name"]));
        assert_eq!(page["items"].as_array().map(Vec::len), Some(1));
        match page["next_cursor"].as_str() {
            Some(cursor) => path = format!("lanes?limit=1&cursor={cursor}"),
            None => break,
        }
    }
    assert_eq!(names, ["a/b", "b", "c"]);

    let removed = server.delete("/v1/lanes/a%2Fb").await;
    assert_eq!((removed.status, removed.json()), (200, json!({ "name": "a/b", "removed": true })));
    assert_eq!(server.get("/v1/lanes/a%2Fb").await.status, 404);
    assert_eq!(server.delete("/v1/lanes/a%2Fb").await.status, 404);
    let events = server.read("events?types=operator.gate_configured,operator.gate_removed").await;
    let events = events["items"].as_array().expect("items is an array");
    assert_eq!(events.len(), 4);
    assert_eq!((&events[0]["actor"], &events[0]["execution"]), (&json!("admin"), &json!(null)));
    assert_eq!(events[3]["data"]["gate"], json!({ "kind": "lane", "name": "a/b", "part": null }));
}

#[tokio::test]
async fn a_paused_lane_holds_its_executions_and_hands_them_to_a_waiting_claim_once_it_is_active() {
    let server = Server::start().await;
    let id = server.submit(json!({ "kind": "k" })).await;
    let delayed = server.submit(json!({ "kind": "k", "delay_ms": 600_000 })).await;
    let other_lane = server.submit(json!({ "kind": "k", "lane": "other" })).await;
    server.configure("lanes/default", json!({ "state": "paused" })).await;
    let later = server.post("/v1/executions", json!({ "kind": "k" })).await.json()["execution"].clone();
    assert_eq!(later["state"], "held", "the response to a submission shows the same state as a read");
    assert!(server.claim("i", 5).await.is_empty());

    let held = server.execution(&id).await;
    let reason = json!({
        "gate": { "kind": "lane", "name": "default", "part": null },
        "message": "lane default is paused", "until_at": null,
    });
    assert_eq!((&held["state"], &held["held_reason"]), (&json!("held"), &reason));
    assert_eq!(held["version"], 1, "the row of the execution has not changed");
    let listed = server.read("executions").await["items"].clone();
    let states: Vec<(&Value, &Value)> = listed
        .as_array()
        .expect("items is an array")
        .iter()
        .map(|item| (&item["id"], &item["state"]))
        .collect();
    let (held_state, delayed_state, waiting_state) = (json!("held"), json!("delayed"), json!("waiting"));
    assert_eq!(
        states,
        [
            (&later["id"], &held_state),
            (&json!(other_lane), &waiting_state),
            (&json!(delayed), &delayed_state),
            (&json!(id), &held_state),
        ]
    );
    assert_eq!(server.read("lanes/default").await["waiting"], 2);
    let explained = explain(&server, &id).await;
    assert_eq!(explained["state"], "held");
    assert_eq!(
        explained["reasons"],
        json!([{
            "code": "lane_paused", "message": "Lane default is paused",
            "ref": { "type": "lane", "id": "default" }, "until_at": null,
        }])
    );

    let (claim, ()) = tokio::join!(server.claim_one("i"), async {
        server.wait_for_claims(1).await;
        server.configure("lanes/default", json!({ "state": "active" })).await;
    });
    assert_eq!(claim["execution"]["id"], json!(id));
    let released = server.execution(&text_of(&later["id"])).await;
    assert_eq!((&released["state"], &released["held_reason"]), (&json!("waiting"), &json!(null)));
}

#[tokio::test]
async fn a_lane_limits_its_active_executions_and_explain_names_them() {
    let server = Server::start().await;
    server.configure("lanes/default", json!({ "concurrency": 2 })).await;
    let all = submit_many(&server, 4).await;
    let claims = server.claim("i", 10).await;
    assert_eq!(claimed_ids(&claims), all[..2]);
    assert!(server.claim("i", 10).await.is_empty());
    let lane = server.read("lanes/default").await;
    assert_eq!((&lane["active"], &lane["waiting"]), (&json!(2), &json!(2)));

    let full = explain(&server, &all[3]).await;
    assert_eq!(full["state"], "waiting");
    let reasons = full["reasons"].as_array().expect("reasons is an array");
    assert_eq!(
        (&reasons[0]["code"], &reasons[0]["message"], &reasons[0]["ref"]),
        (&json!("concurrency_limit"), &json!("Lane default has 2 active and allows 2"), &lane_ref())
    );
    assert_eq!(reasons.len(), 3, "{full}");
    let mut holders: Vec<String> = reasons[1..].iter().map(|reason| text_of(&reason["ref"]["id"])).collect();
    holders.sort();
    let mut expected = all[..2].to_vec();
    expected.sort();
    assert_eq!(holders, expected);
    assert!(reasons[1..].iter().all(|reason| reason["code"] == "holder"), "{full}");
    let message = text_of(&reasons[1]["message"]);
    assert!(message.contains("worker w (instance i)"), "{message}");

    let (next, ()) = tokio::join!(server.claim_one("two"), async {
        server.wait_for_claims(1).await;
        server.complete("i", &claims[0], json!(null)).await;
    });
    assert_eq!(next["execution"]["id"], json!(all[2]));
}

#[tokio::test]
async fn a_limit_counts_the_executions_that_already_run_and_each_end_gives_one_slot_back() {
    let server = Server::start().await;
    let executions: Vec<Value> = (0..450).map(|_| json!({ "kind": "k" })).collect();
    let batch = server.post("/v1/executions/batch", json!({ "executions": executions })).await;
    assert_eq!(batch.status, 200);
    let running = server.claim("i", 440).await;
    assert_eq!(running.len(), 440);
    server.configure("lanes/default", json!({ "concurrency": 440 })).await;
    assert!(server.claim("i", 10).await.is_empty(), "as many run as the limit allows");
    assert_eq!(server.read("lanes/default").await["active"], 440);
    for claim in &running[..2] {
        server.complete("i", claim, json!(null)).await;
    }
    assert_eq!(server.claim("i", 10).await.len(), 2);
    server.patch("/v1/lanes/default", json!({ "concurrency": 3 })).await;
    let ops: Vec<Value> = running[2..].iter().map(|claim| op("complete", claim)).collect();
    assert_eq!(server.post("/v1/workers/i/report", json!({ "ops": ops })).await.status, 200);
    assert_eq!(server.claim("i", 10).await.len(), 1, "two run, and the limit is three");
}

#[tokio::test]
async fn explain_names_at_most_ten_holders() {
    let server = Server::start().await;
    server.configure("lanes/default", json!({ "concurrency": 12 })).await;
    let all = submit_many(&server, 13).await;
    assert_eq!(server.claim("i", 20).await.len(), 12);
    let explained = explain(&server, &all[12]).await;
    assert_eq!(explained["reasons"].as_array().map(Vec::len), Some(11));
}

#[tokio::test]
async fn a_lane_limits_its_rate_and_shows_when_its_window_has_room() {
    let server = Server::start().await;
    server.configure("lanes/default", json!({ "rate": { "count": 2, "window_ms": 600_000 } })).await;
    let all = submit_many(&server, 3).await;
    assert_eq!(claimed_ids(&server.claim("i", 10).await), all[..2]);
    let full = explain(&server, &all[2]).await;
    let reason = &full["reasons"][0];
    assert_eq!((&reason["code"], &reason["ref"]), (&json!("rate_limit"), &lane_ref()));
    assert!(text_of(&reason["message"]).contains("2 starts in 10 min"), "{reason}");
    assert!(text_of(&reason["until_at"]) > text_of(&server.execution(&all[2]).await["submitted_at"]));
    assert_eq!(full["next_change_at"], reason["until_at"]);
    let wait =
        server.read("lanes/default").await["retry_after_ms"].as_i64().expect("retry_after_ms is an integer");
    assert!((500_000..=606_000).contains(&wait), "{wait}");

    // With a short window, a waiting claim gets the next execution without further events.
    server.configure("lanes/default", json!({ "rate": { "count": 1, "window_ms": 500 } })).await;
    within(async { assert_eq!(server.claim_one("i").await["execution"]["id"], json!(all[2])) }).await;
}

#[tokio::test]
async fn a_rate_of_zero_never_shows_when_it_has_room() {
    let server = Server::start().await;
    server.configure("lanes/default", json!({ "rate": { "count": 0, "window_ms": 1000 } })).await;
    let id = server.submit(json!({ "kind": "k" })).await;
    assert!(server.claim("i", 10).await.is_empty());
    assert_eq!(server.read("lanes/default").await["retry_after_ms"], json!(null));
    let explained = explain(&server, &id).await;
    assert_eq!(
        (&explained["reasons"][0]["code"], &explained["reasons"][0]["until_at"]),
        (&json!("rate_limit"), &json!(null))
    );
}

#[tokio::test]
async fn explain_names_both_a_full_lane_and_a_missing_worker() {
    let server = Server::start().await;
    server.configure("lanes/default", json!({ "concurrency": 0 })).await;
    let id = server.submit(json!({ "kind": "k" })).await;
    let explained = explain(&server, &id).await;
    let codes: Vec<&str> = explained["reasons"]
        .as_array()
        .expect("reasons is an array")
        .iter()
        .filter_map(|reason| reason["code"].as_str())
        .collect();
    assert_eq!(codes, ["concurrency_limit", "no_worker_in_lane"]);
}

#[tokio::test]
async fn lanes_share_the_claims_of_a_worker_by_their_weights() {
    let server = Server::start().await;
    for (name, weight) in [("a", 3), ("b", 1)] {
        server.configure(&format!("lanes/{name}"), json!({ "weight": weight })).await;
        let items = vec![json!({ "kind": "k", "lane": name }); 20];
        let reply = server.post("/v1/executions/batch", json!({ "executions": items })).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
    }
    let body = json!({ "worker": "w", "lanes": ["a", "b"], "max": 16 });
    let claims = server.post("/v1/workers/i/claim", body).await.json()["claims"].clone();
    let lanes: Vec<&Value> = claims
        .as_array()
        .expect("claims is an array")
        .iter()
        .map(|claim| &claim["execution"]["lane"])
        .collect();
    assert_eq!(lanes.iter().filter(|lane| **lane == "a").count(), 12, "{lanes:?}");
    assert_eq!(lanes.len(), 16);
}

#[tokio::test]
async fn the_overview_shows_the_gate_that_holds_an_execution() {
    let server = Server::start().await;
    server.submit(json!({ "kind": "k", "lane": "a&b" })).await;
    server.configure("lanes/a&b", json!({ "state": "paused" })).await;
    let page = server.get("/").await.text();
    assert!(page.contains("title=\"by lane a&amp;b\""), "{page}");
    let lane = "<span class=\"user-text\">a&amp;b</span>";
    assert!(page.contains(&format!("waits in the lane “{lane}”, and the lane is paused")), "{page}");
}
