//! The work of the server that owns a webhook: take and renew the lease, and record what was delivered.

use crate::fact::{self, Fact, WebhookChange};
use crate::rows::Needs;
use crate::rule::{Phase, Profile, Rule};
use crate::text::shortened;
use crate::webhook::{
    Attempted, DEAD_MAX, DELIVERED_KEPT, Delivery, DeliveryState, Outcome, PauseReason, Webhook, WebhookId,
    WebhookLease, WebhookName,
};
use crate::{Timestamp, Work};
use uuid::Uuid;

/// The maximum length of the stored error of an attempt, in bytes.
const ERROR_LIMIT: usize = 500;
/// The status by which a receiver says that it wants no more.
const GONE: u16 = 410;

/// Takes or renews the leases of webhooks, or ends them.
#[derive(Clone, Debug)]
pub struct LeaseWebhooks {
    /// The number of the server.
    pub owner: Uuid,
    pub names: Vec<WebhookName>,
    /// The time for which they are leased, in milliseconds. 0 ends the leases of this server.
    pub ttl_ms: i64,
}

impl Rule for LeaseWebhooks {
    /// The webhooks that the server owns now.
    type Reply = Vec<Webhook>;
    const PHASE: Phase = Phase::Cleanup;

    fn profile(&self) -> Profile {
        // Not in the commits of callers, which would wait for the rows.
        Profile { runs_alone: true, ..Profile::weighing(self.names.len().max(1)) }
    }

    fn needs(&self, _work: &Work, needs: &mut Needs) {
        needs.webhooks.lock(self.names.iter().cloned());
    }

    fn decide(&self, work: &mut Work) -> Vec<Webhook> {
        let now = work.now();
        let mut owned = Vec::new();
        for name in &self.names {
            let Some(mut webhook) = work.row::<Webhook>(name).cloned() else { continue };
            let detail = &mut webhook.detail;
            let is_own = detail.lease.is_some_and(|lease| lease.owner == self.owner);
            let is_free = detail.lease.is_none_or(|lease| lease.until <= now);
            if self.ttl_ms <= 0 {
                if is_own {
                    detail.lease = None;
                    work.put_webhook(webhook);
                }
                continue;
            }
            if !is_own && !is_free {
                continue;
            }
            // A server that lost its lease and takes it again must notice: its deliveries may have been repeated.
            if !is_own || is_free {
                detail.fence += 1;
            }
            detail.lease = Some(WebhookLease { owner: self.owner, until: now.plus_ms(self.ttl_ms) });
            work.put_webhook(webhook.clone());
            owned.push(webhook);
        }
        owned
    }
}

/// Records the outcome of attempts, and advances the position in the log. Refused unless the fence is that of the lease.
#[derive(Clone, Debug)]
pub struct RecordDeliveries {
    pub name: WebhookName,
    /// Its id: another webhook may have its name by now, with the same fence.
    pub id: WebhookId,
    /// The fence of the owner.
    pub fence: u64,
    /// The new position in the log; none if it stays.
    pub passed: Option<Passed>,
    /// The attempts, in the order of the log. New deliveries are numbered in this order.
    pub attempts: Vec<Attempted>,
    /// The number of events that are passed without a delivery, because the log drops them.
    pub missed: u64,
    /// When to try again, and when to give up.
    pub policy: RetryPolicy,
}

/// A position in the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Passed {
    pub cursor: String,
    /// The time of the log at the cursor. None: the time of the transaction, for the end of the log.
    pub at: Option<Timestamp>,
}

/// When a failed delivery is tried again, and when to give up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The pause after the first failure, in milliseconds. It doubles with every further one.
    pub first_ms: i64,
    /// The longest pause, in milliseconds.
    pub max_ms: i64,
    /// The time after the first failure from which a delivery that fails is dead, in milliseconds.
    pub give_up_ms: i64,
    /// The time without a success from which a webhook that fails is paused, in milliseconds.
    pub pause_ms: i64,
}

impl RetryPolicy {
    /// Returns the pause after this many failures, in milliseconds. `fraction` is from 0 to 1: the jitter.
    pub fn pause_after(&self, failures: u32, fraction: f64) -> i64 {
        let doubled = 2_f64.powi(failures.saturating_sub(1).min(60) as i32) * self.first_ms as f64;
        let pause = doubled.min(self.max_ms as f64);
        // From 80 % to 120 %.
        (pause * (0.8 + 0.4 * fraction)) as i64
    }
}

/// The reply to a record of deliveries.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// The webhook as it is now.
    pub webhook: Webhook,
    /// The deliveries that are still to be made, in the order of the attempts.
    pub pending: Vec<Delivery>,
    /// The number of deliveries that have become dead.
    pub dead: u64,
    /// The time of the transaction.
    pub now: Timestamp,
}

impl Rule for RecordDeliveries {
    /// None if the webhook is gone or has another owner: nothing was recorded.
    type Reply = Option<Recorded>;
    const PHASE: Phase = Phase::Cleanup;

    fn profile(&self) -> Profile {
        // Not in the commits of callers, which would wait for the rows.
        Profile { runs_alone: true, ..Profile::weighing(1 + self.attempts.len() / 4) }
    }

    fn needs(&self, _work: &Work, needs: &mut Needs) {
        needs.webhooks.lock([self.name.clone()]);
    }

