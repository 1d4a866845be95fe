//! Submitting an execution again from its page: everything that was submitted is kept, unless its box is cleared.

use crate::address;
use crate::browser::{Browser, Colours};
use crate::directory::Directory;
use crate::support::{Server, text_of};
use selvedge_engine::Options;
use selvedge_engine::store::Store;
use selvedge_system_tests::database::Database;
use serde_json::{Value, json};
use std::sync::Arc;

/// The fields of a submission that an execution shows by the same names and that a second submission keeps.
const KEPT: [&str; 17] = [
    "kind",
    "input",
    "lane",
    "capabilities",
    "tags",
    "priority",
    "fairness_key",
    "unique_while_active",
    "retry",
    "attempt_timeout_ms",
    "start_by_ms",
    "deadline_ms",
    "retention_ms",
    "budgets",
    "quotas",
    "concurrency",
    "delayed_until_at",
];

async fn start(store: Arc<dyn Store>) -> Server {
    let options = Options { reconcilers: false, ..Options::default() };
    let server = Server::start_on(store, options, selvedge_server::Options::default()).await;
    server.configure("budgets/llm-tokens", json!({ "limits": { "tokens": { "hard": 1_000_000 } } })).await;
    server.configure("budgets/money", json!({ "limits": { "usd": { "hard": 20 } } })).await;
    server.configure("quotas/sales-api", json!({ "concurrency": 3 })).await;
    server
}

/// A submission with every field.
fn every_field() -> Value {
    json!({
        "kind": "charge", "lane": "llm", "input": { "order": 4711, "amount": 12345678901234567890_u64 },
        "id": "0197f3c8-2b1e-7c4e-9d0a-1f2e3d4c5b6a",
        "idempotency_key": "order-4711", "idempotency_window_ms": 60_000, "unique_while_active": "customer 7, \"ada\"",
        "priority": -5, "fairness_key": "tenant-a", "capabilities": ["cuda", "vram-80g"],
        "tags": { "customer": "ada:7", "team": "billing" }, "delay_until_at": "2190-01-01T00:00:00.000Z",
        "start_by_ms": 9_000_000_000_000_i64, "attempt_timeout_ms": 90_000, "deadline_ms": 9_100_000_000_000_i64,
        "retention_ms": 1_234_567,
        "retry": {
            "max_retries": 7, "max_interruptions": 2, "retry_on": ["timeout"],
            "backoff": { "type": "exponential", "initial_ms": 250, "multiplier": 1.5, "max_ms": 4000, "jitter": false },
        },
        "budgets": ["money", { "name": "llm-tokens", "reserve": { "tokens": 4000.5 } }],
        "quotas": ["sales-api"], "concurrency": { "key": "customer-7", "limit": 1 },
    })
}

/// Submits the open page again. Returns the id of the new execution.
async fn submit_again(browser: &Browser, id: &str) -> String {
    browser.click("[data-opens=again-dialog]").await;
    browser.wait_for("document.querySelector('#again-dialog').open").await;
    browser.click("#again-dialog button.primary").await;
    another_page(browser, id).await
}

/// Waits for the page of another execution than this one. Returns its id.
async fn another_page(browser: &Browser, id: &str) -> String {
    let path = "location.pathname";
    browser.wait_for(&format!("{path}.startsWith('/executions/') && !{path}.endsWith('{id}')")).await;
    text_of(&browser.eval("return location.pathname.split('/').pop()").await)
}

/// Asserts that two executions were submitted with the same fields. A time is left out.
fn assert_same_submission(first: &Value, second: &Value) {
    assert_ne!(first["id"], second["id"]);
    for field in KEPT {
        assert!(first.get(field).is_some(), "{field} is not shown: {first}");
        assert_eq!(first[field], second[field], "{field}");
    }
}

