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
