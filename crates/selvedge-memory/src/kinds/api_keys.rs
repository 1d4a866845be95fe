//! API keys.

use crate::MemoryStore;
use crate::kinds::Kind;
use async_trait::async_trait;
use selvedge_core::Timestamp;
use selvedge_core::api_key::{ApiKey, ApiKeyId, KeyDigest};
use selvedge_store::{ApiKeyStore, Error};

pub(crate) const KIND: Kind = Kind {
    load: |tables, needs, rows| {
        rows.api_keys.extend(needs.api_keys.keys().filter_map(|id| tables.api_keys.get(id).cloned()));
    },
    save: |tables, changes, _| {
        for key in std::mem::take(&mut changes.api_keys) {
            let known = tables.api_keys.entry(key.id).or_insert_with(|| key.clone());
            (known.revoked_at, known.namespaces) = (key.revoked_at, key.namespaces);
        }
    },
    ..Kind::EMPTY
};

#[async_trait]
impl ApiKeyStore for MemoryStore {
    async fn api_key(&self, digest: &KeyDigest) -> Result<Option<(ApiKey, Timestamp)>, Error> {
        self.read("api_key", |tables, now| {
            let mut keys = tables.api_keys.values();
            keys.find(|key| key.digest == *digest).map(|key| (key.clone(), now))
        })
        .await
    }

    async fn api_keys(&self, after: Option<ApiKeyId>, limit: u32) -> Result<Vec<ApiKey>, Error> {
        self.read("api_keys", |tables, _| {
            let keys = tables.api_keys.values().rev();
            let older = keys.filter(|key| after.is_none_or(|after| key.id < after));
            older.take(limit as usize).cloned().collect()
        })
        .await
    }

    async fn touch_api_keys(&self, ids: &[ApiKeyId]) -> Result<(), Error> {
        self.change("touch_api_keys", |tables, now| {
            for id in ids {
                if let Some(key) = tables.api_keys.get_mut(id) {
                    key.last_used_at = key.last_used_at.max(Some(now));
                }
            }
        })
        .await
    }
}
