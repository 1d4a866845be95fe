//! The root secret.

use crate::MemoryStore;
use async_trait::async_trait;
use selvedge_store::{Error, RootSecret, SecretPlace, SecretStore};

#[async_trait]
impl SecretStore for MemoryStore {
    async fn root_secret(&self, new: &[u8]) -> Result<RootSecret, Error> {
        self.change("root_secret", |tables, _| RootSecret {
            bytes: tables.secret.get_or_insert_with(|| new.to_vec()).clone(),
            place: SecretPlace::Memory,
        })
        .await
    }
}
