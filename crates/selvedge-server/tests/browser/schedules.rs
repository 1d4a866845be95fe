//! Schedules: created, changed, paused, run at once and deleted, with their next times.

use crate::address;
use crate::browser::{Browser, Colours};
use crate::limits::{confirm, open_dialog, save};
use crate::support::Server;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_is_created_changed_run_paused_and_deleted() {
    let server = Server::start().await;
    let browser = Browser::start(&address(&server), Colours::Light).await;
    browser.open("/schedules").await;
    open_dialog(&browser, "new schedule-dialog").await;
    browser.set("dialog[open] [name=name]", "nightly").await;
    browser.set("dialog[open] [name=cron]", "0 25 * * *").await;
    browser.set("dialog[open] [name=time_zone]", "Europe/Berlin").await;
    browser
        .set("dialog[open] [name=submit]", "{\"execution\": {\"kind\": \"report\", \"input\": 1.50}}")
        .await;
    browser.click("dialog[open] button.primary").await;
    browser.wait_for("document.querySelector('dialog[open] [name=cron]').getAttribute('aria-invalid')").await;
    browser.screenshot("schedule-dialog-light-1440", 1440).await;
    browser.set("dialog[open] [name=cron]", "30 3 * * 1-5").await;
    browser.set("dialog[open] [name=overlap]", "skip").await;
    save(&browser).await;
    browser.wait_for("document.querySelector('#list').innerText.includes('30 3 * * 1-5')").await;
    let schedule = server.get("/v1/schedules/nightly").await;
    assert!(schedule.text().contains("1.50"), "the submission is sent as it was typed: {}", schedule.text());
    assert_eq!(schedule.json()["overlap"], "skip");

    browser.click("#list a[href='/schedules/nightly']").await;
    browser.wait_for("document.querySelectorAll('#next tbody tr').length === 10").await;
    browser.wait_for("document.querySelector('#next').innerText.includes('03:30')").await;
    browser.click("form[data-call$='/nightly/run'] button").await;
    browser.wait_for("document.querySelector('#runs').innerText.includes('a person')").await;
    browser.screenshot("schedule-run-light-1440", 1440).await;
    assert_eq!(server.read("executions").await["items"][0]["kind"], "report");

    browser.click("#actions form[data-call='PATCH /v1/schedules/nightly'] button").await;
    browser.wait_for("document.querySelector('#facts').innerText.includes('paused')").await;
    browser.wait_for("document.querySelector('#next').innerText.includes('No time fires')").await;
    assert_eq!(server.read("schedules/nightly").await["paused"], true);
    browser.click("#actions form[data-call='PATCH /v1/schedules/nightly'] button").await;
    browser.wait_for("document.querySelector('#facts').innerText.includes('active')").await;

    open_dialog(&browser, "schedule-dialog nightly").await;
    browser.set("dialog[open] [data-switch]", "interval").await;
    browser.set("dialog[open] [name=interval_ms]", "15min").await;
    browser.set("dialog[open] [name=catch_up]", "one").await;
    save(&browser).await;
    browser.wait_for("document.querySelector('#facts').innerText.includes('every 15 min')").await;
    let schedule = server.read("schedules/nightly").await;
    assert_eq!((&schedule["cron"], &schedule["interval_ms"]), (&json!(null), &json!(900_000)));
    assert_eq!(schedule["catch_up"], "one");

    open_dialog(&browser, "schedule-dialog nightly").await;
    browser.click("dialog[open] [data-for=remove]").await;
    confirm(&browser).await;
    browser.wait_for("location.pathname === '/schedules'").await;
    browser.wait_for_text("No schedules").await;
    browser.finish_after(&[404, 422]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_times_of_a_schedule_have_their_minutes() {
    let server = Server::start().await;
    let hourly = json!({ "cron": "0 2 * * *", "submit": { "execution": { "kind": "report" } } });
    server.configure("schedules/nightly", hourly).await;
    let browser = Browser::start(&address(&server), Colours::Light).await;
    browser.open("/schedules/nightly").await;
    let cells =
        "Array.from(document.querySelectorAll('#next tbody td:nth-child(2)'), (cell) => cell.innerText)";
    browser
        .wait_for(&format!("{cells}.length === 10 && {cells}.every((text) => / 02:00$/.test(text))"))
        .await;
    browser.finish().await;
}
