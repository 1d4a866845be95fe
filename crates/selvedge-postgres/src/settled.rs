//! Settled times and numbers: those below which no transaction of ours writes any more, on any server.
//!
//! Three readers need one. A claim starts to search at a bound (`bounds`), the search for due rows at the time of an earlier search
//! (`read/glance`), and the log is read across a gap (`log`). Each would miss rows for ever if a transaction that it does not see
//! yet wrote below the place from which it goes on.
//!
//! # The proof
//!
//! Every transaction of ours first takes the writers' shared advisory lock, only then reads its time or draws its number of the
//! log, and holds the lock until it ends. A reader looks at the holders of the lock, and later reads rows with a newer snapshot. Take
//! a row that this snapshot does not contain. Its transaction had not ended when the reader looked at the holders, so there are two
//! cases:
//!
//! - The transaction was one of the holders.
//! - It took the lock after the look.
//!
//! **Times.** Before the look the reader read the clock of the database, and the look returns the start of the earliest holder. In
//! the first case the transaction read its time after its start, so not before the earliest start. In the second case it read its
//! time after the reader read the clock. So its time is not before the earlier of the two: this is the settled [`time`]. The time of
//! a transaction may be ahead of the clock ([`store_clock`](crate::store_clock)) and is never behind it.
//!
//! **Numbers.** Before the look the reader saw a number of the log, and after it waits until all holders have ended
//! ([`writers_ended`]); they are few and end soon. In the first case the transaction has ended now, so the next snapshot contains what
//! it wrote, unless it was rolled back. In the second case it drew its number after the one that was seen, which is lower. So
//! numbers that are missing below the one that was seen never appear.
//!
//! # What could break it
//!
//! - A transaction writes an older time than it has read. The readers of times say which do, and how they find those rows.
//! - A holder whose start cannot be seen (another role's, or `track_activities` is off) counts as older than all times: then nothing
//!   new is settled.
//! - The clock steps back, so a later transaction reads an earlier time. [`ClockReadings`] notices it by the time that has passed in
//!   this process; what it can miss is covered by [`MARGIN`].
//! - Another database answers at the same address, after a failover that lost commits. Only a new connection reaches it, and one
//!   that leads to another server process makes all three forget what they know ([`history`](crate::connection::lineage)).

use crate::connection::{Connection, failure};
use crate::sql::{Micros, statements};
use selvedge_store::Error;
use std::collections::HashSet;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

statements! {
    FIND_OLDEST = "writers/find_oldest";
    LIST = "writers/list";
}

/// The start of the oldest transaction that holds the writers' lock.
const OLDEST_WRITER: &str = "select min(coalesce(xact_start, '-infinity')) from pg_locks left join pg_stat_activity using (pid) where {is_writer}";
/// The rows of `pg_locks` that are holders of the writers' lock, whose key is $1.
const IS_WRITER: &str = "locktype = 'advisory' \
    and database = (select oid from pg_database where datname = current_database()) \
    and classid = ($1::bigint >> 32)::oid and objid = ($1::bigint & 4294967295)::oid and objsubid = 1 and granted";

/// The placeholders of the writers, with their texts. A text may contain placeholders that come later.
pub const PLACEHOLDERS: [(&str, &str); 2] = [("oldest_writer", OLDEST_WRITER), ("is_writer", IS_WRITER)];

/// The longest round trip of a clock reading. A slower reading is not used, since its moment is uncertain.
const READING_MAX: Duration = Duration::from_millis(20);
/// The most that the clock may fall behind between two readings without counting as stepped back.
const LAG: Duration = Duration::from_millis(5);
/// The uncertainty of a comparison of two readings: both round trips and the lag.
pub const MARGIN: Duration = Duration::from_millis(45);
/// The time for which nothing is settled after the clock stepped back. Longer than a transaction may stay open.
const REST: Duration = Duration::from_secs(120);

/// The time a reader waits for the writers that may fill a gap.
const GAP_TIMEOUT: Duration = Duration::from_millis(500);
/// The first and the longest pause between two checks whether those writers have ended.
const FIRST_PAUSE: Duration = Duration::from_micros(500);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// Returns the settled time, in microseconds, given a reading of the database's clock and the start of the earliest holder of the
/// writers' lock at a later moment, none without holders.
pub fn time(clock: Micros, begun: Option<Micros>) -> i64 {
    begun.map_or(clock.0, |begun| begun.0.min(clock.0))
}

/// Readings of the database's clock, each compared with the one before and the time that passed in this process.
#[derive(Default)]
pub struct ClockReadings {
    /// The last reading, in microseconds, and the latest moment at which it was taken.
    last: Option<(i64, Instant)>,
    rests_until: Option<Instant>,
}

/// The verdict on a reading of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadingVerdict {
    /// False if nothing may be settled by the reading: its moment is uncertain, or the clock stepped back shortly before.
    pub is_usable: bool,
    /// True if the clock fell behind since the reading before: what was settled may not be.
    pub fell_behind: bool,
}

