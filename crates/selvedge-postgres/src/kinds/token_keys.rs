//! Keys that sign tokens. They belong to no execution.

use crate::PostgresStore;
use crate::kinds::{Asking, Saving, collect};
use crate::sql::{Micros, array, columns, statements};
use async_trait::async_trait;
use selvedge_core::token::{TokenKey, TokenKeyId};
use selvedge_store::{Error, TokenKeyReads};
use tokio_postgres::Row;

statements! {
    with {
        token_key: token_key::list(),
        token_key_types: token_key::types(1),
    }
    DELETE = "token_keys/delete";
    LIST = "token_keys/list";
    UPSERT = "token_keys/upsert";
}

columns! {
    token_key<'a> of key: &'a TokenKey {
        id: i64 = key.id.0,
        fingerprint: i64 = key.fingerprint,
        created_at: Micros = key.created_at.into(),
        retires_at: Option<Micros> = key.retires_at.map(Micros::from),
    }
}

fn decode(row: &Row) -> Result<TokenKey, Error> {
    use token_key::AT;
    Ok(TokenKey {
        id: TokenKeyId(row.get(AT.id)),
        fingerprint: row.get(AT.fingerprint),
        created_at: row.get::<_, Micros>(AT.created_at).time(),
        retires_at: row.get::<_, Option<Micros>>(AT.retires_at).map(Micros::time),
    })
}

pub fn read(asking: &mut Asking<'_>) {
    if asking.needs.queries.token_keys {
        asking.add(&LIST, vec![], collect(decode, |rows| &mut rows.token_keys));
    }
}

pub fn save(saving: &mut Saving<'_>) {
    let keys = &saving.changes.token_keys;
    saving.rows(&keys.written, &UPSERT, token_key::arrays);
    saving.rows(&keys.removed, &DELETE, |ids| vec![array(ids, |id| id.0)]);
}

#[async_trait]
impl TokenKeyReads for PostgresStore {
    async fn token_keys(&self) -> Result<Vec<TokenKey>, Error> {
        self.all("token_keys", &LIST, &[], decode).await
    }
}
