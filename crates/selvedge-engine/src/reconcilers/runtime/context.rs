//! The context of a tick: runs one rule per row, counts the results and quarantines the rows that fail.
//!
//! A quarantined row is skipped for a while, longer each time, so that it neither blocks a scan nor is given up.

use crate::commit::{Committer, new_task, receive};
use crate::locking::lock;
use crate::reconcilers::Tally;
use crate::{Error, ServerDefaults};
use selvedge_core::Rule;
use selvedge_core::rules::timer::{FireTimer, Timer, TimerReply};
use selvedge_store::{DueRow, Error as StoreError, ReconcilerScope, Store};
use std::any::TypeId;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Everything that reconcilers work with.
pub struct ReconcilerContext {
    /// The store, for scans.
    pub store: Arc<dyn Store>,
    /// Runs the rules.
    pub committer: Arc<Committer>,
    /// The rows that this engine handles.
    pub scope: ReconcilerScope,
    /// Rows that failed.
    pub quarantine: Quarantine,
    /// The values that apply where neither a caller nor its namespace gives one.
    pub defaults: ServerDefaults,
    /// Creates a namespace when a submission from SQL names it.
    pub create_namespaces: bool,
    /// The time for which the event log keeps its entries.
    pub log_window: Duration,
}

impl ReconcilerContext {
    /// Runs a [`FireTimer`] for each due row and counts the results.
    pub async fn tick_rows(&self, rows: Vec<DueRow>, what: Timer) -> Result<Tally, Error> {
        self.run_for_each(
            rows,
            |row| self.scope.covers(row.namespace, &row.tags),
            |row| row.execution,
            |row| FireTimer { execution: row.execution, timer: what },
            |ticked| match ticked {
                Ok(TimerReply::Fired) => Ok(true),
                Ok(TimerReply::Superseded | TimerReply::NotDue) => Ok(false),
                Err(refusal) => Err(refusal.to_string()),
            },
        )
        .await
    }

    /// Runs a rule for each row of any kind and counts the results. `covered` tests whether a row is in scope, `id`
    /// identifies it in the quarantine, and `done` reads the reply: true if the row was repaired, or the failure.
    pub async fn run_for_each<T, I: RowId, R: Rule>(
        &self,
        rows: Vec<T>,
        covered: impl Fn(&T) -> bool,
        id: impl Fn(&T) -> I,
        rule: impl Fn(T) -> R,
        done: impl Fn(R::Reply) -> Result<bool, String>,
    ) -> Result<Tally, Error> {
        let mut tally = Tally { scanned: rows.len() as u64, ..Tally::default() };
        let mut replies = Vec::new();
        let mut tasks = Vec::new();
        for row in rows {
            let id = id(&row);
            if !covered(&row) {
                tally.filtered += 1;
            } else if !self.quarantine.contains(&id) {
                let (task, reply) = new_task(rule(row));
                tasks.push(task);
                replies.push((id, reply));
            }
        }
        if tasks.is_empty() {
            return Ok(tally);
        }
        self.committer.enqueue(tasks)?;
        for (id, reply) in replies {
            let failure = match receive(reply).await {
                Err(Error::Closed) => return Err(Error::Closed),
                // The batch was halved: this row alone takes too long.
                Err(Error::Store(error @ StoreError::TooSlow(_))) => error.to_string(),
                Err(Error::Store(error)) if error.is_transient() => return Err(error.into()),
                Err(error) => error.to_string(),
                Ok(reply) => match done(reply) {
                    Ok(true) => {
                        tally.done += 1;
                        continue;
                    }
                    Ok(false) => {
                        tally.superseded += 1;
                        continue;
                    }
                    Err(failure) => failure,
                },
            };
            tally.errors += 1;
            let pause = self.quarantine.add(&id);
            tracing::error!(?id, failure, ?pause, "a row cannot be reconciled; it is quarantined");
        }
        Ok(tally)
    }
}

/// The pause after the first failure. Each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// The number of rows at which those whose pause is over are removed.
const CAPACITY: usize = 10_000;

/// The id of a row of any kind.
pub trait RowId: Hash + Clone + std::fmt::Debug + 'static {}

impl<T: Hash + Clone + std::fmt::Debug + 'static> RowId for T {}

/// The quarantined rows, by a hash of their ids: the end of the pause, and its length.
#[derive(Default)]
pub struct Quarantine {
    rows: Mutex<HashMap<u64, (Instant, Duration)>>,
    hasher: RandomState,
}

impl Quarantine {
    fn hash<I: RowId>(&self, id: &I) -> u64 {
        self.hasher.hash_one((TypeId::of::<I>(), id))
    }

    /// Quarantines a row; returns for how long.
    pub fn add<I: RowId>(&self, id: &I) -> Duration {
        let id = self.hash(id);
        let mut rows = lock(&self.rows);
        if rows.len() >= CAPACITY {
            let now = Instant::now();
            rows.retain(|_, (until, _)| *until > now);
        }
        let pause = rows.get(&id).map_or(FIRST_PAUSE, |(_, pause)| (*pause * 2).min(LONGEST_PAUSE));
        rows.insert(id, (Instant::now() + pause, pause));
        pause
    }

    /// Reports whether a row is quarantined now.
    pub fn contains<I: RowId>(&self, id: &I) -> bool {
        lock(&self.rows).get(&self.hash(id)).is_some_and(|(until, _)| *until > Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_keeps_failing_is_quarantined_longer_each_time() {
        let quarantine = Quarantine::default();
        let id = selvedge_core::ExecutionId(uuid::Uuid::from_u128(1));
        assert!(!quarantine.contains(&id));
        let pauses: Vec<u64> = (0..10).map(|_| quarantine.add(&id).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]);
        assert!(quarantine.contains(&id));
    }
}
