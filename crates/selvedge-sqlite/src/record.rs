//! Records of executions (signals, steps and waitpoints), and token keys: read, loaded and saved.
//!
//! A transaction that changes records also changes the row of the execution, so the guard on its version protects them
//! all.

use crate::connection::failure::{is_not_understood, not_understood};
use crate::read::all;
use crate::{row, sql};
use rusqlite::{Connection, OptionalExtension, Row, params};
use selvedge_core::signal::Effect;
use selvedge_core::step::{Step, StepKind};
use selvedge_core::token::{TokenKey, TokenKeyId};
use selvedge_core::waitpoint::{WaitpointFilter, WaitpointPosition, WaitpointState};
use selvedge_core::{
    Changes, ExecutionId, NamespaceId, Needs, Rows, Signal, Timestamp, Waitpoint, WaitpointId,
};
use std::cmp::Reverse;

/// Returns a page of an execution's signals after a number, in order, with their payloads.
pub fn signals(
    connection: &Connection,
    of: ExecutionId,
    after: u32,
    limit: u32,
) -> rusqlite::Result<Vec<Signal>> {
    all(connection, &sql::SIGNALS_LIST, params![of.0.as_bytes(), after, limit], signal)
}

/// Returns a page of an execution's steps after a number, in order, with their results.
pub fn steps(
    connection: &Connection,
    of: ExecutionId,
    after: u32,
    limit: u32,
) -> rusqlite::Result<Vec<Step>> {
    all(connection, &sql::STEPS_LIST, params![of.0.as_bytes(), after, limit], step)
}

/// Returns a page of an execution's waitpoints after a number, in order.
pub fn waitpoints(
    connection: &Connection,
    of: ExecutionId,
    after: u32,
    limit: u32,
) -> rusqlite::Result<Vec<Waitpoint>> {
    all(connection, &sql::WAITPOINTS_LIST, params![of.0.as_bytes(), after, limit], readable_waitpoint)
}

/// Returns a page of the waitpoints of a namespace, newest first. Reads one range of an index for each state.
pub fn list_waitpoints(
    connection: &Connection,
    filter: &WaitpointFilter,
    after: Option<WaitpointPosition>,
    limit: u32,
) -> rusqlite::Result<Vec<Waitpoint>> {
    let (at, id) = after
        .map_or((i64::MAX, Vec::new()), |after| (after.created_at.micros(), after.id.0.as_bytes().to_vec()));
    let namespace = filter.namespace.0;
    let mut found = Vec::new();
    for state in filter.states() {
        let state = state.code();
        found.extend(match &filter.source {
            Some(source) => {
                let of_source = params![namespace, state, at, id, limit, source.as_str()];
                all(connection, &sql::WAITPOINTS_LIST_BY_SOURCE, of_source, readable_waitpoint)?
            }
            None => {
                let of_state = params![namespace, state, at, id, limit];
                all(connection, &sql::WAITPOINTS_LIST_BY_STATE, of_state, readable_waitpoint)?
            }
        });
    }
    found.sort_unstable_by_key(|waitpoint| Reverse(waitpoint.position()));
    found.truncate(limit as usize);
    Ok(found)
}

/// Returns a waitpoint by id.
pub fn waitpoint(connection: &Connection, id: WaitpointId) -> rusqlite::Result<Option<Waitpoint>> {
    let mut statement = connection.prepare_cached(&sql::WAITPOINTS_FIND)?;
    statement.query_row([id.0.as_bytes()], readable_waitpoint).optional()
}

/// Returns all token keys, by id.
pub fn token_keys(connection: &Connection) -> rusqlite::Result<Vec<TokenKey>> {
    all(connection, &sql::TOKEN_KEYS_LIST, (), |found| {
        Ok(TokenKey {
            id: TokenKeyId(found.get(0)?),
            fingerprint: found.get(1)?,
            created_at: row::time(found, 2)?,
            retires_at: row::optional_time(found, 3)?,
        })
    })
}

/// Returns the root secret in the database, which only files of earlier versions have.
pub fn kept_secret(connection: &Connection) -> rusqlite::Result<Option<Vec<u8>>> {
    connection.prepare_cached(&sql::KEPT_SECRET_READ)?.query_row((), |found| found.get(0)).optional()
}

