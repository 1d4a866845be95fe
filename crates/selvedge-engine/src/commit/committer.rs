//! Group commit: rules of concurrent callers queue up while earlier batches commit, and share the next transaction.
//!
//! An idle engine adds no delay: a rule starts at once while fewer than half of the writers run; otherwise it waits for
//! the next batch. The other half of the writers starts only when [`TaskQueue::wants_extra_writer`] says that it helps.
//! Fewer, larger batches beat concurrent ones: the rules of a batch share a commit, and an execution that is submitted
//! and claimed in the same batch is written once instead of twice. If a batch fails as a whole, it is halved until the
//! failing rule is alone, so one bad rule never fails its neighbours; [`Halving`] limits the time that this takes. Replies
//! are sent after the commit.
//!
//! The queue has one mutex, which is never held across an await. The number of running writers is counted under it, and
//! a writer that stops checks the queue under the same lock. So a task that was queued before the check is taken by
//! the successor of that writer or by a writer that still runs, and none is left behind.

use super::dispatcher::FollowUp;
use super::host::{CommitEffects, EngineHost};
use super::task_queue::{Footprint, STUCK_AFTER, TaskQueue, new_task, receive, together};
use crate::Error;
use crate::locking::lock;
use crate::metrics::Metrics;
use crate::notify::{Tail, Waiters};
use crate::registry::Registry;
use selvedge_core::driver::Driver;
use selvedge_core::rule::{IfLocked, Rule};
use selvedge_core::rules::worker::PutBack;
use selvedge_core::{ExecutionId, Timestamp};
use selvedge_store::{BoxedTask, Error as StoreError, Notification, Store, Transaction};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc};

#[cfg(test)]
mod tests;

/// The parts of the engine that the committer informs after each commit.
pub struct CommitSinks {
    /// Notifications for the other servers.
    pub notifications: mpsc::UnboundedSender<Notification>,
    /// For the supervisor: milliseconds until a row of the batch is due.
    pub due_in_ms: mpsc::UnboundedSender<i64>,
    /// For the dispatcher: the work that the commit left to be done.
    pub follow_ups: mpsc::UnboundedSender<FollowUp>,
    /// Woken when the commit wrote to the event log.
    pub tail: Arc<Tail>,
}

/// Runs rules in batches.
pub struct Committer {
    store: Arc<dyn Store>,
    writers: usize,
    host: EngineHost,
    waiters: Arc<Waiters>,
    sinks: CommitSinks,
    queue: Mutex<Queue>,
    contention: Contention,
    idle: Notify,
    batches: AtomicU64,
    health: WriteHealth,
}

#[derive(Default)]
struct Queue {
    tasks: TaskQueue,
    running_writers: usize,
    /// True while [`Committer::watch_for_stuck_batches`] runs.
    watched: bool,
    closed: bool,
}

impl Committer {
    /// Creates a committer for `store`.
    pub fn new(
        store: Arc<dyn Store>,
        host: EngineHost,
        waiters: Arc<Waiters>,
        sinks: CommitSinks,
    ) -> Arc<Self> {
        let writers = store.describe().writers;
        Arc::new(Committer {
            store,
            writers,
            host,
            waiters,
            sinks,
            queue: Mutex::default(),
            contention: Contention::default(),
            idle: Notify::new(),
            batches: AtomicU64::new(0),
            health: WriteHealth::default(),
        })
    }

    /// Runs one rule and waits for its reply.
    pub async fn run<R: Rule>(self: &Arc<Self>, rule: R) -> Result<R::Reply, Error> {
        let (task, reply) = new_task(rule);
        self.enqueue(vec![task])?;
        receive(reply).await
    }

    /// Runs rules that share their batches, and waits for their replies.
    pub async fn run_all<R: Rule>(
        self: &Arc<Self>,
        rules: impl IntoIterator<Item = R>,
    ) -> Result<Vec<R::Reply>, Error> {
        let (tasks, receivers): (Vec<_>, Vec<_>) = rules.into_iter().map(new_task).unzip();
        if tasks.is_empty() {
            return Ok(Vec::new());
        }
        self.enqueue(tasks)?;
        let mut replies = Vec::with_capacity(receivers.len());
        for reply in receivers {
            replies.push(receive(reply).await?);
        }
        Ok(replies)
    }

