//! Gates, the executions that they hold, and the ledger of usage.

use crate::SqliteStore;
use crate::connection::failure::{is_not_understood, not_understood};
use crate::kinds::{Kind, Saving, due, executions};
use crate::row;
use crate::sql::{self, columns, statements};
use async_trait::async_trait;
use rusqlite::types::Type;
use rusqlite::{Connection, Row, params};
use selvedge_core::gate::{Config, Gate, GateId, GateKind, GateName, GateState, LedgerEntry};
use selvedge_core::rows::HeldBy;
use selvedge_core::{Changes, ExecutionId, Name, NamespaceId, Needs, Rows, Timed, Timestamp};
use selvedge_store::{Error, GateReads, ReconcilerScope, merge};
use uuid::Uuid;

pub(crate) const KIND: Kind = Kind {
    columns: &[("gate", gate::LIST), ("ledger", ledger::LIST)],
    statements: STATEMENTS,
    load,
    save,
    due: Some((Gate::KIND, &GATES_FIND_NEXT_DUE)),
    delete_rest: &[&LEDGER_DELETE_REST, &GATES_DELETE_REST],
};

statements! {
    EXECUTIONS_COUNT_HELD = "executions/count_held";
    EXECUTIONS_FIND_HELD = "executions/find_held";
    GATES_DELETE = "gates/delete";
    GATES_DELETE_PARTS = "gates/delete_parts";
    GATES_DELETE_REST = "gates/delete_rest";
    GATES_FIND_NEXT_DUE = "gates/find_next_due";
    GATES_GIVE_BACK = "gates/give_back";
    GATES_HAS_LANES = "gates/has_lanes";
    GATES_INSERT = "gates/insert";
    GATES_LIST = "gates/list";
    GATES_LIST_DUE = "gates/list_due";
    GATES_LIST_PARTS = "gates/list_parts";
    GATES_READ = "gates/read";
    GATES_UPDATE = "gates/update";
    LEDGER_DELETE = "ledger/delete";
    LEDGER_DELETE_PARTS = "ledger/delete_parts";
    LEDGER_DELETE_REST = "ledger/delete_rest";
    LEDGER_INSERT = "ledger/insert";
    LEDGER_LIST = "ledger/list";
    LEDGER_LIST_BY_EXECUTION = "ledger/list_by_execution";
    LEDGER_READ = "ledger/read";
    LEDGER_UPSERT = "ledger/upsert";
}

columns! {
    gate of gate: &Gate {
        id = gate.id().0,
        namespace = gate.name.namespace.0,
        kind = gate.name.kind.code(),
        name = gate.name.name.as_str(),
        part = gate.name.part.as_ref().map(Name::as_str),
        version = gate.version,
        config = gate.config.as_ref().map(row::to_json).transpose()?,
        active = gate.active,
        state = (gate.state != GateState::default()).then(|| row::to_json(&gate.state)).transpose()?,
        due_at = gate.due_at.map(Timestamp::micros),
    }
}

columns! {
    ledger of entry: &LedgerEntry {
        gate = entry.gate.0,
        period = entry.period,
        execution = entry.execution.as_ref().map(|id| id.0.as_bytes()),
        spent = row::to_json(&entry.spent)?,
    }
}

fn decode(found: &Row<'_>) -> rusqlite::Result<Gate> {
    let id: i64 = found.get(gate::AT.id)?;
    decode_readable(found).map_err(|error| match is_not_understood(&error) {
        true => not_understood(&format!("gate {id} cannot be read: {error}")),
        false => error,
    })
}

fn decode_readable(found: &Row<'_>) -> rusqlite::Result<Gate> {
    use gate::AT;
    let kind = found.get(AT.kind)?;
    let unknown = || not_understood(&format!("unknown kind {kind}"));
    let is_null = |column| Ok::<_, rusqlite::Error>(found.get_ref(column)?.data_type() == Type::Null);
    Ok(Gate {
        name: GateName {
            namespace: NamespaceId(found.get(AT.namespace)?),
            kind: GateKind::from_code(kind).ok_or_else(unknown)?,
            name: row::name(found, AT.name)?,
            part: row::optional_name(found, AT.part)?,
        },
        version: found.get(AT.version)?,
        config: match is_null(AT.config)? {
            true => None,
            false => Some(row::json::<Config>(found, AT.config, "config")?),
        },
        active: found.get(AT.active)?,
        state: match is_null(AT.state)? {
            true => GateState::default(),
            false => row::json(found, AT.state, "state")?,
        },
        due_at: row::optional_time(found, AT.due_at)?,
    })
}

