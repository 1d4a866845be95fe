//! Hostile text in every place where users can put text: it stays text on every page, does not widen a page, and is cut where it is long.

use crate::browser::{Browser, Colours};
use crate::support::{Server, op_with, text_of};
use crate::{PAGES, address};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

/// Text that a page must not execute: markup, the end of an attribute, an address that runs a script, and a template.
const MARKUP: &str = "<script>canary()</script>\"><img src=x onerror=canary()>' onfocus=canary() javascript:canary() {{7*7}}</title>";
/// Controls of the direction of text that are not closed: right-to-left override, embedding and isolate, and marks.
const BIDI: &str = "\u{202e}dlrow\u{202b}\u{2067}\u{200f}\u{061c}x";
/// The largest page, in bytes. A list has 50 rows.
const PAGE_MAX: usize = 1_000_000;
/// The narrowest window.
const NARROW: u32 = 320;

/// Returns a hostile name within the limit of 128 bytes: markup, or a long word with controls of direction.
fn name(number: usize) -> String {
    match number % 2 {
        0 => format!("{number}{MARKUP}"),
        _ => format!("{number}{}{BIDI}", "W".repeat(100)),
    }
}

/// Returns text with everything: markup, controls of direction, control characters and a very long word.
fn long(bytes: usize) -> String {
    format!("{MARKUP}{BIDI}\u{1}\u{8}\u{b}\u{1b}[31m\u{7f}\u{85}\u{2028}{}", "W".repeat(bytes))
}

fn path(kind: &str, name: &str) -> String {
    format!("{kind}/{}", utf8_percent_encode(name, NON_ALPHANUMERIC))
}

/// The most tags that an execution may have.
fn tags() -> Value {
    // The name of a tag has no colon.
    let tag = |number| (name(number).replace(':', "="), json!(format!("{MARKUP}{}", "V".repeat(300))));
    Value::Object((0..64).map(tag).collect())
}

/// Reports an operation that must be accepted.
async fn report(server: &Server, op: Value) -> Value {
    let answer = server.report("i", op.clone()).await;
    assert_eq!(answer["ok"], true, "{answer} {:.300}", op.to_string());
    answer
}

async fn claim(server: &Server, lane: &str) -> Value {
    let claim = json!({ "worker": name(2), "lanes": [lane], "capabilities": [name(5)], "max": 1 });
    let claims = server.post("/v1/workers/i/claim", claim).await.json();
    claims["claims"][0].clone()
}

/// Fills every place with hostile text. Returns the paths of pages that show one subject.
async fn fill(server: &Server) -> Vec<String> {
    for number in [0, 1] {
        server.configure(&path("lanes", &name(number)), json!({ "concurrency": 7 })).await;
        server.configure(&path("quotas", &name(number)), json!({ "concurrency": 1 })).await;
        let mut limits = serde_json::Map::new();
        limits.insert(name(number), json!({ "hard": 10, "soft": 1 }));
        server.configure(&path("budgets", &name(number)), json!({ "limits": limits })).await;
        let usage: Value = [(name(number), json!(10))].into_iter().collect::<serde_json::Map<_, _>>().into();
        let spent = format!("/v1/{}/usage", path("budgets", &name(number)));
        assert!(server.post(&spent, json!({ "usage": usage })).await.status < 300);
        let execution = json!({ "kind": name(number), "lane": name(number), "input": long(1000) });
        let schedule = json!({ "cron": "0 3 * * *", "submit": { "execution": execution } });
        server.configure(&path("schedules", &name(number)), schedule).await;
        let url = "https://example.com/%22%3E%3Cscript%3Ecanary()?q='onerror=canary()";
        let hook = json!({ "url": url, "types": ["flow.completed"], "paused": true });
        let created = server.put(&format!("/v1/{}", path("webhooks", &name(number))), hook).await;
        assert_eq!(created.status, 201, "{}", created.text());
    }
    server.configure(&path("lanes", &name(3)), json!({ "state": "paused" })).await;
    let mut subjects = Vec::new();
    for (number, end) in ["complete", "fail", "suspend", "run"].into_iter().enumerate() {
        let (lane, input) = (name(number % 2), json!({ name(number): long(1_000_000) }));
        let draft = json!({
            "kind": name(number), "lane": lane, "input": input, "tags": tags(), "fairness_key": name(1),
            "capabilities": [name(5)], "idempotency_key": name(number), "quotas": [name(0)], "retry": { "max_retries": 0 },
        });
        subjects.push(format!("/executions/{}", server.submit(draft.clone()).await));
        let claim = claim(server, &lane).await;
        report(server, op_with("progress", &claim, json!({ "percent": 1, "message": name(1) }))).await;
        report(server, op_with("step", &claim, json!({ "name": name(4), "result": long(200_000) }))).await;
        for (kind, data) in [("stdout", long(200_000)), ("stderr", long(10))] {
            report(server, op_with("frame", &claim, json!({ "kind": kind, "data": data }))).await;
        }
        match end {
            "complete" => {
                report(server, op_with(end, &claim, json!({ "result": { name(1): long(1_000_000) } }))).await;
            }
            "fail" => {
                report(
                    server,
                    op_with(end, &claim, json!({ "message": long(60_000), "class": "permanent" })),
                )
                .await;
            }
            "suspend" => {
                let waitpoint =
                    json!({ "name": name(1), "signals": [name(0), name(1)], "prompt": long(3500) });
                let ask = json!({ "condition": { "any": [{ "signal": name(0) }, { "signal": name(1) }] }, "waitpoints": [waitpoint] });
                let asked = report(server, op_with(end, &claim, ask)).await;
                subjects.push(format!("/approve/{}", text_of(&asked["waitpoints"][0]["id"])));
            }
            _ => {}
        }
        // Another execution waits, is held, or waits in a paused lane.
        let lane = if number == 3 { name(3) } else { lane };
        server.submit(json!({ "kind": name(number), "lane": lane, "tags": tags(), "quotas": [name(0)], "capabilities": [name(7)] })).await;
    }
    subjects.push(submit_flow(server).await);
    subjects.push(format!("/{}", path("webhooks", &name(0))));
    subjects.push(format!("/executions?lane={}", utf8_percent_encode(&name(0), NON_ALPHANUMERIC)));
    subjects
}

