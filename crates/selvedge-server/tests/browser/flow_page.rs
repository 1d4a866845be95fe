//! The page of a flow: its past, its critical path, its joins, and the replay of a node.

use crate::browser::{Browser, Colours};
use crate::support::{Server, text_of};
use crate::{address, submit_diamond};
use serde_json::{Value, json};

/// The right arrow, the left arrow and the home key in the WebDriver protocol.
const RIGHT: &str = "\u{E014}";
const LEFT: &str = "\u{E012}";
const HOME: &str = "\u{E011}";

/// Completes the next execution.
async fn complete_one(server: &Server) {
    let claim = server.claim_one("i").await;
    server.complete("i", &claim, json!(null)).await;
}

/// Submits a flow with a hedge, a quorum and a failure that a node handles, and runs it up to the quorum.
async fn submit_showcase(server: &Server) -> String {
    let node = |name: &str| json!({ "name": name, "kind": name });
    let edge = |from: &str, to: &str| json!({ "from": from, "to": to });
    let flow = json!({
        "name": "showcase",
        "nodes": [node("near"), node("far"), node("fetched"), node("red"), node("green"), node("blue"), node("merged"), node("print"), node("shipped")],
        "edges": [edge("near", "fetched"), edge("far", "fetched"), edge("fetched", "red"), edge("fetched", "green"), edge("fetched", "blue"),
                  edge("red", "merged"), edge("green", "merged"), edge("blue", "merged"), edge("merged", "print"), edge("print", "shipped")],
        "groups": [{ "node": "fetched", "policy": { "type": "any_of" } }, { "node": "merged", "policy": { "type": "quorum", "k": 2, "on_satisfied": "let_run" } }],
    });
    text_of(&server.submit_flow(flow).await["flow"]["id"])
}

async fn complete_kind(server: &Server, kind: &str) {
    let claim = claim_kind(server, kind).await;
    server.complete("i", &claim, json!(null)).await;
}

