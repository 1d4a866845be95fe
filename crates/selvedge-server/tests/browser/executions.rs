//! The list of executions: filters in the address and as chips, pages, a selection with its dry run, and bulk jobs.

use crate::address;
use crate::browser::{Browser, Colours};
use crate::support::{Server, text_of};
use selvedge_engine::Options;
use selvedge_memory::Clock;
use serde_json::json;

/// Submits executions of these kinds, one after the other.
async fn submit(server: &Server, count: usize, lane: &str) {
    let one = |index: usize| json!({ "kind": format!("k{index}"), "lane": lane, "tags": { "number": index.to_string() } });
    let executions: Vec<_> = (0..count).map(one).collect();
    let reply = server.post("/v1/executions/batch", json!({ "executions": executions })).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn conditions_are_in_the_address_and_are_removed_one_by_one() {
    let server = Server::start().await;
    submit(&server, 3, "mail").await;
    submit(&server, 2, "batch").await;
    let claim = server.submit_and_claim().await.1;
    server.fail("i", &claim, "the printer is out of paper").await;
    let browser = Browser::start(&address(&server), Colours::Light).await;
    browser.open("/executions").await;
    browser.wait_for_text("6 match").await;
    browser.click(".pill input[value=waiting]").await;
    browser.wait_for("location.search.includes('state=waiting')").await;
    browser.wait_for_text("5 match").await;
    browser.click(".pill input[value=failed]").await;
    browser.wait_for_text("6 match").await;
    browser.set("[name=lane]", "mail").await;
    browser.set("[name=tag]", "number:1").await;
    browser.click("form[role=search] button.primary").await;
    browser.wait_for_text("1 matches").await;
    let chips = "Array.from(document.querySelectorAll('.chip .user-text')).map((chip) => chip.textContent).sort().join()";
    assert_eq!(
        browser.eval(&format!("return {chips}")).await,
        json!("failed,lane mail,tag number:1,waiting")
    );
    browser.screenshot("executions-filtered-light-1440", 1440).await;
    browser.set("[name=tag]", "number:2").await;
    browser.click("form[role=search] button.primary").await;
    browser.wait_for_text("No execution matches").await;
    browser.click("[aria-label='Remove the condition tag number:1']").await;
    browser.wait_for_text("1 matches").await;
    browser.click("[aria-label='Remove the condition tag number:2']").await;
    browser.wait_for_text("3 match").await;

    browser.open("/executions?error=paper").await;
    browser.wait_for_text("1 matches").await;
    browser.wait_for_text("Errors are searched in the last 24 hours").await;
    browser.open("/executions?submitted_before=2020-01-01T00:00").await;
    browser.wait_for_text("No execution matches").await;
    assert_eq!(browser.eval("return document.querySelector('details').open").await, json!(true));
    browser.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_lead_forward_and_back() {
    let server = Server::start().await;
    submit(&server, 120, "mail").await;
    let browser = Browser::start(&address(&server), Colours::Light).await;
    let first = "return document.querySelector('td.id a').href";
    browser.open("/executions?lane=mail").await;
    let page_1 = browser.eval(first).await;
    browser.click("[rel=next]").await;
    browser.wait_for("location.search.includes('cursor=')").await;
    let page_2 = browser.eval(first).await;
    browser.click("[rel=next]").await;
    browser.wait_for("!document.querySelector('[rel=next]')").await;
    assert_eq!(browser.eval("return document.querySelectorAll('td.id a').length").await, json!(20));
    browser.click("[rel=prev]").await;
    browser.wait_for("document.querySelector('[rel=next]')").await;
    assert_eq!(browser.eval(first).await, page_2);
    browser.click("[rel=prev]").await;
    browser.wait_for("!location.search.includes('cursor=')").await;
    assert_eq!(browser.eval(first).await, page_1);
    assert_eq!(browser.eval("return location.search").await, json!("?lane=mail"), "the filter is kept");
    browser.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_action_on_a_selection_shows_its_dry_run_first() {
    let server = Server::start().await;
    submit(&server, 3, "mail").await;
    let (id, _) = (server.submit(json!({ "kind": "gone", "lane": "mail" })).await, ());
    server.post(&format!("/v1/executions/{id}/cancel"), json!({})).await;
    let browser = Browser::start(&address(&server), Colours::Light).await;
    browser.open("/executions?lane=mail").await;
    assert_eq!(browser.eval("return document.querySelector('#selection').hidden").await, json!(true));
    browser.click("[data-every]").await;
    browser
        .wait_for("document.querySelector('#selection').innerText.includes('4 executions selected')")
        .await;
    browser.click("#selection [data-action=cancel]").await;
    browser
        .wait_for(
            "document.querySelector('[data-outlook]').innerText.includes('3 executions would be cancelled')",
        )
        .await;
    browser.screenshot("executions-dry-run-light-1440", 1440).await;
    assert_eq!(
        server.read("executions?lane=mail&state=waiting").await["items"].as_array().map(Vec::len),
        Some(3)
    );
    browser.set("#selection-dialog [name='action.reason']", "wrong batch").await;
    browser.click("#selection-dialog [data-apply]").await;
    browser
        .wait_for("!document.querySelector('dialog[open]') && document.querySelector('#selection').hidden")
        .await;
    browser
        .wait_for("(document.querySelector('#list').innerText.match(/cancelled/g) ?? []).length === 4")
        .await;

    browser.click("input[name=ids]").await;
    browser.click("#selection [data-action=replay]").await;
    browser
        .wait_for(
            "document.querySelector('[data-outlook]').innerText.includes('1 execution would be replayed')",
        )
        .await;
    browser.click("#selection-dialog [data-apply]").await;
    browser.wait_for("document.querySelector('#list').innerText.includes('waiting')").await;
    browser.click("input[name=ids]").await;
    browser.click("#selection [data-action=priority]").await;
    browser.set("#selection-dialog [name='action.priority']", "50").await;
    browser.wait_for("document.querySelector('[data-outlook]').innerText.includes('1 execution would be given another priority')").await;
    browser.click("#selection-dialog [data-apply]").await;
    browser.wait_for("!document.querySelector('dialog[open]')").await;
    let waiting = server.read("executions?state=waiting").await;
    assert_eq!(waiting["items"][0]["priority"], 50);
    browser.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_that_matches_is_changed_by_a_bulk_job_whose_progress_is_shown() {
    let server = Server::start_with(Options::default(), Clock::system()).await;
    submit(&server, 130, "mail").await;
    submit(&server, 2, "other").await;
    let browser = Browser::start(&address(&server), Colours::Light).await;
    browser.open("/executions?lane=mail").await;
    browser.click("[data-every]").await;
    browser
        .wait_for("document.querySelector('[data-widen]').innerText === 'Select all 130 that match'")
        .await;
    browser.screenshot("executions-selected-light-1440", 1440).await;
    browser.screenshot("executions-selected-light-390", 390).await;
    browser.click("[data-widen]").await;
    browser
        .wait_for("document.querySelector('#selection').innerText.includes('Selected: all 130 that match')")
        .await;
    browser.click("#selection [data-action=cancel]").await;
    browser.wait_for("document.querySelector('[data-outlook]').innerText.includes('130 executions would be cancelled')").await;
    browser.click("#selection-dialog [data-apply]").await;
    browser.wait_for("document.querySelector('#jobs').innerText.includes('130 changed')").await;
    browser.wait_for("document.querySelector('#jobs').innerText.includes('completed')").await;
    browser.screenshot("executions-job-light-1440", 1440).await;
    assert_eq!(server.read("executions?state=waiting").await["items"].as_array().map(Vec::len), Some(2));
    browser.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_follows_what_happens() {
    let server = Server::start().await;
    submit(&server, 2, "mail").await;
    let browser = Browser::start(&address(&server), Colours::Light).await;
    browser.open("/executions").await;
    browser.wait_for("document.querySelector('.live').classList.contains('on')").await;
    submit(&server, 1, "late").await;
    browser.wait_for("document.querySelector('#list').innerText.includes('late')").await;
    browser.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_stays_while_executions_are_selected() {
    let server = Server::start().await;
    submit(&server, 2, "mail").await;
    let browser = Browser::start(&address(&server), Colours::Light).await;
    browser.open("/executions?state=waiting").await;
    browser.wait_for("document.querySelector('.live').classList.contains('on')").await;
    browser.click("[data-every]").await;
    browser.wait_for_text("The list stays as it is until you clear the selection.").await;
    // The selected executions no longer match, and another one does.
    let ids = browser
        .eval("return Array.from(document.querySelectorAll('input[name=ids]'), (box) => box.value)")
        .await;
    for id in ids.as_array().into_iter().flatten() {
        server.post(&format!("/v1/executions/{}/cancel", text_of(id)), json!({})).await;
    }
    submit(&server, 1, "late").await;
    browser.wait_for("document.querySelector('.live').innerText.includes('changes wait')").await;
    let selected = "Array.from(document.querySelectorAll('input[name=ids]:checked'), (box) => box.value)";
    assert_eq!(browser.eval(&format!("return {selected}")).await, ids);
    assert_eq!(browser.eval("return document.querySelectorAll('#list tbody tr').length").await, json!(2));
    browser.screenshot("executions-held-light-1440", 1440).await;
    browser.click("[data-unselect]").await;
    browser.wait_for("document.querySelector('#list').innerText.includes('late')").await;
    browser.wait_for("document.querySelectorAll('#list tbody tr').length === 1").await;
    browser.wait_for("document.querySelector('.live').innerText === 'Live'").await;
    browser.finish().await;
}
