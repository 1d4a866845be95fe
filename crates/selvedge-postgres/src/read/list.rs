//! The statements that serve a filter of executions. Each is written for one index; their rows are merged, newest first.

use crate::connection::pipeline::Parameters;
use crate::row::Micros;
use crate::{PostgresStore, sql};
use selvedge_core::filter::{Filter, ListPosition};
use selvedge_core::state::StateName;
use selvedge_core::{ClassId, Timestamp};
use selvedge_store::Error;
use std::collections::BTreeSet;
use uuid::Uuid;

/// Later than every stored time: the year 10000.
pub const END_OF_TIME: Micros = Micros(253_402_300_800_000_000);
/// Up to this number waiting executions are read through the index of claims and sorted. More are found by scanning the
/// list.
const FEW_WAITING: i64 = 1000;

/// The most ranges of the claim index that are searched for waiting executions.
const RANGES_MAX: usize = 2000;

/// A statement with its parameters, except those of the page.
pub struct Source {
    /// The text of the statement.
    pub text: &'static str,
    filter: Filter,
    /// The tag that the statement compares.
    tag: Option<String>,
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

/// The place where classes, states and tags are compared with a filter.
#[derive(Clone, Copy, PartialEq)]
pub enum Compared {
    /// By the statement, which may visit many entries for each one that it returns.
    ByStatement,
    /// By the caller, except where the index has them.
    ByCaller,
}

/// Returns the position before which a page begins: that of the page before, or the latest time of submission. A scan of the
/// index starts at this position, not at a condition on the time beside it.
pub fn below(latest: Option<Timestamp>, after: Option<(Timestamp, Uuid)>) -> (Micros, Uuid) {
    let latest = latest.map(|time| (time, Uuid::nil()));
    let position = latest.into_iter().chain(after).min();
    position.map_or((END_OF_TIME, Uuid::max()), |(time, id)| (time.into(), id))
}

impl Source {
    /// Returns the parameters for a page.
    pub fn parameters(&self, after: Option<ListPosition>, limit: i64) -> Parameters<'static> {
        let bound = self.filter.submission_bound();
        let (time, id) = below(bound, after.map(|place| (place.submitted_at, place.id.0)));
        let mut parameters: Parameters<'static> = vec![
            Box::new(self.filter.namespace.0),
            Box::new(time),
            Box::new(id),
            Box::new(self.filter.submitted_after.map_or(Micros(0), Micros::from)),
            Box::new(bound.map_or(END_OF_TIME, Micros::from)),
            Box::new(self.classes.clone()),
            Box::new(self.states.clone()),
            Box::new(limit),
        ];
        match &self.last {
            Last::None => {}
            Last::Tag(tag) => parameters.push(Box::new(tag.clone())),
            Last::Flow(flow) => {
                parameters.push(Box::new(*flow));
                parameters.push(Box::new(self.tag.clone()));
            }
        }
        parameters
    }
}

impl PostgresStore {
    /// Returns the statements that together find all matching executions.
    pub(crate) async fn sources(&self, filter: &Filter, compared: Compared) -> Result<Vec<Source>, Error> {
        let mut sources = Vec::new();
        for part in filter.by_stored_state() {
            sources.extend(self.sources_of_part(&part, compared).await?);
        }
        Ok(sources)
    }

