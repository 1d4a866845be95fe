//! Reading the log without gaps.
//!
//! Numbers are drawn before the commit, so an entry may appear after one with a higher number was read. A reader that sees a gap
//! waits until every transaction that may fill it has ended, and reads the gap again with a later statement. Entries that are
//! still missing were rolled back and never appear ([`settled`](crate::settled)). Transactions of other programs never
//! delay a reader. If the writers take too long, the reader returns the entries before the gap.
//!
//! Entries that have left the window are no gap: a page begins after them and says so. Entries and window are read in one
//! snapshot, so a reader never misses entries unnoticed while they are dropped.

pub mod window;

use crate::PostgresStore;
use crate::connection::{Connection, failure};
use crate::kinds::Saving;
use crate::settled::writers_ended;
use crate::sql::{Micros, payload, statements};
use async_trait::async_trait;
use selvedge_core::log;
use selvedge_store::{Entries, Entry, Error, LogLimit, LogStore};
use tokio_postgres::Row;

statements! {
    with { newest_limit: NEWEST_LIMIT, }
    APPEND = "log/append";
    DELETE_OLD = "log/delete_old";
    LIST = "log/list";
    LIST_MISSING_DAYS = "log/list_missing_days";
    LIST_NEWEST = "log/list_newest";
    LIST_OLD_DAYS = "log/list_old_days";
}

/// The most numbers that `log/list_newest` returns.
const NEWEST_LIMIT: usize = 1000;
/// Returns the first number above `settled` that is missing in a run that should begin after `after`.
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

/// Appends the events of the transaction as one entry.
pub fn append(saving: &mut Saving<'_>) {
    let events = &saving.changes.events;
    if !events.is_empty() {
        saving.add(&APPEND, vec![Box::new(log::pack(events))], |answer, saved| {
            saved.entry = answer.first().map(|row| row.get(0));
        });
    }
}

#[async_trait]
impl LogStore for PostgresStore {
    async fn log_page(&self, after: i64, limit: LogLimit) -> Result<Entries, Error> {
        self.meter.measure("log_page", self.read_log(after, limit)).await
    }

    async fn drop_old_log(&self, keep_ms: i64) -> Result<u64, Error> {
        self.meter.measure("drop_old_log", self.keep_window(keep_ms)).await
    }
}

impl PostgresStore {
    /// Returns a page of the log after a number. It ends before the first gap that may still be filled.
    async fn read_log(&self, after: i64, limit: LogLimit) -> Result<Entries, Error> {
        let client = self.readers.get().await?;
        let history = self.lineage.number();
        if after >= i64::MAX - 1 {
            return self.newest(&client).await;
        }
        // Read before the page: a number that another reader settles later says nothing about entries that this page
        // missed.
        let mut settled = self.log.upto();
        let Page { mut entries, mut dropped } = page(&client, after, limit).await?;
        let numbers = |entries: &[Entry]| entries.iter().map(|entry| entry.number).collect::<Vec<i64>>();
        if first_gap(numbers(&entries).into_iter(), after.max(dropped), settled).is_some()
            && writers_ended(&client, self.writers_key).await?
        {
            // Every writer that could have filled the gap has ended, so entries that this statement does not see never
            // appear.
            settled = settled.max(entries.last().map_or(after, |entry| entry.number));
            Page { entries, dropped } = page(&client, after, limit).await?;
            if self.lineage.number() == history {
                self.log.raise(settled);
            }
        }
        if let Some(gap) = first_gap(numbers(&entries).into_iter(), after.max(dropped), settled) {
            entries.retain(|entry| entry.number < gap);
        }
        let upto = entries.last().map_or(after.max(dropped), |entry| entry.number);
        let is_full = limit.cut(entries.iter().map(|entry| entry.body.len())).1;
        Ok(Entries { entries, upto, oldest: oldest(dropped), is_full })
    }

    /// Returns the newest number below which no entry can appear any more. Reads only the newest numbers; if there are
    /// more, a gap may lie below them, so it also waits for all current writers, up to the timeout.
    async fn newest(&self, client: &Connection) -> Result<Entries, Error> {
        let (mut settled, history) = (self.log.upto(), self.lineage.number());
        let mut newest = newest_numbers(client).await?;
        let is_uncertain =
            newest.first_gap(settled).is_some() || newest.before() > newest.dropped.max(settled);
        if is_uncertain && writers_ended(client, self.writers_key).await? {
            settled = settled.max(newest.numbers.last().copied().unwrap_or(0));
            if self.lineage.number() == history {
                self.log.raise(settled);
            }
            newest = newest_numbers(client).await?;
        }
        let upto = match newest.first_gap(settled) {
            Some(gap) => gap - 1,
            None => newest.numbers.last().copied().unwrap_or(newest.dropped),
        };
        Ok(Entries { entries: Vec::new(), upto, oldest: oldest(newest.dropped), is_full: false })
    }
}

/// Returns the oldest number that is kept, given the highest one that was dropped; 0 if none was.
fn oldest(dropped: i64) -> i64 {
    if dropped == 0 { 0 } else { dropped + 1 }
}

/// Entries in order, and the highest number that was dropped from the log.
struct Page {
    entries: Vec<Entry>,
    dropped: i64,
}

async fn page(client: &Connection, after: i64, limit: LogLimit) -> Result<Page, Error> {
    let statement = client.prepare_cached(&LIST).await.map_err(failure)?;
    let limits = (i64::from(limit.entries), i64::from(limit.bytes));
    let rows = client.query(&statement, &[&after, &limits.0, &limits.1]).await.map_err(failure)?;
    let entry = |row| {
        let number = Row::get::<_, Option<i64>>(row, 0)?;
        let at = row.get::<_, Micros>(3).time();
        Some(Entry { number, at, body: payload(row, 1) })
    };
    Ok(Page {
        entries: rows.iter().filter_map(entry).collect(),
        dropped: rows.first().map_or(0, |row| row.get(2)),
    })
}

/// The newest numbers, rising, and the highest number that was dropped from the log.
struct Newest {
    numbers: Vec<i64>,
    dropped: i64,
}

impl Newest {
    /// Returns the number after which these numbers are complete.
    fn before(&self) -> i64 {
        match self.numbers.first() {
            Some(first) if self.numbers.len() >= NEWEST_LIMIT => first - 1,
            Some(_) | None => self.dropped,
        }
    }

    fn first_gap(&self, settled: i64) -> Option<i64> {
        first_gap(self.numbers.iter().copied(), self.before(), settled)
    }
}

async fn newest_numbers(client: &Connection) -> Result<Newest, Error> {
    let statement = client.prepare_cached(&LIST_NEWEST).await.map_err(failure)?;
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
