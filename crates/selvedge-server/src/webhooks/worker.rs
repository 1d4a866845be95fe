//! The worker of one webhook: subscribes to the log, delivers, and records.
//!
//! Events are taken from the log only while the receiver works: after many failures in a row the worker tries one delivery at
//! a time, and the log is the queue. What the log is about to drop meanwhile is passed and counted as missed, a little before
//! the log drops it, so that the count is exact.

use super::WebhookOptions;
use super::batch::{Sending, chains};
use super::client::Receiver;
use super::pending::Pending;
use super::supervisor::LeaseEnd;
use crate::shutdown::ShutdownWatch;
use crate::wire::views;
use selvedge_core::rules::webhook::{Passed, RecordDeliveries};
use selvedge_core::webhook::{
    Attempted, Delivery, DeliveryDetail, DeliveryId, DeliveryState, Outcome, PENDING_MAX, Webhook, WebhookId,
};
use selvedge_engine::{Error, EventFilter, From, Namespace, Notice, PublicEvent, Subscription};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::time::{sleep, sleep_until};

/// The most events of a batch.
const BATCH: usize = 256;
/// The number of failures in a row after which the worker tries one delivery at a time and takes no further events.
const FAILING_AFTER: u32 = 20;
/// The interval at which the position is saved if no event is selected.
const SAVE_INTERVAL: Duration = Duration::from_secs(60);
/// The longest pause of a worker that waits for nothing in particular.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// The pause between two attempts to read or to save, if the store is away.
const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// The longest time before the end of the log's window at which events are given up.
const MARGIN_MAX: Duration = Duration::from_secs(600);

/// The worker of a webhook.
pub struct Worker {
    namespace: Namespace,
    options: Arc<WebhookOptions>,
    updates: watch::Receiver<Webhook>,
    lease: LeaseEnd,
    shutdown: ShutdownWatch,
    webhook: Webhook,
    receiver: Receiver,
    pending: Pending,
    /// False until the pending deliveries are read.
    is_loaded: bool,
    /// The subscription to the log; none while events are not taken.
    feed: Option<Subscription>,
    /// The number of failures since the last success.
    failures: u32,
    saved_at: Instant,
}

/// The reason why a worker ends: the webhook is gone, or another server owns it.
struct Lost;

impl Worker {
    /// Returns a worker that has not read anything yet.
    pub fn new(
        namespace: Namespace,
        options: Arc<WebhookOptions>,
        mut updates: watch::Receiver<Webhook>,
        lease: LeaseEnd,
        shutdown: ShutdownWatch,
    ) -> Worker {
        let webhook = updates.borrow_and_update().clone();
        let receiver = Receiver::new(&webhook.detail.config.url, options.clone());
        Worker {
            namespace,
            options,
            updates,
            lease,
            shutdown,
            webhook,
            receiver,
            pending: Pending::default(),
            is_loaded: false,
            feed: None,
            failures: 0,
            saved_at: Instant::now(),
        }
    }

    /// Works until the server shuts down or the webhook is lost.
    pub async fn run(mut self) {
        while !self.shutdown.is_shutting_down() {
            if self.updates.has_changed().unwrap_or(false) {
                let webhook = self.updates.borrow_and_update().clone();
                self.replace(webhook);
            }
            if !self.is_loaded {
                self.load_pending().await;
                continue;
            }
            if !self.lease.lasts(self.options.timeout) {
                // The supervisor renews the lease, or ends this worker.
                sleep(Duration::from_millis(50)).await;
                continue;
            }
            match self.step().await {
                Ok(()) => {}
                Err(Lost) => return,
            }
        }
    }

    /// Reads the pending deliveries.
    async fn load_pending(&mut self) {
        let engine = self.namespace.engine();
        match engine.pending_deliveries(self.webhook.detail.id).await {
            Ok(found) => {
                self.pending = Pending::default();
                self.pending.add(found, engine.store_time());
                self.is_loaded = true;
            }
            Err(error) => {
                tracing::warn!(%error, webhook = %self.webhook.name.name, "cannot read pending deliveries");
                sleep(RETRY_PAUSE).await;
            }
        }
    }

