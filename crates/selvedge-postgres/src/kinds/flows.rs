//! Flows: their rows, their tags, and the names of their nodes.

use super::due::START;
use super::executions::{self, below, gather_execution};
use crate::PostgresStore;
use crate::connection::{Parameters, as_refs};
use crate::kinds::{Asking, Loading, Saving, collect, ignore, only_locks};
use crate::read::{readable, scanned_tags, scope_parameters};
use crate::sql::{END_OF_TIME, Micros, array, column, columns, get, statements};
use async_trait::async_trait;
use selvedge_core::filter::{ListPosition, tag_text};
use selvedge_core::flow::{FlowFilter, FlowListPosition, FlowState};
use selvedge_core::rows::Members;
use selvedge_core::{Execution, ExecutionId, Flow, FlowId, Name, NamespaceId, Timestamp};
use selvedge_store::columns::{COUNTED, FlowColumns};
use selvedge_store::{DueFlow, Error, FlowDue, FlowReads, ReconcilerScope};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

/// The number of live members of a flow.
const LIVE: &str = "flows.waiting_dependencies + flows.waiting + flows.delayed + flows.active + flows.suspended + flows.held";

statements! {
    with {
        columns: executions::columns(),
        flow: format!("{}, {}", flow::list_of("flows"), counts()),
        live: LIVE,
    }
    ADD_COUNTS = "flows/add_counts";
    COUNT_BY_STATE = "flows/count_by_state";
    DELETE = "flows/delete";
    INSERT = "flows/insert";
    LIST = "flows/list";
    LIST_BY_NAME = "flows/list_by_name";
    LIST_BY_STATE = "flows/list_by_state";
    LIST_BY_TAG = "flows/list_by_tag";
    LIST_DUE = "flows/list_due";
    LOCK = "flows/lock";
    LOCK_GROWTH = "flows/lock_growth";
    NODES_DELETE = "nodes/delete";
    NODES_FIND = "nodes/find";
    NODES_INSERT = "nodes/insert";
    NODES_LIST_MEMBERS = "nodes/list_members";
    READ = "flows/read";
    TAGS_DELETE = "flow_tags/delete";
    TAGS_INSERT = "flow_tags/insert";
    UPDATE = "flows/update";
}

// The columns before the counts. The end of the retention is only written, behind the end.
columns! {
    flow<'a> of row: FlowColumns as FlowColumns {
        id: Uuid = row.id,
        submitted_at: Micros = Micros(row.submitted_at),
        namespace: i32 = row.namespace,
        name: Option<String> = row.name,
        tags: Option<String> = row.tags,
        spec: String = row.spec,
        version: i32 = row.version,
        state: i16 = row.state,
        ended_at: Option<Micros> = row.ended_at.map(Micros),
        detail: Option<String> = row.detail,
    }
}

/// Returns the list of the columns of counts.
fn counts() -> String {
    COUNTED.map(|(name, _)| format!("flows.{name}")).join(", ")
}

fn decode(row: &Row) -> Result<Flow, Error> {
    let id: Uuid = row.get(flow::AT.id);
    let read = || -> Result<Flow, String> {
        let mut columns = flow::read(row, 0)?;
        for (index, count) in columns.counts.iter_mut().enumerate() {
            *count = get(row, flow::COUNT + index)?;
        }
        columns.flow()
    };
    read().map_err(|detail| Error::Failed(format!("flow {id} cannot be read: {detail}")))
}

fn ids(ids: &[FlowId]) -> Parameters<'static> {
    vec![array(ids, |id| id.0)]
}

/// Locks the growth of flows, then reads nodes by name and the members of flows.
pub fn load_nodes(asking: &mut Asking<'_>) {
    let (needs, writers_key) = (asking.needs, asking.writers_key);
    asking.lock(&needs.growing, &LOCK_GROWTH, |flows| growth(flows, writers_key), only_locks);
    let names = |names: &[(FlowId, Name)]| {
        vec![array(names, |(flow, _)| flow.0), array(names, |(_, name)| name.to_string())]
    };
    asking.read(&needs.nodes, &NODES_FIND, names, |answer, loading| {
        let node = |row: &Row| (FlowId(row.get(0)), Name::trusted(row.get(1)), ExecutionId(row.get(2)));
        loading.rows.nodes.extend(answer.iter().map(node));
        Ok(())
    });
    let pages = &needs.queries.members;
    asking.about(pages, &NODES_LIST_MEMBERS, page_parameters, move |answer, loading| {
        gather_members(answer, pages, loading);
        Ok(())
    });
}

/// Returns the keys of the advisory locks for the growth of flows: one of the schema, and one of each flow. Two flows
/// with the same key wait for each other needlessly.
fn growth(flows: &[FlowId], writers_key: i64) -> Parameters<'static> {
    let fold = |flow: &FlowId| {
        let bits = flow.0.as_u128();
        (bits ^ (bits >> 32) ^ (bits >> 64) ^ (bits >> 96)) as u32 as i32
    };
    let mut numbers: Vec<i32> = flows.iter().map(fold).collect();
    numbers.sort_unstable();
    numbers.dedup();
    vec![Box::new(writers_key as i32), Box::new(numbers)]
}