async fn claim_kind(server: &Server, kind: &str) -> Value {
    let body = json!({ "worker": "w", "lanes": ["default"], "kinds": [kind], "max": 1, "wait_ms": 20_000 });
    let claims = server.post("/v1/workers/i/claim", body).await.json();
    claims["claims"][0].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_graph_of_a_flow_is_shown_at_any_past_moment() {
    let server = Server::start().await;
    let flow = submit_diamond(&server).await;
    for _ in 0..3 {
        complete_one(&server).await;
    }
    let browser = Browser::start(&address(&server), Colours::Light).await;
    browser.open(&format!("/flows/{flow}")).await;
    browser.wait_for("document.querySelectorAll('svg.selvedge-graph g.completed .box').length === 3").await;
    browser.wait_for("document.querySelector('#moment').innerText.startsWith('Now')").await;
    let steps = browser.eval("return Number(document.querySelector('[data-scrubber] input').max)").await;
    assert!(
        steps.as_u64().is_some_and(|steps| steps >= 6),
        "submitted, and three claims and completions: {steps}"
    );
    // The keyboard moves to the first change, then to the next one.
    browser.eval("document.querySelector('[data-scrubber] input').focus()").await;
    browser.press(HOME).await;
    browser.wait_for("document.querySelectorAll('svg.selvedge-graph g.waiting .box').length === 1").await;
    browser
        .wait_for("document.querySelectorAll('svg.selvedge-graph g.waiting_dependencies .box').length === 3")
        .await;
    browser.wait_for("document.querySelectorAll('svg.selvedge-graph .edge.pending').length === 4").await;
    browser.wait_for("document.querySelector('#moment').innerText.startsWith('Change 1 of')").await;
    browser.press(RIGHT).await;
    browser.wait_for("document.querySelectorAll('svg.selvedge-graph g.active .box').length === 1").await;
    browser.wait_for("document.querySelector('#moment').innerText.includes('begin started')").await;
    browser.press(RIGHT).await;
    browser.wait_for("document.querySelectorAll('svg.selvedge-graph g.completed .box').length === 1").await;
    browser.wait_for("document.querySelectorAll('svg.selvedge-graph .edge.holds').length === 2").await;
    // Live updates pause.
    complete_one(&server).await;
    browser.wait_for("location.search.startsWith('?at=')").await;
    let shared = browser.eval("return location.pathname + location.search").await;
    browser.press(LEFT).await;
    browser.wait_for("document.querySelectorAll('svg.selvedge-graph g.active .box').length === 1").await;
    browser.click("[data-now]").await;
    browser.wait_for("document.querySelectorAll('svg.selvedge-graph g.completed .box').length === 4").await;
    browser
        .wait_for("location.search === '' && document.querySelector('.live').classList.contains('on')")
        .await;
    // The address of a moment can be sent.
    browser.open(shared.as_str().expect("an address")).await;
    browser.wait_for("document.querySelectorAll('svg.selvedge-graph g.completed .box').length === 1").await;
    browser.screenshot("flow-past-light-1440", 1440).await;
    browser.screenshot("flow-past-light-390", 390).await;
    // Play ends at the last change.
    browser.click("[data-play]").await;
    browser.wait_for("document.querySelectorAll('svg.selvedge-graph g.completed .box').length === 4").await;
    browser.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_cursor_leads_to_its_moment_without_script() {
    let server = Server::start().await;
    let flow = submit_diamond(&server).await;
    complete_one(&server).await;
    let events = server.get(&format!("/v1/events?flow={flow}&types=execution.completed")).await.json();
    let cursor = text_of(&events["items"][0]["cursor"]);
    for (query, completed) in
        [(format!("at={cursor}"), 1), ("step=0".into(), 0), ("at=2020-01-01T00:00:00Z".into(), 0)]
    {
        let browser = Browser::start(&address(&server), Colours::Light).await;
        browser.open(&format!("/flows/{flow}?{query}")).await;
        let count = browser
            .eval("return document.querySelectorAll('svg.selvedge-graph g.completed .box').length")
            .await;
        assert_eq!(count, json!(completed), "{query}");
        browser.finish().await;
    }
    let refused = server.get(&format!("/flows/{flow}?at=nonsense")).await;
    assert_eq!(refused.status, 400, "{}", refused.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flow_shows_its_critical_path_and_its_joins_with_counters() {
    let server = Server::start().await;
    let flow = submit_showcase(&server).await;
    for kind in ["near", "fetched", "red"] {
        complete_kind(&server, kind).await;
    }
    let browser = Browser::start(&address(&server), Colours::Light).await;
    browser.open(&format!("/flows/{flow}")).await;
    browser
        .wait_for(
            "document.querySelector('svg.selvedge-graph').textContent.includes('quorum 2 of 3 · 1 holds')",
        )
        .await;
    browser.wait_for("document.querySelector('svg.selvedge-graph').textContent.includes('any of 2 · 1 holds · 1 dead')").await;
    browser.wait_for("document.querySelector('.live').classList.contains('on')").await;
    complete_kind(&server, "green").await;
    browser
        .wait_for(
            "document.querySelector('svg.selvedge-graph').textContent.includes('quorum 2 of 3 · 2 hold')",
        )
        .await;
    complete_kind(&server, "merged").await;
    complete_kind(&server, "print").await;
    complete_kind(&server, "shipped").await;
    complete_kind(&server, "blue").await;
    browser.wait_for("document.querySelector('#facts').innerText.includes('completed')").await;
    let on_path = "Array.from(document.querySelectorAll('svg.selvedge-graph a:has(.flag)'), (box) => box.dataset.name).join(' ')";
    browser.wait_for(&format!("{on_path} === 'near fetched blue'")).await;
    assert!(browser.text().await.contains("critical path"), "the legend says it in words");
    browser.screenshot("flow-joins-light-1440", 1440).await;
    browser.screenshot("flow-joins-light-390", 390).await;
    browser.open(&format!("/flows/{flow}?view=gantt")).await;
    let critical = browser.eval("return document.querySelectorAll('.timeline a.critical').length").await;
    assert_eq!(critical, json!(3));
    assert!(browser.text().await.contains("◆ near"), "in words, too");
    browser.screenshot("flow-gantt-critical-light-1440", 1440).await;
    browser.finish().await;
    let browser = Browser::start(&address(&server), Colours::Dark).await;
    browser.open(&format!("/flows/{flow}")).await;
    browser.screenshot("flow-joins-dark-1440", 1440).await;
    browser.screenshot("flow-joins-dark-390", 390).await;
    browser.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_node_is_replayed_from_the_page_of_its_flow_after_a_preview() {
    let server = Server::start().await;
    let flow = submit_showcase(&server).await;
    for kind in ["near", "fetched", "red", "green", "blue", "merged"] {
        complete_kind(&server, kind).await;
    }
    let claim = claim_kind(&server, "print").await;
    server.fail("i", &claim, "out of paper").await;
    let browser = Browser::start(&address(&server), Colours::Light).await;
    browser.open(&format!("/flows/{flow}")).await;
    browser.wait_for("document.querySelectorAll('svg.selvedge-graph g.skipped .box').length === 1").await;
    browser.click("[data-opens=replay-dialog]").await;
    browser.click("#replay-dialog [data-preview]").await;
    browser
        .wait_for("document.querySelector('#replay-dialog .message')?.innerText.includes('reopen shipped')")
        .await;
    browser.wait_for("document.querySelectorAll('.would-reopen').length === 2").await;
    browser.screenshot("flow-replay-light-1440", 1440).await;
    browser.click("#replay-dialog button.primary").await;
    browser.wait_for("document.querySelectorAll('svg.selvedge-graph g.waiting .box').length === 1").await;
    browser.wait_for("document.querySelector('#facts').innerText.includes('running')").await;
    browser.click("[data-opens=cancel-dialog]").await;
    browser.click("#cancel-dialog button.danger").await;
    browser.wait_for("document.querySelector('#facts').innerText.includes('cancelled')").await;
    browser.finish().await;
}
