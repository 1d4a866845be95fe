//! The projection of the event log into rows that users read with SQL.

use crate::{Error, ProjectionLease, ProjectionPage, Transactions};
use async_trait::async_trait;
use std::future::ready;

#[async_trait]
pub trait ProjectionStore: Transactions {
    /// Takes or renews the lease on the projection, and returns its position: the number of the last entry of the log whose
    /// rows it has, 0 before the first. None if another owner has the lease. Default: none, because SQL cannot read the store.
    async fn take_projection(&self, _lease: ProjectionLease) -> Result<Option<i64>, Error> {
        self.meter().measure("take_projection", ready(Ok(None))).await
    }
    /// Saves rows of the projection with their position, all or nothing, and renews the lease. Returns false, and saves
    /// nothing, if another owner has taken the lease or the position is another one. An attempt of an execution that was
    /// deleted gets no row.
    async fn save_projection(&self, _lease: ProjectionLease, _page: ProjectionPage) -> Result<bool, Error> {
        self.meter().measure("save_projection", ready(Ok(false))).await
    }
    /// Deletes up to `limit` events of the projection whose entries were dropped from the log, and returns how many were
    /// deleted. Attempts are deleted with their executions.
    async fn delete_old_projection(&self, _limit: u32) -> Result<u64, Error> {
        self.meter().measure("delete_old_projection", ready(Ok(0))).await
    }
}