fn decode_entry(found: &Row<'_>) -> rusqlite::Result<LedgerEntry> {
    use ledger::AT;
    Ok(LedgerEntry {
        gate: GateId(found.get(AT.gate)?),
        period: found.get(AT.period)?,
        execution: row::optional_uuid(found, AT.execution)?.map(ExecutionId),
        spent: row::json(found, AT.spent, "spent")?,
    })
}

fn fetch<'a>(
    connection: &Connection,
    ids: impl IntoIterator<Item = &'a GateId>,
) -> rusqlite::Result<Vec<Gate>> {
    let gates = ids.into_iter().map(|id| sql::row(connection, &GATES_READ, [id.0], decode));
    gates.filter_map(Result::transpose).collect()
}

/// Returns the usage of an execution.
fn ledger_of(connection: &Connection, execution: ExecutionId) -> rusqlite::Result<Vec<LedgerEntry>> {
    sql::rows(connection, &LEDGER_LIST_BY_EXECUTION, [execution.0.as_bytes()], decode_entry)
}

/// Reports whether a lane is configured.
pub fn has_lanes(connection: &Connection) -> rusqlite::Result<bool> {
    connection.prepare_cached(&GATES_HAS_LANES)?.query_row([GateKind::Lane.code()], |found| found.get(0))
}

fn load(connection: &Connection, needs: &Needs, rows: &mut Rows) -> rusqlite::Result<()> {
    for ids in [&needs.lanes, &needs.gates, &needs.parts] {
        rows.gates.extend(fetch(connection, ids.keys())?);
    }
    needs.queries.held.iter().try_for_each(|asked| load_held(connection, *asked, rows))
}

/// Loads the first executions that a gate holds, in claim order. Unreadable rows are skipped and replaced by the next
/// ones.
fn load_held(connection: &Connection, asked: HeldBy, rows: &mut Rows) -> rusqlite::Result<()> {
    let mut find = connection.prepare_cached(&EXECUTIONS_FIND_HELD)?;
    let mut read = connection.prepare_cached(&executions::EXECUTIONS_READ)?;
    let (rank, id) = asked.after.unwrap_or((i64::MIN, ExecutionId(Uuid::nil())));
    let mut range = find.query(params![asked.gate.0, rank, id.0.as_bytes()])?;
    let mut held = Vec::new();
    while held.len() < asked.limit as usize {
        let Some(found) = range.next()? else { break };
        let id = ExecutionId(row::uuid(found, 0)?);
        if executions::load_one(&mut read, id, rows)? {
            held.push(id);
        }
    }
    rows.found.held.push((asked, held));
    Ok(())
}

fn save(connection: &Connection, changes: &Changes, saving: &mut Saving) -> rusqlite::Result<Option<String>> {
    for (id, version) in &changes.gates.deleted {
        if sql::execute(connection, &GATES_DELETE, params![id.0, version])? == 0 {
            return Ok(Some(format!("gate {} has moved", id.0)));
        }
    }
    for (row, expected) in changes.gates.versioned() {
        let (written, failed) = match expected {
            None => (gate::write(connection, &GATES_INSERT, row, &[])?, "exists"),
            Some(expected) => (update(connection, row, expected)?, "has moved"),
        };
        if written == 0 {
            return Ok(Some(format!("{} {failed}", row.name)));
        }
    }
    changes.ledger.iter().try_for_each(|entry| enter(connection, entry))?;
    for (id, _) in &changes.executions.deleted {
        fold(connection, *id)?;
    }
    let flows = changes.flows.deleted.iter().map(|(id, _)| id.0);
    for id in flows.chain(changes.executions.deleted.iter().map(|(id, _)| id.0)) {
        let part = id.to_string();
        sql::execute(connection, &LEDGER_DELETE_PARTS, [&part])?;
        sql::execute(connection, &GATES_DELETE_PARTS, [&part])?;
    }
    for (id, count) in &changes.unread.slots_freed {
        sql::execute(connection, &GATES_GIVE_BACK, params![id.0, count, saving.now.micros()])?;
    }
    Ok(None)
}

