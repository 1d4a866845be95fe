//! Bulk actions: by ids, by a filter or on all, rehearsed by a dry run.

use crate::support::{Server, op, text_of};
use serde_json::{Value, json};
use uuid::Uuid;

async fn bulk(server: &Server, body: Value) -> Value {
    let reply = server.post("/v1/executions/bulk", body).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()
}

async fn submit_tagged(server: &Server, count: usize) -> Vec<String> {
    let mut ids = Vec::new();
    for _ in 0..count {
        ids.push(server.submit(json!({ "kind": "k", "tags": { "t": "1", "u": "2" } })).await);
    }
    ids
}

/// Returns the ids in the order of lists: newest first.
fn newest_first(ids: &[String]) -> Value {
    ids.iter().rev().cloned().collect::<Vec<String>>().into()
}

#[tokio::test]
async fn a_dry_run_reports_what_the_action_would_do_and_changes_nothing() {
    let server = Server::start().await;
    let ids = submit_tagged(&server, 3).await;
    server.post(&format!("/v1/executions/{}/cancel", ids[0]), json!({})).await;
    let completed = server.submit(json!({ "kind": "other", "lane": "l", "tags": { "t": "1" } })).await;
    let claim = server.post("/v1/workers/i/claim", json!({ "worker": "w", "lanes": ["l"], "max": 1 })).await;
    server.report("i", op("complete", &claim.json()["claims"][0])).await;

    let cancel = json!({ "type": "cancel", "reason": "r" });
    let request = json!({ "action": cancel, "filter": { "tag": ["t:1"] } });
    let mut dry_run = request.clone();
    dry_run["dry_run"] = json!(true);
    let rehearsed = bulk(&server, dry_run).await;
    let refused = json!([{ "id": completed, "code": "already_terminal" }]);
    let without_detail = |mut result: Value| {
        let refused = result["refused"].as_array_mut().expect("refused is an array");
        for one in refused {
            assert!(text_of(&one["detail"]).contains("ended"), "{one}");
            one.as_object_mut().expect("an object").remove("detail");
        }
        result
    };
    let expected = |count: &str| {
        json!({
            "matched": 4, count: 2, "unchanged": 1, "refused": refused, "not_found": [],
            "ids": newest_first(&ids[1..]), "duplicate": false,
        })
    };
    assert_eq!(without_detail(rehearsed), expected("would_change"));
    assert_eq!(server.execution(&ids[1]).await["version"], 1);
    assert_eq!(without_detail(bulk(&server, request).await), expected("done"));
    assert_eq!(server.execution(&ids[1]).await["state"], "cancelled");
}

#[tokio::test]
async fn a_bulk_action_by_ids_names_those_that_do_not_exist() {
    let server = Server::start().await;
    let ids = submit_tagged(&server, 2).await;
    let unknown = Uuid::now_v7().to_string();
    let action = json!({ "type": "priority", "priority": 3 });
    let request = json!({ "action": action, "ids": [ids[1], unknown, ids[0], ids[1]] });
    for (done, unchanged, changed) in [(2, 0, json!([ids[1], ids[0]])), (0, 2, json!([]))] {
        let result = bulk(&server, request.clone()).await;
        let expected = json!({
            "matched": 2, "done": done, "unchanged": unchanged, "refused": [], "not_found": [unknown], "ids": changed,
            "duplicate": false,
        });
        assert_eq!(result, expected, "an id that is given twice counts once");
    }
    assert_eq!(server.execution(&ids[0]).await["priority"], 3);
}

#[tokio::test]
async fn a_bulk_filter_has_the_conditions_of_lists() {
    let server = Server::start().await;
    let ids = submit_tagged(&server, 2).await;
    let other = server.submit(json!({ "kind": "k", "tags": { "t": "1" } })).await;
    let tags = json!({ "type": "tags", "set": { "seen": "yes" }, "remove": ["u"] });
    let filter =
        json!({ "tag": ["t:1", "u:2"], "state": "waiting", "submitted_after": "2000-01-01T00:00:00Z" });
    let result = bulk(&server, json!({ "action": tags, "filter": filter })).await;
    assert_eq!((&result["done"], &result["ids"]), (&json!(2), &newest_first(&ids)));
    assert_eq!(server.execution(&ids[0]).await["tags"], json!({ "t": "1", "seen": "yes" }));
    assert_eq!(server.execution(&other).await["tags"], json!({ "t": "1" }));
}

