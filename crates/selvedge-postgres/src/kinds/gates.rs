//! Gates, the executions that they hold, and the ledger of usage.
//!
//! A transaction that changes a gate locks it before it reads the executions that the gate holds, so it sees the
//! executions that earlier transactions made the gate hold. It never waits for a held execution: one that another
//! transaction has locked is named without its row, so that the rules know that there are more.

use super::executions::{self, gather_execution};
use crate::PostgresStore;
use crate::connection::{Connection, StatementError};
use crate::connection::{Parameters, Pipeline};
use crate::kinds::{Asking, Loading, Saving, collect, ignore};
use crate::read::readable;
use crate::sql::{Micros, array, columns, statements};
use crate::store_clock;
use async_trait::async_trait;
use selvedge_core::gate::{Amounts, Gate, GateId, GateKind, GateName, GateState, LedgerEntry, add};
use selvedge_core::rows::HeldBy;
use selvedge_core::{ExecutionId, Name, NamespaceId, Rows, Timestamp};
use selvedge_store::{Error, GateReads, ReconcilerScope};
use std::collections::{BTreeMap, HashSet};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

/// The number of further searches behind unreadable held executions, and the most rows that one of them reads.
const LOOKS: u32 = 16;
const LOOK_LIMIT: u32 = 500;

/// The largest [`Amount`](selvedge_core::amount::Amount).
const MOST: &str = "2305843009213.693951";
/// The sum of a ledger entry and the amounts added to it, dimension by dimension.
const ADDED: &str = "(
  select coalesce(jsonb_object_agg(dimension, amount), '{}')
  from (
    select each.key as dimension, least(sum(each.value::numeric), {most}) as amount
    from (
      select * from jsonb_each_text(ledger.spent)
      union all
      select * from jsonb_each_text(excluded.spent)
    ) as each
    group by each.key
  ) as summed
)";

statements! {
    with {
        added: ADDED,
        most: MOST,
        columns: executions::columns(),
        gate: format!("{}, {}", gate_name::list_of("gates"), gate_state::list_of("gates")),
        ledger_entry: ledger_entry::list(),
    }
    COUNT_HELD = "executions/count_held";
    DELETE = "gates/delete";
    DELETE_PARTS = "gates/delete_parts";
    FIND_HELD = "executions/find_held";
    GIVE_BACK = "gates/give_back";
    INSERT = "gates/insert";
    LEDGER_ADD = "ledger/add";
    LEDGER_FOLD = "ledger/fold";
    LEDGER_LIST = "ledger/list";
    LEDGER_LIST_BY_EXECUTION = "ledger/list_by_execution";
    LIST = "gates/list";
    LIST_DUE = "gates/list_due";
    LIST_PARTS = "gates/list_parts";
    LOCK = "gates/lock";
    LOCK_HELD = "executions/lock_held";
    LOCK_LANES = "gates/lock_lanes";
    READ = "gates/read";
    UPDATE = "gates/update";
}

columns! {
    gate_name<'a> of gate: &'a Gate {
        id: i64 = gate.id().0,
        namespace: i32 = gate.name.namespace.0,
        kind: i16 = gate.name.kind.code(),
        name: &'a str = gate.name.name.as_str(),
        part: Option<&'a str> = gate.name.part.as_ref().map(Name::as_str),
    }
}

// The columns that change. The column `limits` is only written, behind the version.
columns! {
    gate_state<'a> of gate: &'a Gate {
        version: i32 = gate.version as i32,
        config: Option<String> = gate
            .config
            .as_ref()
            .map(|config| serde_json::to_string(config).expect("a configuration always serialises")),
        active: i32 = gate.active as i32,
        state: Option<String> = (gate.state != GateState::default())
            .then(|| serde_json::to_string(&gate.state).expect("the state of a gate always serialises")),
        due_at: Option<Micros> = gate.due_at.map(Micros::from),
    }
}

columns! {
    ledger_entry {
        gate,
        period,
        execution,
        spent = "spent::text",
    }
}

