//! HTML pages, health and metrics.

use crate::support::Server;
use serde_json::json;

#[tokio::test]
async fn the_overview_shows_executions_and_workers_and_escapes_their_names() {
    let server = Server::start().await;
    let empty = server.get("/").await;
    assert_eq!(empty.header("content-type"), "text/html; charset=utf-8");
    assert!(empty.text().contains("<html lang=\"en\">"));
    let id = server.submit(json!({ "kind": "<script>alert('x')</script>", "lane": "a&b" })).await;
    server.claim("shell-1", 1).await;
    let page = server.get("/").await.text();
    assert!(page.contains(&format!("<a href=\"/v1/executions/{id}\">{id}</a>")));
    assert!(page.contains("&lt;script&gt;") && !page.contains("<script>"));
    assert!(page.contains("a&amp;b") && page.contains("shell-1") && page.contains("memory store"));
    assert!(page.contains(&format!("http://{}/v1/executions", server.address)));
    assert!(!page.contains("https://"), "the page loads nothing from other sites");
}

#[tokio::test]
async fn the_overview_shows_the_conditions_of_a_suspended_execution() {
    let server = Server::start().await;
    server.submit(json!({ "kind": "k" })).await;
    let claim = server.claim("i", 1).await.remove(0);
    let parts: Vec<_> = (0..40).map(|index| json!({ "signal": format!("<part {index}>") })).collect();
    server.suspend("i", &claim, json!({ "condition": { "any": parts } })).await;
    let page = server.get("/").await.text();
    assert!(
        page.contains("<span class=\"suspended\">suspended</span> for signal &quot;&lt;part 0&gt;&quot;"),
        "{page}"
    );
    assert!(page.contains(" …</td>") && !page.contains("part 39"));
}

#[tokio::test]
async fn every_problem_code_has_an_anchor_in_the_documentation() {
    let server = Server::start().await;
    let page = server.get("/docs/problems").await.text();
    for code in [
        "invalid_json",
        "invalid_field",
        "unknown_field",
        "not_found",
        "stale_lease",
        "flow_ended",
        "unknown_node",
        "cycle",
        "idempotency_mismatch",
        "store_unavailable",
        "invalid_token",
        "token_expired",
        "token_revoked",
        "limit_reached",
    ] {
        assert!(page.contains(&format!("id=\"{code}\"")), "{code}");
    }
}

#[tokio::test]
async fn health_and_readiness_are_reported() {
    let server = Server::start().await;
    let health = server.get("/healthz").await;
    assert_eq!((health.status, &health.json()["status"]), (200, &json!("ok")));
    let ready = server.get("/readyz").await;
    assert_eq!(
        (ready.status, ready.json()),
        (200, json!({ "status": "ready", "store": "memory", "uncovered_namespaces": 0 }))
    );
}

#[tokio::test]
async fn metrics_are_prometheus_text() {
    let server = Server::start().await;
    server.submit(json!({ "kind": "k" })).await;
    let metrics = server.get("/metrics").await;
    assert!(metrics.header("content-type").starts_with("text/plain; version=0.0.4"));
    let text = metrics.text();
    assert!(text.contains("# TYPE selvedge_batches_total counter\nselvedge_batches_total "));
    assert!(text.contains("\nselvedge_waiting_claims 0\n"));
    assert!(text.contains("\nselvedge_reconciler_ticks_total{reconciler=\"lease_expiry\"} 0\n"));
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').expect(line);
        assert!(name.starts_with("selvedge_") && value.parse::<f64>().is_ok(), "{line}");
    }
}
