//! Reading the log without gaps.
//!
//! Numbers are drawn before commit, so a number may appear after a higher one was read. Every writer of ours holds a
//! shared advisory lock from its beginning, so before it draws, until it ends. So a gap is passed only this way: first the gap is seen, then
//! the holders of that lock are looked at until all who held it then are gone, then the gap is read again by a later
//! statement; what is still missing was rolled back and never comes. Transactions of others never hold the log back.

use crate::PostgresStore;
use crate::connect::{failure, no_connection};
use crate::row;
use crate::sql;
use deadpool_postgres::Object;
use selvedge_store::{Entries, Entry, Error};
use std::collections::HashSet;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// How long a reader waits for the writers that may fill a gap before it answers with what is before it.
const PATIENCE: Duration = Duration::from_millis(500);

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
        let mut entries = page(&client, after, limit).await?;
        let numbers = |entries: &[Entry]| entries.iter().map(|entry| entry.number).collect::<Vec<i64>>();
        if first_gap(numbers(&entries).into_iter(), after, settled).is_some()
            && self.writers_ended(&client).await?
        {
            // Whoever could have filled a gap that was seen has ended: what this statement does not see never comes.
            settled = settled.max(entries.last().map_or(after, |entry| entry.number));
            entries = page(&client, after, limit).await?;
            self.log.raise(settled);
        }
        if let Some(gap) = first_gap(numbers(&entries).into_iter(), after, settled) {
            entries.retain(|entry| entry.number < gap);
        }
        let upto = entries.last().map_or(after, |entry| entry.number);
        Ok(Entries { entries, upto, oldest: 0 })
    }

    /// The newest number before which nothing can appear any more.
    async fn newest(&self, client: &Object) -> Result<Entries, Error> {
        let mut numbers = newest_numbers(client).await?;
        let oldest = numbers.first().copied().unwrap_or(1) - 1;
        if first_gap(numbers.iter().copied(), oldest, self.log.upto()).is_some()
            && self.writers_ended(client).await?
        {
            self.log.raise(numbers.last().copied().unwrap_or(0));
            numbers = newest_numbers(client).await?;
        }
        let upto = match first_gap(numbers.iter().copied(), oldest, self.log.upto()) {
            Some(gap) => gap - 1,
            None => numbers.last().copied().unwrap_or(0),
        };
        Ok(Entries { entries: Vec::new(), upto, oldest: 0 })
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

async fn page(client: &Object, after: i64, limit: u32) -> Result<Vec<Entry>, Error> {
    let statement = client.prepare_cached(&sql::LOG_AFTER).await.map_err(failure)?;
    let rows = client.query(&statement, &[&after, &i64::from(limit)]).await.map_err(failure)?;
    Ok(rows.iter().map(|row| Entry { number: row.get(0), body: row::payload(row, 1) }).collect())
}

async fn newest_numbers(client: &Object) -> Result<Vec<i64>, Error> {
    let statement = client.prepare_cached(&sql::LOG_NEWEST).await.map_err(failure)?;
    let rows = client.query(&statement, &[]).await.map_err(failure)?;
    Ok(rows.iter().rev().map(|row| row.get(0)).collect())
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
