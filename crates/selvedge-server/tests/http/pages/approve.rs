//! The page of an outside approver.

use super::{check_page, filled, visit};
use crate::support::Server;
use crate::{auth, support::Reply};
use serde_json::json;

/// Sends a form as a browser does.
async fn send_form(server: &Server, path: &str, form: &str) -> Reply {
    let headers = [("accept", "text/html"), ("content-type", "application/x-www-form-urlencoded")];
    server.send_raw("POST", path, &headers, form.into()).await
}

#[tokio::test]
async fn the_holder_of_a_token_reads_the_question_and_answers_it_once() {
    let filled = filled().await;
    let (server, token) = (&filled.server, &filled.token);
    let path = format!("/approve/{}", filled.waitpoint);
    let page = visit(server, &path).await;
    check_page(&path, &page);
    assert_eq!((page.header("referrer-policy"), page.header("cache-control")), ("no-referrer", "no-store"));
    assert!(!page.text().contains("order 4711"), "the page without a token tells nothing: {}", page.text());
    let question = send_form(server, &path, &format!("token={token}")).await;
    check_page(&path, &question);
    assert!(question.text().contains("Ship order 4711?") && question.text().contains("value=\"reject\""));
    assert!(!question.text().contains("/executions"), "nothing else is on it: {}", question.text());
    let answered = send_form(server, &path, &format!("token={token}&signal=reject&comment=too+late")).await;
    assert!(answered.status == 200 && answered.text().contains("was delivered"), "{}", answered.text());
    let signals = server.list_of(&filled.execution, "signals").await;
    assert_eq!(
        (&signals[0]["name"], &signals[0]["payload"]),
        (&json!("reject"), &json!({ "comment": "too late" }))
    );
    let again = send_form(server, &path, &format!("token={token}")).await;
    assert!(again.text().contains("answered already"), "{}", again.text());
}

#[tokio::test]
async fn a_wrong_token_is_refused_with_a_page() {
    let filled = filled().await;
    let path = format!("/approve/{}", filled.waitpoint);
    for form in ["", "token=", "token=v1.x", "token=v1.x&signal=approve"] {
        let refused = send_form(&filled.server, &path, form).await;
        assert_eq!(refused.status, 401, "{form}: {}", refused.text());
        check_page(&path, &refused);
        assert!(!refused.text().contains("order 4711"));
    }
    assert!(filled.server.list_of(&filled.execution, "signals").await.is_empty());
}

#[tokio::test]
async fn the_page_needs_no_key() {
    let server = auth::start().await;
    let path = "/approve/0190aaaa-bbbb-7ccc-8ddd-eeeeffff0001";
    assert_eq!(visit(&server, path).await.status, 200);
}
