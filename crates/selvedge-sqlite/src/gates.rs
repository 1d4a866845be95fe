//! Gates, the executions that they hold, and the ledger of usage: read, loaded and saved.

use crate::connection::failure::{is_not_understood, not_understood};
use crate::read::all;
use crate::{row, sql};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};
use selvedge_core::gate::{Amounts, Config, Gate, GateId, GateKind, GateName, GateState, LedgerEntry, add};
use selvedge_core::rows::HeldBy;
use selvedge_core::{Changes, ExecutionId, Name, NamespaceId, Needs, Rows, Timestamp};
use selvedge_store::ReconcilerScope;
use uuid::Uuid;

/// Returns gates by id, in the order of `ids`. Ids that do not exist are left out.
pub fn fetch<'a>(
    connection: &Connection,
    ids: impl IntoIterator<Item = &'a GateId>,
) -> rusqlite::Result<Vec<Gate>> {
    let mut found = Vec::new();
    for id in ids {
        found.extend(connection.prepare_cached(&sql::GATES_READ)?.query_row([id.0], gate).optional()?);
    }
    Ok(found)
}

/// Returns a page of the configured gates of a kind in a namespace, by name.
pub fn list(
    connection: &Connection,
    namespace: NamespaceId,
    kind: GateKind,
    after: Option<&Name>,
    limit: u32,
) -> rusqlite::Result<Vec<Gate>> {
    let after = after.map_or("", Name::as_str);
    all(connection, &sql::GATES_LIST, params![namespace.0, kind.code(), after, limit], gate)
}

/// Returns the parts of a gate, by id.
pub fn parts_of(connection: &Connection, of: &GateName, limit: u32) -> rusqlite::Result<Vec<Gate>> {
    let parameters = params![of.namespace.0, of.kind.code(), of.name.as_str(), limit];
    all(connection, &sql::GATES_LIST_PARTS, parameters, gate)
}

