//! Rollups of statistics.

use crate::Error;
use async_trait::async_trait;
use selvedge_core::rollup::{RollupQuery, RollupRow};

#[async_trait]
pub trait RollupStore: Send + Sync {
    /// Saves rollups, all or nothing. A rollup with the same key is replaced.
    async fn save_rollups(&self, rows: &[RollupRow]) -> Result<(), Error>;
    /// Returns a page of rollups in the order of their keys.
    async fn rollups(&self, query: &RollupQuery, limit: u32) -> Result<Vec<RollupRow>, Error>;
    /// Deletes up to `limit` rollups of minutes that began more than `keep_ms` milliseconds ago, and returns how many were
    /// deleted.
    async fn delete_old_rollups(&self, keep_ms: i64, limit: u32) -> Result<u64, Error>;
}
