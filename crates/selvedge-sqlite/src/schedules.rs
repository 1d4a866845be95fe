//! Schedules: read, loaded and saved.

use crate::connection::failure::{is_not_understood, not_understood};
use crate::{row, sql};
use rusqlite::{Connection, OptionalExtension, Row, params};
use selvedge_core::schedule::{Schedule, ScheduleName};
use selvedge_core::{Changes, Name, NamespaceId, Needs, Rows, Timestamp};
use selvedge_store::ReconcilerScope;
use selvedge_store::columns::ScheduleColumns;

/// Returns a schedule.
pub fn find(connection: &Connection, name: &ScheduleName) -> rusqlite::Result<Option<Schedule>> {
    connection
        .prepare_cached(&sql::SCHEDULES_READ)?
        .query_row(params![name.namespace.0, name.name.as_str()], schedule)
        .optional()
}

/// Returns a page of the schedules of a namespace, by name. Unreadable ones are left out.
pub fn list(
    connection: &Connection,
    namespace: NamespaceId,
    after: Option<&Name>,
    limit: u32,
) -> rusqlite::Result<Vec<Schedule>> {
    let mut statement = connection.prepare_cached(&sql::SCHEDULES_LIST)?;
    let after = after.map_or("", Name::as_str);
    let found = statement.query(params![namespace.0, after, limit])?;
    readable(found, limit)
}

/// Returns a page of the due schedules, earliest first. Unreadable ones are left out and replaced by the next ones.
pub fn due(
    connection: &Connection,
    now: Timestamp,
    scope: &ReconcilerScope,
    after: Option<&(Timestamp, ScheduleName)>,
    limit: u32,
) -> rusqlite::Result<Vec<Schedule>> {
    let place = after.map(|(at, name)| (at.micros(), name.namespace.0, name.name.as_str()));
    let (at, of, name) = place.unwrap_or((-1, i32::MIN, ""));
    let mut statement = connection.prepare_cached(&sql::SCHEDULES_LIST_DUE)?;
    let namespace = crate::read::due::namespace(scope);
    let found = statement.query(params![now.micros(), at, of, name, namespace])?;
    readable(found, limit)
}

fn readable(mut found: rusqlite::Rows<'_>, limit: u32) -> rusqlite::Result<Vec<Schedule>> {
    let mut schedules = Vec::new();
    while schedules.len() < limit as usize {
        let Some(row) = found.next()? else { break };
        match schedule(row) {
            Ok(schedule) => schedules.push(schedule),
            Err(error) if is_not_understood(&error) => tracing::error!(%error, "left out of a list"),
            Err(error) => return Err(error),
        }
    }
    Ok(schedules)
}

/// Returns the earliest due time of a schedule.
pub fn next_due(connection: &Connection) -> rusqlite::Result<Option<Timestamp>> {
    connection
        .prepare_cached(&sql::SCHEDULES_FIND_NEXT_DUE)?
        .query_row((), |found| row::optional_time(found, 0))
}

/// Loads the schedules that `needs` names.
pub fn load(connection: &Connection, needs: &Needs, rows: &mut Rows) -> rusqlite::Result<()> {
    for name in needs.schedules.keys() {
        rows.schedules.extend(find(connection, name)?);
    }
    Ok(())
}

/// Saves schedules. Returns the first guard that failed.
pub fn save(connection: &Connection, changes: &Changes) -> rusqlite::Result<Option<String>> {
    for (name, version) in &changes.schedules.deleted {
        let parameters = params![name.namespace.0, name.name.as_str(), version];
        if connection.prepare_cached(&sql::SCHEDULES_DELETE)?.execute(parameters)? == 0 {
            return Ok(Some(format!("schedule {:?} has moved", name.name)));
        }
    }
    for (schedule, expected) in changes.schedules.versioned() {
        if !write(connection, &ScheduleColumns::of(schedule, expected), expected)? {
            let moved = if expected.is_some() { "has moved" } else { "exists" };
            return Ok(Some(format!("schedule {:?} {moved}", schedule.name.name)));
        }
    }
    Ok(None)
}

/// Writes a schedule. Returns false if it exists, or does not have the expected version.
fn write(connection: &Connection, row: &ScheduleColumns, expected: Option<u32>) -> rusqlite::Result<bool> {
    let ScheduleColumns { namespace, name, version, spec_version, spec, state, due_at } = row;
    let written = match expected {
        None => connection.prepare_cached(&sql::SCHEDULES_INSERT)?.execute(params![
            namespace,
            name,
            version,
            spec_version,
            spec,
            state,
            due_at
        ])?,
        Some(expected) => connection.prepare_cached(&sql::SCHEDULES_UPDATE)?.execute(params![
            namespace,
            name,
            expected,
            version,
            spec_version,
            spec,
            state,
            due_at
        ])?,
    };
    Ok(written > 0)
}

/// Reads the schedule in a row of `{schedule}`.
fn schedule(found: &Row<'_>) -> rusqlite::Result<Schedule> {
    let columns = ScheduleColumns {
        namespace: found.get(0)?,
        name: found.get(1)?,
        version: found.get(2)?,
        spec_version: found.get(3)?,
        spec: found.get(4)?,
        state: found.get(5)?,
        due_at: found.get(6)?,
    };
    let name = columns.name.clone();
    columns.schedule().map_err(|error| not_understood(&format!("schedule {name:?} cannot be read: {error}")))
}