    /// Returns the statements for a filter by stored states.
    async fn sources_of_part(&self, filter: &Filter, compared: Compared) -> Result<Vec<Source>, Error> {
        let by_statement = compared == Compared::ByStatement;
        let ids = |classes: &Vec<ClassId>| classes.iter().map(|class| class.0).collect::<Vec<i32>>();
        let classes = filter.classes.as_ref().map(ids);
        // The statement uses an index that has these states, or compares them itself.
        let source = |text: &'static str, states: &[StateName]| Source {
            text,
            filter: filter.clone(),
            tag: filter.tags.first().cloned().filter(|_| by_statement),
            states: (!states.is_empty()).then(|| states.iter().map(|state| state.code()).collect()),
            classes: classes.clone().filter(|_| by_statement),
            last: Last::None,
        };
        let list: &'static str = match compared {
            Compared::ByStatement => &sql::EXECUTIONS_LIST_NEWEST,
            Compared::ByCaller => &sql::EXECUTIONS_LIST,
        };
        // The statement uses an index without states, so the caller compares them.
        let scan = |text, states: &[StateName]| source(text, if by_statement { states } else { &[] });
        if let Some(flow) = filter.flow {
            let of_flow = |text| Source { last: Last::Flow(flow.0), ..scan(text, &filter.states) };
            // An execution without a flow counts as a flow of its own.
            return Ok(vec![of_flow(&sql::EXECUTIONS_LIST_BY_FLOW), of_flow(&sql::EXECUTIONS_LIST_LONE)]);
        }
        if let Some(tag) = filter.tags.first() {
            let tagged = scan(&sql::EXECUTIONS_LIST_BY_TAG, &filter.states);
            return Ok(vec![Source { last: Last::Tag(tag.clone()), ..tagged }]);
        }
        if filter.states.is_empty() {
            return Ok(vec![scan(list, &[]), source(&sql::EXECUTIONS_LIST_ACTIVE, &[])]);
        }
        let (mut sources, mut indexed_states, mut scanned_states) = (Vec::new(), Vec::new(), Vec::new());
        for state in &filter.states {
            match state {
                StateName::Active => sources.push(source(&sql::EXECUTIONS_LIST_ACTIVE, &[])),
                StateName::Completed => scanned_states.push(*state),
                StateName::Waiting => match self.few_waiting(filter, compared).await? {
                    Some(ranges) => {
                        let waiting = source(&sql::EXECUTIONS_LIST_WAITING, &[]);
                        sources.push(Source { classes: Some(ranges), ..waiting });
                    }
                    None => scanned_states.push(*state),
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
        // A scan of the list finds all states but active ones.
        if !scanned_states.is_empty() {
            scanned_states.append(&mut indexed_states);
            sources.push(scan(list, &scanned_states));
        }
        if !indexed_states.is_empty() {
            sources.push(source(&sql::EXECUTIONS_LIST_BY_STATE, &indexed_states));
        }
        Ok(sources)
    }

    /// If the classes of a filter have few waiting executions, returns the ranges of the claim index that contain all of
    /// them. The caller compares the classes: a pool contains other classes too.
    async fn few_waiting(&self, filter: &Filter, compared: Compared) -> Result<Option<Vec<i32>>, Error> {
        let Some(classes) = &filter.classes else { return Ok(None) };
        let range = |class: &ClassId| match compared {
            Compared::ByCaller => self.history.pool_of(*class).unwrap_or(*class).0,
            Compared::ByStatement => class.0,
        };
        let ranges: BTreeSet<i32> = classes.iter().map(range).collect();
        if ranges.len() > RANGES_MAX {
            return Ok(None);
        }
        let ranges: Vec<i32> = ranges.into_iter().collect();
        let rows = self.query(&sql::EXECUTIONS_COUNT_WAITING, &[&ranges, &(FEW_WAITING + 1)]).await?;
        let few = rows.first().is_some_and(|row| row.get::<_, i64>(0) <= FEW_WAITING);
        Ok(few.then_some(ranges))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_begins_at_the_earlier_of_its_cursor_and_the_latest_time() {
        let (early, late) = (Timestamp::from_millis(1000), Timestamp::from_millis(2000));
        let id = Uuid::from_u128(7);
        assert_eq!(below(None, None).1, Uuid::max());
        assert_eq!(below(Some(early), None), (early.into(), Uuid::nil()));
        assert_eq!(below(Some(early), Some((late, id))), (early.into(), Uuid::nil()));
        assert_eq!(below(Some(late), Some((early, id))), (early.into(), id));
        assert_eq!(below(None, Some((late, id))), (late.into(), id));
    }
}
