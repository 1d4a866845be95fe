//! Every page can be read with scripts switched off, and a person without a key can answer.

use crate::browser::{Browser, Colours};
use crate::support::{Server, text_of};
use crate::{PAGES, address, fill};
use serde_json::json;

/// Texts that only the content of a page has.
const CONTENT: [(&str, &str); 11] = [
    ("/", "The budget “model” is used up"),
    ("/executions", "import"),
    ("/flows", "diamond"),
    ("/approvals", "Ship order 4711 to acme?"),
    ("/workers", "desk-1"),
    ("/lanes", "smtp"),
    ("/budgets", "tokens"),
    ("/schedules", "nightly"),
    ("/events", "execution.submitted"),
    ("/webhooks", "billing"),
    ("/docs", "/v1/executions"),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_page_shows_its_content_without_a_script() {
    let server = Server::start().await;
    let (flow, execution) = fill(&server).await;
    let browser = Browser::start(&address(&server), Colours::Light).await;
    browser.switch_scripts_off();
    for (_, path) in PAGES {
        browser.open(path).await;
        let text = browser.text().await;
        let content = CONTENT.iter().find(|(other, _)| *other == path).map_or("Selvedge", |(_, text)| text);
        assert!(text.contains(content), "{path} lacks {content}: {text}");
        assert_eq!(
            browser.eval("return document.documentElement.className").await,
            json!(""),
            "{path}: no script runs"
        );
        let hidden = "return Array.from(document.querySelectorAll('.needs-script')).filter((one) => one.checkVisibility()).length";
        assert_eq!(browser.eval(hidden).await, json!(0), "{path} shows a control that does nothing");
    }
    for (path, content) in [(flow.as_str(), "begin"), (&execution, "Ship order 4711 to acme?")] {
        browser.open(path).await;
        let text = browser.eval("return document.body.textContent").await.to_string();
        assert!(text.contains(content), "{path}");
    }
    browser.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approver_answers_without_a_script() {
    let server = Server::start().await;
    let (id, claim) = server.submit_and_claim().await;
    let ask = json!({ "condition": { "signal": "agree" }, "waitpoints": [{ "name": "agree", "prompt": "Go on?" }] });
    let suspended = server.suspend("i", &claim, ask).await;
    let waitpoint = &suspended["waitpoints"][0];
    let browser = Browser::start(&address(&server), Colours::Light).await;
    browser.switch_scripts_off();
    browser.open(&format!("/approve/{}", text_of(&waitpoint["id"]))).await;
    browser.click("input[name=token]").await;
    browser.press(&text_of(&waitpoint["token"])).await;
    browser.click("button").await;
    browser.wait_for("document.body.innerText.includes('Go on?')").await;
    browser.click("button[name=signal]").await;
    browser.wait_for("document.body.innerText.includes('was delivered')").await;
    server.wait_for_state(&id, "waiting").await;
    browser.finish().await;
}
