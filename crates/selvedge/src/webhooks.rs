//! Webhooks: settings to save, and webhooks and their deliveries as a program reads them.
//!
//! A server delivers; an embedded engine only configures webhooks. On Postgres the servers on the same database deliver
//! for it. The signature of a delivery is that of [Standard Webhooks](https://www.standardwebhooks.com).

use crate::wire::values::{duration, optional_time, time};
use crate::{ExecutionId, FlowId, Timestamp};
use selvedge_core::webhook::{EVERY_TYPE, SigningKey, WebhookConfig, check_types, check_url};
use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;
use uuid::Uuid;

pub use selvedge_core::webhook::{DeliveryId, DeliveryState, PauseReason};

/// The settings of a webhook.
///
/// ```
/// use selvedge::webhooks::WebhookSettings;
///
/// let failures = WebhookSettings::new("https://example.com/hook")
///     .event_type("execution.failed")
///     .tag("customer", "42");
/// # drop(failures);
/// ```
#[derive(Clone, PartialEq)]
pub struct WebhookSettings {
    url: String,
    types: Vec<String>,
    filter: selvedge_core::webhook::WebhookFilter,
    paused: bool,
}

impl WebhookSettings {
    /// Creates the settings of a webhook that gets every event at this URL.
    pub fn new(url: impl Into<String>) -> WebhookSettings {
        WebhookSettings {
            url: url.into(),
            types: Vec::new(),
            filter: selvedge_core::webhook::WebhookFilter::default(),
            paused: false,
        }
    }

    /// Adds a type of events to deliver, such as `execution.failed`. Default: events of every type.
    pub fn event_type(mut self, event: impl Into<String>) -> WebhookSettings {
        self.types.push(event.into());
        self
    }

    /// Delivers only events of this execution. Default: of all.
    pub fn execution(mut self, execution: ExecutionId) -> WebhookSettings {
        self.filter.execution = Some(execution);
        self
    }

    /// Delivers only events of this flow. Default: of all.
    pub fn flow(mut self, flow: FlowId) -> WebhookSettings {
        self.filter.flow = Some(flow);
        self
    }

    /// Delivers only events of executions with this tag. Default: of all.
    pub fn tag(mut self, name: impl Into<String>, value: impl Into<String>) -> WebhookSettings {
        self.filter.tag = Some((name.into(), value.into()));
        self
    }

    /// Sets whether the webhook is paused, so that nothing is delivered. Default: it is not.
    pub fn paused(mut self, paused: bool) -> WebhookSettings {
        self.paused = paused;
        self
    }

    /// Checks the form of the settings, and returns them as the engine saves them.
    pub(crate) fn config(self) -> Result<(WebhookConfig, bool), selvedge_core::Refusal> {
        check_url(&self.url).map_err(|detail| selvedge_core::Refusal::field("/url", detail))?;
        let types = check_types(self.types_or_all())?;
        Ok((WebhookConfig { url: self.url, types, filter: self.filter }, self.paused))
    }

    fn types_or_all(&self) -> Vec<String> {
        if self.types.is_empty() { vec![EVERY_TYPE.into()] } else { self.types.clone() }
    }

    /// Returns the body of a request that saves the settings.
    pub(crate) fn body(&self) -> WebhookBody<'_> {
        WebhookBody {
            url: &self.url,
            types: self.types_or_all(),
            filter: FilterBody {
                execution: self.filter.execution,
                flow: self.filter.flow,
                tag: self.filter.tag.as_ref().map(|(name, value)| format!("{name}:{value}")),
            },
            paused: self.paused,
        }
    }
}

/// The query of a URL may be a secret of the receiver, so it is not shown.
impl fmt::Debug for WebhookSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = self.url.split('?').next().unwrap_or_default();
        f.debug_struct("WebhookSettings")
            .field("url", &url)
            .field("types", &self.types)
            .finish_non_exhaustive()
    }
}

/// The settings of a webhook, as the HTTP API has them.
#[derive(Serialize)]
pub(crate) struct WebhookBody<'a> {
    url: &'a str,
    types: Vec<String>,
    filter: FilterBody,
    paused: bool,
}

#[derive(Serialize)]
struct FilterBody {
    #[serde(skip_serializing_if = "Option::is_none")]
    execution: Option<ExecutionId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    flow: Option<FlowId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tag: Option<String>,
}

/// A webhook as it was when the engine answered.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct Webhook {
    /// Unique in its namespace.
    pub name: String,
    /// The URL of the receiver. Callers that are not operators do not see its query.
    pub url: String,
    /// The types of events that are delivered; `*` alone stands for all.
    pub types: Vec<String>,
    /// The events that are delivered, of those types.
    pub filter: WebhookFilter,
    /// The reason of a pause; none while events are delivered.
    #[serde(rename = "paused_reason")]
    pub paused: Option<PauseReason>,
    /// The number of deliveries that are tried again.
    pub pending: u64,
    /// The number of deliveries that are not tried again.
    pub dead: u64,
    /// The number of events that were delivered so far.
    pub delivered: u64,
    /// The number of events that the log dropped before they could be delivered.
    pub missed: u64,
    /// The time of the creation.
    #[serde(deserialize_with = "time")]
    pub created_at: Timestamp,
    /// The time of the last delivery.
    #[serde(deserialize_with = "optional_time")]
    pub delivered_at: Option<Timestamp>,
    /// The time of the first failure since the last delivery.
    #[serde(deserialize_with = "optional_time")]
    pub failing_since_at: Option<Timestamp>,
    /// The error of the last failure since the last delivery.
    pub last_error: Option<String>,
    /// The time until which the old secret signs, too.
    #[serde(deserialize_with = "optional_time")]
    pub old_secret_expires_at: Option<Timestamp>,
}