async fn everything_is_submitted_again(store: Arc<dyn Store>) {
    let mut server = start(store).await;
    let browser = Browser::start(&address(&server), Colours::Light).await;
    let id = server.submit(every_field()).await;
    let first = server.execution(&id).await;
    browser.open(&format!("/executions/{id}")).await;
    browser.click("[data-opens=again-dialog]").await;
    browser.wait_for("document.querySelector('#again-dialog').open").await;
    let dialog = text_of(&browser.eval("return document.querySelector('#again-dialog').innerText").await);
    for kept in [
        "budget money",
        "budget llm-tokens, which reserves 4000.5 tokens",
        "quota sales-api",
        "at most 1 with customer-7",
        "turns by the fairness key tenant-a",
        "a worker with the capability cuda",
        "7 retries, after 250 ms and up to 4 s",
        "per attempt, at most 1 min 30 s",
        "only one at a time with the key customer 7, \"ada\"",
        "starts no earlier than 2190-01-01 00:00:00.000 UTC",
        "Not kept: its id and its idempotency key.",
    ] {
        assert!(dialog.contains(kept), "{kept}: {dialog}");
    }
    for (name, width) in
        [("execution-again-whole-light-1440", 1440), ("execution-again-whole-light-390", 390)]
    {
        browser.screenshot(name, width).await;
    }
    // The first is not terminal, so its uniqueness key identifies it.
    browser.click("#again-dialog button.primary").await;
    browser.wait_for_text("Nothing was submitted: this execution has not ended").await;
    let cancelled = server.post(&format!("/v1/executions/{id}/cancel"), json!({})).await;
    assert_eq!(cancelled.status, 200, "{}", cancelled.text());
    // The delay was cleared by the end. The form still has the one that it was opened with.
    browser.click("#again-dialog button.primary").await;
    let again = another_page(&browser, &id).await;
    let second = server.execution(&again).await;
    assert_same_submission(&first, &second);
    assert_eq!((&second["idempotency_key"], &second["debounce"]), (&json!(null), &json!(null)));

    // A submission without any of the fields, too.
    let plain = server.submit(json!({ "kind": "k" })).await;
    browser.open(&format!("/executions/{plain}")).await;
    let again = submit_again(&browser, &plain).await;
    assert_same_submission(&server.execution(&plain).await, &server.execution(&again).await);
    browser.finish().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_execution_is_submitted_again_with_all_that_it_was_given_on_sqlite() {
    let directory = Directory::new();
    everything_is_submitted_again(directory.store().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_execution_is_submitted_again_with_all_that_it_was_given_on_postgres() {
    let database = Database::create().await;
    everything_is_submitted_again(database.store().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_whose_box_is_cleared_is_not_submitted_again() {
    let directory = Directory::new();
    let server = start(directory.store().await).await;
    let browser = Browser::start(&address(&server), Colours::Light).await;
    let id = server.submit(every_field()).await;
    browser.open(&format!("/executions/{id}")).await;
    browser.click("[data-opens=again-dialog]").await;
    browser.wait_for("document.querySelector('#again-dialog').open").await;
    for part in [
        "[data-kept=unique_while_active]",
        "[data-json='\"money\"']",
        "[data-kept=concurrency]",
        "[data-kept=retry]",
    ] {
        browser.click(&format!("#again-dialog {part}")).await;
    }
    browser.click("#again-dialog button.primary").await;
    let again = server.execution(&another_page(&browser, &id).await).await;
    assert_eq!(again["budgets"], json!([{ "name": "llm-tokens", "reserve": { "tokens": 4000.5 } }]));
    assert_eq!((&again["concurrency"], &again["unique_while_active"]), (&json!(null), &json!(null)));
    assert_eq!(again["retry"]["max_retries"], 3, "the default");
    assert_eq!(again["quotas"], json!(["sales-api"]));
    browser.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_belongs_to_one_execution_alone_is_named_and_not_submitted_again() {
    let server = Server::start().await;
    let browser = Browser::start(&address(&server), Colours::Light).await;
    let debounced = json!({ "kind": "k", "debounce": { "key": "customer-7", "delay_ms": 3_600_000 } });
    let debounced = server.submit(debounced).await;
    let flow = json!({ "nodes": [{ "name": "a", "kind": "k", "tags": { "team": "docs" } }, { "name": "b", "kind": "k" }] });
    let member = text_of(&server.submit_flow(flow).await["executions"]["a"]);
    for (id, named) in
        [(debounced, "its id and its debounce."), (member, "its id and its place in the flow.")]
    {
        browser.open(&format!("/executions/{id}")).await;
        let dialog =
            text_of(&browser.eval("return document.querySelector('#again-dialog').textContent").await);
        assert!(dialog.contains(named), "{named}: {dialog}");
        let first = server.execution(&id).await;
        let second = server.execution(&submit_again(&browser, &id).await).await;
        assert_eq!(
            (&second["state"], &second["node"], &second["debounce"]),
            (&json!("waiting"), &json!(null), &json!(null))
        );
        assert_eq!(first["tags"], second["tags"]);
    }
    browser.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_that_is_too_large_for_the_form_is_not_replaced_by_null() {
    let server = Server::start().await;
    let browser = Browser::start(&address(&server), Colours::Light).await;
    let id = server.submit(json!({ "kind": "k", "input": "x".repeat(300 * 1024) })).await;
    browser.open(&format!("/executions/{id}")).await;
    browser.click("[data-opens=again-dialog]").await;
    browser.wait_for("document.querySelector('#again-dialog').open").await;
    browser.click("#again-dialog button.primary").await;
    browser
        .wait_for("document.querySelector('#again-input').innerText.includes('too large for this form')")
        .await;
    browser.set("#again-dialog [name=input]", "null").await;
    browser.click("#again-dialog button.primary").await;
    let again = another_page(&browser, &id).await;
    assert_eq!(server.execution(&again).await["input"], json!(null));
    browser.finish().await;
}
