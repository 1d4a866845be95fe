//! Namespaces and their settings.

use crate::PostgresStore;
use crate::sql::statements;
use async_trait::async_trait;
use selvedge_core::{Name, NamespaceId};
use selvedge_store::{Deletion, Error, NamespaceSettings, NamespaceStore};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

statements! {
    CONTINUE = "namespaces/continue";
    DELETE_REST = "namespaces/delete_rest";
    FIND = "namespaces/find";
    INSERT = "namespaces/insert";
    LIST = "namespaces/list";
    READ = "namespaces/read";
    RESTORE = "namespaces/restore";
    RESTORE_RETIRED = "namespaces/restore_retired";
    RETIRE = "namespaces/retire";
    UPDATE = "namespaces/update";
}

impl PostgresStore {
    async fn find_namespace_named(&self, name: &Name) -> Result<Option<NamespaceId>, Error> {
        let rows = self.query_in_background(&FIND, &[&name.as_str()]).await?;
        let found = rows.first().map(|row| NamespaceId(row.get(0)));
        self.lineage.learn_namespaces(found.map(|id| (id, name.clone())).iter());
        Ok(found)
    }
}

#[async_trait]
impl NamespaceStore for PostgresStore {
    /// Several statements: the insert waits for another server that inserts the same name, and the query after it sees the
    /// committed row.
    async fn namespace(&self, name: &Name) -> Result<NamespaceId, Error> {
        let intern = async {
            self.query_in_background(&RETIRE, &[&name.as_str()]).await?;
            self.query_in_background(&INSERT, &[&name.as_str()]).await?;
            let found = self.find_namespace_named(name).await?;
            found.ok_or_else(|| Error::Failed(format!("namespace {name} does not exist")))
        };
        self.meter.measure("namespace", intern).await
    }

    async fn find_namespace(&self, name: &Name) -> Result<Option<NamespaceId>, Error> {
        self.meter.measure("find_namespace", self.find_namespace_named(name)).await
    }

    async fn namespaces(&self) -> Result<Vec<(NamespaceId, Name)>, Error> {
        let rows = self.meter.measure("namespaces", self.query_in_background(&LIST, &[])).await?;
        let namespace = |row: &Row| (NamespaceId(row.get(0)), Name::trusted(row.get(1)));
        let namespaces: Vec<(NamespaceId, Name)> = rows.iter().map(namespace).collect();
        self.lineage.learn_namespaces(namespaces.iter());
        Ok(namespaces)
    }

    async fn namespace_settings(&self, namespace: NamespaceId) -> Result<NamespaceSettings, Error> {
        let parameters: [&(dyn ToSql + Sync); 1] = [&namespace.0];
        let rows = self.query_in_background(&READ, &parameters);
        let rows = self.meter.measure("namespace_settings", rows).await?;
        let settings = rows.first().map(|row| NamespaceSettings {
            suspension_timeout_ms: row.get(0),
            retention_ms: row.get(1),
            weight: row.get::<_, Option<i32>>(2).map(|weight| weight as u32),
            deletion: row.get::<_, Option<&str>>(3).map(Deletion::decode),
        });
        Ok(settings.unwrap_or_default())
    }

    async fn configure_namespace(
        &self,
        namespace: NamespaceId,
        settings: NamespaceSettings,
    ) -> Result<(), Error> {
        let NamespaceSettings { suspension_timeout_ms, retention_ms, weight, deletion } = settings;
        let (weight, deletion) = (weight.map(|weight| weight as i32), deletion.map(Deletion::encode));
        let parameters: [&(dyn ToSql + Sync); 5] =
            [&namespace.0, &suspension_timeout_ms, &retention_ms, &weight, &deletion];
        self.meter.measure("configure_namespace", self.execute(&UPDATE, &parameters)).await.map(drop)
    }

    async fn delete_rest_of_namespace(&self, namespace: NamespaceId, limit: u32) -> Result<u64, Error> {
        let limit = i64::from(limit);
        let parameters: [&(dyn ToSql + Sync); 2] = [&namespace.0, &limit];
        let rows = self.query(&DELETE_REST, &parameters);
        let rows = self.meter.measure("delete_rest_of_namespace", rows).await?;
        Ok(rows.first().map_or(0, |row| row.get::<_, i64>(0) as u64))
    }
}