    /// The names that this process has interned.
    pub fn registry(&self) -> &Registry {
        &self.host.registry
    }

    /// The counters of what is committed.
    pub fn metrics(&self) -> &Metrics {
        &self.host.metrics
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        lock(&self.queue)
    }

    /// Enqueues tasks with a common footprint, so that they share a batch unless it is full.
    pub fn enqueue(self: &Arc<Self>, tasks: Vec<BoxedTask>) -> Result<(), Error> {
        let EngineHost { cache, registry, .. } = &self.host;
        let tasks = together(tasks, cache, registry);
        let mut queue = self.queue();
        if queue.closed {
            return Err(Error::Closed);
        }
        queue.tasks.add(tasks);
        if self.may_start_writer(&queue) {
            queue.running_writers += 1;
            drop(queue);
            tokio::spawn(self.clone().write());
        } else {
            self.ensure_watched(&mut queue);
        }
        Ok(())
    }

    /// Starts [`Self::watch_for_stuck_batches`] if tasks are queued and it does not run.
    fn ensure_watched(self: &Arc<Self>, queue: &mut Queue) {
        if self.writers > 1 && !queue.watched && !queue.tasks.is_empty() {
            queue.watched = true;
            tokio::spawn(Self::watch_for_stuck_batches(Arc::downgrade(self)));
        }
    }

    /// The number of writers that start without further conditions: half of all.
    fn eager_writers(&self) -> usize {
        self.writers.div_ceil(2)
    }

    /// Reports whether one more writer may start: the eager half always, the others only when they help.
    fn may_start_writer(&self, queue: &Queue) -> bool {
        let running = queue.running_writers;
        running < self.eager_writers() || (running < self.writers && queue.tasks.wants_extra_writer())
    }

    /// Starts further writers while tasks are queued behind stuck batches. Returns when the queue is empty.
    async fn watch_for_stuck_batches(committer: Weak<Self>) {
        loop {
            tokio::time::sleep(STUCK_AFTER).await;
            let Some(committer) = committer.upgrade() else { return };
            let mut queue = committer.queue();
            if queue.tasks.is_empty() {
                queue.watched = false;
                return;
            }
            if queue.tasks.has_runnable_task() && committer.may_start_writer(&queue) {
                queue.running_writers += 1;
                drop(queue);
                tokio::spawn(committer.clone().write());
            }
        }
    }

    /// Returns how many rows were taken from the lease cache.
    #[cfg(feature = "testing")]
    pub fn cache_hits(&self) -> u64 {
        self.host.cache.hits()
    }

    /// Returns how many batches were committed.
    pub fn batches(&self) -> u64 {
        self.batches.load(Ordering::Relaxed)
    }

    /// Fails if the store does not accept writes.
    pub async fn check_writes(&self) -> Result<(), StoreError> {
        self.health.check(&*self.store).await
    }

    /// Reports whether new rules are refused.
    pub fn is_closed(&self) -> bool {
        self.queue().closed
    }

    /// Refuses new rules and waits until every accepted rule has its reply.
    pub async fn close(&self) {
        loop {
            // Registered before the check, so that a writer that stops in between is not missed.
            let idle = self.idle.notified();
            {
                let mut queue = self.queue();
                queue.closed = true;
                if queue.running_writers == 0 {
                    return;
                }
            }
            idle.await;
        }
    }

    /// Runs one writer: batch after batch until no task may run, or the other writers suffice.
    async fn write(self: Arc<Self>) {
        let _slot = WriterSlot(&self);
        while let Some((batch, occupied)) = self.next_batch() {
            self.run_batch(batch).await;
            drop(occupied);
            if self.is_superfluous() {
                return;
            }
        }
    }

    /// Reports whether more than the eager writers run and an extra one no longer helps.
    fn is_superfluous(&self) -> bool {
        let queue = self.queue();
        queue.running_writers > self.eager_writers() && !queue.tasks.wants_extra_writer()
    }

    fn next_batch(&self) -> Option<(Vec<BoxedTask>, OccupiedFootprint<'_>)> {
        let (batch, footprint) = self.queue().tasks.take()?;
        Some((batch, OccupiedFootprint { committer: self, footprint }))
    }

