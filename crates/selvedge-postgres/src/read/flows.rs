//! Reads of flows and their members.

use super::list::{END_OF_TIME, below};
use crate::connection::pipeline::{Parameters, as_refs};
use crate::row::{self, Micros};
use crate::{PostgresStore, load, sql};
use selvedge_core::flow::{FlowFilter, FlowListPosition, FlowState};
use selvedge_core::rows::Members;
use selvedge_core::{Execution, Flow, FlowId, Name};
use selvedge_store::Error;
use tokio_postgres::Row;
use uuid::Uuid;

/// Returns the statement that serves a filter: each is written for one index.
fn source(filter: &FlowFilter) -> &'static str {
    if filter.tag.is_some() {
        &sql::FLOWS_LIST_BY_TAG
    } else if filter.name.is_some() {
        &sql::FLOWS_LIST_BY_NAME
    } else if !filter.states.is_empty() {
        &sql::FLOWS_LIST_BY_STATE
    } else {
        &sql::FLOWS_LIST
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

/// Reads the position in a list of the flow in a row of `{flow}`.
fn place(row: &Row) -> FlowListPosition {
    FlowListPosition { submitted_at: row.get::<_, Micros>(1).time(), id: FlowId(row.get(0)) }
}

impl PostgresStore {
    pub(crate) async fn read_flows(&self, ids: &[FlowId]) -> Result<Vec<Flow>, Error> {
        let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
        self.query(&sql::FLOWS_READ, &[&ids]).await?.iter().map(row::flow).collect()
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
            let found = self.query(source(filter), &as_refs(&parameters)).await?;
            for row in &found {
                match row::flow(row) {
                    Ok(flow) => listed.push(flow),
                    // An unreadable row must not hide the others.
                    Err(error) => tracing::error!(%error, "left out of a list"),
                }
            }
            // A page that is short only because of unreadable rows is filled with the rows behind them.
            if (found.len() as u32) < left || listed.len() as u32 == limit {
                return Ok(listed);
            }
            after = found.last().map(place);
        }
    }

    pub(crate) async fn read_members(&self, page: Members) -> Result<Vec<Execution>, Error> {
        let parameters = load::members(&[page]);
        let mut rows = self.query(&sql::NODES_LIST_MEMBERS, &as_refs(&parameters)).await?;
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
}
