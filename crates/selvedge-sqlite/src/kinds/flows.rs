//! Flows, their tags, the names of their nodes and the counts of their members.
//!
//! Like a list of executions, a list of flows reads the index of the tag, of the name, of each state, or of the namespace.

use crate::SqliteStore;
use crate::connection::failure::not_understood;
use crate::kinds::executions::list::{self, Range};
use crate::kinds::executions::{self, EXECUTIONS_READ};
use crate::kinds::{Kind, Saving, due};
use crate::row;
use crate::sql::{self, columns, statements};
use async_trait::async_trait;
use rusqlite::types::Value;
use rusqlite::{Connection, Row, ToSql, params};
use selvedge_core::filter::tag_text;
use selvedge_core::flow::{Counts, FlowFilter, FlowListPosition, FlowState};
use selvedge_core::rows::Members;
use selvedge_core::{Changes, Execution, ExecutionId, Flow, FlowId, NamespaceId, Needs, Rows, Timestamp};
use selvedge_store::columns as stored;
use selvedge_store::columns::{COUNTED, FlowColumns};
use selvedge_store::{DueFlow, Error, FlowDue, FlowReads, ReconcilerScope};
use std::collections::BTreeMap;

pub(crate) const KIND: Kind =
    Kind { columns: &[("flow", flow::LIST)], statements: STATEMENTS, load, save, ..Kind::EMPTY };

statements! {
    FLOW_TAGS_DELETE = "flow_tags/delete";
    FLOW_TAGS_INSERT = "flow_tags/insert";
    FLOWS_ADD_COUNTS = "flows/add_counts";
    FLOWS_COUNT_BY_STATE = "flows/count_by_state";
    FLOWS_DELETE = "flows/delete";
    FLOWS_FIND_NEXT_DUE = "flows/find_next_due";
    FLOWS_INSERT = "flows/insert";
    FLOWS_LIST = "flows/list";
    FLOWS_LIST_BY_NAME = "flows/list_by_name";
    FLOWS_LIST_BY_STATE = "flows/list_by_state";
    FLOWS_LIST_BY_TAG = "flows/list_by_tag";
    FLOWS_LIST_DUE = "flows/list_due";
    FLOWS_READ = "flows/read";
    FLOWS_READ_TAGS = "flows/read_tags";
    FLOWS_UPDATE = "flows/update";
    NODES_DELETE = "nodes/delete";
    NODES_FIND = "nodes/find";
    NODES_INSERT = "nodes/insert";
    NODES_LIST_MEMBERS = "nodes/list_members";
}

// Before the counts.
columns! {
    flow of columns: &FlowColumns as FlowColumns {
        id = columns.id.as_bytes(),
        namespace = columns.namespace,
        submitted_at = columns.submitted_at,
        name = columns.name,
        tags = columns.tags,
        spec = columns.spec,
        version = columns.version,
        state = columns.state,
        ended_at = columns.ended_at,
        detail = columns.detail,
    }
}

fn decode(found: &Row<'_>) -> rusqlite::Result<Flow> {
    let mut columns = flow::read(found, 0)?;
    for (column, count) in columns.counts.iter_mut().enumerate() {
        *count = found.get(flow::COUNT + column)?;
    }
    let id = FlowId(columns.id);
    columns.flow().map_err(|why| not_understood(&format!("flow {id} cannot be read: {why}")))
}

fn parameters_of(counts: &[i32; COUNTED.len()]) -> [&dyn ToSql; COUNTED.len()] {
    counts.each_ref().map(|count| count as &dyn ToSql)
}

fn fetch<'a>(
    connection: &Connection,
    ids: impl IntoIterator<Item = &'a FlowId>,
) -> rusqlite::Result<Vec<Flow>> {
    let flows = ids.into_iter().map(|id| sql::row(connection, &FLOWS_READ, [id.0.as_bytes()], decode));
    flows.filter_map(Result::transpose).collect()
}

/// Returns the ids of a page of a flow's members, in order of submission.
fn member_ids(connection: &Connection, page: Members) -> rusqlite::Result<Vec<ExecutionId>> {
    let parameters = params![page.flow.0.as_bytes(), page.limit, page.skip];
    sql::rows(connection, &NODES_LIST_MEMBERS, parameters, |found| row::uuid(found, 0).map(ExecutionId))
}

