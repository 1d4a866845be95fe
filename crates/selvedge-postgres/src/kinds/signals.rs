//! Signals.

use super::records::{self, Unreadable, gather};
use crate::PostgresStore;
use crate::kinds::{Asking, Saving, ignore};
use crate::sql::{Micros, column, columns, some_payload, statements};
use async_trait::async_trait;
use selvedge_core::rows::Changes;
use selvedge_core::signal::Effect;
use selvedge_core::{ExecutionId, Name, Signal, WaitpointId};
use selvedge_store::{Error, SignalReads};
use std::collections::HashSet;
use tokio_postgres::Row;
use uuid::Uuid;

statements! {
    with {
        signal: signal::list_of("signals"),
        signal_columns: signal::list(),
        signal_types: signal::types(1),
    }
    DELETE = "signals/delete";
    FIND = "signals/find";
    INSERT = "signals/insert";
    LIST = "signals/list";
    LIST_UNTAKEN = "signals/list_untaken";
    READ = "signals/read";
    TAKE = "signals/take";
}

// The columns without the payload.
columns! {
    signal<'a> of row: &'a Signal {
        execution: Uuid = row.execution.0,
        number: i32 = row.number as i32,
        name: &'a str = row.name.as_str(),
        source: &'a str = row.source.as_str(),
        waitpoint: Option<Uuid> = row.waitpoint.as_ref().map(|(id, _)| id.0),
        waitpoint_name: Option<&'a str> = row.waitpoint.as_ref().map(|(_, name)| name.as_str()),
        key: Option<&'a str> = row.key.as_ref().map(Name::as_str),
        digest: i64 = row.digest as i64,
        at: Micros = row.at.into(),
        effect: i16 = row.effect.code(),
        taken: Option<i32> = row.taken.map(|by| by as i32),
    }
}

/// Reads a signal, whose payload is behind the other columns.
fn decode(row: &Row) -> Result<Signal, Unreadable> {
    use signal::AT;
    let (execution, code) = (ExecutionId(row.get(AT.execution)), row.get(AT.effect));
    let number = row.get::<_, i32>(AT.number) as u32;
    let effect = Effect::from_code(code)
        .ok_or_else(|| (execution, format!("signal {number} has the unknown effect {code}")))?;
    let waitpoint = row.get::<_, Option<Uuid>>(AT.waitpoint);
    let waitpoint = waitpoint.zip(row.get::<_, Option<&str>>(AT.waitpoint_name));
    Ok(Signal {
        execution,
        number,
        name: Name::trusted(row.get(AT.name)),
        source: Name::trusted(row.get(AT.source)),
        waitpoint: waitpoint.map(|(id, name)| (WaitpointId(id), Name::trusted(name))),
        key: row.get::<_, Option<&str>>(AT.key).map(Name::trusted),
        digest: row.get::<_, i64>(AT.digest) as u64,
        at: row.get::<_, Micros>(AT.at).time(),
        effect,
        taken: row.get::<_, Option<i32>>(AT.taken).map(|by| by as u32),
        payload: some_payload(row, signal::COUNT),
    })
}

pub fn read(asking: &mut Asking<'_>) {
    let queries = &asking.needs.queries;
    let gather = || gather(decode, |rows| &mut rows.signals);
    asking.about(&queries.records, &READ, records::executions, gather());
    asking.about(&queries.untaken, &LIST_UNTAKEN, records::executions, gather());
    asking.about(&queries.signal_keys, &FIND, records::names, gather());
}

pub fn delete(saving: &mut Saving<'_>) {
    records::delete(&DELETE, saving);
}

pub fn save(saving: &mut Saving<'_>) {
    let changes = saving.changes;
    saving.rows(&changes.signals, &INSERT, |signals| {
        let mut parameters = signal::arrays(signals);
        parameters.push(column(signals, |signal| signal.payload.as_deref()));
        parameters
    });
    let (mut executions, mut numbers, mut suspensions) = (Vec::new(), Vec::new(), Vec::new());
    for (execution, number, by) in taken_later(changes) {
        executions.push(execution.0);
        numbers.push(number as i32);
        suspensions.push(by as i32);
    }
    if !executions.is_empty() {
        saving.add(&TAKE, vec![Box::new(executions), Box::new(numbers), Box::new(suspensions)], ignore);
    }
}

/// Returns the signals to mark as taken, as (execution, number, suspension), without those that are inserted as taken: a
/// signal that ends a wait at once needs no second statement.
fn taken_later(changes: &Changes) -> impl Iterator<Item = (ExecutionId, u32, u32)> + '_ {
    let added = changes.signals.iter();
    let inserted_so: HashSet<(ExecutionId, u32, u32)> =
        added.filter_map(|signal| Some((signal.execution, signal.number, signal.taken?))).collect();
    changes.unread.signals_taken.iter().filter(move |taken| !inserted_so.contains(taken)).copied()
}

#[async_trait]
impl SignalReads for PostgresStore {
    async fn signals(&self, of: ExecutionId, after: u32, limit: u32) -> Result<Vec<Signal>, Error> {
        self.meter.measure("signals", self.records(&LIST, (of, after, limit), decode)).await
    }
}
