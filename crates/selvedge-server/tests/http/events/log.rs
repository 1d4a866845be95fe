//! Pages of the event log, the history of an execution, and explanations.

use super::{COMPLETED_EVENTS, submit_and_complete};
use crate::support::{Server, op_with, text_of};
use selvedge_core::Timestamp;
use selvedge_engine::Options;
use selvedge_memory::Clock;
use serde_json::{Value, json};

fn types(page: &Value) -> Vec<String> {
    let items = page["items"].as_array().expect("items is an array");
    items.iter().map(|event| text_of(&event["type"])).collect()
}

#[tokio::test]
async fn a_completed_execution_has_events_from_submission_to_end() {
    let server = Server::start().await;
    let id = submit_and_complete(&server, json!({ "kind": "k" })).await;
    let page = server.get("/v1/events").await.json();
    assert_eq!(types(&page), COMPLETED_EVENTS);
    assert_eq!(page["next_cursor"], json!(null));
    let event = &page["items"][1];
    assert_eq!((&event["execution"], &event["flow"], &event["version"]), (&json!(id), &json!(id), &json!(2)));
    assert_eq!((&event["namespace"], &event["actor"]), (&json!("default"), &json!(null)));
    assert_eq!((&event["data"]["worker"], &event["data"]["epoch"]), (&json!("w"), &json!(1)));
    assert!(text_of(&event["at"]).ends_with('Z'));

    let own = server.get(&format!("/v1/executions/{id}/events?limit=3")).await.json();
    assert_eq!(types(&own), COMPLETED_EVENTS[..3]);
    let next = text_of(&own["next_cursor"]);
    let rest = server.get(&format!("/v1/executions/{id}/events?cursor={next}")).await.json();
    assert_eq!(types(&rest), COMPLETED_EVENTS[3..]);
    assert_eq!(rest["next_cursor"], json!(null));
}

#[tokio::test]
async fn a_reader_that_resumes_at_its_cursor_sees_every_event_once() {
    let server = Server::start().await;
    for _ in 0..3 {
        submit_and_complete(&server, json!({ "kind": "k" })).await;
    }
    let whole = server.get("/v1/events?limit=500").await.json();
    let cursors = |page: &Value| -> Vec<String> {
        let items = page["items"].as_array().expect("items is an array");
        items.iter().map(|event| text_of(&event["cursor"])).collect()
    };
    for size in [1, 2, 4] {
        let mut seen = Vec::new();
        let mut path = format!("/v1/events?limit={size}");
        loop {
            let page = server.get(&path).await.json();
            seen.extend(cursors(&page));
            let Some(next) = page["next_cursor"].as_str() else {
                break;
            };
            path = format!("/v1/events?limit={size}&after={next}");
        }
        assert_eq!(seen, cursors(&whole), "pages of {size}");
    }
    // A reader continues later at the end of the log, by the resume cursor or by the cursor of the last event.
    let resume = text_of(&whole["resume_cursor"]);
    let last = cursors(&whole).pop().expect("the log has events");
    submit_and_complete(&server, json!({ "kind": "k" })).await;
    for after in [resume, last] {
        let page = server.get(&format!("/v1/events?after={after}")).await.json();
        assert_eq!(types(&page), COMPLETED_EVENTS);
    }
}

#[tokio::test]
async fn a_cursor_of_another_history_of_the_log_is_unknown() {
    let (server, restored) = (Server::start().await, Server::start().await);
    submit_and_complete(&server, json!({ "kind": "k" })).await;
    let page = server.get("/v1/events").await.json();
    let items = page["items"].as_array().expect("items is an array").clone();
    let cursors: Vec<String> = items.iter().map(|event| text_of(&event["cursor"])).collect();
    let first = cursors.first().expect("the log has events");
    let end = text_of(&page["resume_cursor"]);
    // The other store has nothing, then other entries with the same numbers.
    for _ in 0..2 {
        for cursor in [first, &end] {
            let reply = restored.get(&format!("/v1/events?after={cursor}")).await;
            assert_eq!(reply.problem(), (410, "cursor_unknown".into(), String::new()));
            let headers = [("accept", "text/event-stream"), ("last-event-id", cursor.as_str())];
            let reply = restored.send("GET", "/v1/events", &headers, Vec::new()).await;
            assert_eq!(reply.problem(), (410, "cursor_unknown".into(), String::new()));
        }
        submit_and_complete(&restored, json!({ "kind": "k" })).await;
    }
    let id = text_of(&items[0]["execution"]);
    let restored_id = restored.submit(json!({ "kind": "k" })).await;
    let path = format!("/v1/executions/{restored_id}/events?cursor={first}");
    assert_eq!(restored.get(&path).await.problem().1, "cursor_unknown");
    // In its own store every cursor is good, also the one at the end.
    for cursor in cursors.iter().chain([&end]) {
        assert_eq!(server.get(&format!("/v1/events?after={cursor}")).await.status, 200);
    }
    // A cursor of an earlier version has no check of its entry.
    let unchecked = format!("1{}", &first[1..29]);
    let page = server.get(&format!("/v1/events?execution={id}&after={unchecked}")).await.json();
    assert_eq!(types(&page), COMPLETED_EVENTS[1..]);
}

