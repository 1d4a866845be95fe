//! Gates, the executions that they hold, and the ledger of usage: read, loaded and saved.
//!
//! A transaction that changes a gate locks it before it reads the executions that the gate holds, so it sees the
//! executions that earlier transactions made the gate hold. It never waits for a held execution: one that another
//! transaction has locked is named without its row, so that the rules know that there are more.

use crate::connection::pipeline::{Parameters, Pipeline};
use crate::connection::{Connection, StatementError};
use crate::load::gather_execution;
use crate::row::Micros;
use crate::save::{Saving, column};
use crate::{PostgresStore, sql};
use selvedge_core::gate::{Amounts, Gate, GateId, GateKind, GateName, GateState, LedgerEntry, add};
use selvedge_core::rows::{Changes, HeldBy};
use selvedge_core::{ExecutionId, Name, NamespaceId, Rows, Timestamp};
use selvedge_store::{Error, ReconcilerScope};
use std::collections::{BTreeMap, HashSet};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

/// The number of further searches behind unreadable held executions, and the most rows that one of them reads.
const LOOKS: u32 = 16;
const LOOK_LIMIT: u32 = 500;

impl PostgresStore {
    pub(crate) async fn read_gates(&self, ids: &[GateId]) -> Result<Vec<Gate>, Error> {
        self.query(&sql::GATES_READ, &[&numbers(ids)]).await?.iter().map(gate).collect()
    }

    pub(crate) async fn find_gates(
        &self,
        namespace: NamespaceId,
        kind: GateKind,
        after: Option<&Name>,
        limit: u32,
    ) -> Result<Vec<Gate>, Error> {
        let (mut listed, mut after) = (Vec::new(), after.map_or_else(String::new, Name::to_string));
        loop {
            let left = limit - listed.len() as u32;
            let parameters: [&(dyn ToSql + Sync); 4] = [&namespace.0, &kind.code(), &after, &i64::from(left)];
            let found = self.query(&sql::GATES_LIST, &parameters).await?;
            listed.extend(readable(&found));
            // A page that is short only because of unreadable rows is filled with the rows behind them.
            match found.last() {
                Some(last) if found.len() as u32 == left && (listed.len() as u32) < limit => {
                    after = last.get(3);
                }
                _ => return Ok(listed),
            }
        }
    }

    pub(crate) async fn find_parts(&self, of: &GateName, limit: u32) -> Result<Vec<Gate>, Error> {
        let parameters: [&(dyn ToSql + Sync); 4] =
            [&of.namespace.0, &of.kind.code(), &of.name.as_str(), &i64::from(limit)];
        Ok(readable(&self.query(&sql::GATES_LIST_PARTS, &parameters).await?).collect())
    }

    /// Unreadable gates are left out and replaced by the next ones, so that the executions of other gates do not wait for
    /// them.
    pub(crate) async fn find_due_gates(
        &self,
        scope: &ReconcilerScope,
        after: Option<(Timestamp, GateId)>,
        limit: u32,
    ) -> Result<Vec<Gate>, Error> {
        let namespace = scope.namespace.map(|namespace| namespace.0);
        let (mut due, mut place) = (Vec::new(), after.map(|(at, id)| (Micros::from(at), id.0)));
        loop {
            let left = limit - due.len() as u32;
            let (at, id) = place.unwrap_or((Micros(0), i64::MIN));
            let parameters: [&(dyn ToSql + Sync); 4] = [&at, &id, &i64::from(left), &namespace];
            let found = self.query_in_background(&sql::GATES_LIST_DUE, &parameters).await?;
            due.extend(readable(&found));
            match found.last() {
                Some(last) if found.len() as u32 == left && (due.len() as u32) < limit => {
                    place = Some((last.get(9), last.get(0)));
                }
                _ => return Ok(due),
            }
        }
    }

    pub(crate) async fn read_ledger(&self, gate: GateId, period: u32) -> Result<Vec<LedgerEntry>, Error> {
        let Ok(period) = i32::try_from(period) else { return Ok(Vec::new()) };
        self.query(&sql::LEDGER_LIST, &[&gate.0, &period]).await?.iter().map(entry).collect()
    }

