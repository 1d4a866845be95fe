//! Minute rollups.

use crate::MemoryStore;
use crate::kinds::{Kind, delete_all};
use async_trait::async_trait;
use selvedge_core::NamespaceId;
use selvedge_core::rollup::{RollupKey, RollupQuery, RollupRow};
use selvedge_store::{Error, RollupStore};

pub(crate) const KIND: Kind = Kind {
    delete_rest: |tables, namespace| delete_all(&mut tables.rollups, |(of, _), _| *of == namespace),
    ..Kind::EMPTY
};

#[async_trait]
impl RollupStore for MemoryStore {
    async fn save_rollups(&self, rows: &[RollupRow]) -> Result<(), Error> {
        self.change("save_rollups", |tables, _| {
            let rows = rows.iter().map(|row| ((row.namespace, row.key.clone()), row.rollup.clone()));
            tables.rollups.extend(rows);
        })
        .await
    }

    async fn rollups(&self, query: &RollupQuery, limit: u32) -> Result<Vec<RollupRow>, Error> {
        self.read("rollups", |tables, _| {
            let rows = tables.rollups.iter().map(|((namespace, key), rollup)| RollupRow {
                namespace: *namespace,
                key: key.clone(),
                rollup: rollup.clone(),
            });
            rows.filter(|row| query.matches(row)).take(limit as usize).collect()
        })
        .await
    }

    async fn delete_old_rollups(&self, keep_ms: i64, limit: u32) -> Result<u64, Error> {
        self.change("delete_old_rollups", |tables, now| {
            let before = now.minus_ms(keep_ms);
            let old = tables.rollups.keys().filter(|(_, key)| key.minute_at < before);
            let old: Vec<(NamespaceId, RollupKey)> = old.take(limit as usize).cloned().collect();
            old.iter().for_each(|key| drop(tables.rollups.remove(key)));
            old.len() as u64
        })
        .await
    }
}
