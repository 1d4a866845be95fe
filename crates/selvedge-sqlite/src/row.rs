//! Conversion between SQLite's columns and the rows of core.

use crate::connection::failure::not_understood;
use crate::sql::FLOW_COLUMN_COUNT;
use bytes::Bytes;
use rusqlite::Row;
use rusqlite::types::{FromSql, Type};
use selvedge_core::outbox::{OutboxKind, OutboxName, OutboxRow};
use selvedge_core::rows::{HeldLease, KeyName, KeyRow, KeySubject, Payload};
use selvedge_core::{
    ClaimScope, Class, ClassId, Execution, ExecutionId, Flow, FlowId, LeaseId, Name, NamespaceId, Session,
    SessionId, Timestamp,
};
use selvedge_store::columns::{self, Fixed, FlowColumns, Moving};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use uuid::Uuid;

/// An execution, or the id of an unreadable one and the reason.
pub type Read = Result<Execution, (ExecutionId, String)>;

/// Reads the execution in a row that begins with `{columns}`.
pub fn execution(row: &Row<'_>) -> rusqlite::Result<Read> {
    let id = uuid(row, 0)?;
    let read = fixed(row, id)
        .and_then(|fixed| Ok((fixed, moving(row)?)))
        .map_err(|error| error.to_string())
        .and_then(|(fixed, moving)| columns::execution(fixed, moving));
    Ok(read.map_err(|why| (ExecutionId(id), why)))
}

fn fixed(row: &Row<'_>, id: Uuid) -> rusqlite::Result<Fixed> {
    Ok(Fixed {
        id,
        partition: row.get(1)?,
        namespace: row.get(2)?,
        class: row.get(3)?,
        flow: optional_uuid(row, 4)?,
        submitted_at: row.get(5)?,
        spec: row.get(6)?,
        wiring: row.get(26)?,
    })
}

fn moving(row: &Row<'_>) -> rusqlite::Result<Moving> {
    Ok(Moving {
        version: row.get(7)?,
        state: row.get(8)?,
        claim_priority: row.get(9)?,
        ready_order: row.get(10)?,
        epoch: row.get(11)?,
        due_kind: row.get(12)?,
        due_at: row.get(13)?,
        session: row.get(14)?,
        lease_id: optional_uuid(row, 15)?,
        until_at: row.get(16)?,
        started_at: row.get(17)?,
        ended_at: row.get(18)?,
        tags: row.get(19)?,
        detail: row.get(20)?,
        history: row.get(21)?,
        joined: row.get(22)?,
        suspension: row.get(23)?,
        held_by: row.get(24)?,
        gate: row.get(25)?,
    })
}

/// Reads the session in a row of `{session}`.
pub fn session(row: &Row<'_>) -> rusqlite::Result<Session> {
    Ok(Session {
        id: SessionId(row.get(0)?),
        worker: name(row, 2)?,
        instance: name(row, 3)?,
        ttl_ms: row.get(4)?,
        scope: ClaimScope {
            namespace: NamespaceId(row.get(1)?),
            lanes: json(row, 5, "lanes")?,
            kinds: match row.get_ref(6)?.data_type() {
                Type::Null => None,
                _ => Some(json(row, 6, "kinds")?),
            },
            capabilities: json(row, 7, "capabilities")?,
        },
        registered_at: time(row, 8)?,
        seen_at: time(row, 9)?,
        renewed_at: optional_time(row, 10)?,
        draining: row.get(11)?,
        life: row.get(12)?,
        detail: columns::session_detail(row.get::<_, Option<String>>(13)?.as_deref())
            .map_err(|why| not_understood(&format!("a session cannot be read: {why}")))?,
    })
}

/// Reads the flow in a row of `{flow}`.
pub fn flow(row: &Row<'_>) -> rusqlite::Result<Flow> {
    let mut columns = FlowColumns {
        id: uuid(row, 0)?,
        namespace: row.get(1)?,
        submitted_at: row.get(2)?,
        name: row.get(3)?,
        tags: row.get(4)?,
        spec: row.get(5)?,
        version: row.get(6)?,
        state: row.get(7)?,
        ended_at: row.get(8)?,
        delete_at: None,
        detail: row.get(9)?,
        counts: Default::default(),
    };
    for (column, count) in columns.counts.iter_mut().enumerate() {
        *count = row.get(FLOW_COLUMN_COUNT + column)?;
    }
    let id = FlowId(columns.id);
    columns.flow().map_err(|why| not_understood(&format!("flow {id} cannot be read: {why}")))
}

/// Reads the outbox row in a row of `{outbox}`, with tags that were read before.
pub fn outbox(row: &Row<'_>, tags: BTreeMap<String, String>) -> rusqlite::Result<OutboxRow> {
    let kind = row.get(1)?;
    let unknown = || not_understood(&format!("unknown kind {kind} in the outbox"));
    Ok(OutboxRow {
        name: OutboxName { id: uuid(row, 0)?, kind: OutboxKind::from_code(kind).ok_or_else(unknown)? },
        at: time(row, 2)?,
        position: row.get(3)?,
        namespace: NamespaceId(row.get(4)?),
        tags,
    })
}

