//! The supervisor: runs each reconciler when a row is due for it. One query of the store serves all of them.
//!
//! An idle server sends one cheap query per second. A commit of this process that makes a row due earlier wakes the
//! supervisor at that time. Each reconciler runs in a task of its own, one tick at a time; a tick that fails or panics
//! is logged and counted, and the next one runs. Missed ticks are not made up for. A tick, and the query, are aborted after
//! a time limit, so a call of the store that never returns stops neither a reconciler nor the supervisor.

use super::context::{Quarantine, ReconcilerContext};
use crate::commit::Committer;
use crate::locking::lock;
use crate::reconcilers::{Intervals, Reconciler, Tally, all};
use crate::{Error, Options};
use selvedge_core::{Refusal, Timestamp};
use selvedge_store::{Overview, Store};
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{Notify, watch};
use tokio::task::{JoinError, JoinHandle, JoinSet};
use tokio::time::Instant;

/// The maximum time between two queries for due rows.
const QUERY_INTERVAL: Duration = Duration::from_secs(1);
/// The time between two complete queries. The others leave out what is seldom or far ahead; see [`DueReads::glance`](selvedge_store::DueReads::glance).
const COMPLETE_INTERVAL: Duration = Duration::from_secs(30);
/// The pause after a query that failed.
const QUERY_RETRY: Duration = Duration::from_secs(1);
/// The time between the end of a tick and the next query.
const QUERY_AFTER_TICK: Duration = Duration::from_millis(5);
/// The extra pause of a reconciler whose last tick repaired none of the rows that it found: all were quarantined, out
/// of scope, or locked.
const NO_PROGRESS_PAUSE: Duration = Duration::from_secs(1);

/// The number of reconcilers that a shutdown aborted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Aborted(pub usize);

/// The totals of each reconciler, by name.
type Tallies = Arc<Mutex<HashMap<&'static str, Progress>>>;

/// The totals of a reconciler and the times that operators watch.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    tally: Tally,
    busy: Duration,
    succeeded_at: Option<Instant>,
    overdue: Duration,
}

/// The totals of a reconciler and the times that operators watch.
#[derive(Clone, Copy, Debug)]
pub struct ReconcilerStatus {
    pub name: &'static str,
    /// The totals of all ticks.
    pub tally: Tally,
    /// The time that all ticks took.
    pub busy: Duration,
    /// The time since the end of the last tick that succeeded; none before the first.
    pub succeeded_ago: Option<Duration>,
    /// The time for which the earliest row that is due had been due when the store was asked last.
    pub overdue: Duration,
}

/// Runs the reconcilers.
pub struct Supervisor {
    context: Arc<ReconcilerContext>,
    reconcilers: Vec<Arc<dyn Reconciler>>,
    tallies: Tallies,
    /// The time at which ticks that still run are aborted, once a shutdown has begun.
    stop: watch::Sender<Option<Instant>>,
    tick_timeout: Duration,
    task: Mutex<Option<JoinHandle<usize>>>,
    stopped: AtomicBool,
}

impl Supervisor {
    /// Starts the supervisor. If the options switch the reconcilers off, only [`Supervisor::tick`] runs them.
    pub fn start(
        store: Arc<dyn Store>,
        committer: Arc<Committer>,
        due_in_ms: UnboundedReceiver<i64>,
        options: &Options,
    ) -> Self {
        let context = Arc::new(ReconcilerContext {
            store,
            committer,
            scope: options.scope.clone(),
            quarantine: Quarantine::default(),
            defaults: options.defaults.clone(),
            create_namespaces: options.create_namespaces,
            log_window: options.log_window,
        });
        let (stop, stopping) = watch::channel(None);
        let tallies = Tallies::default();
        let reconcilers = all(options.event_views);
        let task = options.reconcilers.then(|| {
            let ticker = Ticker {
                context: context.clone(),
                tallies: tallies.clone(),
                slots: reconcilers.iter().map(|one| Slot::new(one.clone(), &options.intervals)).collect(),
                tick_timeout: options.tick_timeout,
                complete_at: Instant::now(),
                tick_failed: Arc::default(),
            };
            tokio::spawn(ticker.run(due_in_ms, stopping))
        });
        let stopped = AtomicBool::new(false);
        let tick_timeout = options.tick_timeout;
        Supervisor { context, reconcilers, tallies, stop, tick_timeout, task: Mutex::new(task), stopped }
    }

