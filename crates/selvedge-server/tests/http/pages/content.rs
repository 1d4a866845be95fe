//! Content of the pages, empty and with data.

use super::{PAGES, check_page, filled, visit};
use crate::support::Server;
use serde_json::json;

#[tokio::test]
async fn an_empty_page_says_what_to_do_next() {
    let server = Server::start().await;
    for (path, next) in [
        ("/", "Submit an execution and claim it"),
        ("/executions", "POST /v1/executions"),
        ("/flows", "POST /v1/flows"),
        ("/approvals", "Nothing waits for an answer"),
        ("/workers", "A worker appears with its first claim"),
        ("/lanes", "PUT /v1/quotas/{name}"),
        ("/budgets", "PUT /v1/budgets/{name}"),
        ("/schedules", "PUT /v1/schedules/{name}"),
        ("/events", "Events appear here as they happen"),
        ("/webhooks", "PUT /v1/webhooks/{name}"),
        ("/about", "memory"),
        ("/docs", "OpenAPI"),
    ] {
        let page = visit(&server, path).await;
        assert_eq!(page.status, 200, "{path}");
        check_page(path, &page);
        assert!(page.text().contains(next), "{path}: {}", page.text());
    }
}

#[tokio::test]
async fn every_page_shows_its_data() {
    let filled = filled().await;
    let (execution, flow) = (format!("/executions/{}", filled.execution), format!("/flows/{}", filled.flow));
    let gantt = format!("{flow}?view=gantt");
    let table = format!("{flow}?view=table");
    let shown: [(&str, &[&str]); 15] = [
        (
            "/",
            &[
                "Needs attention",
                "1 approval waits for an answer",
                "The budget “<span class=\"user-text\">model</span>” is used up",
                "no live worker claims from it",
            ],
        ),
        (
            "/executions",
            &["review", "customer:acme", "suspended", "for signal &quot;approve&quot;", "3 match"],
        ),
        (
            &execution,
            &[
                "It waits for",
                "check stock",
                "Ship order 4711?",
                "reading the order",
                "4711",
                "Timeline",
                "execution.suspended",
            ],
        ),
        ("/flows", &["daily", "1 waiting dependencies"]),
        (&flow, &["selvedge-graph", "fetch", "waiting for its upstreams", "/v1/flows/"]),
        (&gantt, &["Gantt view", "fetch", "report"]),
        (&table, &["all of", "starts the flow", "pending"]),
        ("/approvals", &["Ship order 4711?", "approve", "reject"]),
        ("/workers", &["desk-1", "live", "Drain"]),
        ("/lanes", &["mail", "smtp", "9 in 1 min", "0 of 4"]),
        ("/budgets", &["model", "used up", "12 of 10", "every 1 h"]),
        ("/schedules", &["nightly", "0 3 * * *", "Europe/Berlin", "Run now"]),
        ("/events", &["execution.submitted", "lease.acquired"]),
        ("/webhooks", &["billing", "https://example.com/hook?secret=1"]),
        ("/webhooks/billing", &["No deliveries", "billing"]),
    ];
    for (path, texts) in shown {
        let page = visit(&filled.server, path).await;
        assert_eq!(page.status, 200, "{path}: {}", page.text());
        check_page(path, &page);
        for text in texts {
            assert!(page.text().contains(text), "{path} lacks {text:?}: {}", page.text());
        }
    }
}

#[tokio::test]
async fn the_filter_of_executions_is_in_the_address() {
    let filled = filled().await;
    let server = &filled.server;
    let count = async |query: &str| {
        let page = visit(server, &format!("/executions?{query}")).await;
        assert_eq!(page.status, 200, "{query}: {}", page.text());
        page.text().matches("<td class=\"id\"><a class=\"id\" href=\"/executions/").count()
    };
    assert_eq!(count("").await, 3);
    assert_eq!(count("state=suspended").await, 1);
    assert_eq!(count("state=suspended,waiting").await, 2);
    assert_eq!(count("lane=flows&kind=k&since=1h").await, 2);
    assert_eq!(count("tag=customer:acme").await, 1);
    assert_eq!(count("tag=customer:other").await, 0);
    assert_eq!(count("error=paper").await, 0);
    let page = visit(server, "/executions?lane=a%22b").await.text();
    assert!(page.contains("value=\"a&quot;b\"") && page.contains("No execution matches"), "{page}");
}

#[tokio::test]
async fn a_long_list_has_pages() {
    let server = Server::start().await;
    let executions: Vec<_> = (0..60).map(|index| json!({ "kind": format!("k{index}") })).collect();
    server.post("/v1/executions/batch", json!({ "executions": executions })).await;
    let first = visit(&server, "/executions").await.text();
    let next = first.split("rel=\"next\"").next().and_then(|before| before.rsplit("href=\"").next());
    let next = next.and_then(|rest| rest.split('"').next()).expect("there is a next page").to_owned();
    assert!(next.starts_with("/executions?cursor="), "{next}");
    let second = visit(&server, &next).await.text();
    assert!(second.contains(">k0<") && !first.contains(">k0<"), "{second}");
    assert!(second.contains("Newest") && !second.contains("data-live-events"));
}

#[tokio::test]
async fn a_browser_gets_problems_as_pages_and_others_as_json() {
    let server = Server::start().await;
    let path = "/executions/0190aaaa-bbbb-7ccc-8ddd-eeeeffff0001";
    let page = visit(&server, path).await;
    assert_eq!(page.status, 404);
    check_page(path, &page);
    assert!(
        page.text().contains("There is no such thing") || page.text().contains("not_found"),
        "{}",
        page.text()
    );
    assert_eq!(server.get(path).await.problem().1, "not_found");
    for (path, status) in [
        ("/executions?state=nowhere", 422),
        ("/flows?view=x", 422),
        ("/executions?cursor=x", 400),
        ("/nowhere", 404),
    ] {
        let page = visit(&server, path).await;
        assert_eq!(page.status, status, "{path}");
        check_page(path, &page);
    }
    let api = visit(&server, "/v1/executions?state=nowhere").await;
    assert_eq!(api.problem().1, "invalid_field");
}

#[tokio::test]
async fn assets_are_kept_by_browsers_until_they_change() {
    let server = Server::start().await;
    let page = visit(&server, "/").await.text();
    for (before, content_type) in [
        ("rel=\"stylesheet\" href=\"", "text/css; charset=utf-8"),
        ("<script src=\"", "text/javascript; charset=utf-8"),
        ("rel=\"icon\" href=\"", "image/svg+xml"),
    ] {
        let path = page.split(before).nth(1).and_then(|rest| rest.split('"').next()).expect(before);
        let asset = server.get(path).await;
        assert_eq!((asset.status, asset.header("content-type")), (200, content_type), "{path}");
        assert!(asset.header("cache-control").contains("immutable"), "{path}");
        assert!(!asset.text().contains("://") || path.ends_with(".svg"), "{path} refers to another site");
    }
    assert_eq!(server.get("/assets/selvedge-0000000000000000.css").await.status, 404);
}

#[tokio::test]
async fn every_page_of_the_navigation_exists() {
    let server = Server::start().await;
    let page = visit(&server, "/").await.text();
    for path in PAGES {
        assert!(path == "/about" || page.contains(&format!("<a href=\"{path}\"")), "{path}");
    }
}
