//! Reads of flows and their members.
//!
//! Like a list of executions, a list of flows reads the index of the tag, of the name, of each state, or of the namespace.

use super::list::{self, Range};
use crate::{row, sql};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params};
use selvedge_core::flow::{FlowFilter, FlowListPosition, FlowState};
use selvedge_core::rows::Members;
use selvedge_core::{Execution, ExecutionId, Flow, FlowId};

/// Returns flows by id, in the order of `ids`. Ids that do not exist are left out.
pub fn fetch<'a>(
    connection: &Connection,
    ids: impl IntoIterator<Item = &'a FlowId>,
) -> rusqlite::Result<Vec<Flow>> {
    let mut found = Vec::new();
    for id in ids {
        let mut statement = connection.prepare_cached(&sql::FLOWS_READ)?;
        found.extend(statement.query_row([id.0.as_bytes()], row::flow).optional()?);
    }
    Ok(found)
}

/// Returns the ids of a page of a flow's members, in order of submission.
pub fn member_ids(connection: &Connection, page: Members) -> rusqlite::Result<Vec<ExecutionId>> {
    connection
        .prepare_cached(&sql::NODES_LIST_MEMBERS)?
        .query_map(params![page.flow.0.as_bytes(), page.limit, page.skip], |found| {
            row::uuid(found, 0).map(ExecutionId)
        })?
        .collect()
}

/// Returns a page of a flow's members, in order of submission. Unreadable rows are left out.
pub fn members(connection: &Connection, page: Members) -> rusqlite::Result<Vec<Execution>> {
    let mut statement = connection.prepare_cached(&sql::EXECUTIONS_READ)?;
    let mut members = Vec::new();
    for id in member_ids(connection, page)? {
        let read = statement.query_row([id.0.as_bytes()], row::execution).optional()?;
        members.extend(read.and_then(Result::ok));
    }
    Ok(members)
}

/// Returns a page of the flows that match a filter, newest first.
pub fn list(
    connection: &Connection,
    filter: &FlowFilter,
    after: Option<FlowListPosition>,
    limit: u32,
) -> rusqlite::Result<Vec<Flow>> {
    let ids = list::find(connection, ranges(filter, after), limit)?;
    fetch(connection, &ids.into_iter().map(FlowId).collect::<Vec<_>>())
}

/// Returns the index ranges that together contain all matching flows, each flow once.
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
        return vec![range(&sql::FLOWS_LIST_BY_TAG, all_states)];
    }
    let mut states = filter.states.clone();
    let statement: &'static str = match &filter.name {
        Some(_) => {
            if states.is_empty() {
                states = FlowState::ALL.to_vec();
            }
            &sql::FLOWS_LIST_BY_NAME
        }
        None if states.is_empty() => return vec![range(&sql::FLOWS_LIST, all_states)],
        None => &sql::FLOWS_LIST_BY_STATE,
    };
    states.sort_unstable();
    states.dedup();
    let of_state = |state: FlowState| range(statement, i64::from(state.code()).into());
    states.into_iter().map(of_state).collect()
}

/// Returns the parameters of the list statements, in the order of `sql/flows/list.sql`.
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
