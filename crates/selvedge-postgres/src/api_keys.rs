//! API keys: read, loaded and saved.

use crate::connection::pipeline::Parameters;
use crate::row::Micros;
use crate::save::{Saving, column};
use crate::{PostgresStore, sql};
use selvedge_core::api_key::{ApiKey, ApiKeyId, KeyDigest};
use selvedge_core::{Changes, Name, Role, Rows, Timestamp};
use selvedge_store::Error;
use tokio_postgres::Row;
use uuid::Uuid;

impl PostgresStore {
    /// Returns the key with this digest, and the time.
    pub(crate) async fn find_api_key(
        &self,
        digest: &KeyDigest,
    ) -> Result<Option<(ApiKey, Timestamp)>, Error> {
        let rows = self.query(&sql::API_KEYS_FIND, &[&&digest.0[..]]).await?;
        let with_time = |row| Ok((api_key(row)?, row.get::<_, Micros>(9).time()));
        rows.first().map(with_time).transpose()
    }

    /// Returns a page of the keys, newest first.
    pub(crate) async fn list_api_keys(
        &self,
        after: Option<ApiKeyId>,
        limit: u32,
    ) -> Result<Vec<ApiKey>, Error> {
        let after = after.map_or(Uuid::max(), |after| after.0);
        self.query(&sql::API_KEYS_LIST, &[&after, &i64::from(limit)]).await?.iter().map(api_key).collect()
    }

    pub(crate) async fn record_use_of_api_keys(&self, ids: &[ApiKeyId]) -> Result<(), Error> {
        let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
        self.execute(&sql::API_KEYS_TOUCH, &[&ids]).await.map(drop)
    }
}

/// Returns the parameters of `api_keys/lock`.
pub fn ids(ids: &[ApiKeyId]) -> Parameters<'static> {
    vec![Box::new(ids.iter().map(|id| id.0).collect::<Vec<Uuid>>())]
}

/// Adds keys to the rows.
pub fn gather(answer: &[Row], rows: &mut Rows) -> Result<(), Error> {
    for row in answer {
        rows.api_keys.push(api_key(row)?);
    }
    Ok(())
}

pub fn save<'a>(changes: &'a Changes, saving: &mut Saving<'a>) {
    saving.rows(&changes.api_keys, &sql::API_KEYS_UPSERT, |keys| {
        vec![
            column(keys, |key| key.id.0),
            column(keys, |key| key.digest.0.to_vec()),
            column(keys, |key| key.name.as_str()),
            column(keys, |key| key.role.as_str()),
            column(keys, ApiKey::encode_namespaces),
            column(keys, |key| Micros::from(key.created_at)),
            column(keys, |key| key.expires_at.map(Micros::from)),
            column(keys, |key| key.last_used_at.map(Micros::from)),
            column(keys, |key| key.revoked_at.map(Micros::from)),
        ]
    });
}

/// Reads the key in a row of `{api_key}`.
fn api_key(row: &Row) -> Result<ApiKey, Error> {
    let id = ApiKeyId(row.get(0));
    let unreadable = |detail: String| Error::Failed(format!("API key {id} cannot be read: {detail}"));
    let digest: &[u8] = row.get(1);
    let (role, namespaces): (&str, &str) = (row.get(3), row.get(4));
    Ok(ApiKey {
        id,
        digest: KeyDigest(digest.try_into().map_err(|_| unreadable("its digest is too short".into()))?),
        name: Name::trusted(row.get(2)),
        role: Role::parse(role).ok_or_else(|| unreadable(format!("unknown role {role}")))?,
        namespaces: ApiKey::decode_namespaces(namespaces).map_err(unreadable)?,
        created_at: row.get::<_, Micros>(5).time(),
        expires_at: row.get::<_, Option<Micros>>(6).map(Micros::time),
        last_used_at: row.get::<_, Option<Micros>>(7).map(Micros::time),
        revoked_at: row.get::<_, Option<Micros>>(8).map(Micros::time),
    })
}
