//! The window of the log. Older entries are deleted in chunks, each in a transaction of the writer, so that no other
//! write waits for more than one chunk.

use crate::connection::failure::failure;
use crate::{SqliteStore, sql};
use rusqlite::{Connection, OptionalExtension, params};
use selvedge_core::Timestamp;
use selvedge_store::Error;

/// The most entries that are deleted in one transaction.
const CHUNK: u32 = 1000;

impl SqliteStore {
    /// Deletes the entries that are older than the window. Returns their number.
    pub(crate) async fn keep_window(&self, keep_ms: i64) -> Result<u64, Error> {
        let mut deleted = 0;
        loop {
            let delete = self.commit(move |context| {
                let window = context.now.minus_ms(keep_ms);
                delete_chunk(context.connection, window).map_err(failure)
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
    let cut: Option<(i64, i64)> = connection
        .prepare_cached(&sql::LOG_FIND_CUT)?
        .query_row(params![before.micros(), CHUNK], |found| Ok((found.get(0)?, found.get(1)?)))
        .optional()?;
    let Some((number, at)) = cut else { return Ok(0) };
    let deleted = connection.prepare_cached(&sql::LOG_DELETE_OLD)?.execute([number])?;
    connection.prepare_cached(&sql::LOG_WINDOW_UPDATE)?.execute([number, at])?;
    Ok(deleted as u64)
}
