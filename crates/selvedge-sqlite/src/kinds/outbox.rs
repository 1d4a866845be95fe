//! The outbox: commands to other executions and flows that are not carried out yet.

use crate::SqliteStore;
use crate::connection::failure::not_understood;
use crate::kinds::{Kind, Saving, due};
use crate::row;
use crate::sql::{self, columns, statements};
use async_trait::async_trait;
use rusqlite::{Connection, Row, params};
use selvedge_core::outbox::{OutboxKind, OutboxName, OutboxRow};
use selvedge_core::{Changes, NamespaceId, Needs, Rows, Timestamp};
use selvedge_store::{Error, OutboxReads, ReconcilerScope};
use std::collections::BTreeMap;
use uuid::Uuid;

pub(crate) const KIND: Kind =
    Kind { columns: &[("outbox", outbox::LIST)], statements: STATEMENTS, load, save, ..Kind::EMPTY };

statements! {
    OUTBOX_DELETE = "outbox/delete";
    OUTBOX_FIND_OLDEST = "outbox/find_oldest";
    OUTBOX_LIST_STALE = "outbox/list_stale";
    OUTBOX_READ = "outbox/read";
    OUTBOX_UPSERT = "outbox/upsert";
}

columns! {
    outbox of row: &OutboxRow {
        id = row.name.id.as_bytes(),
        kind = row.name.kind.code(),
        at = row.at.micros(),
        position = row.position,
        namespace = row.namespace.0,
        tags = (!row.tags.is_empty()).then(|| crate::row::to_json(&row.tags)).transpose()?,
    }
}

/// Reads an outbox row, with tags that were read before.
fn decode(found: &Row<'_>, tags: BTreeMap<String, String>) -> rusqlite::Result<OutboxRow> {
    use outbox::AT;
    let kind = found.get(AT.kind)?;
    let unknown = || not_understood(&format!("unknown kind {kind} in the outbox"));
    let kind = OutboxKind::from_code(kind).ok_or_else(unknown)?;
    Ok(OutboxRow {
        name: OutboxName { id: row::uuid(found, AT.id)?, kind },
        at: row::time(found, AT.at)?,
        position: found.get(AT.position)?,
        namespace: NamespaceId(found.get(AT.namespace)?),
        tags,
    })
}

fn load(connection: &Connection, needs: &Needs, rows: &mut Rows) -> rusqlite::Result<()> {
    for name in needs.outbox.keys() {
        let decode = |found: &Row<'_>| {
            let tags = row::tags(found, outbox::AT.tags)?.map_err(|why| {
                not_understood(&format!("row {} of the outbox cannot be read: {why}", name.id))
            })?;
            decode(found, tags)
        };
        let parameters = params![name.id.as_bytes(), name.kind.code()];
        rows.outbox.extend(sql::row(connection, &OUTBOX_READ, parameters, decode)?);
    }
    Ok(())
}

fn save(connection: &Connection, changes: &Changes, _: &mut Saving) -> rusqlite::Result<Option<String>> {
    for name in &changes.outbox.removed {
        sql::execute(connection, &OUTBOX_DELETE, params![name.id.as_bytes(), name.kind.code()])?;
    }
    for row in &changes.outbox.written {
        outbox::write(connection, &OUTBOX_UPSERT, row, &[])?;
    }
    Ok(None)
}

#[async_trait]
impl OutboxReads for SqliteStore {
    async fn outbox(
        &self,
        scope: &ReconcilerScope,
        kind: OutboxKind,
        stale_ms: i64,
        after: Option<(Timestamp, Uuid)>,
        limit: u32,
    ) -> Result<Vec<OutboxRow>, Error> {
        let before = self.clock.now().minus_ms(stale_ms).micros();
        let scope = scope.clone();
        self.read("outbox", move |connection| {
            let (at, id) = after.map_or(due::START, |(at, id)| (at.micros(), id));
            let (only, tag) = (due::namespace(&scope), scope.tag_text());
            let parameters = params![kind.code(), before, at, id.as_bytes(), limit, only, tag];
            sql::rows(connection, &OUTBOX_LIST_STALE, parameters, |found| {
                // An unreadable row must not hide the others; loading it for a decision reports the error.
                decode(found, row::tags(found, outbox::AT.tags)?.unwrap_or_default())
            })
        })
        .await
    }
}