impl ClockReadings {
    /// Records a reading that was taken between two moments.
    pub fn take(&mut self, clock: Micros, after: Instant, before: Instant) -> ReadingVerdict {
        if before - after > READING_MAX {
            return ReadingVerdict { is_usable: false, fell_behind: false };
        }
        let mut fell_behind = false;
        if let Some((last, at)) = self.last {
            let passed = after.saturating_duration_since(at);
            let missing = (last + passed.as_micros() as i64).saturating_sub(clock.0);
            fell_behind = missing > LAG.as_micros() as i64;
            // Over a long time two clocks drift apart without a step.
            if fell_behind && missing > passed.as_micros() as i64 / 1000 {
                self.rests_until = Some(before + REST);
            }
        }
        self.last = Some((clock.0, before));
        ReadingVerdict { is_usable: self.rests_until.is_none_or(|until| before >= until), fell_behind }
    }
}

/// The number of the log up to which this process knows it to be settled: no further entry appears below it.
#[derive(Default)]
pub struct SettledNumber(AtomicI64);

impl SettledNumber {
    /// Returns the number. Read it before the entries to which it is applied: a number that another reader settles later says
    /// nothing about entries that were missed before.
    pub fn upto(&self) -> i64 {
        self.0.load(Ordering::Acquire)
    }

    /// Raises the number. A smaller one changes nothing.
    pub fn raise(&self, upto: i64) {
        self.0.fetch_max(upto, Ordering::AcqRel);
    }

    /// Forgets the number: in another history of the database, entries below it may still appear.
    pub fn forget(&self) {
        self.0.store(0, Ordering::Release);
    }
}

/// Waits until every current holder of the writers' lock has ended. Returns false if that takes too long.
pub async fn writers_ended(client: &Connection, writers_key: i64) -> Result<bool, Error> {
    let mut writing = writers(client, writers_key).await?;
    let deadline = tokio::time::Instant::now() + GAP_TIMEOUT;
    let mut pause = FIRST_PAUSE;
    while !writing.is_empty() {
        if tokio::time::Instant::now() >= deadline {
            return Ok(false);
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
        let still = writers(client, writers_key).await?;
        writing.retain(|writer| still.contains(writer));
    }
    Ok(true)
}

async fn writers(client: &Connection, writers_key: i64) -> Result<HashSet<String>, Error> {
    let statement = client.prepare_cached(&LIST).await.map_err(failure)?;
    let rows = client.query(&statement, &[&writers_key]).await.map_err(failure)?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1000;

    fn takes(readings: &mut ClockReadings, start: Instant, clock_ms: i64, at_ms: u64) -> (bool, bool) {
        let at = start + Duration::from_millis(at_ms);
        let taken = readings.take(Micros(clock_ms * MS), at, at + Duration::from_millis(1));
        (taken.is_usable, taken.fell_behind)
    }

    #[test]
    fn a_time_is_settled_before_the_clock_and_before_the_earliest_writer_began() {
        assert_eq!(time(Micros(7), None), 7);
        assert_eq!(time(Micros(7), Some(Micros(5))), 5);
        assert_eq!(time(Micros(7), Some(Micros(9))), 7, "it began after the clock was read");
        assert_eq!(time(Micros(7), Some(Micros(i64::MIN))), i64::MIN, "its start cannot be seen");
    }

    #[test]
    fn after_the_clock_stepped_back_nothing_is_settled_for_a_while() {
        let (mut readings, start) = (ClockReadings::default(), Instant::now());
        assert_eq!(takes(&mut readings, start, 10_000, 0), (true, false));
        assert_eq!(takes(&mut readings, start, 10_050, 50), (true, false));
        let late = takes(&mut readings, start, 10_080, 100);
        assert_eq!(late, (false, true), "20 ms are missing, although it is later than before");
        assert_eq!(takes(&mut readings, start, 11_080, 1_100), (false, false));
        assert_eq!(takes(&mut readings, start, 131_080, 121_100), (true, false));
    }

    #[test]
    fn a_clock_reading_that_took_too_long_is_not_used() {
        let (mut readings, start) = (ClockReadings::default(), Instant::now());
        let taken = readings.take(Micros(10_000 * MS), start, start + READING_MAX * 2);
        assert_eq!(taken, ReadingVerdict { is_usable: false, fell_behind: false });
        assert!(readings.last.is_none());
    }

    #[test]
    fn clocks_that_came_apart_over_a_long_time_settle_nothing_before_and_go_on() {
        let (mut readings, start) = (ClockReadings::default(), Instant::now());
        assert_eq!(takes(&mut readings, start, 10_000, 0), (true, false));
        assert_eq!(takes(&mut readings, start, 3_609_964, 3_600_000), (true, true));
    }

    #[test]
    fn a_settled_number_never_goes_back_in_one_history() {
        let number = SettledNumber::default();
        number.raise(7);
        number.raise(5);
        assert_eq!(number.upto(), 7);
        number.forget();
        assert_eq!(number.upto(), 0);
    }
}
