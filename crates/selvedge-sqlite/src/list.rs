//! Lists and counts of executions.
//!
//! A filter is answered from the narrowest index there is: that of its tag, of its flow, of each of its states, or of the
//! namespace. Places are found first and merged, and only the rows of one page are read.

use crate::{read, row, sql};
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use selvedge_core::filter::{Filter, ListPosition};
use selvedge_core::state::StateName;
use selvedge_core::{ExecutionId, Timestamp};
use selvedge_store::Stored;
use std::cmp::Reverse;
use uuid::Uuid;

/// The place of a parameter in the statements of this file, from 0. See `sql/list_all.sql`.
const LIMIT: usize = 4;

/// One range of one index, in the order of the list.
pub struct Range {
    /// What gives its places.
    pub statement: &'static str,
    /// The parameters of the statement; the limit is filled in when it runs. It uses the first few of them.
    pub parameters: Vec<Value>,
}

/// Executions that match, newest first, after `after`.
pub fn list(
    connection: &Connection,
    filter: &Filter,
    after: Option<ListPosition>,
    limit: u32,
) -> rusqlite::Result<Vec<Stored>> {
    let ids = find(connection, ranges(filter, after), limit)?;
    read::fetch(connection, &ids.into_iter().map(ExecutionId).collect::<Vec<_>>())
}

/// What the first `limit` places of these ranges hold, newest first.
pub fn find(connection: &Connection, ranges: Vec<Range>, limit: u32) -> rusqlite::Result<Vec<Uuid>> {
    let mut places: Vec<(Timestamp, Uuid)> = Vec::new();
    for mut range in ranges {
        range.parameters[LIMIT] = i64::from(limit).into();
        let mut statement = connection.prepare_cached(range.statement)?;
        let count = statement.parameter_count();
        let found = statement.query_map(params_from_iter(&range.parameters[..count]), |found| {
            Ok((row::time(found, 0)?, row::uuid(found, 1)?))
        })?;
        for place in found {
            places.push(place?);
        }
    }
    places.sort_unstable_by_key(|place| Reverse(*place));
    places.truncate(limit as usize);
    Ok(places.into_iter().map(|(_, id)| id).collect())
}

/// How many executions match, counted up to `bound`.
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

/// The ranges in which everything that matches is found, each execution in one of them.
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
        return vec![range(&sql::LIST_OF_TAG, all_states)];
    }
    if filter.flow.is_some() {
        return vec![range(&sql::LIST_OF_FLOW, all_states.clone()), range(&sql::LIST_OF_LONE, all_states)];
    }
    if filter.states.is_empty() || filter.states.contains(&StateName::Completed) {
        return vec![range(&sql::LIST_ALL, all_states)];
    }
    let mut states = filter.states.clone();
    states.sort_unstable();
    states.dedup();
    let of_state = |state: StateName| range(&sql::LIST_OF_STATE, i64::from(state.code()).into());
    states.into_iter().map(of_state).collect()
}

/// What the statements ask for, in the order of `sql/list_all.sql`.
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

/// The place below which a list begins: after the last page, and with what was submitted before a time.
pub fn below(before: Option<Timestamp>, after: Option<(Timestamp, Uuid)>) -> (Value, Value) {
    // No id is below the empty one: so this is the place right before everything submitted at that time.
    let before = before.map(|at| (at.micros(), Vec::new()));
    let after = after.map(|(at, id)| (at.micros(), id.as_bytes().to_vec()));
    let below = [before, after].into_iter().flatten().min();
    let (at, id) = below.unwrap_or((i64::MAX, Vec::new()));
    (at.into(), id.into())
}

/// Numbers as a JSON array.
pub fn numbers(numbers: impl Iterator<Item = i32>) -> Value {
    let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
    Value::Text(format!("[{}]", numbers.join(",")))
}
