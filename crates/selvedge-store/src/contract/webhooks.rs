//! Reads of webhooks and their deliveries.

use crate::{DeliveryPage, Error};
use async_trait::async_trait;
use selvedge_core::NamespaceId;
use selvedge_core::webhook::{Delivery, Webhook, WebhookName};

#[async_trait]
pub trait WebhookReads: Send + Sync {
    async fn webhook(&self, name: &WebhookName) -> Result<Option<Webhook>, Error>;
    /// Returns a page of the webhooks of a namespace, or of all namespaces, by namespace and name. Unreadable rows are
    /// omitted.
    async fn webhooks(
        &self,
        namespace: Option<NamespaceId>,
        after: Option<&WebhookName>,
        limit: u32,
    ) -> Result<Vec<Webhook>, Error>;
    /// Returns a page of the deliveries of a webhook, newest first.
    async fn deliveries(&self, page: &DeliveryPage) -> Result<Vec<Delivery>, Error>;
}
