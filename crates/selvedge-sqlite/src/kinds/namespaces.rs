//! Namespaces and their settings.

use crate::SqliteStore;
use crate::kinds::{KINDS, Kind};
use crate::row;
use crate::sql::{self, columns, statements};
use async_trait::async_trait;
use rusqlite::{Row, params};
use selvedge_core::{Name, NamespaceId};
use selvedge_store::{Deletion, Error, NamespaceSettings, NamespaceStore};

pub(crate) const KIND: Kind =
    Kind { columns: &[("settings", settings::LIST)], statements: STATEMENTS, ..Kind::EMPTY };

statements! {
    NAMESPACES_FIND = "namespaces/find";
    NAMESPACES_INSERT = "namespaces/insert";
    NAMESPACES_LIST = "namespaces/list";
    NAMESPACES_READ = "namespaces/read";
    NAMESPACES_RETIRE = "namespaces/retire";
    NAMESPACES_UPDATE = "namespaces/update";
}

columns! {
    settings of settings: &NamespaceSettings {
        suspension_timeout_ms = settings.suspension_timeout_ms,
        retention_ms = settings.retention_ms,
        weight = settings.weight,
        deletion = settings.deletion.map(Deletion::encode),
    }
}

fn decode(found: &Row<'_>) -> rusqlite::Result<NamespaceSettings> {
    use settings::AT;
    Ok(NamespaceSettings {
        suspension_timeout_ms: found.get(AT.suspension_timeout_ms)?,
        retention_ms: found.get(AT.retention_ms)?,
        weight: found.get(AT.weight)?,
        deletion: found.get::<_, Option<String>>(AT.deletion)?.as_deref().map(Deletion::decode),
    })
}

#[async_trait]
impl NamespaceStore for SqliteStore {
    /// Inserts the namespace if it does not exist or was deleted.
    async fn namespace(&self, name: &Name) -> Result<NamespaceId, Error> {
        let name = name.clone();
        self.write("namespace", move |connection, _| {
            sql::execute(connection, &NAMESPACES_RETIRE, [name.as_str()])?;
            sql::execute(connection, &NAMESPACES_INSERT, [name.as_str()])?;
            let mut find = connection.prepare_cached(&NAMESPACES_FIND)?;
            find.query_row([name.as_str()], |found| found.get(0).map(NamespaceId))
        })
        .await
    }

    async fn find_namespace(&self, name: &Name) -> Result<Option<NamespaceId>, Error> {
        let name = name.clone();
        self.read("find_namespace", move |connection| {
            sql::row(connection, &NAMESPACES_FIND, [name.as_str()], |found| found.get(0).map(NamespaceId))
        })
        .await
    }

    async fn namespaces(&self) -> Result<Vec<(NamespaceId, Name)>, Error> {
        self.read("namespaces", |connection| {
            sql::rows(connection, &NAMESPACES_LIST, (), |found| {
                Ok((NamespaceId(found.get(0)?), row::name(found, 1)?))
            })
        })
        .await
    }

    async fn namespace_settings(&self, namespace: NamespaceId) -> Result<NamespaceSettings, Error> {
        let settings = move |connection: &_| sql::row(connection, &NAMESPACES_READ, [namespace.0], decode);
        Ok(self.read("namespace_settings", settings).await?.unwrap_or_default())
    }

    async fn configure_namespace(
        &self,
        namespace: NamespaceId,
        settings: NamespaceSettings,
    ) -> Result<(), Error> {
        self.write("configure_namespace", move |connection, _| {
            settings::with(&settings, |values| {
                sql::execute(connection, &NAMESPACES_UPDATE, sql::joined(&[&[&namespace.0], values]))
            })
            .map(drop)
        })
        .await
    }

    async fn delete_rest_of_namespace(&self, namespace: NamespaceId, limit: u32) -> Result<u64, Error> {
        self.write("delete_rest_of_namespace", move |connection, _| {
            let mut deleted = 0;
            for statement in KINDS.iter().flat_map(|kind| kind.delete_rest) {
                deleted += sql::execute(connection, statement, params![namespace.0, limit])?;
            }
            Ok(deleted)
        })
        .await
    }
}
