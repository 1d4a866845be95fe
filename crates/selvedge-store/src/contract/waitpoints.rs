//! Reads of waitpoints.

use crate::Error;
use async_trait::async_trait;
use selvedge_core::waitpoint::{WaitpointFilter, WaitpointPosition};
use selvedge_core::{ExecutionId, Waitpoint, WaitpointId};

#[async_trait]
pub trait WaitpointReads: Send + Sync {
    /// Returns waitpoints of an execution with numbers greater than `after`, in order.
    async fn waitpoints(&self, of: ExecutionId, after: u32, limit: u32) -> Result<Vec<Waitpoint>, Error>;
    /// Returns a page of the waitpoints of a namespace that match, newest first.
    async fn list_waitpoints(
        &self,
        filter: &WaitpointFilter,
        after: Option<WaitpointPosition>,
        limit: u32,
    ) -> Result<Vec<Waitpoint>, Error>;
    /// Returns a waitpoint by its id.
    async fn waitpoint(&self, id: WaitpointId) -> Result<Option<Waitpoint>, Error>;
}
