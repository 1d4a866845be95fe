//! Webhooks: their API, and deliveries to receivers that work, fail, or attack.

mod addresses;
mod api;
mod deliveries;
mod hostile;
mod receiver;
mod retries;

use crate::support::{Server, within};
use receiver::{Answer, Receiver};
use selvedge_engine::Options;
use selvedge_memory::Clock;
use selvedge_server::{RetryPolicy, WebhookOptions};
use serde_json::{Value, json};
use std::time::Duration;

/// Options for receivers on loopback, with short pauses between attempts.
fn quick() -> WebhookOptions {
    WebhookOptions {
        allow_private: true,
        timeout: Duration::from_secs(5),
        retry: RetryPolicy { first_ms: 20, max_ms: 100, give_up_ms: 3_600_000, pause_ms: 3_600_000 },
        ..WebhookOptions::default()
    }
}

/// Starts a server without reconcilers.
async fn start(webhooks: WebhookOptions) -> Server {
    start_engine(Options { reconcilers: false, ..Options::default() }, webhooks).await
}

async fn start_engine(options: Options, webhooks: WebhookOptions) -> Server {
    let serving = selvedge_server::Options { webhooks, ..selvedge_server::Options::default() };
    Server::start_serving(options, Clock::system(), serving).await
}

/// Creates a webhook for these event types. Returns its secret.
async fn create(server: &Server, name: &str, url: &str, types: &[&str]) -> String {
    let reply = server.put(&format!("/v1/webhooks/{name}"), json!({ "url": url, "types": types })).await;
    assert_eq!(reply.status, 201, "{}", reply.text());
    reply.json()["secret"].as_str().expect("a new webhook has a secret").to_owned()
}

/// Waits until a webhook shows what is expected.
async fn wait_for(server: &Server, name: &str, expected: impl Fn(&Value) -> bool) -> Value {
    let path = format!("webhooks/{name}");
    within(async {
        loop {
            let webhook = server.read(&path).await;
            if expected(&webhook) {
                return webhook;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
}

/// Returns the deliveries of a webhook, newest first.
async fn deliveries(server: &Server, name: &str, state: &str) -> Vec<Value> {
    let page = server.read(&format!("webhooks/{name}/deliveries?state={state}&limit=500")).await;
    page["items"].as_array().expect("a page has items").clone()
}
