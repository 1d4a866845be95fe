//! The event log: reading pages of it, and its window.

mod window;

use crate::{row, sql};
use rusqlite::Connection;
use selvedge_store::{Entries, Entry, LogLimit};

/// Returns a page of the log. One writer draws the numbers and commits in their order, so every visible entry is final.
pub fn log_page(connection: &Connection, after: i64, limit: LogLimit) -> rusqlite::Result<Entries> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut statement = connection.prepare_cached(&sql::LOG_LIST)?;
    let mut found = statement.query([after, i64::from(limit.entries)])?;
    let mut bytes = 0;
    while bytes < limit.bytes as usize
        && let Some(found) = found.next()?
    {
        let entry = Entry { number: found.get(0)?, body: row::bytes(found, 1)?, at: row::time(found, 2)? };
        bytes += if entries.is_empty() { 0 } else { entry.body.len() };
        entries.push(entry);
    }
    let is_full = limit.cut(entries.iter().map(|entry| entry.body.len())).1;
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
    Ok(Entries { entries, upto, oldest, is_full })
}