    pub(crate) async fn read_ledger_of(&self, execution: ExecutionId) -> Result<Vec<LedgerEntry>, Error> {
        self.query(&sql::LEDGER_LIST_BY_EXECUTION, &[&execution.0]).await?.iter().map(entry).collect()
    }

    pub(crate) async fn count_held(&self, gate: GateId, bound: u64) -> Result<u64, Error> {
        let bound = i64::try_from(bound).unwrap_or(i64::MAX);
        let rows = self.query(&sql::EXECUTIONS_COUNT_HELD, &[&gate.0, &bound]).await?;
        Ok(rows.first().map_or(0, |row| row.get::<_, i64>(0) as u64))
    }
}

fn numbers(ids: &[GateId]) -> Vec<i64> {
    ids.iter().map(|id| id.0).collect()
}

/// Reads gates. An unreadable row must not hide the others.
fn readable(found: &[Row]) -> impl Iterator<Item = Gate> {
    found.iter().filter_map(|row| match gate(row) {
        Ok(gate) => Some(gate),
        Err(error) => {
            tracing::error!(%error, "left out of a list");
            None
        }
    })
}

/// Reads the gate in a row of `{gate}`.
fn gate(row: &Row) -> Result<Gate, Error> {
    let id: i64 = row.get(0);
    let wrong = |detail: String| Error::Failed(format!("gate {id} cannot be read: {detail}"));
    let json = |column: &str, error: serde_json::Error| wrong(format!("column {column}: {error}"));
    let code: i16 = row.get(2);
    let config = row.get::<_, Option<&str>>(6).map(serde_json::from_str).transpose();
    let state = row.get::<_, Option<&str>>(8).map(serde_json::from_str).transpose();
    Ok(Gate {
        name: GateName {
            namespace: NamespaceId(row.get(1)),
            kind: GateKind::from_code(code).ok_or_else(|| wrong(format!("unknown kind {code}")))?,
            name: Name::trusted(row.get(3)),
            part: row.get::<_, Option<&str>>(4).map(Name::trusted),
        },
        version: row.get::<_, i32>(5) as u32,
        config: config.map_err(|error| json("config", error))?,
        active: row.get::<_, i32>(7) as u32,
        state: state.map_err(|error| json("state", error))?.unwrap_or_default(),
        due_at: row.get::<_, Option<Micros>>(9).map(Micros::time),
    })
}

/// Reads the entry in a row of `ledger/list` or `ledger/list_by_execution`.
fn entry(row: &Row) -> Result<LedgerEntry, Error> {
    let (gate, period): (i64, i32) = (row.get(0), row.get(1));
    let wrong = |error| Error::Failed(format!("the ledger of gate {gate} cannot be read: {error}"));
    Ok(LedgerEntry {
        gate: GateId(gate),
        period: period as u32,
        execution: row.get::<_, Option<Uuid>>(2).map(ExecutionId),
        spent: serde_json::from_str(row.get(3)).map_err(wrong)?,
    })
}

/// Returns the parameters of statements that take gate ids.
pub fn ids(ids: &[GateId]) -> Parameters<'static> {
    vec![Box::new(numbers(ids))]
}

/// Adds gates to the rows.
pub fn gather(answer: &[Row], rows: &mut Rows) -> Result<(), Error> {
    for row in answer {
        rows.gates.push(gate(row)?);
    }
    Ok(())
}

/// Returns the parameters of `executions/find_held`.
pub fn held(asked: &[HeldBy]) -> Parameters<'static> {
    vec![
        Box::new(asked.iter().map(|one| one.gate.0).collect::<Vec<i64>>()),
        Box::new(asked.iter().map(|one| i64::from(one.limit)).collect::<Vec<i64>>()),
        Box::new(asked.iter().map(|one| one.after.map_or(i64::MIN, |(rank, _)| rank)).collect::<Vec<i64>>()),
        Box::new(
            asked.iter().map(|one| one.after.map_or(Uuid::nil(), |(_, id)| id.0)).collect::<Vec<Uuid>>(),
        ),
    ]
}

