//! Reads that are about time: what is due, what waits in the outbox, which leases have lapsed, which sessions were not seen
//! for long.

use crate::{row, sql};
use rusqlite::{Connection, Row, params};
use selvedge_core::outbox::{OutboxKind, OutboxRow};
use selvedge_core::session::FORGET_MS;
use selvedge_core::stream::BEST_EFFORT_MS;
use selvedge_core::{DueKind, ExecutionId, FlowId, NamespaceId, SessionId, Timestamp};
use selvedge_store::{DueFlow, DueRow, FlowDue, Overview};
use uuid::Uuid;

/// One look at everything that may be due.
pub fn overview(connection: &Connection, now: Timestamp) -> rusqlite::Result<Overview> {
    let old = now.minus_ms(BEST_EFFORT_MS).micros();
    let overview = connection.prepare_cached(&sql::OVERVIEW_READ)?.query_row(
        [now.micros(), FORGET_MS, old],
        |found| {
            Ok(Overview {
                now,
                lapsed: found.get(0)?,
                stale: found.get::<_, bool>(1)? || found.get(2)? || found.get(3)?,
                newest_class: found.get(4)?,
                ..Overview::default()
            })
        },
    )?;
    Ok(Overview {
        next: earliest(connection, &sql::DUE_NEXT, &DueKind::ALL, DueKind::code)?,
        outbox: earliest(connection, &sql::OUTBOX_NEXT, &OutboxKind::ALL, OutboxKind::code)?,
        flows: earliest(connection, &sql::FLOW_DUE_NEXT, &FlowDue::ALL, FlowDue::code)?,
        gates: crate::gates::next_due(connection)?,
        lanes: crate::gates::has_lanes(connection)?,
        ..overview
    })
}

/// The earliest time of each kind that has one.
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

/// What is due of this kind, earliest first, after `after`.
pub fn due(
    connection: &Connection,
    now: Timestamp,
    kind: DueKind,
    after: Option<(Timestamp, ExecutionId)>,
    limit: u32,
) -> rusqlite::Result<Vec<DueRow>> {
    let (at, id) = after.map_or((-1, Uuid::nil()), |(at, id)| (at.micros(), id.0));
    connection
        .prepare_cached(&sql::DUE_FIND)?
        .query_map(params![kind.code(), now.micros(), at, id.as_bytes(), limit], due_row)?
        .collect()
}

/// Leases whose own first term and whose session have both lapsed, in the order of ids, after `after`.
pub fn lapsed(
    connection: &Connection,
    now: Timestamp,
    after: Option<ExecutionId>,
    limit: u32,
) -> rusqlite::Result<Vec<DueRow>> {
    let after = after.map_or(Vec::new(), |id| id.0.as_bytes().to_vec());
    connection
        .prepare_cached(&sql::LAPSED_FIND)?
        .query_map(params![now.micros(), after, limit], due_row)?
        .collect()
}

/// The row in (id, due_at, namespace, tags).
fn due_row(found: &Row<'_>) -> rusqlite::Result<DueRow> {
    Ok(DueRow {
        execution: ExecutionId(row::uuid(found, 0)?),
        due_at: row::time(found, 1)?,
        namespace: NamespaceId(found.get(2)?),
        // One bad row must not hide what else is due; the decision about it will say what is wrong.
        tags: row::tags(found, 3)?.unwrap_or_default(),
    })
}

/// What is to be done about flows, of this kind, earliest first, after `after`.
pub fn due_flows(
    connection: &Connection,
    now: Timestamp,
    kind: FlowDue,
    after: Option<(Timestamp, FlowId)>,
    limit: u32,
) -> rusqlite::Result<Vec<DueFlow>> {
    let (at, id) = after.map_or((-1, Uuid::nil()), |(at, id)| (at.micros(), id.0));
    connection
        .prepare_cached(&sql::FLOW_DUE_FIND)?
        .query_map(params![kind.code(), now.micros(), at, id.as_bytes(), limit], |found| {
            Ok(DueFlow {
                flow: FlowId(row::uuid(found, 0)?),
                due_at: row::time(found, 1)?,
                namespace: NamespaceId(found.get(2)?),
                tags: row::tags(found, 3)?.unwrap_or_default(),
            })
        })?
        .collect()
}

/// Rows of the outbox of this kind that wait since `before` or longer, oldest first, after `after`.
pub fn outbox(
    connection: &Connection,
    before: Timestamp,
    kind: OutboxKind,
    after: Option<(Timestamp, Uuid)>,
    limit: u32,
) -> rusqlite::Result<Vec<OutboxRow>> {
    let (at, id) = after.map_or((-1, Uuid::nil()), |(at, id)| (at.micros(), id));
    connection
        .prepare_cached(&sql::OUTBOX_FIND)?
        .query_map(params![kind.code(), before.micros(), at, id.as_bytes(), limit], |found| {
            row::outbox(found, row::tags(found, 5)?.unwrap_or_default())
        })?
        .collect()
}

/// Sessions without leases that were last seen before `before`.
pub fn unseen_sessions(
    connection: &Connection,
    before: Timestamp,
    limit: u32,
) -> rusqlite::Result<Vec<SessionId>> {
    connection
        .prepare_cached(&sql::SESSION_UNSEEN)?
        .query_map(params![before.micros(), limit], |found| found.get(0).map(SessionId))?
        .collect()
}
