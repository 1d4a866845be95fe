//! Approvals: answered with a comment, filtered by who is asked and by state, and their links renewed.

use crate::address;
use crate::browser::{Browser, Colours};
use crate::limits::confirm;
use crate::support::{Server, text_of};
use serde_json::{Value, json};

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
    confirm(&browser).await;
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

/// Opens the approvals and waits until they are live.
async fn open(browser: &Browser) {
    browser.open("/approvals").await;
    browser.wait_for("document.querySelector('.live').classList.contains('on')").await;
}

/// Waits until the page has an update that it holds.
async fn wait_until_held(browser: &Browser) {
    browser.wait_for("document.querySelector('.live').innerText.includes('changes wait')").await;
}

/// Returns the only signal of an execution, as name and comment.
async fn answer_of(server: &Server, id: &str) -> (String, Value) {
    server.wait_for_state(id, "waiting").await;
    let signals = server.list_of(id, "signals").await;
    assert_eq!(signals.len(), 1, "{signals:?}");
    (text_of(&signals[0]["name"]), signals[0]["payload"]["comment"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_answer_that_has_the_focus_is_the_one_that_is_sent_after_an_update() {
    let server = Server::start().await;
    let ship = ask(&server, "ann", "Ship order 4711?").await;
    let browser = Browser::start(&address(&server), Colours::Light).await;
    open(&browser).await;
    let focused = "return [document.activeElement.value, document.activeElement.closest('article')?.innerText.includes('4711')]";
    // With the keyboard: the card does not change.
    browser.eval("document.querySelector('button[value=reject]').focus()").await;
    ask(&server, "bob", "Pay 90 €?").await;
    wait_until_held(&browser).await;
    assert_eq!(browser.eval(focused).await, json!(["reject", true]));
    browser.press("\n").await;
    browser
        .wait_for("document.querySelector('dialog.ask').innerText.includes('Send the answer “Reject”?')")
        .await;
    browser.click("dialog.ask button[value=no]").await;
    browser.wait_for("!document.querySelector('dialog.ask')").await;
    browser.eval("document.activeElement.blur()").await;
    browser.wait_for_text("Pay 90 €?").await;

    // With the pointer: the list goes on, and the focus stays on the same answer of the same card.
    browser.click("article:last-of-type button[value=reject]").await;
    browser.wait_for("document.querySelector('dialog.ask')").await;
    browser.click("dialog.ask button[value=no]").await;
    browser.wait_for("!document.querySelector('dialog.ask')").await;
    assert_eq!(browser.eval(focused).await, json!(["reject", true]));
    browser.eval("window.old = document.activeElement").await;
    ask(&server, "eve", "Hire Dan?").await;
    browser.wait_for("document.body.innerText.includes('Hire Dan?') || document.querySelector('.live').innerText.includes('changes wait')").await;
    assert_eq!(browser.eval(focused).await, json!(["reject", true]));
    browser.press("\n").await;
    confirm(&browser).await;
    assert_eq!(answer_of(&server, &ship).await.0, "reject");
    browser.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_typed_comment_survives_updates_after_the_focus_has_left() {
    let server = Server::start().await;
    let ship = ask(&server, "ann", "Ship order 4711?").await;
    let browser = Browser::start(&address(&server), Colours::Light).await;
    open(&browser).await;
    browser.click("textarea").await;
    browser.press("not in stock\t").await;
    browser.eval("document.activeElement.blur()").await;
    ask(&server, "bob", "Pay 90 €?").await;
    wait_until_held(&browser).await;
    assert_eq!(browser.eval("return document.querySelector('textarea').value").await, json!("not in stock"));
    browser.click("button[value=reject]").await;
    confirm(&browser).await;
    assert_eq!(answer_of(&server, &ship).await, ("reject".into(), json!("not in stock")));
    browser.wait_for("document.querySelector('#list').innerText.includes('Pay 90 €?')").await;
    browser.wait_for("!document.querySelector('#list').innerText.includes('Ship order 4711?')").await;
    browser.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answered_card_says_so_while_another_comment_holds_the_list() {
    let server = Server::start().await;
    let ship = ask(&server, "ann", "Ship order 4711?").await;
    let pay = ask(&server, "bob", "Pay 90 €?").await;
    let browser = Browser::start(&address(&server), Colours::Light).await;
    open(&browser).await;
    browser.set("article:first-of-type textarea", "by Friday").await;
    browser.click("article:last-of-type button[value=approve]").await;
    confirm(&browser).await;
    assert_eq!(answer_of(&server, &ship).await.0, "approve");
    browser
        .wait_for("document.querySelector('article:last-of-type').innerText.includes('Answered: Approve.')")
        .await;
    assert_eq!(
        browser.eval("return document.querySelectorAll('article:last-of-type button').length").await,
        json!(0)
    );
    browser.click("article:first-of-type button[value=approve]").await;
    confirm(&browser).await;
    assert_eq!(answer_of(&server, &pay).await, ("approve".into(), json!("by Friday")));
    browser.wait_for_text("Nothing waits for an answer").await;
    browser.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn updates_wait_for_open_details_and_for_selected_text() {
    let server = Server::start().await;
    ask(&server, "ann", "Ship order 4711?").await;
    let browser = Browser::start(&address(&server), Colours::Light).await;
    open(&browser).await;
    browser.click("#list summary").await;
    ask(&server, "bob", "Pay 90 €?").await;
    wait_until_held(&browser).await;
    assert_eq!(browser.eval("return document.querySelector('#list details').open").await, json!(true));
    browser.click("#list summary").await;
    browser.wait_for_text("Pay 90 €?").await;

    browser
        .eval("getSelection().selectAllChildren(document.querySelector('#list article:last-of-type h2'))")
        .await;
    ask(&server, "eve", "Hire Dan?").await;
    wait_until_held(&browser).await;
    assert_eq!(browser.eval("return getSelection().toString()").await, json!("Ship order 4711?"));
    browser.eval("getSelection().removeAllRanges()").await;
    browser.wait_for_text("Hire Dan?").await;
    browser.wait_for("document.querySelector('.live').innerText === 'Live'").await;
    browser.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_and_prompts_are_written_for_people() {
    let server = Server::start().await;
    let browser = Browser::start(&address(&server), Colours::Light).await;
    let (id, claim) = server.submit_and_claim().await;
    browser.open(&format!("/executions/{id}")).await;
    browser.wait_for("document.querySelector('.live').classList.contains('on')").await;
    // As the approval calls of the SDKs name them.
    let ask = json!({
        "condition": { "any": [{ "signal": "expense/ann" }, { "signal": "expense/reject" }] },
        "waitpoints": [{
            "name": "expense/ann", "source": "ann", "signals": ["expense/ann", "expense/reject"],
            "prompt": "Pay the hotel?\n\nNights: 3\n  Price: 90 €",
        }],
    });
    let waitpoint = server.suspend("i", &claim, ask).await["waitpoints"][0].clone();
    let labels = "Array.from(document.querySelectorAll('form button[value^=expense]'), (button) => [button.innerText, button.className])";
    let lines = "document.querySelector('.prompt').innerText";
    // The question appears on the page that is open.
    browser.wait_for("document.querySelector('#waitpoints').innerText.includes('Pay the hotel?')").await;
    let link = format!("/approve/{}#{}", text_of(&waitpoint["id"]), text_of(&waitpoint["token"]));
    for path in [format!("/executions/{id}"), "/approvals".into(), link] {
        browser.open("/docs").await;
        browser.open(&path).await;
        browser.wait_for_text("Pay the hotel?").await;
        assert_eq!(
            browser.eval(&format!("return {labels}")).await,
            json!([["Approve", ""], ["Reject", ""]]),
            "{path}"
        );
        assert_eq!(
            browser.eval(&format!("return {lines}")).await,
            json!("Nights: 3\n  Price: 90 €"),
            "{path}"
        );
    }
    browser.screenshot("approve-lines-light-390", 390).await;
    browser.set("textarea", "fine").await;
    browser.click("button[value='expense/ann']").await;
    browser
        .wait_for("document.querySelector('dialog.ask').innerText.includes('Send the answer “Approve”?')")
        .await;
    confirm(&browser).await;
    browser.wait_for_text("Your answer “Approve” was delivered.").await;
    assert_eq!(answer_of(&server, &id).await, ("expense/ann".into(), json!("fine")));
    browser.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_leaves_the_page_of_its_execution_when_it_is_answered() {
    let server = Server::start().await;
    let id = ask(&server, "ann", "Ship order 4711?").await;
    let browser = Browser::start(&address(&server), Colours::Light).await;
    browser.open(&format!("/executions/{id}")).await;
    browser.click("button[value=approve]").await;
    confirm(&browser).await;
    browser.wait_for("document.querySelector('#waitpoints').innerText === ''").await;
    browser.finish().await;
}
