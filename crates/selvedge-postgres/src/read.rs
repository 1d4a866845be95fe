//! Statements outside of transactions, and what the reads of several kinds share.

use crate::PostgresStore;
use crate::connection::{Connections, StatementError, failure, schema};
use crate::connection::{Parameters, as_refs};
use selvedge_store::{Error, ReconcilerScope, columns};
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

    /// Runs a statement for a caller, decodes all rows, and reports the call.
    pub(crate) async fn all<T: Send + 'static>(
        &self,
        call: &'static str,
        text: &str,
        parameters: &[&(dyn ToSql + Sync)],
        decode: impl Fn(&Row) -> Result<T, Error> + Send,
    ) -> Result<Vec<T>, Error> {
        let read = async { self.query(text, parameters).await?.iter().map(decode).collect() };
        self.meter.measure(call, read).await
    }

    /// Runs a statement for a caller, decodes the first row, and reports the call.
    pub(crate) async fn first<T: Send + 'static>(
        &self,
        call: &'static str,
        text: &str,
        parameters: &[&(dyn ToSql + Sync)],
        decode: impl Fn(&Row) -> Result<T, Error> + Send,
    ) -> Result<Option<T>, Error> {
        let read = async { self.query(text, parameters).await?.first().map(decode).transpose() };
        self.meter.measure(call, read).await
    }

    /// Checks now and then that this program is not too old for the schema, for the reconcilers.
    pub(crate) async fn check_schema(&self) -> Result<(), Error> {
        if !self.fence.is_due() {
            return Ok(());
        }
        let connection = self.background.get().await?;
        let version = connection.answer(schema::read_version_of_store(connection.client())).await;
        self.fence.note(version.and_then(|version| version.map_err(StatementError::from)).map_err(failure)?);
        self.fence.check()
    }

    /// Runs several statements in one snapshot, so that a row that moves between them meanwhile is found exactly once.
    pub(crate) async fn query_in_one_snapshot(
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
pub fn scanned_tags(row: &Row, index: usize) -> BTreeMap<String, String> {
    columns::tags(row.get::<_, Option<&str>>(index)).unwrap_or_default()
}

/// Returns the namespace of a scope, and the text that the tags of its rows contain.
pub fn scope_parameters(scope: &ReconcilerScope) -> (Option<i32>, Option<String>) {
    (scope.namespace.map(|namespace| namespace.0), scope.tag_text())
}

/// Decodes rows. An unreadable row is left out: it must not hide the others.
pub fn readable<T>(found: &[Row], decode: fn(&Row) -> Result<T, Error>) -> impl Iterator<Item = T> {
    found.iter().filter_map(move |row| match decode(row) {
        Ok(row) => Some(row),
        Err(error) => {
            tracing::error!(%error, "left out of a list");
            None
        }
    })
}
