//! The window of the log: a partition per day (UTC), made ahead of its time, dropped when its every entry has left.
//!
//! Whoever changes the partitions must be alone with the log for a moment, and all who come later wait behind it. So it waits
//! for that only a few milliseconds, gives up, and tries again a little later, at last with the next call. Each change is one
//! message, and so one transaction: a crash, or a caller that goes away, leaves it done or not begun. Several servers may do
//! it at once: what another has done is found done.
//!
//! An entry of a day without a partition goes to the default partition. Then that day stays there: it is read like any other,
//! and deleted row by row when it leaves the window.

use crate::connect::{failure, no_connection, quote};
use crate::{PostgresStore, sql};
use deadpool_postgres::Object;
use selvedge_store::Error;
use std::time::Duration;
use tokio_postgres::error::SqlState;

/// How long a change of the partitions waits for a lock, in milliseconds. Whoever comes behind it waits as long at most.
const WAIT_MS: u32 = 50;
/// How often it is tried at a time.
const TRIES: u32 = 3;
/// How long others are let by in between.
const PAUSE: Duration = Duration::from_millis(100);
/// How many days after today have a partition.
const DAYS_AHEAD: i32 = 3;
/// How many entries are deleted from the default partition at a time.
const CHUNK: i64 = 10_000;
/// A window that no log outgrows, in milliseconds: a thousand years.
const FOR_EVER_MS: i64 = 1000 * 366 * 24 * 3_600_000;

/// What became of a change of the partitions.
#[derive(Clone, Copy, PartialEq)]
enum Change {
    /// It is done.
    Done,
    /// There is nothing to do: another server did it, or it cannot be done.
    Needless,
    /// Others had the log all the time.
    Held,
}

impl PostgresStore {
    /// Drops the days that have left the window, and makes those to come; says how many were dropped. What is left of days in
    /// the default partition counts as one.
    pub(crate) async fn keep_window(&self, keep_ms: i64) -> Result<u64, Error> {
        let keep_ms = keep_ms.clamp(-FOR_EVER_MS, FOR_EVER_MS);
        let client = self.pool.get().await.map_err(no_connection)?;
        let dropped = drop_days(&client, keep_ms).await?;
        let deleted = empty_default(&client, keep_ms).await?;
        make_days(&client).await?;
        Ok(dropped + u64::from(deleted))
    }

    /// Makes the partitions of today and the next days.
    pub(crate) async fn prepare_log(&self) -> Result<(), Error> {
        let client = self.pool.get().await.map_err(no_connection)?;
        make_days(&client).await
    }
}

async fn drop_days(client: &Object, keep_ms: i64) -> Result<u64, Error> {
    let statement = client.prepare_cached(&sql::LOG_DAYS_OLD).await.map_err(failure)?;
    let mut dropped = 0;
    for row in client.query(&statement, &[&keep_ms]).await.map_err(failure)? {
        let day: String = row.get(0);
        let text = include_str!("sql/log_day_drop.sql").replace("{day}", &quote(&day));
        match change(client, &text, &[SqlState::UNDEFINED_TABLE]).await? {
            Change::Done => dropped += 1,
            Change::Needless => {}
            Change::Held => {
                tracing::info!(day, "the log is in use; the day is dropped later");
                break;
            }
        }
    }
    Ok(dropped)
}

/// Deletes what has left the window from the default partition; says whether there was something.
async fn empty_default(client: &Object, keep_ms: i64) -> Result<bool, Error> {
    let statement = client.prepare_cached(&sql::LOG_DEFAULT_DELETE).await.map_err(failure)?;
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

async fn make_days(client: &Object) -> Result<(), Error> {
    // Another made it; a partition that was carried over reaches so far; an entry came to the default partition just now.
    let needless = [
        SqlState::DUPLICATE_TABLE,
        SqlState::UNIQUE_VIOLATION,
        SqlState::INVALID_OBJECT_DEFINITION,
        SqlState::CHECK_VIOLATION,
    ];
    let statement = client.prepare_cached(&sql::LOG_DAYS_MISSING).await.map_err(failure)?;
    for row in client.query(&statement, &[&DAYS_AHEAD]).await.map_err(failure)? {
        let (day, from, to): (String, &str, &str) = (row.get(0), row.get(1), row.get(2));
        let text = include_str!("sql/log_day_create.sql")
            .replace("{day}", &quote(&day))
            .replace("{from}", from)
            .replace("{to}", to);
        if change(client, &text, &needless).await? == Change::Held {
            tracing::info!(day, "the log is in use; the partition of the day is made later");
        }
    }
    Ok(())
}

/// Changes the partitions by one message, a few times if others are in the way.
async fn change(client: &Object, text: &str, needless: &[SqlState]) -> Result<Change, Error> {
    let text = text.replace("{wait_ms}", &WAIT_MS.to_string());
    for again in 0..TRIES {
        if again > 0 {
            tokio::time::sleep(PAUSE).await;
        }
        match client.batch_execute(&text).await {
            Ok(()) => return Ok(Change::Done),
            Err(error) => match error.code() {
                Some(code) if needless.contains(code) => return Ok(Change::Needless),
                Some(&SqlState::LOCK_NOT_AVAILABLE | &SqlState::T_R_DEADLOCK_DETECTED) => {}
                _ => return Err(failure(error)),
            },
        }
    }
    Ok(Change::Held)
}