/// Returns the columns that change, with `limits`: whether the gate may refuse an execution.
fn changing<'a>(gates: impl Iterator<Item = &'a Gate> + Clone) -> Parameters<'a> {
    let limits = gates
        .clone()
        .map(|gate| gate.active > 0 || gate.config.as_ref().is_some_and(|config| config.limits_starts()));
    let limits: Vec<bool> = limits.collect();
    let mut parameters = gate_state::arrays(gates);
    parameters.insert(gate_state::AT.version + 1, Box::new(limits));
    parameters
}

fn decode(row: &Row) -> Result<Gate, Error> {
    use gate_name::AT;
    let state = |at: usize| gate_name::COUNT + at;
    let id: i64 = row.get(AT.id);
    let wrong = |detail: String| Error::Failed(format!("gate {id} cannot be read: {detail}"));
    let unreadable = |column: &str, error: serde_json::Error| wrong(format!("column {column}: {error}"));
    let code: i16 = row.get(AT.kind);
    let config = row.get::<_, Option<&str>>(state(gate_state::AT.config)).map(serde_json::from_str);
    let stored = row.get::<_, Option<&str>>(state(gate_state::AT.state)).map(serde_json::from_str);
    Ok(Gate {
        name: GateName {
            namespace: NamespaceId(row.get(AT.namespace)),
            kind: GateKind::from_code(code).ok_or_else(|| wrong(format!("unknown kind {code}")))?,
            name: Name::trusted(row.get(AT.name)),
            part: row.get::<_, Option<&str>>(AT.part).map(Name::trusted),
        },
        version: row.get::<_, i32>(state(gate_state::AT.version)) as u32,
        config: config.transpose().map_err(|error| unreadable("config", error))?,
        active: row.get::<_, i32>(state(gate_state::AT.active)) as u32,
        state: stored.transpose().map_err(|error| unreadable("state", error))?.unwrap_or_default(),
        due_at: row.get::<_, Option<Micros>>(DUE_AT).map(Micros::time),
    })
}

/// The position of the due time.
const DUE_AT: usize = gate_name::COUNT + gate_state::AT.due_at;

fn decode_entry(row: &Row) -> Result<LedgerEntry, Error> {
    use ledger_entry::AT;
    let (gate, period): (i64, i32) = (row.get(AT.gate), row.get(AT.period));
    let wrong = |error| Error::Failed(format!("the ledger of gate {gate} cannot be read: {error}"));
    Ok(LedgerEntry {
        gate: GateId(gate),
        period: period as u32,
        execution: row.get::<_, Option<Uuid>>(AT.execution).map(ExecutionId),
        spent: serde_json::from_str(row.get(AT.spent)).map_err(wrong)?,
    })
}

fn ids(ids: &[GateId]) -> Parameters<'static> {
    vec![array(ids, |id| id.0)]
}

fn gather() -> impl FnOnce(&[Row], &mut Loading) -> Result<(), Error> + Send + 'static {
    collect(decode, |rows| &mut rows.gates)
}

/// Reads gates, then locks the lanes that limit starts and reads the others.
pub fn load_lanes(asking: &mut Asking<'_>) {
    asking.read(&asking.needs.gates, &READ, ids, gather());
    asking.lock(&asking.needs.lanes, &LOCK_LANES, ids, gather());
}

/// Locks gates, then their parts, then the executions that they hold.
pub fn lock(asking: &mut Asking<'_>) {
    let needs = asking.needs;
    asking.lock(&needs.gates, &LOCK, ids, gather());
    asking.lock(&needs.parts, &LOCK, ids, gather());
    let asked = &needs.queries.held;
    asking.about(
        asked,
        &LOCK_HELD,
        |asked| held_but(asked, &[]),
        move |answer, loading| {
            gather_locked(answer, asked, loading);
            Ok(())
        },
    );
    asking.about(asked, &FIND_HELD, held, |answer, loading| {
        gather_found(answer, &mut loading.rows);
        Ok(())
    });
}

/// Returns the parameters of `executions/find_held`.
fn held(asked: &[HeldBy]) -> Parameters<'static> {
    vec![
        array(asked, |one| one.gate.0),
        array(asked, |one| i64::from(one.limit)),
        array(asked, |one| one.after.map_or(i64::MIN, |(rank, _)| rank)),
        array(asked, |one| one.after.map_or(Uuid::nil(), |(_, id)| id.0)),
    ]
}

