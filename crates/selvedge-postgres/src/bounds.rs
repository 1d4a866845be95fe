//! Bounds: where claims start to read the claim index.
//!
//! A claim takes the first entries of the index `executions_claim`. Entries of executions that were claimed earlier precede them
//! until vacuum removes them, and vacuum cannot while any session of the database holds an older snapshot. So a claim does not start
//! at the head of a class and priority (a *pair*) but at its **bound**: a `ready_order` below which the pair has no waiting row, and
//! will have none. Each server keeps bounds in memory only. Without a bound a claim starts at the head.
//!
//! Finding a bound: rows that a transaction makes waiting have its time, or a later one, as their `ready_order`. Three
//! statements, each with a snapshot of its own, run in this order: the first two learn a [settled time](crate::settled), and the third
//! finds `first`, the `ready_order` of the first waiting row of the pair, from the present bound on. The new bound is the earlier of
//! the two times. A waiting row that the third statement sees has at least `first`, and one that it does not see has at least the settled
//! time.
//!
//! Three things could break this argument:
//!
//! - A row becomes waiting with an older `ready_order`: an operator changed its priority, which moves it to another pair, or a gate
//!   released it for the second time, which returns it to its place. The transaction that saves such a row writes a new revision (the
//!   column `generation`) to the pair in `class_priorities`, and a claim uses a bound only with the revision it was found with. Row
//!   and revision become visible together, on other servers too.
//! - The clock steps back. Then all bounds are dropped, and none is raised until the transactions of that moment have ended. A margin,
//!   by which bounds stay behind the settled time, covers steps that are too small to be noticed. Between the step and the next
//!   refresh, which a claim starts, claims may miss new waiting rows: these are delayed, not lost.
//! - Another database answers at the same address: all bounds are dropped.
//!
//! A bound that is only a hint (start at the last claimed row, and at the head when a claim comes back short) would need none of this.
//! It was measured and is worse: docs/benchmarks.md, "A bound as a hint".

use crate::connection::lineage::Lineage;
use crate::connection::{Connections, failure};
use crate::settled::{self, ClockReadings, MARGIN};
use crate::sql::{Micros, statements};
use selvedge_core::rows::Changes;
use selvedge_core::state::State;
use selvedge_core::{ClassId, Execution, ExecutionId, Fact, Timestamp};
use selvedge_store::Error;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use uuid::Uuid;

/// The time between two refreshes of the bounds.
const INTERVAL: Duration = Duration::from_millis(50);
/// A class or pool, and a priority.
type Pair = (i32, i16);

statements! {
    with { bound: start_of_search(), }
    FIND_FIRST_WAITING = "bounds/find_first_waiting";
}

/// Returns the position at which a claim starts in a class and priority: the bound of `pair` if it has the same revision,
/// else the beginning. The bounds are $4; the sorted keys of their pairs are $2, their revisions $3.
pub fn start_of_search() -> String {
    let key = format!("(pair.class * {PRIORITIES_PER_CLASS}::bigint + pair.priority)");
    format!(
        "case when ($2::bigint[])[width_bucket({key}, $2)] = {key} \
         and ($3::bigint[])[width_bucket({key}, $2)] = pair.generation \
         then ($4::timestamptz[])[width_bucket({key}, $2)] \
         else '-infinity' end"
    )
}

/// Distance between the keys of two classes that follow each other, so that every priority fits in between.
const PRIORITIES_PER_CLASS: i64 = 1 << 16;

/// A pair to be written with what makes it new: a revision, or 0 to keep the one that is there.
pub type Written = (Pair, i64);

/// The bounds that a server has cached, by pair.
#[derive(Default)]
pub struct Bounds {
    remembered: Mutex<Remembered>,
    refreshing: AtomicBool,
}

#[derive(Default)]
struct Remembered {
    /// Rises whenever the cache is cleared.
    epoch: u64,
    /// The pairs known to be in `class_priorities`.
    there: HashSet<Pair>,
    bounds: BTreeMap<Pair, Bound>,
    /// The classes that claims have requested since the last refresh.
    asked: BTreeSet<i32>,
    refreshed: Option<Instant>,
    clock: ClockReadings,
}

#[derive(Clone, Copy)]
struct Bound {
    revision: i64,
    from: i64,
}

/// The bounds of some classes, as statements take them: sorted keys, and beside them revisions and bounds.
#[derive(Default)]
pub struct Passed {
    /// Class and priority as one number.
    pub keys: Vec<i64>,
    /// The revision a bound was found with.
    pub revisions: Vec<i64>,
    pub bounds: Vec<Micros>,
}

