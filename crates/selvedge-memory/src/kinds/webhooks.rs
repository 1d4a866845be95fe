//! Webhooks and their deliveries.

use crate::MemoryStore;
use crate::kinds::{Kind, Saving, Tables};
use async_trait::async_trait;
use selvedge_core::webhook::{Delivery, DeliveryState, Webhook, WebhookName};
use selvedge_core::{Changes, NamespaceId, Needs, Rows};
use selvedge_store::{DeliveryPage, Error, WebhookReads};
use std::ops::Bound::{Excluded, Unbounded};

pub(crate) const KIND: Kind = Kind { load, guards_hold, save, ..Kind::EMPTY };

fn load(tables: &Tables, needs: &Needs, rows: &mut Rows) {
    rows.webhooks.extend(needs.webhooks.keys().filter_map(|name| tables.webhooks.get(name).cloned()));
    let wanted = |delivery: &&Delivery| needs.deliveries.keys().any(|id| *id == delivery.id);
    if !needs.deliveries.is_empty() {
        rows.deliveries.extend(tables.deliveries.values().filter(wanted).cloned());
    }
}

fn guards_hold(tables: &Tables, changes: &Changes) -> bool {
    let version = |name: &WebhookName| tables.webhooks.get(name).map(|webhook| webhook.version);
    let written = changes.webhooks.versioned().map(|(webhook, expected)| (&webhook.name, expected));
    let deleted = changes.webhooks.deleted.iter().map(|(name, expected)| (name, Some(*expected)));
    written.chain(deleted).all(|(name, expected)| version(name) == expected)
}

fn save(tables: &mut Tables, changes: &mut Changes, _: &mut Saving) {
    for (name, _) in &changes.webhooks.deleted {
        tables.webhooks.remove(name);
    }
    for webhook in changes.webhooks.written() {
        tables.webhooks.insert(webhook.name.clone(), webhook.clone());
    }
    for removed in &changes.unread.webhooks_removed {
        tables.deliveries.retain(|(webhook, _), _| webhook != removed);
    }
    for delivery in &changes.deliveries {
        let key = (delivery.webhook, delivery.number);
        let stored = tables.deliveries.entry(key).or_insert_with(|| delivery.clone());
        stored.state = delivery.state;
        stored.detail = delivery.detail.clone();
    }
    for (webhook, number) in &changes.unread.deliveries_pruned {
        tables.deliveries.retain(|(of, at), delivery| {
            of != webhook || at >= number || delivery.state != DeliveryState::Delivered
        });
    }
}

#[async_trait]
impl WebhookReads for MemoryStore {
    async fn webhook(&self, name: &WebhookName) -> Result<Option<Webhook>, Error> {
        self.read("webhook", |tables, _| tables.webhooks.get(name).cloned()).await
    }

    async fn webhooks(
        &self,
        namespace: Option<NamespaceId>,
        after: Option<&WebhookName>,
        limit: u32,
    ) -> Result<Vec<Webhook>, Error> {
        let from = after.map_or(Unbounded, |after| Excluded(after.clone()));
        self.read("webhooks", |tables, _| {
            let all = tables.webhooks.range((from, Unbounded)).map(|(_, webhook)| webhook);
            let wanted = all.filter(|webhook| namespace.is_none_or(|only| webhook.name.namespace == only));
            wanted.take(limit as usize).cloned().collect()
        })
        .await
    }

    async fn deliveries(&self, page: &DeliveryPage) -> Result<Vec<Delivery>, Error> {
        self.read("deliveries", |tables, _| {
            let range = (page.webhook, 0)..(page.webhook, page.before.unwrap_or(u64::MAX));
            let all = tables.deliveries.range(range).rev().map(|(_, delivery)| delivery);
            let wanted = all.filter(|delivery| page.state.is_none_or(|state| delivery.state == state));
            let mut found: Vec<Delivery> = wanted.take(page.limit as usize).cloned().collect();
            if !page.bodies {
                found.iter_mut().for_each(|delivery| delivery.body = bytes::Bytes::new());
            }
            found
        })
        .await
    }
}