/// Returns the parameters of `executions/lock_held`.
fn held_but(asked: &[HeldBy], passed: &[ExecutionId]) -> Parameters<'static> {
    let mut parameters = held(asked);
    parameters.push(array(passed, |id| id.0));
    parameters
}

/// Adds the held executions that could be locked to the rows, and notes the requests with an unreadable row.
fn gather_locked(answer: &[Row], asked: &[HeldBy], loading: &mut Loading) {
    loading.rows.found.held = asked.iter().map(|one| (*one, Vec::new())).collect();
    let places: Vec<usize> = (0..asked.len()).collect();
    loading.damaged = gather_behind(answer, &places, &mut loading.rows);
}

/// Adds the held executions of the requests at these indexes. Returns the indexes of requests with an unreadable row.
fn gather_behind(answer: &[Row], places: &[usize], rows: &mut Rows) -> Vec<usize> {
    let mut damaged = Vec::new();
    for row in answer {
        let place = places[row.get::<_, i64>(executions::COLUMN_COUNT) as usize - 1];
        match gather_execution(row, rows) {
            Some(id) => rows.found.held[place].1.push(id),
            None => damaged.push(place),
        }
    }
    damaged
}

/// Adds the ids of held executions that another transaction has locked.
fn gather_found(answer: &[Row], rows: &mut Rows) {
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
        pipeline.add(&LOCK_HELD, held_but(&asked, &passed)).await?;
        pipeline.add(&store_clock::NOW, vec![]).await?;
        let mut answers = pipeline.run().await?.into_iter();
        let behind = answers.next().transpose()?.unwrap_or_default();
        damaged = gather_behind(&behind, &damaged, rows);
        let now = answers.next().transpose()?.unwrap_or_default();
        rows.now = now.first().map_or(rows.now, |row| row.get::<_, Micros>(0).time());
    }
    Ok(())
}

/// Saves gates and the ledger. Changed and deleted gates were locked when they were loaded.
pub fn save(saving: &mut Saving<'_>) {
    let changes = saving.changes;
    saving.rows(&changes.gates.deleted, &DELETE, |gates| {
        vec![array(gates, |(id, _)| id.0), array(gates, |(_, version)| *version as i32)]
    });
    saving.rows(&changes.gates.updated, &UPDATE, |rows| {
        let mut parameters =
            vec![array(rows, |(gate, _)| gate.id().0), array(rows, |(_, expected)| *expected as i32)];
        parameters.extend(changing(rows.iter().map(|(gate, _)| gate)));
        parameters
    });
    saving.rows(&changes.gates.inserted, &INSERT, |gates| {
        let mut parameters = gate_name::arrays(gates);
        parameters.extend(changing(gates.iter()));
        parameters
    });
    saving.rows(&changes.unread.slots_freed, &GIVE_BACK, |freed| {
        vec![array(freed, |(id, _)| id.0), array(freed, |(_, count)| *count as i32)]
    });
    saving.rows(&changes.ledger, &LEDGER_ADD, add_to_ledger);
    let executions = &changes.executions.deleted;
    saving.rows(executions, &LEDGER_FOLD, |rows| vec![array(rows, |(id, _)| id.0)]);
    // Deleted flows, and deleted executions that may have been without a flow, as the parts of budgets name them.
    let flows = changes.flows.deleted.iter().map(|(id, _)| id.0);
    let gone: Vec<String> =
        flows.chain(executions.iter().map(|(id, _)| id.0)).map(|id| id.to_string()).collect();
    if !gone.is_empty() {
        saving.add(&DELETE_PARTS, vec![Box::new(gone)], ignore);
    }
}

/// Returns the parameters of `ledger/add`. One statement must not write an entry twice.
fn add_to_ledger(entries: &[LedgerEntry]) -> Parameters<'_> {
    let mut sums: BTreeMap<_, Amounts> = BTreeMap::new();
    for LedgerEntry { gate, period, execution, spent } in entries {
        add(sums.entry((*gate, *period, *execution)).or_default(), spent);
    }
    let sums: Vec<_> = sums.into_iter().collect();
    vec![
        array(&sums, |((gate, ..), _)| gate.0),
        array(&sums, |((_, period, _), _)| *period as i32),
        array(&sums, |((.., execution), _)| execution.map(|id| id.0)),
        array(&sums, |(_, spent)| serde_json::to_string(spent).expect("amounts always serialise")),
    ]
}

