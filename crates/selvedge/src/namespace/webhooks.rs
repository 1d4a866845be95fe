//! Webhooks: save, read, list, pause and remove; their secrets, deliveries and tests.

use super::{Connected, Namespace, actor, after_name};
use crate::submission::millis;
use crate::webhooks::{
    Delivery, DeliveryId, DeliveryState, SavedWebhook, Webhook, WebhookSettings, WebhookTest,
};
use crate::{Error, Page};
use selvedge_core::rules::webhook::WebhookPatch;
use selvedge_engine::request::cursors;
use serde::Deserialize;
use serde_json::json;
use std::time::Duration;

#[derive(Deserialize)]
struct SavedItem {
    #[serde(flatten)]
    webhook: Webhook,
    secret: Option<String>,
}

#[derive(Deserialize)]
struct RotatedItem {
    secret: Option<String>,
}

#[derive(Deserialize)]
struct ReplayedItem {
    delivery: Delivery,
}

impl Namespace {
    /// Creates a webhook, or replaces its settings. A new webhook gets the events from now on, and its secret is in the answer,
    /// this once. A server delivers: an embedded engine only stores the settings for the servers on the same database.
    ///
    /// ```
    /// # use selvedge::Engine;
    /// use selvedge::webhooks::WebhookSettings;
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), selvedge::Error> {
    /// # let engine = Engine::open("memory:").await?;
    /// # let namespace = engine.namespace("default").await?;
    /// let failures = WebhookSettings::new("https://example.com/hook").event_type("execution.failed");
    /// let saved = namespace.set_webhook("failures", failures).await?;
    /// assert!(saved.secret.is_some_and(|secret| secret.starts_with("whsec_")));
    /// # engine.shutdown().await;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn set_webhook(&self, name: &str, settings: WebhookSettings) -> Result<SavedWebhook, Error> {
        match &self.connected {
            Connected::Embedded(namespace) => {
                let (config, paused) = settings.config()?;
                let (saved, secret) = namespace.put_webhook(name, config, paused, &actor()).await?;
                Ok(SavedWebhook { webhook: saved.webhook.into(), secret })
            }
            Connected::Remote(client) => {
                let request = client.put(&["webhooks", name]).json(&settings.body());
                let SavedItem { webhook, secret } = request.send().await?.json()?;
                Ok(SavedWebhook { webhook, secret })
            }
        }
    }

    /// Reads a webhook.
    pub async fn webhook(&self, name: &str) -> Result<Webhook, Error> {
        match &self.connected {
            Connected::Embedded(namespace) => Ok(namespace.webhook(name).await?.into()),
            Connected::Remote(client) => Ok(client.get(&["webhooks", name]).send().await?.json()?),
        }
    }

    /// Returns a page of at most `limit` webhooks (up to 500), by name. `cursor` is the `next_cursor` of the page before.
    pub async fn webhooks(&self, cursor: Option<&str>, limit: u32) -> Result<Page<Webhook>, Error> {
        match &self.connected {
            Connected::Embedded(namespace) => {
                let (found, more) = namespace.webhooks(after_name(cursor)?.as_ref(), limit).await?;
                let next = found.last().filter(|_| more).map(|last| cursors::name_cursor(&last.name.name));
                Ok(Page { items: found.into_iter().map(Webhook::from).collect(), next_cursor: next })
            }
            Connected::Remote(client) => {
                let request =
                    client.get(&["webhooks"]).query("limit", limit).query_optional("cursor", cursor);
                Ok(request.send().await?.json()?)
            }
        }
    }

    /// Removes a webhook with its deliveries.
    pub async fn remove_webhook(&self, name: &str) -> Result<(), Error> {
        match &self.connected {
            Connected::Embedded(namespace) => {
                namespace.remove_webhook(name, &actor()).await?;
            }
            Connected::Remote(client) => {
                client.delete(&["webhooks", name]).send().await?;
            }
        }
        Ok(())
    }

    /// Pauses a webhook: nothing is delivered until it is resumed. Events are kept for as long as the log keeps them.
    pub async fn pause_webhook(&self, name: &str) -> Result<Webhook, Error> {
        self.set_webhook_paused(name, true).await
    }

    /// Resumes a webhook, whatever paused it. It continues with the event after the last one that it delivered.
    pub async fn resume_webhook(&self, name: &str) -> Result<Webhook, Error> {
        self.set_webhook_paused(name, false).await
    }

    async fn set_webhook_paused(&self, name: &str, paused: bool) -> Result<Webhook, Error> {
        match &self.connected {
            Connected::Embedded(namespace) => {
                let patch = WebhookPatch { paused: Some(paused), ..WebhookPatch::default() };
                Ok(namespace.patch_webhook(name, patch, &actor()).await?.into())
            }
            Connected::Remote(client) => {
                let request = client.patch(&["webhooks", name]).json(&json!({ "paused": paused }));
                Ok(request.send().await?.json()?)
            }
        }
    }

    /// Creates a new secret of a webhook and returns it, this once. The old one signs, too, until the end of the grace period. None
    /// if the answer was lost and the call repeated: then the new secret signs but nobody has seen it, so rotate again.
    pub async fn rotate_webhook_secret(&self, name: &str, grace: Duration) -> Result<Option<String>, Error> {
        let grace_ms = millis(grace);
        match &self.connected {
            Connected::Embedded(namespace) => {
                let calls = namespace.keyed(None);
                Ok(calls.rotate_webhook_secret(name, grace_ms, &actor()).await?.done.1)
            }
            Connected::Remote(client) => {
                let request = client.post(&["webhooks", name, "rotate-secret"]);
                let answer: RotatedItem =
                    request.json(&json!({ "grace_ms": grace_ms })).send().await?.json()?;
                Ok(answer.secret)
            }
        }
    }

    /// Returns a page of at most `limit` deliveries of a webhook (up to 500), newest first: all, or those in one state. `cursor` is
    /// the `next_cursor` of the page before.
    pub async fn webhook_deliveries(
        &self,
        name: &str,
        state: Option<DeliveryState>,
        cursor: Option<&str>,
        limit: u32,
    ) -> Result<Page<Delivery>, Error> {
        match &self.connected {
            Connected::Embedded(namespace) => {
                let wrong = |_| selvedge_engine::Error::InvalidCursor;
                let before = cursor.map(|cursor| cursor.parse().map_err(wrong)).transpose()?;
                let (found, more) = namespace.webhook_deliveries(name, state, before, limit).await?;
                let next_cursor = found.last().filter(|_| more).map(|last| last.number.to_string());
                Ok(Page { items: found.into_iter().map(Delivery::from).collect(), next_cursor })
            }
            Connected::Remote(client) => {
                let request = client
                    .get(&["webhooks", name, "deliveries"])
                    .query("limit", limit)
                    .query_optional("state", state.map(DeliveryState::as_str))
                    .query_optional("cursor", cursor);
                Ok(request.send().await?.json()?)
            }
        }
    }

    /// Delivers an event again, now. Returns the delivery.
    pub async fn replay_delivery(&self, name: &str, id: DeliveryId) -> Result<Delivery, Error> {
        match &self.connected {
            Connected::Embedded(namespace) => {
                Ok(namespace.keyed(None).replay_delivery(name, id).await?.done.into())
            }
            Connected::Remote(client) => {
                let request = client.post(&["webhooks", name, "deliveries", &id.to_string(), "replay"]);
                Ok(request.send().await?.json::<ReplayedItem>()?.delivery)
            }
        }
    }

    /// Sends a test message to the receiver of a webhook, and returns how the receiver answered. Needs a server: an embedded engine
    /// refuses it with the code `needs_server`.
    pub async fn test_webhook(&self, name: &str) -> Result<WebhookTest, Error> {
        match &self.connected {
            Connected::Embedded(_) => Err(Error::needs_server("only a server delivers webhooks")),
            Connected::Remote(client) => Ok(client.post(&["webhooks", name, "test"]).send().await?.json()?),
        }
    }
}
