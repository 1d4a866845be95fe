//! The pages of upstreams and children.

use crate::support::{Server, op, text_of};
use serde_json::{Value, json};

/// Returns all items of a list, read in pages.
async fn all(server: &Server, path: &str, limit: u32) -> Vec<Value> {
    let mut items = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = server.read(&format!("{path}?limit={limit}{cursor}")).await;
        items.extend(page["items"].as_array().expect("items is an array").clone());
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return items,
        }
    }
}

#[tokio::test]
async fn upstreams_are_listed_with_outcome_error_and_result() {
    let server = Server::start().await;
    let body = json!({
        "defaults": { "kind": "k", "retry": { "max_retries": 0 } },
        "nodes": [{ "name": "a" }, { "name": "b", "priority": -1 }, { "name": "c", "priority": -2 }, { "name": "join" }],
        "edges": [
            { "from": "c", "to": "join", "when": "finished" }, { "from": "a", "to": "join" },
            { "from": "b", "to": "join", "when": "finished" },
        ],
    });
    let ids = server.submit_flow(body).await["executions"].clone();
    let claim = server.claim_one("i").await;
    server.complete("i", &claim, json!({ "n": 1 })).await;
    let claim = server.claim_one("i").await;
    server.fail("i", &claim, "it broke").await;
    let path = format!("executions/{}/upstreams", text_of(&ids["join"]));
    let error = json!({ "message": "it broke", "class": "permanent" });
    let expected = [
        json!({ "node": "c", "execution": ids["c"], "outcome": null, "error": null, "result": null }),
        json!({ "node": "a", "execution": ids["a"], "outcome": "completed", "error": null, "result": { "n": 1 } }),
        json!({ "node": "b", "execution": ids["b"], "outcome": "failed", "error": error, "result": null }),
    ];
    for limit in [1, 2, 50] {
        assert_eq!(all(&server, &path, limit).await, expected, "in pages of {limit}");
    }
    let none = server.read(&format!("executions/{}/upstreams", text_of(&ids["a"]))).await;
    assert_eq!(none, json!({ "items": [], "next_cursor": null }));
    let invalid = server.get(&format!("/v1/{path}?cursor=x")).await;
    assert_eq!(invalid.problem().1, "invalid_cursor");
}

#[tokio::test]
async fn children_are_listed_with_outcome_and_result_and_a_page_is_bounded_in_bytes() {
    let server = Server::start().await;
    let id = server.submit(json!({ "kind": "k", "lane": "parent" })).await;
    let claim = json!({ "worker": "w", "lanes": ["parent"], "max": 1 });
    let parent = server.post("/v1/workers/i/claim", claim).await.json()["claims"][0].clone();
    let names: Vec<String> = (0..40).map(|number| format!("child {number}")).collect();
    let mut spawn = op("spawn", &parent);
    spawn["nodes"] = names.iter().map(|name| json!({ "name": name, "kind": "k" })).collect();
    assert_eq!(server.report("i", spawn).await["ok"], true);
    let large = "x".repeat(800_000);
    for claim in server.claim("i", 40).await {
        server.complete("i", &claim, json!(large)).await;
    }
    let first = server.read(&format!("executions/{id}/children")).await;
    let shown = first["items"].as_array().expect("items is an array").len();
    assert!(shown < 40, "the page ends before 32 MB");
    assert!(first["next_cursor"].is_string());
    let children = all(&server, &format!("executions/{id}/children"), 50).await;
    let listed: Vec<String> = children.iter().map(|child| text_of(&child["node"])).collect();
    assert_eq!(listed, names);
    assert!(children.iter().all(|child| child["outcome"] == "completed" && child["result"] == json!(large)));
}
