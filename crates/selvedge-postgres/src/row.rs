//! Rows of Postgres and values of ours, both ways.

use bytes::{Bytes, BytesMut};
use selvedge_core::rows::HeldLease;
use selvedge_core::{
    Class, ClassId, Execution, ExecutionId, LeaseId, Name, NamespaceId, Scope, Session, SessionId, Timestamp,
};
use selvedge_store::columns::{self, Fixed, Moving};
use std::error::Error as StdError;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};
use uuid::Uuid;

/// Microseconds between the Unix epoch and 2000-01-01, which Postgres counts from.
const POSTGRES_EPOCH_US: i64 = 946_684_800_000_000;

/// A time in a statement: microseconds of the Unix epoch here, `timestamptz` there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Micros(pub i64);

impl From<Timestamp> for Micros {
    fn from(time: Timestamp) -> Self {
        Micros(time.micros())
    }
}

impl ToSql for Micros {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        self.0.saturating_sub(POSTGRES_EPOCH_US).to_sql(ty, out)
    }

    accepts!(TIMESTAMPTZ);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Micros {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        Ok(Micros(i64::from_sql(ty, raw)?.saturating_add(POSTGRES_EPOCH_US)))
    }

    accepts!(TIMESTAMPTZ);
}

impl Micros {
    /// The time.
    pub fn time(self) -> Timestamp {
        Timestamp::from_micros(self.0)
    }
}

/// The execution in a row that begins with `{columns}`, or its id and what is wrong with it.
pub fn execution(row: &Row) -> Result<Execution, (ExecutionId, String)> {
    let id: Uuid = row.get(0);
    read(row, id).map_err(|detail| (ExecutionId(id), detail))
}

fn read(row: &Row, id: Uuid) -> Result<Execution, String> {
    fn get<'a, T: FromSql<'a>>(row: &'a Row, index: usize) -> Result<T, String> {
        row.try_get(index).map_err(|error| error.to_string())
    }
    let micros = |index: usize| get::<Micros>(row, index).map(|micros| micros.0);
    let some_micros =
        |index: usize| get::<Option<Micros>>(row, index).map(|some| some.map(|micros| micros.0));
    let fixed = Fixed {
        id,
        submitted_at: micros(1)?,
        namespace: get(row, 2)?,
        class: get(row, 3)?,
        partition: get(row, 4)?,
        flow: get(row, 5)?,
        spec: get(row, 6)?,
    };
    let moving = Moving {
        version: get(row, 7)?,
        epoch: get(row, 8)?,
        state: get(row, 9)?,
        priority: get(row, 10)?,
        due_kind: get(row, 11)?,
        ready_order: micros(12)?,
        due_at: some_micros(13)?,
        session: get(row, 14)?,
        until_at: some_micros(15)?,
        started_at: some_micros(16)?,
        ended_at: some_micros(17)?,
        lease_id: get(row, 18)?,
        tags: get(row, 19)?,
        detail: get(row, 20)?,
        history: get(row, 21)?,
    };
    columns::execution(fixed, moving)
}

/// A payload column.
pub fn payload(row: &Row, index: usize) -> Bytes {
    Bytes::copy_from_slice(row.get::<_, &[u8]>(index))
}

/// A payload column that may be null.
pub fn some_payload(row: &Row, index: usize) -> Option<Bytes> {
    row.get::<_, Option<&[u8]>>(index).map(Bytes::copy_from_slice)
}

/// The session in a row of `{session}`.
pub fn session(row: &Row) -> Session {
    let name = |text: &str| Name::trusted(text);
    let names = |list: Vec<&str>| list.into_iter().map(Name::trusted).collect::<Vec<Name>>();
    Session {
        id: SessionId(row.get(0)),
        worker: name(row.get(2)),
        instance: name(row.get(3)),
        ttl_ms: row.get(4),
        scope: Scope {
            namespace: NamespaceId(row.get(1)),
            lanes: names(row.get(5)),
            kinds: row.get::<_, Option<Vec<&str>>>(6).map(names),
            capabilities: names(row.get(7)).into_iter().collect(),
        },
        registered_at: row.get::<_, Micros>(8).time(),
        seen_at: row.get::<_, Micros>(9).time(),
        renewed_at: row.get::<_, Option<Micros>>(10).map(Micros::time),
        draining: row.get(11),
    }
}

/// The lease in a row of `sessions_leases`.
pub fn held_lease(row: &Row) -> Result<HeldLease, (ExecutionId, String)> {
    let execution = ExecutionId(row.get(0));
    let ttl_ms: i64 = row.get(5);
    let cancel_requested =
        columns::cancel_requested(row.get::<_, Option<&str>>(6)).map_err(|detail| (execution, detail))?;
    Ok(HeldLease {
        execution,
        session: SessionId(row.get(1)),
        lease_id: LeaseId(row.get(2)),
        epoch: row.get::<_, i32>(3) as u32,
        claimed_at: row.get::<_, Micros>(4).time().minus_ms(ttl_ms),
        cancel_requested,
    })
}

/// The class in a row of `classes`.
pub fn class(row: &Row) -> (ClassId, Class) {
    let class = Class {
        namespace: NamespaceId(row.get(1)),
        lane: Name::trusted(row.get(2)),
        kind: Name::trusted(row.get(3)),
        capabilities: row.get::<_, Vec<&str>>(4).into_iter().map(Name::trusted).collect(),
    };
    (ClassId(row.get(0)), class)
}
