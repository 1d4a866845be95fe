//! The web pages in a real browser: every page with data and empty, live changes without a reload, actions, keys, sizes and colours.
//! Each test ends by checking that no page broke its content security policy and that no request left the server.
//!
//! Needs Debian's `chromium` and `chromium-driver` (`scripts/install-packages`). Saves pictures in `target/screenshots`.

mod accessibility;
mod approvals;
mod browser;
#[path = "../stores/directory.rs"]
#[allow(dead_code)]
mod directory;
mod driver;
mod ends;
mod errors;
mod events;
mod execution_page;
mod executions;
mod flow_page;
mod guards;
mod hostile;
mod large_flow;
mod limits;
mod schedules;
mod settings;
mod sign_in;
mod submit_again;
#[path = "../http/support/mod.rs"]
#[allow(dead_code, unused_imports)]
mod support;
mod webhooks;
mod without_script;
mod workers;

use browser::{Browser, Colours};
use serde_json::json;
use support::{Server, op_with, text_of};

/// The pages without parameters.
const PAGES: [(&str, &str); 15] = [
    ("overview", "/"),
    ("executions", "/executions"),
    ("flows", "/flows"),
    ("approvals", "/approvals"),
    ("workers", "/workers"),
    ("lanes", "/lanes"),
    ("budgets", "/budgets"),
    ("schedules", "/schedules"),
    ("events", "/events"),
    ("webhooks", "/webhooks"),
    ("settings", "/settings"),
    ("settings-keys", "/settings?show=keys"),
    ("settings-namespaces", "/settings?show=namespaces"),
    ("settings-configuration", "/settings?show=configuration"),
    ("reference", "/docs"),
];

fn address(server: &Server) -> String {
    format!("http://{}", server.address)
}

/// Submits a flow of four nodes in a diamond. Returns its id.
async fn submit_diamond(server: &Server) -> String {
    let node = |name: &str| json!({ "name": name, "kind": "k" });
    let edge = |from: &str, to: &str| json!({ "from": from, "to": to });
    let flow = json!({
        "name": "diamond",
        "nodes": [node("begin"), node("left"), node("right"), node("end")],
        "edges": [edge("begin", "left"), edge("begin", "right"), edge("left", "end"), edge("right", "end")],
    });
    text_of(&server.submit_flow(flow).await["flow"]["id"])
}

