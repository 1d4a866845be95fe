//! Errors with traces: the pages show the line that names the exception, and fold the rest.

use crate::address;
use crate::browser::{Browser, Colours};
use crate::support::{Server, op_with, text_of};
use serde_json::json;

/// A trace of Python as a worker reports it.
fn trace(depth: usize) -> String {
    let frames =
        "  File \"/srv/app/worker.py\", line 41, in charge\n    return gateway.charge(order)\n".repeat(depth);
    format!("Traceback (most recent call last):\n{frames}app.errors.CardError: Your card was declined\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_execution_shows_the_exception_first_and_folds_its_trace() {
    let server = Server::start().await;
    let retry = json!({ "max_retries": 1, "backoff": { "type": "fixed", "delay_ms": 0 } });
    let id = server.submit(json!({ "kind": "charge", "retry": retry })).await;
    // The message of the first attempt is too long for the history.
    for depth in [40, 20] {
        let claim = server.claim_one("i").await;
        let op = op_with("fail", &claim, json!({ "message": trace(depth), "class": "transient" }));
        assert_eq!(server.report("i", op).await["ok"], true);
        server.engine.tick("delay_promoter").await.expect("the tick succeeds");
    }
    server.wait_for_state(&id, "failed").await;
    let browser = Browser::start(&address(&server), Colours::Light).await;
    browser.open(&format!("/executions/{id}")).await;
    let of = async |selector: &str| {
        text_of(&browser.eval(&format!("return document.querySelector('{selector}').innerText")).await)
    };
    let error = of("#error").await;
    assert!(
        error.contains("app.errors.CardError: Your card was declined") && error.contains("Class transient"),
        "{error}"
    );
    assert!(error.contains("Whole message, 42 lines") && !error.contains("Traceback"), "{error}");
    let order =
        "document.querySelector('#error').compareDocumentPosition(document.querySelector('#explain')) & 4";
    assert_eq!(
        browser.eval(&format!("return {order}")).await,
        json!(4),
        "the error is above the explanation"
    );
    for part in ["#explain", "#attempts"] {
        let text = of(part).await;
        assert!(
            text.contains("app.errors.CardError: Your card was declined") && !text.contains("Traceback"),
            "{part}: {text}"
        );
    }
    let rows = browser
        .eval("return Array.from(document.querySelectorAll('#attempts tbody tr'), (row) => row.innerText)")
        .await;
    for row in rows.as_array().expect("there are rows") {
        assert!(text_of(row).contains("CardError: Your card was declined"), "{rows}");
    }
    for (name, width) in [("execution-failed-light-1440", 1440), ("execution-failed-light-390", 390)] {
        browser.screenshot(name, width).await;
    }
    browser.click("#error summary").await;
    browser
        .wait_for(
            "document.querySelector('#error pre').innerText.includes('Traceback (most recent call last):')",
        )
        .await;
    for page in ["/executions", "/"] {
        browser.open(page).await;
        browser.wait_for_text("app.errors.CardError: Your card was declined").await;
        let text = browser.text().await;
        assert!(!text.contains("Traceback"), "{page}: {text}");
    }
    browser.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_member_is_named_with_the_exception_on_the_page_of_its_flow() {
    let server = Server::start().await;
    let flow = json!({ "nodes": [{ "name": "charge", "kind": "k" }] });
    let flow = text_of(&server.submit_flow(flow).await["flow"]["id"]);
    let claim = server.claim_one("i").await;
    server.fail("i", &claim, &trace(3)).await;
    let browser = Browser::start(&address(&server), Colours::Light).await;
    browser.open(&format!("/flows/{flow}")).await;
    browser.wait_for_text("“charge” failed (app.errors.CardError: Your card was declined)").await;
    let text = browser.text().await;
    assert!(!text.contains("Traceback"), "{text}");
    browser.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_says_until_when_an_ended_execution_is_kept() {
    let server = Server::start().await;
    let (id, claim) = server.submit_and_claim().await;
    server.complete("i", &claim, json!(null)).await;
    let flow = json!({ "nodes": [{ "name": "a", "kind": "k" }] });
    let flow = server.submit_flow(flow).await;
    let claim = server.claim_one("i").await;
    server.complete("i", &claim, json!(null)).await;
    let browser = Browser::start(&address(&server), Colours::Light).await;
    for path in [format!("/executions/{id}"), format!("/flows/{}", text_of(&flow["flow"]["id"]))] {
        browser.open(&path).await;
        browser.wait_for("/Kept until\\s+\\d+ [A-Z][a-z]+ \\d+ \\((6|7) d\\)/.test(document.querySelector('#facts').innerText)").await;
        let explained = text_of(&browser.eval("return document.querySelector('#explain').innerText").await);
        assert!(explained.contains("It ended as completed"), "{explained}");
        assert!(!explained.contains(" d)") && !explained.contains("changes by itself"), "{explained}");
    }
    browser.open(&format!("/executions/{}", text_of(&flow["executions"]["a"]))).await;
    browser
        .wait_for("/Kept until\\s+its flow is deleted/.test(document.querySelector('#facts').innerText)")
        .await;
    browser.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_preview_of_a_replay_says_that_the_execution_itself_runs_again() {
    let server = Server::start().await;
    let (id, claim) = server.submit_and_claim().await;
    server.complete("i", &claim, json!(null)).await;
    let browser = Browser::start(&address(&server), Colours::Light).await;
    browser.open(&format!("/executions/{id}")).await;
    browser.click("[data-opens=replay-dialog]").await;
    browser.click("#replay-dialog [data-preview]").await;
    browser
        .wait_for_text("This execution runs again; nothing else is reopened. Nothing has changed yet.")
        .await;
    let flow = json!({
        "nodes": [{ "name": "a", "kind": "k" }, { "name": "b", "kind": "k" }], "edges": [{ "from": "a", "to": "b" }],
    });
    let flow = server.submit_flow(flow).await;
    let claim = server.claim_one("i").await;
    server.fail("i", &claim, "out of paper").await;
    browser.open(&format!("/executions/{}", text_of(&flow["executions"]["a"]))).await;
    browser.click("[data-opens=replay-dialog]").await;
    browser.click("#replay-dialog [data-preview]").await;
    browser.wait_for_text("This execution runs again, and 1 execution of its flow is reopened.").await;
    browser.finish().await;
}
