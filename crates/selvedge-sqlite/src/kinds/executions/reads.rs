//! Reads of executions outside of transactions.

use super::*;
use crate::SqliteStore;
use crate::connection::failure::not_understood;
use crate::kinds::due;
use async_trait::async_trait;
use selvedge_core::filter::{Filter, ListPosition, Payloads};
use selvedge_core::state::StateName;
use selvedge_core::{ClassId, DueKind, NamespaceId, Timestamp};
use selvedge_store::{
    Depth, DueRow, Error, ExecutionReads, Head, LaneCounts, ListPage, ReconcilerScope, Stored,
};

/// The live states besides waiting.
const LIVE: [StateName; 5] = [
    StateName::WaitingDependencies,
    StateName::Delayed,
    StateName::Held,
    StateName::Active,
    StateName::Suspended,
];

#[async_trait]
impl ExecutionReads for SqliteStore {
    async fn fetch(&self, ids: &[ExecutionId], payloads: Payloads) -> Result<Vec<Stored>, Error> {
        let ids = ids.to_vec();
        self.read("fetch", move |connection| {
            let read = fetch_each(connection, &ids, payloads)?.into_iter();
            read.map(|read| read.map_err(|why| not_understood(&why))).collect()
        })
        .await
    }

    async fn payload_sizes(
        &self,
        ids: &[ExecutionId],
        payloads: Payloads,
    ) -> Result<Vec<(ExecutionId, u64)>, Error> {
        let ids = ids.to_vec();
        self.read("payload_sizes", move |connection| payload_sizes(connection, &ids, payloads)).await
    }

    async fn head(&self, id: ExecutionId) -> Result<Option<Head>, Error> {
        let decode = move |found: &Row<'_>| {
            let code = found.get(2)?;
            let unknown = || not_understood(&format!("execution {id} has the unknown state {code}"));
            let state = StateName::from_code(code).ok_or_else(unknown)?;
            Ok(Head { namespace: NamespaceId(found.get(0)?), epoch: found.get(1)?, state })
        };
        self.read("head", move |connection| {
            sql::row(connection, &EXECUTIONS_READ_HEAD, [id.0.as_bytes()], decode)
        })
        .await
    }

    async fn list(
        &self,
        filter: &Filter,
        after: Option<ListPosition>,
        limit: u32,
        payloads: Payloads,
    ) -> Result<ListPage, Error> {
        let filter = filter.clone();
        self.read("list", move |connection| list::list(connection, &filter, after, limit, payloads)).await
    }

    async fn count(&self, filter: &Filter, bound: u64) -> Result<u64, Error> {
        let filter = filter.clone();
        self.read("count", move |connection| list::count(connection, &filter, bound)).await
    }

    async fn count_lanes(
        &self,
        namespace: NamespaceId,
        lanes: &[Vec<ClassId>],
        bound: u64,
    ) -> Result<Vec<LaneCounts>, Error> {
        let lanes = lanes.to_vec();
        self.read("count_lanes", move |connection| list::count_lanes(connection, namespace, &lanes, bound))
            .await
    }

    async fn depths(
        &self,
        namespace: NamespaceId,
        ranges: &[ClassId],
        bound: u64,
    ) -> Result<Vec<Depth>, Error> {
        let ranges = ranges.to_vec();
        self.read("depths", move |connection| depths(connection, namespace, &ranges, bound)).await
    }

    async fn history_pages(&self, id: ExecutionId) -> Result<Vec<Vec<u8>>, Error> {
        self.read("history_pages", move |connection| {
            sql::rows(connection, &HISTORY_PAGES_LIST, [id.0.as_bytes()], |found| found.get(0))
        })
        .await
    }

    async fn ahead_of(&self, execution: &Execution, bound: u64) -> Result<u64, Error> {
        let (class, rank, id) = (execution.class.0, execution.rank(), execution.id);
        let bound = i64::try_from(bound).unwrap_or(i64::MAX);
        self.read("ahead_of", move |connection| {
            sql::count(connection, &EXECUTIONS_COUNT_AHEAD, params![class, rank, id.0.as_bytes(), bound])
        })
        .await
    }

    async fn due(
        &self,
        scope: &ReconcilerScope,
        kind: DueKind,
        after: Option<(Timestamp, ExecutionId)>,
        limit: u32,
    ) -> Result<Vec<DueRow>, Error> {
        let (now, scope) = (self.clock.now().micros(), scope.clone());
        let (at, id) = after.map_or(due::START, |(at, id)| (at.micros(), id.0));
        self.read("due", move |connection| {
            let (only, tag) = (due::namespace(&scope), scope.tag_text());
            let parameters = params![kind.code(), now, at, id.as_bytes(), limit, only, tag];
            sql::rows(connection, &EXECUTIONS_LIST_DUE, parameters, decode_due)
        })
        .await
    }

    async fn expired_leases(
        &self,
        scope: &ReconcilerScope,
        after: Option<ExecutionId>,
        limit: u32,
    ) -> Result<Vec<DueRow>, Error> {
        let (now, scope) = (self.clock.now().micros(), scope.clone());
        let after = after.map_or(Vec::new(), |id| id.0.as_bytes().to_vec());
        self.read("expired_leases", move |connection| {
            let parameters = params![now, after, limit, due::namespace(&scope), scope.tag_text()];
            sql::rows(connection, &LEASES_LIST_EXPIRED, parameters, decode_due)
        })
        .await
    }
}

