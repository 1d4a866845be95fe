//! Minute rollups.

use crate::PostgresStore;
use crate::sql::{Micros, columns, statements};
use async_trait::async_trait;
use selvedge_core::rollup::{Rollup, RollupKey, RollupQuery, RollupRow};
use selvedge_core::{Name, NamespaceId};
use selvedge_store::{Error, RollupStore};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

statements! {
    with { rollup: rollup::list(), }
    DELETE_OLD = "rollups/delete_old";
    LIST = "rollups/list";
    LIST_BY_LANE = "rollups/list_by_lane";
    UPSERT = "rollups/upsert";
}

// The columns without the namespace.
columns! {
    rollup {
        minute_at,
        lane,
        server,
        counts,
    }
}

/// Returns a lane as it is stored.
fn lane_text(lane: Option<&Name>) -> &str {
    lane.map_or("", Name::as_str)
}

fn decode(namespace: NamespaceId, row: &Row) -> Result<RollupRow, Error> {
    use rollup::AT;
    let lane: &str = row.get(AT.lane);
    let key = RollupKey {
        minute_at: row.get::<_, Micros>(AT.minute_at).time(),
        lane: (!lane.is_empty()).then(|| Name::trusted(lane)),
        server: row.get(AT.server),
    };
    let rollup = Rollup::decode(row.get(AT.counts))
        .map_err(|error| Error::Failed(format!("the rollup {key:?} cannot be read: {error}")))?;
    Ok(RollupRow { namespace, key, rollup })
}

#[async_trait]
impl RollupStore for PostgresStore {
    async fn save_rollups(&self, rows: &[RollupRow]) -> Result<(), Error> {
        let namespaces: Vec<i32> = rows.iter().map(|row| row.namespace.0).collect();
        let minutes: Vec<Micros> = rows.iter().map(|row| row.key.minute_at.into()).collect();
        let lanes: Vec<&str> = rows.iter().map(|row| lane_text(row.key.lane.as_ref())).collect();
        let servers: Vec<i64> = rows.iter().map(|row| row.key.server).collect();
        let counts: Vec<String> = rows.iter().map(|row| row.rollup.encode()).collect();
        let parameters: [&(dyn ToSql + Sync); 5] = [&namespaces, &minutes, &lanes, &servers, &counts];
        self.meter.measure("save_rollups", self.execute(&UPSERT, &parameters)).await.map(drop)
    }

    async fn rollups(&self, query: &RollupQuery, limit: u32) -> Result<Vec<RollupRow>, Error> {
        let (from, to) = (Micros::from(query.from), Micros::from(query.to));
        let (minute, lane, server) = match &query.after {
            Some(after) => (after.minute_at.into(), lane_text(after.lane.as_ref()), after.server),
            None => (Micros(0), "", i64::MIN),
        };
        let limit = i64::from(limit);
        let mut parameters: Vec<&(dyn ToSql + Sync)> =
            vec![&query.namespace.0, &from, &to, &minute, &lane, &server, &limit];
        let only = query.lane.as_ref().map(Name::as_str);
        let text = match &only {
            Some(only) => {
                parameters.push(only);
                &LIST_BY_LANE
            }
            None => &LIST,
        };
        self.all("rollups", text, &parameters, |row| decode(query.namespace, row)).await
    }

    async fn delete_old_rollups(&self, keep_ms: i64, limit: u32) -> Result<u64, Error> {
        let limit = i64::from(limit);
        let parameters: [&(dyn ToSql + Sync); 2] = [&keep_ms, &limit];
        self.meter.measure("delete_old_rollups", self.execute(&DELETE_OLD, &parameters)).await
    }
}
