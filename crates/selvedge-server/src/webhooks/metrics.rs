//! The metrics of the sender: deliveries by outcome and their time, and the backlog of each webhook that this server works on.

use selvedge_core::webhook::{Outcome, Webhook};
use selvedge_core::{Name, Timestamp};
use selvedge_engine::{Family, Histogram, NAMED_MAX, OTHER};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The outcomes of attempts, in the order of the counters.
const OUTCOMES: [&str; 4] = ["delivered", "failed", "dead", "missed"];

/// The metrics of the sender. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct WebhookMetrics(Arc<Counters>);

#[derive(Debug)]
struct Counters {
    outcomes: [AtomicU64; OUTCOMES.len()],
    time: Histogram,
    webhooks: Mutex<BTreeMap<(Name, Name), Backlog>>,
}

impl Default for Counters {
    fn default() -> Self {
        Counters { outcomes: Default::default(), time: Histogram::of_durations(), webhooks: Mutex::default() }
    }
}

/// The backlog of a webhook.
#[derive(Clone, Copy, Debug, Default)]
struct Backlog {
    pending: u64,
    dead: u64,
    missed: u64,
    /// The time since which events wait; none if the webhook has taken all of them.
    behind_since: Option<Timestamp>,
}

impl WebhookMetrics {
    fn webhooks(&self) -> MutexGuard<'_, BTreeMap<(Name, Name), Backlog>> {
        self.0.webhooks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an attempt.
    pub fn observe(&self, outcome: &Outcome, time: Duration) {
        let index = match outcome {
            Outcome::Delivered(_) => 0,
            Outcome::Failed { .. } => 1,
            Outcome::Waits => return,
        };
        self.0.outcomes[index].fetch_add(1, Relaxed);
        self.0.time.add_time(time);
    }

    /// Counts deliveries that have become dead, and events that were missed.
    pub fn count_lost(&self, dead: u64, missed: u64) {
        self.0.outcomes[2].fetch_add(dead, Relaxed);
        self.0.outcomes[3].fetch_add(missed, Relaxed);
    }

    /// Records the backlog of a webhook.
    pub fn show(&self, namespace: &Name, webhook: &Webhook, is_caught_up: bool) {
        let detail = &webhook.detail;
        let backlog = Backlog {
            pending: detail.pending,
            dead: detail.dead,
            missed: detail.missed,
            behind_since: (!is_caught_up).then_some(detail.cursor_at),
        };
        self.webhooks().insert((namespace.clone(), webhook.name.name.clone()), backlog);
    }

    /// Forgets a webhook that this server no longer works on.
    pub fn forget(&self, namespace: &Name, webhook: &Name) {
        self.webhooks().remove(&(namespace.clone(), webhook.clone()));
    }

    /// Returns the metrics as families. `now` is the time of the store.
    pub fn families(&self, now: Timestamp) -> Vec<Family> {
        let mut attempts = Family::counter(
            "webhook_deliveries_total",
            "Attempts to deliver, by outcome; deliveries that became dead; events that the log dropped.",
        );
        for (outcome, count) in OUTCOMES.iter().zip(&self.0.outcomes) {
            attempts.add(&[("outcome", outcome)], count.load(Relaxed) as f64);
        }
        let mut time = Family::histogram("webhook_delivery_seconds", "Time of an attempt to deliver.");
        time.add_histogram(&[], &self.0.time);
        let mut pending = Family::gauge("webhook_pending", "Deliveries that are tried again.");
        let mut dead = Family::gauge("webhook_dead", "Deliveries that are not tried again.");
        let mut missed =
            Family::gauge("webhook_missed", "Events that the log dropped before their delivery.");
        let mut lag = Family::gauge(
            "webhook_lag_seconds",
            "Age of the oldest event that a webhook of this server has not taken from the log.",
        );
        let age = |backlog: &Backlog| {
            backlog.behind_since.map_or(0.0, |since| now.ms_since(since).max(0) as f64 / 1000.0)
        };
        let webhooks = self.webhooks();
        let mut rest: Option<(Backlog, f64)> = None;
        let mut add = |namespace: &str, webhook: &str, backlog: &Backlog, age: f64| {
            let labels = [("namespace", namespace), ("webhook", webhook)];
            pending.add(&labels, backlog.pending as f64);
            dead.add(&labels, backlog.dead as f64);
            missed.add(&labels, backlog.missed as f64);
            lag.add(&labels, age);
        };
        for (index, ((namespace, webhook), backlog)) in webhooks.iter().enumerate() {
            if index < NAMED_MAX {
                add(namespace, webhook, backlog, age(backlog));
                continue;
            }
            let (sum, oldest) = rest.get_or_insert_default();
            sum.pending += backlog.pending;
            sum.dead += backlog.dead;
            sum.missed += backlog.missed;
            *oldest = oldest.max(age(backlog));
        }
        if let Some((sum, oldest)) = rest {
            add(OTHER, OTHER, &sum, oldest);
        }
        vec![attempts, time, pending, dead, missed, lag]
    }
}