/// Submits a flow with hostile names whose first node fails. Returns the path of its page.
async fn submit_flow(server: &Server) -> String {
    let node = |number| json!({ "name": name(number), "kind": name(number), "lane": name(0), "retry": { "max_retries": 0 } });
    let edge = |from, to| json!({ "from": name(from), "to": name(to) });
    let flow = json!({
        "name": name(0), "tags": tags(), "nodes": (0..6).map(node).collect::<Vec<_>>(),
        "edges": [edge(0, 1), edge(0, 2), edge(1, 3), edge(2, 3), edge(3, 4), edge(3, 5)],
    });
    let id = text_of(&server.submit_flow(flow).await["flow"]["id"]);
    let claim = claim(server, &name(0)).await;
    report(server, op_with("fail", &claim, json!({ "message": long(1000), "class": "permanent" }))).await;
    format!("/flows/{id}")
}

/// Lists what a page must not have: elements and attributes that only markup of users would add, addresses that run a script, and
/// controls of direction outside of isolated text.
const FOREIGN: &str = "
    const found = [];
    for (const element of document.querySelectorAll('img, iframe, object, embed, style, base, meta[http-equiv]')) found.push(element.outerHTML);
    for (const script of document.querySelectorAll('script')) {
      if (script.text || !script.src.startsWith(location.origin + '/assets/')) found.push(script.outerHTML);
    }
    for (const element of document.querySelectorAll('*')) {
      for (const attribute of element.attributes) {
        if (/^on/i.test(attribute.name) || /^\\s*javascript:/i.test(attribute.value)) found.push(`${element.tagName} ${attribute.name}`);
      }
    }
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      const { data, parentElement } = texts.currentNode;
      if (!/[\\u202a-\\u202e\\u2066-\\u2069]/.test(data) || parentElement.closest('svg, option, title')) continue;
      // A sentence of ours that quotes users has no such controls.
      const isolates = /isolate|plaintext/.test(getComputedStyle(parentElement).unicodeBidi);
      if (!isolates || parentElement.closest('.explain')) found.push(`not isolated: ${parentElement.outerHTML.slice(0, 300)}`);
    }
    return found";

/// Lists the elements that reach over the right edge of the window.
const TOO_WIDE: &str = "
    const wide = Array.from(document.querySelectorAll('body *')).filter((element) =>
      element.getBoundingClientRect().right > innerWidth + 1 && !element.closest('.table, .timeline, .graph, .tabs, .side, pre, dialog'));
    return wide.slice(0, 5).map((element) => element.outerHTML.slice(0, 200))";

#[tokio::test(flavor = "multi_thread")]
async fn hostile_text_stays_text_on_every_page() {
    let server = Server::start().await;
    let subjects = fill(&server).await;
    let mut paths: Vec<String> = PAGES.iter().map(|(_, path)| (*path).to_owned()).chain(subjects).collect();
    let flow = paths.iter().find(|path| path.starts_with("/flows/")).cloned().expect("there is a flow");
    paths.extend(["gantt", "table"].map(|view| format!("{flow}?view={view}")));
    let browser = Browser::start(&address(&server), Colours::Light).await;
    browser.resize(NARROW, 800).await;
    let (mut shows_markup, mut found) = (0, Vec::new());
    for path in &paths {
        let size = server.get(path).await.text().len();
        if size > PAGE_MAX {
            found.push(format!("{path} has {size} bytes"));
        }
        browser.open(path).await;
        browser.wait_for("document.documentElement.classList.contains('has-script')").await;
        let foreign = browser.eval(FOREIGN).await;
        if foreign != json!([]) {
            found.push(format!("{path} has {foreign}"));
        }
        if browser.overflows().await {
            found.push(format!("{path} is wider than the window: {}", browser.eval(TOO_WIDE).await));
        }
        shows_markup += usize::from(browser.text().await.contains("<script>canary()</script>"));
    }
    assert!(found.is_empty(), "{} findings:\n{}", found.len(), found.join("\n"));
    assert!(shows_markup > paths.len() / 2, "{shows_markup} of {} pages show the text", paths.len());
    browser.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_text_stays_text_in_live_regions_and_messages() {
    let server = Server::start().await;
    let browser = Browser::start(&address(&server), Colours::Light).await;
    for path in ["/", "/executions", "/events"] {
        browser.open(path).await;
        browser.wait_for("document.querySelector('.live').classList.contains('on')").await;
        server.submit(json!({ "kind": name(0), "lane": name(0), "tags": tags() })).await;
        let shown = "document.querySelector('main').innerText";
        let wanted = if path == "/events" { "execution.submitted" } else { "<script>canary()" };
        browser.wait_for(&format!("{shown}.includes('{wanted}')")).await;
        assert_eq!(browser.eval(FOREIGN).await, json!([]), "{path}");
    }
    browser.finish().await;
}
