//! When background work is due next.

use crate::SqliteStore;
use crate::kinds::executions::EXECUTIONS_FIND_NEXT_DUE;
use crate::kinds::flows::FLOWS_FIND_NEXT_DUE;
use crate::kinds::outbox::OUTBOX_FIND_OLDEST;
use crate::kinds::{KINDS, Kind, gates};
use crate::row;
use crate::sql::statements;
use async_trait::async_trait;
use rusqlite::Connection;
use selvedge_core::outbox::OutboxKind;
use selvedge_core::session::FORGET_MS;
use selvedge_core::stream::BEST_EFFORT_MS;
use selvedge_core::{DueKind, Timestamp};
use selvedge_store::{DueReads, DueTimes, Error, FlowDue, Overview, ReconcilerScope};
use uuid::Uuid;

pub(crate) const KIND: Kind = Kind { statements: STATEMENTS, ..Kind::EMPTY };

statements! {
    OVERVIEW_READ = "overview/read";
}

/// The position before every other one of a scan by time and id.
pub const START: (i64, Uuid) = (-1, Uuid::nil());

/// Returns the namespace of a scope, or none.
pub fn namespace(scope: &ReconcilerScope) -> Option<i32> {
    scope.namespace.map(|namespace| namespace.0)
}

#[async_trait]
impl DueReads for SqliteStore {
    async fn overview(&self) -> Result<Overview, Error> {
        let now = self.clock.now();
        self.read("overview", move |connection| overview(connection, now)).await
    }

    async fn glance(&self) -> Result<Overview, Error> {
        let now = self.clock.now();
        self.read("glance", move |connection| overview(connection, now)).await
    }
}

fn overview(connection: &Connection, now: Timestamp) -> rusqlite::Result<Overview> {
    let old = now.minus_ms(BEST_EFFORT_MS).micros();
    let overview =
        connection.prepare_cached(&OVERVIEW_READ)?.query_row([now.micros(), FORGET_MS, old], |found| {
            Ok(Overview {
                now,
                expired_leases: found.get(0)?,
                stale: found.get::<_, bool>(1)? || found.get(2)? || found.get(3)?,
                newest_class: found.get(4)?,
                ..Overview::default()
            })
        })?;
    let mut due = DueTimes::default();
    for (kind, statement) in KINDS.iter().filter_map(|kind| kind.due) {
        let first =
            connection.prepare_cached(statement)?.query_row((), |found| row::optional_time(found, 0))?;
        first.into_iter().for_each(|at| due.add(kind, at));
    }
    Ok(Overview {
        next: earliest(connection, &EXECUTIONS_FIND_NEXT_DUE, &DueKind::ALL, DueKind::code)?,
        outbox: earliest(connection, &OUTBOX_FIND_OLDEST, &OutboxKind::ALL, OutboxKind::code)?,
        flows: earliest(connection, &FLOWS_FIND_NEXT_DUE, &FlowDue::ALL, FlowDue::code)?,
        due,
        lanes: gates::has_lanes(connection)?,
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