#[tokio::test]
async fn a_filter_and_the_metrics_know_unreadable_entries() {
    let server = Server::start().await;
    let page = server.get("/v1/events?types=log.unreadable").await.json();
    assert_eq!(page["items"], json!([]));
    let metrics = String::from_utf8(server.get("/metrics").await.body).expect("metrics are text");
    assert!(metrics.contains("\nselvedge_log_unreadable_total 0\n"), "{metrics}");
}

#[tokio::test]
async fn events_are_filtered() {
    let server = Server::start().await;
    let first = submit_and_complete(&server, json!({ "kind": "k", "tags": { "a": "1" } })).await;
    let second = server.submit(json!({ "kind": "k", "delay_until_at": "2100-01-01T00:00:00Z" })).await;
    let page = async |query: String| server.get(&format!("/v1/events?{query}")).await.json();
    let ended = page("types=execution.completed,attempt.ended,flow.completed".into()).await;
    assert_eq!(types(&ended), ["attempt.ended", "execution.completed"]);
    assert_eq!(types(&page(format!("execution={first}")).await), COMPLETED_EVENTS);
    assert_eq!(types(&page("tag=a:1".into()).await), COMPLETED_EVENTS);
    assert_eq!(types(&page("tag=a:2".into()).await), [""; 0]);
    let delayed = page(format!("flow={second}")).await;
    assert_eq!(types(&delayed), ["execution.submitted"]);
    assert_eq!(delayed["items"][0]["data"]["delayed_until_at"], "2100-01-01T00:00:00.000Z");
    let reply = server.get("/v1/events?types=execution.done").await;
    assert_eq!(reply.problem(), (422, "invalid_field".into(), "/query/types".into()));
}

#[tokio::test]
async fn a_page_starts_at_the_requested_position() {
    let server = Server::start().await;
    server.submit(json!({ "kind": "old" })).await;
    let now = server.get("/v1/events?from=now").await.json();
    assert_eq!(now["items"], json!([]));
    let next = text_of(&now["next_cursor"]);
    let id = server.submit(json!({ "kind": "new" })).await;
    let page = server.get(&format!("/v1/events?after={next}")).await.json();
    assert_eq!((types(&page).len(), &page["items"][0]["execution"]), (1, &json!(id)));
    assert_eq!(types(&server.get("/v1/events?from=beginning").await.json()).len(), 2);
    assert_eq!(types(&server.get("/v1/events?from=2000-01-01T00:00:00Z").await.json()).len(), 2);
    assert_eq!(types(&server.get("/v1/events?from=2100-01-01T00:00:00Z").await.json()).len(), 0);
    let reply = server.get("/v1/events?from=noon").await;
    assert_eq!(reply.problem(), (422, "invalid_field".into(), "/query/from".into()));
    let reply = server.get(&format!("/v1/events?from=now&after={next}")).await;
    assert_eq!(reply.problem(), (422, "invalid_field".into(), "/query/from".into()));
}

#[tokio::test]
async fn a_waiting_execution_is_explained() {
    let server = Server::start().await;
    let id = server.submit(json!({ "kind": "k", "capabilities": ["gpu"] })).await;
    let path = format!("/v1/executions/{id}/explain");
    let explained = server.get(&path).await.json();
    assert_eq!(explained["state"], "waiting");
    assert_eq!(explained["reasons"][0]["code"], "no_worker_in_lane");
    assert_eq!(explained["reasons"][0]["ref"], json!({ "type": "lane", "id": "default" }));
    assert_eq!(explained["next_change_at"], json!(null));
    server.claim("i", 1).await;
    let explained = server.get(&path).await.json();
    assert_eq!(explained["reasons"][0]["code"], "no_capable_worker");
}

