//! API keys: read, loaded and saved.

use crate::connection::failure::not_understood;
use crate::read::all;
use crate::{row, sql};
use rusqlite::{Connection, OptionalExtension, Row, params};
use selvedge_core::api_key::{ApiKey, ApiKeyId, KeyDigest};
use selvedge_core::{Changes, Needs, Role, Rows, Timestamp};
use uuid::Uuid;

/// Returns the key with this digest.
pub fn find(connection: &Connection, digest: &KeyDigest) -> rusqlite::Result<Option<ApiKey>> {
    connection.prepare_cached(&sql::API_KEYS_FIND)?.query_row([&digest.0[..]], api_key).optional()
}

/// Returns a page of the keys, newest first.
pub fn list(connection: &Connection, after: Option<ApiKeyId>, limit: u32) -> rusqlite::Result<Vec<ApiKey>> {
    let after = after.map_or(Uuid::max(), |after| after.0);
    all(connection, &sql::API_KEYS_LIST, params![after.as_bytes(), limit], api_key)
}

/// Records a use of keys.
pub fn touch(connection: &Connection, ids: &[ApiKeyId], now: Timestamp) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(&sql::API_KEYS_TOUCH)?;
    for id in ids {
        statement.execute(params![id.0.as_bytes(), now.micros()])?;
    }
    Ok(())
}

/// Loads the keys that `needs` names.
pub fn load(connection: &Connection, needs: &Needs, rows: &mut Rows) -> rusqlite::Result<()> {
    for id in needs.api_keys.keys() {
        rows.api_keys.extend(all(connection, &sql::API_KEYS_READ, [id.0.as_bytes()], api_key)?);
    }
    Ok(())
}

pub fn save(connection: &Connection, changes: &Changes) -> rusqlite::Result<()> {
    for key in &changes.api_keys {
        connection.prepare_cached(&sql::API_KEYS_UPSERT)?.execute(params![
            key.id.0.as_bytes(),
            key.digest.0,
            key.name.as_str(),
            key.role.as_str(),
            key.encode_namespaces(),
            key.created_at.micros(),
            key.expires_at.map(Timestamp::micros),
            key.last_used_at.map(Timestamp::micros),
            key.revoked_at.map(Timestamp::micros),
        ])?;
    }
    Ok(())
}

/// Reads the key in a row of `{api_key}`.
fn api_key(found: &Row<'_>) -> rusqlite::Result<ApiKey> {
    let id = ApiKeyId(row::uuid(found, 0)?);
    let (role, namespaces) = (found.get::<_, String>(3)?, found.get::<_, String>(4)?);
    let role =
        Role::parse(&role).ok_or_else(|| not_understood(&format!("API key {id}: unknown role {role}")))?;
    let namespaces = ApiKey::decode_namespaces(&namespaces)
        .map_err(|error| not_understood(&format!("API key {id}: namespaces: {error}")))?;
    Ok(ApiKey {
        id,
        digest: KeyDigest(found.get(1)?),
        name: row::name(found, 2)?,
        role,
        namespaces,
        created_at: row::time(found, 5)?,
        expires_at: row::optional_time(found, 6)?,
        last_used_at: row::optional_time(found, 7)?,
        revoked_at: row::optional_time(found, 8)?,
    })
}
