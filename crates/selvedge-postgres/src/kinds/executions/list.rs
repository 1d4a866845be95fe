//! Lists and counts of executions. The statements that serve a filter are each written for one index; their rows are merged,
//! newest first.

use super::{
    COUNT_BY_STATE, COUNT_WAITING, LIST, LIST_ACTIVE, LIST_BY_FLOW, LIST_BY_STATE, LIST_BY_TAG, LIST_LONE,
    LIST_NEWEST, LIST_WAITING, listed,
};
use crate::PostgresStore;
use crate::connection::Parameters;
use crate::sql::{END_OF_TIME, Micros};
use selvedge_core::filter::{Filter, ListPosition, Listed, Payloads};
use selvedge_core::state::StateName;
use selvedge_core::{ClassId, ExecutionId, Timestamp};
use selvedge_store::{Error, ListPage, ListScan};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

/// The number of rows per page where a count reads the rows.
const COUNTED_PAGE: u32 = 500;
/// Up to this number waiting executions are read through the index of claims and sorted. More are found by scanning the
/// list.
const FEW_WAITING: i64 = 1000;

/// The most ranges of the claim index that are searched for waiting executions.
const RANGES_MAX: usize = 2000;

/// A statement with its parameters, except those of the page.
pub struct Source {
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

/// Returns the state of a filter that has no other condition, if the index by state has it.
fn only_state(filter: &Filter) -> Option<StateName> {
    let [state] = filter.states[..] else { return None };
    let has_index = match state {
        StateName::Waiting | StateName::Active | StateName::Completed => false,
        StateName::WaitingDependencies
        | StateName::Delayed
        | StateName::Suspended
        | StateName::Held
        | StateName::Failed
        | StateName::Cancelled
        | StateName::Expired
        | StateName::Skipped => true,
    };
    let bare = Filter { states: vec![state], ..Filter::all(filter.namespace) };
    (has_index && *filter == bare).then_some(state)
}

/// Reads the entry of a list.
fn decode(row: &Row) -> Result<Listed, Error> {
    use listed::AT;
    let code: i16 = row.get(AT.state);
    let state = StateName::from_code(code);
    let submitted_at: Micros = row.get(AT.submitted_at);
    Ok(Listed {
        position: ListPosition { submitted_at: submitted_at.time(), id: ExecutionId(row.get(AT.id)) },
        class: ClassId(row.get(AT.class)),
        state: state.ok_or_else(|| Error::Failed(format!("an execution has the unknown state {code}")))?,
        ended_at: row.get::<_, Option<Micros>>(AT.ended_at).map(Micros::time),
    })
}

impl PostgresStore {
    pub(super) async fn find_executions(
        &self,
        filter: &Filter,
        after: Option<ListPosition>,
        limit: u32,
        payloads: Payloads,
    ) -> Result<ListPage, Error> {
        let sources = self.sources(filter, Compared::ByCaller).await?;
        let mut scan = ListScan::new(filter, after, limit);
        while !scan.has_ended() {
            let (after, count) = scan.next_scan();
            let entries = self.entries(&sources, after, count).await?;
            for ids in scan.groups(&entries) {
                if scan.add(self.fetch_readable(&ids, Payloads::NONE).await?) {
                    break;
                }
            }
            if !scan.has_ended() {
                scan.advance(&entries);
            }
        }
        if payloads == Payloads::NONE {
            return Ok(scan.page());
        }
        let mut page = scan.page();
        let ids: Vec<ExecutionId> = page.rows.iter().map(|stored| stored.execution.id).collect();
        let ids = page.cut(&self.read_sizes(&ids, payloads).await?);
        Ok(page.with_rows(filter, self.fetch_readable(&ids, payloads).await?))
    }

    /// Returns the next `count` entries of the indexes that serve a filter.
    async fn entries(
        &self,
        sources: &[Source],
        after: Option<ListPosition>,
        count: u32,
    ) -> Result<Vec<Listed>, Error> {
        let statements =
            sources.iter().map(|source| (source.text.to_owned(), source.parameters(after, i64::from(count))));
        let rows = self.query_in_one_snapshot(statements.collect()).await?;
        let mut entries = rows.iter().map(decode).collect::<Result<Vec<Listed>, Error>>()?;
        entries.sort_unstable_by_key(|entry| Reverse(entry.position));
        // A scan without states may find executions that another statement finds by their state.
        entries.dedup_by_key(|entry| entry.position);
        entries.truncate(count as usize);
        Ok(entries)
    }

