//! Settings: API keys, the keys of waitpoints, namespaces, and the configuration.

use crate::address;
use crate::browser::{Browser, Colours};
use crate::limits::{confirm, open_dialog, save};
use crate::sign_in::{ADMIN, sign_in, start};
use crate::support::Server;
use selvedge_engine::Options;
use selvedge_memory::Clock;
use selvedge_server::Setting;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_created_shown_once_used_and_deleted() {
    let server = start().await;
    let browser = Browser::start(&address(&server), Colours::Light).await;
    sign_in(&browser, ADMIN).await;
    browser.open("/settings?show=keys").await;
    open_dialog(&browser, "new key-dialog").await;
    browser.set("dialog[open] [name=name]", "ci").await;
    browser.set("dialog[open] [name=role]", "submitter").await;
    browser.set("dialog[open] [name=namespaces]", "default, *").await;
    browser.click("dialog[open] button.primary").await;
    browser
        .wait_for("document.querySelector('dialog[open] [name=namespaces]').getAttribute('aria-invalid')")
        .await;
    browser.set("dialog[open] [name=namespaces]", "default").await;
    browser.set("dialog[open] [name=expires_at]", "2090-01-01T00:00").await;
    browser.click("dialog[open] button.primary").await;
    browser.wait_for("document.querySelector('dialog.reveal[open] input')").await;
    browser.screenshot("key-shown-light-1440", 1440).await;
    let key = browser.eval("return document.querySelector('dialog.reveal input').value").await;
    let key = key.as_str().expect("the key is shown").to_owned();
    assert!(key.starts_with("slv_"), "{key}");
    browser.click("dialog.reveal button.primary").await;
    browser.wait_for_text("Copied.").await;
    browser.click("dialog.reveal button[type=submit]").await;
    browser.wait_for("document.querySelector('#keys-list').innerText.includes('submitter')").await;
    assert!(!browser.eval("return document.documentElement.outerHTML").await.to_string().contains(&key));
    let authorization = format!("Bearer {key}");
    let headers = [("authorization", authorization.as_str())];
    let submit = || server.send("POST", "/v1/executions", &headers, b"{\"kind\": \"k\"}".to_vec());
    assert_eq!(submit().await.status, 201);
    browser.click("form[data-call^='DELETE /v1/admin/keys/'] button").await;
    confirm(&browser).await;
    browser.wait_for("document.querySelector('#keys-list').innerText.includes('revoked')").await;
    assert_eq!(submit().await.status, 401);
    browser.finish_after(&[422]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waitpoint_keys_are_rotated_with_a_grace_period() {
    let server = start().await;
    let browser = Browser::start(&address(&server), Colours::Light).await;
    sign_in(&browser, ADMIN).await;
    browser.open("/settings?show=waitpoint-keys").await;
    open_dialog(&browser, "new rotate-dialog").await;
    browser.set("dialog[open] [name=grace_ms]", "2h").await;
    save(&browser).await;
    browser.wait_for("document.querySelector('#keys-list').innerText.includes('signs new tokens')").await;
    open_dialog(&browser, "new rotate-dialog").await;
    save(&browser).await;
    browser.wait_for("document.querySelector('#keys-list').innerText.includes('still accepted')").await;
    browser.screenshot("waitpoint-keys-light-1440", 1440).await;
    browser.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_is_created_changed_and_deleted_only_if_its_name_is_typed() {
    let server = Server::start().await;
    let browser = Browser::start(&address(&server), Colours::Light).await;
    browser.open("/settings?show=namespaces").await;
    open_dialog(&browser, "new namespace-dialog").await;
    browser.set("dialog[open] [name=name]", "blue").await;
    browser.set("dialog[open] [name=retention_ms]", "7d").await;
    save(&browser).await;
    browser.wait_for("document.querySelector('#list').innerText.includes('7 d')").await;
    open_dialog(&browser, "namespace-dialog blue").await;
    browser.set("dialog[open] [name=weight]", "3").await;
    save(&browser).await;
    browser.wait_for("document.querySelector('#list').innerText.includes('3')").await;
    let namespace = server.read("admin/namespaces/blue").await;
    assert_eq!((&namespace["retention_ms"], &namespace["weight"]), (&json!(604_800_000), &json!(3)));
    open_dialog(&browser, "namespace-dialog blue").await;
    browser.click("dialog[open] [data-for=remove]").await;
    browser.wait_for("document.querySelector('dialog.ask button.danger').disabled").await;
    browser.screenshot("namespace-delete-light-390", 390).await;
    browser.set("dialog.ask input", "blue").await;
    confirm(&browser).await;
    browser.wait_for("document.querySelector('#list').innerText.includes('being deleted') || !document.querySelector('#list').innerText.includes('blue')").await;
    browser.finish_after(&[404]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_configuration_shows_the_source_of_each_value() {
    let setting = |group: &str, name: &str, value: Option<&str>, source: &str| Setting {
        group: group.into(),
        name: name.into(),
        value: value.map(str::to_owned),
        source: source.into(),
    };
    let configuration = vec![
        setting("", "store", Some("\"postgres://ada:***@db/selvedge\""), "environment SELVEDGE_STORE"),
        setting("", "listen", Some("\"127.0.0.1:7878\""), "default"),
        setting("Retention", "retention", Some("\"7d\""), "file /etc/selvedge/selvedge.toml"),
        setting("Retention", "retention-of-events", None, "default"),
    ];
    let serving = selvedge_server::Options { configuration, ..selvedge_server::Options::default() };
    let options = Options { reconcilers: false, ..Options::default() };
    let server = Server::start_serving(options, Clock::system(), serving).await;
    let browser = Browser::start(&address(&server), Colours::Light).await;
    browser.open("/settings?show=configuration").await;
    for text in
        ["environment SELVEDGE_STORE", "ada:***@db", "file /etc/selvedge", "not set", "General", "Retention"]
    {
        browser.wait_for_text(text).await;
    }
    browser.screenshot("configuration-light-1440", 1440).await;
    browser.open("/about").await;
    browser.wait_for_text("everything is lost when the process ends").await;
    browser.wait_for_text("Up since").await;
    browser.finish().await;
}