    /// Takes over the row of the webhook, if a caller has changed it. Then the pending deliveries are read again, because
    /// some may have been replayed. Returns false if the row is not newer.
    fn replace(&mut self, webhook: Webhook) -> bool {
        let (before, after) = (&self.webhook.detail, &webhook.detail);
        if after.generation <= before.generation {
            return false;
        }
        if before.config != after.config {
            self.receiver = Receiver::new(&after.config.url, self.options.clone());
            self.feed = None;
            self.failures = 0;
        }
        if before.paused.is_some() != after.paused.is_some() {
            (self.feed, self.failures) = (None, 0);
            self.pending.hurry();
        }
        // A row that was read before the last record has an older position than this worker.
        let position = (before.cursor.clone(), before.cursor_at);
        let is_older = after.cursor_at < before.cursor_at;
        self.webhook = webhook;
        if is_older {
            (self.webhook.detail.cursor, self.webhook.detail.cursor_at) = position;
        }
        self.is_loaded = false;
        true
    }

    /// Takes one step: gives up what the log drops, delivers a batch, or waits.
    async fn step(&mut self) -> Result<(), Lost> {
        self.pass_dropped().await?;
        let detail = &self.webhook.detail;
        let is_failing = self.failures >= FAILING_AFTER;
        let takes = detail.paused.is_none()
            && (self.pending.len() == 0 || (!is_failing && (self.pending.len() as u64) < PENDING_MAX));
        self.options.metrics.show(self.namespace.name(), &self.webhook, takes && self.feed.is_some());
        if detail.paused.is_some() {
            self.feed = None;
            self.wait(None).await;
            return Ok(());
        }
        let due = self.pending.due(if is_failing { 1 } else { BATCH });
        let mut events = Vec::new();
        if takes {
            if self.feed.is_none() && !self.subscribe().await? {
                return Ok(());
            }
            let limit = if is_failing { 1 } else { BATCH };
            if due.is_empty() {
                events.extend(self.next_event().await);
            }
            if let Some(feed) = &mut self.feed {
                while events.len() < limit
                    && let Some(event) = feed.next_ready()
                {
                    events.push(event);
                }
            }
        } else {
            self.feed = None;
            if due.is_empty() {
                self.wait(self.pending.next_due()).await;
            }
        }
        if due.is_empty() && events.is_empty() {
            return self.save_position().await;
        }
        self.deliver(due, events).await
    }

    /// Delivers pending deliveries that are due and new events, and records the outcome.
    async fn deliver(&mut self, due: Vec<Vec<Delivery>>, events: Vec<PublicEvent>) -> Result<(), Lost> {
        let passed = self
            .feed
            .as_ref()
            .filter(|_| !events.is_empty())
            .map(|feed| Passed { cursor: feed.cursor(), at: events.last().map(|event| event.at) });
        let webhook = self.webhook.detail.id;
        let new: Vec<Delivery> = events.into_iter().map(|event| delivery(webhook, event)).collect();
        let order: HashMap<DeliveryId, usize> =
            new.iter().enumerate().map(|(index, one)| (one.id, index)).collect();
        let (behind, free): (Vec<Delivery>, Vec<Delivery>) =
            new.into_iter().partition(|one| one.order().is_some_and(|order| self.pending.has(order)));
        let mut waiting: Vec<Attempted> = Vec::new();
        let mut ready = due;
        for delivery in behind {
            // Joins the chain of its execution, if that is due.
            let chain = ready.iter_mut().find(|chain| chain[0].order() == delivery.order());
            match chain {
                Some(chain) => chain.push(delivery),
                None => waiting.push(Attempted { delivery, outcome: Outcome::Waits }),
            }
        }
        ready.extend(chains(free));
        let engine = self.namespace.engine().clone();
        let sending = Sending {
            receiver: &self.receiver,
            secrets: engine.webhook_secrets(&self.webhook.detail, engine.store_time()),
            options: &self.options,
            lease: &self.lease,
            shutdown: &self.shutdown,
        };
        let mut attempts = sending.deliver(ready).await;
        // Pending deliveries that were not tried stay as they are.
        attempts.retain(|one| one.delivery.number == 0 || one.outcome != Outcome::Waits);
        attempts.extend(waiting);
        attempts.sort_by_key(|one| (one.delivery.number, order.get(&one.delivery.id).copied()));
        self.record(passed, attempts, 0).await
    }

