//! Scans for reconcilers: due executions and flows, stale outbox rows, expired leases, unseen sessions.

use crate::{row, sql};
use rusqlite::{Connection, Row, params};
use selvedge_core::outbox::{OutboxKind, OutboxRow};
use selvedge_core::session::FORGET_MS;
use selvedge_core::stream::BEST_EFFORT_MS;
use selvedge_core::{DueKind, ExecutionId, FlowId, NamespaceId, SessionId, Timestamp};
use selvedge_store::{DueFlow, DueRow, FlowDue, Overview, ReconcilerScope};
use uuid::Uuid;

/// The position before every other one of a scan by time and id.
const START: (i64, Uuid) = (-1, Uuid::nil());

/// Returns the overview of everything that may be due.
pub fn overview(connection: &Connection, now: Timestamp) -> rusqlite::Result<Overview> {
    let old = now.minus_ms(BEST_EFFORT_MS).micros();
    let overview = connection.prepare_cached(&sql::OVERVIEW_READ)?.query_row(
        [now.micros(), FORGET_MS, old],
        |found| {
            Ok(Overview {
                now,
                expired_leases: found.get(0)?,
                stale: found.get::<_, bool>(1)? || found.get(2)? || found.get(3)?,
                newest_class: found.get(4)?,
                ..Overview::default()
            })
        },
    )?;
    Ok(Overview {
        next: earliest(connection, &sql::EXECUTIONS_FIND_NEXT_DUE, &DueKind::ALL, DueKind::code)?,
        outbox: earliest(connection, &sql::OUTBOX_FIND_OLDEST, &OutboxKind::ALL, OutboxKind::code)?,
        flows: earliest(connection, &sql::FLOWS_FIND_NEXT_DUE, &FlowDue::ALL, FlowDue::code)?,
        gates: crate::gates::next_due(connection)?,
        bulk_jobs: crate::bulk_jobs::next_due(connection)?,
        schedules: crate::schedules::next_due(connection)?,
        lanes: crate::gates::has_lanes(connection)?,
        ..overview
    })
}

/// Returns the earliest time of each kind that has one.
fn earliest<K: Copy>(
    connection: &Connection,
    statement: &str,
    kinds: &[K],
    code: impl Fn(K) -> i16,
) -> rusqlite::Result<Vec<(K, Timestamp)>> {
    let mut statement = connection.prepare_cached(statement)?;
    let mut earliest = Vec::new();
    for kind in kinds {
        let at = statement.query_row([code(*kind)], |found| row::optional_time(found, 0))?;
        earliest.extend(at.map(|at| (*kind, at)));
    }
    Ok(earliest)
}

/// Returns a page of the executions that are due for this kind, earliest first.
pub fn due(
    connection: &Connection,
    now: Timestamp,
    scope: &ReconcilerScope,
    kind: DueKind,
    after: Option<(Timestamp, ExecutionId)>,
    limit: u32,
) -> rusqlite::Result<Vec<DueRow>> {
    let (at, id) = after.map_or(START, |(at, id)| (at.micros(), id.0));
    connection
        .prepare_cached(&sql::EXECUTIONS_LIST_DUE)?
        .query_map(
            params![kind.code(), now.micros(), at, id.as_bytes(), limit, namespace(scope), scope.tag_text()],
            due_row,
        )?
        .collect()
}

/// Returns a page of the expired leases, in id order: both their own first term and their session have expired.
pub fn expired_leases(
    connection: &Connection,
    now: Timestamp,
    scope: &ReconcilerScope,
    after: Option<ExecutionId>,
    limit: u32,
) -> rusqlite::Result<Vec<DueRow>> {
    let after = after.map_or(Vec::new(), |id| id.0.as_bytes().to_vec());
    connection
        .prepare_cached(&sql::LEASES_LIST_EXPIRED)?
        .query_map(params![now.micros(), after, limit, namespace(scope), scope.tag_text()], due_row)?
        .collect()
}

/// Returns the namespace of a scope, or none.
pub fn namespace(scope: &ReconcilerScope) -> Option<i32> {
    scope.namespace.map(|namespace| namespace.0)
}

/// Reads a due row from (id, due_at, namespace, tags).
fn due_row(found: &Row<'_>) -> rusqlite::Result<DueRow> {
    Ok(DueRow {
        execution: ExecutionId(row::uuid(found, 0)?),
        due_at: row::time(found, 1)?,
        namespace: NamespaceId(found.get(2)?),
        // An unreadable row must not hide other due rows; loading it for the decision reports the error.
        tags: row::tags(found, 3)?.unwrap_or_default(),
    })
}

/// Returns a page of the flows that are due for this kind, earliest first.
pub fn due_flows(
    connection: &Connection,
    now: Timestamp,
    scope: &ReconcilerScope,
    kind: FlowDue,
    after: Option<(Timestamp, FlowId)>,
    limit: u32,
) -> rusqlite::Result<Vec<DueFlow>> {
    let (at, id) = after.map_or(START, |(at, id)| (at.micros(), id.0));
    connection
        .prepare_cached(&sql::FLOWS_LIST_DUE)?
        .query_map(
            params![kind.code(), now.micros(), at, id.as_bytes(), limit, namespace(scope), scope.tag_text()],
            |found| {
                Ok(DueFlow {
                    flow: FlowId(row::uuid(found, 0)?),
                    due_at: row::time(found, 1)?,
                    namespace: NamespaceId(found.get(2)?),
                    tags: row::tags(found, 3)?.unwrap_or_default(),
                })
            },
        )?
        .collect()
}

/// Returns a page of the outbox rows of this kind from `before` or earlier, oldest first.
pub fn outbox(
    connection: &Connection,
    before: Timestamp,
    scope: &ReconcilerScope,
    kind: OutboxKind,
    after: Option<(Timestamp, Uuid)>,
    limit: u32,
) -> rusqlite::Result<Vec<OutboxRow>> {
    let (at, id) = after.map_or(START, |(at, id)| (at.micros(), id));
    connection
        .prepare_cached(&sql::OUTBOX_LIST_STALE)?
        .query_map(
            params![
                kind.code(),
                before.micros(),
                at,
                id.as_bytes(),
                limit,
                namespace(scope),
                scope.tag_text()
            ],
            |found| row::outbox(found, row::tags(found, 5)?.unwrap_or_default()),
        )?
        .collect()
}

/// Returns sessions without leases that were last seen before `before`.
pub fn unseen_sessions(
    connection: &Connection,
    before: Timestamp,
    limit: u32,
) -> rusqlite::Result<Vec<SessionId>> {
    connection
        .prepare_cached(&sql::SESSIONS_LIST_UNSEEN)?
        .query_map(params![before.micros(), limit], |found| found.get(0).map(SessionId))?
        .collect()
}
