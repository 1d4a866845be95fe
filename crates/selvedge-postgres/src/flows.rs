//! Reads of flows, of their members and of the outbox, outside of transactions.

use crate::list::{END_OF_TIME, Parameters};
use crate::row::{self, Micros};
use crate::{PostgresStore, load, sql};
use selvedge_core::flow::{FlowFilter, FlowListPosition};
use selvedge_core::outbox::{OutboxKind, OutboxName, OutboxRow};
use selvedge_core::rows::Members;
use selvedge_core::{Execution, Flow, FlowId, Name, NamespaceId, Timestamp};
use selvedge_store::{DueFlow, Error, FlowDue, columns};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

/// The statement that serves a filter: each is written for one index.
fn source(filter: &FlowFilter) -> &'static str {
    if filter.tag.is_some() {
        &sql::FLOWS_LIST_BY_TAG
    } else if !filter.states.is_empty() {
        &sql::FLOWS_LIST_BY_STATE
    } else {
        &sql::FLOWS_LIST
    }
}

/// The parameters of that statement for a page.
fn parameters(filter: &FlowFilter, after: Option<FlowListPosition>, limit: i64) -> Parameters {
    let (time, id) =
        after.map_or((END_OF_TIME, Uuid::max()), |place| (place.submitted_at.into(), place.id.0));
    let mut list: Vec<Box<dyn ToSql + Sync + Send>> = vec![
        Box::new(filter.namespace.0),
        Box::new(time),
        Box::new(id),
        Box::new(filter.submitted_after.map_or(Micros(0), Micros::from)),
        Box::new(filter.submitted_before.map_or(END_OF_TIME, Micros::from)),
        Box::new(filter.name.as_ref().map(Name::to_string)),
        Box::new(limit),
    ];
    if filter.tag.is_some() || !filter.states.is_empty() {
        let states: Vec<i16> = filter.states.iter().map(|state| state.code()).collect();
        list.push(Box::new((!states.is_empty()).then_some(states)));
    }
    if let Some(tag) = &filter.tag {
        list.push(Box::new(tag.clone()));
    }
    Parameters(list)
}

/// The place in a list of a flow in a row of `{flow}`.
fn place(row: &Row) -> FlowListPosition {
    FlowListPosition { submitted_at: row.get::<_, Micros>(1).time(), id: FlowId(row.get(0)) }
}

impl PostgresStore {
    pub(crate) async fn read_flows(&self, ids: &[FlowId]) -> Result<Vec<Flow>, Error> {
        let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
        self.query(&sql::FLOWS_FETCH, &[&ids]).await?.iter().map(row::flow).collect()
    }

    pub(crate) async fn find_flows(
        &self,
        filter: &FlowFilter,
        after: Option<FlowListPosition>,
        limit: u32,
    ) -> Result<Vec<Flow>, Error> {
        let (mut listed, mut after) = (Vec::new(), after);
        loop {
            let left = limit - listed.len() as u32;
            let parameters = parameters(filter, after, i64::from(left));
            let found = self.query(source(filter), &parameters.as_refs()).await?;
            for row in &found {
                match row::flow(row) {
                    Ok(flow) => listed.push(flow),
                    // One damaged row must not hide the others.
                    Err(error) => tracing::error!(%error, "left out of a list"),
                }
            }
            // A page that is short only because of damaged rows is filled with what comes behind them.
            if (found.len() as u32) < left || listed.len() as u32 == limit {
                return Ok(listed);
            }
            after = found.last().map(place);
        }
    }

    pub(crate) async fn read_members(&self, page: Members) -> Result<Vec<Execution>, Error> {
        let parameters = Parameters(load::members(&[page]));
        let mut rows = self.query(&sql::NODES_MEMBERS, &parameters.as_refs()).await?;
        rows.sort_by_key(row::place);
        let readable = |row: &Row| match row::execution(row) {
            Ok(execution) => Some(execution),
            Err((id, detail)) => {
                tracing::error!(%id, detail, "left out of the members of a flow");
                None
            }
        };
        Ok(rows.iter().filter_map(readable).collect())
    }

    pub(crate) async fn find_due_flows(
        &self,
        kind: FlowDue,
        after: Option<(Timestamp, FlowId)>,
        limit: u32,
    ) -> Result<Vec<DueFlow>, Error> {
        let (at, id) = after.map_or((Micros(0), Uuid::nil()), |(at, id)| (at.into(), id.0));
        let parameters: [&(dyn ToSql + Sync); 4] = [&kind.code(), &at, &id, &i64::from(limit)];
        Ok(self.query(&sql::FLOWS_DUE_OF_KIND, &parameters).await?.iter().map(due_flow).collect())
    }

    pub(crate) async fn find_outbox(
        &self,
        kind: OutboxKind,
        stale_ms: i64,
        after: Option<(Timestamp, Uuid)>,
        limit: u32,
    ) -> Result<Vec<OutboxRow>, Error> {
        let (at, id) = after.map_or((Micros(0), Uuid::nil()), |(at, id)| (at.into(), id));
        let parameters: [&(dyn ToSql + Sync); 5] = [&kind.code(), &stale_ms, &at, &id, &i64::from(limit)];
        let rows = self.query(&sql::OUTBOX_OF_KIND, &parameters).await?;
        Ok(rows.iter().map(|row| waiting(row, kind)).collect())
    }
}

fn due_flow(row: &Row) -> DueFlow {
    DueFlow {
        flow: FlowId(row.get(0)),
        due_at: row.get::<_, Micros>(1).time(),
        namespace: NamespaceId(row.get(2)),
        tags: scanned_tags(row, 3),
    }
}

fn waiting(row: &Row, kind: OutboxKind) -> OutboxRow {
    OutboxRow {
        name: OutboxName { id: row.get(0), kind },
        at: row.get::<_, Micros>(2).time(),
        position: row.get::<_, i32>(3) as u32,
        namespace: NamespaceId(row.get(4)),
        tags: scanned_tags(row, 5),
    }
}

/// Tags of what a scan found. Those that cannot be read are met again, loudly, when the row is loaded.
pub fn scanned_tags(row: &Row, index: usize) -> std::collections::BTreeMap<String, String> {
    columns::tags(row.get::<_, Option<&str>>(index)).unwrap_or_default()
}