    /// Saves the position if no event was selected for a while.
    async fn save_position(&mut self) -> Result<(), Lost> {
        let Some(feed) = self.feed.as_ref().filter(|_| self.saved_at.elapsed() >= SAVE_INTERVAL) else {
            return Ok(());
        };
        let passed = Passed { cursor: feed.cursor(), at: None };
        self.record(Some(passed), Vec::new(), 0).await
    }

    /// Records attempts and advances the position, as often as it takes.
    async fn record(
        &mut self,
        passed: Option<Passed>,
        attempts: Vec<Attempted>,
        missed: u64,
    ) -> Result<(), Lost> {
        let delivered = attempts.iter().any(|one| matches!(one.outcome, Outcome::Delivered(_)));
        let failed = attempts.iter().filter(|one| matches!(one.outcome, Outcome::Failed { .. })).count();
        let numbers: Vec<u64> =
            attempts.iter().map(|one| one.delivery.number).filter(|number| *number > 0).collect();
        let record = RecordDeliveries {
            name: self.webhook.name.clone(),
            id: self.webhook.detail.id,
            fence: self.webhook.detail.fence,
            passed,
            attempts,
            missed,
            policy: self.options.retry,
        };
        let mut is_first = true;
        let recorded = loop {
            match self.namespace.engine().record_deliveries(record.clone()).await {
                Ok(recorded) => break recorded.ok_or(Lost)?,
                Err(Error::Closed) => return Err(Lost),
                Err(error) => {
                    if is_first {
                        let webhook = &self.webhook.name.name;
                        tracing::warn!(%error, %webhook, "cannot record deliveries; tries again");
                    }
                    is_first = false;
                    sleep(RETRY_PAUSE).await;
                }
            }
        };
        self.saved_at = Instant::now();
        numbers.into_iter().for_each(|number| self.pending.remove(number));
        self.pending.add(recorded.pending, recorded.now);
        self.options.metrics.count_lost(recorded.dead, missed);
        if delivered {
            if self.failures > 0 || self.webhook.detail.failing_since.is_some() {
                self.pending.hurry();
            }
            self.failures = 0;
        } else {
            self.failures = self.failures.saturating_add(failed as u32);
        }
        if let Some(reason) = recorded.webhook.detail.paused.filter(|_| self.webhook.detail.paused.is_none())
        {
            let (webhook, reason) = (&self.webhook.name.name, reason.as_str());
            tracing::warn!(%webhook, reason, "paused a webhook");
        }
        if !self.replace(recorded.webhook.clone()) {
            self.webhook = recorded.webhook;
        }
        Ok(())
    }

    /// Subscribes to the log behind the cursor. If the log has dropped events behind it, begins at the oldest one that is
    /// left, and counts one event as missed: their number is unknown. Returns false if the log cannot be read for now.
    async fn subscribe(&mut self) -> Result<bool, Lost> {
        let cursor = self.webhook.detail.cursor.clone();
        let mut missed = 0;
        let subscribed = match self.namespace.subscribe(self.filter(), From::Cursor(cursor)).await {
            Err(Error::CursorExpired | Error::CursorUnknown | Error::InvalidCursor) => {
                missed = 1;
                self.namespace.subscribe(self.filter(), From::Beginning).await
            }
            subscribed => subscribed,
        };
        match subscribed {
            Ok(feed) => {
                if missed > 0 {
                    let passed = Passed { cursor: feed.cursor(), at: None };
                    self.record(Some(passed), Vec::new(), missed).await?;
                }
                self.feed = Some(feed);
                Ok(true)
            }
            Err(error) => {
                tracing::warn!(%error, webhook = %self.webhook.name.name, "cannot subscribe to the log");
                sleep(RETRY_PAUSE).await;
                Ok(false)
            }
        }
    }