/// Returns the parameters of `executions/lock_held`.
pub fn held_but(asked: &[HeldBy], passed: &[ExecutionId]) -> Parameters<'static> {
    let mut parameters = held(asked);
    parameters.push(Box::new(passed.iter().map(|id| id.0).collect::<Vec<Uuid>>()));
    parameters
}

/// Adds the held executions that could be locked to the rows. Returns the indexes of requests with an unreadable row.
pub fn gather_locked(answer: &[Row], asked: &[HeldBy], rows: &mut Rows) -> Vec<usize> {
    rows.found.held = asked.iter().map(|one| (*one, Vec::new())).collect();
    let places: Vec<usize> = (0..asked.len()).collect();
    gather_behind(answer, &places, rows)
}

/// Does the same for the requests at these indexes.
fn gather_behind(answer: &[Row], places: &[usize], rows: &mut Rows) -> Vec<usize> {
    let mut damaged = Vec::new();
    for row in answer {
        let place = places[row.get::<_, i64>(sql::EXECUTION_COLUMN_COUNT) as usize - 1];
        match gather_execution(row, rows) {
            Some(id) => rows.found.held[place].1.push(id),
            None => damaged.push(place),
        }
    }
    damaged
}

/// Adds the ids of held executions that another transaction has locked.
pub fn gather_found(answer: &[Row], rows: &mut Rows) {
    let here = rows.executions.iter().map(|row| row.id).chain(rows.unreadable.iter().map(|(id, _)| *id));
    let here: HashSet<ExecutionId> = here.collect();
    for row in answer {
        let (id, number): (Uuid, i64) = (row.get(0), row.get(1));
        if !here.contains(&ExecutionId(id)) {
            rows.found.held[number as usize - 1].1.push(ExecutionId(id));
        }
    }
}

/// Searches behind unreadable held executions, further each time, so that the executions behind them do not wait for
/// them.
pub async fn look_behind(
    client: &Connection,
    mut damaged: Vec<usize>,
    rows: &mut Rows,
) -> Result<(), StatementError> {
    for look in 0..LOOKS {
        damaged.sort_unstable();
        damaged.dedup();
        damaged.retain(|place| rows.found.held[*place].1.len() < rows.found.held[*place].0.limit as usize);
        if damaged.is_empty() {
            break;
        }
        let further = |place: &usize| {
            let asked = rows.found.held[*place].0;
            HeldBy { limit: asked.limit.max((asked.limit << look.min(8)).min(LOOK_LIMIT)), ..asked }
        };
        let asked: Vec<HeldBy> = damaged.iter().map(further).collect();
        let known = rows.found.held.iter().flat_map(|(_, held)| held);
        let passed: Vec<ExecutionId> =
            known.chain(rows.unreadable.iter().map(|(id, _)| id)).copied().collect();
        let mut pipeline = Pipeline::new(client);
        pipeline.add(&sql::EXECUTIONS_LOCK_HELD, held_but(&asked, &passed)).await?;
        pipeline.add(&sql::SERVER_NOW, vec![]).await?;
        let mut answers = pipeline.run().await?.into_iter();
        let behind = answers.next().transpose()?.unwrap_or_default();
        damaged = gather_behind(&behind, &damaged, rows);
        let now = answers.next().transpose()?.unwrap_or_default();
        rows.now = now.first().map_or(rows.now, |row| row.get::<_, Micros>(0).time());
    }
    Ok(())
}

/// The columns of a gate to write.
struct Written<'a> {
    gate: &'a Gate,
    limits: bool,
    config: Option<String>,
    state: Option<String>,
}

impl<'a> Written<'a> {
    fn of(gate: &'a Gate) -> Self {
        let config = gate.config.as_ref();
        Written {
            gate,
            limits: gate.active > 0 || config.is_some_and(|config| config.limits_starts()),
            config: config
                .map(|config| serde_json::to_string(config).expect("a configuration always serialises")),
            state: (gate.state != GateState::default())
                .then(|| serde_json::to_string(&gate.state).expect("the state of a gate always serialises")),
        }
    }
}

/// The key of a ledger entry, with the amounts to add as JSON.
type Added = ((GateId, u32, Option<ExecutionId>), String);

