//! Waitpoints.

use super::records::{self, Unreadable, gather, unreadable};
use crate::PostgresStore;
use crate::kinds::{Asking, Saving};
use crate::sql::{END_OF_TIME, Micros, columns, statements};
use async_trait::async_trait;
use selvedge_core::token::TokenKeyId;
use selvedge_core::waitpoint::{WaitpointFilter, WaitpointPosition, WaitpointState};
use selvedge_core::{ExecutionId, Name, NamespaceId, Waitpoint, WaitpointId};
use selvedge_store::{Error, WaitpointReads};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

statements! {
    with {
        waitpoint: waitpoint::list_of("waitpoints"),
        waitpoint_columns: waitpoint::list(),
        waitpoint_types: waitpoint::types(1),
    }
    DELETE = "waitpoints/delete";
    FIND = "waitpoints/find";
    LIST = "waitpoints/list";
    LIST_BY_SOURCE = "waitpoints/list_by_source";
    LIST_BY_STATE = "waitpoints/list_by_state";
    READ = "waitpoints/read";
    UPSERT = "waitpoints/upsert";
}

columns! {
    waitpoint<'a> of row: &'a Waitpoint {
        id: Uuid = row.id.0,
        namespace: i32 = row.namespace.0,
        execution: Uuid = row.execution.0,
        number: i32 = row.number as i32,
        name: &'a str = row.name.as_str(),
        source: &'a str = row.source.as_str(),
        key: i64 = row.key.0,
        created_at: Micros = row.created_at.into(),
        expires_at: Option<Micros> = row.expires_at.map(Micros::from),
        state: i16 = row.state.codes().0,
        signal: Option<i32> = row.state.codes().1.map(|signal| signal as i32),
        effect: Option<i16> = row.state.codes().2,
        signals: Option<String> = row.encode_signals(),
        prompt: Option<&'a str> = row.prompt.as_deref(),
        issue: i32 = row.issue as i32,
    }
}

fn decode(row: &Row) -> Result<Waitpoint, Unreadable> {
    use waitpoint::AT;
    let (id, execution) = (WaitpointId(row.get(AT.id)), ExecutionId(row.get(AT.execution)));
    let code: i16 = row.get(AT.state);
    let signal = row.get::<_, Option<i32>>(AT.signal).map(|number| number as u32);
    let state = WaitpointState::from_codes(code, signal, row.get(AT.effect))
        .ok_or_else(|| (execution, format!("waitpoint {id} has the unknown state {code}")))?;
    let signals = Waitpoint::decode_signals(row.get(AT.signals))
        .map_err(|error| (execution, format!("waitpoint {id} has unreadable signals: {error}")))?;
    Ok(Waitpoint {
        id,
        namespace: NamespaceId(row.get(AT.namespace)),
        execution,
        number: row.get::<_, i32>(AT.number) as u32,
        name: Name::trusted(row.get(AT.name)),
        source: Name::trusted(row.get(AT.source)),
        key: TokenKeyId(row.get(AT.key)),
        created_at: row.get::<_, Micros>(AT.created_at).time(),
        expires_at: row.get::<_, Option<Micros>>(AT.expires_at).map(Micros::time),
        state,
        signals,
        prompt: row.get(AT.prompt),
        issue: row.get::<_, i32>(AT.issue) as u32,
    })
}

pub fn read(asking: &mut Asking<'_>) {
    let gather = gather(decode, |rows| &mut rows.waitpoints);
    asking.about(&asking.needs.queries.waitpoints, &READ, records::executions, gather);
}

pub fn delete(saving: &mut Saving<'_>) {
    records::delete(&DELETE, saving);
}

pub fn save(saving: &mut Saving<'_>) {
    saving.rows(&saving.changes.waitpoints, &UPSERT, waitpoint::arrays);
}

#[async_trait]
impl WaitpointReads for PostgresStore {
    async fn waitpoints(&self, of: ExecutionId, after: u32, limit: u32) -> Result<Vec<Waitpoint>, Error> {
        self.meter.measure("waitpoints", self.records(&LIST, (of, after, limit), decode)).await
    }

    async fn list_waitpoints(
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
                &LIST_BY_SOURCE
            }
            None => &LIST_BY_STATE,
        };
        self.all("list_waitpoints", text, &parameters, |row| decode(row).map_err(unreadable)).await
    }

    async fn waitpoint(&self, id: WaitpointId) -> Result<Option<Waitpoint>, Error> {
        self.first("waitpoint", &FIND, &[&id.0], |row| decode(row).map_err(unreadable)).await
    }
}
