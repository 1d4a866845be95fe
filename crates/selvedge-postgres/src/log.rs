//! Reading the log without gaps.
//!
//! Numbers are drawn before commit, so a number may appear after a higher one was read. Every writer of ours holds a
//! shared advisory lock from its beginning, so before it draws, until it ends. So a gap is passed only this way: first the gap is seen, then
//! the holders of that lock are looked at until all who held it then are gone, then the gap is read again by a later
//! statement; what is still missing was rolled back and never comes. Transactions of others never hold the log back.
//!
//! What has left the window is no gap: a page begins after it, and says so. Both are read in one snapshot, so nobody who
//! reads while something is dropped passes over it unknowingly.

use crate::PostgresStore;
use crate::connect::{failure, no_connection};
use crate::row;
use crate::sql;
use deadpool_postgres::Object;
use selvedge_store::{Entries, Entry, Error};
use std::collections::HashSet;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tokio_postgres::Row;

/// How long a reader waits for the writers that may fill a gap before it answers with what is before it.
const PATIENCE: Duration = Duration::from_millis(500);

/// How many of the newest numbers `log_newest` gives at most.
const NEWEST: usize = 1000;

/// Up to which number this process knows the log to be settled.
#[derive(Default)]
pub struct Settled(AtomicI64);

impl Settled {
    fn upto(&self) -> i64 {
        self.0.load(Ordering::Acquire)
    }

    fn raise(&self, upto: i64) {
        self.0.fetch_max(upto, Ordering::AcqRel);
    }
}

/// The first missing number in a run that should begin after `after`, above what is settled.
fn first_gap(numbers: impl Iterator<Item = i64>, after: i64, settled: i64) -> Option<i64> {
    let mut expected = after + 1;
    for number in numbers {
        if number > expected && number > settled + 1 {
            return Some(expected.max(settled + 1));
        }
        expected = number + 1;
    }
    None
}

impl PostgresStore {
    /// A page of the log after a number, ending before the first gap that may still be filled.
    pub(crate) async fn read_log(&self, after: i64, limit: u32) -> Result<Entries, Error> {
        let client = self.pool.get().await.map_err(no_connection)?;
        if after >= i64::MAX - 1 {
            return self.newest(&client).await;
        }
        // Taken before the page is read: what others settle after that says nothing of what this page has not seen.
        let mut settled = self.log.upto();
        let Page { mut entries, mut dropped } = page(&client, after, limit).await?;
        let numbers = |entries: &[Entry]| entries.iter().map(|entry| entry.number).collect::<Vec<i64>>();
        if first_gap(numbers(&entries).into_iter(), after.max(dropped), settled).is_some()
            && self.writers_ended(&client).await?
        {
            // Whoever could have filled a gap that was seen has ended: what this statement does not see never comes.
            settled = settled.max(entries.last().map_or(after, |entry| entry.number));
            Page { entries, dropped } = page(&client, after, limit).await?;
            self.log.raise(settled);
        }
        if let Some(gap) = first_gap(numbers(&entries).into_iter(), after.max(dropped), settled) {
            entries.retain(|entry| entry.number < gap);
        }
        let upto = entries.last().map_or(after.max(dropped), |entry| entry.number);
        Ok(Entries { entries, upto, oldest: oldest(dropped) })
    }

    /// The newest number before which nothing can appear any more. Only so many numbers are looked at: where there are more,
    /// whoever has been writing since before them is waited for too, and passed over only if that takes too long.
    async fn newest(&self, client: &Object) -> Result<Entries, Error> {
        let settled = self.log.upto();
        let mut newest = newest_numbers(client).await?;
        let is_unsure = newest.first_gap(settled).is_some() || newest.before() > newest.dropped.max(settled);
        if is_unsure && self.writers_ended(client).await? {
            self.log.raise(newest.numbers.last().copied().unwrap_or(0));
            newest = newest_numbers(client).await?;
        }
        let upto = match newest.first_gap(self.log.upto()) {
            Some(gap) => gap - 1,
            None => newest.numbers.last().copied().unwrap_or(newest.dropped),
        };
        Ok(Entries { entries: Vec::new(), upto, oldest: oldest(newest.dropped) })
    }

    /// Waits until every writer that is writing now has ended; false if that takes too long.
    async fn writers_ended(&self, client: &Object) -> Result<bool, Error> {
        let mut writing = self.writers(client).await?;
        let deadline = tokio::time::Instant::now() + PATIENCE;
        let mut pause = Duration::from_micros(500);
        while !writing.is_empty() {
            if tokio::time::Instant::now() >= deadline {
                return Ok(false);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(20));
            let still = self.writers(client).await?;
            writing.retain(|writer| still.contains(writer));
        }
        Ok(true)
    }

    async fn writers(&self, client: &Object) -> Result<HashSet<String>, Error> {
        let statement = client.prepare_cached(&sql::LOG_WRITERS).await.map_err(failure)?;
        let rows = client.query(&statement, &[&self.writers_key]).await.map_err(failure)?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }
}

/// The oldest number that is kept, where the log was dropped up to this one.
fn oldest(dropped: i64) -> i64 {
    if dropped == 0 { 0 } else { dropped + 1 }
}

/// Entries in order, and up to which number the log was dropped.
struct Page {
    entries: Vec<Entry>,
    dropped: i64,
}

async fn page(client: &Object, after: i64, limit: u32) -> Result<Page, Error> {
    let statement = client.prepare_cached(&sql::LOG_AFTER).await.map_err(failure)?;
    let rows = client.query(&statement, &[&after, &i64::from(limit)]).await.map_err(failure)?;
    let entry = |row| {
        let number = Row::get::<_, Option<i64>>(row, 0)?;
        Some(Entry { number, body: row::payload(row, 1) })
    };
    Ok(Page {
        entries: rows.iter().filter_map(entry).collect(),
        dropped: rows.first().map_or(0, |row| row.get(2)),
    })
}

/// The newest numbers, rising, and up to which the log was dropped.
struct Newest {
    numbers: Vec<i64>,
    dropped: i64,
}

impl Newest {
    /// The number after which nothing is left out here.
    fn before(&self) -> i64 {
        match self.numbers.first() {
            Some(first) if self.numbers.len() >= NEWEST => first - 1,
            Some(_) | None => self.dropped,
        }
    }

    fn first_gap(&self, settled: i64) -> Option<i64> {
        first_gap(self.numbers.iter().copied(), self.before(), settled)
    }
}

async fn newest_numbers(client: &Object) -> Result<Newest, Error> {
    let statement = client.prepare_cached(&sql::LOG_NEWEST).await.map_err(failure)?;
    let rows = client.query(&statement, &[]).await.map_err(failure)?;
    let numbers = rows.iter().rev().filter_map(|row| row.get(0)).collect();
    Ok(Newest { numbers, dropped: rows.first().map_or(0, |row| row.get(1)) })
}

#[cfg(test)]
mod tests {
    use super::first_gap;

    #[test]
    fn a_gap_is_seen_only_above_what_is_settled() {
        assert_eq!(first_gap([1, 2, 3].into_iter(), 0, 0), None);
        assert_eq!(first_gap([2, 3].into_iter(), 0, 0), Some(1));
        assert_eq!(first_gap([1, 2, 5].into_iter(), 0, 0), Some(3));
        assert_eq!(first_gap([1, 2, 5].into_iter(), 0, 3), Some(4));
        assert_eq!(first_gap([1, 2, 5].into_iter(), 0, 4), None);
        assert_eq!(first_gap([9].into_iter(), 7, 2), Some(8));
        assert_eq!(first_gap([].into_iter(), 7, 2), None);
    }
}
