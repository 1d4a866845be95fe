//! Keys under which executions and flows are submitted, and the answers of operations.

use crate::PostgresStore;
use crate::kinds::{Asking, Saving, collect};
use crate::sql::{Micros, array, column, columns, payload, statements};
use async_trait::async_trait;
use selvedge_core::rows::{KeyName, KeyRow, KeyScope, KeySubject};
use selvedge_core::{Name, NamespaceId};
use selvedge_store::{Error, KeyStore};
use tokio_postgres::Row;
use uuid::Uuid;

statements! {
    with {
        key: key::list_of("keys"),
        key_columns: key::list(),
        key_types: key::types(1),
    }
    DELETE = "keys/delete";
    DELETE_EXPIRED = "keys/delete_expired";
    INSERT = "keys/insert";
    READ = "keys/read";
}

columns! {
    key<'a> of row: &'a KeyRow {
        namespace: i32 = row.name.namespace.0,
        scope: i16 = row.name.scope.code(),
        key: &'a str = row.name.key.as_str(),
        subject: Option<Uuid> = row.subject.map(|subject| subject.id()),
        digest: i64 = row.digest as i64,
        answer: &'a [u8] = row.answer.as_ref(),
        expires_at: Option<Micros> = row.expires_at.map(Micros::from),
    }
}

fn decode(row: &Row) -> Result<KeyRow, Error> {
    use key::AT;
    let code: i16 = row.get(AT.scope);
    let scope =
        KeyScope::from_code(code).ok_or_else(|| Error::Failed(format!("keys: unknown scope {code}")))?;
    Ok(KeyRow {
        name: KeyName {
            namespace: NamespaceId(row.get(AT.namespace)),
            scope,
            key: Name::trusted(row.get(AT.key)),
        },
        subject: row.get::<_, Option<Uuid>>(AT.subject).map(|id| KeySubject::new(scope, id)),
        digest: row.get::<_, i64>(AT.digest) as u64,
        answer: payload(row, AT.answer),
        expires_at: row.get::<_, Option<Micros>>(AT.expires_at).map(Micros::time),
    })
}

pub fn read(asking: &mut Asking<'_>) {
    let names = |names: &[KeyName]| {
        vec![
            array(names, |name| name.namespace.0),
            array(names, |name| name.scope.code()),
            array(names, |name| name.key.to_string()),
        ]
    };
    asking.read(&asking.needs.keys, &READ, names, collect(decode, |rows| &mut rows.keys));
}

pub fn save(saving: &mut Saving<'_>) {
    let keys = &saving.changes.keys;
    saving.rows(&keys.removed, &DELETE, |removed| {
        vec![
            column(removed, |(name, _)| name.namespace.0),
            column(removed, |(name, _)| name.scope.code()),
            column(removed, |(name, _)| name.key.as_str()),
            column(removed, |(_, subject)| subject.map(|subject| subject.id())),
        ]
    });
    saving.rows(&keys.written, &INSERT, key::arrays);
}

#[async_trait]
impl KeyStore for PostgresStore {
    async fn delete_expired_keys(&self, limit: u32) -> Result<u64, Error> {
        self.meter.measure("delete_expired_keys", self.execute(&DELETE_EXPIRED, &[&i64::from(limit)])).await
    }
}
