//! Statistics: minute rollups, and the depths of lanes.

use crate::connection::failure::not_understood;
use crate::{row, sql};
use rusqlite::{Connection, Row, params};
use selvedge_core::flow::FlowState;
use selvedge_core::rollup::{Rollup, RollupKey, RollupQuery, RollupRow, minute_of};
use selvedge_core::state::StateName;
use selvedge_core::{ClassId, Name, NamespaceId, Timestamp};
use selvedge_store::Depth;

/// The live states besides waiting.
const LIVE: [StateName; 5] = [
    StateName::WaitingDependencies,
    StateName::Delayed,
    StateName::Held,
    StateName::Active,
    StateName::Suspended,
];

/// Inserts or replaces rollups.
pub fn save_rollups(connection: &Connection, rows: &[RollupRow]) -> rusqlite::Result<()> {
    let mut upsert = connection.prepare_cached(&sql::ROLLUPS_UPSERT)?;
    for RollupRow { namespace, key, rollup } in rows {
        let lane = lane_text(key.lane.as_ref());
        upsert.execute(params![namespace.0, key.minute_at.micros(), lane, key.server, rollup.encode()])?;
    }
    Ok(())
}

/// Returns a page of rollups, in key order.
pub fn rollups(connection: &Connection, query: &RollupQuery, limit: u32) -> rusqlite::Result<Vec<RollupRow>> {
    let (namespace, from, to) = (query.namespace, query.from.micros(), query.to.micros());
    let (minute, lane, server) = match &query.after {
        Some(after) => (after.minute_at, lane_text(after.lane.as_ref()), after.server),
        None => (Timestamp::default(), "", i64::MIN),
    };
    let read = |found: &Row<'_>| rollup(namespace, found);
    let after = minute.micros();
    match &query.lane {
        None => connection
            .prepare_cached(&sql::ROLLUPS_LIST)?
            .query_map(params![namespace.0, from, to, after, lane, server, limit], read)?
            .collect(),
        Some(only) => {
            let first = minute_of(query.from.max(minute)).micros();
            let parameters = params![namespace.0, from, to, after, lane, server, limit, only.as_str(), first];
            connection.prepare_cached(&sql::ROLLUPS_LIST_BY_LANE)?.query_map(parameters, read)?.collect()
        }
    }
}

/// Deletes rollups of minutes that began before a time.
pub fn delete_old_rollups(connection: &Connection, before: Timestamp, limit: u32) -> rusqlite::Result<u64> {
    let mut delete = connection.prepare_cached(&sql::ROLLUPS_DELETE_OLD)?;
    Ok(delete.execute(params![before.micros(), limit])? as u64)
}

/// Counts the live executions of a namespace by class or pool and by state.
pub fn depths(
    connection: &Connection,
    namespace: NamespaceId,
    ranges: &[ClassId],
    bound: u64,
) -> rusqlite::Result<Vec<Depth>> {
    let bound = i64::try_from(bound).unwrap_or(i64::MAX);
    let mut depths = Vec::new();
    let mut of_class = connection.prepare_cached(&sql::EXECUTIONS_MEASURE_WAITING)?;
    let mut of_pool = connection.prepare_cached(&sql::EXECUTIONS_MEASURE_POOLED)?;
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
    let mut of_state = connection.prepare_cached(&sql::EXECUTIONS_MEASURE_LIVE)?;
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

/// Counts the flows of a namespace in a state, up to `bound`.
pub fn count_flows(
    connection: &Connection,
    namespace: NamespaceId,
    state: FlowState,
    bound: u64,
) -> rusqlite::Result<u64> {
    let bound = i64::try_from(bound).unwrap_or(i64::MAX);
    connection
        .prepare_cached(&sql::FLOWS_COUNT_BY_STATE)?
        .query_row((namespace.0, state.code(), bound), |found| found.get::<_, i64>(0))
        .map(|count| count as u64)
}

/// Returns a lane as it is stored.
fn lane_text(lane: Option<&Name>) -> &str {
    lane.map_or("", Name::as_str)
}

/// Reads the rollup in a row of (minute_at, lane, server, counts).
fn rollup(namespace: NamespaceId, found: &Row<'_>) -> rusqlite::Result<RollupRow> {
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
