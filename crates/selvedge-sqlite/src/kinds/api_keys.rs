//! API keys.

use crate::SqliteStore;
use crate::connection::failure::not_understood;
use crate::kinds::{Kind, Saving};
use crate::row;
use crate::sql::{self, columns, statements};
use async_trait::async_trait;
use rusqlite::{Connection, Row, params};
use selvedge_core::api_key::{ApiKey, ApiKeyId, KeyDigest};
use selvedge_core::{Changes, Needs, Role, Rows, Timestamp};
use selvedge_store::{ApiKeyStore, Error};
use uuid::Uuid;

pub(crate) const KIND: Kind =
    Kind { columns: &[("api_key", api_key::LIST)], statements: STATEMENTS, load, save, ..Kind::EMPTY };

statements! {
    API_KEYS_FIND = "api_keys/find";
    API_KEYS_LIST = "api_keys/list";
    API_KEYS_READ = "api_keys/read";
    API_KEYS_TOUCH = "api_keys/touch";
    API_KEYS_UPSERT = "api_keys/upsert";
}

columns! {
    api_key of key: &ApiKey {
        id = key.id.0.as_bytes(),
        digest = key.digest.0,
        name = key.name.as_str(),
        role = key.role.as_str(),
        namespaces = key.encode_namespaces(),
        created_at = key.created_at.micros(),
        expires_at = key.expires_at.map(Timestamp::micros),
        last_used_at = key.last_used_at.map(Timestamp::micros),
        revoked_at = key.revoked_at.map(Timestamp::micros),
    }
}

fn decode(found: &Row<'_>) -> rusqlite::Result<ApiKey> {
    use api_key::AT;
    let id = ApiKeyId(row::uuid(found, AT.id)?);
    let (role, namespaces) = (found.get::<_, String>(AT.role)?, found.get::<_, String>(AT.namespaces)?);
    let role =
        Role::parse(&role).ok_or_else(|| not_understood(&format!("API key {id}: unknown role {role}")))?;
    let namespaces = ApiKey::decode_namespaces(&namespaces)
        .map_err(|error| not_understood(&format!("API key {id}: namespaces: {error}")))?;
    Ok(ApiKey {
        id,
        digest: KeyDigest(found.get(AT.digest)?),
        name: row::name(found, AT.name)?,
        role,
        namespaces,
        created_at: row::time(found, AT.created_at)?,
        expires_at: row::optional_time(found, AT.expires_at)?,
        last_used_at: row::optional_time(found, AT.last_used_at)?,
        revoked_at: row::optional_time(found, AT.revoked_at)?,
    })
}

/// Returns a page of the keys, newest first.
pub fn list(connection: &Connection, after: Option<ApiKeyId>, limit: u32) -> rusqlite::Result<Vec<ApiKey>> {
    let after = after.map_or(Uuid::max(), |after| after.0);
    sql::rows(connection, &API_KEYS_LIST, params![after.as_bytes(), limit], decode)
}

fn load(connection: &Connection, needs: &Needs, rows: &mut Rows) -> rusqlite::Result<()> {
    for id in needs.api_keys.keys() {
        rows.api_keys.extend(sql::row(connection, &API_KEYS_READ, [id.0.as_bytes()], decode)?);
    }
    Ok(())
}

fn save(connection: &Connection, changes: &Changes, _: &mut Saving) -> rusqlite::Result<Option<String>> {
    for key in &changes.api_keys {
        api_key::write(connection, &API_KEYS_UPSERT, key, &[])?;
    }
    Ok(None)
}

#[async_trait]
impl ApiKeyStore for SqliteStore {
    async fn api_key(&self, digest: &KeyDigest) -> Result<Option<(ApiKey, Timestamp)>, Error> {
        let (digest, now) = (*digest, self.clock.now());
        let find = move |connection: &_| sql::row(connection, &API_KEYS_FIND, [&digest.0[..]], decode);
        Ok(self.read("api_key", find).await?.map(|key| (key, now)))
    }

    async fn api_keys(&self, after: Option<ApiKeyId>, limit: u32) -> Result<Vec<ApiKey>, Error> {
        self.read("api_keys", move |connection| list(connection, after, limit)).await
    }

    async fn touch_api_keys(&self, ids: &[ApiKeyId]) -> Result<(), Error> {
        let ids = ids.to_vec();
        self.write("touch_api_keys", move |connection, now| {
            for id in ids {
                sql::execute(connection, &API_KEYS_TOUCH, params![id.0.as_bytes(), now.micros()])?;
            }
            Ok(())
        })
        .await
    }
}
