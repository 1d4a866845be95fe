//! The supervisor: runs every reconciler when something is due for it, and asks the store only once for all of them.
//!
//! An idle server asks one cheap statement a second. A commit of this process that makes something due earlier wakes the
//! supervisor at that time. Each reconciler runs in a task of its own, one tick at a time; a tick that fails or panics is
//! logged and counted, and the next one runs. Missed ticks are delayed and not bunched.

use super::{Reconciler, ReconcilerContext, SetAside, Tally, all};
use crate::committer::Committer;
use crate::{Error, Options};
use selvedge_store::Store;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{Notify, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

/// How often an idle server asks whether anything is due.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How much longer a reconciler rests whose last tick found only rows that it could do nothing about: set aside, for other
/// servers, or locked.
const IN_VAIN_PAUSE: Duration = Duration::from_secs(1);
/// How soon after a failed look the next one comes.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// How many reconcilers had to be aborted by a shutdown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Aborted(pub usize);

/// Runs the reconcilers.
pub struct Supervisor {
    context: Arc<ReconcilerContext>,
    reconcilers: Vec<Arc<dyn Reconciler>>,
    tallies: Arc<Mutex<HashMap<&'static str, Tally>>>,
    stop: watch::Sender<bool>,
    task: Mutex<Option<JoinHandle<usize>>>,
    stopped: AtomicBool,
}

impl Supervisor {
    /// Starts it; where the options switch reconcilers off, only [`Supervisor::tick`] runs them.
    pub fn start(
        store: Arc<dyn Store>,
        committer: Arc<Committer>,
        due: UnboundedReceiver<i64>,
        options: &Options,
    ) -> Self {
        let set_aside = SetAside::default();
        let context = Arc::new(ReconcilerContext {
            store,
            committer,
            scope: options.scope.clone(),
            set_aside,
            log_window: options.log_window,
        });
        let (stop, stopping) = watch::channel(false);
        let tallies = Arc::new(Mutex::new(HashMap::new()));
        let reconcilers = all();
        let task = options.reconcilers.then(|| {
            let watch = Watch {
                context: context.clone(),
                tallies: tallies.clone(),
                turns: reconcilers.iter().map(|one| Turn::new(one.clone())).collect(),
                grace: options.grace,
            };
            tokio::spawn(watch.run(due, stopping))
        });
        let stopped = AtomicBool::new(false);
        Supervisor { context, reconcilers, tallies, stop, task: Mutex::new(task), stopped }
    }

    /// What each reconciler has done so far.
    pub fn tallies(&self) -> Vec<(&'static str, Tally)> {
        let tallies = self.tallies.lock().unwrap_or_else(PoisonError::into_inner);
        let of =
            |one: &Arc<dyn Reconciler>| (one.name(), tallies.get(one.name()).copied().unwrap_or_default());
        self.reconcilers.iter().map(of).collect()
    }

    /// Runs one tick now.
    pub async fn tick(&self, name: &str) -> Result<Tally, Error> {
        let one =
            self.reconcilers.iter().find(|one| one.name() == name).ok_or_else(|| {
                selvedge_core::Refusal::NotFound { what: "reconciler".into(), id: name.into() }
            })?;
        tick(one.clone(), self.context.clone(), self.tallies.clone()).await
    }

    /// Signals, waits a grace period, then aborts; says how many had to be aborted. A second call is a no-op.
    pub async fn shutdown(&self, grace: Duration) -> Aborted {
        if self.stopped.swap(true, Ordering::SeqCst) {
            return Aborted(0);
        }
        let _ = self.stop.send(true);
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(task) = task else { return Aborted(0) };
        match tokio::time::timeout(grace * 2, task).await {
            Ok(Ok(aborted)) => Aborted(aborted),
            Ok(Err(_)) | Err(_) => Aborted(1),
        }
    }
}

/// The watching task.
struct Watch {
    context: Arc<ReconcilerContext>,
    tallies: Arc<Mutex<HashMap<&'static str, Tally>>>,
    turns: Vec<Turn>,
    grace: Duration,
}

/// One reconciler's turn: when it may run again, and whether it is running.
struct Turn {
    reconciler: Arc<dyn Reconciler>,
    not_before: Instant,
    running: Arc<AtomicBool>,
    /// Whether the last tick found only rows that it could do nothing about.
    in_vain: Arc<AtomicBool>,
}

impl Turn {
    fn new(reconciler: Arc<dyn Reconciler>) -> Self {
        Turn { reconciler, not_before: Instant::now(), running: Arc::default(), in_vain: Arc::default() }
    }
}

impl Watch {
    async fn run(mut self, mut due: UnboundedReceiver<i64>, mut stopping: watch::Receiver<bool>) -> usize {
        let mut ticks = JoinSet::new();
        let ended = Arc::new(Notify::new());
        let mut look_at = Instant::now();
        loop {
            tokio::select! {
                _ = stopping.changed() => break,
                () = tokio::time::sleep_until(look_at) => {
                    look_at = self.look(&mut ticks, &ended).await;
                }
                () = ended.notified() => look_at = look_at.min(Instant::now() + Duration::from_millis(5)),
                Some(ms) = due.recv() => {
                    let at = Instant::now() + Duration::from_millis(ms.max(0) as u64);
                    look_at = look_at.min(at);
                }
            }
            while ticks.try_join_next().is_some() {}
        }
        let finish = async { while ticks.join_next().await.is_some() {} };
        if tokio::time::timeout(self.grace, finish).await.is_err() {
            let left = ticks.len();
            ticks.abort_all();
            return left;
        }
        0
    }

    /// Asks what is due, starts the ticks for it, and says when to look again.
    async fn look(&mut self, ticks: &mut JoinSet<()>, ended: &Arc<Notify>) -> Instant {
        let store = self.context.store.clone();
        // In a task of its own: a panic in there must not end the supervisor.
        let overview = match tokio::spawn(async move { store.overview().await }).await {
            Ok(Ok(overview)) => overview,
            Ok(Err(error)) => {
                tracing::warn!(%error, "cannot ask what is due");
                return Instant::now() + LOOK_AGAIN;
            }
            Err(panic) => {
                tracing::error!(%panic, "asking what is due panicked");
                return Instant::now() + LOOK_AGAIN;
            }
        };
        if overview.lanes {
            self.context.committer.registry().expect_lanes();
        }
        let now = Instant::now();
        let mut look_at = now + LOOK_EVERY;
        for turn in &mut self.turns {
            let Some(due) = turn.reconciler.next_due(&overview) else {
                continue;
            };
            let due_at = now + Duration::from_micros((due.micros() - overview.now.micros()).max(0) as u64);
            let start_at = match turn.in_vain.load(Ordering::SeqCst) {
                true => due_at.max(turn.not_before + IN_VAIN_PAUSE),
                false => due_at.max(turn.not_before),
            };
            if start_at > now {
                look_at = look_at.min(start_at);
            } else if !turn.running.swap(true, Ordering::SeqCst) {
                turn.not_before = now + turn.reconciler.interval();
                let one = turn.reconciler.clone();
                let (context, tallies) = (self.context.clone(), self.tallies.clone());
                let over = Over { running: turn.running.clone(), ended: ended.clone() };
                let in_vain = turn.in_vain.clone();
                ticks.spawn(async move {
                    let _over = over;
                    // Its errors are counted and logged inside.
                    let done = tick(one, context, tallies).await;
                    let vain = done.is_ok_and(|tally| tally.done == 0 && tally.scanned > 0);
                    in_vain.store(vain, Ordering::SeqCst);
                });
            }
        }
        look_at
    }
}

/// Frees a reconciler's turn when its tick is over, however it ends.
struct Over {
    running: Arc<AtomicBool>,
    ended: Arc<Notify>,
}

impl Drop for Over {
    fn drop(&mut self) {
        self.running.store(false, Ordering::SeqCst);
        self.ended.notify_one();
    }
}

/// One tick, caught and counted.
async fn tick(
    one: Arc<dyn Reconciler>,
    context: Arc<ReconcilerContext>,
    tallies: Arc<Mutex<HashMap<&'static str, Tally>>>,
) -> Result<Tally, Error> {
    let name = one.name();
    let result = tokio::spawn(async move { one.tick(&context).await }).await;
    let (mut tally, answer) = match result {
        Ok(Ok(tally)) => (tally, None),
        Ok(Err(Error::Closed)) => (Tally::default(), Some(Error::Closed)),
        Ok(Err(error)) => {
            tracing::warn!(reconciler = name, %error, "a tick failed");
            (Tally { errors: 1, ..Tally::default() }, Some(error))
        }
        Err(panic) => {
            tracing::error!(reconciler = name, %panic, "a tick panicked");
            let error = selvedge_store::Error::Failed(format!("{name} panicked: {panic}"));
            (Tally { errors: 1, panics: 1, ..Tally::default() }, Some(error.into()))
        }
    };
    tally.ticks = 1;
    *tallies.lock().unwrap_or_else(PoisonError::into_inner).entry(name).or_default() += tally;
    answer.map_or(Ok(tally), Err)
}