    /// The name and the totals of each reconciler.
    pub fn tallies(&self) -> Vec<(&'static str, Tally)> {
        self.status().into_iter().map(|status| (status.name, status.tally)).collect()
    }

    pub fn status(&self) -> Vec<ReconcilerStatus> {
        let tallies = lock(&self.tallies);
        let names = self.reconcilers.iter().map(|reconciler| reconciler.name());
        names
            .map(|name| {
                let Progress { tally, busy, succeeded_at, overdue } =
                    tallies.get(name).copied().unwrap_or_default();
                let succeeded_ago = succeeded_at.map(|at| at.elapsed());
                ReconcilerStatus { name, tally, busy, succeeded_ago, overdue }
            })
            .collect()
    }

    /// Runs one tick now.
    pub async fn tick(&self, name: &str) -> Result<Tally, Error> {
        let reconciler = self.reconcilers.iter().find(|reconciler| reconciler.name() == name);
        let reconciler =
            reconciler.ok_or_else(|| Refusal::NotFound { what: "reconciler".into(), id: name.into() })?;
        tick(reconciler.clone(), self.context.clone(), self.tallies.clone(), self.tick_timeout).await
    }

    /// Starts no further tick, waits for the running ones until `deadline`, then aborts them. Returns how many were aborted.
    /// A second call does nothing.
    pub async fn shutdown(&self, deadline: Instant) -> Aborted {
        if self.stopped.swap(true, Ordering::SeqCst) {
            return Aborted(0);
        }
        let _ = self.stop.send(Some(deadline));
        let task = lock(&self.task).take();
        let Some(task) = task else { return Aborted(0) };
        Aborted(task.await.unwrap_or(1))
    }
}

/// The background task that starts the ticks.
struct Ticker {
    context: Arc<ReconcilerContext>,
    tallies: Tallies,
    slots: Vec<Slot>,
    tick_timeout: Duration,
    /// The time of the next complete query.
    complete_at: Instant,
    /// True after a tick that failed: the next query is complete.
    tick_failed: Arc<AtomicBool>,
}

/// The schedule of one reconciler.
struct Slot {
    reconciler: Arc<dyn Reconciler>,
    interval: Duration,
    not_before: Instant,
    /// True while a tick runs.
    running: Arc<AtomicBool>,
    /// True if the last tick found rows and repaired none.
    no_progress: Arc<AtomicBool>,
}

impl Slot {
    fn new(reconciler: Arc<dyn Reconciler>, intervals: &Intervals) -> Self {
        let interval = intervals.of(&*reconciler);
        let not_before = match reconciler.waits_first() {
            true => Instant::now() + interval,
            false => Instant::now(),
        };
        Slot { reconciler, interval, not_before, running: Arc::default(), no_progress: Arc::default() }
    }
}

