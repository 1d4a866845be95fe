//! Reads outside of transactions: executions and sessions here, and one file for each other subject.

pub mod due;
pub mod flows;
pub mod list;
pub mod names;
pub mod stats;

pub use crate::log::log_page;

use crate::connection::failure::not_understood;
use crate::{row, sql};
use rusqlite::{Connection, OptionalExtension, Params, Row, params};
use selvedge_core::filter::Payloads;
use selvedge_core::state::StateName;
use selvedge_core::{Execution, ExecutionId, NamespaceId, Session};
use selvedge_store::{Head, Stored};

/// Returns all rows of a statement.
pub fn all<T>(
    connection: &Connection,
    statement: &str,
    parameters: impl Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    connection.prepare_cached(statement)?.query_map(parameters, read)?.collect()
}

/// Returns executions by id, in the order of `ids`, with the payloads asked for. Ids that do not exist are left out.
pub fn fetch(
    connection: &Connection,
    ids: &[ExecutionId],
    payloads: Payloads,
) -> rusqlite::Result<Vec<Stored>> {
    fetch_each(connection, ids, payloads)?
        .into_iter()
        .map(|read| read.map_err(|why| not_understood(&why)))
        .collect()
}

/// Returns the size of the payloads asked for of executions, in the order of `ids`. Ids that do not exist are left out.
pub fn payload_sizes(
    connection: &Connection,
    ids: &[ExecutionId],
    payloads: Payloads,
) -> rusqlite::Result<Vec<(ExecutionId, u64)>> {
    let mut statement = connection.prepare_cached(&sql::EXECUTIONS_READ_SIZES)?;
    let mut sizes = Vec::with_capacity(ids.len());
    for id in ids {
        let parameters = params![id.0.as_bytes(), payloads.input, payloads.result];
        let size = statement.query_row(parameters, |found| found.get::<_, Option<i64>>(0)).optional()?;
        sizes.extend(size.map(|size| (*id, size.unwrap_or_default() as u64)));
    }
    Ok(sizes)
}

/// Returns the head of an execution.
pub fn head(connection: &Connection, id: ExecutionId) -> rusqlite::Result<Option<Head>> {
    let mut statement = connection.prepare_cached(&sql::EXECUTIONS_READ_HEAD)?;
    let head = |found: &Row<'_>| {
        let code = found.get(2)?;
        let state = StateName::from_code(code);
        let state =
            state.ok_or_else(|| not_understood(&format!("execution {id} has the unknown state {code}")))?;
        Ok(Head { namespace: NamespaceId(found.get(0)?), epoch: found.get(1)?, state })
    };
    statement.query_row([id.0.as_bytes()], head).optional()
}

/// Returns executions by id, in the order of `ids`, with the payloads asked for. Ids that do not exist and unreadable rows
/// are left out.
pub fn fetch_readable(
    connection: &Connection,
    ids: &[ExecutionId],
    payloads: Payloads,
) -> rusqlite::Result<Vec<Stored>> {
    let readable = |read: Result<Stored, String>| match read {
        Ok(stored) => Some(stored),
        // An unreadable row must not hide the others.
        Err(error) => {
            tracing::error!(%error, "left out of a list");
            None
        }
    };
    Ok(fetch_each(connection, ids, payloads)?.into_iter().filter_map(readable).collect())
}

/// Returns each execution, or why its row cannot be read.
fn fetch_each(
    connection: &Connection,
    ids: &[ExecutionId],
    payloads: Payloads,
) -> rusqlite::Result<Vec<Result<Stored, String>>> {
    let mut statement = connection.prepare_cached(&sql::EXECUTIONS_FETCH)?;
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        let parameters = params![id.0.as_bytes(), payloads.input, payloads.result];
        found.extend(statement.query_row(parameters, stored).optional()?);
    }
    Ok(found)
}

fn stored(found: &Row<'_>) -> rusqlite::Result<Result<Stored, String>> {
    let execution = match row::execution(found)? {
        Ok(execution) => execution,
        Err((id, why)) => return Ok(Err(format!("execution {id} cannot be read: {why}"))),
    };
    Ok(Ok(Stored {
        execution,
        input: row::optional_bytes(found, sql::EXECUTION_COLUMN_COUNT)?.unwrap_or_default(),
        result: row::optional_bytes(found, sql::EXECUTION_COLUMN_COUNT + 1)?,
        renewed_at: row::optional_time(found, sql::EXECUTION_COLUMN_COUNT + 2)?,
    }))
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
