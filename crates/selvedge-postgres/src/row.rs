//! Conversion between Postgres's columns and the rows of core.

use crate::sql::FLOW_COLUMN_COUNT;
use bytes::{Bytes, BytesMut};
use selvedge_core::filter::ListPosition;
use selvedge_core::outbox::{OutboxKind, OutboxName, OutboxRow};
use selvedge_core::rows::{HeldLease, Payload, StoredRelative};
use selvedge_core::{
    ClaimScope, Class, ClassId, Execution, ExecutionId, Flow, LeaseId, Name, NamespaceId, Session, SessionId,
    Timestamp,
};
use selvedge_store::Error;
use selvedge_store::columns::{self, COUNTED, Fixed, FlowColumns, Moving, RelativeColumns};
use std::error::Error as StdError;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};
use uuid::Uuid;

/// Microseconds from the Unix epoch to 2000-01-01, the epoch of Postgres.
const POSTGRES_EPOCH_US: i64 = 946_684_800_000_000;

/// The first and the end of the times that a `timestamptz` holds beside its infinities, in microseconds since its epoch.
const POSTGRES_TIMES: std::ops::Range<i64> = -211_813_488_000_000_000..9_223_371_331_200_000_000;

/// A `timestamptz`, in microseconds since the Unix epoch. A time out of the range of Postgres is written as infinity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Micros(pub i64);

impl From<Timestamp> for Micros {
    fn from(time: Timestamp) -> Self {
        Micros(time.micros())
    }
}

impl ToSql for Micros {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        let micros = self.0.saturating_sub(POSTGRES_EPOCH_US);
        let infinity = if micros < 0 { i64::MIN } else { i64::MAX };
        (if POSTGRES_TIMES.contains(&micros) { micros } else { infinity }).to_sql(ty, out)
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
    /// Converts to core's type.
    pub fn time(self) -> Timestamp {
        Timestamp::from_micros(self.0)
    }
}

/// Reads the execution in a row that begins with `{columns}`. The error names an unreadable execution and the reason.
pub fn execution(row: &Row) -> Result<Execution, (ExecutionId, String)> {
    let id: Uuid = row.get(0);
    read(row, id).map_err(|detail| (ExecutionId(id), detail))
}

fn get<'a, T: FromSql<'a>>(row: &'a Row, index: usize) -> Result<T, String> {
    row.try_get(index).map_err(|error| error.to_string())
}

fn micros(row: &Row, index: usize) -> Result<i64, String> {
    get::<Micros>(row, index).map(|micros| micros.0)
}

fn some_micros(row: &Row, index: usize) -> Result<Option<i64>, String> {
    get::<Option<Micros>>(row, index).map(|some| some.map(|micros| micros.0))
}

fn read(row: &Row, id: Uuid) -> Result<Execution, String> {
    let fixed = Fixed {
        id,
        submitted_at: micros(row, 1)?,
        namespace: get(row, 2)?,
        class: get(row, 3)?,
        partition: get(row, 4)?,
        flow: get(row, 5)?,
        spec: get(row, 6)?,
        wiring: get(row, 7)?,
    };
    let moving = Moving {
        version: get(row, 8)?,
        epoch: get(row, 9)?,
        state: get(row, 10)?,
        claim_priority: get(row, 11)?,
        due_kind: get(row, 12)?,
        ready_order: micros(row, 13)?,
        due_at: some_micros(row, 14)?,
        session: get(row, 15)?,
        until_at: some_micros(row, 16)?,
        started_at: some_micros(row, 17)?,
        ended_at: some_micros(row, 18)?,
        lease_id: get(row, 19)?,
        tags: get(row, 20)?,
        detail: get(row, 21)?,
        history: get(row, 22)?,
        joined: get(row, 23)?,
        suspension: get(row, 24)?,
        held_by: get(row, 25)?,
        // The gate is known from its name.
        gate: None,
    };
    columns::execution(fixed, moving)
}

/// Reads the position in a list of the execution in a row that begins with `{columns}`.
pub fn place(row: &Row) -> ListPosition {
    ListPosition { submitted_at: row.get::<_, Micros>(1).time(), id: ExecutionId(row.get(0)) }
}