/// Reads the signal in a row of `{signal}` and its payload.
fn signal(found: &Row<'_>) -> rusqlite::Result<Signal> {
    let (execution, number, effect) = (ExecutionId(row::uuid(found, 0)?), found.get(1)?, found.get(9)?);
    let unknown =
        || not_understood(&format!("signal {number} of execution {execution}: unknown effect {effect}"));
    let waitpoint = match row::optional_uuid(found, 4)? {
        Some(id) => Some((WaitpointId(id), row::name(found, 5)?)),
        None => None,
    };
    Ok(Signal {
        execution,
        number,
        name: row::name(found, 2)?,
        source: row::name(found, 3)?,
        waitpoint,
        key: row::optional_name(found, 6)?,
        digest: found.get::<_, i64>(7)? as u64,
        at: row::time(found, 8)?,
        effect: Effect::from_code(effect).ok_or_else(unknown)?,
        taken: found.get(10)?,
        payload: row::optional_bytes(found, 11)?,
    })
}

/// Reads the step in a row of `{step}`.
fn step(found: &Row<'_>) -> rusqlite::Result<Step> {
    let (execution, number, kind) = (ExecutionId(row::uuid(found, 0)?), found.get(1)?, found.get(3)?);
    let unknown = || not_understood(&format!("step {number} of execution {execution}: unknown kind {kind}"));
    Ok(Step {
        execution,
        number,
        name: row::name(found, 2)?,
        kind: StepKind::from_code(kind).ok_or_else(unknown)?,
        attempt: found.get(4)?,
        started_at: row::time(found, 5)?,
        recorded_at: row::optional_time(found, 6)?,
        result: row::optional_bytes(found, 7)?,
    })
}

/// Reads the waitpoint in a row of `{waitpoint}`.
fn readable_waitpoint(found: &Row<'_>) -> rusqlite::Result<Waitpoint> {
    let id = WaitpointId(row::uuid(found, 2)?);
    let (state, signal, effect) = (found.get(9)?, found.get(10)?, found.get(11)?);
    let unknown = || {
        not_understood(&format!(
            "waitpoint {id}: unknown state {state}, signal {signal:?}, effect {effect:?}"
        ))
    };
    let signals = Waitpoint::decode_signals(found.get::<_, Option<String>>(12)?.as_deref());
    let signals = signals.map_err(|error| not_understood(&format!("waitpoint {id}: signals: {error}")))?;
    Ok(Waitpoint {
        id,
        namespace: NamespaceId(found.get(3)?),
        execution: ExecutionId(row::uuid(found, 0)?),
        number: found.get(1)?,
        name: row::name(found, 4)?,
        source: row::name(found, 5)?,
        key: TokenKeyId(found.get(6)?),
        created_at: row::time(found, 7)?,
        expires_at: row::optional_time(found, 8)?,
        state: WaitpointState::from_codes(state, signal, effect).ok_or_else(unknown)?,
        signals,
        prompt: found.get(13)?,
        issue: found.get(14)?,
    })
}

/// Loads the records that `needs` names. An unreadable record makes its execution unreadable, and no other.
pub fn load(connection: &Connection, needs: &Needs, rows: &mut Rows) -> rusqlite::Result<()> {
    for id in &needs.queries.records {
        let signals = readable(*id, signals(connection, *id, 0, u32::MAX), rows)?;
        let steps = readable(*id, steps(connection, *id, 0, u32::MAX), rows)?;
        if let (Some(signals), Some(steps)) = (signals, steps) {
            rows.found.records.push(*id);
            rows.signals.extend(signals);
            rows.steps.extend(steps);
        }
    }
    for id in &needs.queries.untaken {
        let found = all(connection, &sql::SIGNALS_LIST_UNTAKEN, [id.0.as_bytes()], signal);
        let found = readable(*id, found, rows)?;
        rows.signals.extend(found.into_iter().flatten());
    }
    for (id, key) in &needs.queries.signal_keys {
        let found = all(connection, &sql::SIGNALS_FIND, params![id.0.as_bytes(), key.as_str()], signal);
        let found = readable(*id, found, rows)?;
        rows.signals.extend(found.into_iter().flatten());
    }
    for (id, name) in needs.steps.keys() {
        let found = all(connection, &sql::STEPS_FIND, params![id.0.as_bytes(), name.as_str()], step);
        let found = readable(*id, found, rows)?;
        rows.steps.extend(found.into_iter().flatten());
    }
    for id in &needs.queries.waitpoints {
        let found = readable(*id, waitpoints(connection, *id, 0, u32::MAX), rows)?;
        rows.waitpoints.extend(found.into_iter().flatten());
    }
    if needs.queries.token_keys {
        rows.token_keys.extend(token_keys(connection)?);
    }
    Ok(())
}

