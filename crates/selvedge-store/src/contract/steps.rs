//! Reads of recorded steps.

use crate::Error;
use async_trait::async_trait;
use selvedge_core::ExecutionId;
use selvedge_core::step::Step as RecordedStep;

#[async_trait]
pub trait StepReads: Send + Sync {
    /// Returns steps of an execution with numbers greater than `after`, in order, with their results.
    async fn steps(&self, of: ExecutionId, after: u32, limit: u32) -> Result<Vec<RecordedStep>, Error>;
}
