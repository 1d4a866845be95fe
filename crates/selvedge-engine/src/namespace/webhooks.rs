//! Webhooks: configured and listed by callers, leased and recorded by the sender of this server.
//!
//! The engine does not send: whoever delivers, such as the HTTP server, takes the lease of a webhook, reads the log behind
//! its cursor, and records what became of each event.

use super::{EventFilter, From, KeyedCalls, Namespace};
use crate::{Engine, Error};
use selvedge_core::name::NAME_LIMIT;
use selvedge_core::rules::keyed::Answered;
use selvedge_core::rules::webhook::{
    ConfigureWebhook, ConfiguredWebhook, LeaseWebhooks, NewWebhook, RecordDeliveries, Recorded,
    ReplayDelivery, RotateWebhookSecret, WebhookPatch, WebhookSetting,
};
use selvedge_core::webhook::{
    Delivery, DeliveryId, DeliveryState, Webhook, WebhookConfig, WebhookDetail, WebhookId, WebhookName,
    secret_text,
};
use selvedge_core::{Name, Refusal, Timestamp};
use selvedge_store::DeliveryPage;
use std::time::Duration;
use uuid::Uuid;

/// The number of webhooks that are read at once.
const PAGE: u32 = 500;

/// A webhook and its secret, if the call created one. The secret is shown this once.
pub type WithSecret<T> = (T, Option<String>);

impl Namespace {
    /// Returns the full name of a webhook.
    fn webhook_name(&self, name: &str) -> Result<WebhookName, Refusal> {
        Ok(WebhookName { namespace: self.id(), name: Name::parse("/name", name, NAME_LIMIT)? })
    }

    /// Creates a webhook, or replaces its configuration. The secret of a new one is in the answer.
    pub async fn put_webhook(
        &self,
        name: &str,
        config: WebhookConfig,
        paused: bool,
        actor: &Name,
    ) -> Result<WithSecret<ConfiguredWebhook>, Error> {
        let name = self.webhook_name(name)?;
        let end = self.events(&EventFilter::default(), From::Now, 1).await?;
        let new = NewWebhook {
            id: WebhookId(Uuid::now_v7()),
            cursor: end.next.unwrap_or_default(),
            fingerprint: self.inner().secret.fingerprint(),
        };
        let setting = WebhookSetting::Replace { config, paused, new };
        let configured = self.run(ConfigureWebhook { name, setting, actor: actor.clone() }).await??;
        self.inner().webhook_changes.notify_one();
        let secret = configured.created.then(|| self.secret_of(&configured.webhook, 1));
        Ok((configured, secret))
    }

    /// Changes some fields of a webhook.
    pub async fn patch_webhook(
        &self,
        name: &str,
        patch: WebhookPatch,
        actor: &Name,
    ) -> Result<Webhook, Error> {
        self.set_webhook(name, WebhookSetting::Patch(patch), actor).await
    }

    /// Deletes a webhook with its deliveries, and returns it as it was.
    pub async fn remove_webhook(&self, name: &str, actor: &Name) -> Result<Webhook, Error> {
        self.set_webhook(name, WebhookSetting::Remove, actor).await
    }

    async fn set_webhook(&self, name: &str, setting: WebhookSetting, actor: &Name) -> Result<Webhook, Error> {
        let name = self.webhook_name(name)?;
        let configured = self.run(ConfigureWebhook { name, setting, actor: actor.clone() }).await??;
        self.inner().webhook_changes.notify_one();
        Ok(configured.webhook)
    }

    /// Returns a webhook.
    pub async fn webhook(&self, name: &str) -> Result<Webhook, Error> {
        let found = self.inner().store.webhook(&self.webhook_name(name)?).await?;
        Ok(found.ok_or_else(|| Refusal::NotFound { what: "webhook".into(), id: name.into() })?)
    }

    /// Returns a page of the webhooks, by name, and whether there are more.
    pub async fn webhooks(&self, after: Option<&Name>, limit: u32) -> Result<(Vec<Webhook>, bool), Error> {
        let after = after.map(|name| WebhookName { namespace: self.id(), name: name.clone() });
        let first = WebhookName { namespace: self.id(), name: Name::trusted("") };
        let after = after.unwrap_or(first);
        let mut found = self.inner().store.webhooks(Some(self.id()), Some(&after), limit + 1).await?;
        let more = found.len() > limit as usize;
        found.truncate(limit as usize);
        Ok((found, more))
    }

    /// Returns a page of the deliveries of a webhook, newest first and without bodies, and whether there are more.
    pub async fn webhook_deliveries(
        &self,
        name: &str,
        state: Option<DeliveryState>,
        before: Option<u64>,
        limit: u32,
    ) -> Result<(Vec<Delivery>, bool), Error> {
        let webhook = self.webhook(name).await?.detail.id;
        let page = DeliveryPage { webhook, state, before, limit: limit + 1, bodies: false };
        let mut found = self.inner().store.deliveries(&page).await?;
        let more = found.len() > limit as usize;
        found.truncate(limit as usize);
        Ok((found, more))
    }