fn update(connection: &Connection, row: &Gate, expected: u32) -> rusqlite::Result<u64> {
    gate::with(row, |values| {
        let new = &values[gate::AT.version..];
        sql::execute(connection, &GATES_UPDATE, sql::joined(&[&[&row.id().0, &expected], new]))
    })
}

/// Adds to the ledger entry of the same budget, period and execution.
fn enter(connection: &Connection, entry: &LedgerEntry) -> rusqlite::Result<()> {
    // Most entries are the first of their execution.
    if ledger::write(connection, &LEDGER_INSERT, entry, &[])? == 1 {
        return Ok(());
    }
    let execution = entry.execution.as_ref().map(|id| id.0.as_bytes());
    let parameters = params![entry.gate.0, entry.period, execution];
    let spent = |found: &Row<'_>| row::json(found, 0, "spent");
    let spent = merge::spent(sql::row(connection, &LEDGER_READ, parameters, spent)?, &entry.spent);
    ledger::write(connection, &LEDGER_UPSERT, &LedgerEntry { spent, ..entry.clone() }, &[]).map(drop)
}

/// Moves the usage of a deleted execution to the entries without an execution, so that it stays counted.
fn fold(connection: &Connection, id: ExecutionId) -> rusqlite::Result<()> {
    let entries = ledger_of(connection, id)?;
    if entries.is_empty() {
        return Ok(());
    }
    sql::execute(connection, &LEDGER_DELETE, [id.0.as_bytes()])?;
    let by_none = |entry| LedgerEntry { execution: None, ..entry };
    entries.into_iter().map(by_none).try_for_each(|entry| enter(connection, &entry))
}

#[async_trait]
impl GateReads for SqliteStore {
    async fn fetch_gates(&self, ids: &[GateId]) -> Result<Vec<Gate>, Error> {
        let ids = ids.to_vec();
        self.read("fetch_gates", move |connection| fetch(connection, &ids)).await
    }

    async fn list_gates(
        &self,
        namespace: NamespaceId,
        kind: GateKind,
        after: Option<&Name>,
        limit: u32,
    ) -> Result<Vec<Gate>, Error> {
        let after = after.map_or(String::new(), Name::to_string);
        self.read("list_gates", move |connection| {
            sql::rows(connection, &GATES_LIST, params![namespace.0, kind.code(), after, limit], decode)
        })
        .await
    }

    /// Leaves unreadable gates out, so that the executions of other gates do not wait for them.
    async fn due_gates(
        &self,
        scope: &ReconcilerScope,
        after: Option<(Timestamp, GateId)>,
        limit: u32,
    ) -> Result<Vec<Gate>, Error> {
        let (now, only) = (self.clock.now().micros(), due::namespace(scope));
        let (at, id) = after.map_or((-1, i64::MIN), |(at, id)| (at.micros(), id.0));
        self.read("due_gates", move |connection| {
            sql::readable_rows(connection, &GATES_LIST_DUE, params![now, at, id, only], limit, decode)
        })
        .await
    }

    async fn parts_of(&self, gate: &GateName, limit: u32) -> Result<Vec<Gate>, Error> {
        let of = gate.clone();
        self.read("parts_of", move |connection| {
            let parameters = params![of.namespace.0, of.kind.code(), of.name.as_str(), limit];
            sql::rows(connection, &GATES_LIST_PARTS, parameters, decode)
        })
        .await
    }

    async fn ledger(&self, gate: GateId, period: u32) -> Result<Vec<LedgerEntry>, Error> {
        self.read("ledger", move |connection| {
            sql::rows(connection, &LEDGER_LIST, params![gate.0, period], decode_entry)
        })
        .await
    }

    async fn ledger_of(&self, execution: ExecutionId) -> Result<Vec<LedgerEntry>, Error> {
        self.read("ledger_of", move |connection| ledger_of(connection, execution)).await
    }

    async fn held_by(&self, gate: GateId, bound: u64) -> Result<u64, Error> {
        let bound = i64::try_from(bound).unwrap_or(i64::MAX);
        self.read("held_by", move |connection| {
            sql::count(connection, &EXECUTIONS_COUNT_HELD, [gate.0, bound])
        })
        .await
    }
}
