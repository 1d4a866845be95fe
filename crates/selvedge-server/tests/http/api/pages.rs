//! The reference of problems, health and metrics.

use crate::support::Server;
use serde_json::json;

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
        (
            200,
            json!({ "status": "ready", "store": "memory", "uncovered_namespaces": 0, "clock_behind_ms": 0 })
        )
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
