//! Webhooks and their deliveries.

use selvedge_core::webhook::{Delivery, DeliveryState, Webhook, WebhookId, WebhookName};
use selvedge_core::{Changes, NamespaceId, Needs, Rows};
use selvedge_store::DeliveryPage;
use std::collections::BTreeMap;
use std::ops::Bound;

/// The tables of webhooks.
#[derive(Debug, Default)]
pub struct Webhooks {
    webhooks: BTreeMap<WebhookName, Webhook>,
    deliveries: BTreeMap<(WebhookId, u64), Delivery>,
}

impl Webhooks {
    /// Returns a webhook.
    pub fn find(&self, name: &WebhookName) -> Option<Webhook> {
        self.webhooks.get(name).cloned()
    }

    /// Returns a page of the webhooks, by namespace and name.
    pub fn list(
        &self,
        namespace: Option<NamespaceId>,
        after: Option<&WebhookName>,
        limit: u32,
    ) -> Vec<Webhook> {
        let from = after.map_or(Bound::Unbounded, |after| Bound::Excluded(after.clone()));
        let all = self.webhooks.range((from, Bound::Unbounded)).map(|(_, webhook)| webhook);
        let wanted = all.filter(|webhook| namespace.is_none_or(|only| webhook.name.namespace == only));
        wanted.take(limit as usize).cloned().collect()
    }

    /// Returns a page of the deliveries of a webhook, newest first.
    pub fn deliveries(&self, page: &DeliveryPage) -> Vec<Delivery> {
        let range = (page.webhook, 0)..(page.webhook, page.before.unwrap_or(u64::MAX));
        let all = self.deliveries.range(range).rev().map(|(_, delivery)| delivery);
        let wanted = all.filter(|delivery| page.state.is_none_or(|state| delivery.state == state));
        let mut found: Vec<Delivery> = wanted.take(page.limit as usize).cloned().collect();
        if !page.bodies {
            found.iter_mut().for_each(|delivery| delivery.body = bytes::Bytes::new());
        }
        found
    }

    /// Loads the rows that `needs` names.
    pub fn load(&self, needs: &Needs, rows: &mut Rows) {
        rows.webhooks.extend(needs.webhooks.keys().filter_map(|name| self.find(name)));
        let wanted = |delivery: &&Delivery| needs.deliveries.keys().any(|id| *id == delivery.id);
        if !needs.deliveries.is_empty() {
            rows.deliveries.extend(self.deliveries.values().filter(wanted).cloned());
        }
    }

    /// Returns true if every written or deleted webhook has its expected version.
    pub fn guards_hold(&self, changes: &Changes) -> bool {
        let version = |name: &WebhookName| self.webhooks.get(name).map(|webhook| webhook.version);
        let written = changes.webhooks.versioned().map(|(webhook, expected)| (&webhook.name, expected));
        let deleted = changes.webhooks.deleted.iter().map(|(name, expected)| (name, Some(*expected)));
        written.chain(deleted).all(|(name, expected)| version(name) == expected)
    }

    /// Saves webhooks and deliveries.
    pub fn save(&mut self, changes: &Changes) {
        for (name, _) in &changes.webhooks.deleted {
            self.webhooks.remove(name);
        }
        for webhook in changes.webhooks.written() {
            self.webhooks.insert(webhook.name.clone(), webhook.clone());
        }
        for removed in &changes.unread.webhooks_removed {
            self.deliveries.retain(|(webhook, _), _| webhook != removed);
        }
        for delivery in &changes.deliveries {
            let key = (delivery.webhook, delivery.number);
            let stored = self.deliveries.entry(key).or_insert_with(|| delivery.clone());
            stored.state = delivery.state;
            stored.detail = delivery.detail.clone();
        }
        for (webhook, number) in &changes.unread.deliveries_pruned {
            self.deliveries.retain(|(of, at), delivery| {
                of != webhook || at >= number || delivery.state != DeliveryState::Delivered
            });
        }
    }
}