/// The changes of gates and the ledger, as columns.
pub struct GateRows<'a> {
    inserted: Vec<Written<'a>>,
    updated: Vec<(Written<'a>, u32)>,
    ledger: Vec<Added>,
    /// Deleted flows, and deleted executions that may have been without a flow, as the parts of budgets name them.
    gone: Vec<String>,
}

impl<'a> GateRows<'a> {
    /// Converts changes to columns.
    pub fn of(changes: &'a Changes) -> Self {
        // One statement must not write an entry twice.
        let mut ledger: BTreeMap<_, Amounts> = BTreeMap::new();
        for LedgerEntry { gate, period, execution, spent } in &changes.ledger {
            add(ledger.entry((*gate, *period, *execution)).or_default(), spent);
        }
        let text = |(name, spent)| (name, serde_json::to_string(&spent).expect("amounts always serialise"));
        let flows = changes.flows.deleted.iter().map(|(id, _)| id.0);
        GateRows {
            inserted: changes.gates.inserted.iter().map(Written::of).collect(),
            updated: changes
                .gates
                .updated
                .iter()
                .map(|(gate, expected)| (Written::of(gate), *expected))
                .collect(),
            ledger: ledger.into_iter().map(text).collect(),
            gone: flows
                .chain(changes.executions.deleted.iter().map(|(id, _)| id.0))
                .map(|id| id.to_string())
                .collect(),
        }
    }

    /// Adds all statements about gates and the ledger. Changed and deleted gates were locked when they were loaded.
    pub fn save(&'a self, changes: &'a Changes, saving: &mut Saving<'a>) {
        saving.rows(&changes.gates.deleted, &sql::GATES_DELETE, |gates| {
            vec![column(gates, |(id, _)| id.0), column(gates, |(_, version)| *version as i32)]
        });
        saving.rows(&self.updated, &sql::GATES_UPDATE, update);
        saving.rows(&self.inserted, &sql::GATES_INSERT, insert);
        saving.rows(&changes.unread.slots_freed, &sql::GATES_GIVE_BACK, |freed| {
            vec![column(freed, |(id, _)| id.0), column(freed, |(_, count)| *count as i32)]
        });
        saving.rows(&self.ledger, &sql::LEDGER_ADD, |added| {
            vec![
                column(added, |((gate, ..), _)| gate.0),
                column(added, |((_, period, _), _)| *period as i32),
                column(added, |((.., execution), _)| execution.map(|id| id.0)),
                column(added, |(_, spent)| spent.as_str()),
            ]
        });
        saving
            .rows(&changes.executions.deleted, &sql::LEDGER_FOLD, |rows| vec![column(rows, |(id, _)| id.0)]);
        saving.rows(&self.gone, &sql::GATES_DELETE_PARTS, |gone| vec![column(gone, String::as_str)]);
    }
}

fn insert<'a>(rows: &'a [Written<'a>]) -> Parameters<'a> {
    vec![
        column(rows, |row| row.gate.id().0),
        column(rows, |row| row.gate.name.namespace.0),
        column(rows, |row| row.gate.name.kind.code()),
        column(rows, |row| row.gate.name.name.as_str()),
        column(rows, |row| row.gate.name.part.as_ref().map(Name::as_str)),
        column(rows, |row| row.gate.version as i32),
        column(rows, |row| row.limits),
        column(rows, |row| row.config.as_deref()),
        column(rows, |row| row.gate.active as i32),
        column(rows, |row| row.state.as_deref()),
        column(rows, |row| row.gate.due_at.map(Micros::from)),
    ]
}

fn update<'a>(rows: &'a [(Written<'a>, u32)]) -> Parameters<'a> {
    vec![
        column(rows, |(row, _)| row.gate.id().0),
        column(rows, |(_, expected)| *expected as i32),
        column(rows, |(row, _)| row.gate.version as i32),
        column(rows, |(row, _)| row.limits),
        column(rows, |(row, _)| row.config.as_deref()),
        column(rows, |(row, _)| row.gate.active as i32),
        column(rows, |(row, _)| row.state.as_deref()),
        column(rows, |(row, _)| row.gate.due_at.map(Micros::from)),
    ]
}
