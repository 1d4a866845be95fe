//! Webhooks: created with a secret that is shown once, tested, paused, rotated, changed and deleted; deliveries with their failures.

use crate::address;
use crate::browser::{Browser, Colours};
use crate::limits::{confirm, open_dialog, save};
use crate::support::Server;
use selvedge_engine::Options;
use selvedge_memory::Clock;
use selvedge_server::WebhookOptions;
use serde_json::json;
use std::net::TcpListener;

/// Closes the dialog with a secret. Returns the secret.
async fn take_secret(browser: &Browser) -> String {
    browser.wait_for("document.querySelector('dialog.reveal[open] input')").await;
    let secret = browser.eval("return document.querySelector('dialog.reveal input').value").await;
    browser.click("dialog.reveal button[type=submit]").await;
    browser.wait_for("!document.querySelector('dialog[open]')").await;
    secret.as_str().expect("the secret is text").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_is_created_tested_paused_rotated_and_deleted() {
    let webhooks = WebhookOptions { allow_private: true, ..WebhookOptions::default() };
    let serving = selvedge_server::Options { webhooks, ..selvedge_server::Options::default() };
    let server = Server::start_serving(Options::default(), Clock::system(), serving).await;
    // Nobody listens on this port when the listener is dropped.
    let closed =
        TcpListener::bind("127.0.0.1:0").expect("a port is free").local_addr().expect("it has an address");
    let browser = Browser::start(&address(&server), Colours::Light).await;
    browser.open("/webhooks").await;
    open_dialog(&browser, "new webhook-dialog").await;
    browser.set("dialog[open] [name=name]", "billing").await;
    browser.set("dialog[open] [name=url]", &format!("http://{closed}/hook")).await;
    browser.set("dialog[open] [name=types]", "execution.submitted execution.lost").await;
    browser.click("dialog[open] button.primary").await;
    browser
        .wait_for("document.querySelector('dialog[open] [name=types]').getAttribute('aria-invalid')")
        .await;
    browser.screenshot("webhook-dialog-light-1440", 1440).await;
    browser.set("dialog[open] [name=types]", "execution.submitted").await;
    browser.click("dialog[open] button.primary").await;
    let secret = take_secret(&browser).await;
    assert!(secret.starts_with("whsec_"), "{secret}");
    browser.click("#list a[href='/webhooks/billing']").await;
    browser.wait_for("location.pathname === '/webhooks/billing'").await;
    browser.click("form[data-call$='/billing/test'] button").await;
    browser.wait_for_text("The receiver refused the test").await;
    server.submit(json!({ "kind": "k" })).await;
    browser.wait_for("document.querySelector('#list').innerText.includes('pending')").await;
    browser.wait_for("document.querySelector('#facts').innerText.includes('Last failure')").await;
    browser.screenshot("webhook-failing-light-1440", 1440).await;
    browser.click("form[data-call$='/replay'] button").await;
    browser.wait_for_text("Sent again.").await;

    browser.click("[data-key=rotate]").await;
    browser.wait_for("document.querySelector('dialog[open]')").await;
    browser.click("dialog[open] button.primary").await;
    assert_ne!(take_secret(&browser).await, secret);
    browser.wait_for("document.querySelector('#facts').innerText.includes('Old secret valid until')").await;
    browser.click("#actions form[data-call='PATCH /v1/webhooks/billing'] button").await;
    browser.wait_for("document.querySelector('#facts').innerText.includes('paused')").await;
    assert_eq!(server.read("webhooks/billing").await["paused"], true);
    open_dialog(&browser, "webhook-dialog billing").await;
    browser.set("dialog[open] [name='filter.tag']", "customer:acme").await;
    save(&browser).await;
    browser.wait_for("document.querySelector('#facts').innerText.includes('customer:acme')").await;
    open_dialog(&browser, "webhook-dialog billing").await;
    browser.click("dialog[open] [data-for=remove]").await;
    confirm(&browser).await;
    browser.wait_for("location.pathname === '/webhooks'").await;
    browser.wait_for_text("No webhooks").await;
    browser.finish_after(&[404, 422]).await;
}
