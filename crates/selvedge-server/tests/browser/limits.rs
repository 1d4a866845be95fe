//! Lanes, quotas and budgets: created, changed, paused, drained, reset and deleted from their pages.

use crate::browser::{Browser, Colours};
use crate::support::Server;
use crate::{address, fill};
use serde_json::json;

/// Opens the dialog of the button that creates or changes something.
pub async fn open_dialog(browser: &Browser, key: &str) {
    browser.click(&format!("[data-key='{key}']")).await;
    browser.wait_for("document.querySelector('dialog[open]')").await;
}

/// Sends the open dialog, and waits until it is closed.
pub async fn save(browser: &Browser) {
    browser.click("dialog[open] button.primary").await;
    browser.wait_for("!document.querySelector('dialog[open]')").await;
}

/// Confirms the question of the page.
pub async fn confirm(browser: &Browser) {
    browser.wait_for("document.querySelector('dialog.ask[open]')").await;
    browser.click("dialog.ask button[value=yes]").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lane_is_created_limited_paused_drained_and_reset() {
    let server = Server::start().await;
    let browser = Browser::start(&address(&server), Colours::Light).await;
    browser.open("/lanes").await;
    open_dialog(&browser, "new lane-dialog").await;
    browser.set("dialog[open] [name=name]", "mail").await;
    browser.set("dialog[open] [name=concurrency]", "4").await;
    browser.set("dialog[open] [name='rate.count']", "9").await;
    browser.set("dialog[open] [name='rate.window_ms']", "1min 30s").await;
    browser.screenshot("lane-dialog-light-1440", 1440).await;
    save(&browser).await;
    browser.wait_for_text("9 in 1 min 30 s").await;
    let lane = server.read("lanes/mail").await;
    assert_eq!(lane["concurrency"], 4);
    assert_eq!(lane["rate"], json!({ "count": 9, "window_ms": 90_000 }));

    open_dialog(&browser, "lane-dialog mail").await;
    assert_eq!(
        browser.eval("return document.querySelector('dialog[open] [name=concurrency]').value").await,
        json!("4")
    );
    assert_eq!(
        browser.eval("return document.querySelector('dialog[open] [name=name]').readOnly").await,
        json!(true)
    );
    browser.set("dialog[open] [name=concurrency]", "").await;
    browser.set("dialog[open] [name='rate.count']", "").await;
    browser.set("dialog[open] [name='rate.window_ms']", "").await;
    browser.set("dialog[open] [name=weight]", "3").await;
    save(&browser).await;
    browser.wait_for("document.activeElement.dataset.key === 'lane-dialog mail'").await;
    browser.wait_for("!document.querySelector('#lanes').innerText.includes('9 in')").await;
    let lane = server.read("lanes/mail").await;
    assert_eq!(
        (&lane["concurrency"], &lane["rate"], &lane["weight"]),
        (&json!(null), &json!(null), &json!(3))
    );

    browser.click("form[data-call$='/lanes/mail/pause'] button").await;
    browser.wait_for("document.querySelector('#lanes').innerText.includes('paused')").await;
    browser.click("form[data-call$='/lanes/mail/resume'] button").await;
    browser.wait_for("document.querySelector('#lanes').innerText.includes('active')").await;
    browser.click("form[data-call='PATCH /v1/lanes/mail'] button").await;
    confirm(&browser).await;
    browser.wait_for("document.querySelector('#lanes').innerText.includes('draining')").await;
    assert_eq!(server.read("lanes/mail").await["state"], "draining");

    open_dialog(&browser, "lane-dialog mail").await;
    browser.click("dialog[open] [data-for=remove]").await;
    confirm(&browser).await;
    browser.wait_for_text("No lanes yet").await;
    browser.finish_after(&[404]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_shown_beside_its_field_and_nothing_is_replaced_by_accident() {
    let server = Server::start().await;
    server.configure("quotas/smtp", json!({ "concurrency": 2 })).await;
    let browser = Browser::start(&address(&server), Colours::Light).await;
    browser.open("/lanes").await;
    open_dialog(&browser, "new quota-dialog").await;
    browser.set("dialog[open] [name=name]", "smtp").await;
    browser.set("dialog[open] [name=concurrency]", "7").await;
    browser.click("dialog[open] button.primary").await;
    let beside = |name: &str| {
        format!(
            "document.querySelector('dialog[open] [name=\"{name}\"]').closest('label').querySelector('.field-error')?.textContent"
        )
    };
    browser.wait_for(&format!("{}.includes('is in use')", beside("name"))).await;
    assert_eq!(server.read("quotas/smtp").await["concurrency"], 2);

    browser.set("dialog[open] [name=name]", "calls").await;
    browser.set("dialog[open] [name='rate.count']", "5").await;
    browser.set("dialog[open] [name='rate.window_ms']", "soon").await;
    browser.click("dialog[open] button.primary").await;
    browser.wait_for(&format!("{}?.includes('with a unit')", beside("rate.window_ms"))).await;
    browser.wait_for("document.activeElement.name === 'rate.window_ms'").await;
    browser.set("dialog[open] [name='rate.window_ms']", "0s").await;
    browser.click("dialog[open] button.primary").await;
    browser.wait_for(&format!("{}?.includes('is 0')", beside("rate.window_ms"))).await;
    assert_eq!(
        browser.eval("return document.activeElement.getAttribute('aria-invalid')").await,
        json!("true")
    );
    browser.screenshot("quota-refused-light-390", 390).await;
    browser.set("dialog[open] [name='rate.window_ms']", "10s").await;
    save(&browser).await;
    browser.wait_for("document.querySelector('#quotas').innerText.includes('5 in 10 s')").await;

    open_dialog(&browser, "quota-dialog smtp").await;
    browser.click("dialog[open] [data-for=remove]").await;
    browser.wait_for("document.querySelector('dialog.ask[open]')").await;
    browser.click("dialog.ask button[value=no]").await;
    assert_eq!(server.read("quotas/smtp").await["concurrency"], 2, "the answer was no");
    browser.click("dialog[open] [data-for=remove]").await;
    confirm(&browser).await;
    browser.wait_for("!document.querySelector('#quotas').innerText.includes('smtp')").await;
    assert_eq!(server.get("/v1/quotas/smtp").await.status, 404);
    browser.finish_after(&[404, 422]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_is_created_with_dimensions_changed_reset_and_deleted() {
    let server = Server::start().await;
    let browser = Browser::start(&address(&server), Colours::Dark).await;
    browser.open("/budgets").await;
    open_dialog(&browser, "new budget-dialog").await;
    browser.set("dialog[open] [name=name]", "model").await;
    browser.set("dialog[open] [data-row]:nth-of-type(1) [data-row-key]", "tokens").await;
    browser.set("dialog[open] [data-row]:nth-of-type(1) [data-row-field=soft]", "900").await;
    browser.set("dialog[open] [data-row]:nth-of-type(1) [data-row-field=hard]", "800").await;
    browser.click("dialog[open] [data-add-row]").await;
    browser.set("dialog[open] [data-row]:nth-of-type(2) [data-row-key]", "usd").await;
    browser.set("dialog[open] [data-row]:nth-of-type(2) [data-row-field=hard]", "12.50").await;
    browser.set("dialog[open] [name=period_ms]", "1d").await;
    browser.set("dialog[open] [name=on_hard]", "suspend").await;
    browser.click("dialog[open] button.primary").await;
    browser.wait_for("document.querySelector('dialog[open] [data-row] .field-error')").await;
    browser.screenshot("budget-dialog-dark-1440", 1440).await;
    browser.set("dialog[open] [data-row]:nth-of-type(1) [data-row-field=hard]", "1000").await;
    save(&browser).await;
    browser.wait_for_text("0 of 12.5").await;
    let budget = server.read("budgets/model").await;
    assert_eq!(budget["limits"], json!({ "tokens": { "hard": 1000, "soft": 900 }, "usd": { "hard": 12.5 } }));
    assert_eq!((&budget["period_ms"], &budget["on_hard"]), (&json!(86_400_000), &json!("suspend")));

    server.post("/v1/budgets/model/usage", json!({ "usage": { "tokens": 640 } })).await;
    browser.open("/budgets").await;
    browser.wait_for_text("640 of 1000").await;
    browser.click("form[data-call$='/model/reset'] button").await;
    confirm(&browser).await;
    browser.wait_for_text("0 of 1000").await;
    open_dialog(&browser, "budget-dialog model").await;
    browser.click("dialog[open] [data-row]:nth-of-type(2) [data-remove-row]").await;
    save(&browser).await;
    browser.wait_for("!document.querySelector('#list').innerText.includes('usd')").await;
    open_dialog(&browser, "budget-dialog model").await;
    browser.click("dialog[open] [data-for=remove]").await;
    confirm(&browser).await;
    browser.wait_for_text("No budgets").await;
    browser.finish_after(&[404, 422]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dialog_stays_while_the_page_behind_it_changes() {
    let server = Server::start().await;
    fill(&server).await;
    let browser = Browser::start(&address(&server), Colours::Light).await;
    browser.open("/lanes").await;
    browser.wait_for("document.querySelector('.live').classList.contains('on')").await;
    open_dialog(&browser, "lane-dialog mail").await;
    browser.set("dialog[open] [name=weight]", "5").await;
    server.configure("lanes/late", json!({ "concurrency": 1 })).await;
    browser.wait_for("document.querySelector('#lanes').textContent.includes('late')").await;
    assert_eq!(
        browser.eval("return document.querySelector('dialog[open] [name=weight]').value").await,
        json!("5")
    );
    browser.press("\u{E00C}").await;
    browser.wait_for("!document.querySelector('dialog[open]')").await;
    browser.wait_for("document.activeElement.dataset.key === 'lane-dialog mail'").await;
    browser.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_per_lane_shows_the_lanes_with_the_least_room_first() {
    let server = Server::start().await;
    server.configure("budgets/mail", json!({ "limits": { "usd": { "hard": 10 } }, "scope": "lane" })).await;
    for (lane, spent) in [("quiet", 1), ("busy", 9)] {
        let id = server.submit(json!({ "kind": "k", "lane": lane, "budgets": ["mail"] })).await;
        let usage = json!({ "usage": { "usd": spent }, "execution": id });
        assert_eq!(server.post("/v1/budgets/mail/usage", usage).await.status, 200);
    }
    let browser = Browser::start(&address(&server), Colours::Light).await;
    browser.open("/budgets").await;
    let lanes = "Array.from(document.querySelectorAll('#list h3')).map((lane) => lane.textContent).join()";
    assert_eq!(browser.eval(&format!("return {lanes}")).await, json!("busy,quiet"));
    browser.wait_for_text("9 of 10").await;
    browser.screenshot("budgets-lanes-light-1440", 1440).await;
    browser.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_says_whether_it_has_room_holds_or_is_used_up() {
    let server = Server::start().await;
    let limits = json!({ "limits": { "tokens": { "soft": 800, "hard": 1000 } } });
    server.configure("budgets/llm", limits).await;
    let browser = Browser::start(&address(&server), Colours::Light).await;
    browser.open("/budgets").await;
    browser.wait_for_text("has room").await;
    let spend = async |tokens: u32| {
        let usage = json!({ "usage": { "tokens": tokens } });
        assert_eq!(server.post("/v1/budgets/llm/usage", usage).await.status, 200);
    };
    spend(850).await;
    browser.open("/budgets").await;
    browser.wait_for_text("past a soft limit").await;
    browser.wait_for("document.querySelector('.bar').classList.contains('warns')").await;
    // Both ask for more than is left. A claim meets the budget, and the budget holds them.
    for _ in 0..2 {
        let budget = json!({ "name": "llm", "reserve": { "tokens": 400 } });
        server.submit(json!({ "kind": "k", "budgets": [budget] })).await;
    }
    assert!(server.claim("i", 2).await.is_empty());
    browser.open("/budgets").await;
    browser.wait_for_text("holds 2").await;
    assert!(!browser.text().await.contains("has room"), "{}", browser.text().await);
    for (name, width) in [("budget-holds-light-1440", 1440), ("budget-holds-light-390", 390)] {
        browser.screenshot(name, width).await;
    }
    spend(150).await;
    browser.open("/budgets").await;
    browser.wait_for_text("used up, holds 2").await;
    browser.wait_for("document.querySelector('.bar').classList.contains('full')").await;
    browser.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_with_a_scope_shows_what_was_spent_without_an_execution() {
    let server = Server::start().await;
    let budget = json!({ "limits": { "minutes": { "soft": 600, "hard": 1000 } }, "scope": "lane" });
    server.configure("budgets/gpu", budget).await;
    let browser = Browser::start(&address(&server), Colours::Light).await;
    browser.open("/budgets").await;
    browser.wait_for_text("Nothing was spent yet.").await;
    server.post("/v1/budgets/gpu/usage", json!({ "usage": { "minutes": 610 } })).await;
    browser.open("/budgets").await;
    browser.wait_for_text("610 of 1000").await;
    let text = browser.text().await;
    assert!(text.contains("Without a lane") && !text.contains("Nothing was spent"), "{text}");
    // A lane that has spent all of its part holds what comes next.
    let of_lane = json!({ "kind": "k", "budgets": ["gpu"], "lane": "default" });
    let spender = server.submit(of_lane.clone()).await;
    let usage = json!({ "usage": { "minutes": 1000 }, "execution": spender });
    assert_eq!(server.post("/v1/budgets/gpu/usage", usage).await.status, 200);
    server.submit(of_lane).await;
    assert!(server.claim("i", 2).await.is_empty());
    browser.open("/budgets").await;
    browser.wait_for_text("used up, holds 2").await;
    browser.wait_for("/in 1 of\\s+1 lane/.test(document.querySelector('#list').innerText)").await;
    browser.finish().await;
}
