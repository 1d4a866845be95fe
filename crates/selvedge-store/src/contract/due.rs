//! Reads of when background work is due next.

use crate::{Error, Overview};
use async_trait::async_trait;

#[async_trait]
pub trait DueReads: Send + Sync {
    /// Returns the next due times of all background work. Cheap: reads only the heads of indexes.
    async fn overview(&self) -> Result<Overview, Error>;
    /// Returns an overview at a cost that depends neither on the number of sessions nor on what other users of the database
    /// do. It may leave out times that are more than 3 s ahead, sessions that may be deleted, and rows that became due with
    /// a time in the past.
    async fn glance(&self) -> Result<Overview, Error>;
}