impl Ticker {
    /// Runs until `stopping` changes, and then waits for the running ticks. Returns how many were aborted.
    async fn run(
        mut self,
        mut due_in_ms: UnboundedReceiver<i64>,
        mut stopping: watch::Receiver<Option<Instant>>,
    ) -> usize {
        let mut ticks = JoinSet::new();
        let tick_ended = Arc::new(Notify::new());
        let mut query_at = Instant::now();
        loop {
            tokio::select! {
                _ = stopping.changed() => break,
                () = tokio::time::sleep_until(query_at) => {
                    let asked_at = std::time::Instant::now();
                    let overview = tokio::select! {
                        _ = stopping.changed() => break,
                        overview = self.query() => overview,
                    };
                    query_at = match overview {
                        Some(overview) => {
                            let go_on_from = self.context.committer.metrics().set_store_time(&overview, asked_at);
                            let query_at = self.start_due_ticks(&overview, &mut ticks, &tick_ended);
                            if let Some(time) = go_on_from {
                                self.bring_forward(time).await;
                            }
                            query_at
                        }
                        None => Instant::now() + QUERY_RETRY,
                    };
                }
                () = tick_ended.notified() => query_at = query_at.min(Instant::now() + QUERY_AFTER_TICK),
                Some(ms) = due_in_ms.recv() => {
                    if ms < 0 {
                        // Due since before it was written, which only a complete query finds.
                        self.complete_at = Instant::now();
                    }
                    let at = Instant::now() + Duration::from_millis(ms.max(0) as u64);
                    query_at = query_at.min(at);
                }
            }
            while ticks.try_join_next().is_some() {}
        }
        let deadline = stopping.borrow().unwrap_or_else(Instant::now);
        let finish = async { while ticks.join_next().await.is_some() {} };
        if tokio::time::timeout_at(deadline, finish).await.is_err() {
            let aborted = ticks.len();
            ticks.abort_all();
            return aborted;
        }
        0
    }

    /// Queries the store for due rows. A failure is logged.
    async fn query(&mut self) -> Option<Overview> {
        let store = self.context.store.clone();
        let complete = self.tick_failed.swap(false, Ordering::SeqCst) || Instant::now() >= self.complete_at;
        let query = async move { if complete { store.overview().await } else { store.glance().await } };
        let answer = apart(self.tick_timeout, query).await;
        // After a failure the next query is complete, whatever the store remembers of earlier ones.
        match (complete, &answer) {
            (true, Ok(Ok(_))) => self.complete_at = Instant::now() + COMPLETE_INTERVAL,
            (false, Ok(Ok(_))) => {}
            (_, Ok(Err(_)) | Err(_)) => self.complete_at = Instant::now(),
        }
        match answer {
            Ok(Ok(overview)) => Some(overview),
            // The store has logged it once, and it does not pass.
            Ok(Err(selvedge_store::Error::SchemaTooNew { .. })) => None,
            Ok(Err(error)) => {
                tracing::warn!(%error, "the query for due rows failed");
                None
            }
            Err(unfinished) => {
                tracing::error!(%unfinished, "the query for due rows did not finish");
                None
            }
        }
    }

    /// Lets the time of the store go on from a time. A failure is logged, and the next query tries again.
    async fn bring_forward(&self, time: Timestamp) {
        let store = self.context.store.clone();
        match apart(self.tick_timeout, async move { store.bring_forward(time).await }).await {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) => {
                self.context.committer.metrics().follow_store_clock();
                tracing::warn!(
                    "the clock of the store is too far behind: leases, delays and schedules stand still"
                );
            }
            Ok(Err(error)) => tracing::warn!(%error, "the time of the store could not be brought forward"),
            Err(unfinished) => {
                tracing::error!(%unfinished, "bringing the time of the store forward did not finish")
            }
        }
    }

    /// Starts the ticks that are due. Returns the time of the next query.
    fn start_due_ticks(
        &mut self,
        overview: &Overview,
        ticks: &mut JoinSet<()>,
        tick_ended: &Arc<Notify>,
    ) -> Instant {
        if overview.lanes {
            self.context.committer.registry().expect_lanes();
        }
        let now = Instant::now();
        let mut query_at = now + QUERY_INTERVAL;
        for slot in &mut self.slots {
            let due = slot.reconciler.next_due(overview);
            let overdue_us = due.map_or(0, |due| overview.now.micros() - due.micros());
            lock(&self.tallies).entry(slot.reconciler.name()).or_default().overdue =
                Duration::from_micros(overdue_us.max(0) as u64);
            let Some(due) = due else { continue };
            let due_at = now + Duration::from_micros((due.micros() - overview.now.micros()).max(0) as u64);
            let start_at = match slot.no_progress.load(Ordering::SeqCst) {
                true => due_at.max(slot.not_before + NO_PROGRESS_PAUSE),
                false => due_at.max(slot.not_before),
            };
            if start_at > now {
                query_at = query_at.min(start_at);
            } else if !slot.running.swap(true, Ordering::SeqCst) {
                slot.not_before = now + slot.interval;
                let reconciler = slot.reconciler.clone();
                let (context, tallies) = (self.context.clone(), self.tallies.clone());
                let running = RunningTick { running: slot.running.clone(), ended: tick_ended.clone() };
                let (no_progress, failed) = (slot.no_progress.clone(), self.tick_failed.clone());
                let (limit, is_limited) = (self.tick_timeout, !self.context.scope.is_everything());
                ticks.spawn(async move {
                    let _running = running;
                    // Errors are logged and counted by `tick`.
                    let result = tick(reconciler, context, tallies, limit).await;
                    failed.fetch_or(result.is_err(), Ordering::SeqCst);
                    // The due row may be outside of the scope, so the scan finds nothing.
                    let futile =
                        result.is_ok_and(|tally| tally.done == 0 && (tally.scanned > 0 || is_limited));
                    no_progress.store(futile, Ordering::SeqCst);
                });
            }
        }
        query_at
    }
}