/// Returns the parameters of `nodes/list_members`.
fn page_parameters(pages: &[Members]) -> Parameters<'static> {
    vec![
        array(pages, |page| page.flow.0),
        array(pages, |page| i64::from(page.skip)),
        array(pages, |page| i64::from(page.limit)),
    ]
}

/// Adds members to the rows, with the page of each. An unreadable member counts too.
fn gather_members(answer: &[Row], pages: &[Members], loading: &mut Loading) {
    let mut found: Vec<(i64, ListPosition)> =
        answer.iter().map(|row| (row.get(executions::COLUMN_COUNT), executions::place(row))).collect();
    found.sort_unstable();
    let mut found = found.into_iter().peekable();
    for (page, number) in pages.iter().zip(1_i64..) {
        let of_page = std::iter::from_fn(|| found.next_if(|(on, _)| *on == number));
        loading.rows.found.members.push((*page, of_page.map(|(_, place)| place.id).collect()));
    }
    for row in answer {
        gather_execution(row, &mut loading.rows);
    }
}

pub fn read(asking: &mut Asking<'_>) {
    asking.read(&asking.needs.flows, &READ, ids, collect(decode, |rows| &mut rows.flows));
}

pub fn lock(asking: &mut Asking<'_>) {
    asking.lock(&asking.needs.flows, &LOCK, ids, collect(decode, |rows| &mut rows.flows));
}

pub fn save_nodes(saving: &mut Saving<'_>) {
    let nodes = &saving.changes.nodes;
    saving.rows(&nodes.removed, &NODES_DELETE, |nodes| {
        vec![column(nodes, |(flow, _)| flow.0), column(nodes, |(_, name)| name.as_str())]
    });
    saving.rows(&nodes.written, &NODES_INSERT, |nodes| {
        vec![
            column(nodes, |node| node.flow.0),
            column(nodes, |node| node.name.as_str()),
            column(nodes, |node| Micros::from(node.submitted_at)),
            column(nodes, |node| node.execution.0),
        ]
    });
}

/// Saves flows except their counts.
pub fn save(saving: &mut Saving<'_>) {
    let flows = &saving.changes.flows;
    saving.rows(&flows.deleted, &TAGS_DELETE, |flows| vec![array(flows, |(id, _)| id.0)]);
    saving.rows(&flows.deleted, &DELETE, |flows| {
        vec![array(flows, |(id, _)| id.0), array(flows, |(_, version)| *version as i32)]
    });
    saving.rows(&flows.inserted, &INSERT, |flows| {
        let mut parameters = with_retention(flows.iter());
        parameters.extend(COUNTED.map(|(_, state)| column(flows, move |flow| flow.counts.of(state))));
        parameters.push(column(flows, |flow| flow.counts.live()));
        parameters
    });
    let mut tags = Vec::new();
    for flow in &flows.inserted {
        tags.extend(flow.tags.iter().map(|(name, value)| (flow, tag_text(name, value))));
    }
    if !tags.is_empty() {
        let parameters = vec![
            array(&tags, |(flow, _)| flow.namespace.0),
            array(&tags, |(_, tag)| tag.clone()),
            array(&tags, |(flow, _)| Micros::from(flow.submitted_at)),
            array(&tags, |(flow, _)| flow.id.0),
        ];
        saving.add(&TAGS_INSERT, parameters, ignore);
    }
    saving.rows(&flows.updated, &UPDATE, |rows| {
        let mut parameters = with_retention(rows.iter().map(|(flow, _)| flow));
        // An update changes neither the time of the submission nor the namespace.
        parameters.drain(flow::AT.submitted_at..=flow::AT.namespace);
        parameters.insert(1, column(rows, |(_, expected)| *expected as i32));
        parameters
    });
}

/// Returns the columns before the counts, with the end of the retention behind the end.
fn with_retention<'a>(flows: impl Iterator<Item = &'a Flow> + Clone) -> Parameters<'a> {
    let delete_at = flows.clone().map(|flow| flow.delete_at().map(Micros::from));
    let delete_at: Vec<Option<Micros>> = delete_at.collect();
    let mut parameters = flow::arrays(flows.map(FlowColumns::of));
    parameters.insert(flow::AT.ended_at + 1, Box::new(delete_at));
    parameters
}

/// Adds to the counts of flows, in id order.
pub fn add_counts(saving: &mut Saving<'_>) {
    let added = &saving.changes.unread.flow_counts;
    if added.is_empty() {
        return;
    }
    let mut parameters = vec![array(added, |(id, _)| id.0)];
    parameters.extend(COUNTED.map(|(_, state)| array(added, |(_, more)| more.of(state))));
    parameters.push(array(added, |(_, more)| more.live()));
    saving.add(&ADD_COUNTS, parameters, |answer, saved| {
        saved.emptied = answer.iter().map(|row| FlowId(row.get(0))).collect();
    });
}

