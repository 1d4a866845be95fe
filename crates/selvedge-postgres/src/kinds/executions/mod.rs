//! Executions, with their tags and the pages of their history.

mod list;
mod load;

pub use list::below;
pub use load::{finish, gather_execution, lock, lock_candidates, place, read};

use super::records::Unreadable;
use crate::connection::Parameters;
use crate::kinds::{Saving, ignore};
use crate::read::{readable, scanned_tags, scope_parameters};
use crate::sql::{Micros, array, column, columns, some_payload, statements};
use crate::{PostgresStore, bounds};
use async_trait::async_trait;
use selvedge_core::execution::AGEING_MS;
use selvedge_core::filter::{Filter, ListPosition, Payloads};
use selvedge_core::rows::{Changes, PASSED_MAX, ResultChange, TagEntry};
use selvedge_core::state::StateName;
use selvedge_core::{ClassId, DueKind, Execution, ExecutionId, NamespaceId, Timestamp};
use selvedge_store::columns::{self as stored, Fixed, Moving};
use selvedge_store::{
    COUNT_SCAN_MAX, Depth, DueRow, Error, ExecutionReads, Head, LaneCounts, ListPage, ReconcilerScope, Stored,
};
use std::collections::HashMap;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

statements! {
    with {
        bound: bounds::start_of_search(),
        ageing: format!("interval '{AGEING_MS} milliseconds'"),
        columns: columns(),
        count_scan: COUNT_SCAN_MAX,
        fixed: fixed::list(),
        fixed_types: fixed::types(1),
        listed: listed::list_of("executions"),
        moving: moving::list(),
        moving_types_from_3: moving::types(3),
        moving_types_from_10: moving::types(10),
        passed_max: PASSED_MAX,
    }
    COUNT_ACTIVE = "executions/count_active";
    COUNT_AHEAD = "executions/count_ahead";
    COUNT_BY_LANE = "executions/count_by_lane";
    COUNT_BY_STATE = "executions/count_by_state";
    COUNT_WAITING = "executions/count_waiting";
    DELETE = "executions/delete";
    FETCH = "executions/fetch";
    HISTORY_PAGES_DELETE = "history_pages/delete";
    HISTORY_PAGES_INSERT = "history_pages/insert";
    HISTORY_PAGES_LIST = "history_pages/list";
    INSERT = "executions/insert";
    LEASES_LIST_EXPIRED = "leases/list_expired";
    LIST = "executions/list";
    LIST_ACTIVE = "executions/list_active";
    LIST_BY_FLOW = "executions/list_by_flow";
    LIST_BY_STATE = "executions/list_by_state";
    LIST_BY_TAG = "executions/list_by_tag";
    LIST_DUE = "executions/list_due";
    LIST_LONE = "executions/list_lone";
    LIST_NEWEST = "executions/list_newest";
    LIST_WAITING = "executions/list_waiting";
    LOCK = "executions/lock";
    LOCK_AVAILABLE = "executions/lock_available";
    LOCK_CACHED = "executions/lock_cached";
    LOCK_CANDIDATES = "executions/lock_candidates";
    LOCK_PASSING = "executions/lock_passing";
    MEASURE_LIVE = "executions/measure_live";
    MEASURE_WAITING = "executions/measure_waiting";
    READ = "executions/read";
    READ_HEAD = "executions/read_head";
    READ_INPUTS = "executions/read_inputs";
    READ_RELATIVES = "executions/read_relatives";
    READ_SIZES = "executions/read_sizes";
    REWIRE = "executions/rewire";
    TAGS_DELETE = "tags/delete";
    TAGS_INSERT = "tags/insert";
    UPDATE = "executions/update";
    UPDATE_INPUT = "executions/update_input";
}

columns! {
    fixed<'a> of row: Fixed as Fixed {
        id: Uuid = row.id,
        submitted_at: Micros = Micros(row.submitted_at),
        namespace: i32 = row.namespace,
        class: i32 = row.class,
        partition: i16 = row.partition,
        flow: Option<Uuid> = row.flow,
        spec: Option<String> = row.spec,
        wiring: Option<Vec<u8>> = row.wiring,
    }
}

// The columns that a transition may change. The gate and the rank at it are only written, behind the others: a row names its
// gate in `held_by` and in `suspension`.
columns! {
    moving<'a> of row: Moving as Moving {
        version: i32 = row.version,
        epoch: i32 = row.epoch,
        state: i16 = row.state,
        claim_priority: i16 = row.claim_priority,
        due_kind: Option<i16> = row.due_kind,
        ready_order: Micros = Micros(row.ready_order),
        due_at: Option<Micros> = row.due_at.map(Micros),
        session: Option<i64> = row.session,
        until_at: Option<Micros> = row.until_at.map(Micros),
        started_at: Option<Micros> = row.started_at.map(Micros),
        ended_at: Option<Micros> = row.ended_at.map(Micros),
        lease_id: Option<Uuid> = row.lease_id,
        tags: Option<String> = row.tags,
        detail: Option<String> = row.detail,
        history: Vec<u8> = row.history,
        joined: Option<Vec<u8>> = row.joined,
        suspension: Option<Vec<u8>> = row.suspension,
        held_by: Option<Vec<u8>> = row.held_by,
    }
}

// The columns that the scan of a list returns.
columns! {
    listed {
        id,
        submitted_at,
        class,
        state,
        ended_at,
    }
}

/// Returns the list of the columns of an execution.
pub fn columns() -> String {
    format!("{}, {}", fixed::list(), moving::list())
}

/// The number of columns of an execution: the index of the first column behind them.
pub const COLUMN_COUNT: usize = fixed::COUNT + moving::COUNT;

