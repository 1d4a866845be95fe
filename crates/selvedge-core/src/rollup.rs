//! Minute rollups: the changes of a lane within one minute, counted by the server that committed them.
//!
//! A server adds up what it commits and saves its own row per minute and lane, always with the total so far. Saving again
//! replaces the row, so a save whose answer was lost counts nothing twice. Readers add up the rows of all servers.

use crate::{Name, NamespaceId, Outcome, Timestamp};
use serde::{Deserialize, Serialize};

/// The time for which rollups are kept, in milliseconds: 24 hours.
pub const KEPT_MS: i64 = 24 * 3_600_000;
/// The length of a minute, in microseconds.
const MINUTE_US: i64 = 60_000_000;

/// The upper bounds of the buckets of a [`Spread`], in microseconds. The last bucket has no bound.
///
/// Stored rollups count by the index of the bound, so bounds never change.
pub const BOUNDS_US: [i64; 17] = [
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    30_000_000,
    60_000_000,
    300_000_000,
    1_800_000_000,
];

/// Returns the index of the bucket that counts a duration, at most `BOUNDS_US.len()`.
pub fn bucket(micros: i64) -> usize {
    BOUNDS_US.partition_point(|bound| *bound < micros)
}

/// The distribution of durations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Spread {
    /// The number of durations.
    pub count: u64,
    /// Their sum, in microseconds.
    pub sum_us: u64,
    /// The longest one, in microseconds.
    pub max_us: u64,
    /// The number of durations in each bucket of [`BOUNDS_US`], up to the last one that counts anything.
    pub buckets: Vec<u64>,
}

impl Spread {
    /// Adds a duration. A negative one counts as zero.
    pub fn add(&mut self, micros: i64) {
        let duration = micros.max(0) as u64;
        self.count += 1;
        self.sum_us = self.sum_us.saturating_add(duration);
        self.max_us = self.max_us.max(duration);
        let index = bucket(micros);
        if self.buckets.len() <= index {
            self.buckets.resize(index + 1, 0);
        }
        self.buckets[index] += 1;
    }

    /// Adds the durations of another spread.
    pub fn merge(&mut self, other: &Spread) {
        self.count += other.count;
        self.sum_us = self.sum_us.saturating_add(other.sum_us);
        self.max_us = self.max_us.max(other.max_us);
        if self.buckets.len() < other.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0);
        }
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(own, more)| *own += more);
    }

    /// Returns the mean, in microseconds; none without durations.
    pub fn mean_us(&self) -> Option<u64> {
        self.sum_us.checked_div(self.count)
    }

    /// Estimates a quantile between 0 and 1, in microseconds, by linear interpolation within its bucket; none without
    /// durations.
    pub fn quantile_us(&self, quantile: f64) -> Option<u64> {
        let rank = quantile * self.count as f64;
        let mut below = 0;
        for (index, count) in self.buckets.iter().enumerate().filter(|(_, count)| **count > 0) {
            if (below + count) as f64 >= rank {
                let lower = if index == 0 { 0 } else { BOUNDS_US[index - 1] as u64 };
                let bound = BOUNDS_US.get(index).map_or(self.max_us, |bound| *bound as u64);
                let upper = bound.min(self.max_us).max(lower);
                let share = (rank - below as f64).max(0.0) / *count as f64;
                return Some(lower + ((upper - lower) as f64 * share) as u64);
            }
            below += count;
        }
        (self.count > 0).then_some(self.max_us)
    }
}

/// The changes of a lane within a minute.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rollup {
    pub submitted: u64,
    pub started: u64,
    /// Executions that completed.
    pub completed: u64,
    /// Executions that failed.
    pub failed: u64,
    /// Executions that were cancelled.
    pub cancelled: u64,
    /// Executions that expired.
    pub expired: u64,
    /// Executions that were skipped.
    pub skipped: u64,
    /// Attempts that failed or timed out and are followed by another one.
    pub retries: u64,
    /// The times that executions waited before they started.
    pub queue: Spread,
    /// The times that attempts ran.
    pub run: Spread,
}

impl Rollup {
    /// Adds the counts of another rollup.
    pub fn merge(&mut self, other: &Rollup) {
        self.submitted += other.submitted;
        self.started += other.started;
        self.completed += other.completed;
        self.failed += other.failed;
        self.cancelled += other.cancelled;
        self.expired += other.expired;
        self.skipped += other.skipped;
        self.retries += other.retries;
        self.queue.merge(&other.queue);
        self.run.merge(&other.run);
    }