/// Returns a pair as one number, in the order of pairs. `sql` repeats the formula.
fn key((class, priority): Pair) -> i64 {
    i64::from(class) * PRIORITIES_PER_CLASS + i64::from(priority)
}

impl Bounds {
    fn remembered(&self) -> MutexGuard<'_, Remembered> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Clears the cache: a new connection may lead to another database.
    pub fn forget(&self) {
        let mut remembered = self.remembered();
        remembered.epoch += 1;
        remembered.there.clear();
        remembered.bounds.clear();
    }

    /// Returns the epoch to pass to `wrote`. Read it before the transaction begins.
    pub fn epoch(&self) -> u64 {
        self.remembered().epoch
    }

    /// Returns the bounds of the classes that a claim searches.
    pub fn of(&self, classes: &[ClassId]) -> Passed {
        let mut remembered = self.remembered();
        remembered.asked.extend(classes.iter().map(|class| class.0));
        let classes: BTreeSet<i32> = classes.iter().map(|class| class.0).collect();
        remembered.passed(&classes)
    }

    #[cfg(any(test, feature = "testing"))]
    pub fn bound(&self, pair: (i32, i16)) -> Option<Timestamp> {
        self.remembered().bounds.get(&pair).map(|bound| Timestamp::from_micros(bound.from))
    }

    /// Returns, in order, the pairs that a transaction which began at this time writes: those not known to exist, and those
    /// that a row may have joined with an older `ready_order`.
    pub fn to_write(&self, changes: &Changes, began: Timestamp, lineage: &Lineage) -> Vec<Written> {
        let inserted = changes.executions.inserted.iter().map(|row| (&row.execution, false));
        let updated = changes.executions.updated.iter().map(|row| (&row.execution, true));
        let ready = inserted.chain(updated).filter(|(row, _)| row.state == State::Waiting);
        let mut written: BTreeMap<Pair, bool> = BTreeMap::new();
        for (row, was_there) in ready {
            let stayed = was_there && has_stayed(changes, row.id);
            let moved = row.ready_order < began && !stayed;
            *written.entry(pair(row)).or_default() |= moved;
            if let Some(pool) = lineage.pool_of(row.class) {
                *written.entry((pool.0, row.claim_priority())).or_default() |= moved;
            }
        }
        if !written.is_empty() {
            let remembered = self.remembered();
            written.retain(|pair, moved| *moved || !remembered.there.contains(pair));
        }
        written.into_iter().map(|(pair, moved)| (pair, if moved { revision() } else { 0 })).collect()
    }

    /// Records that a transaction which wrote these pairs has committed.
    pub fn wrote(&self, epoch: u64, written: Vec<Written>) {
        let mut remembered = self.remembered();
        if remembered.epoch == epoch {
            remembered.there.extend(written.into_iter().map(|(pair, _)| pair));
        }
    }

    /// Starts a refresh in the background if one is due.
    pub fn refresh_soon(self: &Arc<Self>, connections: &Connections, writers_key: i64) {
        let due = {
            let remembered = self.remembered();
            !remembered.asked.is_empty() && remembered.refreshed.is_none_or(|at| at.elapsed() >= INTERVAL)
        };
        if !due || self.refreshing.swap(true, Ordering::AcqRel) {
            return;
        }
        let refresh = Refreshing(self.clone());
        let connections = connections.clone();
        tokio::spawn(async move {
            if let Err(error) = refresh.0.refresh(&connections, writers_key).await {
                tracing::debug!(%error, "bounds are not refreshed");
            }
        });
    }

    /// Raises the bounds of the requested classes. Returns false if the database's clock could not be read well enough.
    pub async fn refresh(&self, connections: &Connections, writers_key: i64) -> Result<bool, Error> {
        let client = connections.get().await?;
        let (epoch, classes) = {
            let mut remembered = self.remembered();
            remembered.refreshed = Some(Instant::now());
            (remembered.epoch, std::mem::take(&mut remembered.asked))
        };
        let statement = client.prepare_cached("select clock_timestamp()").await.map_err(failure)?;
        let after = Instant::now();
        let row = client.query_one(&statement, &[]).await.map_err(failure)?;
        let clock = row.get(0);
        if !self.remembered().tell(clock, after, Instant::now()) {
            return Ok(false);
        }
        let statement = client.prepare_cached(&settled::FIND_OLDEST).await.map_err(failure)?;
        let row = client.query_one(&statement, &[&writers_key]).await.map_err(failure)?;
        let most = settled::time(clock, row.get(0)).saturating_sub(MARGIN.as_micros() as i64);

        let statement = client.prepare_cached(&FIND_FIRST_WAITING).await.map_err(failure)?;
        let passed = self.remembered().passed(&classes);
        let classes: Vec<i32> = classes.into_iter().collect();
        let rows = client
            .query(&statement, &[&classes, &passed.keys, &passed.revisions, &passed.bounds])
            .await
            .map_err(failure)?;
        let mut remembered = self.remembered();
        for row in &rows {
            let first = row.get::<_, Option<Micros>>(3).map_or(most, |first| first.0);
            let bound = Bound { revision: row.get(2), from: first.min(most) };
            remembered.raise(epoch, (row.get(0), row.get(1)), bound);
        }
        Ok(true)
    }
}

