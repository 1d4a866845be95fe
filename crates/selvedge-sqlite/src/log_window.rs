//! The window of the log. What is older than it is deleted a chunk at a time, each in the writer's next transaction, so that
//! nobody who writes waits for more than one.

use crate::failure::failure;
use crate::{SqliteStore, sql};
use rusqlite::{Connection, OptionalExtension, params};
use selvedge_core::Timestamp;
use selvedge_store::Error;

/// How many entries go at a time.
const CHUNK: u32 = 1000;

impl SqliteStore {
    /// Drops what is older than the window; says how many entries: each is a period of its own.
    pub(crate) async fn keep_window(&self, keep_ms: i64) -> Result<u64, Error> {
        let mut dropped = 0;
        loop {
            let chunk = move |connection: &Connection, now: Timestamp| {
                drop_chunk(connection, now.minus_ms(keep_ms), CHUNK)
            };
            let gone = self.write(move |desk| chunk(desk.connection, desk.now).map_err(failure)).await?;
            dropped += gone;
            if gone < u64::from(CHUNK) {
                return Ok(dropped);
            }
        }
    }
}

/// Drops the oldest entries from before a time, so many at most; says how many.
fn drop_chunk(connection: &Connection, before: Timestamp, limit: u32) -> rusqlite::Result<u64> {
    let cut: Option<(i64, i64)> = connection
        .prepare_cached(&sql::LOG_CUT)?
        .query_row(params![before.micros(), limit], |found| Ok((found.get(0)?, found.get(1)?)))
        .optional()?;
    let Some((number, at)) = cut else { return Ok(0) };
    let dropped = connection.prepare_cached(&sql::LOG_DROP)?.execute([number])?;
    connection.prepare_cached(&sql::LOG_WINDOW_WRITE)?.execute([number, at])?;
    Ok(dropped as u64)
}
