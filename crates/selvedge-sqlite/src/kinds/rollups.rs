//! Minute rollups.

use crate::SqliteStore;
use crate::connection::failure::not_understood;
use crate::kinds::Kind;
use crate::row;
use crate::sql::{self, statements};
use async_trait::async_trait;
use rusqlite::{Row, params};
use selvedge_core::rollup::{Rollup, RollupKey, RollupQuery, RollupRow, minute_of};
use selvedge_core::{Name, NamespaceId, Timestamp};
use selvedge_store::{Error, RollupStore};

pub(crate) const KIND: Kind =
    Kind { statements: STATEMENTS, delete_rest: &[&ROLLUPS_DELETE_REST], ..Kind::EMPTY };

statements! {
    ROLLUPS_DELETE_OLD = "rollups/delete_old";
    ROLLUPS_DELETE_REST = "rollups/delete_rest";
    ROLLUPS_LIST = "rollups/list";
    ROLLUPS_LIST_BY_LANE = "rollups/list_by_lane";
    ROLLUPS_UPSERT = "rollups/upsert";
}

/// Returns a lane as it is stored.
fn lane_text(lane: Option<&Name>) -> &str {
    lane.map_or("", Name::as_str)
}

/// Reads the rollup in a row of (minute_at, lane, server, counts).
fn decode(namespace: NamespaceId, found: &Row<'_>) -> rusqlite::Result<RollupRow> {
    let lane: String = found.get(1)?;
    let key = RollupKey {
        minute_at: row::time(found, 0)?,
        lane: (!lane.is_empty()).then(|| Name::trusted(&lane)),
        server: found.get(2)?,
    };
    let counts: String = found.get(3)?;
    let rollup = Rollup::decode(&counts)
        .map_err(|error| not_understood(&format!("the rollup {key:?} cannot be read: {error}")))?;
    Ok(RollupRow { namespace, key, rollup })
}

#[async_trait]
impl RollupStore for SqliteStore {
    async fn save_rollups(&self, rows: &[RollupRow]) -> Result<(), Error> {
        let rows = rows.to_vec();
        self.write("save_rollups", move |connection, _| {
            for RollupRow { namespace, key, rollup } in rows {
                let lane = lane_text(key.lane.as_ref());
                let parameters =
                    params![namespace.0, key.minute_at.micros(), lane, key.server, rollup.encode()];
                sql::execute(connection, &ROLLUPS_UPSERT, parameters)?;
            }
            Ok(())
        })
        .await
    }

    async fn rollups(&self, query: &RollupQuery, limit: u32) -> Result<Vec<RollupRow>, Error> {
        let query = query.clone();
        self.read("rollups", move |connection| {
            let (namespace, from, to) = (query.namespace, query.from.micros(), query.to.micros());
            let (minute, lane, server) = match &query.after {
                Some(after) => (after.minute_at, lane_text(after.lane.as_ref()), after.server),
                None => (Timestamp::default(), "", i64::MIN),
            };
            let decode = |found: &Row<'_>| decode(namespace, found);
            let after = minute.micros();
            match &query.lane {
                None => {
                    let parameters = params![namespace.0, from, to, after, lane, server, limit];
                    sql::rows(connection, &ROLLUPS_LIST, parameters, decode)
                }
                Some(only) => {
                    let first = minute_of(query.from.max(minute)).micros();
                    let only = only.as_str();
                    let parameters = params![namespace.0, from, to, after, lane, server, limit, only, first];
                    sql::rows(connection, &ROLLUPS_LIST_BY_LANE, parameters, decode)
                }
            }
        })
        .await
    }

    async fn delete_old_rollups(&self, keep_ms: i64, limit: u32) -> Result<u64, Error> {
        self.write("delete_old_rollups", move |connection, now| {
            let before = now.minus_ms(keep_ms).micros();
            sql::execute(connection, &ROLLUPS_DELETE_OLD, params![before, limit])
        })
        .await
    }
}
