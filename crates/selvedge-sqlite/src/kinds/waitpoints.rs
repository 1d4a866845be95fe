//! Waitpoints of executions.

use crate::SqliteStore;
use crate::connection::failure::not_understood;
use crate::kinds::{Kind, Saving, readable};
use crate::row;
use crate::sql::{self, columns, statements};
use async_trait::async_trait;
use rusqlite::{Connection, Row, params};
use selvedge_core::token::TokenKeyId;
use selvedge_core::waitpoint::{WaitpointFilter, WaitpointPosition, WaitpointState};
use selvedge_core::{Changes, ExecutionId, NamespaceId, Needs, Rows, Timestamp, Waitpoint, WaitpointId};
use selvedge_store::{Error, WaitpointReads};
use std::cmp::Reverse;

pub(crate) const KIND: Kind =
    Kind { columns: &[("waitpoint", waitpoint::LIST)], statements: STATEMENTS, load, save, ..Kind::EMPTY };

statements! {
    WAITPOINTS_DELETE = "waitpoints/delete";
    WAITPOINTS_FIND = "waitpoints/find";
    WAITPOINTS_LIST = "waitpoints/list";
    WAITPOINTS_LIST_BY_SOURCE = "waitpoints/list_by_source";
    WAITPOINTS_LIST_BY_STATE = "waitpoints/list_by_state";
    WAITPOINTS_UPSERT = "waitpoints/upsert";
}

columns! {
    waitpoint of waitpoint: &Waitpoint {
        execution = waitpoint.execution.0.as_bytes(),
        number = waitpoint.number,
        id = waitpoint.id.0.as_bytes(),
        namespace = waitpoint.namespace.0,
        name = waitpoint.name.as_str(),
        source = waitpoint.source.as_str(),
        key = waitpoint.key.0,
        created_at = waitpoint.created_at.micros(),
        expires_at = waitpoint.expires_at.map(Timestamp::micros),
        state = waitpoint.state.codes().0,
        signal = waitpoint.state.codes().1,
        effect = waitpoint.state.codes().2,
        signals = waitpoint.encode_signals(),
        prompt = waitpoint.prompt,
        issue = waitpoint.issue,
    }
}

fn decode(found: &Row<'_>) -> rusqlite::Result<Waitpoint> {
    use waitpoint::AT;
    let id = WaitpointId(row::uuid(found, AT.id)?);
    let (state, signal, effect) = (found.get(AT.state)?, found.get(AT.signal)?, found.get(AT.effect)?);
    let unknown = || {
        not_understood(&format!(
            "waitpoint {id}: unknown state {state}, signal {signal:?}, effect {effect:?}"
        ))
    };
    let signals = Waitpoint::decode_signals(found.get::<_, Option<String>>(AT.signals)?.as_deref());
    let signals = signals.map_err(|error| not_understood(&format!("waitpoint {id}: signals: {error}")))?;
    Ok(Waitpoint {
        id,
        namespace: NamespaceId(found.get(AT.namespace)?),
        execution: ExecutionId(row::uuid(found, AT.execution)?),
        number: found.get(AT.number)?,
        name: row::name(found, AT.name)?,
        source: row::name(found, AT.source)?,
        key: TokenKeyId(found.get(AT.key)?),
        created_at: row::time(found, AT.created_at)?,
        expires_at: row::optional_time(found, AT.expires_at)?,
        state: WaitpointState::from_codes(state, signal, effect).ok_or_else(unknown)?,
        signals,
        prompt: found.get(AT.prompt)?,
        issue: found.get(AT.issue)?,
    })
}

fn list(
    connection: &Connection,
    of: ExecutionId,
    after: u32,
    limit: u32,
) -> rusqlite::Result<Vec<Waitpoint>> {
    sql::rows(connection, &WAITPOINTS_LIST, params![of.0.as_bytes(), after, limit], decode)
}

fn load(connection: &Connection, needs: &Needs, rows: &mut Rows) -> rusqlite::Result<()> {
    for id in &needs.queries.waitpoints {
        let found = readable(*id, list(connection, *id, 0, u32::MAX), rows)?;
        rows.waitpoints.extend(found.into_iter().flatten());
    }
    Ok(())
}

fn save(connection: &Connection, changes: &Changes, _: &mut Saving) -> rusqlite::Result<Option<String>> {
    for (id, _) in &changes.executions.deleted {
        sql::execute(connection, &WAITPOINTS_DELETE, [id.0.as_bytes()])?;
    }
    for waitpoint in &changes.waitpoints {
        waitpoint::write(connection, &WAITPOINTS_UPSERT, waitpoint, &[])?;
    }
    Ok(None)
}

#[async_trait]
impl WaitpointReads for SqliteStore {
    async fn waitpoints(&self, of: ExecutionId, after: u32, limit: u32) -> Result<Vec<Waitpoint>, Error> {
        self.read("waitpoints", move |connection| list(connection, of, after, limit)).await
    }

    /// Reads one range of an index for each state.
    async fn list_waitpoints(
        &self,
        filter: &WaitpointFilter,
        after: Option<WaitpointPosition>,
        limit: u32,
    ) -> Result<Vec<Waitpoint>, Error> {
        let filter = filter.clone();
        let (at, id) = after.map_or((i64::MAX, Vec::new()), |after| {
            (after.created_at.micros(), after.id.0.as_bytes().to_vec())
        });
        self.read("list_waitpoints", move |connection| {
            let namespace = filter.namespace.0;
            let mut found = Vec::new();
            for state in filter.states() {
                let state = state.code();
                found.extend(match &filter.source {
                    Some(source) => {
                        let of_source = params![namespace, state, at, id, limit, source.as_str()];
                        sql::rows(connection, &WAITPOINTS_LIST_BY_SOURCE, of_source, decode)?
                    }
                    None => {
                        let of_state = params![namespace, state, at, id, limit];
                        sql::rows(connection, &WAITPOINTS_LIST_BY_STATE, of_state, decode)?
                    }
                });
            }
            found.sort_unstable_by_key(|waitpoint| Reverse(waitpoint.position()));
            found.truncate(limit as usize);
            Ok(found)
        })
        .await
    }

    async fn waitpoint(&self, id: WaitpointId) -> Result<Option<Waitpoint>, Error> {
        self.read("waitpoint", move |connection| {
            sql::row(connection, &WAITPOINTS_FIND, [id.0.as_bytes()], decode)
        })
        .await
    }
}
