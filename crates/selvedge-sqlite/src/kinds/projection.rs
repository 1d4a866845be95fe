//! The projection of the log: events and attempts as rows that SQL can read. One process owns the file, so there is no lease.

use crate::SqliteStore;
use crate::kinds::{Kind, Saving};
use crate::sql::{self, statements};
use async_trait::async_trait;
use rusqlite::{Connection, params};
use selvedge_core::{Changes, Name};
use selvedge_store::{
    Error, ProjectedAttempt, ProjectedEnd, ProjectedEvent, ProjectionLease, ProjectionPage, ProjectionStore,
};

pub(crate) const KIND: Kind =
    Kind { statements: STATEMENTS, save, delete_rest: &[&PROJECTED_EVENTS_DELETE_REST], ..Kind::EMPTY };

statements! {
    PROJECTED_ATTEMPTS_DELETE = "projected_attempts/delete";
    PROJECTED_ATTEMPTS_END = "projected_attempts/end";
    PROJECTED_ATTEMPTS_UPSERT = "projected_attempts/upsert";
    PROJECTED_EVENTS_DELETE_OLD = "projected_events/delete_old";
    PROJECTED_EVENTS_DELETE_REST = "projected_events/delete_rest";
    PROJECTED_EVENTS_INSERT = "projected_events/insert";
    PROJECTION_MOVE = "projection/move";
    PROJECTION_READ = "projection/read";
}

/// Deletes the attempts of deleted executions.
fn save(connection: &Connection, changes: &Changes, _: &mut Saving) -> rusqlite::Result<Option<String>> {
    for (id, _) in &changes.executions.deleted {
        sql::execute(connection, &PROJECTED_ATTEMPTS_DELETE, [id.0.as_bytes()])?;
    }
    Ok(None)
}

#[async_trait]
impl ProjectionStore for SqliteStore {
    async fn take_projection(&self, _: ProjectionLease) -> Result<Option<i64>, Error> {
        self.read("take_projection", |connection| {
            sql::row(connection, &PROJECTION_READ, (), |found| found.get(0))
        })
        .await
    }

    async fn save_projection(&self, _: ProjectionLease, page: ProjectionPage) -> Result<bool, Error> {
        self.write("save_projection", move |connection, _| {
            if sql::execute(connection, &PROJECTION_MOVE, [page.after, page.upto])? == 0 {
                return Ok(false);
            }
            page.events.iter().try_for_each(|event| insert_event(connection, event))?;
            page.attempts.iter().try_for_each(|attempt| save_attempt(connection, attempt))?;
            Ok(true)
        })
        .await
    }

    async fn delete_old_projection(&self, limit: u32) -> Result<u64, Error> {
        self.write("delete_old_projection", move |connection, _| {
            sql::execute(connection, &PROJECTED_EVENTS_DELETE_OLD, [limit])
        })
        .await
    }
}

fn insert_event(connection: &Connection, event: &ProjectedEvent) -> rusqlite::Result<()> {
    connection.prepare_cached(&PROJECTED_EVENTS_INSERT)?.execute(params![
        event.cursor,
        event.kind,
        event.at.micros(),
        event.namespace.map(|namespace| namespace.0),
        event.execution.as_ref().map(|execution| execution.0.as_bytes()),
        event.flow.as_ref().map(|flow| flow.0.as_bytes()),
        event.version,
        event.actor.as_ref().map(Name::as_str),
        event.data,
    ])?;
    Ok(())
}

fn save_attempt(connection: &Connection, attempt: &ProjectedAttempt) -> rusqlite::Result<()> {
    let ProjectedAttempt { execution, attempt, namespace, start, end } = attempt;
    let at = end.as_ref().map(|end| end.at.micros());
    let outcome = end.as_ref().map(|end| end.outcome);
    let error = end.as_ref().and_then(|ProjectedEnd { error, .. }| error.as_ref());
    let (message, class) = (error.map(|error| &error.message), error.map(|error| error.class.as_str()));
    match start {
        Some(start) => connection.prepare_cached(&PROJECTED_ATTEMPTS_UPSERT)?.execute(params![
            execution.0.as_bytes(),
            attempt,
            namespace.0,
            start.lease.id.0.as_bytes(),
            start.lease.epoch,
            start.lease.worker.as_str(),
            start.lease.instance.as_str(),
            start.at.micros(),
            at,
            outcome,
            message,
            class,
        ])?,
        None => connection.prepare_cached(&PROJECTED_ATTEMPTS_END)?.execute(params![
            execution.0.as_bytes(),
            attempt,
            at,
            outcome,
            message,
            class,
        ])?,
    };
    Ok(())
}