/// Reads tags. The inner error says why they are unreadable.
pub fn tags(row: &Row<'_>, column: usize) -> rusqlite::Result<Result<BTreeMap<String, String>, String>> {
    let text: Option<String> = row.get(column)?;
    Ok(columns::tags(text.as_deref()))
}

/// Reads the class in (id, namespace, lane, kind, capabilities, pool).
pub fn class(row: &Row<'_>) -> rusqlite::Result<(ClassId, Class)> {
    let class = Class {
        namespace: NamespaceId(row.get(1)?),
        lane: name(row, 2)?,
        kind: name(row, 3)?,
        capabilities: json(row, 4, "capabilities")?,
        pool: row.get::<_, Option<i32>>(5)?.map(ClassId),
    };
    Ok((ClassId(row.get(0)?), class))
}

/// Reads the key in (execution, digest, answer, expires_at).
pub fn key(row: &Row<'_>, name: &KeyName) -> rusqlite::Result<KeyRow> {
    Ok(KeyRow {
        name: name.clone(),
        subject: optional_uuid(row, 0)?.map(|id| KeySubject::new(name.scope, id)),
        digest: row.get::<_, i64>(1)? as u64,
        answer: bytes(row, 2)?,
        expires_at: optional_time(row, 3)?,
    })
}

/// Reads a lease of `session` in (id, lease_id, epoch, until_at, detail). The inner error names an unreadable execution.
pub fn lease(row: &Row<'_>, session: &Session) -> rusqlite::Result<Result<HeldLease, (ExecutionId, String)>> {
    let execution = ExecutionId(uuid(row, 0)?);
    let detail: Option<String> = row.get(4)?;
    let cancel_requested = match columns::cancel_requested(detail.as_deref()) {
        Ok(requested) => requested,
        Err(why) => return Ok(Err((execution, why))),
    };
    Ok(Ok(HeldLease {
        execution,
        session: session.id,
        lease_id: LeaseId(uuid(row, 1)?),
        epoch: row.get(2)?,
        claimed_at: time(row, 3)?.minus_ms(session.ttl_ms),
        cancel_requested,
    }))
}

/// Reads a UUID.
pub fn uuid(row: &Row<'_>, column: usize) -> rusqlite::Result<Uuid> {
    row.get(column).map(Uuid::from_bytes)
}

/// Reads a UUID that may be null.
pub fn optional_uuid(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Uuid>> {
    optional(row, column, Uuid::from_bytes)
}

/// Reads a time.
pub fn time(row: &Row<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    row.get(column).map(Timestamp::from_micros)
}

/// Reads a time that may be null.
pub fn optional_time(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Timestamp>> {
    optional(row, column, Timestamp::from_micros)
}

/// Reads a payload.
pub fn bytes(row: &Row<'_>, column: usize) -> rusqlite::Result<Bytes> {
    row.get::<_, Vec<u8>>(column).map(Bytes::from)
}

/// Reads the size of a payload, and behind it the payload, which is null if it is larger than `limit`.
pub fn sized_payload(row: &Row<'_>, column: usize, limit: usize) -> rusqlite::Result<Payload> {
    match row.get::<_, i64>(column)? as usize {
        size if size > limit => Ok(Payload::Size(size)),
        _ => bytes(row, column + 1).map(Payload::Whole),
    }
}

/// Reads a payload that may be null.
pub fn optional_bytes(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Bytes>> {
    optional(row, column, |body: Vec<u8>| Bytes::from(body))
}

/// Reads a name.
pub fn name(row: &Row<'_>, column: usize) -> rusqlite::Result<Name> {
    Ok(Name::trusted(row.get_ref(column)?.as_str()?))
}

/// Reads a name that may be null.
pub fn optional_name(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Name>> {
    Ok(row.get_ref(column)?.as_str_or_null()?.map(Name::trusted))
}

fn optional<V: FromSql, T>(
    row: &Row<'_>,
    column: usize,
    make: impl FnOnce(V) -> T,
) -> rusqlite::Result<Option<T>> {
    Ok(row.get::<_, Option<V>>(column)?.map(make))
}

/// Serialises a value as JSON for a column.
pub fn to_json<T: Serialize + ?Sized>(value: &T) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}

/// Reads a value from a column of JSON; `title` names the column in errors.
pub fn json<T: DeserializeOwned>(row: &Row<'_>, column: usize, title: &str) -> rusqlite::Result<T> {
    let text = row.get_ref(column)?.as_str()?;
    serde_json::from_str(text).map_err(|error| not_understood(&format!("column {title}: {error}")))
}
