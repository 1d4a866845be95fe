//! The announcements of servers whose reconcilers handle whole namespaces: shared advisory locks.
//!
//! A server holds one lock in a session of its own, for as long as it runs. The lock ends with the session, so a crash leaves
//! nothing behind, and nothing is written. The first key names the schema, the second one the namespace.

use crate::PostgresStore;
use crate::connection::failure;
use crate::sql::statements;
use selvedge_core::NamespaceId;
use selvedge_store::Error;
use std::time::Duration;
use tokio::time::timeout;
use tokio_postgres::Client;

statements! {
    LIST = "coverage/list";
}

/// Combined with the oid of the schema, the first key of the locks.
const COVERAGE_LOCK: u32 = 0x434f_5652;
/// The second key of a server that handles all namespaces. Ids of namespaces are positive.
pub const EVERY_NAMESPACE: i32 = -1;
/// The time to wait before connecting again.
const RECONNECT_DELAY: Duration = Duration::from_secs(1);

/// Returns the first key of the locks, given the oid of the schema.
pub fn key(schema: u32) -> u32 {
    schema ^ COVERAGE_LOCK
}

impl PostgresStore {
    /// The first key of the locks. The lower half of the writers' key is the oid of the schema.
    fn coverage_key(&self) -> u32 {
        key(self.writers_key as u32)
    }

    /// Holds the lock of a namespace, or of all. Returns only if this program has become too old to do the work.
    pub(crate) async fn hold_coverage(&self, namespace: Option<NamespaceId>) {
        let endpoint = self.endpoint.named("selvedge coverage");
        while self.fence.check().is_ok() {
            match endpoint.open(&self.settings).await {
                Ok((client, exchange)) => {
                    // Leaving this block drops both halves of the connection, which closes it.
                    tokio::select! {
                        _ended = exchange => {}
                        () = self.keep_lock(&client, namespace) => {}
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, "cannot announce the scope of the reconcilers; retrying")
                }
            }
            tokio::time::sleep(RECONNECT_DELAY).await;
        }
    }

    /// Takes the lock, and returns when the connection is lost or silent, or this program too old.
    async fn keep_lock(&self, client: &Client, namespace: Option<NamespaceId>) {
        let second = namespace.map_or(EVERY_NAMESPACE, |namespace| namespace.0);
        // Nobody takes the lock exclusively, so it is granted at once.
        let mut statement =
            format!("select pg_advisory_lock_shared({}, {second})", self.coverage_key() as i32);
        while self.fence.check().is_ok() {
            match timeout(self.settings.connect_timeout, client.batch_execute(&statement)).await {
                Ok(Ok(())) => tokio::time::sleep(self.settings.listen_check).await,
                Ok(Err(_)) | Err(_) => return,
            }
            // The answer shows that the session lives.
            "select 1".clone_into(&mut statement);
        }
    }

    /// Returns the namespaces whose locks are held; none stands for all.
    pub(crate) async fn list_coverage(&self) -> Result<Vec<Option<NamespaceId>>, Error> {
        let client = self.background.get().await?;
        let statement = client.prepare_cached(&LIST).await.map_err(failure)?;
        let rows = client.query(&statement, &[&i64::from(self.coverage_key())]).await.map_err(failure)?;
        let keys = rows.iter().map(|row| row.get::<_, i64>(0) as u32 as i32);
        Ok(keys.map(|key| (key != EVERY_NAMESPACE).then_some(NamespaceId(key))).collect())
    }
}
