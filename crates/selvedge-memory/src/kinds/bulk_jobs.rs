//! Bulk jobs.

use crate::MemoryStore;
use crate::kinds::{Kind, delete_all};
use async_trait::async_trait;
use selvedge_core::bulk_job::{BulkJob, BulkJobId};
use selvedge_core::{NamespaceId, Timed};
use selvedge_store::{BulkJobReads, Error, ReconcilerScope};

pub(crate) const KIND: Kind = Kind {
    load: |tables, needs, rows| {
        rows.bulk_jobs.extend(needs.bulk_jobs.keys().filter_map(|id| tables.bulk_jobs.get(id).cloned()));
    },
    save: |tables, changes, _| {
        let written = std::mem::take(&mut changes.bulk_jobs.written);
        tables.bulk_jobs.extend(written.into_iter().map(|job| (job.id, job)));
        tables.bulk_jobs.retain(|id, _| !changes.bulk_jobs.removed.contains(id));
    },
    due: |tables| Some((BulkJob::KIND, tables.bulk_jobs.values().map(|job| job.due_at).min()?)),
    delete_rest: |tables, namespace| {
        delete_all(&mut tables.bulk_jobs, |_, job| job.namespace == namespace && job.ended_at.is_some())
    },
    ..Kind::EMPTY
};

#[async_trait]
impl BulkJobReads for MemoryStore {
    async fn bulk_job(&self, id: BulkJobId) -> Result<Option<BulkJob>, Error> {
        self.read("bulk_job", |tables, _| tables.bulk_jobs.get(&id).cloned()).await
    }

    async fn bulk_jobs(
        &self,
        namespace: NamespaceId,
        after: Option<BulkJobId>,
        limit: u32,
    ) -> Result<Vec<BulkJob>, Error> {
        self.read("bulk_jobs", |tables, _| {
            let jobs = tables.bulk_jobs.values().rev();
            let older = jobs.filter(|job| after.is_none_or(|after| job.id < after));
            older.filter(|job| job.namespace == namespace).take(limit as usize).cloned().collect()
        })
        .await
    }

    async fn due_bulk_jobs(&self, scope: &ReconcilerScope, limit: u32) -> Result<Vec<BulkJob>, Error> {
        self.read("due_bulk_jobs", |tables, now| {
            let due = tables.bulk_jobs.values().filter(|job| job.due_at <= now);
            let mut due: Vec<&BulkJob> = due.filter(|job| scope.covers_namespace(job.namespace)).collect();
            due.sort_unstable_by_key(|job| (job.due_at, job.id));
            due.into_iter().take(limit as usize).cloned().collect()
        })
        .await
    }
}