#[tokio::test]
async fn a_bulk_action_on_all_reaches_every_execution_of_the_namespace() {
    let server = Server::start().await;
    submit_tagged(&server, 3).await;
    server.submit(json!({ "kind": "k", "lane": "other" })).await;
    let at = json!({ "type": "reschedule", "until_at": "2100-01-01T00:00:00Z" });
    let result = bulk(&server, json!({ "action": at, "all": true })).await;
    assert_eq!((&result["matched"], &result["done"]), (&json!(4), &json!(4)));
    let replay = bulk(&server, json!({ "action": { "type": "replay" }, "all": true })).await;
    assert_eq!((&replay["matched"], &replay["done"], &replay["ids"]), (&json!(4), &json!(0), &json!([])));
    assert_eq!(replay["refused"][0]["code"], "wrong_state");
}

#[tokio::test]
async fn more_than_ten_thousand_executions_are_refused_and_none_changes() {
    let server = Server::start().await;
    let items = vec![json!({ "kind": "k" }); 1000];
    for _ in 0..10 {
        server.post("/v1/executions/batch", json!({ "executions": items })).await;
    }
    let last = server.submit(json!({ "kind": "k" })).await;
    let cancel = json!({ "type": "cancel" });
    let too_many = |pointer: &str| (422, "too_many".to_owned(), pointer.to_owned());
    for (target, pointer) in [
        (json!({ "filter": { "kind": "k" } }), "/filter"),
        (json!({ "all": true }), "/all"),
        (json!({ "ids": (0..10_001).map(|_| Uuid::new_v4()).collect::<Vec<_>>() }), "/ids"),
    ] {
        let mut body = target;
        body["action"] = cancel.clone();
        assert_eq!(server.post("/v1/executions/bulk", body).await.problem(), too_many(pointer));
    }
    assert_eq!(server.execution(&last).await["state"], "waiting");
    let body = json!({ "action": cancel, "filter": { "kind": "k", "lane": "default" }, "dry_run": true });
    assert_eq!(server.post("/v1/executions/bulk", body).await.problem(), too_many("/filter"));
}

#[tokio::test]
async fn an_invalid_field_of_a_bulk_action_is_named() {
    let server = Server::start().await;
    let cancel = json!({ "type": "cancel" });
    for (body, pointer) in [
        (json!({ "ids": [] }), "/action"),
        (json!({ "action": { "type": "revoke" }, "ids": [] }), "/action/type"),
        (json!({ "action": { "type": "tags", "set": { "a:b": "" } }, "ids": [] }), "/action/set/a:b"),
        (json!({ "action": { "type": "cancel", "grace_ms": -1 }, "ids": [] }), "/action/grace_ms"),
        (json!({ "action": { "type": "priority", "priority": 101 }, "ids": [] }), "/action/priority"),
        (json!({ "action": { "type": "reschedule", "delay_ms": -1 }, "ids": [] }), "/action/delay_ms"),
        (json!({ "action": cancel }), "/ids"),
        (json!({ "action": cancel, "all": false }), "/ids"),
        (json!({ "action": cancel, "ids": ["x"] }), "/ids/0"),
        (json!({ "action": cancel, "ids": [], "filter": { "kind": "k" } }), "/filter"),
        (json!({ "action": cancel, "ids": [], "all": true }), "/all"),
        (json!({ "action": cancel, "filter": {} }), "/filter"),
        (json!({ "action": cancel, "filter": { "tag": [] } }), "/filter"),
        (json!({ "action": cancel, "filter": { "tag": "a:b" } }), "/filter/tag"),
        (json!({ "action": cancel, "filter": { "tag": ["a:b", "c"] } }), "/filter/tag/1"),
        (json!({ "action": cancel, "filter": { "state": "odd" } }), "/filter/state"),
        (json!({ "action": cancel, "filter": { "error": "x" } }), "/filter/error"),
        (json!({ "action": cancel, "filter": { "submitted_before": "x" } }), "/filter/submitted_before"),
    ] {
        let reply = server.post("/v1/executions/bulk", body.clone()).await;
        assert_eq!(reply.problem(), (422, "invalid_field".into(), pointer.into()), "{body}");
    }
    let reply =
        server.post("/v1/executions/bulk", json!({ "action": cancel, "filter": { "limit": 1 } })).await;
    assert_eq!(reply.problem(), (422, "unknown_field".into(), "/filter/limit".into()));
}
