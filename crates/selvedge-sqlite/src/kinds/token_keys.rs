//! Keys of waitpoint tokens.

use crate::SqliteStore;
use crate::kinds::{Kind, Saving};
use crate::row;
use crate::sql::{self, columns, statements};
use async_trait::async_trait;
use rusqlite::{Connection, Row};
use selvedge_core::token::{TokenKey, TokenKeyId};
use selvedge_core::{Changes, Needs, Rows, Timestamp};
use selvedge_store::{Error, TokenKeyReads};

pub(crate) const KIND: Kind =
    Kind { columns: &[("token_key", token_key::LIST)], statements: STATEMENTS, load, save, ..Kind::EMPTY };

statements! {
    TOKEN_KEYS_DELETE = "token_keys/delete";
    TOKEN_KEYS_LIST = "token_keys/list";
    TOKEN_KEYS_UPSERT = "token_keys/upsert";
}

columns! {
    token_key of key: &TokenKey {
        id = key.id.0,
        fingerprint = key.fingerprint,
        created_at = key.created_at.micros(),
        retires_at = key.retires_at.map(Timestamp::micros),
    }
}

fn decode(found: &Row<'_>) -> rusqlite::Result<TokenKey> {
    use token_key::AT;
    Ok(TokenKey {
        id: TokenKeyId(found.get(AT.id)?),
        fingerprint: found.get(AT.fingerprint)?,
        created_at: row::time(found, AT.created_at)?,
        retires_at: row::optional_time(found, AT.retires_at)?,
    })
}

fn load(connection: &Connection, needs: &Needs, rows: &mut Rows) -> rusqlite::Result<()> {
    if needs.queries.token_keys {
        rows.token_keys.extend(sql::rows(connection, &TOKEN_KEYS_LIST, (), decode)?);
    }
    Ok(())
}

fn save(connection: &Connection, changes: &Changes, _: &mut Saving) -> rusqlite::Result<Option<String>> {
    for key in &changes.token_keys.written {
        token_key::write(connection, &TOKEN_KEYS_UPSERT, key, &[])?;
    }
    for id in &changes.token_keys.removed {
        sql::execute(connection, &TOKEN_KEYS_DELETE, [id.0])?;
    }
    Ok(None)
}

#[async_trait]
impl TokenKeyReads for SqliteStore {
    async fn token_keys(&self) -> Result<Vec<TokenKey>, Error> {
        self.read("token_keys", |connection| sql::rows(connection, &TOKEN_KEYS_LIST, (), decode)).await
    }
}
