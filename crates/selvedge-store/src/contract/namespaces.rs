//! Namespaces: their names, their settings and their deletion.

use crate::{Error, NamespaceSettings};
use async_trait::async_trait;
use selvedge_core::{Name, NamespaceId};

#[async_trait]
pub trait NamespaceStore: Send + Sync {
    /// Returns the id of a namespace, which is created if it does not exist. One that was deleted gets a name that no caller can
    /// choose ([`is_retired`](crate::is_retired)), and the name gets a new id: rows of the deleted namespace stay apart.
    async fn namespace(&self, name: &Name) -> Result<NamespaceId, Error>;
    /// Returns the id of the namespace with this name, also of one that was deleted and not created again.
    async fn find_namespace(&self, name: &Name) -> Result<Option<NamespaceId>, Error>;
    /// Returns all namespaces, deleted ones too, in no particular order.
    async fn namespaces(&self) -> Result<Vec<(NamespaceId, Name)>, Error>;
    /// Returns the settings of a namespace; those of an unknown one are the defaults.
    async fn namespace_settings(&self, namespace: NamespaceId) -> Result<NamespaceSettings, Error>;
    /// Replaces the settings of a namespace. One that is being deleted only becomes deleted, with the job that was stored first, and
    /// then nothing changes it: any other call has no effect.
    async fn configure_namespace(
        &self,
        namespace: NamespaceId,
        settings: NamespaceSettings,
    ) -> Result<(), Error>;
    /// Deletes up to `limit` rows of each kind that belong to a namespace without executions and flows: configured gates,
    /// parts of budgets, ledgers, keys, sessions, rollups, ended jobs, and events of the projection. Returns how many were
    /// deleted. Skips locked rows.
    async fn delete_rest_of_namespace(&self, namespace: NamespaceId, limit: u32) -> Result<u64, Error>;
}
