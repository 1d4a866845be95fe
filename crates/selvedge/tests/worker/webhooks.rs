//! Webhooks: configured through the namespace, delivered by a server on the same engine.

use super::{OVER_HTTP, TIMEOUT, engine, submit};
use selvedge::webhooks::{DeliveryState, PauseReason, WebhookSettings};
use selvedge::{Client, Engine, Error, Namespace, Submission};
use std::future::pending;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Starts a server that delivers to private addresses, and returns the namespace of the test with it.
async fn delivering_engine() -> (Engine, Namespace) {
    let engine = Engine::open("memory:").await.expect("the engine starts");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("the listener has an address");
    let mut options = selvedge_server::Options::default();
    options.webhooks.allow_private = true;
    tokio::spawn(selvedge_server::serve_with(options, engine.clone().into_inner(), listener, pending()));
    let namespace = match OVER_HTTP.get() {
        true => Client::new(&format!("http://{address}")).expect("the address is valid").namespace("default"),
        false => engine.namespace("default").await,
    };
    (engine, namespace.expect("the namespace opens"))
}

/// Starts a receiver that accepts every delivery, and returns its URL and the requests that it gets.
async fn receiver() -> (String, mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let url =
        format!("http://{}/hook?key=secret", listener.local_addr().expect("the listener has an address"));
    let (sender, received) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let sender = sender.clone();
            tokio::spawn(async move {
                let mut request = Vec::new();
                while let Ok(1..) = stream.read_buf(&mut request).await {
                    let text = String::from_utf8_lossy(&request).into_owned();
                    let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                    let length = head.to_ascii_lowercase();
                    let length = length
                        .split("content-length: ")
                        .nth(1)
                        .and_then(|rest| rest.lines().next()?.parse().ok());
                    if body.len() < length.unwrap_or(0) {
                        continue;
                    }
                    let answer = "HTTP/1.1 204 No Content\r\n\r\n";
                    if stream.write_all(answer.as_bytes()).await.is_err() || sender.send(text).is_err() {
                        return;
                    }
                    request.clear();
                }
            });
        }
    });
    (url, received)
}

#[tokio::test]
async fn a_webhook_delivers_signed_events_and_delivers_one_again() {
    let (engine, namespace) = delivering_engine().await;
    let (url, mut received) = receiver().await;
    let settings = WebhookSettings::new(&url).event_type("execution.submitted").tag("team", "blue");
    let saved = namespace.set_webhook("orders", settings.clone()).await.expect("the webhook is saved");
    assert!(saved.secret.as_ref().is_some_and(|secret| secret.starts_with("whsec_")));
    assert!(!format!("{saved:?}{settings:?}").contains("whsec_"));
    assert_eq!(saved.webhook, namespace.webhook("orders").await.expect("the webhook is read"));
    assert_eq!(
        (saved.webhook.url.as_str(), saved.webhook.types.as_slice()),
        (&*url, &["execution.submitted".to_owned()][..])
    );
    assert_eq!(saved.webhook.filter.tag, Some(("team".into(), "blue".into())));
    let again = namespace.set_webhook("orders", settings).await.expect("the webhook is saved again");
    assert_eq!(again.secret, None, "the secret is shown once");

    submit(&namespace, Submission::new("k")).await;
    let id = submit(&namespace, Submission::new("k").tag("team", "blue")).await;
    let delivered =
        timeout(TIMEOUT, received.recv()).await.expect("it is delivered in time").expect("it is delivered");
    assert!(
        delivered.contains(&id.to_string()) && delivered.contains("webhook-signature: v1,"),
        "{delivered}"
    );
    // The delivery is recorded after the receiver has answered.
    let deliveries = async |state| {
        let page = namespace.webhook_deliveries("orders", Some(state), None, 10).await;
        page.expect("the deliveries are read").items
    };
    let recorded = timeout(TIMEOUT, async {
        loop {
            if let Some(delivery) = deliveries(DeliveryState::Delivered).await.pop() {
                return delivery;
            }
            tokio::task::yield_now().await;
        }
    });
    let recorded = recorded.await.expect("the delivery is recorded");
    assert_eq!((recorded.execution, recorded.event_type.as_str()), (Some(id), "execution.submitted"));
    assert_eq!((recorded.status, recorded.failures), (Some(204), 0));
    assert!(deliveries(DeliveryState::Dead).await.is_empty());

    namespace.replay_delivery("orders", recorded.id).await.expect("the delivery is replayed");
    let again = timeout(TIMEOUT, received.recv()).await.expect("it is delivered again in time");
    assert!(again.expect("it is delivered again").contains(&recorded.id.to_string()));
    engine.shutdown().await;
}

