//! Records of executions: signals, steps and waitpoints.
//!
//! The row of an execution is the lock for its records: a transaction that changes them has locked the row, or saves it
//! with a guard before them. So records are read without locks of their own, after the locks on executions.

use crate::PostgresStore;
use crate::connection::Parameters;
use crate::kinds::{Loading, Saving};
use crate::sql::array;
use selvedge_core::{ExecutionId, Name, Rows};
use selvedge_store::Error;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

/// The execution of an unreadable row, and the reason.
pub type Unreadable = (ExecutionId, String);

impl PostgresStore {
    /// Returns a page of one kind of an execution's records after a number.
    pub(crate) async fn records<T>(
        &self,
        text: &str,
        (of, after, limit): (ExecutionId, u32, u32),
        decode: fn(&Row) -> Result<T, Unreadable>,
    ) -> Result<Vec<T>, Error> {
        let Ok(after) = i32::try_from(after) else { return Ok(Vec::new()) };
        let parameters: [&(dyn ToSql + Sync); 3] = [&of.0, &after, &i64::from(limit)];
        let rows = self.query(text, &parameters).await?;
        rows.iter().map(|row| decode(row).map_err(unreadable)).collect()
    }
}

pub fn unreadable((execution, detail): Unreadable) -> Error {
    Error::Failed(format!("the record of execution {execution} cannot be read: {detail}"))
}

/// Returns the parameters of statements that take executions.
pub fn executions(ids: &[ExecutionId]) -> Parameters<'static> {
    vec![array(ids, |id| id.0)]
}

/// Returns the parameters of statements that take names of records.
pub fn names(names: &[(ExecutionId, Name)]) -> Parameters<'static> {
    vec![array(names, |(execution, _)| execution.0), array(names, |(_, name)| name.to_string())]
}

/// Decodes records and adds them to those of their kind. An unreadable record makes its execution unreadable, so that no rule
/// takes a part of the records for all of them; other executions are not affected.
pub fn gather<T: 'static>(
    decode: fn(&Row) -> Result<T, Unreadable>,
    of: fn(&mut Rows) -> &mut Vec<T>,
) -> impl FnOnce(&[Row], &mut Loading) -> Result<(), Error> + Send + 'static {
    move |answer, loading| {
        for row in answer {
            match decode(row) {
                Ok(record) => of(&mut loading.rows).push(record),
                Err(unreadable) => loading.rows.unreadable.push(unreadable),
            }
        }
        Ok(())
    }
}

/// Deletes the records of deleted executions with a statement.
pub fn delete(text: &'static str, saving: &mut Saving<'_>) {
    saving.rows(&saving.changes.executions.deleted, text, |rows| vec![array(rows, |(id, _)| id.0)]);
}
