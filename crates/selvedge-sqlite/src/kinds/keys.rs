//! Keys: idempotency keys and keys of operations.

use crate::SqliteStore;
use crate::kinds::{Kind, Saving};
use crate::row;
use crate::sql::{self, columns, statements};
use async_trait::async_trait;
use rusqlite::{Connection, Row, ToSql, params};
use selvedge_core::rows::{KeyName, KeyRow, KeySubject};
use selvedge_core::{Changes, Needs, Rows, Timestamp};
use selvedge_store::{Error, KeyStore};

pub(crate) const KIND: Kind = Kind {
    columns: &[("key", key::LIST)],
    statements: STATEMENTS,
    load,
    save,
    delete_rest: &[&KEYS_DELETE_REST],
    ..Kind::EMPTY
};

statements! {
    KEYS_DELETE = "keys/delete";
    KEYS_DELETE_EXPIRED = "keys/delete_expired";
    KEYS_DELETE_REST = "keys/delete_rest";
    KEYS_INSERT = "keys/insert";
    KEYS_READ = "keys/read";
}

// Behind the name: the namespace, the scope and the key.
columns! {
    key of key: &KeyRow {
        subject = key.subject.map(|subject| subject.id().into_bytes()),
        digest = key.digest as i64,
        answer = &key.answer[..],
        expires_at = key.expires_at.map(Timestamp::micros),
    }
}

fn decode(found: &Row<'_>, name: &KeyName) -> rusqlite::Result<KeyRow> {
    use key::AT;
    Ok(KeyRow {
        name: name.clone(),
        subject: row::optional_uuid(found, AT.subject)?.map(|id| KeySubject::new(name.scope, id)),
        digest: found.get::<_, i64>(AT.digest)? as u64,
        answer: row::bytes(found, AT.answer)?,
        expires_at: row::optional_time(found, AT.expires_at)?,
    })
}

fn load(connection: &Connection, needs: &Needs, rows: &mut Rows) -> rusqlite::Result<()> {
    for name in needs.keys.keys() {
        let parameters = params![name.namespace.0, name.scope.code(), name.key.as_str()];
        rows.keys.extend(sql::row(connection, &KEYS_READ, parameters, |found| decode(found, name))?);
    }
    Ok(())
}

fn save(connection: &Connection, changes: &Changes, _: &mut Saving) -> rusqlite::Result<Option<String>> {
    for (name, subject) in &changes.keys.removed {
        let subject = subject.map(|subject| subject.id().into_bytes());
        let parameters = params![name.namespace.0, name.scope.code(), name.key.as_str(), subject];
        sql::execute(connection, &KEYS_DELETE, parameters)?;
    }
    if changes.keys.written.is_empty() {
        return Ok(None);
    }
    let mut insert = connection.prepare_cached(&KEYS_INSERT)?;
    for row in &changes.keys.written {
        let (namespace, scope, key) = (row.name.namespace.0, row.name.scope.code(), row.name.key.as_str());
        let name: &[&dyn ToSql] = &[&namespace, &scope, &key];
        if key::with(row, |values| insert.execute(sql::joined(&[name, values])))? == 0 {
            return Ok(Some(format!("key {key:?} is taken")));
        }
    }
    Ok(None)
}

#[async_trait]
impl KeyStore for SqliteStore {
    async fn delete_expired_keys(&self, limit: u32) -> Result<u64, Error> {
        self.write("delete_expired_keys", move |connection, now| {
            sql::execute(connection, &KEYS_DELETE_EXPIRED, params![now.micros(), limit])
        })
        .await
    }
}
