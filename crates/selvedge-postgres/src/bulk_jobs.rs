//! Bulk jobs: read, loaded and saved.

use crate::connection::pipeline::Parameters;
use crate::read::due::scope_parameters;
use crate::row::Micros;
use crate::save::{Saving, column};
use crate::{PostgresStore, sql};
use selvedge_core::bulk_job::{BulkJob, BulkJobId, BulkJobState};
use selvedge_core::{Changes, NamespaceId, Rows};
use selvedge_store::{Error, ReconcilerScope};
use tokio_postgres::Row;
use uuid::Uuid;

impl PostgresStore {
    /// Returns a job.
    pub(crate) async fn read_bulk_job(&self, id: BulkJobId) -> Result<Option<BulkJob>, Error> {
        self.query(&sql::BULK_JOBS_READ, &[&id.0]).await?.first().map(bulk_job).transpose()
    }

    /// Returns a page of the jobs of a namespace, newest first.
    pub(crate) async fn list_bulk_jobs(
        &self,
        namespace: NamespaceId,
        after: Option<BulkJobId>,
        limit: u32,
    ) -> Result<Vec<BulkJob>, Error> {
        let after = after.map_or(Uuid::max(), |after| after.0);
        let rows = self.query(&sql::BULK_JOBS_LIST, &[&namespace.0, &after, &i64::from(limit)]).await?;
        rows.iter().map(bulk_job).collect()
    }

    /// Returns the jobs that are due, earliest first.
    pub(crate) async fn find_due_bulk_jobs(
        &self,
        scope: &ReconcilerScope,
        limit: u32,
    ) -> Result<Vec<BulkJob>, Error> {
        let (namespace, _) = scope_parameters(scope);
        let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 2] = [&i64::from(limit), &namespace];
        let rows = self.query_in_background(&sql::BULK_JOBS_LIST_DUE, &parameters).await?;
        rows.iter().map(bulk_job).collect()
    }
}

/// Returns the parameters of `bulk_jobs/lock`.
pub fn ids(ids: &[BulkJobId]) -> Parameters<'static> {
    vec![Box::new(ids.iter().map(|id| id.0).collect::<Vec<Uuid>>())]
}

/// Adds jobs to the rows.
pub fn gather(answer: &[Row], rows: &mut Rows) -> Result<(), Error> {
    for row in answer {
        rows.bulk_jobs.push(bulk_job(row)?);
    }
    Ok(())
}

pub fn save<'a>(changes: &'a Changes, saving: &mut Saving<'a>) {
    saving.rows(&changes.bulk_jobs.written, &sql::BULK_JOBS_UPSERT, |jobs| {
        vec![
            column(jobs, |job| job.id.0),
            column(jobs, |job| job.namespace.0),
            column(jobs, |job| job.state.as_str()),
            column(jobs, |job| Micros::from(job.created_at)),
            column(jobs, |job| job.ended_at.map(Micros::from)),
            column(jobs, |job| Micros::from(job.due_at)),
            column(jobs, |job| serde_json::to_string(&job.spec).expect("a job always serialises")),
            column(jobs, |job| serde_json::to_string(&job.progress).expect("a job always serialises")),
        ]
    });
    saving.rows(&changes.bulk_jobs.removed, &sql::BULK_JOBS_DELETE, |ids| vec![column(ids, |id| id.0)]);
}

/// Reads the job in a row of `{bulk_job}`.
fn bulk_job(row: &Row) -> Result<BulkJob, Error> {
    let id = BulkJobId(row.get(0));
    let unreadable = |detail: String| Error::Failed(format!("bulk job {id} cannot be read: {detail}"));
    let state: &str = row.get(2);
    Ok(BulkJob {
        id,
        namespace: NamespaceId(row.get(1)),
        state: BulkJobState::parse(state).ok_or_else(|| unreadable(format!("unknown state {state}")))?,
        created_at: row.get::<_, Micros>(3).time(),
        ended_at: row.get::<_, Option<Micros>>(4).map(Micros::time),
        due_at: row.get::<_, Micros>(5).time(),
        spec: serde_json::from_str(row.get(6)).map_err(|error| unreadable(error.to_string()))?,
        progress: serde_json::from_str(row.get(7)).map_err(|error| unreadable(error.to_string()))?,
    })
}
