//! The window of the log: one partition per day (UTC), created ahead of time and dropped when all its entries have left.
//!
//! A change of partitions needs an exclusive lock for a moment, and readers and writers queue behind it. So it waits
//! for the lock only a few milliseconds, gives up and retries a few times, then leaves the rest to the next call. Each
//! change is one message and so one transaction: after a crash, or if the caller goes away, it has happened or not.
//! Several servers may do this at once: a change that another server has made is skipped.
//!
//! An entry of a day without a partition goes to the default partition. That day then stays there: its entries are read
//! like all others, and deleted row by row when they leave the window.

use super::{DELETE_OLD, LIST_MISSING_DAYS, LIST_OLD_DAYS};
use crate::PostgresStore;
use crate::connection::{Connection, failure, quote};
use selvedge_store::Error;
use std::time::Duration;
use tokio_postgres::error::SqlState;

/// Creates the partition of a day: `{day}`, from `{from}` to `{to}`. Waits `{wait_ms}` for each lock.
pub const CREATE_DAY: &str = include_str!("../../sql/log/create_day.sql");
/// Drops the partition `{day}`. Waits `{wait_ms}` for each lock.
pub const DROP_DAY: &str = include_str!("../../sql/log/drop_day.sql");

/// The time a change of partitions waits for a lock, in milliseconds. Readers and writers behind it wait no longer than
/// that.
const LOCK_WAIT_MS: u32 = 50;
/// The number of tries per call.
const TRIES: u32 = 3;
/// The pause between two tries, which lets queued readers and writers pass.
const PAUSE: Duration = Duration::from_millis(100);
/// The number of days after today that have a partition.
const DAYS_AHEAD: i32 = 3;
/// The most entries that are deleted from the default partition by one statement.
const CHUNK: i64 = 10_000;
/// The longest window, in milliseconds: a thousand years. Longer ones would overflow the calendar of Postgres.
const LONGEST_WINDOW_MS: i64 = 1000 * 366 * 24 * 3_600_000;

/// The outcome of a change of partitions.
#[derive(Clone, Copy, PartialEq)]
enum Change {
    Done,
    /// The change is not needed: another server has made it, or it can no longer be made.
    Skipped,
    /// Other transactions held the log during all tries.
    Blocked,
}

impl PostgresStore {
    /// Drops the days that have left the window and creates the coming ones. Returns the number of dropped days; all
    /// entries that were deleted from the default partition count as one day.
    pub(crate) async fn keep_window(&self, keep_ms: i64) -> Result<u64, Error> {
        let keep_ms = keep_ms.clamp(-LONGEST_WINDOW_MS, LONGEST_WINDOW_MS);
        let client = self.background.get().await?;
        let dropped = drop_days(&client, keep_ms).await?;
        let deleted = delete_from_default(&client, keep_ms).await?;
        create_days(&client).await?;
        Ok(dropped + u64::from(deleted))
    }

    /// Creates the partitions of today and the next days.
    pub(crate) async fn create_partitions(&self) -> Result<(), Error> {
        let client = self.background.get().await?;
        create_days(&client).await
    }
}

async fn drop_days(client: &Connection, keep_ms: i64) -> Result<u64, Error> {
    let statement = client.prepare_cached(&LIST_OLD_DAYS).await.map_err(failure)?;
    let mut dropped = 0;
    for row in client.query(&statement, &[&keep_ms]).await.map_err(failure)? {
        let day: String = row.get(0);
        let text = DROP_DAY.replace("{day}", &quote(&day));
        match change(client, &text, &[SqlState::UNDEFINED_TABLE]).await? {
            Change::Done => dropped += 1,
            Change::Skipped => {}
            Change::Blocked => {
                tracing::info!(day, "the log is in use; its partition is dropped later");
                break;
            }
        }
    }
    Ok(dropped)
}

/// Deletes the entries that have left the window from the default partition. Reports whether there were any.
async fn delete_from_default(client: &Connection, keep_ms: i64) -> Result<bool, Error> {
    let statement = client.prepare_cached(&DELETE_OLD).await.map_err(failure)?;
    let mut any = false;
    loop {
        let rows = client.query(&statement, &[&keep_ms, &CHUNK]).await.map_err(failure)?;
        let deleted = rows.first().map_or(0, |row| row.get::<_, i64>(0));
        any |= deleted > 0;
        if deleted < CHUNK {
            return Ok(any);
        }
    }
}

async fn create_days(client: &Connection) -> Result<(), Error> {
    let skipped = [
        // Another server has created it.
        SqlState::DUPLICATE_TABLE,
        SqlState::DUPLICATE_OBJECT,
        SqlState::UNIQUE_VIOLATION,
        // The partition that a migration made of the earlier log overlaps the day.
        SqlState::INVALID_OBJECT_DEFINITION,
        // An entry of the day has just been written to the default partition.
        SqlState::CHECK_VIOLATION,
    ];
    let statement = client.prepare_cached(&LIST_MISSING_DAYS).await.map_err(failure)?;
    for row in client.query(&statement, &[&DAYS_AHEAD]).await.map_err(failure)? {
        let (day, from, to): (String, &str, &str) = (row.get(0), row.get(1), row.get(2));
        let text = CREATE_DAY.replace("{day}", &quote(&day)).replace("{from}", from).replace("{to}", to);
        if change(client, &text, &skipped).await? == Change::Blocked {
            tracing::info!(day, "the log is in use; its partition is created later");
        }
    }
    Ok(())
}

/// Changes the partitions with one message, and retries while other transactions are in the way. The errors in
/// `skipped` mean that the change is not needed.
async fn change(client: &Connection, text: &str, skipped: &[SqlState]) -> Result<Change, Error> {
    let text = text.replace("{wait_ms}", &LOCK_WAIT_MS.to_string());
    for again in 0..TRIES {
        if again > 0 {
            tokio::time::sleep(PAUSE).await;
        }
        match client.batch_execute(&text).await {
            Ok(()) => return Ok(Change::Done),
            Err(error) => match error.code() {
                Some(code) if skipped.contains(code) => return Ok(Change::Skipped),
                Some(&SqlState::LOCK_NOT_AVAILABLE | &SqlState::T_R_DEADLOCK_DETECTED) => {}
                _ => return Err(failure(error)),
            },
        }
    }
    Ok(Change::Blocked)
}