    pub(super) async fn count_executions(&self, filter: &Filter, bound: u64) -> Result<u64, Error> {
        if !filter.is_indexed() {
            return self.count_listed(filter, bound).await;
        }
        if let Some(state) = only_state(filter) {
            let parameters: [&(dyn ToSql + Sync); 3] = [&filter.namespace.0, &state.code(), &(bound as i64)];
            let rows = self.query(&COUNT_BY_STATE, &parameters).await?;
            return Ok(rows.first().map_or(0, |row| row.get::<_, i64>(0) as u64));
        }
        let sources = self.sources(filter, Compared::ByStatement).await?;
        let count = |text: &str| format!("select count(*) from (\n{text}\n) as counted");
        let statements =
            sources.iter().map(|source| (count(source.text), source.parameters(None, bound as i64)));
        let rows = self.query_in_one_snapshot(statements.collect()).await?;
        Ok(rows.iter().map(|row| row.get::<_, i64>(0) as u64).sum::<u64>().min(bound))
    }

    /// Counts the executions of a list, up to `bound`.
    async fn count_listed(&self, filter: &Filter, bound: u64) -> Result<u64, Error> {
        let (mut counted, mut after) = (0, None);
        loop {
            let page = self.find_executions(filter, after, COUNTED_PAGE, Payloads::NONE).await?;
            counted += page.rows.len() as u64;
            after = page.next;
            if counted >= bound || after.is_none() {
                return Ok(counted.min(bound));
            }
        }
    }

    /// Returns the statements that together find all matching executions.
    async fn sources(&self, filter: &Filter, compared: Compared) -> Result<Vec<Source>, Error> {
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
            Compared::ByStatement => &LIST_NEWEST,
            Compared::ByCaller => &LIST,
        };
        // The statement uses an index without states, so the caller compares them.
        let scan = |text, states: &[StateName]| source(text, if by_statement { states } else { &[] });
        if let Some(flow) = filter.flow {
            let of_flow = |text| Source { last: Last::Flow(flow.0), ..scan(text, &filter.states) };
            // An execution without a flow counts as a flow of its own.
            return Ok(vec![of_flow(&LIST_BY_FLOW), of_flow(&LIST_LONE)]);
        }
        if let Some(tag) = filter.tags.first() {
            let tagged = scan(&LIST_BY_TAG, &filter.states);
            return Ok(vec![Source { last: Last::Tag(tag.clone()), ..tagged }]);
        }
        if filter.states.is_empty() {
            return Ok(vec![scan(list, &[]), source(&LIST_ACTIVE, &[])]);
        }
        let (mut sources, mut indexed_states, mut scanned_states) = (Vec::new(), Vec::new(), Vec::new());
        for state in &filter.states {
            match state {
                StateName::Active => sources.push(source(&LIST_ACTIVE, &[])),
                StateName::Completed => scanned_states.push(*state),
                StateName::Waiting => match self.few_waiting(filter, compared).await? {
                    Some(ranges) => {
                        let waiting = source(&LIST_WAITING, &[]);
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
            sources.push(source(&LIST_BY_STATE, &indexed_states));
        }
        Ok(sources)
    }

    /// If the classes of a filter have few waiting executions, returns the ranges of the claim index that contain all of
    /// them. The caller compares the classes: a pool contains other classes too.
    async fn few_waiting(&self, filter: &Filter, compared: Compared) -> Result<Option<Vec<i32>>, Error> {
        let Some(classes) = &filter.classes else { return Ok(None) };
        let range = |class: &ClassId| match compared {
            Compared::ByCaller => self.lineage.pool_of(*class).unwrap_or(*class).0,
            Compared::ByStatement => class.0,
        };
        let ranges: BTreeSet<i32> = classes.iter().map(range).collect();
        if ranges.len() > RANGES_MAX {
            return Ok(None);
        }
        let ranges: Vec<i32> = ranges.into_iter().collect();
        let rows = self.query(&COUNT_WAITING, &[&ranges, &(FEW_WAITING + 1)]).await?;
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
