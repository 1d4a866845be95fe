//! The calls of operators: create, change and delete a webhook, rotate its secret, replay a delivery.

use super::existing;
use crate::fact::{self, Fact, WebhookChange};
use crate::gate::patch::Change;
use crate::rows::Needs;
use crate::rule::{Phase, Profile, Rule};
use crate::rules::keyed::Repeatable;
use crate::submission::check_duration;
use crate::webhook::{
    Delivery, DeliveryId, DeliveryState, KEYS_MAX, PauseReason, SigningKey, Webhook, WebhookConfig,
    WebhookDetail, WebhookFilter, WebhookId, WebhookName,
};
use crate::{Name, NamespaceId, Refusal, Work};

/// Creates, changes or deletes a webhook.
#[derive(Clone, Debug)]
pub struct ConfigureWebhook {
    pub name: WebhookName,
    pub setting: WebhookSetting,
    pub actor: Name,
}

/// A change of a webhook.
#[derive(Clone, Debug)]
pub enum WebhookSetting {
    /// Creates the webhook, or replaces its configuration.
    Replace {
        config: WebhookConfig,
        /// True to pause it, false to resume it.
        paused: bool,
        /// The rest of a new webhook.
        new: NewWebhook,
    },
    /// Changes some fields. Refused if there is no such webhook.
    Patch(WebhookPatch),
    /// Deletes the webhook with its deliveries. Refused if there is none.
    Remove,
}

/// The parts of a new webhook that a caller does not choose.
#[derive(Clone, Debug)]
pub struct NewWebhook {
    pub id: WebhookId,
    /// The end of the event log: events after it are delivered.
    pub cursor: String,
    /// The fingerprint of the root secret.
    pub fingerprint: i64,
}

/// A change of some fields of a webhook.
#[derive(Clone, Debug, Default)]
pub struct WebhookPatch {
    /// The new URL.
    pub url: Option<String>,
    /// The new event types.
    pub types: Option<Vec<String>>,
    /// The new filter.
    pub filter: Change<WebhookFilter>,
    /// True to pause it, false to resume it.
    pub paused: Option<bool>,
}

/// The reply to a change of a webhook.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfiguredWebhook {
    /// The webhook; as it was, if it was deleted.
    pub webhook: Webhook,
    /// The webhook did not exist before.
    pub created: bool,
}

impl Rule for ConfigureWebhook {
    type Reply = Result<ConfiguredWebhook, Refusal>;
    const PHASE: Phase = Phase::Operators;

    fn profile(&self) -> Profile {
        Profile::weighing(1)
    }

    fn needs(&self, _work: &Work, needs: &mut Needs) {
        needs.webhooks.lock([self.name.clone()]);
    }

    fn decide(&self, work: &mut Work) -> Self::Reply {
        match &self.setting {
            WebhookSetting::Replace { config, paused, new } => match work.row::<Webhook>(&self.name).cloned()
            {
                Some(webhook) => Ok(self.change(work, webhook, config.clone(), Some(*paused))),
                None => Ok(self.create(work, config.clone(), *paused, new)),
            },
            WebhookSetting::Patch(patch) => {
                let webhook = existing(work, &self.name)?;
                let before = webhook.detail.config.clone();
                let config = WebhookConfig {
                    url: patch.url.clone().unwrap_or(before.url),
                    types: patch.types.clone().unwrap_or(before.types),
                    filter: match &patch.filter {
                        Change::Keep => before.filter,
                        Change::Clear => WebhookFilter::default(),
                        Change::Set(filter) => filter.clone(),
                    },
                };
                Ok(self.change(work, webhook, config, patch.paused))
            }
            WebhookSetting::Remove => {
                let webhook = existing(work, &self.name)?;
                work.remove_webhook(&webhook);
                self.emit(work, WebhookChange::Deleted);
                Ok(ConfiguredWebhook { webhook, created: false })
            }
        }
    }
}

impl ConfigureWebhook {
    fn emit(&self, work: &mut Work, change: WebhookChange) {
        let fact = Fact::WebhookChanged(fact::WebhookChanged { webhook: self.name.name.clone(), change });
        work.emit(self.name.namespace, fact, Some(self.actor.clone()));
    }

    fn create(
        &self,
        work: &mut Work,
        config: WebhookConfig,
        paused: bool,
        new: &NewWebhook,
    ) -> ConfiguredWebhook {
        let now = work.now();
        let webhook = Webhook {
            name: self.name.clone(),
            version: 1,
            detail: WebhookDetail {
                id: new.id,
                config,
                paused: paused.then_some(PauseReason::Operator),
                keys: vec![SigningKey { number: 1, fingerprint: new.fingerprint, expires_at: None }],
                created_at: now,
                cursor: new.cursor.clone(),
                cursor_at: now,
                next_number: 1,
                pending: 0,
                dead: 0,
                delivered: 0,
                missed: 0,
                delivered_at: None,
                failing_since: None,
                last_error: None,
                lease: None,
                fence: 0,
                generation: 1,
            },
        };
        work.put_webhook(webhook.clone());
        self.emit(work, WebhookChange::Created);
        if paused {
            self.emit(work, WebhookChange::Paused(PauseReason::Operator));
        }
        ConfiguredWebhook { webhook, created: true }
    }

