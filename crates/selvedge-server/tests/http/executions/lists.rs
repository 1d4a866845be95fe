//! Lists of executions: filters and pages.

use crate::support::{Server, op, op_with, text_of};
use selvedge_core::Timestamp;
use selvedge_engine::Options;
use selvedge_memory::Clock;
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

#[tokio::test]
async fn executions_are_found_by_their_end_their_worker_and_all_their_tags() {
    let clock = Clock::manual(Timestamp::from_millis(1_700_000_000_000));
    let options = Options { reconcilers: false, ..Options::default() };
    let server = Server::start_with(options, clock.clone()).await;
    let mut ids = Vec::new();
    let mut ends = Vec::new();
    for (worker, tags) in [("one", json!({ "a": "1" })), ("two", json!({ "a": "1", "b": "2" }))] {
        let id = server.submit(json!({ "kind": "k", "tags": tags })).await;
        clock.advance_ms(1_000);
        let body = json!({ "worker": worker, "lanes": ["default"], "max": 1 });
        let claims =
            server.post(&format!("/v1/workers/{worker}-7/claim"), body).await.json()["claims"].clone();
        server.report(&format!("{worker}-7"), op("complete", &claims[0])).await;
        ends.push(text_of(&server.execution(&id).await["ended_at"]));
        ids.push(id);
        clock.advance_ms(60_000);
    }
    let active = server.submit(json!({ "kind": "k", "tags": { "b": "2" } })).await;
    server.claim("other", 1).await;
    for (query, expected) in [
        (format!("ended_after={}", ends[0]), vec![&ids[1], &ids[0]]),
        (format!("ended_after={}", ends[1]), vec![&ids[1]]),
        (format!("ended_before={}", ends[1]), vec![&ids[0]]),
        (format!("ended_after={}&ended_before={}", ends[0], ends[1]), vec![&ids[0]]),
        (format!("ended_after={}&state=active", ends[0]), vec![]),
        ("worker=one".into(), vec![&ids[0]]),
        ("worker=two-7".into(), vec![&ids[1]]),
        ("worker=w&state=active".into(), vec![&active]),
        ("worker=one&state=active".into(), vec![]),
        ("worker=nobody".into(), vec![]),
        ("tag=a:1&tag=b:2".into(), vec![&ids[1]]),
        ("tag=b:2&tag=a:1".into(), vec![&ids[1]]),
        ("tag=b:2&tag=c:3".into(), vec![]),
        ("tag=b:2&worker=two&outcome=completed".into(), vec![&ids[1]]),
    ] {
        let found = listed(&server, &query).await;
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{query}");
    }
}

#[tokio::test]
async fn error_text_is_searched_within_a_time_range() {
    let server = Server::start().await;
    let mut ids = Vec::new();
    for message in ["Connection refused by host-1", "disk full", "connection reset"] {
        ids.push(server.submit(json!({ "kind": "k" })).await);
        let claim = server.claim("i", 1).await.remove(0);
        server.fail("i", &claim, message).await;
    }
    server.submit(json!({ "kind": "k" })).await;
    let since = "submitted_after=2000-01-01T00:00:00Z";
    for (query, expected) in [
        (format!("error=connection&{since}"), vec![&ids[2], &ids[0]]),
        (format!("error=HOST-1&{since}"), vec![&ids[0]]),
        ("error=disk%20full&ended_after=2000-01-01T00:00:00Z".into(), vec![&ids[1]]),
        (format!("error=100%25&{since}"), vec![]),
    ] {
        let found = listed(&server, &query).await;
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{query}");
    }
    for query in ["error=disk", "error=disk&submitted_before=2100-01-01T00:00:00Z"] {
        let reply = server.get(&format!("/v1/executions?{query}")).await;
        assert_eq!(reply.problem(), (422, "invalid_field".into(), "/query/error".into()));
        assert!(reply.text().contains("submitted_after or ended_after"), "{}", reply.text());
    }
}