/// Returns the statement that serves a filter: each is written for one index.
fn source(filter: &FlowFilter) -> &'static str {
    if filter.tag.is_some() {
        &LIST_BY_TAG
    } else if filter.name.is_some() {
        &LIST_BY_NAME
    } else if !filter.states.is_empty() {
        &LIST_BY_STATE
    } else {
        &LIST
    }
}

/// Returns the parameters of that statement for a page.
fn parameters(filter: &FlowFilter, after: Option<FlowListPosition>, limit: i64) -> Parameters<'static> {
    let (time, id) = below(filter.submitted_before, after.map(|place| (place.submitted_at, place.id.0)));
    let mut parameters: Parameters<'static> = vec![
        Box::new(filter.namespace.0),
        Box::new(time),
        Box::new(id),
        Box::new(filter.submitted_after.map_or(Micros(0), Micros::from)),
        Box::new(filter.submitted_before.map_or(END_OF_TIME, Micros::from)),
        Box::new(filter.name.as_ref().map(Name::to_string)),
        Box::new(limit),
    ];
    let states: Vec<i16> = filter.states.iter().map(|state| state.code()).collect();
    if filter.tag.is_some() || !filter.states.is_empty() {
        parameters.push(Box::new((!states.is_empty()).then_some(states)));
    } else if filter.name.is_some() {
        parameters.push(Box::new(FlowState::ALL.map(FlowState::code).to_vec()));
    }
    if let Some(tag) = &filter.tag {
        parameters.push(Box::new(tag.clone()));
    }
    parameters
}

fn place(row: &Row) -> FlowListPosition {
    let submitted_at: Micros = row.get(flow::AT.submitted_at);
    FlowListPosition { submitted_at: submitted_at.time(), id: FlowId(row.get(flow::AT.id)) }
}

fn due_flow(row: &Row) -> DueFlow {
    DueFlow {
        flow: FlowId(row.get(0)),
        due_at: row.get::<_, Micros>(1).time(),
        namespace: NamespaceId(row.get(2)),
        tags: scanned_tags(row, 3),
    }
}

#[async_trait]
impl FlowReads for PostgresStore {
    async fn fetch_flows(&self, ids: &[FlowId]) -> Result<Vec<Flow>, Error> {
        let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
        self.all("fetch_flows", &READ, &[&ids], decode).await
    }

    async fn list_flows(
        &self,
        filter: &FlowFilter,
        after: Option<FlowListPosition>,
        limit: u32,
    ) -> Result<Vec<Flow>, Error> {
        let read = async {
            let (mut listed, mut after) = (Vec::new(), after);
            loop {
                let left = limit - listed.len() as u32;
                let parameters = parameters(filter, after, i64::from(left));
                let found = self.query(source(filter), &as_refs(&parameters)).await?;
                listed.extend(readable(&found, decode));
                // A page that is short only because of unreadable rows is filled with the rows behind them.
                if (found.len() as u32) < left || listed.len() as u32 == limit {
                    return Ok(listed);
                }
                after = found.last().map(place);
            }
        };
        self.meter.measure("list_flows", read).await
    }

    async fn count_flows(&self, namespace: NamespaceId, state: FlowState, bound: u64) -> Result<u64, Error> {
        let parameters: [&(dyn ToSql + Sync); 3] = [&namespace.0, &state.code(), &(bound as i64)];
        let rows = self.meter.measure("count_flows", self.query(&COUNT_BY_STATE, &parameters)).await?;
        Ok(rows.first().map_or(0, |row| row.get::<_, i64>(0) as u64))
    }

    async fn members(&self, page: Members) -> Result<Vec<Execution>, Error> {
        let parameters = page_parameters(&[page]);
        let parameters = as_refs(&parameters);
        let mut rows = self.meter.measure("members", self.query(&NODES_LIST_MEMBERS, &parameters)).await?;
        rows.sort_by_key(executions::place);
        Ok(readable(&rows, executions::decode).collect())
    }

    async fn due_flows(
        &self,
        scope: &ReconcilerScope,
        kind: FlowDue,
        after: Option<(Timestamp, FlowId)>,
        limit: u32,
    ) -> Result<Vec<DueFlow>, Error> {
        let (at, id) = after.map_or(START, |(at, id)| (at.into(), id.0));
        let (namespace, tag) = scope_parameters(scope);
        let parameters: [&(dyn ToSql + Sync); 6] =
            [&kind.code(), &at, &id, &i64::from(limit), &namespace, &tag];
        let rows = self.meter.measure("due_flows", self.query_in_background(&LIST_DUE, &parameters)).await?;
        Ok(rows.iter().map(due_flow).collect())
    }
}
