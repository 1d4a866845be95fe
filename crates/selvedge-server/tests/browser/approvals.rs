//! Approvals: answered with a comment, filtered by who is asked and by state, and their links renewed.

use crate::address;
use crate::browser::{Browser, Colours};
use crate::limits::confirm;
use crate::support::{Server, text_of};
use serde_json::json;

/// Suspends a new execution until `source` answers. Returns its id.
async fn ask(server: &Server, source: &str, prompt: &str) -> String {
    let (id, claim) = server.submit_and_claim().await;
    let ask = json!({
        "condition": { "any": [{ "signal": "approve" }, { "signal": "reject" }] },
        "waitpoints": [{ "name": "approve", "signals": ["approve", "reject"], "prompt": prompt, "source": source, "expires_ms": 3_600_000 }],
    });
    server.suspend("i", &claim, ask).await;
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_answered_with_a_comment() {
    let server = Server::start().await;
    let ship = ask(&server, "ann", "Ship order 4711?").await;
    let pay = ask(&server, "bob", "Pay 90 €?").await;
    let browser = Browser::start(&address(&server), Colours::Light).await;
    browser.open("/approvals").await;
    browser.wait_for_text("Ship order 4711?").await;
    browser.wait_for_text("in 59 min").await;
    browser.screenshot("approvals-open-light-1440", 1440).await;
    browser.set("[name=source]", "ann").await;
    browser.click("form[role=search] button").await;
    browser.wait_for("!document.body.innerText.includes('Pay 90')").await;
    browser.set("[name='payload.comment']", "not in stock").await;
    browser.click("button[name=name][value=reject]").await;
    browser.wait_for_text("No approval matches").await;
    server.wait_for_state(&ship, "waiting").await;
    let signal = server.list_of(&ship, "signals").await.remove(0);
    assert_eq!(
        (&signal["name"], &signal["payload"]),
        (&json!("reject"), &json!({ "comment": "not in stock" }))
    );

    browser.open("/approvals?state=delivered").await;
    browser.wait_for("document.querySelector('#list').innerText.includes('answered')").await;
    browser.open("/approvals").await;
    browser.click("#list summary").await;
    browser.click("form[data-reveals=token] button").await;
    confirm(&browser).await;
    browser.wait_for("document.querySelector('dialog.reveal input')").await;
    let link = text_of(&browser.eval("return document.querySelector('dialog.reveal input').value").await);
    assert!(link.starts_with(&format!("{}/approve/", address(&server))), "{link}");
    browser.open(&link[address(&server).len()..]).await;
    browser.wait_for("document.querySelector('h1').innerText === 'Pay 90 €?'").await;
    browser.open("/approvals").await;
    browser.click("#list summary").await;
    browser.click("form[data-call$='/revoke'] button").await;
    confirm(&browser).await;
    browser.wait_for_text("Nothing waits for an answer").await;
    assert_eq!(server.execution(&pay).await["state"], "suspended");
    browser.finish().await;
}
