//! Signals of executions, and their records as a whole.

use crate::SqliteStore;
use crate::connection::failure::not_understood;
use crate::kinds::{Kind, Saving, readable, steps};
use crate::row;
use crate::sql::{self, columns, statements};
use async_trait::async_trait;
use rusqlite::{Connection, Row, params};
use selvedge_core::signal::Effect;
use selvedge_core::{Changes, ExecutionId, Name, Needs, Rows, Signal, WaitpointId};
use selvedge_store::{Error, SignalReads};

pub(crate) const KIND: Kind =
    Kind { columns: &[("signal", signal::LIST)], statements: STATEMENTS, load, save, ..Kind::EMPTY };

statements! {
    SIGNALS_DELETE = "signals/delete";
    SIGNALS_FIND = "signals/find";
    SIGNALS_INSERT = "signals/insert";
    SIGNALS_LIST = "signals/list";
    SIGNALS_LIST_UNTAKEN = "signals/list_untaken";
    SIGNALS_TAKE = "signals/take";
}

// Without the payload.
columns! {
    signal of signal: &Signal {
        execution = signal.execution.0.as_bytes(),
        number = signal.number,
        name = signal.name.as_str(),
        source = signal.source.as_str(),
        waitpoint = signal.waitpoint.as_ref().map(|(id, _)| id.0.as_bytes()),
        waitpoint_name = signal.waitpoint.as_ref().map(|(_, name)| name.as_str()),
        key = signal.key.as_ref().map(Name::as_str),
        digest = signal.digest as i64,
        at = signal.at.micros(),
        effect = signal.effect.code(),
        taken = signal.taken,
    }
}

/// Reads a signal, with the payload that follows its columns.
fn decode(found: &Row<'_>) -> rusqlite::Result<Signal> {
    use signal::{AT, COUNT};
    let (execution, number) = (ExecutionId(row::uuid(found, AT.execution)?), found.get(AT.number)?);
    let effect = found.get(AT.effect)?;
    let unknown =
        || not_understood(&format!("signal {number} of execution {execution}: unknown effect {effect}"));
    let waitpoint = match row::optional_uuid(found, AT.waitpoint)? {
        Some(id) => Some((WaitpointId(id), row::name(found, AT.waitpoint_name)?)),
        None => None,
    };
    Ok(Signal {
        execution,
        number,
        name: row::name(found, AT.name)?,
        source: row::name(found, AT.source)?,
        waitpoint,
        key: row::optional_name(found, AT.key)?,
        digest: found.get::<_, i64>(AT.digest)? as u64,
        at: row::time(found, AT.at)?,
        effect: Effect::from_code(effect).ok_or_else(unknown)?,
        taken: found.get(AT.taken)?,
        payload: row::optional_bytes(found, COUNT)?,
    })
}

fn list(connection: &Connection, of: ExecutionId, after: u32, limit: u32) -> rusqlite::Result<Vec<Signal>> {
    sql::rows(connection, &SIGNALS_LIST, params![of.0.as_bytes(), after, limit], decode)
}

fn load(connection: &Connection, needs: &Needs, rows: &mut Rows) -> rusqlite::Result<()> {
    for id in &needs.queries.records {
        let signals = readable(*id, list(connection, *id, 0, u32::MAX), rows)?;
        let steps = readable(*id, steps::list(connection, *id, 0, u32::MAX), rows)?;
        if let (Some(signals), Some(steps)) = (signals, steps) {
            rows.found.records.push(*id);
            rows.signals.extend(signals);
            rows.steps.extend(steps);
        }
    }
    for id in &needs.queries.untaken {
        let found = sql::rows(connection, &SIGNALS_LIST_UNTAKEN, [id.0.as_bytes()], decode);
        let found = readable(*id, found, rows)?;
        rows.signals.extend(found.into_iter().flatten());
    }
    for (id, key) in &needs.queries.signal_keys {
        let found = sql::rows(connection, &SIGNALS_FIND, params![id.0.as_bytes(), key.as_str()], decode);
        let found = readable(*id, found, rows)?;
        rows.signals.extend(found.into_iter().flatten());
    }
    Ok(())
}

fn save(connection: &Connection, changes: &Changes, _: &mut Saving) -> rusqlite::Result<Option<String>> {
    for (id, _) in &changes.executions.deleted {
        sql::execute(connection, &SIGNALS_DELETE, [id.0.as_bytes()])?;
    }
    for signal in &changes.signals {
        signal::write(connection, &SIGNALS_INSERT, signal, &[&signal.payload.as_deref()])?;
    }
    for (execution, number, by) in &changes.unread.signals_taken {
        sql::execute(connection, &SIGNALS_TAKE, params![execution.0.as_bytes(), number, by])?;
    }
    Ok(None)
}

#[async_trait]
impl SignalReads for SqliteStore {
    async fn signals(&self, of: ExecutionId, after: u32, limit: u32) -> Result<Vec<Signal>, Error> {
        self.read("signals", move |connection| list(connection, of, after, limit)).await
    }
}
