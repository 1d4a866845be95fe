//! Lists and counts of executions.
//!
//! A filter reads the narrowest index that serves it: that of its first tag, of its flow, of each of its states, or of the
//! namespace. The entries of all ranges are merged first; only rows that can match are read.

use super::reads;
use super::*;
use crate::connection::failure::not_understood;
use crate::row;
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params_from_iter};
use selvedge_core::filter::{Filter, ListPosition, Listed, Payloads};
use selvedge_core::state::StateName;
use selvedge_core::{ClassId, ExecutionId, NamespaceId, Timestamp};
use selvedge_store::{LaneCounts, ListPage, ListScan};
use std::cmp::Reverse;
use std::collections::HashMap;
use uuid::Uuid;

/// The index of the limit among the parameters, from 0. See `sql/executions/list.sql`.
const LIMIT: usize = 4;
/// The most active executions that a count of lanes looks at.
const ACTIVE_MAX: i64 = 100_000;
/// The number of rows per page where a count reads the rows.
const COUNTED_PAGE: u32 = 500;

/// A range of an index, in the order of the list.
pub struct Range {
    /// The statement that returns the positions in the range.
    pub statement: &'static str,
    /// Parameters, of which the statement uses the first ones. The limit is filled in when it runs.
    pub parameters: Vec<Value>,
}

/// Returns a page of the executions that match a filter, newest first.
pub fn list(
    connection: &Connection,
    filter: &Filter,
    after: Option<ListPosition>,
    limit: u32,
    payloads: Payloads,
) -> rusqlite::Result<ListPage> {
    let parts = filter.by_stored_state();
    let mut scan = ListScan::new(filter, after, limit);
    while !scan.has_ended() {
        let (after, count) = scan.next_scan();
        let entries = entries(connection, &parts, after, count)?;
        for ids in scan.groups(&entries) {
            if scan.add(reads::fetch_readable(connection, &ids, Payloads::NONE)?) {
                break;
            }
        }
        if !scan.has_ended() {
            scan.advance(&entries);
        }
    }
    if payloads == Payloads::NONE {
        return Ok(scan.page());
    }
    let mut page = scan.page();
    let ids: Vec<ExecutionId> = page.rows.iter().map(|stored| stored.execution.id).collect();
    let ids = page.cut(&reads::payload_sizes(connection, &ids, payloads)?);
    Ok(page.with_rows(filter, reads::fetch_readable(connection, &ids, payloads)?))
}

/// Returns the next `count` entries of the indexes that serve these filters. Classes are not compared, and states only
/// where the index has them, so that no more entries are visited than returned.
fn entries(
    connection: &Connection,
    parts: &[Filter],
    after: Option<ListPosition>,
    count: u32,
) -> rusqlite::Result<Vec<Listed>> {
    let mut entries: Vec<Listed> = Vec::new();
    for mut range in parts.iter().flat_map(|part| ranges(part, after, Compared::ByCaller)) {
        range.parameters[LIMIT] = i64::from(count).into();
        let mut statement = connection.prepare_cached(range.statement)?;
        let used = statement.parameter_count();
        let found = statement.query_map(params_from_iter(&range.parameters[..used]), listed)?;
        for entry in found {
            entries.push(entry?);
        }
    }
    entries.sort_unstable_by_key(|entry| Reverse(entry.position));
    // An execution whose state changes between two statements may be found by both.
    entries.dedup_by_key(|entry| entry.position);
    entries.truncate(count as usize);
    Ok(entries)
}

fn listed(found: &Row<'_>) -> rusqlite::Result<Listed> {
    let code: i16 = found.get(3)?;
    let state = StateName::from_code(code);
    Ok(Listed {
        position: ListPosition { submitted_at: row::time(found, 0)?, id: ExecutionId(row::uuid(found, 1)?) },
        class: ClassId(found.get(2)?),
        state: state.ok_or_else(|| not_understood(&format!("unknown state {code}")))?,
        ended_at: row::optional_time(found, 4)?,
    })
}

/// Returns the ids at the first `limit` positions of these ranges, newest first.
pub fn find(connection: &Connection, ranges: Vec<Range>, limit: u32) -> rusqlite::Result<Vec<Uuid>> {
    let mut positions: Vec<(Timestamp, Uuid)> = Vec::new();
    for mut range in ranges {
        range.parameters[LIMIT] = i64::from(limit).into();
        let mut statement = connection.prepare_cached(range.statement)?;
        let count = statement.parameter_count();
        let found = statement.query_map(params_from_iter(&range.parameters[..count]), |found| {
            Ok((row::time(found, 0)?, row::uuid(found, 1)?))
        })?;
        for position in found {
            positions.push(position?);
        }
    }
    positions.sort_unstable_by_key(|position| Reverse(*position));
    positions.truncate(limit as usize);
    Ok(positions.into_iter().map(|(_, id)| id).collect())
}

/// Counts the executions that match a filter, up to `bound`.
pub fn count(connection: &Connection, filter: &Filter, bound: u64) -> rusqlite::Result<u64> {
    if !filter.is_indexed() {
        return count_listed(connection, filter, bound);
    }
    let bound = i64::try_from(bound).unwrap_or(i64::MAX);
    let mut counted = 0;
    let parts = filter.by_stored_state();
    for mut range in parts.iter().flat_map(|part| ranges(part, None, Compared::ByStatement)) {
        range.parameters[LIMIT] = (bound - counted).into();
        let mut statement =
            connection.prepare_cached(&format!("select count(*) from (\n{})", range.statement))?;
        let count = statement.parameter_count();
        counted += statement
            .query_row(params_from_iter(&range.parameters[..count]), |found| found.get::<_, i64>(0))?;
    }
    Ok(counted as u64)
}

