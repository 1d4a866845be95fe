//! Reads that are about time: what is due, which leases have lapsed, which sessions were not seen for long.

use crate::row;
use rusqlite::{Connection, Row, params};
use selvedge_core::session::FORGET_MS;
use selvedge_core::{DueKind, ExecutionId, NamespaceId, SessionId, Timestamp};
use selvedge_store::{DueRow, Overview, columns};
use uuid::Uuid;

/// One look at everything that may be due.
pub fn overview(connection: &Connection, now: Timestamp) -> rusqlite::Result<Overview> {
    let mut overview = connection.prepare_cached(include_str!("sql/overview_read.sql"))?.query_row(
        [now.micros(), FORGET_MS],
        |found| {
            Ok(Overview {
                now,
                next: Vec::new(),
                lapsed: found.get(0)?,
                stale: found.get::<_, bool>(1)? || found.get(2)?,
                newest_class: found.get(3)?,
            })
        },
    )?;
    let mut next = connection.prepare_cached(include_str!("sql/due_next.sql"))?;
    for kind in DueKind::ALL {
        let at = next.query_row([kind.code()], |found| row::optional_time(found, 0))?;
        overview.next.extend(at.map(|at| (kind, at)));
    }
    Ok(overview)
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
        .prepare_cached(include_str!("sql/due_find.sql"))?
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
        .prepare_cached(include_str!("sql/lapsed_find.sql"))?
        .query_map(params![now.micros(), after, limit], due_row)?
        .collect()
}

/// The row in (id, due_at, namespace, tags).
fn due_row(found: &Row<'_>) -> rusqlite::Result<DueRow> {
    let execution = ExecutionId(row::uuid(found, 0)?);
    let tags: Option<String> = found.get(3)?;
    Ok(DueRow {
        execution,
        due_at: row::time(found, 1)?,
        namespace: NamespaceId(found.get(2)?),
        // One bad row must not hide what else is due; the decision about it will say what is wrong.
        tags: columns::tags(tags.as_deref()).unwrap_or_default(),
    })
}

/// Sessions without leases that were last seen before `before`.
pub fn unseen_sessions(
    connection: &Connection,
    before: Timestamp,
    limit: u32,
) -> rusqlite::Result<Vec<SessionId>> {
    connection
        .prepare_cached(include_str!("sql/session_unseen.sql"))?
        .query_map(params![before.micros(), limit], |found| found.get(0).map(SessionId))?
        .collect()
}
