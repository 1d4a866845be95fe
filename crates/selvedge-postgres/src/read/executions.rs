//! Reads of executions and sessions: by id, in lists, and counts.

use crate::row::{self, Micros};
use crate::{PostgresStore, sql};
use selvedge_core::filter::{Filter, ListPosition};
use selvedge_core::{Execution, ExecutionId, NamespaceId, Session};
use selvedge_store::{Error, Stored};
use std::cmp::Reverse;
use tokio_postgres::Row;
use uuid::Uuid;

/// Reads the execution in a row of `{columns}, input, result, renewed_at`.
fn stored(row: &Row) -> Result<Stored, Error> {
    let execution = row::execution(row)
        .map_err(|(id, detail)| Error::Failed(format!("execution {id} cannot be read: {detail}")))?;
    Ok(Stored {
        execution,
        input: row::payload(row, sql::EXECUTION_COLUMN_COUNT),
        result: row::some_payload(row, sql::EXECUTION_COLUMN_COUNT + 1),
        renewed_at: row.get::<_, Option<Micros>>(sql::EXECUTION_COLUMN_COUNT + 2).map(Micros::time),
    })
}

impl PostgresStore {
    pub(crate) async fn read_executions(&self, ids: &[ExecutionId]) -> Result<Vec<Stored>, Error> {
        let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
        self.query(&sql::EXECUTIONS_FETCH, &[&ids]).await?.iter().map(stored).collect()
    }

    pub(crate) async fn find_executions(
        &self,
        filter: &Filter,
        after: Option<ListPosition>,
        limit: u32,
    ) -> Result<Vec<Stored>, Error> {
        let sources = self.sources(filter).await?;
        let (mut listed, mut after) = (Vec::new(), after);
        loop {
            let left = limit - listed.len() as u32;
            let statements = sources
                .iter()
                .map(|source| (source.text.to_owned(), source.parameters(after, i64::from(left))));
            let mut found = self.query_in_one_snapshot(statements.collect()).await?;
            found.sort_by_key(|row| Reverse(row::place(row)));
            found.truncate(left as usize);
            for row in &found {
                match stored(row) {
                    Ok(stored) => listed.push(stored),
                    // An unreadable row must not hide the others.
                    Err(error) => tracing::error!(%error, "left out of a list"),
                }
            }
            // A page that is short only because of unreadable rows is filled with the rows behind them.
            if (found.len() as u32) < left || listed.len() as u32 == limit {
                return Ok(listed);
            }
            after = found.last().map(row::place);
        }
    }

    pub(crate) async fn count_executions(&self, filter: &Filter, bound: u64) -> Result<u64, Error> {
        let sources = self.sources(filter).await?;
        let count = |text: &str| format!("select count(*) from (\n{text}\n) as counted");
        let statements =
            sources.iter().map(|source| (count(source.text), source.parameters(None, bound as i64)));
        let rows = self.query_in_one_snapshot(statements.collect()).await?;
        Ok(rows.iter().map(|row| row.get::<_, i64>(0) as u64).sum::<u64>().min(bound))
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
