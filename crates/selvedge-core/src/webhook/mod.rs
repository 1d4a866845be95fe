//! Webhooks: durable subscriptions to the event log that are delivered to a URL, and the record of their deliveries.
//!
//! A webhook has a position in the log, its *cursor*. Every event up to the cursor was delivered, has a delivery row that is
//! tried again, or is counted as missed. One transaction advances the cursor and writes those rows, so a crash between the
//! delivery and its record repeats the delivery, with the same id, and loses none.
//!
//! One server at a time works on a webhook: the row names the owner, until when it owns the webhook, and a fence that rises
//! with every new owner. A transaction with an older fence changes nothing.
//!
//! Signing secrets are derived from the root secret, the id of the webhook and the number of the key. Only numbers are
//! stored.

mod check;
mod delivery;
mod signature;

pub use check::{check_types, check_url};
pub use delivery::{Attempted, Delivery, DeliveryDetail, DeliveryId, DeliveryState, Outcome};
pub use signature::{SECRET_PREFIX, secret_text, sign};

use crate::{ExecutionId, FlowId, Name, NamespaceId, Timestamp};
use serde::{Deserialize, Serialize};
use std::fmt;
use uuid::Uuid;

/// The number of delivered deliveries that are kept for each webhook: those with the newest numbers.
pub const DELIVERED_KEPT: u64 = 1000;
/// The number of pending deliveries at which a webhook takes no further events from the log.
pub const PENDING_MAX: u64 = 1000;
/// The number of dead deliveries at which a webhook is paused.
pub const DEAD_MAX: u64 = 10_000;
/// The maximum number of keys that sign at the same time.
pub const KEYS_MAX: usize = 5;
/// The maximum length of a URL, in bytes.
pub const URL_LIMIT: usize = 2048;
/// The word that stands for every event type, alone in a list of types.
pub const EVERY_TYPE: &str = "*";

/// The id of a webhook. A webhook that is deleted and created again has another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WebhookId(pub Uuid);

impl fmt::Display for WebhookId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The name of a webhook in its namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WebhookName {
    pub namespace: NamespaceId,
    pub name: Name,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Webhook {
    pub name: WebhookName,
    /// The version of the row.
    pub version: u32,
    pub detail: WebhookDetail,
}

/// The part of a webhook's row that no index needs. Stored as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WebhookDetail {
    pub id: WebhookId,
    pub config: WebhookConfig,
    /// The reason of a pause; none while events are delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<PauseReason>,
    /// The keys that sign, oldest first. The last one has no expiry.
    pub keys: Vec<SigningKey>,
    /// The time of the creation.
    pub created_at: Timestamp,
    /// The position in the event log.
    pub cursor: String,
    /// The time of the log at the cursor: no event before it is still to be taken.
    pub cursor_at: Timestamp,
    /// The number of the next delivery.
    pub next_number: u64,
    /// The number of pending deliveries.
    #[serde(default)]
    pub pending: u64,
    /// The number of dead deliveries.
    #[serde(default)]
    pub dead: u64,
    /// The number of events that were delivered so far.
    #[serde(default)]
    pub delivered: u64,
    /// The number of events that the log dropped before they could be delivered.
    #[serde(default)]
    pub missed: u64,
    /// The time of the last success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered_at: Option<Timestamp>,
    /// The time of the first failure since the last success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing_since: Option<Timestamp>,
    /// The error of the last failure since the last success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// The server that works on the webhook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<WebhookLease>,
    /// The number of owners so far.
    #[serde(default)]
    pub fence: u64,
    /// A number that rises with every change by a caller: the owner then reads the webhook and its deliveries again.
    #[serde(default)]
    pub generation: u32,
}

impl WebhookDetail {
    /// Returns the form in which a store keeps it, a JSON object.
    pub fn encode(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns the keys that sign at this time.
    pub fn signing_keys(&self, now: Timestamp) -> impl Iterator<Item = &SigningKey> {
        self.keys.iter().filter(move |key| key.expires_at.is_none_or(|at| at > now))
    }
}

/// The configuration of a webhook.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WebhookConfig {
    /// The URL of the receiver.
    pub url: String,
    /// The event types that are delivered. Empty: all.
    pub types: Vec<String>,
    /// Only events that match.
    #[serde(default)]
    pub filter: WebhookFilter,
}

/// A filter of events. All conditions that are set must match. Default: every event.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WebhookFilter {
    /// Only events of this execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<ExecutionId>,
    /// Only events of this flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<FlowId>,
    /// Only events of executions with this tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<(String, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PauseReason {
    /// An operator paused the webhook.
    Operator,
    /// All deliveries failed for days.
    Failing,
    /// The receiver answered 410 Gone.
    Gone,
    /// The webhook has [`DEAD_MAX`] dead deliveries.
    DeadLetters,
}

impl PauseReason {
    pub const ALL: [PauseReason; 4] = [Self::Operator, Self::Failing, Self::Gone, Self::DeadLetters];

    /// Returns the public word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Failing => "failing",
            Self::Gone => "gone",
            Self::DeadLetters => "dead_letters",
        }
    }
}

/// A key that signs deliveries. The secret is derived from the root secret with this fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SigningKey {
    pub number: u32,
    /// The fingerprint of the root secret.
    pub fingerprint: i64,
    /// The time from which it no longer signs; none for the current key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// The server that works on a webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookLease {
    /// The number of the server.
    pub owner: Uuid,
    /// The time from which another server may take over.
    pub until: Timestamp,
}