#[tokio::test]
async fn a_submission_names_its_caller_in_every_event_that_it_causes() {
    let server = Server::start().await;
    let id = server.submit(json!({ "kind": "k" })).await;
    let item = json!({ "kind": "k", "lane": "other" });
    server.post("/v1/executions/batch", json!({ "executions": [item] })).await;
    let nodes = json!([{ "name": "a", "kind": "k" }, { "name": "b", "kind": "k" }]);
    let edges = json!([{ "from": "a", "to": "b" }]);
    let flow = server.submit_flow(json!({ "nodes": nodes, "edges": edges })).await;
    let flow = text_of(&flow["flow"]["id"]);
    let grown = json!({ "nodes": [{ "name": "c", "kind": "k" }] });
    assert_eq!(server.post(&format!("/v1/flows/{flow}/nodes"), grown).await.status, 201);
    let claim = server.claim("i", 1).await.remove(0);
    assert_eq!(claim["execution"]["id"], json!(id));
    let spawn = op_with("spawn", &claim, json!({ "nodes": [{ "name": "child", "kind": "k" }] }));
    assert_eq!(server.report("i", spawn).await["ok"], true);

    let types = "types=execution.submitted,flow.submitted,flow.grown";
    let events = server.get(&format!("/v1/events?{types}")).await.json()["items"].clone();
    let events = events.as_array().expect("items is an array");
    let of = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
    assert_eq!((of("execution.submitted"), of("flow.submitted"), of("flow.grown")), (6, 2, 2));
    assert!(events.iter().all(|event| event["actor"] == "admin"), "{events:?}");
    let own = server.list_of(&id, "events").await;
    assert_eq!(own[0]["actor"], "admin");
}

#[tokio::test]
async fn the_history_of_an_execution_has_the_cursors_of_the_log() {
    let server = Server::start().await;
    for _ in 0..3 {
        submit_and_complete(&server, json!({ "kind": "k" })).await;
    }
    let id = submit_and_complete(&server, json!({ "kind": "k" })).await;
    submit_and_complete(&server, json!({ "kind": "k" })).await;
    let own = server.get(&format!("/v1/executions/{id}/events")).await.json();
    let logged = server.get(&format!("/v1/events?execution={id}")).await.json();
    assert_eq!(own["items"], logged["items"], "every event has the same cursor in both lists");
    assert_eq!(types(&own), COMPLETED_EVENTS);

    // A caller continues in the log where it stopped in the history, and the other way round.
    let cursor = text_of(&own["items"][2]["cursor"]);
    let rest = server.get(&format!("/v1/events?execution={id}&after={cursor}")).await.json();
    assert_eq!(types(&rest), COMPLETED_EVENTS[3..]);
    let rest = server.get(&format!("/v1/executions/{id}/events?cursor={cursor}")).await.json();
    assert_eq!(types(&rest), COMPLETED_EVENTS[3..]);
    let other = server.get("/v1/events").await.json()["items"][0]["cursor"].clone();
    let reply = server.get(&format!("/v1/executions/{id}/events?cursor={}", text_of(&other))).await;
    assert_eq!(reply.problem().1, "invalid_cursor", "the cursor is that of another execution");

    let mut seen = Vec::new();
    let mut path = format!("/v1/executions/{id}/events?limit=2");
    loop {
        let page = server.get(&path).await.json();
        seen.extend(page["items"].as_array().expect("items is an array").clone());
        let Some(next) = page["next_cursor"].as_str() else { break };
        path = format!("/v1/executions/{id}/events?limit=2&cursor={next}");
    }
    assert_eq!(json!(seen), own["items"]);
}

#[tokio::test]
async fn the_history_keeps_its_own_cursors_for_events_that_left_the_log() {
    let clock = Clock::manual(Timestamp::from_millis(1_700_000_000_000));
    let options = Options { reconcilers: false, ..Options::default() };
    let server = Server::start_with(options, clock.clone()).await;
    let id = server.submit(json!({ "kind": "k" })).await;
    clock.advance_ms(8 * 24 * 3600 * 1000);
    server.engine.tick("log_window").await.expect("the tick succeeds");
    let claim = server.claim("i", 1).await.remove(0);
    server.complete("i", &claim, json!(null)).await;
    let own = server.list_of(&id, "events").await;
    let logged = server.get(&format!("/v1/events?execution={id}")).await.json()["items"].clone();
    assert_eq!(json!(own[1..]), logged);
    assert_eq!((&own[0]["type"], &own[0]["cursor"]), (&json!("execution.submitted"), &json!("0000000100")));
    let rest = server.get(&format!("/v1/executions/{id}/events?cursor=0000000100")).await.json();
    assert_eq!(rest["items"], logged);
}
