//! Everything outside of transactions: reads, scans and interning.

mod due;
mod executions;
mod flows;
pub mod list;
mod names;

use crate::PostgresStore;
use crate::connection::pipeline::{Parameters, as_refs};
use crate::connection::{failure, no_connection};
use deadpool_postgres::Object;
use selvedge_store::{Error, columns};
use std::collections::BTreeMap;
use tokio_postgres::types::ToSql;
use tokio_postgres::{IsolationLevel, Row};

impl PostgresStore {
    async fn client(&self) -> Result<Object, Error> {
        self.pool.get().await.map_err(no_connection)
    }

    /// Runs a statement and returns its rows.
    pub(crate) async fn query(
        &self,
        text: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Error> {
        let client = self.client().await?;
        let statement = client.prepare_cached(text).await.map_err(failure)?;
        client.query(&statement, parameters).await.map_err(failure)
    }

    /// Runs several statements in one snapshot, so that a row that moves between them meanwhile is found exactly once.
    async fn query_in_one_snapshot(
        &self,
        statements: Vec<(String, Parameters<'static>)>,
    ) -> Result<Vec<Row>, Error> {
        let mut client = self.client().await?;
        let snapshot =
            client.build_transaction().isolation_level(IsolationLevel::RepeatableRead).read_only(true);
        let transaction = snapshot.start().await.map_err(failure)?;
        let mut rows = Vec::new();
        for (text, parameters) in statements {
            let statement = transaction.prepare_cached(&text).await.map_err(failure)?;
            rows.extend(transaction.query(&statement, &as_refs(&parameters)).await.map_err(failure)?);
        }
        transaction.commit().await.map_err(failure)?;
        Ok(rows)
    }

    /// Runs a statement and returns the number of rows that it changed.
    pub(crate) async fn execute(&self, text: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<u64, Error> {
        let client = self.client().await?;
        let statement = client.prepare_cached(text).await.map_err(failure)?;
        client.execute(&statement, parameters).await.map_err(failure)
    }
}

/// Reads the tags of a scanned row. Unreadable tags count as none: loading the row for a decision reports the error.
fn scanned_tags(row: &Row, index: usize) -> BTreeMap<String, String> {
    columns::tags(row.get::<_, Option<&str>>(index)).unwrap_or_default()
}