    async fn run_batch(self: &Arc<Self>, batch: Vec<BoxedTask>) {
        let mut batches = vec![batch];
        let mut halving = self.contention.start();
        while let Some(batch) = batches.pop() {
            if let Some(error) = halving.is_over() {
                batch.into_iter().for_each(|task| task.fail(error.clone()));
                continue;
            }
            let (mut tasks, result) = self.transact(batch, halving.patience()).await;
            match result {
                Ok(_) => {
                    halving.commit();
                    batches.extend(self.deliver(tasks));
                }
                Err(error) if halving.fail(&error) && tasks.len() > 1 => {
                    tracing::warn!(tasks = tasks.len(), %error, "a batch failed as a whole; halving it");
                    let second = tasks.split_off(tasks.len() / 2);
                    batches.push(second);
                    batches.push(tasks);
                }
                Err(error) => tasks.into_iter().for_each(|task| task.fail(error.clone())),
            }
        }
    }

    /// Runs tasks in one transaction that bypasses the queue, and deferred tasks after it.
    #[cfg(feature = "testing")]
    pub async fn transact_unqueued(
        self: &Arc<Self>,
        tasks: Vec<BoxedTask>,
    ) -> Result<Transaction, StoreError> {
        let (tasks, mut transaction) = self.transact(tasks, None).await;
        if transaction.is_ok() {
            for deferred in self.deliver(tasks) {
                transaction = self.transact(deferred, None).await.1;
            }
        }
        transaction
    }

    /// Sends the replies. Returns the tasks that were deferred because another transaction had locked their execution,
    /// as one batch per execution: a batch that waits for that lock must hold no lock on another execution.
    fn deliver(self: &Arc<Self>, tasks: Vec<BoxedTask>) -> Vec<Vec<BoxedTask>> {
        let mut deferred: BTreeMap<Option<ExecutionId>, Vec<BoxedTask>> = BTreeMap::new();
        let mut undelivered: Vec<PutBack> = Vec::new();
        for task in tasks {
            if task.is_decided() {
                undelivered.extend(task.deliver());
                continue;
            }
            let target = match task.profile().if_locked {
                IfLocked::Defer(id) => Some(id),
                IfLocked::Wait | IfLocked::Skip => None,
            };
            deferred.entry(target).or_default().push(task);
        }
        if !undelivered.is_empty() {
            // Refused while the engine closes: then the leases expire instead.
            let _ = self.enqueue(undelivered.into_iter().map(|put_back| new_task(put_back).0).collect());
        }
        deferred.into_values().collect()
    }

    /// Runs one transaction. Returns its tasks and, after a commit, also the waiting claims that it took along. After a
    /// failure those claims are dropped, which closes their channels, so that their callers claim again by themselves.
    async fn transact(
        &self,
        tasks: Vec<BoxedTask>,
        patience: Option<Duration>,
    ) -> (Vec<BoxedTask>, Result<Transaction, StoreError>) {
        let count = tasks.len();
        let driver = Driver::new(self.host.clone(), tasks).with_patience(patience);
        let driver = Arc::new(Mutex::new(driver));
        let lineage = self.store.lineage();
        let begun = Instant::now();
        let transaction = self.store.transact(Box::new(driver.clone())).await;
        self.health.record(&transaction);
        self.host.metrics.batch(count, begun.elapsed(), transaction.is_ok());
        let ((mut tasks, handed_over), effects) = {
            let mut driver = lock(&driver);
            (driver.take_tasks(), driver.take_effects())
        };
        match transaction {
            Ok(transaction) => {
                self.batches.fetch_add(1, Ordering::Relaxed);
                self.host.metrics.record(&effects.observations, &self.host.registry);
                transaction.entry.iter().for_each(|entry| self.sinks.tail.appended(*entry));
                let emptied_flows = transaction.emptied.clone();
                let (outbox, schedules) = (effects.outbox.clone(), effects.awaited_schedules.clone());
                let follow_up = FollowUp { outbox, emptied_flows, schedules };
                if !follow_up.is_empty() {
                    let _ = self.sinks.follow_ups.send(follow_up);
                }
                self.apply_effects(effects, lineage);
                tasks.extend(handed_over);
                (tasks, Ok(transaction))
            }
            Err(error) => (tasks, Err(error)),
        }
    }

