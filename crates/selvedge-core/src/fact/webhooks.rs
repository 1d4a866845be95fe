//! Facts about webhooks.

use super::declaration::declare;
use crate::Name;
use crate::webhook::PauseReason;
use serde::{Deserialize, Serialize};
use serde_json::json;

declare! {
    pub struct WebhookChanged { webhook: Name, change: WebhookChange, }
    events {
        let (kind, mut data) = match change {
            WebhookChange::Created => ("webhook.created", json!({})),
            WebhookChange::Changed => ("webhook.changed", json!({})),
            WebhookChange::Deleted => ("webhook.deleted", json!({})),
            WebhookChange::SecretRotated { grace_ms } => ("webhook.secret_rotated", json!({ "grace_ms": grace_ms })),
            WebhookChange::Paused(reason) => ("webhook.paused", json!({ "reason": reason.as_str() })),
            WebhookChange::Missed { count, total } => ("webhook.missed", json!({ "count": count, "total": total })),
        };
        data["webhook"] = json!(webhook);
        vec![(kind, data)]
    };
}

/// A change of a webhook. Stored: variants are only appended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum WebhookChange {
    /// An operator created it.
    Created,
    /// An operator changed or resumed it.
    Changed,
    /// An operator deleted it.
    Deleted,
    /// An operator rotated its secret.
    SecretRotated {
        /// The time for which the old secret signs, too, in milliseconds.
        grace_ms: i64,
    },
    /// It was paused.
    Paused(PauseReason),
    /// The log dropped events before they could be delivered.
    Missed {
        /// The number of these events.
        count: u64,
        /// The number of events that the webhook has missed so far.
        total: u64,
    },
}