/// A running tick. Frees its slot on drop, so also when the tick panics or is aborted.
struct RunningTick {
    running: Arc<AtomicBool>,
    ended: Arc<Notify>,
}

impl Drop for RunningTick {
    fn drop(&mut self) {
        self.running.store(false, Ordering::SeqCst);
        self.ended.notify_one();
    }
}

/// The reason why work did not finish.
enum Unfinished {
    Panicked(JoinError),
    TimedOut(Duration),
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unfinished::Panicked(panic) => write!(f, "panicked: {panic}"),
            Unfinished::TimedOut(limit) => write!(f, "was aborted after {} ms", limit.as_millis()),
        }
    }
}

/// Runs work in a task of its own, so that a panic ends only that. Aborts it after the time limit, or if the caller goes away.
async fn apart<T: Send + 'static>(
    limit: Duration,
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, Unfinished> {
    let mut task = JoinSet::new();
    task.spawn(work);
    match tokio::time::timeout(limit, task.join_next()).await {
        Ok(Some(Ok(done))) => Ok(done),
        Ok(Some(Err(panic))) => Err(Unfinished::Panicked(panic)),
        Ok(None) | Err(_) => Err(Unfinished::TimedOut(limit)),
    }
}

/// Runs one tick in a task of its own. A failure, a panic or a timeout is logged, counted and returned as an error.
async fn tick(
    reconciler: Arc<dyn Reconciler>,
    context: Arc<ReconcilerContext>,
    tallies: Tallies,
    limit: Duration,
) -> Result<Tally, Error> {
    let (name, begun) = (reconciler.name(), Instant::now());
    let result = apart(limit, async move { reconciler.tick(&context).await }).await;
    let (mut tally, error) = match result {
        Ok(Ok(tally)) => (tally, None),
        Ok(Err(error @ (Error::Closed | Error::Store(selvedge_store::Error::SchemaTooNew { .. })))) => {
            (Tally::default(), Some(error))
        }
        Ok(Err(error)) => {
            tracing::warn!(reconciler = name, %error, "a tick failed");
            (Tally { errors: 1, ..Tally::default() }, Some(error))
        }
        Err(unfinished) => {
            tracing::error!(reconciler = name, %unfinished, "a tick did not finish");
            let panics = u64::from(matches!(unfinished, Unfinished::Panicked(_)));
            let error = selvedge_store::Error::Failed(format!("{name} {unfinished}"));
            (Tally { errors: 1, panics, ..Tally::default() }, Some(error.into()))
        }
    };
    tally.ticks = 1;
    let mut tallies = lock(&tallies);
    let progress = tallies.entry(name).or_default();
    progress.tally += tally;
    progress.busy += begun.elapsed();
    if error.is_none() {
        progress.succeeded_at = Some(Instant::now());
    }
    error.map_or(Ok(tally), Err)
}