/// Returns a page of the due gates, earliest first. Unreadable gates are left out and replaced by the next ones, so that
/// the executions of other gates do not wait for them.
pub fn due(
    connection: &Connection,
    now: Timestamp,
    scope: &ReconcilerScope,
    after: Option<(Timestamp, GateId)>,
    limit: u32,
) -> rusqlite::Result<Vec<Gate>> {
    let (at, id) = after.map_or((-1, i64::MIN), |(at, id)| (at.micros(), id.0));
    let mut statement = connection.prepare_cached(&sql::GATES_LIST_DUE)?;
    let mut found = statement.query(params![now.micros(), at, id, crate::read::due::namespace(scope)])?;
    let mut due = Vec::new();
    while due.len() < limit as usize {
        let Some(row) = found.next()? else { break };
        match gate(row) {
            Ok(gate) => due.push(gate),
            Err(error) if is_not_understood(&error) => {
                tracing::error!(%error, "left out of the gates that are to be looked at");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(due)
}

/// Returns the earliest due time of a gate.
pub fn next_due(connection: &Connection) -> rusqlite::Result<Option<Timestamp>> {
    connection.prepare_cached(&sql::GATES_FIND_NEXT_DUE)?.query_row((), |found| row::optional_time(found, 0))
}

/// Reports whether a lane is configured.
pub fn has_lanes(connection: &Connection) -> rusqlite::Result<bool> {
    connection.prepare_cached(&sql::GATES_HAS_LANES)?.query_row([GateKind::Lane.code()], |found| found.get(0))
}

/// Returns the usage of a budget, or of a part of it, in a period.
pub fn ledger(connection: &Connection, gate: GateId, period: u32) -> rusqlite::Result<Vec<LedgerEntry>> {
    all(connection, &sql::LEDGER_LIST, params![gate.0, period], entry)
}

/// Returns the usage of an execution.
pub fn ledger_of(connection: &Connection, execution: ExecutionId) -> rusqlite::Result<Vec<LedgerEntry>> {
    all(connection, &sql::LEDGER_LIST_BY_EXECUTION, [execution.0.as_bytes()], entry)
}

/// Counts the executions that a gate holds, up to `bound`.
pub fn held_by(connection: &Connection, gate: GateId, bound: u64) -> rusqlite::Result<u64> {
    let bound = i64::try_from(bound).unwrap_or(i64::MAX);
    connection
        .prepare_cached(&sql::EXECUTIONS_COUNT_HELD)?
        .query_row([gate.0, bound], |found| found.get::<_, i64>(0))
        .map(|count| count as u64)
}

/// Reads the gate in a row of `{gate}`.
fn gate(found: &Row<'_>) -> rusqlite::Result<Gate> {
    let id: i64 = found.get(0)?;
    readable_gate(found).map_err(|error| match is_not_understood(&error) {
        true => not_understood(&format!("gate {id} cannot be read: {error}")),
        false => error,
    })
}

fn readable_gate(found: &Row<'_>) -> rusqlite::Result<Gate> {
    let kind = found.get(2)?;
    let unknown = || not_understood(&format!("unknown kind {kind}"));
    let is_null = |column| Ok::<_, rusqlite::Error>(found.get_ref(column)?.data_type() == Type::Null);
    Ok(Gate {
        name: GateName {
            namespace: NamespaceId(found.get(1)?),
            kind: GateKind::from_code(kind).ok_or_else(unknown)?,
            name: row::name(found, 3)?,
            part: row::optional_name(found, 4)?,
        },
        version: found.get(5)?,
        config: match is_null(6)? {
            true => None,
            false => Some(row::json::<Config>(found, 6, "config")?),
        },
        active: found.get(7)?,
        state: match is_null(8)? {
            true => GateState::default(),
            false => row::json(found, 8, "state")?,
        },
        due_at: row::optional_time(found, 9)?,
    })
}

/// Reads the entry in a row of `{ledger}`.
fn entry(found: &Row<'_>) -> rusqlite::Result<LedgerEntry> {
    Ok(LedgerEntry {
        gate: GateId(found.get(0)?),
        period: found.get(1)?,
        execution: row::optional_uuid(found, 2)?.map(ExecutionId),
        spent: row::json(found, 3, "spent")?,
    })
}

/// Loads the gates that `needs` names, and the executions that they hold.
pub fn load(connection: &Connection, needs: &Needs, rows: &mut Rows) -> rusqlite::Result<()> {
    for ids in [&needs.lanes, &needs.gates, &needs.parts] {
        rows.gates.extend(fetch(connection, ids.keys())?);
    }
    needs.queries.held.iter().try_for_each(|asked| held(connection, *asked, rows))
}

/// Loads the first executions that a gate holds, in claim order. Unreadable rows are skipped and replaced by the next
/// ones.
fn held(connection: &Connection, asked: HeldBy, rows: &mut Rows) -> rusqlite::Result<()> {
    let mut find = connection.prepare_cached(&sql::EXECUTIONS_FIND_HELD)?;
    let mut read = connection.prepare_cached(&sql::EXECUTIONS_READ)?;
    let (rank, id) = asked.after.unwrap_or((i64::MIN, ExecutionId(Uuid::nil())));
    let mut range = find.query(params![asked.gate.0, rank, id.0.as_bytes()])?;
    let mut held = Vec::new();
    while held.len() < asked.limit as usize {
        let Some(found) = range.next()? else { break };
        let id = ExecutionId(row::uuid(found, 0)?);
        match read.query_row([id.0.as_bytes()], row::execution)? {
            Ok(execution) => {
                held.push(id);
                rows.executions.push(execution);
            }
            Err(unreadable) => rows.unreadable.push(unreadable),
        }
    }
    rows.found.held.push((asked, held));
    Ok(())
}

/// Saves gates and the ledger. Returns the first guard that failed.
pub fn save(connection: &Connection, changes: &Changes, now: Timestamp) -> rusqlite::Result<Option<String>> {
    for (id, version) in &changes.gates.deleted {
        if connection.prepare_cached(&sql::GATES_DELETE)?.execute(params![id.0, version])? == 0 {
            return Ok(Some(format!("gate {} has moved", id.0)));
        }
    }
    for (gate, expected) in changes.gates.versioned() {
        if !write(connection, gate, expected)? {
            let moved = if expected.is_some() { "has moved" } else { "exists" };
            return Ok(Some(format!("{} {moved}", gate.name)));
        }
    }
    for entry in &changes.ledger {
        enter(connection, entry)?;
    }
    for (id, _) in &changes.executions.deleted {
        fold(connection, *id)?;
    }
    let flows = changes.flows.deleted.iter().map(|(id, _)| id.0);
    for id in flows.chain(changes.executions.deleted.iter().map(|(id, _)| id.0)) {
        let part = id.to_string();
        connection.prepare_cached(&sql::LEDGER_DELETE_PARTS)?.execute([&part])?;
        connection.prepare_cached(&sql::GATES_DELETE_PARTS)?.execute([&part])?;
    }
    for (id, count) in &changes.unread.slots_freed {
        connection.prepare_cached(&sql::GATES_GIVE_BACK)?.execute(params![id.0, count, now.micros()])?;
    }
    Ok(None)
}

/// Writes a gate. Returns false if it exists, or does not have the expected version.
fn write(connection: &Connection, gate: &Gate, expected: Option<u32>) -> rusqlite::Result<bool> {
    let config = gate.config.as_ref().map(row::to_json).transpose()?;
    let state = (gate.state != GateState::default()).then(|| row::to_json(&gate.state)).transpose()?;
    let (id, due_at) = (gate.id().0, gate.due_at.map(Timestamp::micros));
    let written = match expected {
        None => connection.prepare_cached(&sql::GATES_INSERT)?.execute(params![
            id,
            gate.name.namespace.0,
            gate.name.kind.code(),
            gate.name.name.as_str(),
            gate.name.part.as_ref().map(Name::as_str),
            gate.version,
            config,
            gate.active,
            state,
            due_at,
        ])?,
        Some(version) => connection.prepare_cached(&sql::GATES_UPDATE)?.execute(params![
            id,
            version,
            gate.version,
            config,
            gate.active,
            state,
            due_at,
        ])?,
    };
    Ok(written > 0)
}

/// Adds to the ledger entry of the same budget, period and execution.
fn enter(connection: &Connection, entry: &LedgerEntry) -> rusqlite::Result<()> {
    let execution = entry.execution.as_ref().map(|id| id.0.as_bytes());
    // Most entries are the first of their execution.
    let written = connection.prepare_cached(&sql::LEDGER_INSERT)?.execute(params![
        entry.gate.0,
        entry.period,
        execution,
        row::to_json(&entry.spent)?,
    ])?;
    if written == 1 {
        return Ok(());
    }
    let before = connection
        .prepare_cached(&sql::LEDGER_READ)?
        .query_row(params![entry.gate.0, entry.period, execution], |found| row::json(found, 0, "spent"))
        .optional()?;
    let mut spent: Amounts = before.unwrap_or_default();
    add(&mut spent, &entry.spent);
    connection.prepare_cached(&sql::LEDGER_UPSERT)?.execute(params![
        entry.gate.0,
        entry.period,
        execution,
        row::to_json(&spent)?,
    ])?;
    Ok(())
}

/// Moves the usage of a deleted execution to the entries without an execution, so that it stays counted.
fn fold(connection: &Connection, id: ExecutionId) -> rusqlite::Result<()> {
    let entries = ledger_of(connection, id)?;
    if entries.is_empty() {
        return Ok(());
    }
    connection.prepare_cached(&sql::LEDGER_DELETE)?.execute([id.0.as_bytes()])?;
    let by_none = |entry| LedgerEntry { execution: None, ..entry };
    entries.into_iter().map(by_none).try_for_each(|entry| enter(connection, &entry))
}
