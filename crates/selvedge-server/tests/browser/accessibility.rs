//! axe-core finds nothing serious on any page with data, in light and in dark: contrast, names of controls, structure of tables and lists.
//!
//! Needs axe-core (`scripts/install-axe`), unless `SELVEDGE_TEST_SKIP_AXE` is set.

use crate::browser::{Browser, Colours};
use crate::support::{Server, text_of};
use crate::{PAGES, address, fill};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Leaves the test out.
const SKIP: &str = "SELVEDGE_TEST_SKIP_AXE";
/// Waits for nothing: axe-core answers with a promise, which the driver awaits. The rules are those of WCAG 2.2, level AA, and the
/// recommended practices.
const RUN: &str = "return axe.run(document, { resultTypes: ['violations'] }).then(({ violations, passes }) => ({
    passes: passes.length,
    found: violations.filter(({ impact }) => impact === 'serious' || impact === 'critical').map(({ id, impact, nodes }) =>
      `${impact} ${id}: ${nodes.slice(0, 3).map(({ html, failureSummary }) => html.slice(0, 300) + ' ' + failureSummary).join(' | ')}`),
  }))";

/// Returns the script, or none if the test is left out.
fn axe() -> Option<String> {
    if std::env::var_os(SKIP).is_some() {
        return None;
    }
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("../axe/node_modules/axe-core/axe.min.js");
    let found = std::fs::read_to_string(&path);
    Some(found.unwrap_or_else(|error| {
        panic!("{}: {error}; run scripts/install-axe, or set {SKIP}", path.display())
    }))
}

/// Returns the serious findings on the page.
async fn findings(browser: &Browser, axe: &str) -> Vec<Value> {
    browser.eval(axe).await;
    let mut answer = browser.eval(RUN).await;
    assert!(answer["passes"].as_u64() > Some(5), "axe-core has examined the page: {answer}");
    match answer["found"].take() {
        Value::Array(found) => found,
        other => panic!("axe-core lists its findings: {other}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_page_has_a_serious_barrier() {
    let Some(axe) = axe() else { return };
    let server = Server::start().await;
    let (flow, execution) = fill(&server).await;
    let waitpoint = text_of(&server.read("waitpoints?state=open").await["items"][0]["id"]);
    let (gantt, table) = (format!("{flow}?view=gantt"), format!("{flow}?view=table"));
    let (approve, failed) = (format!("/approve/{waitpoint}"), "/executions?state=failed".to_owned());
    let subjects =
        [flow, gantt, table, execution, approve, failed, "/webhooks/billing".into(), "/login".into()];
    let mut found = Vec::new();
    for colours in [Colours::Light, Colours::Dark] {
        let browser = Browser::start(&address(&server), colours).await;
        for path in PAGES.iter().map(|(_, path)| *path).chain(subjects.iter().map(String::as_str)) {
            browser.open(path).await;
            browser.wait_for("document.documentElement.classList.contains('has-script')").await;
            let is_dark = browser.eval("return matchMedia('(prefers-color-scheme: dark)').matches").await;
            assert_eq!(is_dark, json!(colours == Colours::Dark), "the browser has the colours");
            let of_page = findings(&browser, &axe).await;
            found.extend(of_page.into_iter().map(|one| format!("{path}, dark {is_dark}: {one}")));
        }
        browser.finish().await;
    }
    assert!(found.is_empty(), "{} findings:\n{}", found.len(), found.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_barrier_is_found() {
    let Some(axe) = axe() else { return };
    let server = Server::start().await;
    let browser = Browser::start(&address(&server), Colours::Light).await;
    browser.open("/executions").await;
    browser.eval("document.querySelector('main').append(document.createElement('button'))").await;
    browser.eval("document.querySelector('h1').style.color = '#dddddd'").await;
    let found = findings(&browser, &axe).await;
    for rule in ["button-name", "color-contrast"] {
        assert!(found.iter().any(|one| one.to_string().contains(rule)), "{rule} is not in {found:?}");
    }
    browser.finish().await;
}
