//! Facts about keys, bulk jobs, webhooks and the inbox.

use super::events::{EventBody, time_data};
use super::{Recorded, WebhookChange};
use crate::api_key::ApiKeyId;
use crate::bulk_job::BulkJobId;
use crate::token::TokenKeyId;
use crate::{Name, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;
use uuid::Uuid;

/// An operator rotated the key that signs tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TokenKeysRotated {
    pub key: TokenKeyId,
    /// The time during which tokens of the old keys are still accepted, in milliseconds.
    pub grace_ms: i64,
}

impl Recorded for TokenKeysRotated {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { key, grace_ms } = self;
        let data = json!({ "key": key.to_string(), "grace_ms": grace_ms });
        vec![("operator.token_keys_rotated", data)]
    }
}

/// An administrator created an API key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApiKeyCreated {
    /// The key's id.
    pub key: ApiKeyId,
    /// The key's name.
    pub name: Name,
    /// The key's role.
    pub role: String,
    /// The namespaces in which the role applies.
    pub namespaces: Vec<Name>,
    /// The time from which the key is refused, if it expires.
    pub expires_at: Option<Timestamp>,
}

impl Recorded for ApiKeyCreated {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { key, name, role, namespaces, expires_at } = self;
        let mut data = time_data("expires_at", *expires_at);
        data["key"] = json!(key);
        data["name"] = json!(name);
        data["role"] = json!(role);
        data["namespaces"] = json!(namespaces);
        vec![("key.created", data)]
    }
}

/// An administrator revoked an API key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApiKeyRevoked {
    /// The key's id.
    pub key: ApiKeyId,
    /// The key's name.
    pub name: Name,
}

impl Recorded for ApiKeyRevoked {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { key, name } = self;
        vec![("key.revoked", json!({ "key": key, "name": name }))]
    }
}

/// An operator started a bulk job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BulkJobStarted {
    pub job: BulkJobId,
    /// The name of its action.
    pub action: String,
}

impl Recorded for BulkJobStarted {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { job, action } = self;
        vec![("operator.bulk_job_started", json!({ "job": job, "action": action }))]
    }
}

/// A bulk job has met all its executions, or was stopped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BulkJobEnded {
    pub job: BulkJobId,
    /// The name of its state.
    pub state: String,
    /// The number of executions that it changed.
    pub changed: u64,
    /// The number of executions that needed no change.
    pub unchanged: u64,
    /// The number of executions that refused the action.
    pub refused: u64,
}

impl Recorded for BulkJobEnded {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { job, state, changed, unchanged, refused } = self;
        let data = json!({
            "job": job, "state": state, "done": changed, "unchanged": unchanged, "refused": refused,
        });
        vec![("operator.bulk_job_ended", data)]
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WebhookChanged {
    pub webhook: Name,
    pub change: WebhookChange,
}

impl Recorded for WebhookChanged {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { webhook, change } = self;
        vec![webhook_event(webhook, change)]
    }
}

/// A submission from SQL was refused when a server took it in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InboxRefused {
    /// The number of its row in the inbox.
    pub number: i64,
    /// The id that the caller got, of the execution or the flow.
    pub id: Uuid,
    /// The stable code of the reason.
    pub code: String,
    pub detail: String,
    /// The JSON pointer to the refused field.
    pub pointer: Option<String>,
}

impl Recorded for InboxRefused {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { number, id, code, detail, pointer } = self;
        let data = json!({
            "number": number, "id": id, "code": code, "detail": detail, "pointer": pointer,
        });
        vec![("inbox.refused", data)]
    }
}

fn webhook_event(webhook: &Name, change: &WebhookChange) -> EventBody {
    let mut data = json!({ "webhook": webhook });
    let kind = match change {
        WebhookChange::Created => "webhook.created",
        WebhookChange::Changed => "webhook.changed",
        WebhookChange::Deleted => "webhook.deleted",
        WebhookChange::SecretRotated { grace_ms } => {
            data["grace_ms"] = json!(grace_ms);
            "webhook.secret_rotated"
        }
        WebhookChange::Paused(reason) => {
            data["reason"] = json!(reason.as_str());
            "webhook.paused"
        }
        WebhookChange::Missed { count, total } => {
            data["count"] = json!(count);
            data["total"] = json!(total);
            "webhook.missed"
        }
    };
    (kind, data)
}
