//! The event log: reading pages of it, appending to it, and its window.

use crate::SqliteStore;
use crate::connection::failure::failure;
use crate::kinds::{Kind, Saving};
use crate::row;
use crate::sql::{self, statements};
use async_trait::async_trait;
use rusqlite::{Connection, params};
use selvedge_core::{Changes, Timestamp};
use selvedge_store::{Entries, Entry, Error, LogLimit, LogStore};

pub(crate) const KIND: Kind = Kind { statements: STATEMENTS, save, ..Kind::EMPTY };

statements! {
    LOG_APPEND = "log/append";
    LOG_DELETE_OLD = "log/delete_old";
    LOG_FIND_CUT = "log/find_cut";
    LOG_LIST = "log/list";
    LOG_READ_NEWEST = "log/read_newest";
    LOG_WINDOW_READ = "log_window/read";
    LOG_WINDOW_UPDATE = "log_window/update";
}

/// The most entries that are deleted in one transaction, so that no other write waits long.
const CHUNK: u32 = 1000;

/// Appends one entry with all events.
fn save(connection: &Connection, changes: &Changes, saving: &mut Saving) -> rusqlite::Result<Option<String>> {
    if !changes.events.is_empty() {
        let body = selvedge_core::log::pack(&changes.events);
        sql::execute(connection, &LOG_APPEND, params![saving.now.micros(), body])?;
        saving.entry = Some(connection.last_insert_rowid());
    }
    Ok(None)
}

#[async_trait]
impl LogStore for SqliteStore {
    /// One writer draws the numbers and commits in their order, so every visible entry is final.
    async fn log_page(&self, after: i64, limit: LogLimit) -> Result<Entries, Error> {
        self.read("log_page", move |connection| page(connection, after, limit)).await
    }

    async fn drop_old_log(&self, keep_ms: i64) -> Result<u64, Error> {
        self.meter.measure("drop_old_log", self.keep_window(keep_ms)).await
    }
}

fn page(connection: &Connection, after: i64, limit: LogLimit) -> rusqlite::Result<Entries> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut statement = connection.prepare_cached(&LOG_LIST)?;
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
        None => number(&LOG_READ_NEWEST)?,
    };
    let oldest = match number(&LOG_WINDOW_READ)? {
        0 => 0,
        dropped => dropped + 1,
    };
    Ok(Entries { entries, upto, oldest, is_full })
}

impl SqliteStore {
    /// Deletes the entries that are older than the window, in chunks. Returns their number.
    async fn keep_window(&self, keep_ms: i64) -> Result<u64, Error> {
        let mut deleted = 0;
        loop {
            let delete = self.commit(move |context| {
                delete_chunk(context.connection, context.now.minus_ms(keep_ms)).map_err(failure)
            });
            let chunk = delete.await?;
            deleted += chunk;
            if chunk < u64::from(CHUNK) {
                return Ok(deleted);
            }
        }
    }
}

/// Deletes the oldest entries from before a time, at most one chunk. Returns their number.
fn delete_chunk(connection: &Connection, before: Timestamp) -> rusqlite::Result<u64> {
    let cut: Option<(i64, i64)> =
        sql::row(connection, &LOG_FIND_CUT, params![before.micros(), CHUNK], |found| {
            Ok((found.get(0)?, found.get(1)?))
        })?;
    let Some((number, at)) = cut else { return Ok(0) };
    let deleted = sql::execute(connection, &LOG_DELETE_OLD, [number])?;
    sql::execute(connection, &LOG_WINDOW_UPDATE, [number, at])?;
    Ok(deleted)
}
