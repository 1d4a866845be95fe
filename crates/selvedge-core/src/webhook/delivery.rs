//! Deliveries: one event for one webhook.

use super::WebhookId;
use crate::{ExecutionId, FlowId, Timestamp};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;
use uuid::Uuid;

/// The id of a delivery, which receivers get as `webhook-id`. Derived from the webhook and the cursor of the event: a
/// repeated delivery has the same id, on every server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DeliveryId(pub Uuid);

impl DeliveryId {
    /// Returns the id of the delivery of an event.
    pub fn of(webhook: WebhookId, cursor: &str) -> DeliveryId {
        let digest = Sha256::new().chain_update(webhook.0.as_bytes()).chain_update(cursor).finalize();
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest[..16]);
        DeliveryId(uuid::Builder::from_custom_bytes(bytes).into_uuid())
    }
}

impl fmt::Display for DeliveryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeliveryState {
    /// It failed and is tried again, or it waits for an earlier event of the same execution.
    Pending,
    /// The receiver accepted it.
    Delivered,
    /// It failed for days and is not tried again, unless an operator replays it.
    Dead,
}

impl DeliveryState {
    pub const ALL: [DeliveryState; 3] = [Self::Pending, Self::Delivered, Self::Dead];

    /// Returns the public word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::Dead => "dead",
        }
    }

    /// Returns the state with this public word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }

    /// Returns the stored number. Never changes.
    pub fn code(self) -> i16 {
        match self {
            Self::Pending => 1,
            Self::Delivered => 2,
            Self::Dead => 3,
        }
    }

    /// Returns the state with this stored number.
    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.code() == code)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Delivery {
    pub webhook: WebhookId,
    /// The number of the delivery, in the order of the log. 0 until it is saved.
    pub number: u64,
    pub id: DeliveryId,
    pub state: DeliveryState,
    pub detail: DeliveryDetail,
    /// The event as JSON, byte for byte as it is sent. Empty in a list without bodies.
    pub body: Bytes,
}

/// The part of a delivery's row that no index needs. Stored as JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeliveryDetail {
    /// The cursor of the event.
    pub cursor: String,
    /// The type of the event.
    pub kind: String,
    /// The time of the event.
    pub event_at: Timestamp,
    /// The execution of the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<ExecutionId>,
    /// The flow of the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<FlowId>,
    /// A replay was requested: it neither waits for other deliveries nor delays any.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_replay: bool,
    /// The number of failed attempts, since the last replay.
    #[serde(default)]
    pub attempts: u32,
    /// The time of the first failed attempt, since the last replay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_at: Option<Timestamp>,
    /// The time of the next attempt; none if there is none, or if the delivery waits for an earlier one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_at: Option<Timestamp>,
    /// The time at which it was delivered or became dead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// The status of the last response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The error of the last attempt, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl DeliveryDetail {
    /// Returns the form in which a store keeps it, a JSON object.
    pub fn encode(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl Delivery {
    /// Returns the id by which deliveries are ordered: a delivery waits for earlier ones with the same id. None for a
    /// replay and for events of no execution and no flow.
    pub fn order(&self) -> Option<Uuid> {
        let DeliveryDetail { execution, flow, is_replay, .. } = &self.detail;
        execution.map(|id| id.0).or(flow.map(|id| id.0)).filter(|_| !is_replay)
    }
}

/// A delivery and the outcome of an attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempted {
    /// The delivery as it was before the attempt.
    pub delivery: Delivery,
    pub outcome: Outcome,
}

/// The outcome of an attempt to deliver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The receiver answered with this status, from 200 to 299.
    Delivered(u16),
    /// The attempt failed.
    Failed {
        /// The status of the response, if there was one.
        status: Option<u16>,
        error: String,
    },
    /// There was no attempt, because an earlier event of the same execution is still to be delivered.
    Waits,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_delivery_depends_on_the_webhook_and_the_event_alone() {
        let (one, other) = (WebhookId(Uuid::from_u128(1)), WebhookId(Uuid::from_u128(2)));
        assert_eq!(DeliveryId::of(one, "a"), DeliveryId::of(one, "a"));
        assert_ne!(DeliveryId::of(one, "a"), DeliveryId::of(one, "b"));
        assert_ne!(DeliveryId::of(one, "a"), DeliveryId::of(other, "a"));
    }
}
