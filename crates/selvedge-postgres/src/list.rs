//! Which statements serve a filter: each is written for one index, and what they find is merged, newest first.

use crate::row::Micros;
use crate::{PostgresStore, sql};
use selvedge_core::filter::{Filter, ListPosition};
use selvedge_core::state::StateName;
use selvedge_store::Error;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

/// Later than every time that is stored.
pub const END_OF_TIME: Micros = Micros(253_402_300_800_000_000);
/// Up to so many ready ones are sorted; where there are more, they are found by walking the list.
const FEW: i64 = 1000;

/// One statement and what it is asked with.
pub struct Source<'a> {
    /// The statement.
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

/// The parameters of a list statement, owned.
pub struct Parameters(pub Vec<Box<dyn ToSql + Sync + Send>>);

impl Parameters {
    /// As the driver wants them.
    pub fn as_refs(&self) -> Vec<&(dyn ToSql + Sync)> {
        self.0.iter().map(|value| value.as_ref() as &(dyn ToSql + Sync)).collect()
    }
}

impl Source<'_> {
    /// The parameters for a page.
    pub fn parameters(&self, after: Option<ListPosition>, limit: i64) -> Parameters {
        let (time, id) =
            after.map_or((END_OF_TIME, Uuid::max()), |place| (place.submitted_at.into(), place.id.0));
        let mut list: Vec<Box<dyn ToSql + Sync + Send>> = vec![
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
            Last::Tag(tag) => list.push(Box::new(tag.clone())),
            Last::Flow(flow) => {
                list.push(Box::new(*flow));
                list.push(Box::new(self.filter.tag.clone()));
            }
        }
        Parameters(list)
    }
}

impl PostgresStore {
    /// The statements that together find what matches.
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
            // An execution alone is its own flow.
            return Ok(vec![of_flow(&sql::EXECUTIONS_LIST_BY_FLOW), of_flow(&sql::EXECUTIONS_LIST_ALONE)]);
        }
        if let Some(tag) = &filter.tag {
            let mut tagged = source(&sql::EXECUTIONS_LIST_BY_TAG, &filter.states);
            tagged.last = Last::Tag(tag.clone());
            return Ok(vec![tagged]);
        }
        if filter.states.is_empty() {
            return Ok(vec![source(&sql::EXECUTIONS_LIST, &[]), source(&sql::EXECUTIONS_LIST_LEASED, &[])]);
        }
        let mut sources = Vec::new();
        let mut resting = Vec::new();
        for state in &filter.states {
            match state {
                StateName::Active => sources.push(source(&sql::EXECUTIONS_LIST_LEASED, &[])),
                StateName::Completed => sources.push(source(&sql::EXECUTIONS_LIST, &[StateName::Completed])),
                StateName::Waiting => match &classes {
                    Some(classes) if self.few_ready(classes).await? => {
                        sources.push(source(&sql::EXECUTIONS_LIST_READY, &[]));
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
                | StateName::Skipped => resting.push(*state),
            }
        }
        if !resting.is_empty() {
            sources.push(source(&sql::EXECUTIONS_LIST_BY_STATE, &resting));
        }
        Ok(sources)
    }

    async fn few_ready(&self, classes: &[i32]) -> Result<bool, Error> {
        let rows = self.query(&sql::EXECUTIONS_COUNT_READY, &[&classes, &(FEW + 1)]).await?;
        Ok(rows.first().is_some_and(|row| row.get::<_, i64>(0) <= FEW))
    }
}
