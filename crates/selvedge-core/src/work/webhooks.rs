//! The webhooks and deliveries of one transaction. A delivery is written without being read, under the lock of its webhook.

use super::Work;
use crate::Changes;
use crate::table::Table;
use crate::webhook::{Delivery, DeliveryId, Webhook, WebhookId, WebhookName};
use std::collections::{BTreeMap, BTreeSet};

/// The webhooks and deliveries.
#[derive(Debug, Default)]
pub(super) struct Webhooks {
    webhooks: Table<Webhook>,
    deliveries: Table<Delivery>,
    removed: BTreeSet<WebhookId>,
    pruned: BTreeMap<WebhookId, u64>,
}

impl Webhooks {
    /// Adds loaded rows. Rows that this transaction has changed stay as they are.
    pub fn load(&mut self, webhooks: Vec<Webhook>, deliveries: Vec<Delivery>) {
        for webhook in webhooks {
            self.webhooks.load(webhook);
        }
        for delivery in deliveries {
            self.deliveries.load(delivery);
        }
    }

    /// Adds the writes to the changes of the transaction.
    pub fn finish(self, changes: &mut Changes) {
        changes.webhooks = self.webhooks.into_guarded();
        changes.deliveries = self.deliveries.into_written();
        changes.unread.webhooks_removed = self.removed.into_iter().collect();
        changes.unread.deliveries_pruned = self.pruned.into_iter().collect();
    }
}

impl Work {
    /// Returns a webhook, if it is loaded.
    pub fn webhook(&self, name: &WebhookName) -> Option<&Webhook> {
        self.webhooks.webhooks.get(name)
    }

    /// Writes a webhook, with the next version.
    pub fn put_webhook(&mut self, mut webhook: Webhook) {
        let stored = self.webhooks.webhooks.entry(&webhook.name).and_then(|entry| entry.stored());
        webhook.version = stored.unwrap_or(0) + 1;
        self.webhooks.webhooks.put(webhook);
    }

    /// Deletes a webhook with its deliveries.
    pub fn remove_webhook(&mut self, webhook: &Webhook) {
        self.webhooks.webhooks.delete(&webhook.name);
        self.webhooks.deliveries.forget(|delivery| delivery.webhook == webhook.detail.id);
        self.webhooks.pruned.remove(&webhook.detail.id);
        self.webhooks.removed.insert(webhook.detail.id);
    }

    /// Returns a delivery, if it is loaded.
    pub fn delivery(&self, id: DeliveryId) -> Option<&Delivery> {
        self.webhooks.deliveries.rows().find(|delivery| delivery.id == id)
    }

    /// Writes a delivery.
    pub fn put_delivery(&mut self, delivery: Delivery) {
        self.webhooks.deliveries.put(delivery);
    }

    /// Deletes the delivered deliveries of a webhook with smaller numbers than this.
    pub fn prune_deliveries(&mut self, webhook: WebhookId, before: u64) {
        let pruned = self.webhooks.pruned.entry(webhook).or_default();
        *pruned = before.max(*pruned);
    }
}
