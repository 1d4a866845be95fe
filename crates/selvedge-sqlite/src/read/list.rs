//! Lists and counts of executions.
//!
//! A filter reads the narrowest index that serves it: that of its tag, of its flow, of each of its states, or of the
//! namespace. The positions in all ranges are merged first; only the rows of one page are read.

use crate::{read, row, sql};
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use selvedge_core::filter::{Filter, ListPosition};
use selvedge_core::state::StateName;
use selvedge_core::{ExecutionId, Timestamp};
use selvedge_store::Stored;
use std::cmp::Reverse;
use uuid::Uuid;

/// The index of the limit among the parameters, from 0. See `sql/executions/list.sql`.
const LIMIT: usize = 4;

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
) -> rusqlite::Result<Vec<Stored>> {
    let ids = find(connection, ranges(filter, after), limit)?;
    read::fetch(connection, &ids.into_iter().map(ExecutionId).collect::<Vec<_>>())
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
    let bound = i64::try_from(bound).unwrap_or(i64::MAX);
    let mut counted = 0;
    for mut range in ranges(filter, None) {
        range.parameters[LIMIT] = (bound - counted).into();
        let mut statement =
            connection.prepare_cached(&format!("select count(*) from (\n{})", range.statement))?;
        let count = statement.parameter_count();
        counted += statement
            .query_row(params_from_iter(&range.parameters[..count]), |found| found.get::<_, i64>(0))?;
    }
    Ok(counted as u64)
}

/// Returns the index ranges that together contain all matching executions, each execution once.
fn ranges(filter: &Filter, after: Option<ListPosition>) -> Vec<Range> {
    let all_states = match filter.states.as_slice() {
        [] => Value::Null,
        states => numbers(states.iter().map(|state| i32::from(state.code()))),
    };
    let range = |statement: &'static str, states: Value| Range {
        statement,
        parameters: parameters(filter, after, states),
    };
    if filter.tag.is_some() {
        return vec![range(&sql::EXECUTIONS_LIST_BY_TAG, all_states)];
    }
    if filter.flow.is_some() {
        return vec![
            range(&sql::EXECUTIONS_LIST_BY_FLOW, all_states.clone()),
            range(&sql::EXECUTIONS_LIST_LONE, all_states),
        ];
    }
    if filter.states.is_empty() || filter.states.contains(&StateName::Completed) {
        return vec![range(&sql::EXECUTIONS_LIST, all_states)];
    }
    let mut states = filter.states.clone();
    states.sort_unstable();
    states.dedup();
    let of_state = |state: StateName| range(&sql::EXECUTIONS_LIST_BY_STATE, i64::from(state.code()).into());
    states.into_iter().map(of_state).collect()
}

/// Returns the parameters of the list statements, in the order of `sql/executions/list.sql`.
fn parameters(filter: &Filter, after: Option<ListPosition>, states: Value) -> Vec<Value> {
    let (below_at, below_id) =
        below(filter.submitted_before, after.map(|place| (place.submitted_at, place.id.0)));
    let classes = filter.classes.as_ref();
    vec![
        i64::from(filter.namespace.0).into(),
        below_at,
        below_id,
        filter.submitted_after.map_or(0, |at| at.micros()).into(),
        Value::Null,
        classes.map_or(Value::Null, |classes| numbers(classes.iter().map(|class| class.0))),
        states,
        filter.flow.map(|flow| flow.0.as_bytes().to_vec()).into(),
        filter.tag.clone().into(),
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