/// Reads the flow in a row of `{flow}`.
pub fn flow(row: &Row) -> Result<Flow, Error> {
    let id: Uuid = row.get(0);
    let read = || -> Result<Flow, String> {
        let mut counts = [0; COUNTED.len()];
        for (index, count) in counts.iter_mut().enumerate() {
            *count = get(row, FLOW_COLUMN_COUNT + index)?;
        }
        let columns = FlowColumns {
            id,
            submitted_at: micros(row, 1)?,
            namespace: get(row, 2)?,
            name: get(row, 3)?,
            tags: get(row, 4)?,
            spec: get(row, 5)?,
            version: get(row, 6)?,
            state: get(row, 7)?,
            ended_at: some_micros(row, 8)?,
            delete_at: None,
            detail: get(row, 9)?,
            counts,
        };
        columns.flow()
    };
    read().map_err(|detail| Error::Failed(format!("flow {id} cannot be read: {detail}")))
}

/// Reads the outbox row in a row of `{outbox}`.
pub fn outbox(row: &Row) -> Result<OutboxRow, Error> {
    let (id, code): (Uuid, i16) = (row.get(0), row.get(1));
    let unreadable = |detail| Error::Failed(format!("outbox {id} of kind {code} cannot be read: {detail}"));
    let kind = OutboxKind::from_code(code).ok_or_else(|| unreadable("the kind is unknown".to_owned()))?;
    Ok(OutboxRow {
        name: OutboxName { id, kind },
        at: row.get::<_, Micros>(2).time(),
        position: row.get::<_, i32>(3) as u32,
        namespace: NamespaceId(row.get(4)),
        tags: columns::tags(row.get::<_, Option<&str>>(5)).map_err(unreadable)?,
    })
}

/// Reads a payload.
pub fn payload(row: &Row, index: usize) -> Bytes {
    Bytes::copy_from_slice(row.get::<_, &[u8]>(index))
}

/// Reads the size of a payload, and behind it the payload, which is null if it is too large.
pub fn sized_payload(row: &Row, index: usize) -> Payload {
    match some_payload(row, index + 1) {
        Some(payload) => Payload::Whole(payload),
        None => Payload::Size(row.get::<_, i32>(index) as usize),
    }
}

/// Reads a payload that may be null.
pub fn some_payload(row: &Row, index: usize) -> Option<Bytes> {
    row.get::<_, Option<&[u8]>>(index).map(Bytes::copy_from_slice)
}

/// Reads the session in a row of `{session}`.
pub fn session(row: &Row) -> Result<Session, Error> {
    let name = |text: &str| Name::trusted(text);
    let names = |list: Vec<&str>| list.into_iter().map(Name::trusted).collect::<Vec<Name>>();
    let detail = columns::session_detail(row.get::<_, Option<&str>>(13));
    Ok(Session {
        id: SessionId(row.get(0)),
        worker: name(row.get(2)),
        instance: name(row.get(3)),
        ttl_ms: row.get(4),
        scope: ClaimScope {
            namespace: NamespaceId(row.get(1)),
            lanes: names(row.get(5)),
            kinds: row.get::<_, Option<Vec<&str>>>(6).map(names),
            capabilities: names(row.get(7)).into_iter().collect(),
        },
        registered_at: row.get::<_, Micros>(8).time(),
        seen_at: row.get::<_, Micros>(9).time(),
        renewed_at: row.get::<_, Option<Micros>>(10).map(Micros::time),
        draining: row.get(11),
        life: row.get::<_, i32>(12) as u32,
        detail: detail.map_err(|why| Error::Failed(format!("a session cannot be read: {why}")))?,
    })
}

/// Reads the lease in a row of `leases/list`. The error names an unreadable execution and the reason.
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

/// Reads the class in a row of `classes/insert` or `classes/list`.
pub fn class(row: &Row) -> (ClassId, Class) {
    let class = Class {
        namespace: NamespaceId(row.get(1)),
        lane: Name::trusted(row.get(2)),
        kind: Name::trusted(row.get(3)),
        capabilities: row.get::<_, Vec<&str>>(4).into_iter().map(Name::trusted).collect(),
        pool: row.get::<_, Option<i32>>(5).map(ClassId),
    };
    (ClassId(row.get(0)), class)
}

/// Reads the relative in a row of `executions/read_relatives`. The error names an unreadable execution and the reason.
/// `limit` is the size up to which it was read.
pub fn relative(row: &Row, limit: usize) -> Result<StoredRelative, (ExecutionId, String)> {
    let columns = RelativeColumns {
        id: row.get(0),
        spec: row.get(1),
        state: row.get(2),
        bytes: row.get::<_, i32>(3) as usize,
        detail: row.get(4),
        result: some_payload(row, 5),
    };
    let id = ExecutionId(columns.id);
    columns::relative(columns, limit).map_err(|error| (id, error))
}
