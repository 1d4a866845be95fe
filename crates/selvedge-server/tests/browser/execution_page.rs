//! The page of an execution: its timeline, its live log, and submitting it again.

use crate::address;
use crate::browser::{Browser, Colours};
use crate::support::{Server, op_with};
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn frames_appear_while_an_attempt_runs() {
    let server = Server::start().await;
    let (id, claim) = server.submit_and_claim().await;
    let browser = Browser::start(&address(&server), Colours::Light).await;
    browser.open(&format!("/executions/{id}")).await;
    browser.eval("window.stays = true").await;
    for number in 0..250 {
        let op =
            op_with("frame", &claim, json!({ "kind": "stdout", "data": format!("<b>line</b> {number}\n") }));
        assert_eq!(server.report("i", op).await["ok"], true);
    }
    browser.wait_for("document.querySelector('#frames tbody').innerText.includes('<b>line</b> 249')").await;
    browser.wait_for("document.querySelector('#frames tbody').rows.length === 200").await;
    server.complete("i", &claim, json!({ "done": true })).await;
    browser.wait_for("document.querySelector('#facts').innerText.includes('completed')").await;
    browser.wait_for("document.querySelector('#frames').hasAttribute('data-live')").await;
    assert_eq!(browser.eval("return window.stays").await, json!(true), "the page was not loaded again");
    browser.finish().await;
}

