//! Reads that are about executions and sessions by name, and about the log.

use crate::failure::not_understood;
use crate::{row, sql};
use rusqlite::{Connection, OptionalExtension, Params, Row, params};
use selvedge_core::{Execution, ExecutionId, NamespaceId, Session};
use selvedge_store::{Entries, Entry, Stored};

/// Every row of a statement.
pub fn all<T>(
    connection: &Connection,
    statement: &str,
    parameters: impl Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    connection.prepare_cached(statement)?.query_map(parameters, read)?.collect()
}

/// Executions by id, in the order of asking; those that do not exist are left out.
pub fn fetch(connection: &Connection, ids: &[ExecutionId]) -> rusqlite::Result<Vec<Stored>> {
    let mut statement = connection.prepare_cached(&sql::EXECUTION_FETCH)?;
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        found.extend(statement.query_row([id.0.as_bytes()], stored).optional()?);
    }
    Ok(found)
}

fn stored(found: &Row<'_>) -> rusqlite::Result<Stored> {
    let execution = row::execution(found)?
        .map_err(|(id, why)| not_understood(&format!("execution {id} cannot be read: {why}")))?;
    Ok(Stored {
        execution,
        input: row::bytes(found, sql::WIDTH)?,
        result: row::optional_bytes(found, sql::WIDTH + 1)?,
        renewed_at: row::optional_time(found, sql::WIDTH + 2)?,
    })
}

/// The pages of history that left an execution's row, oldest first.
pub fn history_pages(connection: &Connection, id: ExecutionId) -> rusqlite::Result<Vec<Vec<u8>>> {
    connection
        .prepare_cached(&sql::HISTORY_PAGE_LIST)?
        .query_map([id.0.as_bytes()], |found| found.get(0))?
        .collect()
}

/// How many ready executions of its class come before this one, counted up to `bound`.
pub fn ahead_of(connection: &Connection, execution: &Execution, bound: u64) -> rusqlite::Result<u64> {
    connection
        .prepare_cached(&sql::CANDIDATE_AHEAD)?
        .query_row(
            params![
                execution.class.0,
                execution.rank(),
                execution.id.0.as_bytes(),
                i64::try_from(bound).unwrap_or(i64::MAX),
            ],
            |found| found.get::<_, i64>(0),
        )
        .map(|count| count as u64)
}

/// All sessions of a namespace, or of all.
pub fn sessions(connection: &Connection, namespace: Option<NamespaceId>) -> rusqlite::Result<Vec<Session>> {
    connection
        .prepare_cached(&sql::SESSION_LIST)?
        .query_map([namespace.map(|namespace| namespace.0)], row::session)?
        .collect()
}

/// A page of the log. One writer draws the numbers and commits in their order, so whatever is there is final.
pub fn log_after(connection: &Connection, after: i64, limit: u32) -> rusqlite::Result<Entries> {
    let entries: Vec<Entry> = connection
        .prepare_cached(&sql::LOG_READ)?
        .query_map([after, i64::from(limit)], |found| {
            Ok(Entry { number: found.get(0)?, body: row::bytes(found, 1)? })
        })?
        .collect::<rusqlite::Result<_>>()?;
    let number = |statement: &str| -> rusqlite::Result<i64> {
        connection.prepare_cached(statement)?.query_row((), |found| found.get(0))
    };
    let upto = match entries.last() {
        Some(last) => last.number,
        None => number(&sql::LOG_NEWEST)?,
    };
    let oldest = match number(&sql::LOG_DROPPED)? {
        0 => 0,
        dropped => dropped + 1,
    };
    Ok(Entries { entries, upto, oldest })
}
