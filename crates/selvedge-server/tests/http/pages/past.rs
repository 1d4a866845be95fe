//! The past of a flow in its address, and the actions that each role is shown on the pages of flows and executions.

use super::{check_page, visit};
use crate::auth::{ADMIN, call, check, key};
use crate::support::{Server, text_of};
use serde_json::{Value, json};

/// Submits a flow of two nodes in a chain and completes the first. Returns its id.
async fn submit_chain(server: &Server) -> String {
    let flow = json!({
        "nodes": [{ "name": "first", "kind": "k" }, { "name": "second", "kind": "k" }],
        "edges": [{ "from": "first", "to": "second" }],
    });
    let flow = text_of(&server.submit_flow(flow).await["flow"]["id"]);
    let claim = server.claim_one("i").await;
    server.complete("i", &claim, json!(null)).await;
    flow
}

#[tokio::test]
async fn a_step_of_a_flow_redirects_to_its_moment() {
    let server = Server::start().await;
    let flow = submit_chain(&server).await;
    let reply = server.get(&format!("/flows/{flow}?step=1")).await;
    assert_eq!(reply.status, 303);
    let moment = reply.header("location").to_owned();
    assert!(moment.starts_with(&format!("/flows/{flow}?at=2")), "{moment}");
    let page = visit(&server, &moment).await;
    check_page(&moment, &page);
    let text = page.text();
    assert!(text.contains("Change 2 of") && text.contains("class=\"active critical\""), "{text}");
    assert!(!text.contains("data-live-events"), "the past does not change");
    // A number beyond the last change is the last change.
    assert_eq!(server.get(&format!("/flows/{flow}?step=999")).await.status, 303);
}

#[tokio::test]
async fn moments_that_cannot_be_shown_are_refused() {
    let server = Server::start().await;
    let flow = submit_chain(&server).await;
    let path = |query: &str| format!("/flows/{flow}?{query}");
    check(&server.get(&path("at=yesterday")).await, 400, "invalid_cursor");
    check(&server.get(&path("at=2026-01-01T00:00:00Z&step=1")).await, 422, "invalid_field");
    check(&server.get(&path(&"expand=a&".repeat(51))).await, 422, "invalid_field");
    let events = server.get("/v1/events").await.json();
    let newest = events["items"].as_array().and_then(|items| items.last()).expect("there are events");
    // Another server has another log.
    let other = Server::start().await;
    let unknown =
        other.get(&format!("/flows/{}?at={}", submit_chain(&other).await, text_of(&newest["cursor"]))).await;
    check(&unknown, 410, "cursor_unknown");
}

#[tokio::test]
async fn each_role_is_shown_only_what_it_may_do() {
    let server = crate::auth::start().await;
    let flow = json!({ "nodes": [{ "name": "n", "kind": "k" }] });
    let made: Value = call(&server, ADMIN, "POST", "/v1/flows", flow).await.json();
    let (flow, execution) = (text_of(&made["flow"]["id"]), text_of(&made["executions"]["n"]));
    for (role, submits, operates) in
        [("reader", false, false), ("submitter", true, false), ("operator", true, true)]
    {
        let key = key(&server, role, role, &["default"]).await;
        let page = call(&server, &key, "GET", &format!("/executions/{execution}"), Value::Null).await.text();
        assert_eq!(page.contains("again-dialog"), submits, "{role}");
        assert_eq!(page.contains("cancel-dialog"), operates, "{role}");
        let page = call(&server, &key, "GET", &format!("/flows/{flow}"), Value::Null).await.text();
        assert_eq!(page.contains("Cancel the flow"), operates, "{role}");
    }
}

#[tokio::test]
async fn an_execution_names_the_limits_that_it_draws_on() {
    let server = Server::start().await;
    server.configure("budgets/model", json!({ "limits": { "tokens": { "hard": 10 } } })).await;
    server.configure("quotas/smtp", json!({ "concurrency": 1 })).await;
    let budgets = json!(["model"]);
    let id = server.submit(json!({ "kind": "k", "budgets": budgets, "quotas": ["smtp"] })).await;
    let page = visit(&server, &format!("/executions/{id}")).await;
    check_page("/executions", &page);
    let text = page.text();
    assert!(text.contains("href=\"/budgets\">budget ") && text.contains("href=\"/lanes\">quota "), "{text}");
}