/// Counts the waiting and active executions of lanes, each given by its classes and pools.
pub fn count_lanes(
    connection: &Connection,
    namespace: NamespaceId,
    lanes: &[Vec<ClassId>],
    bound: u64,
) -> rusqlite::Result<Vec<LaneCounts>> {
    let mut active = connection.prepare_cached(&EXECUTIONS_COUNT_ACTIVE)?;
    let active = active.query_map((namespace.0, ACTIVE_MAX), |row| {
        Ok((ClassId(row.get(0)?), row.get::<_, i64>(1)? as u64))
    })?;
    let active: HashMap<ClassId, u64> = active.collect::<rusqlite::Result<_>>()?;
    let mut of_class = connection.prepare_cached(&EXECUTIONS_COUNT_WAITING)?;
    let mut of_pool = connection.prepare_cached(&EXECUTIONS_COUNT_POOLED)?;
    let mut counts = Vec::with_capacity(lanes.len());
    for ranges in lanes {
        let mut lane = LaneCounts::default();
        for range in ranges {
            let statement = if range.0 < 0 { &mut of_pool } else { &mut of_class };
            let left = i64::try_from(bound - lane.waiting).unwrap_or(i64::MAX);
            lane.waiting += statement.query_row((range.0, left), |row| row.get::<_, i64>(0))? as u64;
            lane.active += active.get(range).copied().unwrap_or_default();
        }
        counts.push(lane);
    }
    Ok(counts)
}

/// Counts the executions of a list, up to `bound`.
fn count_listed(connection: &Connection, filter: &Filter, bound: u64) -> rusqlite::Result<u64> {
    let (mut counted, mut after) = (0, None);
    loop {
        let page = list(connection, filter, after, COUNTED_PAGE, Payloads::NONE)?;
        counted += page.rows.len() as u64;
        after = page.next;
        if counted >= bound || after.is_none() {
            return Ok(counted.min(bound));
        }
    }
}

/// The place where classes and states are compared with a filter.
#[derive(Clone, Copy, PartialEq)]
enum Compared {
    /// By the statement, which may visit many entries for each one that it returns.
    ByStatement,
    /// By the caller, except for states that the index has.
    ByCaller,
}

/// Returns the index ranges that together contain all executions of a filter by stored states, each execution once.
fn ranges(filter: &Filter, after: Option<ListPosition>, compared: Compared) -> Vec<Range> {
    let all_states = match filter.states.as_slice() {
        states if states.is_empty() || compared == Compared::ByCaller => Value::Null,
        states => numbers(states.iter().map(|state| i32::from(state.code()))),
    };
    let range = |statement: &'static str, states: Value| Range {
        statement,
        parameters: parameters(filter, after, states, compared),
    };
    // The members of a flow are few, so the caller compares their tags.
    let by_flow = compared == Compared::ByCaller && filter.flow.is_some();
    if !filter.tags.is_empty() && !by_flow {
        return vec![range(&EXECUTIONS_LIST_BY_TAG, all_states)];
    }
    if filter.flow.is_some() {
        return vec![
            range(&EXECUTIONS_LIST_BY_FLOW, all_states.clone()),
            range(&EXECUTIONS_LIST_LONE, all_states),
        ];
    }
    if filter.states.is_empty() || filter.states.contains(&StateName::Completed) {
        let statement = match compared {
            Compared::ByStatement => &EXECUTIONS_LIST_NEWEST,
            Compared::ByCaller => &EXECUTIONS_LIST,
        };
        return vec![range(statement, all_states)];
    }
    let mut states = filter.states.clone();
    states.sort_unstable();
    states.dedup();
    let of_state = |state: StateName| range(&EXECUTIONS_LIST_BY_STATE, i64::from(state.code()).into());
    states.into_iter().map(of_state).collect()
}

/// Returns the parameters of the list statements, in the order of `sql/executions/list.sql`.
fn parameters(filter: &Filter, after: Option<ListPosition>, states: Value, compared: Compared) -> Vec<Value> {
    let (below_at, below_id) =
        below(filter.submission_bound(), after.map(|place| (place.submitted_at, place.id.0)));
    let classes = filter.classes.as_ref().filter(|_| compared == Compared::ByStatement);
    vec![
        i64::from(filter.namespace.0).into(),
        below_at,
        below_id,
        filter.submitted_after.map_or(0, |at| at.micros()).into(),
        Value::Null,
        classes.map_or(Value::Null, |classes| numbers(classes.iter().map(|class| class.0))),
        states,
        filter.flow.map(|flow| flow.0.as_bytes().to_vec()).into(),
        filter.tags.first().cloned().into(),
    ]
}

/// Returns the position below which a page begins: after the previous page, and before a time of submission.
pub fn below(before: Option<Timestamp>, after: Option<(Timestamp, Uuid)>) -> (Value, Value) {
    // The empty blob sorts below every id, so this position is right before everything submitted at that time.
    let before = before.map(|at| (at.micros(), Vec::new()));
    let after = after.map(|(at, id)| (at.micros(), id.as_bytes().to_vec()));
    let below = [before, after].into_iter().flatten().min();
    let (at, id) = below.unwrap_or((i64::MAX, Vec::new()));
    (at.into(), id.into())
}

/// Returns numbers as a JSON array.
pub fn numbers(numbers: impl Iterator<Item = i32>) -> Value {
    let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
    Value::Text(format!("[{}]", numbers.join(",")))
}
