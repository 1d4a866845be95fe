//! Minute rollups: adds up the commits of this server in memory, by minute and lane, and saves the totals periodically.
//!
//! Counting adds no statement to a commit. A save writes the totals of this server for each changed minute and lane and
//! replaces the earlier ones, so a save that is repeated after a lost answer counts nothing twice. A save runs in a task of
//! its own, one at a time: a caller that gives up neither interrupts it nor lets an older save finish after a newer one. A
//! crash loses the changes since the last save, at most [`FLUSH_INTERVAL`] while the store accepts writes. A shutdown saves
//! the remaining changes.

use super::LaneChange;
use super::lanes::Lane;
use crate::locking::lock;
use selvedge_core::rollup::{Rollup, RollupKey, RollupRow, minute_of};
use selvedge_core::{Name, NamespaceId, Timestamp};
use selvedge_store::{Error, Store};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// The time between two saves.
pub const FLUSH_INTERVAL: Duration = Duration::from_secs(10);
/// The maximum number of lanes of one minute that a server counts separately. It counts the others together, by namespace.
const SEPARATE_MAX: usize = 1000;
/// The time for which a minute stays in memory after its end, in milliseconds: longer than any transaction takes.
const OPEN_MS: i64 = 3 * 60_000;
/// The number that stands for the lanes that are counted together.
const SHARED: u32 = u32::MAX;

/// The rollups of this process that may still change.
///
/// Clones share them.
#[derive(Clone, Debug)]
pub struct Rollups {
    /// The number of this server: random, one for each start.
    server: i64,
    open: Arc<Mutex<Open>>,
    /// The time of the last successful save. Locked during a save, so that saves do not overtake each other.
    saving: Arc<tokio::sync::Mutex<Option<Instant>>>,
}

#[derive(Debug, Default)]
struct Open {
    entries: HashMap<(Timestamp, NamespaceId, u32), OpenRollup>,
    /// The number of lanes of each open minute that have an entry of their own.
    separate: BTreeMap<Timestamp, usize>,
    /// The newest minute.
    newest: Timestamp,
    /// The earliest minute that may have entries. Earlier ones were saved for the last time.
    earliest: Timestamp,
}

#[derive(Debug, Default)]
struct OpenRollup {
    lane: Option<Name>,
    rollup: Rollup,
    /// The number of the last change, and of the last one that was saved.
    changed: u64,
    saved: u64,
}

impl Default for Rollups {
    fn default() -> Self {
        Rollups { server: fastrand::i64(..), open: Arc::default(), saving: Arc::default() }
    }
}

impl Rollups {
    /// Returns the minute of a commit, to add its changes to. Holds the lock.
    pub fn minute(&self, at: Timestamp) -> OpenMinute<'_> {
        let mut open = lock(&self.open);
        let minute = minute_of(at).max(open.earliest);
        open.newest = open.newest.max(minute);
        OpenMinute { open, minute }
    }

    /// Saves the rollups that have changed since the last save, if that was at least `interval` ago, and removes minutes that
    /// no longer change from memory. The save continues if the future is dropped.
    pub async fn flush(&self, store: &Arc<dyn Store>, interval: Duration) -> Result<(), Error> {
        let mut saved_at = self.saving.clone().lock_owned().await;
        if saved_at.is_some_and(|at| at.elapsed() < interval) {
            return Ok(());
        }
        let (rows, versions) = lock(&self.open).changed(self.server);
        let (open, store) = (self.open.clone(), store.clone());
        let save = tokio::spawn(async move {
            let begun = Instant::now();
            if !rows.is_empty() {
                store.save_rollups(&rows).await?;
            }
            lock(&open).mark_saved(versions);
            *saved_at = Some(begun);
            Ok(())
        });
        save.await.unwrap_or_else(|error| Err(Error::Failed(format!("the save of rollups ended: {error}"))))
    }
}

/// A minute to which changes are added.
pub struct OpenMinute<'a> {
    open: MutexGuard<'a, Open>,
    minute: Timestamp,
}

impl OpenMinute<'_> {
    /// Adds a change of an execution of a lane.
    pub fn add(&mut self, lane: &Lane, change: LaneChange) {
        let entry = self.open.entry(self.minute, lane);
        entry.changed += 1;
        let rollup = &mut entry.rollup;
        match change {
            LaneChange::Submitted => rollup.submitted += 1,
            LaneChange::Started(queued_us) => {
                rollup.started += 1;
                rollup.queue.add(queued_us);
            }
            LaneChange::AttemptEnded { ran_us, .. } => {
                ran_us.into_iter().for_each(|ran_us| rollup.run.add(ran_us));
            }
            LaneChange::Retried => rollup.retries += 1,
            LaneChange::Ended(outcome) => *rollup.ended(outcome) += 1,
        }
    }
}

type Versions = Vec<((Timestamp, NamespaceId, u32), u64)>;

impl Open {
    fn entry(&mut self, minute: Timestamp, lane: &Lane) -> &mut OpenRollup {
        let own = (minute, lane.namespace, lane.number);
        let (mut key, mut name) = (own, Some(lane.name.clone()));
        if !self.entries.contains_key(&own) {
            let separate = self.separate.entry(minute).or_default();
            match *separate < SEPARATE_MAX {
                true => *separate += 1,
                false => (key, name) = ((minute, lane.namespace, SHARED), None),
            }
        }
        self.entries.entry(key).or_insert_with(|| OpenRollup { lane: name, ..OpenRollup::default() })
    }

    /// Returns the rollups to save, with the number of the last change of each.
    fn changed(&self, server: i64) -> (Vec<RollupRow>, Versions) {
        let changed = self.entries.iter().filter(|(_, entry)| entry.changed > entry.saved);
        changed
            .map(|(key, entry)| {
                let (minute_at, namespace, _) = *key;
                let name = RollupKey { minute_at, lane: entry.lane.clone(), server };
                let row = RollupRow { namespace, key: name, rollup: entry.rollup.clone() };
                (row, (*key, entry.changed))
            })
            .unzip()
    }

    fn mark_saved(&mut self, versions: Versions) {
        for (key, version) in versions {
            if let Some(entry) = self.entries.get_mut(&key) {
                entry.saved = version;
            }
        }
        // A later change of an earlier minute would replace the saved totals by itself alone: it counts for the earliest
        // minute that is still open.
        let earliest = self.newest.minus_ms(OPEN_MS).max(self.earliest);
        self.earliest = earliest;
        self.entries.retain(|(minute, ..), entry| *minute >= earliest || entry.changed > entry.saved);
        self.separate.retain(|minute, _| *minute >= earliest);
    }
}

/// The task that saves rollups. Aborted when dropped.
pub struct FlushTask(JoinHandle<()>);

impl FlushTask {
    pub fn start(metrics: Weak<super::Metrics>, store: Arc<dyn Store>) -> FlushTask {
        FlushTask(tokio::spawn(async move {
            let mut failing = false;
            loop {
                tokio::time::sleep(FLUSH_INTERVAL).await;
                let Some(metrics) = metrics.upgrade() else { return };
                match metrics.flush_rollups(&store).await {
                    Ok(()) => failing = false,
                    Err(error) if !failing => {
                        failing = true;
                        tracing::warn!(%error, "the minute rollups cannot be saved; trying again");
                    }
                    Err(_already_logged) => {}
                }
            }
        }))
    }

    /// Ends the task.
    pub fn stop(&self) {
        self.0.abort();
    }
}

impl Drop for FlushTask {
    fn drop(&mut self) {
        self.stop();
    }
}