    fn decide(&self, work: &mut Work) -> Option<Recorded> {
        let is_own = |row: &&Webhook| row.detail.id == self.id && row.detail.fence == self.fence;
        let mut webhook = work.row::<Webhook>(&self.name).filter(is_own)?.clone();
        let now = work.now();
        let mut tally = Tally::default();
        let mut pending = Vec::new();
        for Attempted { delivery, outcome } in &self.attempts {
            let mut delivery = delivery.clone();
            if delivery.number == 0 {
                delivery.number = webhook.detail.next_number;
                webhook.detail.next_number += 1;
                webhook.detail.pending += 1;
            }
            self.settle(&mut delivery, outcome, work, &mut tally);
            if delivery.state == DeliveryState::Pending {
                pending.push(delivery.clone());
            }
            work.put(delivery);
        }
        let detail = &mut webhook.detail;
        if let Some(Passed { cursor, at }) = &self.passed {
            detail.cursor.clone_from(cursor);
            detail.cursor_at = at.unwrap_or(now).max(detail.cursor_at);
        }
        detail.pending = detail.pending.saturating_sub(tally.delivered + tally.dead);
        detail.dead += tally.dead;
        detail.delivered += tally.delivered;
        detail.missed += self.missed;
        if tally.delivered > 0 {
            detail.delivered_at = Some(now);
            (detail.failing_since, detail.last_error) = (None, None);
        } else if let Some(error) = &tally.error {
            detail.failing_since.get_or_insert(now);
            detail.last_error = Some(error.clone());
        }
        let pause = pause_reason(&webhook, &tally, now, self.policy.pause_ms);
        let pause = pause.filter(|_| webhook.detail.paused.is_none());
        webhook.detail.paused = webhook.detail.paused.or(pause);
        if tally.delivered > 0 {
            let kept = webhook.detail.next_number.saturating_sub(DELIVERED_KEPT);
            work.prune_deliveries(webhook.detail.id, kept);
        }
        let emit = |work: &mut Work, change| {
            let fact = Fact::WebhookChanged(fact::WebhookChanged { webhook: self.name.name.clone(), change });
            work.emit(self.name.namespace, fact, None);
        };
        if self.missed > 0 {
            emit(work, WebhookChange::Missed { count: self.missed, total: webhook.detail.missed });
        }
        if let Some(reason) = pause {
            emit(work, WebhookChange::Paused(reason));
        }
        work.put_webhook(webhook);
        let webhook = work.row::<Webhook>(&self.name)?.clone();
        Some(Recorded { webhook, pending, dead: tally.dead, now })
    }
}

/// The outcomes of the attempts of one record.
#[derive(Default)]
struct Tally {
    delivered: u64,
    dead: u64,
    is_gone: bool,
    error: Option<String>,
}

impl RecordDeliveries {
    /// Sets the state of a delivery after an attempt.
    fn settle(&self, delivery: &mut Delivery, outcome: &Outcome, work: &mut Work, tally: &mut Tally) {
        let now = work.now();
        let detail = &mut delivery.detail;
        match outcome {
            Outcome::Delivered(status) => {
                tally.delivered += 1;
                delivery.state = DeliveryState::Delivered;
                (detail.status, detail.error) = (Some(*status), None);
                (detail.next_at, detail.ended_at) = (None, Some(now));
            }
            Outcome::Failed { status, error } => {
                let error = shortened(error.clone(), ERROR_LIMIT);
                tally.is_gone |= *status == Some(GONE);
                tally.error = Some(error.clone());
                detail.attempts += 1;
                (detail.status, detail.error) = (*status, Some(error));
                let first = *detail.failed_at.get_or_insert(now);
                if now.ms_since(first) >= self.policy.give_up_ms {
                    tally.dead += 1;
                    delivery.state = DeliveryState::Dead;
                    (detail.next_at, detail.ended_at) = (None, Some(now));
                } else {
                    let pause = self.policy.pause_after(detail.attempts, work.entropy().fraction());
                    detail.next_at = Some(now.plus_ms(pause));
                }
            }
            Outcome::Waits => {}
        }
    }
}

/// Returns the reason to pause a webhook after these outcomes.
fn pause_reason(webhook: &Webhook, tally: &Tally, now: Timestamp, pause_ms: i64) -> Option<PauseReason> {
    let detail = &webhook.detail;
    let is_failing = detail.failing_since.is_some_and(|since| now.ms_since(since) >= pause_ms);
    if tally.is_gone {
        Some(PauseReason::Gone)
    } else if tally.dead > 0 && detail.dead >= DEAD_MAX {
        Some(PauseReason::DeadLetters)
    } else {
        (is_failing && tally.error.is_some()).then_some(PauseReason::Failing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_doubles_up_to_its_maximum_with_a_jitter_of_a_fifth() {
        let policy = RetryPolicy { first_ms: 5000, max_ms: 3_600_000, give_up_ms: 1, pause_ms: 1 };
        let pauses: Vec<i64> = (1..=4).map(|failures| policy.pause_after(failures, 0.5)).collect();
        assert_eq!(pauses, [5000, 10_000, 20_000, 40_000]);
        assert_eq!(policy.pause_after(1, 0.0), 4000);
        assert_eq!(policy.pause_after(u32::MAX, 0.5), 3_600_000);
    }
}