/// Reads the execution in a row that begins with its columns.
fn decode_or_name(row: &Row) -> Result<Execution, Unreadable> {
    let id: Uuid = row.get(fixed::AT.id);
    fixed::read(row, 0)
        // The gate is known from its name.
        .and_then(|fixed| Ok((fixed, moving::read(row, fixed::COUNT)?)))
        .and_then(|(fixed, moving)| stored::execution(fixed, moving))
        .map_err(|detail| (ExecutionId(id), detail))
}

/// Reads the execution in a row that begins with its columns. The error names it.
pub fn decode(row: &Row) -> Result<Execution, Error> {
    decode_or_name(row)
        .map_err(|(id, detail)| Error::Failed(format!("execution {id} cannot be read: {detail}")))
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

/// Deletes executions with the pages of their history.
pub fn delete(saving: &mut Saving<'_>) {
    let deleted = &saving.changes.executions.deleted;
    saving.rows(deleted, &DELETE, |rows| {
        vec![array(rows, |(id, _)| id.0), array(rows, |(_, version)| *version as i32)]
    });
    saving.rows(deleted, &HISTORY_PAGES_DELETE, |rows| vec![array(rows, |(id, _)| id.0)]);
}

/// Saves new and changed executions with new pages of their history.
pub fn save(saving: &mut Saving<'_>) {
    let (changes, lineage) = (saving.changes, saving.lineage);
    saving.rows(&changes.executions.inserted, &INSERT, |rows| {
        let mut parameters = fixed::arrays(rows.iter().map(|row| Fixed::of(&row.execution)));
        parameters.push(column(rows, |row| row.input.as_ref()));
        parameters.extend(moving_columns(rows.iter().map(|row| &row.execution)));
        parameters.push(column(rows, |row| row.result.as_deref()));
        parameters.push(array(rows, |row| lineage.pool_of(row.execution.class).map(|pool| pool.0)));
        parameters
    });
    saving.rows(&changes.executions.updated, &UPDATE, |rows| {
        let mut parameters: Parameters<'_> =
            vec![array(rows, |row| row.execution.id.0), array(rows, |row| row.expected_version as i32)];
        parameters.extend(moving_columns(rows.iter().map(|row| &row.execution)));
        parameters.push(column(rows, |row| match &row.result {
            ResultChange::Set(result) => Some(result.as_ref()),
            ResultChange::Keep | ResultChange::Clear => None,
        }));
        parameters.push(array(rows, |row| row.result == ResultChange::Keep));
        parameters
    });
    save_rewired(changes, saving);
    saving.rows(&changes.history_pages, &HISTORY_PAGES_INSERT, |pages| {
        vec![
            array(pages, |page| page.execution.0),
            array(pages, |page| page.page as i32),
            column(pages, |page| page.lines.as_slice()),
        ]
    });
}

/// Returns the columns that a transition may change, with the gate and the rank at it.
fn moving_columns<'a>(rows: impl Iterator<Item = &'a Execution>) -> Parameters<'a> {
    let rows: Vec<Moving> = rows.map(Moving::of).collect();
    let gates = array(&rows, |row| row.gate);
    let ranks = array(&rows, Moving::gate_rank);
    let mut parameters = moving::arrays(rows);
    parameters.extend([gates, ranks]);
    parameters
}

/// Saves the flow and the wiring of executions whose flow grew, and replaced inputs.
fn save_rewired<'a>(changes: &'a Changes, saving: &mut Saving<'a>) {
    let rewired = changes.executions.updated.iter().filter(|row| row.rewired);
    let rewired: Vec<Fixed> = rewired.map(|row| Fixed::of(&row.execution)).collect();
    if !rewired.is_empty() {
        let parameters = vec![
            array(&rewired, |row| row.id),
            array(&rewired, |row| row.flow),
            array(&rewired, |row| row.wiring.clone()),
        ];
        saving.add(&REWIRE, parameters, ignore);
    }
    let replaced = changes.executions.updated.iter();
    let replaced = replaced.filter_map(|row| Some((row.execution.id.0, row.input.as_deref()?)));
    let (ids, inputs): (Vec<Uuid>, Vec<&[u8]>) = replaced.unzip();
    if !ids.is_empty() {
        saving.add(&UPDATE_INPUT, vec![Box::new(ids), Box::new(inputs)], ignore);
    }
}

/// Saves the index of executions by tag.
pub fn save_tags(saving: &mut Saving<'_>) {
    let tags = &saving.changes.tags;
    saving.rows(&tags.removed, &TAGS_DELETE, tag_columns);
    saving.rows(&tags.written, &TAGS_INSERT, tag_columns);
}

fn tag_columns(entries: &[TagEntry]) -> Parameters<'_> {
    vec![
        column(entries, |entry| entry.namespace.0),
        column(entries, |entry| entry.tag.as_str()),
        column(entries, |entry| Micros::from(entry.submitted_at)),
        column(entries, |entry| entry.execution.0),
    ]
}

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

impl PostgresStore {
    async fn fetch_rows(&self, ids: &[ExecutionId], payloads: Payloads) -> Result<Vec<Row>, Error> {
        let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
        self.query(&FETCH, &[&ids, &payloads.input, &payloads.result]).await
    }

    /// Returns executions by id with the payloads asked for. Unreadable rows are left out.
    async fn fetch_readable(&self, ids: &[ExecutionId], payloads: Payloads) -> Result<Vec<Stored>, Error> {
        Ok(readable(&self.fetch_rows(ids, payloads).await?, decode_stored).collect())
    }

    async fn read_sizes(
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
