//! A test message, sent at once because a caller asked for it. Nothing of it is recorded, and a paused webhook gets it, too.

use super::WebhookOptions;
use super::client::{Message, Receiver};
use bytes::Bytes;
use selvedge_core::webhook::{Outcome, Webhook};
use selvedge_engine::Engine;
use std::sync::Arc;
use std::time::{Duration, Instant};
use uuid::Uuid;

pub struct TestResult {
    /// The id of the message.
    pub id: Uuid,
    /// The status of the response, if there was one.
    pub status: Option<u16>,
    /// The reason why the receiver has not accepted the message; none if it has.
    pub error: Option<String>,
    /// The time from the lookup of the name to the response.
    pub took: Duration,
}

/// Sends a message to the receiver of a webhook, with the limits of a delivery, and waits for the response.
pub async fn send_test(
    engine: &Engine,
    webhook: &Webhook,
    options: &Arc<WebhookOptions>,
    body: Bytes,
) -> TestResult {
    let id = Uuid::new_v4();
    let begun = Instant::now();
    let secrets = engine.webhook_secrets(&webhook.detail, engine.store_time());
    let (status, error) = match Message::signed(secrets.as_deref(), id.to_string(), body) {
        Err(error) => (None, Some(error)),
        Ok(message) => {
            let receiver = Receiver::new(&webhook.detail.config.url, options.clone());
            match receiver.post(&message).await {
                Outcome::Delivered(status) => (Some(status), None),
                Outcome::Failed { status, error } => (status, Some(error)),
                Outcome::Waits => (None, None),
            }
        }
    };
    TestResult { id, status, error, took: begun.elapsed() }
}
