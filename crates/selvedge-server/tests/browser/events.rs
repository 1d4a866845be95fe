//! The live tail of events: filters, pause and continue.

use crate::address;
use crate::browser::{Browser, Colours};
use crate::support::Server;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn the_tail_is_filtered_paused_and_continued() {
    let server = Server::start().await;
    let browser = Browser::start(&address(&server), Colours::Light).await;
    browser.open("/events").await;
    browser.click("details summary").await;
    browser.click("[name=types][value='execution.submitted']").await;
    browser.click("[name=types][value='execution.completed']").await;
    browser.click("form[role=search] button.primary").await;
    browser.wait_for("document.querySelectorAll('.chip').length === 2").await;
    browser.wait_for("document.querySelector('.live').classList.contains('on')").await;
    let (id, claim) = server.submit_and_claim().await;
    browser.wait_for("document.querySelector('[data-tail]').innerText.includes('execution.submitted')").await;
    browser.click("[data-pause]").await;
    browser.wait_for_text("Paused").await;
    server.complete("i", &claim, json!(null)).await;
    browser.wait_for("document.querySelector('[data-pause]').innerText === 'Continue (1 new)'").await;
    assert_eq!(browser.eval("return document.querySelector('[data-tail]').rows.length").await, json!(1));
    browser.screenshot("events-paused-light-1440", 1440).await;
    browser.click("[data-pause]").await;
    browser.wait_for("document.querySelector('[data-tail]').rows.length === 2").await;
    assert!(!browser.text().await.contains("lease.acquired"), "the filter leaves it out");
    browser.open(&format!("/events?execution={id}")).await;
    browser.wait_for("document.querySelector('[data-tail]').innerText.includes('lease.acquired')").await;
    server.submit(json!({ "kind": "other" })).await;
    browser.click("[aria-label^='Remove the condition execution']").await;
    browser.wait_for("(document.querySelector('[data-tail]').innerText.match(/execution.submitted/g) ?? []).length === 2").await;
    browser.finish().await;
}
