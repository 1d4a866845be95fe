//! API keys.

use crate::PostgresStore;
use crate::kinds::{Asking, Saving, collect};
use crate::sql::{Micros, array, columns, statements};
use async_trait::async_trait;
use selvedge_core::api_key::{ApiKey, ApiKeyId, KeyDigest};
use selvedge_core::{Name, Role, Timestamp};
use selvedge_store::{ApiKeyStore, Error};
use tokio_postgres::Row;
use uuid::Uuid;

statements! {
    with {
        api_key: api_key::list(),
        api_key_types: api_key::types(1),
    }
    FIND = "api_keys/find";
    LIST = "api_keys/list";
    LOCK = "api_keys/lock";
    TOUCH = "api_keys/touch";
    UPSERT = "api_keys/upsert";
}

columns! {
    api_key<'a> of key: &'a ApiKey {
        id: Uuid = key.id.0,
        digest: &'a [u8] = &key.digest.0,
        name: &'a str = key.name.as_str(),
        role: &'a str = key.role.as_str(),
        namespaces: String = key.encode_namespaces(),
        created_at: Micros = key.created_at.into(),
        expires_at: Option<Micros> = key.expires_at.map(Micros::from),
        last_used_at: Option<Micros> = key.last_used_at.map(Micros::from),
        revoked_at: Option<Micros> = key.revoked_at.map(Micros::from),
    }
}

fn decode(row: &Row) -> Result<ApiKey, Error> {
    use api_key::AT;
    let id = ApiKeyId(row.get(AT.id));
    let unreadable = |detail: String| Error::Failed(format!("API key {id} cannot be read: {detail}"));
    let digest: &[u8] = row.get(AT.digest);
    let role: &str = row.get(AT.role);
    Ok(ApiKey {
        id,
        digest: KeyDigest(digest.try_into().map_err(|_| unreadable("its digest is too short".into()))?),
        name: Name::trusted(row.get(AT.name)),
        role: Role::parse(role).ok_or_else(|| unreadable(format!("unknown role {role}")))?,
        namespaces: ApiKey::decode_namespaces(row.get(AT.namespaces)).map_err(unreadable)?,
        created_at: row.get::<_, Micros>(AT.created_at).time(),
        expires_at: row.get::<_, Option<Micros>>(AT.expires_at).map(Micros::time),
        last_used_at: row.get::<_, Option<Micros>>(AT.last_used_at).map(Micros::time),
        revoked_at: row.get::<_, Option<Micros>>(AT.revoked_at).map(Micros::time),
    })
}

pub fn lock(asking: &mut Asking<'_>) {
    let gather = collect(decode, |rows| &mut rows.api_keys);
    asking.lock(&asking.needs.api_keys, &LOCK, |ids| vec![array(ids, |id| id.0)], gather);
}

pub fn save(saving: &mut Saving<'_>) {
    saving.rows(&saving.changes.api_keys, &UPSERT, api_key::arrays);
}

#[async_trait]
impl ApiKeyStore for PostgresStore {
    async fn api_key(&self, digest: &KeyDigest) -> Result<Option<(ApiKey, Timestamp)>, Error> {
        let with_time = |row: &Row| Ok((decode(row)?, row.get::<_, Micros>(api_key::COUNT).time()));
        self.first("api_key", &FIND, &[&&digest.0[..]], with_time).await
    }

    async fn api_keys(&self, after: Option<ApiKeyId>, limit: u32) -> Result<Vec<ApiKey>, Error> {
        let after = after.map_or(Uuid::max(), |after| after.0);
        self.all("api_keys", &LIST, &[&after, &i64::from(limit)], decode).await
    }

    async fn touch_api_keys(&self, ids: &[ApiKeyId]) -> Result<(), Error> {
        let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
        self.meter.measure("touch_api_keys", self.execute(&TOUCH, &[&ids])).await.map(drop)
    }
}