/// Puts something on every page. Returns the paths of a flow and of an execution that waits for an answer.
async fn fill(server: &Server) -> (String, String) {
    server
        .configure("lanes/mail", json!({ "concurrency": 4, "rate": { "count": 9, "window_ms": 60_000 } }))
        .await;
    server.configure("lanes/batch", json!({ "state": "paused" })).await;
    server.configure("quotas/smtp", json!({ "concurrency": 2 })).await;
    let limits = json!({ "tokens": { "hard": 1000, "soft": 800 }, "usd": { "hard": 20 } });
    server.configure("budgets/model", json!({ "limits": limits, "period_ms": 3_600_000 })).await;
    server.post("/v1/budgets/model/usage", json!({ "usage": { "tokens": 640, "usd": 20 } })).await;
    let nightly = json!({ "cron": "0 3 * * *", "time_zone": "Europe/Berlin", "submit": { "execution": { "kind": "report" } } });
    server.configure("schedules/nightly", nightly).await;
    let hook = json!({ "url": "https://example.com/hook", "types": ["flow.completed"] });
    assert_eq!(server.put("/v1/webhooks/billing", hook).await.status, 201);
    let review = json!({ "kind": "review", "input": { "order": 4711, "note": "<script>alert(1)</script>" }, "tags": { "customer": "acme" } });
    let execution = server.submit(review).await;
    let claim = server.claim("desk-1", 1).await.remove(0);
    for op in [
        op_with("progress", &claim, json!({ "percent": 40, "message": "reading the order" })),
        op_with("step", &claim, json!({ "name": "check stock", "result": { "in_stock": true } })),
        op_with("frame", &claim, json!({ "kind": "stdout", "data": "reading order 4711" })),
    ] {
        assert_eq!(server.report("desk-1", op).await["ok"], true);
    }
    let ask = json!({
        "condition": { "any": [{ "signal": "approve" }, { "signal": "reject" }] },
        "waitpoints": [{ "name": "approve", "signals": ["approve", "reject"], "prompt": "Ship order 4711 to acme?" }],
    });
    server.suspend("desk-1", &claim, ask).await;
    for index in 0..6 {
        server.submit(json!({ "kind": "send", "lane": "mail", "quotas": ["smtp"], "tags": { "number": index.to_string() } })).await;
        server.submit(json!({ "kind": "import", "lane": "batch" })).await;
    }
    let flow = submit_diamond(server).await;
    let begin = server.claim("desk-1", 1).await.remove(0);
    server.complete("desk-1", &begin, json!({ "rows": 3 })).await;
    let left = server.claim("desk-1", 1).await.remove(0);
    server.fail("desk-1", &left, "the printer is out of paper").await;
    (format!("/flows/{flow}"), format!("/executions/{execution}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_is_shown_empty() {
    let server = Server::start().await;
    let browser = Browser::start(&address(&server), Colours::Light).await;
    for (_, path) in PAGES {
        browser.open(path).await;
        browser.wait_for("document.documentElement.classList.contains('has-script')").await;
        assert!(browser.eval("return document.querySelectorAll('h1').length").await == json!(1), "{path}");
    }
    browser.open("/").await;
    browser.screenshot("overview-empty", 1280).await;
    browser.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_is_shown_with_data_in_both_colours_and_all_widths() {
    let server = Server::start().await;
    let (flow, execution) = fill(&server).await;
    let (gantt, table) = (format!("{flow}?view=gantt"), format!("{flow}?view=table"));
    let of_subjects =
        [("flow", flow.as_str()), ("flow-gantt", &gantt), ("flow-table", &table), ("execution", &execution)];
    let of_names = [("schedule", "/schedules/nightly"), ("webhook", "/webhooks/billing")];
    for (colours, word) in [(Colours::Light, "light"), (Colours::Dark, "dark")] {
        let browser = Browser::start(&address(&server), colours).await;
        for (name, path) in PAGES.into_iter().chain(of_subjects).chain(of_names) {
            browser.open(path).await;
            for width in [1440, 390] {
                browser.screenshot(&format!("{name}-{word}-{width}"), width).await;
            }
            for width in [2560, 320] {
                browser.resize(width, 900).await;
                assert!(!browser.overflows().await, "{path} is wider than {width} pixels");
            }
            assert!(!browser.text().await.is_empty(), "{path}");
        }
        browser.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_graph_of_a_flow_changes_without_a_reload() {
    let server = Server::start().await;
    let flow = submit_diamond(&server).await;
    let browser = Browser::start(&address(&server), Colours::Light).await;
    browser.open(&format!("/flows/{flow}")).await;
    browser.wait_for("document.querySelectorAll('.selvedge-graph a').length === 4").await;
    browser.eval("window.stays = true").await;
    browser.wait_for("document.querySelector('.live').classList.contains('on')").await;
    for _ in 0..2 {
        let claim = server.claim_one("i").await;
        server.complete("i", &claim, json!(null)).await;
    }
    browser.wait_for("document.querySelectorAll('.selvedge-graph g.completed .box').length === 2").await;
    browser.wait_for("document.querySelectorAll('.selvedge-graph g.waiting .box').length === 1").await;
    browser.eval("document.querySelector('[data-zoom=in]').click()").await;
    let zoomed =
        browser.eval("return document.querySelector('.selvedge-graph').getAttribute('viewBox')").await;
    for _ in 0..2 {
        let claim = server.claim_one("i").await;
        server.complete("i", &claim, json!(null)).await;
    }
    browser.wait_for("document.querySelectorAll('.selvedge-graph g.completed .box').length === 4").await;
    browser.wait_for("document.querySelector('#facts').innerText.includes('completed')").await;
    let kept = browser.eval("return document.querySelector('.selvedge-graph').getAttribute('viewBox')").await;
    assert_eq!(kept, zoomed, "pan and zoom are kept");
    assert_eq!(browser.eval("return window.stays").await, json!(true), "the page was not loaded again");
    browser.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn buttons_call_the_api() {
    let server = Server::start().await;
    let (_, execution) = fill(&server).await;
    let browser = Browser::start(&address(&server), Colours::Light).await;
    browser.open("/approvals").await;
    browser.click("form[data-call] button[value=approve]").await;
    limits::confirm(&browser).await;
    browser.wait_for("document.body.innerText.includes('Nothing waits for an answer')").await;
    browser.open(&execution).await;
    browser.wait_for("document.querySelector('#facts').innerText.includes('waiting')").await;
    browser.click("[data-opens=cancel-dialog]").await;
    browser.click("#cancel-dialog button.danger").await;
    browser.wait_for("document.querySelector('#facts').innerText.includes('cancelled')").await;
    browser.open("/lanes").await;
    browser.click("form[data-call$='/lanes/batch/resume'] button").await;
    browser.wait_for("!document.body.innerText.includes('paused')").await;
    browser.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approver_answers_from_a_link_with_a_token() {
    let server = Server::start().await;
    let (id, claim) = server.submit_and_claim().await;
    let ask = json!({ "condition": { "signal": "agree" }, "waitpoints": [{ "name": "agree", "prompt": "Go on?" }] });
    let suspended = server.suspend("i", &claim, ask).await;
    let waitpoint = &suspended["waitpoints"][0];
    let browser = Browser::start(&address(&server), Colours::Light).await;
    browser.open(&format!("/approve/{}#{}", text_of(&waitpoint["id"]), text_of(&waitpoint["token"]))).await;
    browser.wait_for("document.querySelector('h1').innerText === 'Go on?'").await;
    assert_eq!(browser.eval("return location.hash").await, json!(""), "the token is not in the address");
    browser.screenshot("approve-light-390", 390).await;
    browser.click("button[name=signal]").await;
    limits::confirm(&browser).await;
    browser.wait_for_text("Your answer “Agree” was delivered").await;
    server.wait_for_state(&id, "waiting").await;
    browser.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_appear_as_they_happen() {
    let server = Server::start().await;
    let browser = Browser::start(&address(&server), Colours::Light).await;
    browser.open("/events").await;
    browser.wait_for("document.querySelector('.live').classList.contains('on')").await;
    server.submit(json!({ "kind": "<b>bold</b>" })).await;
    browser.wait_for("document.querySelector('[data-tail]').innerText.includes('execution.submitted')").await;
    browser.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pages_are_used_with_the_keyboard() {
    let server = Server::start().await;
    fill(&server).await;
    let browser = Browser::start(&address(&server), Colours::Light).await;
    browser.open("/").await;
    browser.press("ge").await;
    browser.wait_for("location.pathname === '/executions'").await;
    browser.press("/").await;
    browser.wait_for("document.activeElement.name === 'lane'").await;
    browser.press("mail\n").await;
    browser.wait_for("location.search.includes('lane=mail')").await;
    browser.wait_for("document.body.innerText.includes('6 match')").await;
    browser.open("/").await;
    browser.press("?").await;
    browser.wait_for("document.querySelector('#keys').open").await;
    browser.finish().await;
}
