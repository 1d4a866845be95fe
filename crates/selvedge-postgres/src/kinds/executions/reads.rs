//! Reads of executions outside of transactions.

use super::*;
use crate::PostgresStore;
use crate::read::{readable, scanned_tags, scope_parameters};
use async_trait::async_trait;
use selvedge_core::filter::{Filter, Payloads};
use selvedge_core::state::StateName;
use selvedge_core::{DueKind, NamespaceId, Timestamp};
use selvedge_store::{Depth, DueRow, ExecutionReads, Head, LaneCounts, ListPage, ReconcilerScope, Stored};
use tokio_postgres::types::ToSql;

/// The most active executions that a count of lanes looks at.
const ACTIVE_MAX: i64 = 100_000;

fn due_row(row: &Row) -> DueRow {
    DueRow {
        execution: ExecutionId(row.get(0)),
        due_at: row.get::<_, Micros>(1).time(),
        namespace: NamespaceId(row.get(2)),
        tags: scanned_tags(row, 3),
    }
}

/// Reads the execution in a row of its columns, input, result and the last renewal of its session.
fn decode_stored(row: &Row) -> Result<Stored, Error> {
    Ok(Stored {
        execution: decode(row)?,
        input: some_payload(row, COLUMN_COUNT).unwrap_or_default(),
        result: some_payload(row, COLUMN_COUNT + 1),
        renewed_at: row.get::<_, Option<Micros>>(COLUMN_COUNT + 2).map(Micros::time),
    })
}

impl PostgresStore {
    async fn fetch_rows(&self, ids: &[ExecutionId], payloads: Payloads) -> Result<Vec<Row>, Error> {
        let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
        self.query(&FETCH, &[&ids, &payloads.input, &payloads.result]).await
    }

    /// Returns executions by id with the payloads asked for. Unreadable rows are left out.
    pub(super) async fn fetch_readable(
        &self,
        ids: &[ExecutionId],
        payloads: Payloads,
    ) -> Result<Vec<Stored>, Error> {
        Ok(readable(&self.fetch_rows(ids, payloads).await?, decode_stored).collect())
    }

    pub(super) async fn read_sizes(
        &self,
        ids: &[ExecutionId],
        payloads: Payloads,
    ) -> Result<Vec<(ExecutionId, u64)>, Error> {
        let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
        let rows = self.query(&READ_SIZES, &[&ids, &payloads.input, &payloads.result]).await?;
        Ok(rows.iter().map(|row| (ExecutionId(row.get(0)), row.get::<_, i64>(1) as u64)).collect())
    }

    async fn count_in_lanes(
        &self,
        namespace: NamespaceId,
        lanes: &[Vec<ClassId>],
        bound: u64,
    ) -> Result<Vec<LaneCounts>, Error> {
        let active = self.query(&COUNT_ACTIVE, &[&namespace.0, &ACTIVE_MAX]).await?;
        let active: HashMap<i32, u64> =
            active.iter().map(|row| (row.get(0), row.get::<_, i64>(1) as u64)).collect();
        let ranges: Vec<i32> = lanes.iter().flatten().map(|range| range.0).collect();
        let ends = lanes.iter().scan(0, |end, lane| {
            *end += lane.len() as i32;
            Some(*end)
        });
        let ends: Vec<i32> = ends.collect();
        let begins: Vec<i32> =
            lanes.iter().zip(&ends).map(|(lane, end)| end - lane.len() as i32 + 1).collect();
        let parameters: [&(dyn ToSql + Sync); 4] = [&ranges, &begins, &ends, &(bound as i64)];
        let waiting = self.query(&COUNT_BY_LANE, &parameters).await?;
        let counts = lanes.iter().zip(&waiting).map(|(lane, row)| LaneCounts {
            active: lane.iter().filter_map(|range| active.get(&range.0)).sum(),
            waiting: row.get::<_, i64>(0) as u64,
        });
        Ok(counts.collect())
    }

    async fn measure_depths(
        &self,
        namespace: NamespaceId,
        ranges: &[ClassId],
        bound: u64,
    ) -> Result<Vec<Depth>, Error> {
        let bound = bound as i64;
        let ranges: Vec<i32> = ranges.iter().map(|range| range.0).collect();
        let waiting = self.query(&MEASURE_WAITING, &[&ranges, &bound]).await?;
        let live = self.query(&MEASURE_LIVE, &[&namespace.0, &bound]).await?;
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
}

#[async_trait]
impl ExecutionReads for PostgresStore {
    async fn fetch(&self, ids: &[ExecutionId], payloads: Payloads) -> Result<Vec<Stored>, Error> {
        let read = async { self.fetch_rows(ids, payloads).await?.iter().map(decode_stored).collect() };
        self.meter.measure("fetch", read).await
    }