/// Reads a due row from (id, due_at, namespace, tags).
fn decode_due(found: &Row<'_>) -> rusqlite::Result<DueRow> {
    Ok(DueRow {
        execution: ExecutionId(row::uuid(found, 0)?),
        due_at: row::time(found, 1)?,
        namespace: NamespaceId(found.get(2)?),
        // An unreadable row must not hide other due rows; loading it for the decision reports the error.
        tags: row::tags(found, 3)?.unwrap_or_default(),
    })
}

/// Returns the size of the payloads asked for of executions, in the order of `ids`. Ids that do not exist are left out.
pub fn payload_sizes(
    connection: &Connection,
    ids: &[ExecutionId],
    payloads: Payloads,
) -> rusqlite::Result<Vec<(ExecutionId, u64)>> {
    let mut sizes = Vec::with_capacity(ids.len());
    for id in ids {
        let parameters = params![id.0.as_bytes(), payloads.input, payloads.result];
        let size = |found: &Row<'_>| found.get::<_, Option<i64>>(0);
        let size = sql::row(connection, &EXECUTIONS_READ_SIZES, parameters, size)?;
        sizes.extend(size.map(|size| (*id, size.unwrap_or_default() as u64)));
    }
    Ok(sizes)
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
    let mut statement = connection.prepare_cached(&EXECUTIONS_FETCH)?;
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        let parameters = params![id.0.as_bytes(), payloads.input, payloads.result];
        found.extend(statement.query_row(parameters, decode_stored).optional()?);
    }
    Ok(found)
}

fn decode_stored(found: &Row<'_>) -> rusqlite::Result<Result<Stored, String>> {
    let execution = match decode(found)? {
        Ok(execution) => execution,
        Err((id, why)) => return Ok(Err(format!("execution {id} cannot be read: {why}"))),
    };
    Ok(Ok(Stored {
        execution,
        input: row::optional_bytes(found, COUNT)?.unwrap_or_default(),
        result: row::optional_bytes(found, COUNT + 1)?,
        renewed_at: row::optional_time(found, COUNT + 2)?,
    }))
}

/// Counts the live executions of a namespace by class or pool and by state.
fn depths(
    connection: &Connection,
    namespace: NamespaceId,
    ranges: &[ClassId],
    bound: u64,
) -> rusqlite::Result<Vec<Depth>> {
    let bound = i64::try_from(bound).unwrap_or(i64::MAX);
    let mut depths = Vec::new();
    let mut of_class = connection.prepare_cached(&EXECUTIONS_MEASURE_WAITING)?;
    let mut of_pool = connection.prepare_cached(&EXECUTIONS_MEASURE_POOLED)?;
    for range in ranges {
        let statement = if range.0 < 0 { &mut of_pool } else { &mut of_class };
        let waiting = statement.query_row((range.0, bound), |found| {
            let (count, oldest_at) = (found.get::<_, i64>(0)? as u64, row::optional_time(found, 1)?);
            Ok(oldest_at.map(|oldest_at| Depth {
                range: *range,
                state: StateName::Waiting,
                count,
                oldest_at,
            }))
        })?;
        depths.extend(waiting);
    }
    let mut of_state = connection.prepare_cached(&EXECUTIONS_MEASURE_LIVE)?;
    for state in LIVE {
        let found = of_state.query_map((namespace.0, state.code(), bound), |found| {
            Ok(Depth {
                range: ClassId(found.get(0)?),
                state,
                count: found.get::<_, i64>(1)? as u64,
                oldest_at: row::time(found, 2)?,
            })
        })?;
        for depth in found {
            depths.push(depth?);
        }
    }
    Ok(depths)
}