#[async_trait]
impl GateReads for PostgresStore {
    async fn fetch_gates(&self, ids: &[GateId]) -> Result<Vec<Gate>, Error> {
        let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
        self.all("fetch_gates", &READ, &[&ids], decode).await
    }

    async fn list_gates(
        &self,
        namespace: NamespaceId,
        kind: GateKind,
        after: Option<&Name>,
        limit: u32,
    ) -> Result<Vec<Gate>, Error> {
        let read = async {
            let (mut listed, mut after) = (Vec::new(), after.map_or_else(String::new, Name::to_string));
            loop {
                let left = limit - listed.len() as u32;
                let parameters: [&(dyn ToSql + Sync); 4] =
                    [&namespace.0, &kind.code(), &after, &i64::from(left)];
                let found = self.query(&LIST, &parameters).await?;
                listed.extend(readable(&found, decode));
                // A page that is short only because of unreadable rows is filled with the rows behind them.
                match found.last() {
                    Some(last) if found.len() as u32 == left && (listed.len() as u32) < limit => {
                        after = last.get(gate_name::AT.name);
                    }
                    _ => return Ok(listed),
                }
            }
        };
        self.meter.measure("list_gates", read).await
    }

    /// Unreadable gates are left out and replaced by the next ones, so that the executions of other gates do not wait for
    /// them.
    async fn due_gates(
        &self,
        scope: &ReconcilerScope,
        after: Option<(Timestamp, GateId)>,
        limit: u32,
    ) -> Result<Vec<Gate>, Error> {
        let namespace = scope.namespace.map(|namespace| namespace.0);
        let read = async {
            let (mut due, mut place) = (Vec::new(), after.map(|(at, id)| (Micros::from(at), id.0)));
            loop {
                let left = limit - due.len() as u32;
                let (at, id) = place.unwrap_or((Micros(0), i64::MIN));
                let parameters: [&(dyn ToSql + Sync); 4] = [&at, &id, &i64::from(left), &namespace];
                let found = self.query_in_background(&LIST_DUE, &parameters).await?;
                due.extend(readable(&found, decode));
                match found.last() {
                    Some(last) if found.len() as u32 == left && (due.len() as u32) < limit => {
                        place = Some((last.get(DUE_AT), last.get(gate_name::AT.id)));
                    }
                    _ => return Ok(due),
                }
            }
        };
        self.meter.measure("due_gates", read).await
    }

    async fn parts_of(&self, gate: &GateName, limit: u32) -> Result<Vec<Gate>, Error> {
        let parameters: [&(dyn ToSql + Sync); 4] =
            [&gate.namespace.0, &gate.kind.code(), &gate.name.as_str(), &i64::from(limit)];
        let rows = self.meter.measure("parts_of", self.query(&LIST_PARTS, &parameters)).await?;
        Ok(readable(&rows, decode).collect())
    }

    async fn ledger(&self, gate: GateId, period: u32) -> Result<Vec<LedgerEntry>, Error> {
        let read = async {
            let Ok(period) = i32::try_from(period) else { return Ok(Vec::new()) };
            self.query(&LEDGER_LIST, &[&gate.0, &period]).await?.iter().map(decode_entry).collect()
        };
        self.meter.measure("ledger", read).await
    }

    async fn ledger_of(&self, execution: ExecutionId) -> Result<Vec<LedgerEntry>, Error> {
        self.all("ledger_of", &LEDGER_LIST_BY_EXECUTION, &[&execution.0], decode_entry).await
    }

    async fn held_by(&self, gate: GateId, bound: u64) -> Result<u64, Error> {
        let bound = i64::try_from(bound).unwrap_or(i64::MAX);
        let rows = self.meter.measure("held_by", self.query(&COUNT_HELD, &[&gate.0, &bound])).await?;
        Ok(rows.first().map_or(0, |row| row.get::<_, i64>(0) as u64))
    }
}