    /// After the commit: fills the lease cache, wakes the waiters of this process, and notifies the other servers. A
    /// crash before this loses only wake-ups: the other servers find the committed rows by polling.
    fn apply_effects(&self, effects: CommitEffects, lineage: u64) {
        if let Some(sink) = &self.host.spans {
            sink.send(effects.spans);
        }
        self.host.cache.add(effects.leased, lineage);
        self.wake_local(&effects.notification);
        effects.ended_attempts.iter().for_each(|id| self.waiters.wake_stream(*id));
        if !effects.notification.is_empty() {
            let _ = self.sinks.notifications.send(effects.notification);
        }
        if let Some((at, now)) = effects.next_due {
            let _ = self.sinks.due_in_ms.send(Timestamp::ms_since(at, now));
        }
    }

    /// Makes the supervisor query for due rows now.
    pub fn look_for_due_rows(&self) {
        let _ = self.sinks.due_in_ms.send(0);
    }

    /// Wakes the waiters of this process: after a commit here, or on a notification from another server.
    pub fn wake_local(&self, notification: &Notification) {
        if notification.inbox {
            self.look_for_due_rows();
        }
        if notification.logged {
            self.sinks.tail.wake();
        }
        // First, so that the claims of a worker that drains or has ended take no wake-up from the others.
        for key in &notification.sessions {
            self.waiters.wake_instance(*key);
            self.host.waiting.wake_instance(*key);
        }
        self.host.waiting.wake(&notification.ready);
        for id in &notification.ended {
            self.waiters.wake_end(*id);
        }
        for id in &notification.streamed {
            self.waiters.wake_stream(*id);
        }
    }
}

/// The flows and gates that a running batch occupies. Released on drop, so also after a panic.
struct OccupiedFootprint<'a> {
    committer: &'a Committer,
    footprint: Footprint,
}

impl Drop for OccupiedFootprint<'_> {
    fn drop(&mut self) {
        self.committer.queue().tasks.release(&self.footprint);
    }
}

/// A running writer. On drop, so also after a panic, a successor takes its place if a task may run; otherwise the
/// writer is no longer counted. Both happen under the lock of the queue: tasks enqueued before it are seen here, and a
/// later enqueue sees the lower count and starts a writer itself.
struct WriterSlot<'a>(&'a Arc<Committer>);

impl Drop for WriterSlot<'_> {
    fn drop(&mut self) {
        let mut queue = self.0.queue();
        let needed = queue.running_writers <= self.0.eager_writers() || queue.tasks.wants_extra_writer();
        if needed && queue.tasks.has_runnable_task() {
            drop(queue);
            tokio::spawn(self.0.clone().write());
            return;
        }
        self.0.ensure_watched(&mut queue);
        queue.running_writers -= 1;
        if queue.running_writers == 0 {
            self.0.idle.notify_waiters();
        }
    }
}

/// The time limit of each statement of a part.
const PATIENCE: Duration = Duration::from_millis(500);
/// The time limit of all parts of a batch that met a lock. Stores wait for a lock for a fifth of their patience, so ten parts
/// can fail.
const LOCKED_LIMIT: Duration = Duration::from_secs(1);
/// The time limit of all parts of a batch that may have waited behind such a batch.
const CONTENDED_LOCKED_LIMIT: Duration = Duration::from_millis(500);
/// The time limit of all parts of a batch with a statement that took too long.
const SLOW_LIMIT: Duration = Duration::from_secs(5);
/// The time for which later batches have less patience too, after a batch of which nothing was committed because of locks:
/// they may have waited behind it.
const CONTENDED_FOR: Duration = Duration::from_secs(1);
/// The time limit of each statement of those batches.
const CONTENDED_PATIENCE: Duration = Duration::from_millis(1500);

/// The parts of one batch that failed as a whole.
///
/// If the batch failed because a statement waited, each part would wait as long as the whole, one after the other. So the
/// parts have little patience, and share a time limit: what is left when it has passed fails too. One rule that waits is
/// found in less than that. If a lock covers a whole table, or the store is overloaded, every caller is refused soon, and
/// retries.
pub struct Halving<'a> {
    contention: &'a Contention,
    patience: Option<Duration>,
    locked_limit: Duration,
    /// The end of the time limit, and the error of a part that waited.
    waited: Option<(Instant, StoreError)>,
    committed: bool,
}