fn load(connection: &Connection, needs: &Needs, rows: &mut Rows) -> rusqlite::Result<()> {
    rows.flows = fetch(connection, needs.flows.keys())?;
    for (flow, name) in needs.nodes.keys() {
        let parameters = params![flow.0.as_bytes(), name.as_str()];
        let found = sql::row(connection, &NODES_FIND, parameters, |found| row::uuid(found, 0))?;
        rows.nodes.extend(found.map(|id| (*flow, name.clone(), ExecutionId(id))));
    }
    for page in &needs.queries.members {
        let ids = member_ids(connection, *page)?;
        executions::load_each(connection, ids.iter(), rows)?;
        rows.found.members.push((*page, ids));
    }
    Ok(())
}

fn save(connection: &Connection, changes: &Changes, saving: &mut Saving) -> rusqlite::Result<Option<String>> {
    for (id, version) in &changes.flows.deleted {
        if !delete(connection, *id, *version)? {
            return Ok(Some(format!("flow {id} has moved")));
        }
    }
    for flow in &changes.flows.inserted {
        if !insert(connection, flow)? {
            return Ok(Some(format!("flow {} exists", flow.id)));
        }
    }
    for (flow, version) in &changes.flows.updated {
        if !update(connection, flow, *version, saving.now)? {
            return Ok(Some(format!("flow {} has moved", flow.id)));
        }
    }
    for (flow, name) in &changes.nodes.removed {
        sql::execute(connection, &NODES_DELETE, params![flow.0.as_bytes(), name.as_str()])?;
    }
    for node in &changes.nodes.written {
        let (flow, name, execution) =
            (node.flow.0.as_bytes(), node.name.as_str(), node.execution.0.as_bytes());
        let parameters = params![flow, name, node.submitted_at.micros(), execution];
        if sql::execute(connection, &NODES_INSERT, parameters)? == 0 {
            return Ok(Some(format!("flow {} has a node {name:?}", node.flow)));
        }
    }
    for (flow, more) in &changes.unread.flow_counts {
        if add_counts(connection, *flow, more, saving.now)? {
            saving.emptied.push(*flow);
        }
    }
    Ok(None)
}

/// Inserts a flow. Returns false if its id is taken.
fn insert(connection: &Connection, flow: &Flow) -> rusqlite::Result<bool> {
    let columns = FlowColumns::of(flow);
    let counts = parameters_of(&columns.counts);
    let added = flow::with(&columns, |values| {
        sql::execute(connection, &FLOWS_INSERT, sql::joined(&[values, &counts, &[&columns.delete_at]]))
    })?;
    Tagged::of(flow).index(connection, &FLOW_TAGS_INSERT, &flow.tags)?;
    Ok(added > 0)
}

/// Updates a flow. Returns false if it does not have this version.
fn update(connection: &Connection, flow: &Flow, version: u32, now: Timestamp) -> rusqlite::Result<bool> {
    let parameters = params![flow.id.0.as_bytes(), version];
    let before =
        sql::row(connection, &FLOWS_READ_TAGS, parameters, |found| readable_tags(found, 0, flow.id))?;
    let Some(before) = before else { return Ok(false) };
    let columns = FlowColumns::of(flow);
    flow::with(&columns, |values| {
        let (guard, new): (&[&dyn ToSql], _) = (&[&values[flow::AT.id], &version], &values[flow::AT.name..]);
        let rest: &[&dyn ToSql] = &[&columns.delete_at, &now.micros()];
        sql::execute(connection, &FLOWS_UPDATE, sql::joined(&[guard, new, rest]))
    })?;
    if before != flow.tags {
        let tagged = Tagged::of(flow);
        tagged.index(connection, &FLOW_TAGS_DELETE, &before)?;
        tagged.index(connection, &FLOW_TAGS_INSERT, &flow.tags)?;
    }
    Ok(true)
}

/// Deletes a flow. Returns false if it does not have this version.
fn delete(connection: &Connection, flow: FlowId, version: u32) -> rusqlite::Result<bool> {
    let deleted = sql::row(connection, &FLOWS_DELETE, params![flow.0.as_bytes(), version], |found| {
        let (namespace, submitted_at) = (NamespaceId(found.get(0)?), row::time(found, 1)?);
        Ok((Tagged { namespace, submitted_at, flow }, readable_tags(found, 2, flow)?))
    })?;
    let Some((tagged, tags)) = deleted else { return Ok(false) };
    tagged.index(connection, &FLOW_TAGS_DELETE, &tags)?;
    Ok(true)
}

fn readable_tags(found: &Row<'_>, column: usize, flow: FlowId) -> rusqlite::Result<BTreeMap<String, String>> {
    row::tags(found, column)?.map_err(|why| not_understood(&format!("flow {flow} cannot be read: {why}")))
}

