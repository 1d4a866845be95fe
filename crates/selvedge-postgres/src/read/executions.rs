//! Reads of executions and sessions: by id, in lists, and counts.

use crate::read::list::{Compared, Source};
use crate::row::{self, Micros};
use crate::{PostgresStore, sql};
use selvedge_core::filter::{Filter, ListPosition, Listed, Payloads};
use selvedge_core::state::StateName;
use selvedge_core::{ClassId, Execution, ExecutionId, NamespaceId, Session};
use selvedge_store::{Error, Head, LaneCounts, ListPage, ListScan, Stored};
use std::cmp::Reverse;
use std::collections::HashMap;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

/// The most active executions that a count of lanes looks at.
const ACTIVE_MAX: i64 = 100_000;
/// The number of rows per page where a count reads the rows.
const COUNTED_PAGE: u32 = 500;

/// Reads the execution in a row of `{columns}, input, result, renewed_at`.
fn stored(row: &Row) -> Result<Stored, Error> {
    let execution = row::execution(row)
        .map_err(|(id, detail)| Error::Failed(format!("execution {id} cannot be read: {detail}")))?;
    Ok(Stored {
        execution,
        input: row::some_payload(row, sql::EXECUTION_COLUMN_COUNT).unwrap_or_default(),
        result: row::some_payload(row, sql::EXECUTION_COLUMN_COUNT + 1),
        renewed_at: row.get::<_, Option<Micros>>(sql::EXECUTION_COLUMN_COUNT + 2).map(Micros::time),
    })
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

/// Reads the entry of a list in a row of `{listed}`.
fn listed(row: &Row) -> Result<Listed, Error> {
    let code: i16 = row.get(3);
    let state = StateName::from_code(code);
    Ok(Listed {
        position: row::place(row),
        class: ClassId(row.get(2)),
        state: state.ok_or_else(|| Error::Failed(format!("an execution has the unknown state {code}")))?,
        ended_at: row.get::<_, Option<Micros>>(4).map(Micros::time),
    })
}

impl PostgresStore {
    pub(crate) async fn read_executions(
        &self,
        ids: &[ExecutionId],
        payloads: Payloads,
    ) -> Result<Vec<Stored>, Error> {
        self.fetch_rows(ids, payloads).await?.iter().map(stored).collect()
    }

    pub(crate) async fn read_sizes(
        &self,
        ids: &[ExecutionId],
        payloads: Payloads,
    ) -> Result<Vec<(ExecutionId, u64)>, Error> {
        let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
        let rows =
            self.query(&sql::EXECUTIONS_READ_SIZES, &[&ids, &payloads.input, &payloads.result]).await?;
        Ok(rows.iter().map(|row| (ExecutionId(row.get(0)), row.get::<_, i64>(1) as u64)).collect())
    }

    pub(crate) async fn read_head(&self, id: ExecutionId) -> Result<Option<Head>, Error> {
        let rows = self.query(&sql::EXECUTIONS_READ_HEAD, &[&id.0]).await?;
        let head = |row: &Row| {
            let (namespace, epoch, code) = (row.get(0), row.get::<_, i32>(1), row.get(2));
            let state = StateName::from_code(code);
            let state =
                state.ok_or_else(|| Error::Failed(format!("execution {id} has the unknown state {code}")))?;
            Ok(Head { namespace: NamespaceId(namespace), epoch: epoch as u32, state })
        };
        rows.first().map(head).transpose()
    }

    async fn fetch_rows(&self, ids: &[ExecutionId], payloads: Payloads) -> Result<Vec<Row>, Error> {
        let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
        self.query(&sql::EXECUTIONS_FETCH, &[&ids, &payloads.input, &payloads.result]).await
    }

    /// Returns executions by id with the payloads asked for. Unreadable rows are left out.
    async fn fetch_readable(&self, ids: &[ExecutionId], payloads: Payloads) -> Result<Vec<Stored>, Error> {
        let readable = |row: &Row| match stored(row) {
            Ok(stored) => Some(stored),
            // An unreadable row must not hide the others.
            Err(error) => {
                tracing::error!(%error, "left out of a list");
                None
            }
        };
        Ok(self.fetch_rows(ids, payloads).await?.iter().filter_map(readable).collect())
    }

    pub(crate) async fn find_executions(
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
        let mut entries = rows.iter().map(listed).collect::<Result<Vec<Listed>, Error>>()?;
        entries.sort_unstable_by_key(|entry| Reverse(entry.position));
        // A scan without states may find executions that another statement finds by their state.
        entries.dedup_by_key(|entry| entry.position);
        entries.truncate(count as usize);
        Ok(entries)
    }

    pub(crate) async fn count_executions(&self, filter: &Filter, bound: u64) -> Result<u64, Error> {
        if !filter.is_indexed() {
            return self.count_listed(filter, bound).await;
        }
        if let Some(state) = only_state(filter) {
            let parameters: [&(dyn ToSql + Sync); 3] = [&filter.namespace.0, &state.code(), &(bound as i64)];
            let rows = self.query(&sql::EXECUTIONS_COUNT_BY_STATE, &parameters).await?;
            return Ok(rows.first().map_or(0, |row| row.get::<_, i64>(0) as u64));
        }
        let sources = self.sources(filter, Compared::ByStatement).await?;
        let count = |text: &str| format!("select count(*) from (\n{text}\n) as counted");
        let statements =
            sources.iter().map(|source| (count(source.text), source.parameters(None, bound as i64)));
        let rows = self.query_in_one_snapshot(statements.collect()).await?;
        Ok(rows.iter().map(|row| row.get::<_, i64>(0) as u64).sum::<u64>().min(bound))
    }

    /// Counts the waiting and active executions of lanes, each given by its classes and pools.
    pub(crate) async fn count_in_lanes(
        &self,
        namespace: NamespaceId,
        lanes: &[Vec<ClassId>],
        bound: u64,
    ) -> Result<Vec<LaneCounts>, Error> {
        let active = self.query(&sql::EXECUTIONS_COUNT_ACTIVE, &[&namespace.0, &ACTIVE_MAX]).await?;
        let active: HashMap<i32, u64> =
            active.iter().map(|row| (row.get(0), row.get::<_, i64>(1) as u64)).collect();
        let ranges: Vec<i32> = lanes.iter().flatten().map(|range| range.0).collect();
        let ends = lanes.iter().scan(0, |end, lane| {
            *end += lane.len() as i32;
            Some(*end)
        });
        let ends: Vec<i32> = ends.collect();
        let begins: Vec<i32> =
            lanes.iter().zip(&ends).map(|(lane, end)| end - lane.len() as i32 + 1).collect();
        let parameters: [&(dyn ToSql + Sync); 4] = [&ranges, &begins, &ends, &(bound as i64)];
        let waiting = self.query(&sql::EXECUTIONS_COUNT_BY_LANE, &parameters).await?;
        let counts = lanes.iter().zip(&waiting).map(|(lane, row)| LaneCounts {
            active: lane.iter().filter_map(|range| active.get(&range.0)).sum(),
            waiting: row.get::<_, i64>(0) as u64,
        });
        Ok(counts.collect())
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

    pub(crate) async fn count_ahead(&self, execution: &Execution, bound: u64) -> Result<u64, Error> {
        let order = Micros::from(execution.ready_order);
        let rows = self
            .query(
                &sql::EXECUTIONS_COUNT_AHEAD,
                &[&execution.class.0, &execution.claim_priority(), &order, &execution.id.0, &(bound as i64)],
            )
            .await?;
        Ok(rows.first().map_or(0, |row| row.get::<_, i64>(0) as u64).min(bound))
    }

    pub(crate) async fn read_history(&self, id: ExecutionId) -> Result<Vec<Vec<u8>>, Error> {
        Ok(self.query(&sql::HISTORY_PAGES_LIST, &[&id.0]).await?.iter().map(|row| row.get(0)).collect())
    }

    pub(crate) async fn list_sessions(&self, namespace: Option<NamespaceId>) -> Result<Vec<Session>, Error> {
        let namespace = namespace.map(|namespace| namespace.0);
        self.query(&sql::SESSIONS_LIST, &[&namespace]).await?.iter().map(row::session).collect()
    }
}
