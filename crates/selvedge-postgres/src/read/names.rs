//! Interning of namespaces and classes.

use crate::connection::failure;
use crate::row;
use crate::{PostgresStore, sql};
use selvedge_core::class::USED_EVERY_MS;
use selvedge_core::{Class, ClassId, Name, NamespaceId};
use selvedge_store::{Deletion, Error, NamespaceSettings};
use std::collections::BTreeSet;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

/// Excludes other writers of classes, and no reader.
const LOCK_CLASSES: &str = "lock table classes in share row exclusive mode";
/// The number of executions per namespace that a removal of classes looks at for the classes they refer to.
const OLDEST_LOOKED_AT: i64 = 10_000;

impl PostgresStore {
    /// Several statements: the insert waits for another server that inserts the same name, and the query after it sees the
    /// committed row.
    pub(crate) async fn intern_namespace(&self, name: &Name) -> Result<NamespaceId, Error> {
        self.query_in_background(&sql::NAMESPACES_RETIRE, &[&name.as_str()]).await?;
        self.query_in_background(&sql::NAMESPACES_INSERT, &[&name.as_str()]).await?;
        let found = self.find_namespace_named(name).await?;
        found.ok_or_else(|| Error::Failed(format!("namespace {name} does not exist")))
    }

    pub(crate) async fn find_namespace_named(&self, name: &Name) -> Result<Option<NamespaceId>, Error> {
        let rows = self.query_in_background(&sql::NAMESPACES_FIND, &[&name.as_str()]).await?;
        let found = rows.first().map(|row| NamespaceId(row.get(0)));
        self.history.learn_namespaces(found.map(|id| (id, name.clone())).iter());
        Ok(found)
    }

    pub(crate) async fn list_namespaces(&self) -> Result<Vec<(NamespaceId, Name)>, Error> {
        let rows = self.query_in_background(&sql::NAMESPACES_LIST, &[]).await?;
        let namespace = |row: &Row| (NamespaceId(row.get(0)), Name::trusted(row.get(1)));
        let namespaces: Vec<(NamespaceId, Name)> = rows.iter().map(namespace).collect();
        self.history.learn_namespaces(namespaces.iter());
        Ok(namespaces)
    }

    pub(crate) async fn read_settings(&self, namespace: NamespaceId) -> Result<NamespaceSettings, Error> {
        let rows = self.query_in_background(&sql::NAMESPACES_READ, &[&namespace.0]).await?;
        let settings = rows.first().map(|row| NamespaceSettings {
            suspension_timeout_ms: row.get(0),
            retention_ms: row.get(1),
            weight: row.get::<_, Option<i32>>(2).map(|weight| weight as u32),
            deletion: row.get::<_, Option<&str>>(3).map(Deletion::decode),
        });
        Ok(settings.unwrap_or_default())
    }

    pub(crate) async fn update_settings(
        &self,
        namespace: NamespaceId,
        settings: NamespaceSettings,
    ) -> Result<(), Error> {
        let NamespaceSettings { suspension_timeout_ms, retention_ms, weight, deletion } = settings;
        let (weight, deletion) = (weight.map(|weight| weight as i32), deletion.map(Deletion::encode));
        let parameters: [&(dyn ToSql + Sync); 5] =
            [&namespace.0, &suspension_timeout_ms, &retention_ms, &weight, &deletion];
        self.execute(&sql::NAMESPACES_UPDATE, &parameters).await.map(drop)
    }

    /// Deletes rows of a namespace that has no executions and no flows.
    pub(crate) async fn delete_rest_of_namespace(
        &self,
        namespace: NamespaceId,
        limit: u32,
    ) -> Result<u64, Error> {
        let rows = self.query(&sql::NAMESPACES_DELETE_REST, &[&namespace.0, &i64::from(limit)]).await?;
        Ok(rows.first().map_or(0, |row| row.get::<_, i64>(0) as u64))
    }

    /// The lock on the table makes the numbers of classes visible in order.
    pub(crate) async fn intern_classes(&self, classes: &[Class]) -> Result<Vec<(ClassId, Class)>, Error> {
        let client = self.background.get().await?;
        let intern = async {
            client.batch_execute(LOCK_CLASSES).await.map_err(failure)?;
            let insert = client.prepare_cached(&sql::CLASSES_INSERT).await.map_err(failure)?;
            let mut interned = Vec::new();
            for class in classes {
                let capabilities: Vec<&str> = class.capabilities.iter().map(Name::as_str).collect();
                let parameters: [&(dyn ToSql + Sync); 4] =
                    [&class.namespace.0, &class.lane.as_str(), &class.kind.as_str(), &capabilities];
                let row = client.query_one(&insert, &parameters).await.map_err(failure)?;
                interned.push(row::class(&row));
            }
            Ok(interned)
        };
        let interned = client.transaction("begin", intern).await?;
        self.history.learn_classes(&interned);
        Ok(interned)
    }

    /// Removes unused classes. Under the same lock as interning, so no class is used again meanwhile.
    pub(crate) async fn remove_classes(&self, unused_ms: i64, limit: u32) -> Result<u64, Error> {
        let client = self.background.get().await?;
        let remove = async {
            client.batch_execute(LOCK_CLASSES).await.map_err(failure)?;
            let mark = client.prepare_cached(&sql::CLASSES_MARK_REMOVAL).await.map_err(failure)?;
            client.execute(&mark, &[]).await.map_err(failure)?;
            let delete = client.prepare_cached(&sql::CLASSES_DELETE_UNUSED).await.map_err(failure)?;
            // The time for which a class is used without being interned again, and as much for the transaction that uses it.
            let used_later_ms = 2 * USED_EVERY_MS;
            let parameters: [&(dyn ToSql + Sync); 4] =
                [&unused_ms, &used_later_ms, &i64::from(limit), &OLDEST_LOOKED_AT];
            let rows = client.query(&delete, &parameters).await.map_err(failure)?;
            let removed: Vec<i32> = rows.iter().map(|row| row.get(0)).collect();
            if !removed.is_empty() {
                let pairs = client.prepare_cached(&sql::CLASS_PRIORITIES_DELETE).await.map_err(failure)?;
                let pools: BTreeSet<i32> = rows.iter().filter_map(|row| row.get(1)).collect();
                let pools: Vec<i32> = pools.into_iter().collect();
                client.execute(&pairs, &[&removed, &pools]).await.map_err(failure)?;
            }
            Ok(removed)
        };
        let removed = client.transaction("begin", remove).await?;
        self.history.forget_classes(&removed);
        Ok(removed.len() as u64)
    }

    pub(crate) async fn list_classes(&self, after: ClassId) -> Result<Vec<(ClassId, Class)>, Error> {
        let rows = self.query_in_background(&sql::CLASSES_LIST, &[&after.0]).await?;
        let classes: Vec<(ClassId, Class)> = rows.iter().map(row::class).collect();
        self.history.learn_classes(&classes);
        Ok(classes)
    }
}
