//! Lists of executions: filters and pages.

use crate::support::{Server, op, text_of};
use serde_json::{Value, json};
use uuid::Uuid;

fn ids(response: &Value) -> Vec<String> {
    let items = response["items"].as_array().expect("items is an array");
    items.iter().map(|item| text_of(&item["id"])).collect()
}

async fn listed(server: &Server, query: &str) -> Vec<String> {
    let reply = server.get(&format!("/v1/executions?{query}")).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    ids(&reply.json())
}

#[tokio::test]
async fn lists_are_filtered() {
    let server = Server::start().await;
    let completed = server.submit(json!({ "kind": "a" })).await;
    let claim = server.claim("i", 1).await.remove(0);
    server.report("i", op("complete", &claim)).await;
    let tags = json!({ "team": "x:y", "env": "prod" });
    let tagged = server.submit(json!({ "kind": "b", "tags": tags, "lane": "l" })).await;
    let delayed = server.submit(json!({ "kind": "b", "delay_ms": 1_000_000 })).await;
    let submitted = text_of(&server.execution(&tagged).await["submitted_at"]);
    for (query, expected) in [
        ("".to_owned(), vec![&delayed, &tagged, &completed]),
        ("lane=l".into(), vec![&tagged]),
        ("lane=nowhere".into(), vec![]),
        ("kind=b".into(), vec![&delayed, &tagged]),
        ("kind=b&lane=default".into(), vec![&delayed]),
        ("state=completed".into(), vec![&completed]),
        ("state=waiting,delayed".into(), vec![&delayed, &tagged]),
        ("state=suspended".into(), vec![]),
        ("outcome=completed".into(), vec![&completed]),
        ("outcome=failed".into(), vec![]),
        ("outcome=completed&state=waiting".into(), vec![]),
        (format!("flow={tagged}"), vec![&tagged]),
        (format!("flow={}", Uuid::now_v7()), vec![]),
        ("tag=team:x:y".into(), vec![&tagged]),
        ("tag=team:x".into(), vec![]),
        ("submitted_before=2000-01-01T00:00:00Z".into(), vec![]),
        ("submitted_after=2000-01-01T00:00:00%2B02:00".into(), vec![&delayed, &tagged, &completed]),
        (format!("submitted_after={submitted}&lane=l&kind=b&tag=env:prod"), vec![&tagged]),
    ] {
        let found = listed(&server, &query).await;
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{query}");
    }
}

#[tokio::test]
async fn a_list_is_read_page_by_page_newest_first() {
    let server = Server::start().await;
    let mut submitted = Vec::new();
    for _ in 0..5 {
        submitted.push(server.submit(json!({ "kind": "k" })).await);
    }
    submitted.reverse();
    let mut seen = Vec::new();
    let mut path = "/v1/executions?limit=2".to_owned();
    loop {
        let response = server.get(&path).await.json();
        seen.extend(ids(&response));
        let Some(cursor) = response["next_cursor"].as_str() else {
            break;
        };
        assert!(cursor.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{cursor}");
        path = format!("/v1/executions?limit=2&cursor={cursor}");
    }
    assert_eq!(seen, submitted);
}

#[tokio::test]
async fn a_page_has_fifty_items_by_default() {
    let server = Server::start().await;
    let items = vec![json!({ "kind": "k" }); 60];
    server.post("/v1/executions/batch", json!({ "executions": items })).await;
    let response = server.get("/v1/executions").await.json();
    assert_eq!(ids(&response).len(), 50);
    assert!(response["next_cursor"].is_string());
    assert_eq!(listed(&server, "limit=500").await.len(), 60);
}
