//! Reads outside of transactions: executions and sessions here, and one file for each other subject.

pub mod due;
pub mod flows;
pub mod list;
pub mod names;

pub use crate::log::log_after;

use crate::connection::failure::not_understood;
use crate::{row, sql};
use rusqlite::{Connection, OptionalExtension, Params, Row, params};
use selvedge_core::{Execution, ExecutionId, NamespaceId, Session};
use selvedge_store::Stored;

/// Returns all rows of a statement.
pub fn all<T>(
    connection: &Connection,
    statement: &str,
    parameters: impl Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    connection.prepare_cached(statement)?.query_map(parameters, read)?.collect()
}

/// Returns executions by id, in the order of `ids`. Ids that do not exist are left out.
pub fn fetch(connection: &Connection, ids: &[ExecutionId]) -> rusqlite::Result<Vec<Stored>> {
    let mut statement = connection.prepare_cached(&sql::EXECUTIONS_FETCH)?;
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
        input: row::bytes(found, sql::EXECUTION_COLUMN_COUNT)?,
        result: row::optional_bytes(found, sql::EXECUTION_COLUMN_COUNT + 1)?,
        renewed_at: row::optional_time(found, sql::EXECUTION_COLUMN_COUNT + 2)?,
    })
}

/// Returns the pages of history that no longer are in an execution's row, oldest first.
pub fn history_pages(connection: &Connection, id: ExecutionId) -> rusqlite::Result<Vec<Vec<u8>>> {
    connection
        .prepare_cached(&sql::HISTORY_PAGES_LIST)?
        .query_map([id.0.as_bytes()], |found| found.get(0))?
        .collect()
}

/// Counts the waiting executions of its class that claims take before this one, up to `bound`.
pub fn ahead_of(connection: &Connection, execution: &Execution, bound: u64) -> rusqlite::Result<u64> {
    connection
        .prepare_cached(&sql::EXECUTIONS_COUNT_AHEAD)?
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

/// Returns the sessions of a namespace, or of all namespaces.
pub fn sessions(connection: &Connection, namespace: Option<NamespaceId>) -> rusqlite::Result<Vec<Session>> {
    connection
        .prepare_cached(&sql::SESSIONS_LIST)?
        .query_map([namespace.map(|namespace| namespace.0)], row::session)?
        .collect()
}
