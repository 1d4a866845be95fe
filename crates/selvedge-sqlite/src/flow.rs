//! Reads that are about flows and their members.
//!
//! A list of flows is answered as a list of executions is: from the index of the tag, of each of the states, or of the
//! namespace.

use crate::list::{self, Range};
use crate::{row, sql};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params};
use selvedge_core::flow::{FlowFilter, FlowListPosition, FlowState};
use selvedge_core::rows::Members;
use selvedge_core::{Execution, ExecutionId, Flow, FlowId};

/// Flows by id, in the order of asking; those that do not exist are left out.
pub fn fetch<'a>(
    connection: &Connection,
    ids: impl IntoIterator<Item = &'a FlowId>,
) -> rusqlite::Result<Vec<Flow>> {
    let mut found = Vec::new();
    for id in ids {
        let mut statement = connection.prepare_cached(&sql::FLOW_READ)?;
        found.extend(statement.query_row([id.0.as_bytes()], row::flow).optional()?);
    }
    Ok(found)
}

/// Which executions are these members of a flow, in order.
pub fn member_ids(connection: &Connection, page: Members) -> rusqlite::Result<Vec<ExecutionId>> {
    connection
        .prepare_cached(&sql::MEMBER_LIST)?
        .query_map(params![page.flow.0.as_bytes(), page.limit, page.skip], |found| {
            row::uuid(found, 0).map(ExecutionId)
        })?
        .collect()
}

/// Members of a flow in the order of their submission. One that cannot be read is left out.
pub fn members(connection: &Connection, page: Members) -> rusqlite::Result<Vec<Execution>> {
    let mut statement = connection.prepare_cached(&sql::EXECUTION_READ)?;
    let mut members = Vec::new();
    for id in member_ids(connection, page)? {
        let read = statement.query_row([id.0.as_bytes()], row::execution).optional()?;
        members.extend(read.and_then(Result::ok));
    }
    Ok(members)
}

/// Flows that match, newest first, after `after`.
pub fn list(
    connection: &Connection,
    filter: &FlowFilter,
    after: Option<FlowListPosition>,
    limit: u32,
) -> rusqlite::Result<Vec<Flow>> {
    let ids = list::find(connection, ranges(filter, after), limit)?;
    fetch(connection, &ids.into_iter().map(FlowId).collect::<Vec<_>>())
}

/// The ranges in which everything that matches is found, each flow in one of them.
fn ranges(filter: &FlowFilter, after: Option<FlowListPosition>) -> Vec<Range> {
    let all_states = match filter.states.as_slice() {
        [] => Value::Null,
        states => list::numbers(states.iter().map(|state| i32::from(state.code()))),
    };
    let range = |statement: &'static str, states: Value| Range {
        statement,
        parameters: parameters(filter, after, states),
    };
    if filter.tag.is_some() {
        return vec![range(&sql::FLOW_LIST_OF_TAG, all_states)];
    }
    if filter.states.is_empty() {
        return vec![range(&sql::FLOW_LIST_ALL, all_states)];
    }
    let mut states = filter.states.clone();
    states.sort_unstable();
    states.dedup();
    let of_state = |state: FlowState| range(&sql::FLOW_LIST_OF_STATE, i64::from(state.code()).into());
    states.into_iter().map(of_state).collect()
}

/// What the statements ask for, in the order of `sql/flow_list_all.sql`.
fn parameters(filter: &FlowFilter, after: Option<FlowListPosition>, states: Value) -> Vec<Value> {
    let (below_at, below_id) =
        list::below(filter.submitted_before, after.map(|place| (place.submitted_at, place.id.0)));
    vec![
        i64::from(filter.namespace.0).into(),
        below_at,
        below_id,
        filter.submitted_after.map_or(0, |at| at.micros()).into(),
        Value::Null,
        filter.name.as_ref().map(|name| name.as_str().to_owned()).into(),
        states,
        filter.tag.clone().into(),
    ]
}
