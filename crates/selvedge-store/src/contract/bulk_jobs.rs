//! Reads of bulk jobs, and the deletion of a namespace, which a bulk job does.

use crate::{Error, ReconcilerScope};
use async_trait::async_trait;
use selvedge_core::NamespaceId;
use selvedge_core::bulk_job::{BulkJob, BulkJobId};
use uuid::Uuid;

#[async_trait]
pub trait BulkJobReads: Send + Sync {
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// This job deletes it.
    Running(BulkJobId),
    /// It was deleted. Its row stays, because ids of namespaces are never used again.
    Done,
}

impl Deletion {
    pub fn encode(self) -> String {
        match self {
            Deletion::Running(job) => job.to_string(),
            Deletion::Done => "done".into(),
        }
    }

    /// Returns the deletion of a stored form. Whatever cannot be read counts as done.
    pub fn decode(text: &str) -> Deletion {
        Uuid::parse_str(text).map_or(Deletion::Done, |job| Deletion::Running(BulkJobId(job)))
    }
}
