//! Bulk jobs: actions on any number of executions, which the reconciler `bulk_jobs` does in the background.

use super::{KeyedCalls, Namespace};
use crate::Error;
use selvedge_core::bulk_job::{BulkJob, BulkJobId};
use selvedge_core::filter::Filter;
use selvedge_core::rules::bulk_job::{StartBulkJob, StopBulkJob};
use selvedge_core::rules::keyed::Answered;
use selvedge_core::rules::operator::Action;
use selvedge_core::{Name, Refusal};
use std::collections::BTreeMap;
use uuid::Uuid;

/// A bulk job that is to be started.
#[derive(Clone, Debug)]
pub struct BulkJobDraft {
    pub action: Action,
    /// The executions to act on.
    pub filter: Filter,
    /// The filter as the caller wrote it, for views.
    pub asked: BTreeMap<String, serde_json::Value>,
}

impl KeyedCalls<'_> {
    /// Starts a bulk job. It acts on the executions that match and were submitted before its first chunk.
    pub async fn start_bulk_job(
        &self,
        draft: BulkJobDraft,
        actor: &Name,
    ) -> Result<Answered<BulkJob>, Error> {
        let filter = self.namespace.with_paused_lanes(&draft.filter).await?;
        let BulkJobDraft { action, asked, .. } = draft;
        let (id, namespace, actor) = (BulkJobId(Uuid::now_v7()), self.namespace.id(), actor.clone());
        let started = self.run(StartBulkJob { id, namespace, action, filter, asked, actor }).await?;
        Ok(match started.duplicate {
            true => Answered { done: self.namespace.bulk_job(started.done.id).await?, ..started },
            false => started,
        })
    }

    /// Stops a bulk job. What it has done stays done.
    pub async fn stop_bulk_job(&self, id: BulkJobId, actor: &Name) -> Result<BulkJob, Error> {
        let (namespace, actor) = (self.namespace.id(), actor.clone());
        Ok(self.namespace.run(StopBulkJob { namespace, id, actor }).await??)
    }
}

impl Namespace {
    /// Returns a bulk job.
    pub async fn bulk_job(&self, id: BulkJobId) -> Result<BulkJob, Error> {
        let job = self.inner().store.bulk_job(id).await?.filter(|job| job.namespace == self.id());
        let missing = || Refusal::NotFound { what: "bulk job".into(), id: id.to_string() };
        Ok(job.ok_or_else(missing)?)
    }

    /// Returns a page of the bulk jobs, newest first.
    pub async fn bulk_jobs(&self, after: Option<BulkJobId>, limit: u32) -> Result<Vec<BulkJob>, Error> {
        Ok(self.inner().store.bulk_jobs(self.id(), after, limit).await?)
    }
}