/// Reports a frame of a running attempt.
async fn write(server: &Server, claim: &Value, text: &str) {
    let op = op_with("frame", claim, json!({ "kind": "stdout", "data": text }));
    assert_eq!(server.report("i", op).await["ok"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_opens_at_its_end_and_follows_until_a_person_scrolls_up() {
    let server = Server::start().await;
    let (id, claim) = server.submit_and_claim().await;
    for number in 0..60 {
        write(&server, &claim, &format!("line {number}\n")).await;
    }
    let browser = Browser::start(&address(&server), Colours::Light).await;
    browser.open(&format!("/executions/{id}")).await;
    let is_at_end = "((log) => log.scrollTop > 0 && log.scrollHeight - log.scrollTop - log.clientHeight < 2)(document.querySelector('#frames .log'))";
    let end = "document.querySelector('[data-log-end]')";
    browser.wait_for(is_at_end).await;
    write(&server, &claim, "the first later line\n").await;
    browser.wait_for("document.querySelector('#frames tbody').innerText.includes('the first later')").await;
    browser.wait_for(is_at_end).await;
    assert_eq!(browser.eval(&format!("return {end}.hidden")).await, json!(true));

    browser.eval("document.querySelector('#frames .log').scrollTop = 200").await;
    browser.wait_for(&format!("!{end}.hidden")).await;
    write(&server, &claim, "the second later line\n").await;
    browser.wait_for(&format!("{end}.innerText.includes('1 new')")).await;
    assert_eq!(browser.eval("return document.querySelector('#frames .log').scrollTop").await, json!(200));
    browser.screenshot("execution-log-light-1440", 1440).await;
    browser.click("[data-log-end]").await;
    browser.wait_for(&format!("{end}.hidden && {is_at_end}")).await;
    write(&server, &claim, "the third later line\n").await;
    browser.wait_for("document.querySelector('#frames tbody').innerText.includes('the third later')").await;
    browser.wait_for(is_at_end).await;
    // The log of an attempt that has ended opens at its end, too.
    server.complete("i", &claim, json!(null)).await;
    browser.wait_for("document.querySelector('#frames').hasAttribute('data-live')").await;
    browser.wait_for(is_at_end).await;
    browser.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_shows_no_codes_of_terminals() {
    let server = Server::start().await;
    let (id, claim) = server.submit_and_claim().await;
    write(&server, &claim, "\u{1b}[32mINFO\u{1b}[0m earlier\n").await;
    let browser = Browser::start(&address(&server), Colours::Light).await;
    browser.open(&format!("/executions/{id}")).await;
    write(&server, &claim, "\u{1b}[1;38;5;208mWARN\u{1b}(B\u{1b}[m \u{1b}]8;;https://example.com\u{1b}\\later\u{1b}]8;;\u{1b}\\\n").await;
    let lines = "Array.from(document.querySelectorAll('#frames pre'), (line) => line.textContent)";
    browser.wait_for("document.querySelectorAll('#frames pre').length === 2").await;
    assert_eq!(browser.eval(&format!("return {lines}")).await, json!(["INFO earlier", "WARN later"]));
    browser.open(&format!("/executions/{id}")).await;
    assert_eq!(browser.eval(&format!("return {lines}")).await, json!(["INFO earlier", "WARN later"]));
    browser.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_timeline_has_attempts_leases_waits_steps_and_signals() {
    let server = Server::start().await;
    let (id, claim) = server.submit_and_claim().await;
    let step = op_with("step", &claim, json!({ "name": "check stock", "result": true }));
    assert_eq!(server.report("i", step).await["ok"], true);
    let ask = json!({
        "condition": { "any": [{ "signal": "approve" }, { "signal": "reject" }] },
        "waitpoints": [{ "name": "approve", "signals": ["approve", "reject"], "prompt": "Ship it?" }],
    });
    server.suspend("i", &claim, ask).await;
    let signalled = server
        .post(&format!("/v1/executions/{id}/signals"), json!({ "name": "approve", "payload": 1 }))
        .await;
    assert_eq!(signalled.status, 200, "{}", signalled.text());
    let claim = server.claim_one("i").await;
    server.fail("i", &claim, "out of paper").await;
    let browser = Browser::start(&address(&server), Colours::Light).await;
    browser.open(&format!("/executions/{id}")).await;
    let labels = browser.eval("return Array.from(document.querySelectorAll('#timeline .row-label'), (label) => label.textContent)").await;
    for label in ["State", "Attempt 0", "Attempt 1", "Leases", "Step check stock", "Wait approve", "Signals"]
    {
        assert!(labels.as_array().is_some_and(|labels| labels.contains(&json!(label))), "{label}: {labels}");
    }
    let attempts = browser.eval("return document.querySelector('#attempts tbody').innerText").await;
    let attempts = attempts.as_str().unwrap_or_default();
    assert!(attempts.contains("suspended") && attempts.contains("out of paper"), "{attempts}");
    for (name, width) in [("execution-life-light-1440", 1440), ("execution-life-light-390", 390)] {
        browser.screenshot(name, width).await;
    }
    browser.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_execution_is_submitted_again_with_an_edited_input() {
    let server = Server::start().await;
    let first = json!({ "kind": "k", "input": { "amount": 12345678901234567890_u64 }, "tags": { "customer": "acme" } });
    let id = server.submit(first).await;
    let browser = Browser::start(&address(&server), Colours::Light).await;
    browser.open(&format!("/executions/{id}")).await;
    browser.click("[data-opens=again-dialog]").await;
    browser.wait_for("document.querySelector('#again-dialog').open").await;
    browser.screenshot("execution-again-light-1440", 1440).await;
    // Each error is shown beside its field.
    let input = "document.querySelector('#again-dialog [name=input]')";
    browser.eval(&format!("{input}.value = '{{'")).await;
    browser.click("#again-dialog button.primary").await;
    browser.wait_for("document.querySelector('#again-input').innerText.includes('no JSON')").await;
    browser.eval(&format!("{input}.value = '{{\"amount\": 12345678901234567891.50}}'; document.querySelector('#again-dialog [name=kind]').value = ''")).await;
    browser.click("#again-dialog button.primary").await;
    browser.wait_for("document.querySelector('#again-kind').innerText.length > 0").await;
    browser.screenshot("execution-again-light-390", 390).await;
    browser.eval("document.querySelector('#again-dialog [name=kind]').value = 'other'").await;
    browser.expect_refusals(422).await;
    // A double click is one submission.
    browser
        .eval(
            "const form = document.querySelector('[data-again]'); form.requestSubmit(); form.requestSubmit()",
        )
        .await;
    browser
        .wait_for(&format!(
            "location.pathname.startsWith('/executions/') && !location.pathname.endsWith('{id}')"
        ))
        .await;
    browser.wait_for("document.querySelector('h1').innerText === 'other'").await;
    let again = browser.eval("return location.pathname.split('/').pop()").await;
    let again = server.get(&format!("/v1/executions/{}", again.as_str().unwrap_or_default())).await.text();
    assert!(again.contains("12345678901234567891.50"), "the input is kept as it was typed: {again}");
    assert!(again.contains("acme"), "{again}");
    let listed = server.get("/v1/executions?kind=other").await.json();
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(1), "{listed}");
    browser.finish().await;
}
