//! Classes, and the pairs of class and priority that have executions.

use crate::PostgresStore;
use crate::connection::failure;
use crate::kinds::{Asking, Saving};
use crate::sql::{array, columns, statements};
use async_trait::async_trait;
use selvedge_core::class::{UNPOOLED, USED_EVERY_MS};
use selvedge_core::{Class, ClassId, Name, NamespaceId};
use selvedge_store::{ClassStore, Error};
use std::collections::BTreeSet;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

statements! {
    with {
        class: class::list(),
        unpooled: UNPOOLED,
    }
    DELETE_UNUSED = "classes/delete_unused";
    INSERT = "classes/insert";
    LIST = "classes/list";
    MARK_REMOVAL = "classes/mark_removal";
    PRIORITIES_DELETE = "class_priorities/delete";
    PRIORITIES_UPSERT = "class_priorities/upsert";
    READ_REMOVAL = "classes/read_removal";
    RESTORE = "classes/restore";
}

columns! {
    class {
        id,
        namespace,
        lane,
        kind,
        capabilities,
        pool,
    }
}

/// Excludes other writers of classes, and no reader.
const LOCK_CLASSES: &str = "lock table classes in share row exclusive mode";
/// The number of executions per namespace that a removal of classes looks at for the classes they refer to.
const OLDEST_LOOKED_AT: i64 = 10_000;

/// Reads the class in a row that begins with its columns.
pub fn decode(row: &Row) -> (ClassId, Class) {
    use class::AT;
    let class = Class {
        namespace: NamespaceId(row.get(AT.namespace)),
        lane: Name::trusted(row.get(AT.lane)),
        kind: Name::trusted(row.get(AT.kind)),
        capabilities: row.get::<_, Vec<&str>>(AT.capabilities).into_iter().map(Name::trusted).collect(),
        pool: row.get::<_, Option<i32>>(AT.pool).map(ClassId),
    };
    (ClassId(row.get(AT.id)), class)
}

pub fn read(asking: &mut Asking<'_>) {
    if let Some(after) = asking.needs.queries.classes_after {
        asking.add(&LIST, vec![Box::new(after.0)], |answer, loading| {
            loading.rows.found.classes.extend(answer.iter().map(decode));
            Ok(())
        });
    }
}

/// Saves the pairs of class and priority that the executions of this transaction need.
pub fn save(saving: &mut Saving<'_>) {
    saving.rows(saving.pairs, &PRIORITIES_UPSERT, |pairs| {
        vec![
            array(pairs, |((class, _), _)| *class),
            array(pairs, |((_, priority), _)| *priority),
            array(pairs, |(_, revision)| *revision),
        ]
    });
}

#[async_trait]
impl ClassStore for PostgresStore {
    async fn intern(&self, classes: &[Class]) -> Result<Vec<(ClassId, Class)>, Error> {
        self.meter.measure("intern", self.intern_classes(classes)).await
    }

    async fn classes_after(&self, after: ClassId) -> Result<Vec<(ClassId, Class)>, Error> {
        let rows = self.meter.measure("classes_after", self.query_in_background(&LIST, &[&after.0])).await?;
        let classes: Vec<(ClassId, Class)> = rows.iter().map(decode).collect();
        self.lineage.learn_classes(&classes);
        Ok(classes)
    }

    async fn remove_unused_classes(&self, unused_ms: i64, limit: u32) -> Result<u64, Error> {
        self.meter.measure("remove_unused_classes", self.remove_classes(unused_ms, limit)).await
    }
}

impl PostgresStore {
    /// The lock on the table makes the numbers of classes visible in order.
    async fn intern_classes(&self, classes: &[Class]) -> Result<Vec<(ClassId, Class)>, Error> {
        let client = self.background.get().await?;
        let intern = async {
            client.batch_execute(LOCK_CLASSES).await.map_err(failure)?;
            let insert = client.prepare_cached(&INSERT).await.map_err(failure)?;
            let mut interned = Vec::new();
            for class in classes {
                let capabilities: Vec<&str> = class.capabilities.iter().map(Name::as_str).collect();
                let parameters: [&(dyn ToSql + Sync); 4] =
                    [&class.namespace.0, &class.lane.as_str(), &class.kind.as_str(), &capabilities];
                let row = client.query_one(&insert, &parameters).await.map_err(failure)?;
                interned.push(decode(&row));
            }
            Ok(interned)
        };
        let interned = client.transaction("begin", intern).await?;
        self.lineage.learn_classes(&interned);
        Ok(interned)
    }

    /// Removes unused classes. Under the same lock as interning, so no class is used again meanwhile.
    async fn remove_classes(&self, unused_ms: i64, limit: u32) -> Result<u64, Error> {
        let client = self.background.get().await?;
        let remove = async {
            client.batch_execute(LOCK_CLASSES).await.map_err(failure)?;
            let mark = client.prepare_cached(&MARK_REMOVAL).await.map_err(failure)?;
            client.execute(&mark, &[]).await.map_err(failure)?;
            let delete = client.prepare_cached(&DELETE_UNUSED).await.map_err(failure)?;
            // The time for which a class is used without being interned again, and as much for the transaction that uses it.
            let used_later_ms = 2 * USED_EVERY_MS;
            let parameters: [&(dyn ToSql + Sync); 4] =
                [&unused_ms, &used_later_ms, &i64::from(limit), &OLDEST_LOOKED_AT];
            let rows = client.query(&delete, &parameters).await.map_err(failure)?;
            let removed: Vec<i32> = rows.iter().map(|row| row.get(0)).collect();
            if !removed.is_empty() {
                let pairs = client.prepare_cached(&PRIORITIES_DELETE).await.map_err(failure)?;
                let pools: BTreeSet<i32> = rows.iter().filter_map(|row| row.get(1)).collect();
                let pools: Vec<i32> = pools.into_iter().collect();
                client.execute(&pairs, &[&removed, &pools]).await.map_err(failure)?;
            }
            Ok(removed)
        };
        let removed = client.transaction("begin", remove).await?;
        self.lineage.forget_classes(&removed);
        Ok(removed.len() as u64)
    }
}
