//! Records of executions (signals, steps and waitpoints), and token keys: read, loaded and saved.
//!
//! The row of an execution is the lock for its records: a transaction that changes them has locked the row, or saves it
//! with a guard before them. So records are read without locks of their own, after the locks on executions.

use crate::connection::pipeline::Parameters;
use crate::read::list::END_OF_TIME;
use crate::row::{self, Micros};
use crate::save::{Saving, column};
use crate::{PostgresStore, sql};
use selvedge_core::rows::Changes;
use selvedge_core::signal::Effect;
use selvedge_core::step::StepKind;
use selvedge_core::token::{TokenKey, TokenKeyId};
use selvedge_core::waitpoint::{WaitpointFilter, WaitpointPosition, WaitpointState};
use selvedge_core::{ExecutionId, Name, NamespaceId, Rows, Signal, Step, Waitpoint, WaitpointId};
use selvedge_store::Error;
use std::collections::HashSet;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

/// The execution of an unreadable row, and the reason.
type Unreadable = (ExecutionId, String);

impl PostgresStore {
    /// Returns a page of one kind of an execution's records after a number.
    async fn read_records<T>(
        &self,
        text: &str,
        (of, after, limit): (ExecutionId, u32, u32),
        read: fn(&Row) -> Result<T, Unreadable>,
    ) -> Result<Vec<T>, Error> {
        let Ok(after) = i32::try_from(after) else { return Ok(Vec::new()) };
        let parameters: [&(dyn ToSql + Sync); 3] = [&of.0, &after, &i64::from(limit)];
        let rows = self.query(text, &parameters).await?;
        rows.iter().map(|row| read(row).map_err(unreadable)).collect()
    }

    pub(crate) async fn read_signals(
        &self,
        of: ExecutionId,
        after: u32,
        limit: u32,
    ) -> Result<Vec<Signal>, Error> {
        self.read_records(&sql::SIGNALS_LIST, (of, after, limit), signal).await
    }

    pub(crate) async fn read_steps(
        &self,
        of: ExecutionId,
        after: u32,
        limit: u32,
    ) -> Result<Vec<Step>, Error> {
        self.read_records(&sql::STEPS_LIST, (of, after, limit), step).await
    }

    pub(crate) async fn read_waitpoints(
        &self,
        of: ExecutionId,
        after: u32,
        limit: u32,
    ) -> Result<Vec<Waitpoint>, Error> {
        self.read_records(&sql::WAITPOINTS_LIST, (of, after, limit), waitpoint).await
    }

    /// Returns a page of the waitpoints of a namespace, newest first.
    pub(crate) async fn list_waitpoints_of(
        &self,
        filter: &WaitpointFilter,
        after: Option<WaitpointPosition>,
        limit: u32,
    ) -> Result<Vec<Waitpoint>, Error> {
        let (at, id) =
            after.map_or((END_OF_TIME, Uuid::max()), |after| (after.created_at.into(), after.id.0));
        let (namespace, limit) = (filter.namespace.0, i64::from(limit));
        let states: Vec<i16> = filter.states().iter().map(|state| state.code()).collect();
        let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&namespace, &states, &at, &id, &limit];
        let source = filter.source.as_ref().map(Name::as_str);
        let text = match &source {
            Some(source) => {
                parameters.push(source);
                &sql::WAITPOINTS_LIST_BY_SOURCE
            }
            None => &sql::WAITPOINTS_LIST_BY_STATE,
        };
        let rows = self.query(text, &parameters).await?;
        rows.iter().map(|row| waitpoint(row).map_err(unreadable)).collect()
    }

    pub(crate) async fn find_waitpoint(&self, id: WaitpointId) -> Result<Option<Waitpoint>, Error> {
        let rows = self.query(&sql::WAITPOINTS_FIND, &[&id.0]).await?;
        rows.first().map(|row| waitpoint(row).map_err(unreadable)).transpose()
    }

    pub(crate) async fn list_token_keys(&self) -> Result<Vec<TokenKey>, Error> {
        Ok(self.query(&sql::TOKEN_KEYS_LIST, &[]).await?.iter().map(token_key).collect())
    }

    /// Two statements: the first waits for another server that stores a secret, the second sees the committed one.
    pub(crate) async fn keep_secret(&self, new: &[u8]) -> Result<Vec<u8>, Error> {
        let insert = "insert into kept_secret (secret) values ($1) on conflict do nothing";
        self.query(insert, &[&new]).await?;
        let rows = self.query("select secret from kept_secret where single", &[]).await?;
        let row = rows.first().ok_or_else(|| Error::Failed("the kept secret is not there".into()))?;
        Ok(row.get(0))
    }
}

fn unreadable((execution, detail): Unreadable) -> Error {
    Error::Failed(format!("the record of execution {execution} cannot be read: {detail}"))
}

/// Returns the parameters of `signals/find` and `steps/find`.
pub fn names(names: &[(ExecutionId, Name)]) -> Parameters<'static> {
    vec![
        Box::new(names.iter().map(|(execution, _)| execution.0).collect::<Vec<Uuid>>()),
        Box::new(names.iter().map(|(_, name)| name.to_string()).collect::<Vec<String>>()),
    ]
}

