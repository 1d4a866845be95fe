//! Webhooks: configured by operators (`configure`), worked on by one server at a time (`deliver`).
//!
//! Every rule locks the row of its webhook, which is the lock for all of its deliveries.

mod configure;
mod deliver;

pub use configure::{
    ConfigureWebhook, ConfiguredWebhook, NewWebhook, ReplayDelivery, RotateWebhookSecret, RotatedSecret,
    WebhookPatch, WebhookSetting,
};
pub use deliver::{LeaseWebhooks, Passed, RecordDeliveries, Recorded, RetryPolicy};

use crate::webhook::{Webhook, WebhookName};
use crate::{Refusal, Work};

/// Returns a webhook. Refuses one that does not exist.
fn existing(work: &Work, name: &WebhookName) -> Result<Webhook, Refusal> {
    let not_found = || Refusal::NotFound { what: "webhook".into(), id: name.name.to_string() };
    work.row::<Webhook>(name).cloned().ok_or_else(not_found)
}
