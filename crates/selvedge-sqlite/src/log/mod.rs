//! The event log: reading pages of it, and its window.

mod window;

use crate::{row, sql};
use rusqlite::Connection;
use selvedge_store::{Entries, Entry};

/// Returns a page of the log. One writer draws the numbers and commits in their order, so every visible entry is final.
pub fn log_after(connection: &Connection, after: i64, limit: u32) -> rusqlite::Result<Entries> {
    let entries: Vec<Entry> = connection
        .prepare_cached(&sql::LOG_LIST)?
        .query_map([after, i64::from(limit)], |found| {
            Ok(Entry { number: found.get(0)?, body: row::bytes(found, 1)?, at: row::time(found, 2)? })
        })?
        .collect::<rusqlite::Result<_>>()?;
    let number = |statement: &str| -> rusqlite::Result<i64> {
        connection.prepare_cached(statement)?.query_row((), |found| found.get(0))
    };
    let upto = match entries.last() {
        Some(last) => last.number,
        None => number(&sql::LOG_READ_NEWEST)?,
    };
    let oldest = match number(&sql::LOG_WINDOW_READ)? {
        0 => 0,
        dropped => dropped + 1,
    };
    Ok(Entries { entries, upto, oldest })
}
