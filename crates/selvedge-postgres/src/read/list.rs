//! The statements that serve a filter of executions. Each is written for one index; their rows are merged, newest first.

use crate::connection::pipeline::Parameters;
use crate::row::Micros;
use crate::{PostgresStore, sql};
use selvedge_core::filter::{Filter, ListPosition};
use selvedge_core::state::StateName;
use selvedge_store::Error;
use uuid::Uuid;

/// Later than every stored time: the year 10000.
pub const END_OF_TIME: Micros = Micros(253_402_300_800_000_000);
/// Up to this number waiting executions are read through the index of claims and sorted. More are found by scanning the
/// list.
const FEW_WAITING: i64 = 1000;

/// A statement with its parameters, except those of the page.
pub struct Source<'a> {
    /// The text of the statement.
    pub text: &'static str,
    filter: &'a Filter,
    states: Option<Vec<i16>>,
    classes: Option<Vec<i32>>,
    last: Last,
}

/// The last parameters of some statements.
#[derive(Clone)]
enum Last {
    None,
    Tag(String),
    Flow(Uuid),
}

impl Source<'_> {
    /// Returns the parameters for a page.
    pub fn parameters(&self, after: Option<ListPosition>, limit: i64) -> Parameters<'static> {
        let (time, id) =
            after.map_or((END_OF_TIME, Uuid::max()), |place| (place.submitted_at.into(), place.id.0));
        let mut parameters: Parameters<'static> = vec![
            Box::new(self.filter.namespace.0),
            Box::new(time),
            Box::new(id),
            Box::new(self.filter.submitted_after.map_or(Micros(0), Micros::from)),
            Box::new(self.filter.submitted_before.map_or(END_OF_TIME, Micros::from)),
            Box::new(self.classes.clone()),
            Box::new(self.states.clone()),
            Box::new(limit),
        ];
        match &self.last {
            Last::None => {}
            Last::Tag(tag) => parameters.push(Box::new(tag.clone())),
            Last::Flow(flow) => {
                parameters.push(Box::new(*flow));
                parameters.push(Box::new(self.filter.tag.clone()));
            }
        }
        parameters
    }
}

impl PostgresStore {
    /// Returns the statements that together find all matching executions.
    pub(crate) async fn sources<'a>(&self, filter: &'a Filter) -> Result<Vec<Source<'a>>, Error> {
        let classes: Option<Vec<i32>> =
            filter.classes.as_ref().map(|classes| classes.iter().map(|class| class.0).collect());
        let source = |text: &'static str, states: &[StateName]| Source {
            text,
            filter,
            states: (!states.is_empty()).then(|| states.iter().map(|state| state.code()).collect()),
            classes: classes.clone(),
            last: Last::None,
        };
        if let Some(flow) = filter.flow {
            let of_flow = |text| Source { last: Last::Flow(flow.0), ..source(text, &filter.states) };
            // An execution without a flow counts as a flow of its own.
            return Ok(vec![of_flow(&sql::EXECUTIONS_LIST_BY_FLOW), of_flow(&sql::EXECUTIONS_LIST_LONE)]);
        }
        if let Some(tag) = &filter.tag {
            let mut tagged = source(&sql::EXECUTIONS_LIST_BY_TAG, &filter.states);
            tagged.last = Last::Tag(tag.clone());
            return Ok(vec![tagged]);
        }
        if filter.states.is_empty() {
            return Ok(vec![source(&sql::EXECUTIONS_LIST, &[]), source(&sql::EXECUTIONS_LIST_ACTIVE, &[])]);
        }
        let mut sources = Vec::new();
        let mut indexed_states = Vec::new();
        for state in &filter.states {
            match state {
                StateName::Active => sources.push(source(&sql::EXECUTIONS_LIST_ACTIVE, &[])),
                StateName::Completed => sources.push(source(&sql::EXECUTIONS_LIST, &[StateName::Completed])),
                StateName::Waiting => match &classes {
                    Some(classes) if self.few_are_waiting(classes).await? => {
                        sources.push(source(&sql::EXECUTIONS_LIST_WAITING, &[]));
                    }
                    Some(_) | None => sources.push(source(&sql::EXECUTIONS_LIST, &[StateName::Waiting])),
                },
                StateName::WaitingDependencies
                | StateName::Delayed
                | StateName::Suspended
                | StateName::Held
                | StateName::Failed
                | StateName::Cancelled
                | StateName::Expired
                | StateName::Skipped => indexed_states.push(*state),
            }
        }
        if !indexed_states.is_empty() {
            sources.push(source(&sql::EXECUTIONS_LIST_BY_STATE, &indexed_states));
        }
        Ok(sources)
    }

    /// Reports whether these classes have few waiting executions.
    async fn few_are_waiting(&self, classes: &[i32]) -> Result<bool, Error> {
        let rows = self.query(&sql::EXECUTIONS_COUNT_WAITING, &[&classes, &(FEW_WAITING + 1)]).await?;
        Ok(rows.first().is_some_and(|row| row.get::<_, i64>(0) <= FEW_WAITING))
    }
}