    fn secret_of(&self, webhook: &Webhook, key: u32) -> String {
        secret_text(&self.inner().secret.webhook_secret(webhook.detail.id, key))
    }
}

impl KeyedCalls<'_> {
    /// Creates a new secret of a webhook, which is in the answer of the first call only. The old ones sign, too, until the
    /// end of the grace period.
    pub async fn rotate_webhook_secret(
        &self,
        name: &str,
        grace_ms: i64,
        actor: &Name,
    ) -> Result<Answered<WithSecret<Webhook>>, Error> {
        let inner = self.namespace.inner();
        let fingerprint = inner.secret.fingerprint();
        let name = self.namespace.webhook_name(name)?;
        let rotate = RotateWebhookSecret { name, grace_ms, fingerprint, actor: actor.clone() };
        let Answered { done, duplicate } = self.run(rotate).await?;
        inner.webhook_changes.notify_one();
        let secret = (!duplicate).then(|| self.namespace.secret_of(&done.webhook, done.key));
        Ok(Answered { done: (done.webhook, secret), duplicate })
    }

    /// Delivers an event again, now.
    pub async fn replay_delivery(&self, name: &str, id: DeliveryId) -> Result<Answered<Delivery>, Error> {
        let name = self.namespace.webhook_name(name)?;
        let replayed = self.run(ReplayDelivery { name, id }).await?;
        self.namespace.inner().webhook_changes.notify_one();
        Ok(replayed)
    }
}

/// The calls of a sender.
impl Engine {
    /// Returns all webhooks of all namespaces.
    pub async fn all_webhooks(&self) -> Result<Vec<Webhook>, Error> {
        let (mut all, mut after): (Vec<Webhook>, Option<WebhookName>) = (Vec::new(), None);
        loop {
            let found = self.inner.store.webhooks(None, after.as_ref(), PAGE).await?;
            let is_full = found.len() == PAGE as usize;
            after = found.last().map(|webhook| webhook.name.clone());
            all.extend(found);
            if !is_full {
                return Ok(all);
            }
        }
    }

    /// Waits until a caller of this process changes a webhook. A change before the call counts, too.
    pub async fn webhook_changed(&self) {
        self.inner.webhook_changes.notified().await;
    }

    /// Takes or renews the leases of webhooks, or ends them with a time of 0. Returns those that `owner` has now.
    pub async fn lease_webhooks(
        &self,
        owner: Uuid,
        names: Vec<WebhookName>,
        ttl: Duration,
    ) -> Result<Vec<Webhook>, Error> {
        let ttl_ms = ttl.as_millis() as i64;
        self.inner.committer.run(LeaseWebhooks { owner, names, ttl_ms }).await
    }

    /// Records the outcome of deliveries. None if the webhook is gone or has another owner: nothing was recorded.
    pub async fn record_deliveries(&self, record: RecordDeliveries) -> Result<Option<Recorded>, Error> {
        self.inner.committer.run(record).await
    }

    /// Returns all pending deliveries of a webhook, oldest first.
    pub async fn pending_deliveries(&self, webhook: WebhookId) -> Result<Vec<Delivery>, Error> {
        let (mut all, mut before): (Vec<Delivery>, Option<u64>) = (Vec::new(), None);
        let state = Some(DeliveryState::Pending);
        loop {
            let page = DeliveryPage { webhook, state, before, limit: PAGE, bodies: true };
            let found = self.inner.store.deliveries(&page).await?;
            let is_full = found.len() == PAGE as usize;
            before = found.last().map(|delivery| delivery.number);
            all.extend(found);
            if !is_full {
                all.reverse();
                return Ok(all);
            }
        }
    }

    /// Returns the secrets that sign the deliveries of a webhook at this time. None if the root secret has changed since
    /// they were shown: the secret must then be rotated.
    pub fn webhook_secrets(&self, webhook: &WebhookDetail, now: Timestamp) -> Option<Vec<[u8; 32]>> {
        let secret = &self.inner.secret;
        let fingerprint = secret.fingerprint();
        let keys = webhook.signing_keys(now).filter(|key| key.fingerprint == fingerprint);
        let secrets: Vec<[u8; 32]> = keys.map(|key| secret.webhook_secret(webhook.id, key.number)).collect();
        (!secrets.is_empty()).then_some(secrets)
    }

    /// Returns the time for which the event log keeps its entries.
    pub fn log_window(&self) -> Duration {
        self.inner.options.log_window
    }
}
