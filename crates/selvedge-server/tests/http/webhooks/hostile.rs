//! Receivers that hang, answer too much, redirect, close early, or do not speak HTTP.

use super::{Answer, Receiver, create, deliveries, quick, start, wait_for};
use selvedge_server::WebhookOptions;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

/// Delivers one event to a receiver that behaves so, and returns the delivery once it has failed or succeeded.
async fn deliver_to(url: &str) -> Value {
    deliver_within(Duration::from_secs(20), url).await
}

async fn deliver_within(timeout: Duration, url: &str) -> Value {
    let server = start(WebhookOptions { timeout, ..quick() }).await;
    create(&server, "w", url, &["execution.submitted"]).await;
    server.submit(json!({ "kind": "k" })).await;
    let tried = |webhook: &Value| webhook["delivered"] == 1 || webhook["failing_since_at"].is_string();
    let webhook = wait_for(&server, "w", tried).await;
    let state = if webhook["delivered"] == 1 { "delivered" } else { "pending" };
    deliveries(&server, "w", state).await.remove(0)
}

#[tokio::test]
async fn a_receiver_that_hangs_fails_after_the_time_limit() {
    let receiver = Receiver::answering(|_, _| Answer::Hang).await;
    let delivery = deliver_within(Duration::from_millis(500), &receiver.url()).await;
    assert_eq!(
        (&delivery["state"], &delivery["error"]),
        (&json!("pending"), &json!("no response within 500 ms"))
    );
    assert_eq!(delivery["status"], json!(null));
}

#[tokio::test]
async fn a_response_of_10_megabytes_is_not_read_to_its_end() {
    let receiver = Receiver::answering(|_, _| Answer::Huge).await;
    let delivery = deliver_to(&receiver.url()).await;
    assert_eq!((&delivery["state"], &delivery["status"]), (&json!("delivered"), &json!(200)));
}

#[tokio::test]
async fn a_redirect_is_a_failure_and_is_not_followed() {
    let target = Receiver::start().await;
    let receiver = {
        let url = target.url();
        Receiver::answering(move |_, _| Answer::Redirect(url.clone())).await
    };
    let delivery = deliver_to(&receiver.url()).await;
    assert_eq!((&delivery["state"], &delivery["status"]), (&json!("pending"), &json!(307)));
    assert_eq!(delivery["error"], "status 307; redirects are not followed");
    assert_eq!(target.connections(), 0);
}

#[tokio::test]
async fn a_receiver_that_closes_the_connection_fails() {
    let receiver = Receiver::answering(|_, _| Answer::Close).await;
    let delivery = deliver_to(&receiver.url()).await;
    assert_eq!(delivery["state"], "pending");
    assert_eq!(delivery["error"], "the receiver closed the connection without a response");
}

#[tokio::test]
async fn a_receiver_that_sends_garbage_without_end_fails() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port is bound");
    let address = listener.local_addr().expect("the listener has an address");
    let garbage = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n").await;
                while stream.write_all(b"x-header: endless\r\n").await.is_ok() {}
            });
        }
    });
    let delivery = deliver_to(&format!("http://{address}/")).await;
    assert_eq!((&delivery["state"], &delivery["status"]), (&json!("pending"), &json!(null)), "{delivery}");
    garbage.abort();
}

#[tokio::test]
async fn a_port_without_a_listener_fails() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port is bound");
    let address = listener.local_addr().expect("the listener has an address");
    drop(listener);
    let delivery = deliver_to(&format!("http://{address}/")).await;
    assert!(
        delivery["error"].as_str().is_some_and(|error| error.starts_with("cannot connect")),
        "{delivery}"
    );
}

#[tokio::test]
async fn a_kept_connection_that_the_receiver_closed_costs_no_failure() {
    // Answers one request on each connection and then closes it, without saying so.
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port is bound");
    let address = listener.local_addr().expect("the listener has an address");
    let closing = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut buffer = vec![0; 16 * 1024];
            let _ = tokio::io::AsyncReadExt::read(&mut stream, &mut buffer).await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        }
    });
    let server = start(quick()).await;
    create(&server, "w", &format!("http://{address}/"), &["execution.submitted"]).await;
    for count in 1..=5 {
        server.submit(json!({ "kind": "k" })).await;
        wait_for(&server, "w", |webhook| webhook["delivered"] == count).await;
    }
    let delivered = deliveries(&server, "w", "delivered").await;
    assert!(delivered.iter().all(|one| one["failures"] == 0), "{delivered:?}");
    closing.abort();
}