/// The key of a flow in the index of tags.
struct Tagged {
    namespace: NamespaceId,
    submitted_at: Timestamp,
    flow: FlowId,
}

impl Tagged {
    fn of(flow: &Flow) -> Tagged {
        Tagged { namespace: flow.namespace, submitted_at: flow.submitted_at, flow: flow.id }
    }

    /// Runs a statement for the entry of each tag.
    fn index(
        &self,
        connection: &Connection,
        statement: &str,
        tags: &BTreeMap<String, String>,
    ) -> rusqlite::Result<()> {
        for (name, value) in tags {
            let (submitted_at, flow) = (self.submitted_at.micros(), self.flow.0.as_bytes());
            let parameters = params![self.namespace.0, tag_text(name, value), submitted_at, flow];
            sql::execute(connection, statement, parameters)?;
        }
        Ok(())
    }
}

/// Adds to the counts of a flow. Returns whether it is running without a live member now.
fn add_counts(
    connection: &Connection,
    flow: FlowId,
    more: &Counts,
    now: Timestamp,
) -> rusqlite::Result<bool> {
    let counts = stored::counts(more);
    let rest: &[&dyn ToSql] = &[&more.live(), &now.micros()];
    let values: [&[&dyn ToSql]; 3] = [&[flow.0.as_bytes()], &parameters_of(&counts), rest];
    let emptied = sql::row(connection, &FLOWS_ADD_COUNTS, sql::joined(&values), |found| found.get(0))?;
    Ok(emptied == Some(true))
}

#[async_trait]
impl FlowReads for SqliteStore {
    async fn fetch_flows(&self, ids: &[FlowId]) -> Result<Vec<Flow>, Error> {
        let ids = ids.to_vec();
        self.read("fetch_flows", move |connection| fetch(connection, &ids)).await
    }

    async fn list_flows(
        &self,
        filter: &FlowFilter,
        after: Option<FlowListPosition>,
        limit: u32,
    ) -> Result<Vec<Flow>, Error> {
        let ranges = ranges(filter, after);
        self.read("list_flows", move |connection| {
            let ids = list::find(connection, ranges, limit)?;
            fetch(connection, &ids.into_iter().map(FlowId).collect::<Vec<_>>())
        })
        .await
    }

    async fn count_flows(&self, namespace: NamespaceId, state: FlowState, bound: u64) -> Result<u64, Error> {
        let bound = i64::try_from(bound).unwrap_or(i64::MAX);
        self.read("count_flows", move |connection| {
            sql::count(connection, &FLOWS_COUNT_BY_STATE, (namespace.0, state.code(), bound))
        })
        .await
    }

    /// Leaves unreadable members out.
    async fn members(&self, page: Members) -> Result<Vec<Execution>, Error> {
        self.read("members", move |connection| {
            let mut members = Vec::new();
            for id in member_ids(connection, page)? {
                let read = sql::row(connection, &EXECUTIONS_READ, [id.0.as_bytes()], executions::decode)?;
                members.extend(read.and_then(Result::ok));
            }
            Ok(members)
        })
        .await
    }

    async fn due_flows(
        &self,
        scope: &ReconcilerScope,
        kind: FlowDue,
        after: Option<(Timestamp, FlowId)>,
        limit: u32,
    ) -> Result<Vec<DueFlow>, Error> {
        let (now, scope) = (self.clock.now().micros(), scope.clone());
        let (at, id) = after.map_or(due::START, |(at, id)| (at.micros(), id.0));
        self.read("due_flows", move |connection| {
            let (only, tag) = (due::namespace(&scope), scope.tag_text());
            let parameters = params![kind.code(), now, at, id.as_bytes(), limit, only, tag];
            sql::rows(connection, &FLOWS_LIST_DUE, parameters, |found| {
                Ok(DueFlow {
                    flow: FlowId(row::uuid(found, 0)?),
                    due_at: row::time(found, 1)?,
                    namespace: NamespaceId(found.get(2)?),
                    tags: row::tags(found, 3)?.unwrap_or_default(),
                })
            })
        })
        .await
    }
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
        return vec![range(&FLOWS_LIST_BY_TAG, all_states)];
    }
    let mut states = filter.states.clone();
    let statement: &'static str = match &filter.name {
        Some(_) => {
            if states.is_empty() {
                states = FlowState::ALL.to_vec();
            }
            &FLOWS_LIST_BY_NAME
        }
        None if states.is_empty() => return vec![range(&FLOWS_LIST, all_states)],
        None => &FLOWS_LIST_BY_STATE,
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
