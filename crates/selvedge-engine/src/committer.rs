//! Group commit: rules of concurrent callers gather while earlier batches commit, and go together in the next one.
//!
//! No added delay when idle: a rule that finds half of the writers free starts at once; other rules wait for the next batch.
//! The other half of the writers helps when a full batch waits, or when the running batches are stuck. Fewer, larger batches
//! are worth more than concurrent ones: rules that share a batch share a commit, and a submission in the same batch as a claim
//! is written once instead of twice. A batch that fails whole is halved until the culprit is alone, so one bad rule never fails
//! its neighbours. Replies leave after the commit.

use crate::Error;
use crate::bells::Bells;
use crate::dispatcher::FollowUp;
use crate::outcome::{Batch, Outcome, Parts};
use crate::process::Process;
use crate::registry::Registry;
use crate::schedule::{Pending, STUCK_AFTER, Schedule, Wants};
use crate::tail::Tail;
use crate::task::{Post, answer, post};
use selvedge_core::rule::{IfLocked, Rule, Task};
use selvedge_core::rules::worker::PutBack;
use selvedge_core::{ExecutionId, Timestamp};
use selvedge_store::{Notification, Store, Transaction};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;
use tokio::sync::{Notify, mpsc};

/// What the committer tells the rest of the engine after each commit.
pub struct Aftermath {
    /// For the other servers.
    pub news: mpsc::UnboundedSender<Notification>,
    /// For the supervisor: something will be due this many milliseconds from now.
    pub due: mpsc::UnboundedSender<i64>,
    /// For the dispatcher: what the commit left to be done.
    pub left: mpsc::UnboundedSender<FollowUp>,
    /// For subscribers: something was logged.
    pub tail: Arc<Tail>,
}

/// Runs rules in batches.
pub struct Committer {
    store: Arc<dyn Store>,
    writers: usize,
    process: Process,
    bells: Arc<Bells>,
    aftermath: Aftermath,
    queue: Mutex<Queue>,
    idle: Notify,
    batches: AtomicU64,
}

#[derive(Default)]
struct Queue {
    schedule: Schedule,
    running: usize,
    /// Whether a task watches for batches that are stuck.
    watched: bool,
    closed: bool,
}

impl Committer {
    /// A committer for `store`.
    pub fn new(
        store: Arc<dyn Store>,
        process: Process,
        bells: Arc<Bells>,
        aftermath: Aftermath,
    ) -> Arc<Self> {
        let writers = store.describe().writers;
        Arc::new(Committer {
            store,
            writers,
            process,
            bells,
            aftermath,
            queue: Mutex::default(),
            idle: Notify::new(),
            batches: AtomicU64::new(0),
        })
    }

    /// Runs one rule and waits for its reply.
    pub async fn run<R: Rule>(self: &Arc<Self>, rule: R) -> Result<R::Reply, Error> {
        let (task, reply) = post(rule);
        self.enqueue(vec![task])?;
        answer(reply).await
    }

    /// Runs rules that share their batches, and waits for their replies.
    pub async fn run_all<R: Rule>(
        self: &Arc<Self>,
        rules: impl IntoIterator<Item = R>,
    ) -> Result<Vec<R::Reply>, Error> {
        let (tasks, waiting): (Vec<_>, Vec<_>) = rules.into_iter().map(post).unzip();
        if tasks.is_empty() {
            return Ok(Vec::new());
        }
        self.enqueue(tasks)?;
        let mut replies = Vec::with_capacity(waiting.len());
        for reply in waiting {
            replies.push(answer(reply).await?);
        }
        Ok(replies)
    }

