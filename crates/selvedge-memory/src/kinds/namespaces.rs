//! Namespaces and their settings.

use crate::MemoryStore;
use crate::kinds::{KINDS, Tables};
use async_trait::async_trait;
use selvedge_core::{Name, NamespaceId};
use selvedge_store::{Deletion, Error, NamespaceSettings, NamespaceStore, retired_name};

/// Returns the id of the namespace at `index`. Ids start at 1.
fn number(index: usize) -> NamespaceId {
    NamespaceId(i32::try_from(index + 1).unwrap_or(i32::MAX))
}

fn find(tables: &Tables, name: &Name) -> Option<NamespaceId> {
    tables.namespaces.iter().position(|known| known == name).map(number)
}

#[async_trait]
impl NamespaceStore for MemoryStore {
    /// Creates the namespace if it does not exist or was deleted.
    async fn namespace(&self, name: &Name) -> Result<NamespaceId, Error> {
        self.change("namespace", |tables, _| {
            let known = find(tables, name);
            let deletion = known.and_then(|id| tables.settings.get(&id)?.deletion);
            if let Some(id) = known.filter(|_| deletion == Some(Deletion::Done)) {
                let row = tables.namespaces.iter_mut().find(|row| *row == name);
                row.into_iter().for_each(|row| *row = retired_name(name, id));
            } else if let Some(id) = known {
                return id;
            }
            tables.namespaces.push(name.clone());
            number(tables.namespaces.len() - 1)
        })
        .await
    }

    async fn find_namespace(&self, name: &Name) -> Result<Option<NamespaceId>, Error> {
        self.read("find_namespace", |tables, _| find(tables, name)).await
    }

    async fn namespaces(&self) -> Result<Vec<(NamespaceId, Name)>, Error> {
        self.read("namespaces", |tables, _| {
            let numbered = tables.namespaces.iter().enumerate();
            numbered.map(|(index, name)| (number(index), name.clone())).collect()
        })
        .await
    }

    async fn namespace_settings(&self, namespace: NamespaceId) -> Result<NamespaceSettings, Error> {
        self.read("namespace_settings", |tables, _| {
            tables.settings.get(&namespace).copied().unwrap_or_default()
        })
        .await
    }

    async fn configure_namespace(
        &self,
        namespace: NamespaceId,
        settings: NamespaceSettings,
    ) -> Result<(), Error> {
        self.change("configure_namespace", |tables, _| {
            let known = tables.settings.entry(namespace).or_default();
            *known = known.changed_to(settings);
        })
        .await
    }

    async fn delete_rest_of_namespace(&self, namespace: NamespaceId, _limit: u32) -> Result<u64, Error> {
        self.change("delete_rest_of_namespace", |tables, _| {
            KINDS.iter().map(|kind| (kind.delete_rest)(tables, namespace)).sum::<usize>() as u64
        })
        .await
    }
}
