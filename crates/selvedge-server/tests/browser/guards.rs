//! The checks at the end of each test can fail: on a broken policy, on executed text of a user, and on a request to another place.

use crate::address;
use crate::browser::{Browser, Colours};
use crate::support::Server;

/// Opens a page, runs a script in it, and returns whether the end of the test fails.
async fn fails_after(script: &str) -> bool {
    let server = Server::start().await;
    let browser = Browser::start(&address(&server), Colours::Light).await;
    browser.open("/executions").await;
    browser.eval(script).await;
    tokio::spawn(browser.finish()).await.is_err()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_breaks_nothing_passes() {
    assert!(!fails_after("return document.title").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_inline_script_fails_the_test() {
    let script =
        "const script = document.createElement('script'); script.text = '1'; document.body.append(script)";
    assert!(fails_after(script).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn executed_text_of_a_user_fails_the_test() {
    assert!(fails_after("canary()").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_to_another_place_fails_the_test() {
    let other = Server::start().await;
    assert!(fails_after(&format!("location.assign('{}/healthz')", address(&other))).await);
}
