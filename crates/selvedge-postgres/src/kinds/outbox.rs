//! The outbox: transitions that a committed transaction owes to other rows.

use super::due::START;
use crate::PostgresStore;
use crate::kinds::{Asking, Saving, collect};
use crate::read::{scanned_tags, scope_parameters};
use crate::sql::{Micros, array, columns, statements};
use async_trait::async_trait;
use selvedge_core::outbox::{OutboxKind, OutboxName, OutboxRow};
use selvedge_core::{NamespaceId, Timestamp};
use selvedge_store::{Error, OutboxReads, ReconcilerScope, columns as stored};
use std::collections::BTreeMap;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

statements! {
    with {
        outbox: outbox::list_of("outbox"),
        outbox_columns: outbox::list(),
        outbox_types: outbox::types(1),
    }
    DELETE = "outbox/delete";
    LIST_STALE = "outbox/list_stale";
    LOCK = "outbox/lock";
    UPSERT = "outbox/upsert";
}

columns! {
    outbox<'a> of row: &'a OutboxRow {
        id: Uuid = row.name.id,
        kind: i16 = row.name.kind.code(),
        at: Micros = row.at.into(),
        position: i32 = row.position as i32,
        namespace: i32 = row.namespace.0,
        tags: Option<String> = (!row.tags.is_empty())
            .then(|| serde_json::to_string(&row.tags).expect("tags always serialise")),
    }
}

fn decode(row: &Row) -> Result<OutboxRow, Error> {
    use outbox::AT;
    let (id, code): (Uuid, i16) = (row.get(AT.id), row.get(AT.kind));
    let unreadable = |detail| Error::Failed(format!("outbox {id} of kind {code} cannot be read: {detail}"));
    let kind = OutboxKind::from_code(code).ok_or_else(|| unreadable("the kind is unknown".to_owned()))?;
    let tags = stored::tags(row.get::<_, Option<&str>>(AT.tags)).map_err(unreadable)?;
    Ok(with_tags(row, kind, tags))
}

fn with_tags(row: &Row, kind: OutboxKind, tags: BTreeMap<String, String>) -> OutboxRow {
    use outbox::AT;
    OutboxRow {
        name: OutboxName { id: row.get(AT.id), kind },
        at: row.get::<_, Micros>(AT.at).time(),
        position: row.get::<_, i32>(AT.position) as u32,
        namespace: NamespaceId(row.get(AT.namespace)),
        tags,
    }
}

pub fn lock(asking: &mut Asking<'_>) {
    let names =
        |names: &[OutboxName]| vec![array(names, |name| name.id), array(names, |name| name.kind.code())];
    asking.lock(&asking.needs.outbox, &LOCK, names, collect(decode, |rows| &mut rows.outbox));
}

pub fn save(saving: &mut Saving<'_>) {
    let outbox = &saving.changes.outbox;
    saving.rows(&outbox.removed, &DELETE, |names| {
        vec![array(names, |name| name.id), array(names, |name| name.kind.code())]
    });
    saving.rows(&outbox.written, &UPSERT, outbox::arrays);
}

#[async_trait]
impl OutboxReads for PostgresStore {
    async fn outbox(
        &self,
        scope: &ReconcilerScope,
        kind: OutboxKind,
        stale_ms: i64,
        after: Option<(Timestamp, Uuid)>,
        limit: u32,
    ) -> Result<Vec<OutboxRow>, Error> {
        let (at, id) = after.map_or(START, |(at, id)| (at.into(), id));
        let (namespace, tag) = scope_parameters(scope);
        let parameters: [&(dyn ToSql + Sync); 7] =
            [&kind.code(), &stale_ms, &at, &id, &i64::from(limit), &namespace, &tag];
        let rows = self.query_in_background(&LIST_STALE, &parameters);
        let rows = self.meter.measure("outbox", rows).await?;
        Ok(rows.iter().map(|row| with_tags(row, kind, scanned_tags(row, outbox::AT.tags))).collect())
    }
}