    /// The names that this process knows.
    pub fn registry(&self) -> &Registry {
        &self.process.registry
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enqueues tasks together, so that they go in the same batch unless it is full.
    pub fn enqueue(self: &Arc<Self>, tasks: Vec<Box<dyn Post>>) -> Result<(), Error> {
        let Process { cache, registry, .. } = &self.process;
        let pending = |task: Box<dyn Post>| {
            let wants = Wants::of(task.profile(), cache, registry);
            Pending { since: Instant::now(), task, wants }
        };
        let mut pending: Vec<Pending> = tasks.into_iter().map(pending).collect();
        let mut together = Wants::default();
        pending.iter().for_each(|one| together.join(&one.wants));
        pending.iter_mut().for_each(|one| one.wants = Wants { alone: one.wants.alone, ..together.clone() });
        let mut queue = self.queue();
        if queue.closed {
            return Err(Error::Closed);
        }
        queue.schedule.add(pending);
        if self.may_start(&queue) {
            queue.running += 1;
            drop(queue);
            tokio::spawn(self.clone().write());
        } else {
            self.watch_over(&mut queue);
        }
        Ok(())
    }

    /// Sees to it that waiting tasks are not left behind batches that are stuck.
    fn watch_over(self: &Arc<Self>, queue: &mut Queue) {
        if self.writers > 1 && !queue.watched && !queue.schedule.is_empty() {
            queue.watched = true;
            tokio::spawn(Self::watch(Arc::downgrade(self)));
        }
    }

    /// Whether one more writer may start: the first half at once, the others only under pressure.
    fn may_start(&self, queue: &Queue) -> bool {
        let eager = self.writers.div_ceil(2);
        queue.running < eager || (queue.running < self.writers && queue.schedule.is_pressed())
    }

    /// Starts further writers while tasks wait behind batches that are stuck. Ends when nothing waits.
    async fn watch(committer: Weak<Self>) {
        loop {
            tokio::time::sleep(STUCK_AFTER).await;
            let Some(committer) = committer.upgrade() else { return };
            let mut queue = committer.queue();
            if queue.schedule.is_empty() {
                queue.watched = false;
                return;
            }
            if queue.schedule.has_work() && committer.may_start(&queue) {
                queue.running += 1;
                drop(queue);
                tokio::spawn(committer.clone().write());
            }
        }
    }

    /// How many rows of the lease cache served a transaction.
    pub fn cache_hits(&self) -> u64 {
        self.process.cache.hits()
    }

    /// How many batches were committed.
    pub fn batches(&self) -> u64 {
        self.batches.load(Ordering::Relaxed)
    }

    /// Whether new rules are refused.
    pub fn is_closed(&self) -> bool {
        self.queue().closed
    }

    /// Refuses new rules and waits until everything that was accepted is answered.
    pub async fn close(&self) {
        loop {
            let idle = self.idle.notified();
            {
                let mut queue = self.queue();
                queue.closed = true;
                if queue.running == 0 {
                    return;
                }
            }
            idle.await;
        }
    }

    /// One writer: batch after batch until nothing waits that may run now, or the other writers suffice.
    async fn write(self: Arc<Self>) {
        let _running = Running(&self);
        while let Some((batch, busy)) = self.next_batch() {
            self.run_batch(batch).await;
            drop(busy);
            if self.is_superfluous() {
                return;
            }
        }
    }

    /// Whether this writer started under pressure, and there is none any more.
    fn is_superfluous(&self) -> bool {
        let queue = self.queue();
        queue.running > self.writers.div_ceil(2) && !queue.schedule.is_pressed()
    }

    fn next_batch(&self) -> Option<(Vec<Box<dyn Post>>, Busy<'_>)> {
        let (batch, has) = self.queue().schedule.take()?;
        Some((batch, Busy { committer: self, has }))
    }

    async fn run_batch(self: &Arc<Self>, batch: Vec<Box<dyn Post>>) {
        let mut batches = vec![batch];
        while let Some(batch) = batches.pop() {
            let (mut tasks, result) = self.transact(batch).await;
            match result {
                Ok(_) => batches.extend(self.deliver(tasks)),
                Err(error) if tasks.len() > 1 && !matches!(error, selvedge_store::Error::Unavailable(_)) => {
                    tracing::warn!(tasks = tasks.len(), %error, "a batch failed whole; halving it");
                    let second = tasks.split_off(tasks.len() / 2);
                    batches.push(second);
                    batches.push(tasks);
                }
                Err(error) => tasks.into_iter().for_each(|task| task.fail(error.clone().into())),
            }
        }
    }

    /// Runs tasks in one transaction beside the queue, and deferred ones after it.
    pub async fn transact_beside(
        self: &Arc<Self>,
        tasks: Vec<Box<dyn Post>>,
    ) -> Result<Transaction, selvedge_store::Error> {
        let (tasks, mut transaction) = self.transact(tasks).await;
        if transaction.is_ok() {
            for deferred in self.deliver(tasks) {
                transaction = self.transact(deferred).await.1;
            }
        }
        transaction
    }

    /// Sends the replies. Returns the tasks that were deferred because another transaction had locked their execution: each
    /// execution is waited for in a batch of its own, which holds no other.
    fn deliver(self: &Arc<Self>, tasks: Vec<Box<dyn Post>>) -> Vec<Vec<Box<dyn Post>>> {
        let mut deferred: BTreeMap<Option<ExecutionId>, Vec<Box<dyn Post>>> = BTreeMap::new();
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
            // While the engine closes this is refused, and the leases lapse instead.
            let _ = self.enqueue(undelivered.into_iter().map(|put_back| post(put_back).0).collect());
        }
        deferred.into_values().collect()
    }