/// Records that recent batches could not commit because of locks.
#[derive(Default)]
pub struct Contention(Mutex<Option<Instant>>);

impl Contention {
    /// Starts a batch.
    pub fn start(&self) -> Halving<'_> {
        let is_contended = lock(&self.0).is_some_and(|until| Instant::now() < until);
        let (patience, locked_limit) = match is_contended {
            true => (Some(CONTENDED_PATIENCE), CONTENDED_LOCKED_LIMIT),
            false => (None, LOCKED_LIMIT),
        };
        Halving { contention: self, patience, locked_limit, waited: None, committed: false }
    }
}

impl Halving<'_> {
    /// The time limit of each statement of the next part.
    pub fn patience(&self) -> Option<Duration> {
        self.patience
    }

    /// Returns the error with which the remaining parts fail, if the time limit has passed.
    pub fn is_over(&self) -> Option<StoreError> {
        self.waited.as_ref().filter(|(until, _)| Instant::now() >= *until).map(|(_, error)| error.clone())
    }

    /// Takes note of a commit.
    pub fn commit(&mut self) {
        self.committed = true;
    }

    /// Takes note of a failure. Reports whether it helps to halve the part.
    pub fn fail(&mut self, error: &StoreError) -> bool {
        let limit = match error {
            StoreError::Contended(_) => self.locked_limit,
            StoreError::TooSlow(_) => SLOW_LIMIT,
            StoreError::Unavailable(_) | StoreError::SchemaTooNew { .. } => return false,
            StoreError::InUse(_) | StoreError::BadAddress(_) | StoreError::Failed(_) => {
                return true;
            }
        };
        self.patience = Some(PATIENCE);
        self.waited.get_or_insert_with(|| (Instant::now() + limit, error.clone()));
        true
    }
}

impl Drop for Halving<'_> {
    fn drop(&mut self) {
        let is_contended = !self.committed && matches!(self.waited, Some((_, StoreError::Contended(_))));
        *lock(&self.contention.0) = is_contended.then(|| Instant::now() + CONTENDED_FOR);
    }
}

/// The time for which a success, and a failed ping, is believed.
const FRESH: Duration = Duration::from_secs(1);
/// The time for which the failure of a transaction is believed. Longer, because a ping may succeed where a larger
/// transaction fails, as on a disk that is almost full.
const FAILED: Duration = Duration::from_secs(5);

/// The result of the last write, renewed by a small one while nothing else is written.
#[derive(Default)]
pub struct WriteHealth {
    last: Mutex<Option<LastWrite>>,
    /// Held during a ping, so that concurrent callers share one.
    pinging: tokio::sync::Mutex<()>,
}

struct LastWrite {
    believed_until: Instant,
    result: Result<(), StoreError>,
}

impl WriteHealth {
    /// Records the result of a transaction, if it says anything about writes: one without an entry in the log may have
    /// written nothing, and errors other than [`StoreError::Unavailable`] and [`StoreError::SchemaTooNew`] are about the transaction and not about the store.
    pub fn record(&self, result: &Result<Transaction, StoreError>) {
        match result {
            Ok(transaction) if transaction.entry.is_some() => self.set(Ok(()), FRESH),
            Err(error @ (StoreError::Unavailable(_) | StoreError::SchemaTooNew { .. })) => {
                self.set(Err(error.clone()), FAILED)
            }
            Ok(_) | Err(_) => {}
        }
    }

    /// Returns the result of the last write, or of a ping if that was too long ago.
    pub async fn check(&self, store: &dyn Store) -> Result<(), StoreError> {
        if let Some(result) = self.believed() {
            return result;
        }
        let _pinging = self.pinging.lock().await;
        if let Some(result) = self.believed() {
            return result;
        }
        let result = store.ping().await;
        self.set(result.clone(), FRESH);
        result
    }

    fn believed(&self) -> Option<Result<(), StoreError>> {
        let last = lock(&self.last);
        last.as_ref().filter(|last| Instant::now() < last.believed_until).map(|last| last.result.clone())
    }

    fn set(&self, result: Result<(), StoreError>, time: Duration) {
        *lock(&self.last) = Some(LastWrite { believed_until: Instant::now() + time, result });
    }
}
