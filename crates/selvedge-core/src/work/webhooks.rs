//! Changes of webhooks and deliveries in one transaction. A delivery is written without being read, under the lock of its webhook.

use super::Work;
use crate::Changes;
use crate::webhook::{Delivery, DeliveryId, Webhook, WebhookId};
use std::collections::{BTreeMap, BTreeSet};

/// Deliveries that are deleted without being read.
#[derive(Debug, Default)]
pub(super) struct Webhooks {
    removed: BTreeSet<WebhookId>,
    pruned: BTreeMap<WebhookId, u64>,
}

impl Webhooks {
    /// Adds the writes to the changes of the transaction.
    pub fn finish(self, changes: &mut Changes) {
        changes.unread.webhooks_removed = self.removed.into_iter().collect();
        changes.unread.deliveries_pruned = self.pruned.into_iter().collect();
    }
}

impl Work {
    /// Writes a webhook, with the next version.
    pub fn put_webhook(&mut self, mut webhook: Webhook) {
        let stored = self.tables.webhooks.entry(&webhook.name).and_then(|entry| entry.stored());
        webhook.version = stored.unwrap_or(0) + 1;
        self.tables.webhooks.put(webhook);
    }

    /// Deletes a webhook with its deliveries.
    pub fn remove_webhook(&mut self, webhook: &Webhook) {
        self.tables.webhooks.delete(&webhook.name);
        self.tables.deliveries.forget(|delivery| delivery.webhook == webhook.detail.id);
        self.webhooks.pruned.remove(&webhook.detail.id);
        self.webhooks.removed.insert(webhook.detail.id);
    }

    /// Returns a delivery, if it is loaded.
    pub fn delivery(&self, id: DeliveryId) -> Option<&Delivery> {
        self.tables.deliveries.rows().find(|delivery| delivery.id == id)
    }

    /// Deletes the delivered deliveries of a webhook with smaller numbers than this.
    pub fn prune_deliveries(&mut self, webhook: WebhookId, before: u64) {
        let pruned = self.webhooks.pruned.entry(webhook).or_default();
        *pruned = before.max(*pruned);
    }
}
