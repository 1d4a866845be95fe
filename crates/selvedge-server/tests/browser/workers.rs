//! Workers: the leases that they hold, drain, and the reason of an end.

use crate::address;
use crate::browser::{Browser, Colours};
use crate::limits::confirm;
use crate::support::Server;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn workers_show_what_they_hold_are_drained_and_end_with_a_reason() {
    let server = Server::start().await;
    let id = server.submit(json!({ "kind": "render", "lane": "images" })).await;
    let body =
        json!({ "worker": "painter", "lanes": ["images", "video"], "capabilities": ["gpu"], "max": 1 });
    let claimed = server.post("/v1/workers/painter-1/claim", body).await.json();
    assert_eq!(claimed["claims"].as_array().map(Vec::len), Some(1));
    server.claim("clerk-1", 1).await;
    let browser = Browser::start(&address(&server), Colours::Light).await;
    browser.open("/workers").await;
    browser.wait_for(&format!("document.querySelector('#live a[href=\"/executions/{id}\"]')")).await;
    for text in ["painter-1", "gpu", "images, video", "leases of 30 s"] {
        browser.wait_for_text(text).await;
    }
    browser.click("form[data-call$='/painter-1/drain'] button").await;
    confirm(&browser).await;
    browser.wait_for("document.querySelector('#live').innerText.includes('draining')").await;
    assert_eq!(server.delete("/v1/workers/clerk-1").await.status, 200);
    browser.open("/workers").await;
    browser.wait_for("document.querySelector('#ended').innerText.includes('It said that it goes')").await;
    browser.screenshot("workers-ended-light-1440", 1440).await;
    browser.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_keep_their_order_whoever_was_seen_last() {
    let server = Server::start().await;
    let claim = async |worker: &str, instance: &str| {
        let body = json!({ "worker": worker, "lanes": ["default"], "max": 1 });
        assert_eq!(server.post(&format!("/v1/workers/{instance}/claim"), body).await.status, 200);
    };
    let browser = Browser::start(&address(&server), Colours::Light).await;
    for last in [("painter", "b"), ("clerk", "z"), ("painter", "a")] {
        for (worker, instance) in [("painter", "a"), ("clerk", "z"), ("painter", "b"), last] {
            claim(worker, instance).await;
        }
        browser.open("/workers").await;
        let instances =
            "Array.from(document.querySelectorAll('#live tbody td.id'), (cell) => cell.innerText)";
        assert_eq!(
            browser.eval(&format!("return {instances}")).await,
            json!(["z", "a", "b"]),
            "after {last:?}"
        );
    }
    browser.finish().await;
}
