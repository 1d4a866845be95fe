//! Statistics: minute rollups, and the depths of lanes.

use crate::row::Micros;
use crate::{PostgresStore, sql};
use selvedge_core::flow::FlowState;
use selvedge_core::rollup::{Rollup, RollupKey, RollupQuery, RollupRow};
use selvedge_core::state::StateName;
use selvedge_core::{ClassId, Name, NamespaceId};
use selvedge_store::{Depth, Error};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

impl PostgresStore {
    pub(crate) async fn upsert_rollups(&self, rows: &[RollupRow]) -> Result<(), Error> {
        let namespaces: Vec<i32> = rows.iter().map(|row| row.namespace.0).collect();
        let minutes: Vec<Micros> = rows.iter().map(|row| row.key.minute_at.into()).collect();
        let lanes: Vec<&str> = rows.iter().map(|row| lane_text(row.key.lane.as_ref())).collect();
        let servers: Vec<i64> = rows.iter().map(|row| row.key.server).collect();
        let counts: Vec<String> = rows.iter().map(|row| row.rollup.encode()).collect();
        let parameters: [&(dyn ToSql + Sync); 5] = [&namespaces, &minutes, &lanes, &servers, &counts];
        self.execute(&sql::ROLLUPS_UPSERT, &parameters).await.map(drop)
    }

    pub(crate) async fn list_rollups(
        &self,
        query: &RollupQuery,
        limit: u32,
    ) -> Result<Vec<RollupRow>, Error> {
        let (from, to) = (Micros::from(query.from), Micros::from(query.to));
        let (minute, lane, server) = match &query.after {
            Some(after) => (after.minute_at.into(), lane_text(after.lane.as_ref()), after.server),
            None => (Micros(0), "", i64::MIN),
        };
        let limit = i64::from(limit);
        let mut parameters: Vec<&(dyn ToSql + Sync)> =
            vec![&query.namespace.0, &from, &to, &minute, &lane, &server, &limit];
        let only = query.lane.as_ref().map(Name::as_str);
        let rows = match &only {
            Some(only) => {
                parameters.push(only);
                self.query(&sql::ROLLUPS_LIST_BY_LANE, &parameters).await?
            }
            None => self.query(&sql::ROLLUPS_LIST, &parameters).await?,
        };
        rows.iter().map(|row| rollup(query.namespace, row)).collect()
    }

    pub(crate) async fn measure_depths(
        &self,
        namespace: NamespaceId,
        ranges: &[ClassId],
        bound: u64,
    ) -> Result<Vec<Depth>, Error> {
        let bound = bound as i64;
        let ranges: Vec<i32> = ranges.iter().map(|range| range.0).collect();
        let waiting = self.query(&sql::EXECUTIONS_MEASURE_WAITING, &[&ranges, &bound]).await?;
        let live = self.query(&sql::EXECUTIONS_MEASURE_LIVE, &[&namespace.0, &bound]).await?;
        let mut depths: Vec<Depth> = waiting
            .iter()
            .map(|row| Depth {
                range: ClassId(row.get(0)),
                state: StateName::Waiting,
                count: row.get::<_, i64>(1) as u64,
                oldest_at: row.get::<_, Micros>(2).time(),
            })
            .collect();
        for row in &live {
            let code: i16 = row.get(1);
            let unknown = || Error::Failed(format!("an execution has the unknown state {code}"));
            depths.push(Depth {
                range: ClassId(row.get(0)),
                state: StateName::from_code(code).ok_or_else(unknown)?,
                count: row.get::<_, i64>(2) as u64,
                oldest_at: row.get::<_, Micros>(3).time(),
            });
        }
        Ok(depths)
    }

    pub(crate) async fn count_flows_in(
        &self,
        namespace: NamespaceId,
        state: FlowState,
        bound: u64,
    ) -> Result<u64, Error> {
        let parameters: [&(dyn ToSql + Sync); 3] = [&namespace.0, &state.code(), &(bound as i64)];
        let rows = self.query(&sql::FLOWS_COUNT_BY_STATE, &parameters).await?;
        Ok(rows.first().map_or(0, |row| row.get::<_, i64>(0) as u64))
    }
}

/// Returns a lane as it is stored.
fn lane_text(lane: Option<&Name>) -> &str {
    lane.map_or("", Name::as_str)
}

/// Reads the rollup in a row of (minute_at, lane, server, counts).
fn rollup(namespace: NamespaceId, row: &Row) -> Result<RollupRow, Error> {
    let lane: &str = row.get(1);
    let key = RollupKey {
        minute_at: row.get::<_, Micros>(0).time(),
        lane: (!lane.is_empty()).then(|| Name::trusted(lane)),
        server: row.get(2),
    };
    let rollup = Rollup::decode(row.get(3))
        .map_err(|error| Error::Failed(format!("the rollup {key:?} cannot be read: {error}")))?;
    Ok(RollupRow { namespace, key, rollup })
}
