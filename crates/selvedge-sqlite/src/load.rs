//! Loads what a decision needs. Nobody else writes, so nothing has to be locked.

use crate::candidates::candidates;
use crate::row;
use rusqlite::{Connection, OptionalExtension, params};
use selvedge_core::rows::{KeyName, Needs, Rows};
use selvedge_core::{ExecutionId, Name, NamespaceId, Session, SessionId, Timestamp};

/// Everything that `needs` names.
pub fn load(connection: &Connection, needs: &Needs, now: Timestamp) -> rusqlite::Result<Rows> {
    let mut rows = Rows { now, ..Rows::default() };
    for ids in [&needs.executions, &needs.executions_if_free, &needs.look] {
        executions(connection, ids, &mut rows)?;
    }
    keys(connection, &needs.keys, &mut rows)?;
    candidates(connection, needs, &mut rows)?;
    inputs(connection, &needs.inputs, &mut rows)?;
    for ids in [&needs.sessions, &needs.sessions_locked] {
        sessions(connection, ids, &mut rows)?;
    }
    for (namespace, instance) in &needs.instances {
        instance_of(connection, *namespace, instance, &mut rows)?;
    }
    if let Some(after) = needs.classes_after {
        rows.classes = crate::names::classes_after(connection, after)?;
    }
    Ok(rows)
}

fn executions(connection: &Connection, ids: &[ExecutionId], rows: &mut Rows) -> rusqlite::Result<()> {
    if ids.is_empty() {
        return Ok(());
    }
    let mut statement = connection.prepare_cached(include_str!("sql/execution_read.sql"))?;
    for id in ids {
        match statement.query_row([id.0.as_bytes()], row::execution).optional()? {
            Some(Ok(execution)) => rows.executions.push(execution),
            Some(Err(unreadable)) => rows.unreadable.push(unreadable),
            None => {}
        }
    }
    Ok(())
}

fn inputs(connection: &Connection, ids: &[ExecutionId], rows: &mut Rows) -> rusqlite::Result<()> {
    for id in ids {
        let input = connection
            .prepare_cached(include_str!("sql/input_read.sql"))?
            .query_row([id.0.as_bytes()], |found| Ok(row::bytes(found, 0)))
            .optional()?;
        match input {
            Some(Ok(input)) => rows.inputs.push((*id, input)),
            Some(Err(error)) => rows.unreadable.push((*id, format!("column input: {error}"))),
            None => {}
        }
    }
    Ok(())
}

fn keys(connection: &Connection, names: &[KeyName], rows: &mut Rows) -> rusqlite::Result<()> {
    if names.is_empty() {
        return Ok(());
    }
    let mut statement = connection.prepare_cached(include_str!("sql/key_read.sql"))?;
    for name in names {
        let key = statement
            .query_row(params![name.namespace.0, name.scope.code(), name.key.as_str()], |found| {
                row::key(found, name)
            })
            .optional()?;
        rows.keys.extend(key);
    }
    Ok(())
}

fn sessions(connection: &Connection, ids: &[SessionId], rows: &mut Rows) -> rusqlite::Result<()> {
    for id in ids {
        let session = connection
            .prepare_cached(include_str!("sql/session_read.sql"))?
            .query_row([id.0], row::session)
            .optional()?;
        rows.sessions.extend(session);
    }
    Ok(())
}

/// The sessions of an instance, and their leases.
fn instance_of(
    connection: &Connection,
    namespace: NamespaceId,
    instance: &Name,
    rows: &mut Rows,
) -> rusqlite::Result<()> {
    let found: Vec<Session> = connection
        .prepare_cached(include_str!("sql/session_of_instance.sql"))?
        .query_map(params![namespace.0, instance.as_str()], row::session)?
        .collect::<rusqlite::Result<_>>()?;
    let mut statement = connection.prepare_cached(include_str!("sql/lease_list.sql"))?;
    for session in &found {
        for lease in statement.query_map([session.id.0], |found| row::lease(found, session))? {
            match lease? {
                Ok(lease) => rows.leases.push(lease),
                Err(unreadable) => rows.unreadable.push(unreadable),
            }
        }
    }
    rows.sessions.extend(found);
    Ok(())
}