#[tokio::test]
async fn a_test_message_needs_a_server() {
    let (engine, namespace) = delivering_engine().await;
    let (url, _received) = receiver().await;
    namespace.set_webhook("orders", WebhookSettings::new(url)).await.expect("the webhook is saved");
    match namespace.test_webhook("orders").await {
        Ok(test) => assert!(OVER_HTTP.get() && test.delivered && test.status == Some(204), "{test:?}"),
        Err(error) => assert!(!OVER_HTTP.get() && error.code() == "needs_server", "{error}"),
    }
    engine.shutdown().await;
}

#[tokio::test]
async fn webhooks_are_listed_paused_resumed_and_removed() {
    let (engine, namespace) = engine().await;
    let settings = || WebhookSettings::new("https://example.com/hook");
    for name in ["b", "a"] {
        namespace.set_webhook(name, settings()).await.expect("the webhook is saved");
    }
    let first = namespace.webhooks(None, 1).await.expect("the list is read");
    assert_eq!((first.items.len(), first.items[0].name.as_str()), (1, "a"));
    assert_eq!(first.items[0].types, ["*"]);
    let second = namespace.webhooks(first.next_cursor.as_deref(), 1).await.expect("the list is read");
    assert_eq!((second.items[0].name.as_str(), second.next_cursor), ("b", None));

    let paused = namespace.pause_webhook("a").await.expect("the webhook is paused");
    assert_eq!(paused.paused, Some(PauseReason::Operator));
    assert_eq!(namespace.resume_webhook("a").await.expect("the webhook is resumed").paused, None);
    let grace = std::time::Duration::from_secs(60);
    let rotated = namespace.rotate_webhook_secret("a", grace).await.expect("the secret is rotated");
    assert!(rotated.is_some_and(|secret| secret.starts_with("whsec_")));
    assert!(namespace.webhook("a").await.expect("it is read").old_secret_expires_at.is_some());

    namespace.remove_webhook("a").await.expect("the webhook is removed");
    assert!(matches!(namespace.webhook("a").await, Err(Error::NotFound(_))));
    assert!(matches!(namespace.pause_webhook("a").await, Err(Error::NotFound(_))));
    engine.shutdown().await;
}

#[tokio::test]
async fn wrong_settings_of_a_webhook_are_refused_with_their_field() {
    let (engine, namespace) = engine().await;
    let pointer = async |settings: WebhookSettings| match namespace.set_webhook("wrong", settings).await {
        Err(Error::Invalid(refusal)) => refusal.pointer.unwrap_or_default(),
        other => panic!("expected a refusal, got {other:?}"),
    };
    assert_eq!(pointer(WebhookSettings::new("example.com/hook")).await, "/url");
    assert_eq!(
        pointer(WebhookSettings::new("https://example.com/").event_type("execution.lost")).await,
        "/types"
    );
    engine.shutdown().await;
}

over_http_too! {
    a_webhook_delivers_signed_events_and_delivers_one_again,
    a_test_message_needs_a_server,
    webhooks_are_listed_paused_resumed_and_removed,
    wrong_settings_of_a_webhook_are_refused_with_their_field,
}