/// Returns the records of an execution. If they are unreadable, adds the execution to the unreadable ones and returns
/// none.
fn readable<T>(
    of: ExecutionId,
    read: rusqlite::Result<Vec<T>>,
    rows: &mut Rows,
) -> rusqlite::Result<Option<Vec<T>>> {
    match read {
        Err(error) if is_not_understood(&error) => {
            rows.unreadable.push((of, error.to_string()));
            Ok(None)
        }
        read => read.map(Some),
    }
}

/// Deletes the records of an execution.
pub fn delete(connection: &Connection, id: ExecutionId) -> rusqlite::Result<()> {
    for statement in [&sql::SIGNALS_DELETE, &sql::STEPS_DELETE, &sql::WAITPOINTS_DELETE] {
        connection.prepare_cached(statement)?.execute([id.0.as_bytes()])?;
    }
    Ok(())
}

/// Saves records and token keys.
pub fn save(connection: &Connection, changes: &Changes) -> rusqlite::Result<()> {
    changes.signals.iter().try_for_each(|signal| add_signal(connection, signal))?;
    for (execution, number, by) in &changes.unread.signals_taken {
        let taken = params![execution.0.as_bytes(), number, by];
        connection.prepare_cached(&sql::SIGNALS_TAKE)?.execute(taken)?;
    }
    changes.steps.iter().try_for_each(|step| write_step(connection, step))?;
    changes.waitpoints.iter().try_for_each(|waitpoint| write_waitpoint(connection, waitpoint))?;
    for key in &changes.token_keys.written {
        connection.prepare_cached(&sql::TOKEN_KEYS_UPSERT)?.execute(params![
            key.id.0,
            key.fingerprint,
            key.created_at.micros(),
            key.retires_at.map(Timestamp::micros),
        ])?;
    }
    for id in &changes.token_keys.removed {
        connection.prepare_cached(&sql::TOKEN_KEYS_DELETE)?.execute([id.0])?;
    }
    Ok(())
}

fn add_signal(connection: &Connection, signal: &Signal) -> rusqlite::Result<()> {
    let waitpoint = signal.waitpoint.as_ref();
    connection.prepare_cached(&sql::SIGNALS_INSERT)?.execute(params![
        signal.execution.0.as_bytes(),
        signal.number,
        signal.name.as_str(),
        signal.source.as_str(),
        waitpoint.map(|(id, _)| id.0.as_bytes()),
        waitpoint.map(|(_, name)| name.as_str()),
        signal.key.as_ref().map(|key| key.as_str()),
        signal.digest as i64,
        signal.at.micros(),
        signal.effect.code(),
        signal.taken,
        signal.payload.as_deref(),
    ])?;
    Ok(())
}

fn write_step(connection: &Connection, step: &Step) -> rusqlite::Result<()> {
    connection.prepare_cached(&sql::STEPS_UPSERT)?.execute(params![
        step.execution.0.as_bytes(),
        step.number,
        step.name.as_str(),
        step.kind.code(),
        step.attempt,
        step.started_at.micros(),
        step.recorded_at.map(Timestamp::micros),
        step.result.as_deref(),
    ])?;
    Ok(())
}

fn write_waitpoint(connection: &Connection, waitpoint: &Waitpoint) -> rusqlite::Result<()> {
    let (state, signal, effect) = waitpoint.state.codes();
    connection.prepare_cached(&sql::WAITPOINTS_UPSERT)?.execute(params![
        waitpoint.execution.0.as_bytes(),
        waitpoint.number,
        waitpoint.id.0.as_bytes(),
        waitpoint.namespace.0,
        waitpoint.name.as_str(),
        waitpoint.source.as_str(),
        waitpoint.key.0,
        waitpoint.created_at.micros(),
        waitpoint.expires_at.map(Timestamp::micros),
        state,
        signal,
        effect,
        waitpoint.encode_signals(),
        waitpoint.prompt,
        waitpoint.issue,
    ])?;
    Ok(())
}