    /// Returns the count of executions that ended with this outcome.
    pub fn ended(&mut self, outcome: Outcome) -> &mut u64 {
        match outcome {
            Outcome::Completed => &mut self.completed,
            Outcome::Failed => &mut self.failed,
            Outcome::Cancelled => &mut self.cancelled,
            Outcome::Expired => &mut self.expired,
            Outcome::Skipped => &mut self.skipped,
        }
    }

    /// Encodes the rollup for a store.
    pub fn encode(&self) -> String {
        serde_json::to_string(self).expect("a rollup always serialises")
    }

    /// Decodes a rollup that a store kept. Counts that this version does not know are ignored.
    pub fn decode(text: &str) -> Result<Rollup, serde_json::Error> {
        serde_json::from_str(text)
    }
}

/// The key of a rollup. Rollups are ordered by it within their namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RollupKey {
    /// The beginning of the minute, by the store's clock.
    pub minute_at: Timestamp,
    /// The lane; none for the lanes beyond those that a server counts separately.
    pub lane: Option<Name>,
    /// The number of the server: random, one for each start.
    pub server: i64,
}

/// The rollup of a server for a minute and lane.
#[derive(Clone, Debug, PartialEq)]
pub struct RollupRow {
    pub namespace: NamespaceId,
    /// The key within the namespace.
    pub key: RollupKey,
    pub rollup: Rollup,
}

/// A query for rollups of a namespace, in the order of their keys.
#[derive(Clone, Debug, PartialEq)]
pub struct RollupQuery {
    pub namespace: NamespaceId,
    /// Only this lane.
    pub lane: Option<Name>,
    /// Only minutes that begin at this time or later.
    pub from: Timestamp,
    /// Only minutes that begin before this time.
    pub to: Timestamp,
    /// Only rollups after this key.
    pub after: Option<RollupKey>,
}

impl RollupQuery {
    /// Reports whether a rollup matches.
    pub fn matches(&self, row: &RollupRow) -> bool {
        row.namespace == self.namespace
            && self.lane.as_ref().is_none_or(|lane| row.key.lane.as_ref() == Some(lane))
            && self.from <= row.key.minute_at
            && row.key.minute_at < self.to
            && self.after.as_ref().is_none_or(|after| *after < row.key)
    }
}

/// Returns the beginning of the minute of a time.
pub fn minute_of(time: Timestamp) -> Timestamp {
    Timestamp::from_micros(time.micros() - time.micros().rem_euclid(MINUTE_US))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_in_the_bucket_of_their_rank() {
        let mut spread = Spread::default();
        assert_eq!(spread.quantile_us(0.5), None);
        (1..=100).for_each(|ms| spread.add(ms * 1000));
        let median = spread.quantile_us(0.5).expect("there are durations");
        assert!((25_000..=50_000).contains(&median), "{median}");
        let high = spread.quantile_us(0.95).expect("there are durations");
        assert!((90_000..=100_000).contains(&high), "{high}");
        assert_eq!(spread.quantile_us(1.0), Some(100_000));
        assert_eq!(spread.mean_us(), Some(50_500));
    }

    #[test]
    fn a_duration_beyond_the_last_bound_is_at_most_the_longest_one() {
        let mut spread = Spread::default();
        spread.add(7_200_000_000);
        spread.add(-5);
        assert_eq!(
            (spread.count, spread.max_us, spread.buckets.len()),
            (2, 7_200_000_000, BOUNDS_US.len() + 1)
        );
        assert_eq!(spread.quantile_us(1.0), Some(7_200_000_000));
    }

    #[test]
    fn rollups_of_servers_add_up_and_survive_their_text() {
        let mut one = Rollup { submitted: 2, retries: 1, ..Rollup::default() };
        one.queue.add(3_000);
        let mut other = Rollup { submitted: 5, ..Rollup::default() };
        *other.ended(Outcome::Failed) += 4;
        other.queue.add(900_000);
        one.merge(&other);
        assert_eq!((one.submitted, one.failed, one.retries, one.queue.count), (7, 4, 1, 2));
        assert_eq!(Rollup::decode(&one.encode()).expect("it decodes"), one);
        let newer = Rollup::decode(r#"{"submitted":1,"unknown":2}"#).expect("unknown counts are ignored");
        assert_eq!(newer, Rollup { submitted: 1, ..Rollup::default() });
    }
}
