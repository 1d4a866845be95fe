//! Bulk jobs.

use crate::SqliteStore;
use crate::connection::failure::not_understood;
use crate::kinds::{Kind, Saving, due};
use crate::row;
use crate::sql::{self, columns, statements};
use async_trait::async_trait;
use rusqlite::{Connection, Row, params};
use selvedge_core::bulk_job::{BulkJob, BulkJobId, BulkJobState};
use selvedge_core::{Changes, NamespaceId, Needs, Rows, Timed, Timestamp};
use selvedge_store::{BulkJobReads, Error, ReconcilerScope};
use uuid::Uuid;

pub(crate) const KIND: Kind = Kind {
    columns: &[("bulk_job", bulk_job::LIST)],
    statements: STATEMENTS,
    load,
    save,
    due: Some((BulkJob::KIND, &BULK_JOBS_FIND_NEXT_DUE)),
    delete_rest: &[&BULK_JOBS_DELETE_REST],
};

statements! {
    BULK_JOBS_DELETE = "bulk_jobs/delete";
    BULK_JOBS_DELETE_REST = "bulk_jobs/delete_rest";
    BULK_JOBS_FIND_NEXT_DUE = "bulk_jobs/find_next_due";
    BULK_JOBS_LIST = "bulk_jobs/list";
    BULK_JOBS_LIST_DUE = "bulk_jobs/list_due";
    BULK_JOBS_READ = "bulk_jobs/read";
    BULK_JOBS_UPSERT = "bulk_jobs/upsert";
}

columns! {
    bulk_job of job: &BulkJob {
        id = job.id.0.as_bytes(),
        namespace = job.namespace.0,
        state = job.state.as_str(),
        created_at = job.created_at.micros(),
        ended_at = job.ended_at.map(Timestamp::micros),
        due_at = job.due_at.micros(),
        spec = row::to_json(&job.spec)?,
        progress = row::to_json(&job.progress)?,
    }
}

fn decode(found: &Row<'_>) -> rusqlite::Result<BulkJob> {
    use bulk_job::AT;
    let id = BulkJobId(row::uuid(found, AT.id)?);
    let state: String = found.get(AT.state)?;
    Ok(BulkJob {
        id,
        namespace: NamespaceId(found.get(AT.namespace)?),
        state: BulkJobState::parse(&state)
            .ok_or_else(|| not_understood(&format!("bulk job {id}: unknown state {state}")))?,
        created_at: row::time(found, AT.created_at)?,
        ended_at: row::optional_time(found, AT.ended_at)?,
        due_at: row::time(found, AT.due_at)?,
        spec: row::json(found, AT.spec, "spec")?,
        progress: row::json(found, AT.progress, "progress")?,
    })
}

fn read(connection: &Connection, id: BulkJobId) -> rusqlite::Result<Option<BulkJob>> {
    sql::row(connection, &BULK_JOBS_READ, [id.0.as_bytes()], decode)
}

fn load(connection: &Connection, needs: &Needs, rows: &mut Rows) -> rusqlite::Result<()> {
    for id in needs.bulk_jobs.keys() {
        rows.bulk_jobs.extend(read(connection, *id)?);
    }
    Ok(())
}

fn save(connection: &Connection, changes: &Changes, _: &mut Saving) -> rusqlite::Result<Option<String>> {
    for job in &changes.bulk_jobs.written {
        bulk_job::write(connection, &BULK_JOBS_UPSERT, job, &[])?;
    }
    for id in &changes.bulk_jobs.removed {
        sql::execute(connection, &BULK_JOBS_DELETE, [id.0.as_bytes()])?;
    }
    Ok(None)
}

#[async_trait]
impl BulkJobReads for SqliteStore {
    async fn bulk_job(&self, id: BulkJobId) -> Result<Option<BulkJob>, Error> {
        self.read("bulk_job", move |connection| read(connection, id)).await
    }

    async fn bulk_jobs(
        &self,
        namespace: NamespaceId,
        after: Option<BulkJobId>,
        limit: u32,
    ) -> Result<Vec<BulkJob>, Error> {
        let after = after.map_or(Uuid::max(), |after| after.0);
        self.read("bulk_jobs", move |connection| {
            sql::rows(connection, &BULK_JOBS_LIST, params![namespace.0, after.as_bytes(), limit], decode)
        })
        .await
    }

    async fn due_bulk_jobs(&self, scope: &ReconcilerScope, limit: u32) -> Result<Vec<BulkJob>, Error> {
        let (now, namespace) = (self.clock.now().micros(), due::namespace(scope));
        self.read("due_bulk_jobs", move |connection| {
            sql::rows(connection, &BULK_JOBS_LIST_DUE, params![now, limit, namespace], decode)
        })
        .await
    }
}
