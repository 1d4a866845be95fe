//! Reads of the event log, and the deletion of its old periods.

use crate::{Entries, Error, LogLimit};
use async_trait::async_trait;

#[async_trait]
pub trait LogStore: Send + Sync {
    /// Returns a page of event log entries with numbers greater than `after`. `after` may exceed every number; `upto` is then
    /// the number of the newest entry.
    async fn log_page(&self, after: i64, limit: LogLimit) -> Result<Entries, Error>;
    /// [`LogStore::log_page`] with a limit on the number of entries alone.
    async fn log_after(&self, after: i64, limit: u32) -> Result<Entries, Error> {
        self.log_page(after, LogLimit::entries(limit)).await
    }
    /// Drops whole periods of the event log whose entries are all older than `keep_ms` milliseconds, prepares periods to come,
    /// and returns how many periods were dropped. Gives up after a short wait instead of blocking writers; the next call
    /// continues.
    async fn drop_old_log(&self, keep_ms: i64) -> Result<u64, Error>;
}
