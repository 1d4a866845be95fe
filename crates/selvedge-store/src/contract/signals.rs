//! Reads of signals.

use crate::Error;
use async_trait::async_trait;
use selvedge_core::{ExecutionId, Signal};

#[async_trait]
pub trait SignalReads: Send + Sync {
    /// Returns signals of an execution with numbers greater than `after`, in order, with their payloads.
    async fn signals(&self, of: ExecutionId, after: u32, limit: u32) -> Result<Vec<Signal>, Error>;
}
