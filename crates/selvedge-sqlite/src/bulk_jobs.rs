//! Bulk jobs: read, loaded and saved.

use crate::connection::failure::not_understood;
use crate::read::all;
use crate::row::{json, to_json};
use crate::{row, sql};
use rusqlite::{Connection, OptionalExtension, Row, params};
use selvedge_core::bulk_job::{BulkJob, BulkJobId, BulkJobState};
use selvedge_core::{Changes, NamespaceId, Needs, Rows, Timestamp};
use selvedge_store::ReconcilerScope;
use uuid::Uuid;

/// Returns a job.
pub fn read(connection: &Connection, id: BulkJobId) -> rusqlite::Result<Option<BulkJob>> {
    connection.prepare_cached(&sql::BULK_JOBS_READ)?.query_row([id.0.as_bytes()], bulk_job).optional()
}

/// Returns a page of the jobs of a namespace, newest first.
pub fn list(
    connection: &Connection,
    namespace: NamespaceId,
    after: Option<BulkJobId>,
    limit: u32,
) -> rusqlite::Result<Vec<BulkJob>> {
    let after = after.map_or(Uuid::max(), |after| after.0);
    all(connection, &sql::BULK_JOBS_LIST, params![namespace.0, after.as_bytes(), limit], bulk_job)
}

/// Returns the jobs that are due, earliest first.
pub fn due(
    connection: &Connection,
    now: Timestamp,
    scope: &ReconcilerScope,
    limit: u32,
) -> rusqlite::Result<Vec<BulkJob>> {
    let namespace = scope.namespace.map(|namespace| namespace.0);
    all(connection, &sql::BULK_JOBS_LIST_DUE, params![now.micros(), limit, namespace], bulk_job)
}

/// Returns the time at which the first job is due.
pub fn next_due(connection: &Connection) -> rusqlite::Result<Option<Timestamp>> {
    connection
        .prepare_cached(&sql::BULK_JOBS_FIND_NEXT_DUE)?
        .query_row([], |found| row::optional_time(found, 0))
}

/// Loads the jobs that `needs` names.
pub fn load(connection: &Connection, needs: &Needs, rows: &mut Rows) -> rusqlite::Result<()> {
    for id in needs.bulk_jobs.keys() {
        rows.bulk_jobs.extend(read(connection, *id)?);
    }
    Ok(())
}

pub fn save(connection: &Connection, changes: &Changes) -> rusqlite::Result<()> {
    for job in &changes.bulk_jobs.written {
        connection.prepare_cached(&sql::BULK_JOBS_UPSERT)?.execute(params![
            job.id.0.as_bytes(),
            job.namespace.0,
            job.state.as_str(),
            job.created_at.micros(),
            job.ended_at.map(Timestamp::micros),
            job.due_at.micros(),
            to_json(&job.spec)?,
            to_json(&job.progress)?,
        ])?;
    }
    for id in &changes.bulk_jobs.removed {
        connection.prepare_cached(&sql::BULK_JOBS_DELETE)?.execute([id.0.as_bytes()])?;
    }
    Ok(())
}

/// Reads the job in a row of `{bulk_job}`.
fn bulk_job(found: &Row<'_>) -> rusqlite::Result<BulkJob> {
    let id = BulkJobId(row::uuid(found, 0)?);
    let state: String = found.get(2)?;
    Ok(BulkJob {
        id,
        namespace: NamespaceId(found.get(1)?),
        state: BulkJobState::parse(&state)
            .ok_or_else(|| not_understood(&format!("bulk job {id}: unknown state {state}")))?,
        created_at: row::time(found, 3)?,
        ended_at: row::optional_time(found, 4)?,
        due_at: row::time(found, 5)?,
        spec: json(found, 6, "spec")?,
        progress: json(found, 7, "progress")?,
    })
}