#[tokio::test]
async fn items_leave_payloads_out_unless_they_are_included() {
    let server = Server::start().await;
    let id = server.submit(json!({ "kind": "k", "input": { "large": "input" } })).await;
    let claim = server.claim("i", 1).await.remove(0);
    server.report("i", op_with("progress", &claim, json!({ "percent": 5 }))).await;
    server.complete("i", &claim, json!("large result")).await;
    let names = ["input", "result", "progress"];
    for (include, given) in [
        ("", [false; 3]),
        ("input", [true, false, false]),
        ("result", [false, true, false]),
        ("progress", [false, false, true]),
        ("progress,input,result", [true; 3]),
    ] {
        let item = server.get(&format!("/v1/executions?include={include}")).await.json()["items"][0].clone();
        assert_eq!(names.map(|name| item.get(name).is_some()), given, "{include}");
        let whole = server.execution(&id).await;
        for name in names.into_iter().filter(|name| item.get(name).is_some()) {
            assert_eq!(item[name], whole[name]);
        }
    }
    let reply = server.get("/v1/executions?include=input,everything").await;
    assert_eq!(reply.problem(), (422, "invalid_field".into(), "/query/include".into()));
}

#[tokio::test]
async fn an_included_page_is_bounded_in_bytes_and_the_next_one_continues() {
    let server = Server::start().await;
    let large = "x".repeat(1024 * 1024 - 2);
    let mut submitted = Vec::new();
    for _ in 0..40 {
        submitted.push(server.submit(json!({ "kind": "k", "input": large })).await);
    }
    submitted.reverse();
    let (mut seen, mut pages, mut cursor) = (Vec::new(), 0, String::new());
    loop {
        let page = server.get(&format!("/v1/executions?include=input&limit=100{cursor}")).await.json();
        seen.extend(ids(&page));
        pages += 1;
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(seen, submitted);
    assert!((2..=5).contains(&pages), "{pages}");
}

#[tokio::test]
async fn the_state_of_an_item_matches_the_filter_that_found_it() {
    let server = Server::start().await;
    let open = server.submit(json!({ "kind": "k", "lane": "open" })).await;
    let paused = server.submit(json!({ "kind": "k", "lane": "paused" })).await;
    let delayed = server.submit(json!({ "kind": "k", "lane": "paused", "delay_ms": 1_000_000 })).await;
    let concurrency = json!({ "key": "c", "limit": 1 });
    let body = json!({ "kind": "k", "lane": "open", "concurrency": concurrency });
    let (active, held) = (server.submit(body.clone()).await, server.submit(body).await);
    for _ in 0..2 {
        let claim = json!({ "worker": "w", "lanes": ["open"], "kinds": ["k"], "max": 1 });
        server.post("/v1/workers/i/claim", claim).await;
    }
    assert_eq!(server.execution(&open).await["state"], "active");
    assert_eq!(server.execution(&active).await["state"], "active");
    let claim = json!({ "worker": "w", "lanes": ["open"], "max": 1 });
    server.post("/v1/workers/i/claim", claim).await;
    assert_eq!(server.execution(&held).await["state"], "held");
    let waiting = server.submit(json!({ "kind": "k", "lane": "open" })).await;
    server.configure("lanes/paused", json!({ "state": "paused" })).await;
    for (query, expected) in [
        ("state=held", vec![&held, &paused]),
        ("state=held&lane=paused", vec![&paused]),
        ("state=held&lane=open", vec![&held]),
        ("state=waiting", vec![&waiting]),
        ("state=waiting&lane=paused", vec![]),
        ("state=waiting,held", vec![&waiting, &held, &paused]),
        ("state=held,delayed&lane=paused", vec![&delayed, &paused]),
    ] {
        let page = server.get(&format!("/v1/executions?{query}")).await.json();
        assert_eq!(ids(&page).iter().collect::<Vec<_>>(), expected, "{query}");
        let asked = query.split('&').next().unwrap_or_default().trim_start_matches("state=");
        for item in page["items"].as_array().expect("items is an array") {
            assert!(asked.split(',').any(|state| item["state"] == state), "{query}: {item}");
        }
    }
    server.configure("lanes/paused", json!({ "state": "active" })).await;
    assert_eq!(listed(&server, "state=held").await, [held]);
    assert_eq!(listed(&server, "state=waiting").await, [waiting, paused]);
}

#[tokio::test]
async fn an_invalid_parameter_of_a_list_is_named() {
    let server = Server::start().await;
    for (query, pointer) in [
        ("state=odd", "/query/state"),
        ("ended_after=yesterday", "/query/ended_after"),
        ("ended_before=x", "/query/ended_before"),
        ("tag=a:1&tag=b", "/query/tag"),
        ("worker=a%00", "/query/worker"),
        ("flow=x", "/query/flow"),
    ] {
        let reply = server.get(&format!("/v1/executions?{query}")).await;
        assert_eq!(reply.problem(), (422, "invalid_field".into(), pointer.into()), "{query}");
    }
}
