//! Steps of executions.
//!
//! A transaction that changes records of an execution (steps, signals, waitpoints) also changes its row, so the guard on its
//! version protects them all.

use crate::SqliteStore;
use crate::connection::failure::not_understood;
use crate::kinds::{Kind, Saving, readable};
use crate::row;
use crate::sql::{self, columns, statements};
use async_trait::async_trait;
use rusqlite::{Connection, Row, params};
use selvedge_core::step::{Step, StepKind};
use selvedge_core::{Changes, ExecutionId, Needs, Rows, Timestamp};
use selvedge_store::{Error, StepReads};

pub(crate) const KIND: Kind =
    Kind { columns: &[("step", step::LIST)], statements: STATEMENTS, load, save, ..Kind::EMPTY };

statements! {
    STEPS_DELETE = "steps/delete";
    STEPS_FIND = "steps/find";
    STEPS_LIST = "steps/list";
    STEPS_UPSERT = "steps/upsert";
}

columns! {
    step of step: &Step {
        execution = step.execution.0.as_bytes(),
        number = step.number,
        name = step.name.as_str(),
        kind = step.kind.code(),
        attempt = step.attempt,
        started_at = step.started_at.micros(),
        recorded_at = step.recorded_at.map(Timestamp::micros),
        result = step.result.as_deref(),
    }
}

fn decode(found: &Row<'_>) -> rusqlite::Result<Step> {
    use step::AT;
    let (execution, number) = (ExecutionId(row::uuid(found, AT.execution)?), found.get(AT.number)?);
    let kind = found.get(AT.kind)?;
    let unknown = || not_understood(&format!("step {number} of execution {execution}: unknown kind {kind}"));
    Ok(Step {
        execution,
        number,
        name: row::name(found, AT.name)?,
        kind: StepKind::from_code(kind).ok_or_else(unknown)?,
        attempt: found.get(AT.attempt)?,
        started_at: row::time(found, AT.started_at)?,
        recorded_at: row::optional_time(found, AT.recorded_at)?,
        result: row::optional_bytes(found, AT.result)?,
    })
}

/// Returns a page of an execution's steps after a number, in order, with their results.
pub fn list(connection: &Connection, of: ExecutionId, after: u32, limit: u32) -> rusqlite::Result<Vec<Step>> {
    sql::rows(connection, &STEPS_LIST, params![of.0.as_bytes(), after, limit], decode)
}

fn load(connection: &Connection, needs: &Needs, rows: &mut Rows) -> rusqlite::Result<()> {
    for (id, name) in needs.steps.keys() {
        let found = sql::rows(connection, &STEPS_FIND, params![id.0.as_bytes(), name.as_str()], decode);
        let found = readable(*id, found, rows)?;
        rows.steps.extend(found.into_iter().flatten());
    }
    Ok(())
}

fn save(connection: &Connection, changes: &Changes, _: &mut Saving) -> rusqlite::Result<Option<String>> {
    for (id, _) in &changes.executions.deleted {
        sql::execute(connection, &STEPS_DELETE, [id.0.as_bytes()])?;
    }
    for step in &changes.steps {
        step::write(connection, &STEPS_UPSERT, step, &[])?;
    }
    Ok(None)
}

#[async_trait]
impl StepReads for SqliteStore {
    async fn steps(&self, of: ExecutionId, after: u32, limit: u32) -> Result<Vec<Step>, Error> {
        self.read("steps", move |connection| list(connection, of, after, limit)).await
    }
}
