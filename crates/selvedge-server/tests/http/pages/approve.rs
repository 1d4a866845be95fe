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
    assert!(again.text().contains("answered this already"), "{}", again.text());
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

#[tokio::test]
async fn whoever_opens_a_decided_question_reads_who_decided_and_when() {
    let server = Server::start().await;
    let (id, claim) = server.submit_and_claim().await;
    let of = |person: &str| {
        let approve = format!("expense/{person}");
        json!({ "name": approve, "source": person, "signals": [approve, "expense/reject"], "prompt": "Pay?" })
    };
    let condition =
        json!({ "count": { "n": 1, "of": ["expense/ann", "expense/bob"], "distinct": "sources" } });
    let fields = json!({ "condition": condition, "waitpoints": [of("ann"), of("bob")] });
    let waitpoints = server.suspend("i", &claim, fields).await["waitpoints"].clone();
    let answer = |index: usize, form: &str| {
        let (id, token) = (&waitpoints[index]["id"], &waitpoints[index]["token"]);
        let (id, token) = (id.as_str().unwrap_or_default(), token.as_str().unwrap_or_default());
        (format!("/approve/{id}"), format!("token={token}{form}"))
    };
    let (path, form) = answer(0, "&signal=expense%2Fann");
    assert!(send_form(&server, &path, &form).await.text().contains("was delivered"));
    let late = "Ann has already approved this, ";
    for end in [false, true] {
        for form in ["", "&signal=expense%2Fbob"] {
            let (path, form) = answer(1, form);
            let page = send_form(&server, &path, &form).await;
            check_page(&path, &page);
            assert_eq!(page.status, 200);
            let text = page.text().replace("<span class=\"user-text\">", "").replace("</span>", "");
            assert!(text.contains(late) && text.contains("nothing to do"), "{text}");
            assert!(!page.text().contains(&id) && !page.text().contains("Replay"), "{}", page.text());
        }
        if !end {
            server.post(&format!("/v1/executions/{id}/cancel"), json!({})).await;
        }
    }
    let bob = waitpoints[1]["id"].as_str().unwrap_or_default();
    let token = json!({ "token": waitpoints[1]["token"] });
    let look = server.post(&format!("/v1/waitpoints/{bob}/look"), token.clone()).await.json();
    assert_eq!(
        (&look["state"], &look["decided_by"], &look["decided_with"], &look["outcome"]),
        (&json!("expired"), &json!(["ann"]), &json!("expense/ann"), &json!("cancelled"))
    );
    let signal = server.post(&format!("/v1/waitpoints/{bob}/signal"), token).await;
    assert_eq!(signal.problem().1, "already_terminal");
    assert_eq!(server.read("waitpoints?state=open").await["items"], json!([]));
}

#[tokio::test]
async fn whoever_answers_after_the_work_was_cancelled_reads_that_nothing_is_to_do() {
    let filled = filled().await;
    let server = &filled.server;
    server.post(&format!("/v1/executions/{}/cancel", filled.execution), json!({})).await;
    let path = format!("/approve/{}", filled.waitpoint);
    let page = send_form(server, &path, &format!("token={}&signal=reject", filled.token)).await;
    assert_eq!(page.status, 200);
    assert!(page.text().contains("has ended without an answer (cancelled)"), "{}", page.text());
}