/// Reads rows. An unreadable record makes its execution unreadable, so that no rule takes a part of the records for all
/// of them; other executions are not affected.
fn gather<T>(
    answer: &[Row],
    read: fn(&Row) -> Result<T, Unreadable>,
    found: &mut Vec<T>,
    damaged: &mut Vec<Unreadable>,
) {
    for row in answer {
        match read(row) {
            Ok(one) => found.push(one),
            Err(unreadable) => damaged.push(unreadable),
        }
    }
}

/// Adds signals to the rows.
pub fn gather_signals(answer: &[Row], rows: &mut Rows) {
    gather(answer, signal, &mut rows.signals, &mut rows.unreadable);
}

/// Adds steps to the rows.
pub fn gather_steps(answer: &[Row], rows: &mut Rows) {
    gather(answer, step, &mut rows.steps, &mut rows.unreadable);
}

/// Adds waitpoints to the rows.
pub fn gather_waitpoints(answer: &[Row], rows: &mut Rows) {
    gather(answer, waitpoint, &mut rows.waitpoints, &mut rows.unreadable);
}

/// Adds the executions whose records are complete.
pub fn gather_whole(asked: &[ExecutionId], rows: &mut Rows) {
    let damaged: HashSet<ExecutionId> = rows.unreadable.iter().map(|(id, _)| *id).collect();
    rows.found.records.extend(asked.iter().filter(|id| !damaged.contains(id)));
}

/// Adds token keys to the rows.
pub fn gather_token_keys(answer: &[Row], rows: &mut Rows) {
    rows.token_keys.extend(answer.iter().map(token_key));
}

/// Reads the signal in a row of `{signal}` and its payload.
fn signal(row: &Row) -> Result<Signal, Unreadable> {
    let (execution, number, code) = (ExecutionId(row.get(0)), row.get::<_, i32>(1) as u32, row.get(9));
    let effect = Effect::from_code(code)
        .ok_or_else(|| (execution, format!("signal {number} has the unknown effect {code}")))?;
    let waitpoint = row.get::<_, Option<Uuid>>(4).zip(row.get::<_, Option<&str>>(5));
    Ok(Signal {
        execution,
        number,
        name: Name::trusted(row.get(2)),
        source: Name::trusted(row.get(3)),
        waitpoint: waitpoint.map(|(id, name)| (WaitpointId(id), Name::trusted(name))),
        key: row.get::<_, Option<&str>>(6).map(Name::trusted),
        digest: row.get::<_, i64>(7) as u64,
        at: row.get::<_, Micros>(8).time(),
        effect,
        taken: row.get::<_, Option<i32>>(10).map(|by| by as u32),
        payload: row::some_payload(row, 11),
    })
}

/// Reads the step in a row of `{step}`.
fn step(row: &Row) -> Result<Step, Unreadable> {
    let (execution, number, code) = (ExecutionId(row.get(0)), row.get::<_, i32>(1) as u32, row.get(3));
    let kind = StepKind::from_code(code)
        .ok_or_else(|| (execution, format!("step {number} has the unknown kind {code}")))?;
    Ok(Step {
        execution,
        number,
        name: Name::trusted(row.get(2)),
        kind,
        attempt: row.get::<_, i32>(4) as u32,
        started_at: row.get::<_, Micros>(5).time(),
        recorded_at: row.get::<_, Option<Micros>>(6).map(Micros::time),
        result: row::some_payload(row, 7),
    })
}

/// Reads the waitpoint in a row of `{waitpoint}`.
fn waitpoint(row: &Row) -> Result<Waitpoint, Unreadable> {
    let (id, execution) = (WaitpointId(row.get(0)), ExecutionId(row.get(2)));
    let (code, number): (i16, Option<i32>) = (row.get(9), row.get(10));
    let state = WaitpointState::from_codes(code, number.map(|number| number as u32), row.get(11))
        .ok_or_else(|| (execution, format!("waitpoint {id} has the unknown state {code}")))?;
    let signals = Waitpoint::decode_signals(row.get(12))
        .map_err(|error| (execution, format!("waitpoint {id} has unreadable signals: {error}")))?;
    Ok(Waitpoint {
        id,
        namespace: NamespaceId(row.get(1)),
        execution,
        number: row.get::<_, i32>(3) as u32,
        name: Name::trusted(row.get(4)),
        source: Name::trusted(row.get(5)),
        key: TokenKeyId(row.get(6)),
        created_at: row.get::<_, Micros>(7).time(),
        expires_at: row.get::<_, Option<Micros>>(8).map(Micros::time),
        state,
        signals,
        prompt: row.get(13),
        issue: row.get::<_, i32>(14) as u32,
    })
}

/// Reads the token key in a row of `token_keys/list`.
fn token_key(row: &Row) -> TokenKey {
    TokenKey {
        id: TokenKeyId(row.get(0)),
        fingerprint: row.get(1),
        created_at: row.get::<_, Micros>(2).time(),
        retires_at: row.get::<_, Option<Micros>>(3).map(Micros::time),
    }
}

