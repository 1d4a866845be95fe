//! Everything outside of transactions: reads, scans and interning.

pub mod due;
mod executions;
mod flows;
pub mod glance;
pub mod list;
mod names;
mod stats;

use crate::PostgresStore;
use crate::connection::pipeline::{Parameters, as_refs};
use crate::connection::{Connections, StatementError, failure, schema};
use selvedge_store::{Error, columns};
use std::collections::BTreeMap;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

impl PostgresStore {
    /// Runs a statement for a caller and returns its rows.
    pub(crate) async fn query(
        &self,
        text: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Error> {
        query_on(&self.readers, text, parameters).await
    }

    /// Runs a statement for the engine itself and returns its rows.
    pub(crate) async fn query_in_background(
        &self,
        text: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Error> {
        query_on(&self.background, text, parameters).await
    }

    /// Checks now and then that this program is not too old for the schema, for the reconcilers.
    async fn check_schema(&self) -> Result<(), Error> {
        if !self.fence.is_due() {
            return Ok(());
        }
        let connection = self.background.get().await?;
        let version = connection.answer(schema::read_version_of_store(connection.client())).await;
        self.fence.note(version.and_then(|version| version.map_err(StatementError::from)).map_err(failure)?);
        self.fence.check()
    }

    /// Runs several statements in one snapshot, so that a row that moves between them meanwhile is found exactly once.
    async fn query_in_one_snapshot(
        &self,
        statements: Vec<(String, Parameters<'static>)>,
    ) -> Result<Vec<Row>, Error> {
        let client = self.readers.get().await?;
        let read = async {
            let mut rows = Vec::new();
            for (text, parameters) in statements {
                let statement = client.prepare_cached(&text).await.map_err(failure)?;
                rows.extend(client.query(&statement, &as_refs(&parameters)).await.map_err(failure)?);
            }
            Ok(rows)
        };
        client.transaction("begin isolation level repeatable read, read only", read).await
    }

    /// Runs a statement for the engine itself and returns the number of rows that it changed.
    pub(crate) async fn execute(&self, text: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<u64, Error> {
        let client = self.background.get().await?;
        let statement = client.prepare_cached(text).await.map_err(failure)?;
        client.execute(&statement, parameters).await.map_err(failure)
    }
}

async fn query_on(
    connections: &Connections,
    text: &str,
    parameters: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, Error> {
    let client = connections.get().await?;
    let statement = client.prepare_cached(text).await.map_err(failure)?;
    client.query(&statement, parameters).await.map_err(failure)
}

/// Reads the tags of a scanned row. Unreadable tags count as none: loading the row for a decision reports the error.
fn scanned_tags(row: &Row, index: usize) -> BTreeMap<String, String> {
    columns::tags(row.get::<_, Option<&str>>(index)).unwrap_or_default()
}
