//! The secret of the store.

use crate::PostgresStore;
use async_trait::async_trait;
use selvedge_store::{Error, RootSecret, SecretPlace, SecretStore};

impl PostgresStore {
    /// Two statements: the first waits for another server that stores a secret, the second sees the committed one.
    async fn keep_secret(&self, new: &[u8]) -> Result<Vec<u8>, Error> {
        let insert = "insert into kept_secret (secret) values ($1) on conflict do nothing";
        self.query(insert, &[&new]).await?;
        let rows = self.query("select secret from kept_secret where single", &[]).await?;
        let row = rows.first().ok_or_else(|| Error::Failed("the kept secret is not there".into()))?;
        Ok(row.get(0))
    }
}

#[async_trait]
impl SecretStore for PostgresStore {
    async fn root_secret(&self, new: &[u8]) -> Result<RootSecret, Error> {
        let bytes = self.meter.measure("root_secret", self.keep_secret(new)).await?;
        Ok(RootSecret { bytes, place: SecretPlace::Store })
    }
}