/// The right to refresh. At most one refresh runs at a time.
struct Refreshing(Arc<Bounds>);

impl Drop for Refreshing {
    fn drop(&mut self) {
        self.0.refreshing.store(false, Ordering::Release);
    }
}

impl Remembered {
    fn passed(&self, classes: &BTreeSet<i32>) -> Passed {
        let mut passed = Passed::default();
        for class in classes {
            for (pair, bound) in self.bounds.range((*class, i16::MIN)..=(*class, i16::MAX)) {
                passed.keys.push(key(*pair));
                passed.revisions.push(bound.revision);
                passed.bounds.push(Micros(bound.from));
            }
        }
        passed
    }

    /// Records a clock reading taken between two moments. Reports whether bounds may be raised by it.
    fn tell(&mut self, clock: Micros, after: Instant, before: Instant) -> bool {
        let taken = self.clock.take(clock, after, before);
        if taken.fell_behind {
            // Clears everything, so that a refresh in progress raises nothing either.
            self.epoch += 1;
            self.bounds.clear();
        }
        taken.is_usable
    }

    /// Raises a bound. A bound never falls while its revision is the same.
    fn raise(&mut self, epoch: u64, pair: Pair, bound: Bound) {
        if self.epoch != epoch || bound.from <= 0 {
            return;
        }
        let known = self.bounds.entry(pair).or_insert(bound);
        if known.revision != bound.revision || known.from < bound.from {
            *known = bound;
        }
    }
}

fn pair(row: &Execution) -> Pair {
    (row.class.0, row.claim_priority())
}

/// Reports whether a row kept its place: its events record a change, and none of its priority.
fn has_stayed(changes: &Changes, id: ExecutionId) -> bool {
    let mut events = changes.events.iter().filter(|event| event.execution == Some(id)).peekable();
    let moves = |fact: &Fact| matches!(fact, Fact::Prioritised { .. } | Fact::Admitted { .. });
    events.peek().is_some() && events.all(|event| !moves(&event.fact))
}

/// One that nobody else has: not 0.
fn revision() -> i64 {
    (Uuid::new_v4().as_u128() >> 64) as i64 | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1000;

    fn with_a_bound() -> Remembered {
        let mut remembered = Remembered::default();
        remembered.raise(0, (1, 0), Bound { revision: 7, from: 9_000 * MS });
        remembered
    }

    #[test]
    fn a_bound_goes_up_only_until_its_pair_has_another_revision() {
        let mut remembered = with_a_bound();
        remembered.raise(0, (1, 0), Bound { revision: 7, from: 8_000 * MS });
        assert_eq!(remembered.bounds[&(1, 0)].from, 9_000 * MS);
        remembered.raise(0, (1, 0), Bound { revision: 8, from: 8_000 * MS });
        assert_eq!(remembered.bounds[&(1, 0)].from, 8_000 * MS);
        remembered.raise(1, (1, 0), Bound { revision: 8, from: 9_500 * MS });
        assert_eq!(remembered.bounds[&(1, 0)].from, 8_000 * MS, "of before everything was forgotten");
    }

    #[test]
    fn a_clock_that_steps_back_drops_all_bounds_and_stops_a_refresh() {
        let (mut remembered, start) = (with_a_bound(), Instant::now());
        assert!(remembered.tell(Micros(10_000 * MS), start, start));
        assert_eq!((remembered.bounds.len(), remembered.epoch), (1, 0));
        assert!(!remembered.tell(Micros(9_980 * MS), start, start));
        assert_eq!((remembered.bounds.len(), remembered.epoch), (0, 1));
    }

    #[test]
    fn keys_are_in_the_order_of_pairs() {
        let pairs = [(1, i16::MIN), (1, -1), (1, 0), (1, i16::MAX), (2, i16::MIN), (i32::MAX, 0)];
        assert!(pairs.windows(2).all(|pair| key(pair[0]) < key(pair[1])));
    }
}
