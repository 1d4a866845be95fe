//! Reads of bulk jobs.

use crate::{Error, ReconcilerScope};
use async_trait::async_trait;
use selvedge_core::NamespaceId;
use selvedge_core::bulk_job::{BulkJob, BulkJobId};

#[async_trait]
pub trait BulkJobReads: Send + Sync {
    /// Returns a bulk job.
    async fn bulk_job(&self, id: BulkJobId) -> Result<Option<BulkJob>, Error>;
    /// Returns a page of the bulk jobs of a namespace, newest first: `after` is the id of the last job of the previous page.
    async fn bulk_jobs(
        &self,
        namespace: NamespaceId,
        after: Option<BulkJobId>,
        limit: u32,
    ) -> Result<Vec<BulkJob>, Error>;
    /// Returns bulk jobs that are due, earliest first: those of the namespace of a scope, whatever its tag.
    async fn due_bulk_jobs(&self, scope: &ReconcilerScope, limit: u32) -> Result<Vec<BulkJob>, Error>;
}