    /// Runs one transaction. Returns its tasks, and after a commit also the waiting claims that were taken along; after a
    /// failure these are dropped, so that their callers ask again.
    async fn transact(
        &self,
        tasks: Vec<Box<dyn Post>>,
    ) -> (Vec<Box<dyn Post>>, Result<Transaction, selvedge_store::Error>) {
        let batch = Batch::new(self.process.clone(), tasks);
        let transaction = self.store.transact(Box::new(batch.clone())).await;
        let Parts { mut tasks, handed, outcome } = batch.into_parts();
        match transaction {
            Ok(transaction) => {
                self.batches.fetch_add(1, Ordering::Relaxed);
                let left = FollowUp { outbox: outcome.outbox.clone(), emptied: transaction.emptied.clone() };
                if !left.is_empty() {
                    let _ = self.aftermath.left.send(left);
                }
                self.conclude(outcome);
                tasks.extend(handed);
                (tasks, Ok(transaction))
            }
            Err(error) => (tasks, Err(error)),
        }
    }

    /// After the commit: fills the lease cache, wakes waiters here, notifies the other servers.
    fn conclude(&self, outcome: Outcome) {
        self.process.cache.add(outcome.leased);
        self.hear(&outcome.news);
        if !outcome.news.is_empty() {
            let _ = self.aftermath.news.send(outcome.news);
        }
        if let Some((at, now)) = outcome.next_due {
            let _ = self.aftermath.due.send(Timestamp::ms_since(at, now));
        }
    }

    /// Wakes the waiters of this process: after a commit here, or on a notification from another server.
    pub fn hear(&self, news: &Notification) {
        if news.logged {
            self.aftermath.tail.ring();
        }
        self.process.waiting.wake(&news.ready);
        for id in &news.ended {
            self.bells.ring_ended(*id);
        }
        for id in &news.streamed {
            self.bells.ring_streamed(*id);
        }
        for key in &news.sessions {
            self.bells.ring_instance(*key);
        }
    }
}

/// The flows and gates that a running batch occupies; free again when the batch ends, however it ends.
struct Busy<'a> {
    committer: &'a Committer,
    has: Wants,
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.committer.queue().schedule.release(&self.has);
    }
}

/// Counts a writer out when it stops, however it stops. If tasks came meanwhile, nobody else would start one.
struct Running<'a>(&'a Arc<Committer>);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut queue = self.0.queue();
        let needed = queue.running <= self.0.writers.div_ceil(2) || queue.schedule.is_pressed();
        if needed && queue.schedule.has_work() {
            drop(queue);
            tokio::spawn(self.0.clone().write());
            return;
        }
        self.0.watch_over(&mut queue);
        queue.running -= 1;
        if queue.running == 0 {
            self.0.idle.notify_waiters();
        }
    }
}