    async fn payload_sizes(
        &self,
        ids: &[ExecutionId],
        payloads: Payloads,
    ) -> Result<Vec<(ExecutionId, u64)>, Error> {
        self.meter.measure("payload_sizes", self.read_sizes(ids, payloads)).await
    }

    async fn head(&self, id: ExecutionId) -> Result<Option<Head>, Error> {
        let head = |row: &Row| {
            let (namespace, epoch, code) = (row.get(0), row.get::<_, i32>(1), row.get(2));
            let state = StateName::from_code(code);
            let state =
                state.ok_or_else(|| Error::Failed(format!("execution {id} has the unknown state {code}")))?;
            Ok(Head { namespace: NamespaceId(namespace), epoch: epoch as u32, state })
        };
        self.first("head", &READ_HEAD, &[&id.0], head).await
    }

    async fn list(
        &self,
        filter: &Filter,
        after: Option<ListPosition>,
        limit: u32,
        payloads: Payloads,
    ) -> Result<ListPage, Error> {
        self.meter.measure("list", self.find_executions(filter, after, limit, payloads)).await
    }

    async fn count(&self, filter: &Filter, bound: u64) -> Result<u64, Error> {
        self.meter.measure("count", self.count_executions(filter, bound)).await
    }

    /// Each lane is given by its classes and pools.
    async fn count_lanes(
        &self,
        namespace: NamespaceId,
        lanes: &[Vec<ClassId>],
        bound: u64,
    ) -> Result<Vec<LaneCounts>, Error> {
        self.meter.measure("count_lanes", self.count_in_lanes(namespace, lanes, bound)).await
    }

    async fn depths(
        &self,
        namespace: NamespaceId,
        ranges: &[ClassId],
        bound: u64,
    ) -> Result<Vec<Depth>, Error> {
        self.meter.measure("depths", self.measure_depths(namespace, ranges, bound)).await
    }

    async fn history_pages(&self, id: ExecutionId) -> Result<Vec<Vec<u8>>, Error> {
        let rows = self.meter.measure("history_pages", self.query(&HISTORY_PAGES_LIST, &[&id.0])).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    async fn ahead_of(&self, execution: &Execution, bound: u64) -> Result<u64, Error> {
        let order = Micros::from(execution.ready_order);
        let parameters: [&(dyn ToSql + Sync); 5] =
            [&execution.class.0, &execution.claim_priority(), &order, &execution.id.0, &(bound as i64)];
        let rows = self.meter.measure("ahead_of", self.query(&COUNT_AHEAD, &parameters)).await?;
        Ok(rows.first().map_or(0, |row| row.get::<_, i64>(0) as u64).min(bound))
    }

    async fn due(
        &self,
        scope: &ReconcilerScope,
        kind: DueKind,
        after: Option<(Timestamp, ExecutionId)>,
        limit: u32,
    ) -> Result<Vec<DueRow>, Error> {
        let start = || (self.glances.since(kind), Uuid::nil());
        let (at, id) = after.map_or_else(start, |(at, id)| (at.into(), id.0));
        let (namespace, tag) = scope_parameters(scope);
        let parameters: [&(dyn ToSql + Sync); 6] =
            [&kind.code(), &at, &id, &i64::from(limit), &namespace, &tag];
        let rows = self.meter.measure("due", self.query_in_background(&LIST_DUE, &parameters)).await?;
        Ok(rows.iter().map(due_row).collect())
    }

    async fn expired_leases(
        &self,
        scope: &ReconcilerScope,
        after: Option<ExecutionId>,
        limit: u32,
    ) -> Result<Vec<DueRow>, Error> {
        let after = after.map_or(Uuid::nil(), |id| id.0);
        let (namespace, tag) = scope_parameters(scope);
        let parameters: [&(dyn ToSql + Sync); 4] = [&after, &i64::from(limit), &namespace, &tag];
        let rows = self.query_in_background(&LEASES_LIST_EXPIRED, &parameters);
        let rows = self.meter.measure("expired_leases", rows).await?;
        Ok(rows.iter().map(due_row).collect())
    }
}