/// Deletes the records of deleted executions.
pub fn delete<'a>(changes: &'a Changes, saving: &mut Saving<'a>) {
    for text in [&sql::SIGNALS_DELETE, &sql::STEPS_DELETE, &sql::WAITPOINTS_DELETE] {
        saving.rows(&changes.executions.deleted, text, |rows| vec![column(rows, |(id, _)| id.0)]);
    }
}

/// Returns the signals to mark as taken, as (execution, number, suspension), without those that are inserted as taken: a
/// signal that ends a wait at once needs no second statement.
pub fn taken_later(changes: &Changes) -> Vec<(ExecutionId, u32, u32)> {
    let added = changes.signals.iter();
    let inserted_so: HashSet<(ExecutionId, u32, u32)> =
        added.filter_map(|signal| Some((signal.execution, signal.number, signal.taken?))).collect();
    changes.unread.signals_taken.iter().filter(|taken| !inserted_so.contains(taken)).copied().collect()
}

/// Saves records. Their executions are saved before, so no other transaction changes the same records.
pub fn save<'a>(changes: &'a Changes, taken: &'a [(ExecutionId, u32, u32)], saving: &mut Saving<'a>) {
    saving.rows(&changes.signals, &sql::SIGNALS_INSERT, signals);
    saving.rows(taken, &sql::SIGNALS_TAKE, |taken| {
        vec![
            column(taken, |(execution, ..)| execution.0),
            column(taken, |(_, number, _)| *number as i32),
            column(taken, |(.., by)| *by as i32),
        ]
    });
    saving.rows(&changes.steps, &sql::STEPS_UPSERT, steps);
    saving.rows(&changes.waitpoints, &sql::WAITPOINTS_UPSERT, waitpoints);
}

/// Saves token keys, which belong to no execution.
pub fn save_token_keys<'a>(changes: &'a Changes, saving: &mut Saving<'a>) {
    saving.rows(&changes.token_keys.written, &sql::TOKEN_KEYS_UPSERT, |keys| {
        vec![
            column(keys, |key| key.id.0),
            column(keys, |key| key.fingerprint),
            column(keys, |key| Micros::from(key.created_at)),
            column(keys, |key| key.retires_at.map(Micros::from)),
        ]
    });
    saving.rows(&changes.token_keys.removed, &sql::TOKEN_KEYS_DELETE, |ids| vec![column(ids, |id| id.0)]);
}

fn signals(rows: &[Signal]) -> Parameters<'_> {
    vec![
        column(rows, |signal| signal.execution.0),
        column(rows, |signal| signal.number as i32),
        column(rows, |signal| signal.name.as_str()),
        column(rows, |signal| signal.source.as_str()),
        column(rows, |signal| signal.waitpoint.as_ref().map(|(id, _)| id.0)),
        column(rows, |signal| signal.waitpoint.as_ref().map(|(_, name)| name.as_str())),
        column(rows, |signal| signal.key.as_ref().map(Name::as_str)),
        column(rows, |signal| signal.digest as i64),
        column(rows, |signal| Micros::from(signal.at)),
        column(rows, |signal| signal.effect.code()),
        column(rows, |signal| signal.taken.map(|by| by as i32)),
        column(rows, |signal| signal.payload.as_deref()),
    ]
}

fn steps(rows: &[Step]) -> Parameters<'_> {
    vec![
        column(rows, |step| step.execution.0),
        column(rows, |step| step.number as i32),
        column(rows, |step| step.name.as_str()),
        column(rows, |step| step.kind.code()),
        column(rows, |step| step.attempt as i32),
        column(rows, |step| Micros::from(step.started_at)),
        column(rows, |step| step.recorded_at.map(Micros::from)),
        column(rows, |step| step.result.as_deref()),
    ]
}

fn waitpoints(rows: &[Waitpoint]) -> Parameters<'_> {
    vec![
        column(rows, |waitpoint| waitpoint.id.0),
        column(rows, |waitpoint| waitpoint.namespace.0),
        column(rows, |waitpoint| waitpoint.execution.0),
        column(rows, |waitpoint| waitpoint.number as i32),
        column(rows, |waitpoint| waitpoint.name.as_str()),
        column(rows, |waitpoint| waitpoint.source.as_str()),
        column(rows, |waitpoint| waitpoint.key.0),
        column(rows, |waitpoint| Micros::from(waitpoint.created_at)),
        column(rows, |waitpoint| waitpoint.expires_at.map(Micros::from)),
        column(rows, |waitpoint| waitpoint.state.codes().0),
        column(rows, |waitpoint| waitpoint.state.codes().1.map(|signal| signal as i32)),
        column(rows, |waitpoint| waitpoint.state.codes().2),
        column(rows, Waitpoint::encode_signals),
        column(rows, |waitpoint| waitpoint.prompt.as_deref()),
        column(rows, |waitpoint| waitpoint.issue as i32),
    ]
}
