//! Columns to and from SQLite's values.

use crate::failure::not_understood;
use rusqlite::{Row, ToSql, params_from_iter};
use rusqlite::types::{ToSqlOutput, ValueRef};
use selvedge_core::rows::{HeldLease, Inserted, ResultChange, Updated};
use selvedge_core::{
    Class, ClassId, Execution, ExecutionId, LeaseId, Name, NamespaceId, Scope, Session, SessionId, Timestamp,
};
use selvedge_store::columns::{self, Fixed, Moving};
use uuid::Uuid;

/// How many columns an execution's row has, without payloads.
pub const WIDTH: usize = 22;

/// An execution, or which one could not be understood and why.
pub type Read = Result<Execution, (ExecutionId, String)>;

/// The execution in the first [`WIDTH`] columns.
pub fn execution(row: &Row<'_>) -> rusqlite::Result<Read> {
    let id = uuid(row, 0)?;
    let read = fixed(row, id)
        .and_then(|fixed| Ok((fixed, moving(row)?)))
        .map_err(|error| error.to_string())
        .and_then(|(fixed, moving)| columns::execution(fixed, moving));
    Ok(read.map_err(|why| (ExecutionId(id), why)))
}

fn fixed(row: &Row<'_>, id: Uuid) -> rusqlite::Result<Fixed> {
    Ok(Fixed {
        id,
        partition: row.get(1)?,
        namespace: row.get(2)?,
        class: row.get(3)?,
        flow: optional_uuid(row, 4)?,
        submitted_at: row.get(5)?,
        spec: row.get(6)?,
    })
}

fn moving(row: &Row<'_>) -> rusqlite::Result<Moving> {
    Ok(Moving {
        version: row.get(7)?,
        state: row.get(8)?,
        priority: row.get(9)?,
        ready_order: row.get(10)?,
        epoch: row.get(11)?,
        due_kind: row.get(12)?,
        due_at: row.get(13)?,
        session: row.get(14)?,
        lease_id: optional_uuid(row, 15)?,
        until_at: row.get(16)?,
        started_at: row.get(17)?,
        ended_at: row.get(18)?,
        tags: row.get(19)?,
        detail: row.get(20)?,
        history: row.get(21)?,
    })
}