    /// Changes the configuration of a webhook. A webhook that is resumed begins without failures.
    fn change(
        &self,
        work: &mut Work,
        mut webhook: Webhook,
        config: WebhookConfig,
        paused: Option<bool>,
    ) -> ConfiguredWebhook {
        let before = webhook.detail.clone();
        let detail = &mut webhook.detail;
        detail.config = config;
        match paused {
            Some(true) => detail.paused = Some(detail.paused.unwrap_or(PauseReason::Operator)),
            Some(false) => {
                detail.paused = None;
                if before.paused.is_some() {
                    (detail.failing_since, detail.last_error) = (None, None);
                }
            }
            None => {}
        }
        if *detail != before {
            detail.generation += 1;
            let pauses = detail.paused.filter(|_| before.paused.is_none());
            work.put_webhook(webhook);
            self.emit(work, pauses.map_or(WebhookChange::Changed, WebhookChange::Paused));
            // The row in the transaction has the new version.
            webhook = work.row::<Webhook>(&self.name).cloned().expect("the webhook was just written");
        }
        ConfiguredWebhook { webhook, created: false }
    }
}

/// Creates a new signing key. The old ones sign until the end of the grace period, too.
#[derive(Clone, Debug)]
pub struct RotateWebhookSecret {
    pub name: WebhookName,
    /// The grace period, in milliseconds.
    pub grace_ms: i64,
    /// The fingerprint of the root secret.
    pub fingerprint: i64,
    pub actor: Name,
}

/// The reply to a rotation.
#[derive(Clone, Debug, PartialEq)]
pub struct RotatedSecret {
    pub webhook: Webhook,
    /// The number of the key that the call created.
    pub key: u32,
}

impl Rule for RotateWebhookSecret {
    type Reply = Result<RotatedSecret, Refusal>;
    const PHASE: Phase = Phase::Operators;

    fn profile(&self) -> Profile {
        Profile::weighing(1)
    }

    fn needs(&self, _work: &Work, needs: &mut Needs) {
        needs.webhooks.lock([self.name.clone()]);
    }

    fn decide(&self, work: &mut Work) -> Self::Reply {
        check_duration("/grace_ms", self.grace_ms)?;
        let mut webhook = existing(work, &self.name)?;
        let (now, detail) = (work.now(), &mut webhook.detail);
        let key = detail.keys.iter().map(|key| key.number).max().unwrap_or(0) + 1;
        let expires_at = now.plus_ms(self.grace_ms);
        for key in &mut detail.keys {
            // An earlier grace period is neither shortened nor extended.
            key.expires_at.get_or_insert(expires_at);
        }
        detail.keys.retain(|key| key.expires_at.is_some_and(|at| at > now));
        detail.keys.push(SigningKey { number: key, fingerprint: self.fingerprint, expires_at: None });
        let surplus = detail.keys.len().saturating_sub(KEYS_MAX);
        detail.keys.drain(..surplus);
        detail.generation += 1;
        work.put_webhook(webhook);
        let change = WebhookChange::SecretRotated { grace_ms: self.grace_ms };
        let fact = Fact::WebhookChanged(fact::WebhookChanged { webhook: self.name.name.clone(), change });
        work.emit(self.name.namespace, fact, Some(self.actor.clone()));
        Ok(RotatedSecret { webhook: existing(work, &self.name)?, key })
    }
}

impl Repeatable for RotateWebhookSecret {
    type Done = RotatedSecret;
    type Answer = u32;

    fn namespace(&self) -> NamespaceId {
        self.name.namespace
    }

    fn answer(done: &RotatedSecret) -> u32 {
        done.key
    }

    /// Returns the webhook as it is now.
    fn repeat(&self, key: u32, work: &Work) -> Result<RotatedSecret, Refusal> {
        Ok(RotatedSecret { webhook: existing(work, &self.name)?, key })
    }
}

/// Delivers an event again, now: one that was delivered, is dead, or is tried again later.
#[derive(Clone, Debug)]
pub struct ReplayDelivery {
    pub name: WebhookName,
    pub id: DeliveryId,
}

impl Rule for ReplayDelivery {
    type Reply = Result<Delivery, Refusal>;
    const PHASE: Phase = Phase::Operators;

    fn profile(&self) -> Profile {
        Profile::weighing(1)
    }

    fn needs(&self, _work: &Work, needs: &mut Needs) {
        needs.webhooks.lock([self.name.clone()]);
        needs.deliveries.read([self.id]);
    }

    fn decide(&self, work: &mut Work) -> Self::Reply {
        let mut webhook = existing(work, &self.name)?;
        let mut delivery = self.find(work, &webhook)?;
        let (now, detail) = (work.now(), &mut webhook.detail);
        match delivery.state {
            // Keeps its place among the deliveries of its execution.
            DeliveryState::Pending => {}
            DeliveryState::Delivered | DeliveryState::Dead => {
                let was_dead = delivery.state == DeliveryState::Dead;
                detail.dead = detail.dead.saturating_sub(u64::from(was_dead));
                detail.pending += 1;
                delivery.state = DeliveryState::Pending;
                delivery.detail.is_replay = true;
                delivery.detail.ended_at = None;
            }
        }
        (delivery.detail.attempts, delivery.detail.failed_at) = (0, None);
        delivery.detail.next_at = Some(now);
        detail.generation += 1;
        work.put_webhook(webhook);
        work.put(delivery.clone());
        Ok(delivery)
    }
}

impl ReplayDelivery {
    fn find(&self, work: &Work, webhook: &Webhook) -> Result<Delivery, Refusal> {
        let found = work.delivery(self.id).filter(|delivery| delivery.webhook == webhook.detail.id);
        let not_found = || Refusal::NotFound { what: "delivery".into(), id: self.id.to_string() };
        found.cloned().ok_or_else(not_found)
    }
}

impl Repeatable for ReplayDelivery {
    type Done = Delivery;
    type Answer = ();

    fn namespace(&self) -> NamespaceId {
        self.name.namespace
    }

    fn answer(_done: &Delivery) {}

    /// Returns the delivery as it is now.
    fn repeat(&self, (): (), work: &Work) -> Result<Delivery, Refusal> {
        self.find(work, &existing(work, &self.name)?)
    }
}