    fn filter(&self) -> EventFilter {
        let config = &self.webhook.detail.config;
        EventFilter {
            types: config.types.clone(),
            execution: config.filter.execution,
            flow: config.filter.flow,
            tag: config.filter.tag.clone(),
        }
    }

    /// Waits for the next event of the feed, a pending delivery that becomes due, or a change of the webhook.
    async fn next_event(&mut self) -> Option<PublicEvent> {
        let due = self.pending.next_due();
        let feed = self.feed.as_mut()?;
        let notice = tokio::select! {
            notice = feed.next() => notice,
            () = pause_until(due, SAVE_INTERVAL) => return None,
            _ = self.updates.changed() => {
                self.updates.mark_changed();
                return None;
            }
            () = self.shutdown.begun() => return None,
        };
        match notice {
            Some(Notice::Event(event)) => Some(*event),
            Some(Notice::Break { .. }) => None,
            None => {
                // The log has dropped the next entries: subscribing again says so. Or the engine shuts down.
                self.feed = None;
                sleep(Duration::from_millis(50)).await;
                None
            }
        }
    }

    /// Waits until a time, or a change of the webhook.
    async fn wait(&mut self, until: Option<Instant>) {
        let longest = LONGEST_PAUSE.min(self.namespace.engine().log_window() / 20);
        tokio::select! {
            () = pause_until(until, longest) => {}
            _ = self.updates.changed() => self.updates.mark_changed(),
            () = self.shutdown.begun() => {}
        }
    }

    /// Passes events that the log is about to drop, while they are not taken, and counts them as missed.
    async fn pass_dropped(&mut self) -> Result<(), Lost> {
        let engine = self.namespace.engine().clone();
        let window = engine.log_window();
        let kept = window - (window / 10).min(MARGIN_MAX);
        let end = engine.store_time().minus_ms(kept.as_millis() as i64);
        while self.webhook.detail.cursor_at < end {
            // Also of a receiver that is so slow that the log overtakes it.
            self.feed = None;
            let from = From::Cursor(self.webhook.detail.cursor.clone());
            // A cursor that the log no longer has is handled when the webhook subscribes again.
            let Ok(page) = self.namespace.events(&self.filter(), from, BATCH).await else { return Ok(()) };
            let missed: Vec<&PublicEvent> = page.items.iter().take_while(|event| event.at < end).collect();
            let all = missed.len() == page.items.len();
            let cursor = match missed.last() {
                _ if all => page.next.clone(),
                Some(last) => Some(last.cursor.clone()),
                None => None,
            };
            let at = match (all, page.at_end) {
                (true, true) => None,
                (true, false) => Some(missed.last().map_or(self.webhook.detail.cursor_at, |event| event.at)),
                (false, _) => Some(end),
            };
            let is_done = !all || page.at_end;
            let count = missed.len() as u64;
            let cursor = cursor.unwrap_or_else(|| self.webhook.detail.cursor.clone());
            self.record(Some(Passed { cursor, at }), Vec::new(), count).await?;
            if is_done {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Sleeps until a time, at most for `longest`.
async fn pause_until(until: Option<Instant>, longest: Duration) {
    let longest = Instant::now() + longest;
    sleep_until(until.map_or(longest, |until| until.min(longest)).into()).await;
}

/// Returns the delivery of an event.
fn delivery(webhook: WebhookId, event: PublicEvent) -> Delivery {
    let detail = DeliveryDetail {
        cursor: event.cursor.clone(),
        kind: event.kind.to_owned(),
        event_at: event.at,
        execution: event.execution,
        flow: event.flow,
        ..DeliveryDetail::default()
    };
    let id = DeliveryId::of(webhook, &event.cursor);
    let mut body = Vec::with_capacity(512);
    views::event(&mut body, event);
    Delivery { webhook, number: 0, id, state: DeliveryState::Pending, detail, body: body.into() }
}
