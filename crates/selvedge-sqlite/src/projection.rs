//! The projection of the log: events and attempts as rows that SQL can read. One process owns the file, so there is no lease.

use crate::sql;
use rusqlite::{Connection, params};
use selvedge_core::Name;
use selvedge_store::{ProjectedAttempt, ProjectedEnd, ProjectedEvent, ProjectionPage};

/// Returns the position.
pub fn position(connection: &Connection) -> rusqlite::Result<i64> {
    connection.prepare_cached(&sql::PROJECTION_READ)?.query_row((), |found| found.get(0))
}

/// Saves a page. Returns false if the position is another one.
pub fn save(connection: &Connection, page: &ProjectionPage) -> rusqlite::Result<bool> {
    if connection.prepare_cached(&sql::PROJECTION_MOVE)?.execute([page.after, page.upto])? == 0 {
        return Ok(false);
    }
    for event in &page.events {
        insert_event(connection, event)?;
    }
    for attempt in &page.attempts {
        save_attempt(connection, attempt)?;
    }
    Ok(true)
}

/// Deletes events that have left the log, at most `limit`.
pub fn delete_old(connection: &Connection, limit: u32) -> rusqlite::Result<u64> {
    Ok(connection.prepare_cached(&sql::PROJECTED_EVENTS_DELETE_OLD)?.execute([limit])? as u64)
}

fn insert_event(connection: &Connection, event: &ProjectedEvent) -> rusqlite::Result<()> {
    connection.prepare_cached(&sql::PROJECTED_EVENTS_INSERT)?.execute(params![
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
        Some(start) => connection.prepare_cached(&sql::PROJECTED_ATTEMPTS_UPSERT)?.execute(params![
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
        None => connection.prepare_cached(&sql::PROJECTED_ATTEMPTS_END)?.execute(params![
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
