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

#[tokio::test]
async fn a_claim_names_the_upstreams_whose_results_do_not_fit_and_they_are_read_in_pages() {
    let server = Server::start().await;
    let names: Vec<String> = (0..10).map(|number| format!("n{number}")).collect();
    let mut nodes: Vec<Value> = names.iter().map(|name| json!({ "name": name, "kind": "k" })).collect();
    nodes.push(json!({ "name": "join", "kind": "k" }));
    let edges: Vec<Value> = names.iter().map(|name| json!({ "from": name, "to": "join" })).collect();
    let flow = server.submit_flow(json!({ "nodes": nodes, "edges": edges })).await;
    let ids = flow["executions"].clone();
    let large = "x".repeat(1_000_000);
    for claim in server.claim("i", 10).await {
        server.complete("i", &claim, json!(large)).await;
    }
    let claim = server.claim_one("i").await;
    assert!(claim.to_string().len() < 5 * 1024 * 1024, "{} bytes", claim.to_string().len());
    let upstream = claim["upstream"].as_object().expect("upstream is an object");
    let references = claim["upstream_refs"].as_object().expect("upstream_refs is an object");
    assert_eq!((upstream.len(), references.len()), (4, 6));
    assert_eq!(claim["upstream_outcomes"].as_object().map(|outcomes| outcomes.len()), Some(10));
    for (number, name) in names.iter().enumerate() {
        assert_eq!(claim["upstream_outcomes"][name]["outcome"], "completed");
        match number < 4 {
            true => assert!(upstream[name] == json!(large) && !references.contains_key(name)),
            false => assert!(references[name] == ids[name] && !upstream.contains_key(name)),
        }
    }
    assert_eq!((&claim["children"], &claim["children_refs"]), (&json!({}), &json!({})));
    let path = format!("executions/{}/upstreams", text_of(&ids["join"]));
    let listed = all(&server, &path, 500).await;
    let shown: Vec<String> = listed.iter().map(|item| text_of(&item["node"])).collect();
    assert_eq!(shown, names);
    assert!(listed.iter().all(|item| item["result"] == json!(large) && item["outcome"] == "completed"));

    // Children are left out alike; what fits is carried.
    let mut spawn = op("spawn", &claim);
    let children: Vec<String> = (0..3).map(|number| format!("c{number}")).collect();
    spawn["nodes"] = children.iter().map(|name| json!({ "name": name, "kind": "k" })).collect();
    let spawned = server.report("i", spawn).await["executions"].clone();
    let results = [json!(large), json!("small"), json!(large)];
    for (child, result) in server.claim("i", 3).await.iter().zip(&results) {
        server.complete("i", child, result.clone()).await;
    }
    assert_eq!(server.report("i", op("release", &claim)).await["ok"], true);
    let claim = server.claim_one("i").await;
    assert_eq!(claim["children_refs"], json!({ "c0": spawned["c0"], "c2": spawned["c2"] }));
    assert_eq!(claim["children"], json!({ "c1": { "outcome": "completed", "result": "small" } }));
}

#[tokio::test]
async fn the_result_of_a_flow_is_bounded_in_bytes() {
    let server = Server::start().await;
    let names: Vec<String> = (0..20).map(|number| format!("n{number:02}")).collect();
    let nodes: Vec<Value> = names.iter().map(|name| json!({ "name": name, "kind": "k" })).collect();
    let flow = server.submit_flow(json!({ "nodes": nodes })).await;
    let large = "x".repeat(1_000_000);
    for claim in server.claim("i", 20).await {
        server.complete("i", &claim, json!(large)).await;
    }
    let ended = server.flow_result(&text_of(&flow["flow"]["id"])).await;
    assert!(ended.to_string().len() < 10 * 1024 * 1024, "{} bytes", ended.to_string().len());
    assert_eq!(ended["outcome"], "completed");
    let references = ended["result_refs"].as_object().expect("result_refs is an object");
    let whole = names.iter().filter(|name| ended["results"][name.as_str()]["result"] == json!(large));
    assert_eq!(whole.count() + references.len(), 20);
    for (name, id) in references {
        assert_eq!((id, &ended["results"][name]["result"]), (&flow["executions"][name], &Value::Null));
        assert_eq!(ended["results"][name]["outcome"], "completed");
    }
}
