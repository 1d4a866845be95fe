//! Bulk jobs.

use crate::PostgresStore;
use crate::kinds::{Asking, Saving, collect};
use crate::sql::{Micros, array, columns, statements};
use async_trait::async_trait;
use selvedge_core::NamespaceId;
use selvedge_core::bulk_job::{BulkJob, BulkJobId, BulkJobState};
use selvedge_store::{BulkJobReads, Error, ReconcilerScope};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

statements! {
    with {
        bulk_job: bulk_job::list(),
        bulk_job_types: bulk_job::types(1),
    }
    DELETE = "bulk_jobs/delete";
    LIST = "bulk_jobs/list";
    LIST_DUE = "bulk_jobs/list_due";
    LOCK = "bulk_jobs/lock";
    READ = "bulk_jobs/read";
    UPSERT = "bulk_jobs/upsert";
}

columns! {
    bulk_job<'a> of job: &'a BulkJob {
        id: Uuid = job.id.0,
        namespace: i32 = job.namespace.0,
        state: &'a str = job.state.as_str(),
        created_at: Micros = job.created_at.into(),
        ended_at: Option<Micros> = job.ended_at.map(Micros::from),
        due_at: Micros = job.due_at.into(),
        spec: String = serde_json::to_string(&job.spec).expect("a job always serialises"),
        progress: String = serde_json::to_string(&job.progress).expect("a job always serialises"),
    }
}

fn decode(row: &Row) -> Result<BulkJob, Error> {
    use bulk_job::AT;
    let id = BulkJobId(row.get(AT.id));
    let unreadable = |detail: String| Error::Failed(format!("bulk job {id} cannot be read: {detail}"));
    let state: &str = row.get(AT.state);
    Ok(BulkJob {
        id,
        namespace: NamespaceId(row.get(AT.namespace)),
        state: BulkJobState::parse(state).ok_or_else(|| unreadable(format!("unknown state {state}")))?,
        created_at: row.get::<_, Micros>(AT.created_at).time(),
        ended_at: row.get::<_, Option<Micros>>(AT.ended_at).map(Micros::time),
        due_at: row.get::<_, Micros>(AT.due_at).time(),
        spec: serde_json::from_str(row.get(AT.spec)).map_err(|error| unreadable(error.to_string()))?,
        progress: serde_json::from_str(row.get(AT.progress))
            .map_err(|error| unreadable(error.to_string()))?,
    })
}

pub fn lock(asking: &mut Asking<'_>) {
    let gather = collect(decode, |rows| &mut rows.bulk_jobs);
    asking.lock(&asking.needs.bulk_jobs, &LOCK, |ids| vec![array(ids, |id| id.0)], gather);
}

pub fn save(saving: &mut Saving<'_>) {
    let jobs = &saving.changes.bulk_jobs;
    saving.rows(&jobs.written, &UPSERT, bulk_job::arrays);
    saving.rows(&jobs.removed, &DELETE, |ids| vec![array(ids, |id| id.0)]);
}

#[async_trait]
impl BulkJobReads for PostgresStore {
    async fn bulk_job(&self, id: BulkJobId) -> Result<Option<BulkJob>, Error> {
        self.first("bulk_job", &READ, &[&id.0], decode).await
    }

    async fn bulk_jobs(
        &self,
        namespace: NamespaceId,
        after: Option<BulkJobId>,
        limit: u32,
    ) -> Result<Vec<BulkJob>, Error> {
        let after = after.map_or(Uuid::max(), |after| after.0);
        self.all("bulk_jobs", &LIST, &[&namespace.0, &after, &i64::from(limit)], decode).await
    }

    async fn due_bulk_jobs(&self, scope: &ReconcilerScope, limit: u32) -> Result<Vec<BulkJob>, Error> {
        let namespace = scope.namespace.map(|namespace| namespace.0);
        let parameters: [&(dyn ToSql + Sync); 2] = [&i64::from(limit), &namespace];
        let read =
            async { self.query_in_background(&LIST_DUE, &parameters).await?.iter().map(decode).collect() };
        self.meter.measure("due_bulk_jobs", read).await
    }
}