/// Selects events. All conditions that are set must match.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct WebhookFilter {
    /// Only events of this execution.
    pub execution: Option<ExecutionId>,
    /// Only events of this flow.
    pub flow: Option<FlowId>,
    /// Only events of executions with this tag: its name and its value.
    #[serde(deserialize_with = "tag")]
    pub tag: Option<(String, String)>,
}

fn tag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<(String, String)>, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    match text.split_once(':') {
        Some((name, value)) => Ok(Some((name.to_owned(), value.to_owned()))),
        None => Err(D::Error::custom(format!("{text:?} is not a tag"))),
    }
}

impl From<selvedge_core::webhook::Webhook> for Webhook {
    fn from(webhook: selvedge_core::webhook::Webhook) -> Webhook {
        let detail = webhook.detail;
        let WebhookConfig { url, types, filter } = detail.config;
        Webhook {
            name: webhook.name.name.to_string(),
            url,
            types: if types.is_empty() { vec![EVERY_TYPE.into()] } else { types },
            filter: WebhookFilter { execution: filter.execution, flow: filter.flow, tag: filter.tag },
            paused: detail.paused,
            pending: detail.pending,
            dead: detail.dead,
            delivered: detail.delivered,
            missed: detail.missed,
            created_at: detail.created_at,
            delivered_at: detail.delivered_at,
            failing_since_at: detail.failing_since,
            last_error: detail.last_error,
            old_secret_expires_at: detail.keys.iter().filter_map(|key: &SigningKey| key.expires_at).max(),
        }
    }
}

/// A webhook that was saved.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct SavedWebhook {
    /// The webhook as it is stored.
    pub webhook: Webhook,
    /// The secret that signs its deliveries, if this call created the webhook. It is shown this once.
    pub secret: Option<String>,
}

/// The secret is not shown.
impl fmt::Debug for SavedWebhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SavedWebhook").field("webhook", &self.webhook).finish_non_exhaustive()
    }
}

/// A delivery of one event.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct Delivery {
    /// The id, which the receiver gets as `webhook-id`. A repeated delivery has the same one.
    pub id: DeliveryId,
    /// Pending while it is tried again; dead after days of failures.
    #[serde(deserialize_with = "delivery_state")]
    pub state: DeliveryState,
    /// The type of the event.
    #[serde(rename = "type")]
    pub event_type: String,
    /// The cursor of the event.
    pub event_cursor: String,
    /// The time of the event.
    #[serde(deserialize_with = "time")]
    pub event_at: Timestamp,
    /// The execution of the event.
    pub execution: Option<ExecutionId>,
    /// The flow of the event.
    pub flow: Option<FlowId>,
    /// The number of failures so far.
    pub failures: u32,
    /// The status of the last response.
    pub status: Option<u16>,
    /// The error of the last failure.
    pub error: Option<String>,
    /// The time of the next try.
    #[serde(deserialize_with = "optional_time")]
    pub next_attempt_at: Option<Timestamp>,
    /// The time at which it was delivered or given up.
    #[serde(deserialize_with = "optional_time")]
    pub ended_at: Option<Timestamp>,
}

fn delivery_state<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DeliveryState, D::Error> {
    let word = String::deserialize(deserializer)?;
    DeliveryState::parse(&word)
        .ok_or_else(|| D::Error::custom(format!("{word:?} is not a state of a delivery")))
}

impl From<selvedge_core::webhook::Delivery> for Delivery {
    fn from(delivery: selvedge_core::webhook::Delivery) -> Delivery {
        let detail = delivery.detail;
        Delivery {
            id: delivery.id,
            state: delivery.state,
            event_type: detail.kind,
            event_cursor: detail.cursor,
            event_at: detail.event_at,
            execution: detail.execution,
            flow: detail.flow,
            failures: detail.attempts,
            status: detail.status,
            error: detail.error,
            next_attempt_at: detail.next_at,
            ended_at: detail.ended_at,
        }
    }
}

/// The result of a test message.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct WebhookTest {
    /// The id of the message.
    pub id: Uuid,
    /// True if the receiver accepted the message.
    pub delivered: bool,
    /// The status of the response, if there was one.
    pub status: Option<u16>,
    /// The reason why the receiver has not accepted the message.
    pub error: Option<String>,
    /// The time from the lookup of the name to the response.
    #[serde(rename = "took_ms", deserialize_with = "duration")]
    pub took: Duration,
}
