//! The outbox: commands to other executions and flows that are not carried out yet.

use crate::MemoryStore;
use crate::kinds::{Kind, Saving, Tables, remove_member};
use async_trait::async_trait;
use selvedge_core::outbox::{OutboxKind, OutboxName, OutboxRow};
use selvedge_core::{Changes, Timestamp};
use selvedge_store::{Error, OutboxReads, ReconcilerScope};
use std::ops::Bound::{Excluded, Unbounded};
use uuid::Uuid;

pub(crate) const KIND: Kind = Kind {
    load: |tables, needs, rows| {
        rows.outbox = needs.outbox.keys().filter_map(|name| tables.outbox.get(name).cloned()).collect();
    },
    save,
    ..Kind::EMPTY
};

fn save(tables: &mut Tables, changes: &mut Changes, _: &mut Saving) {
    for name in &changes.outbox.removed {
        take(tables, *name);
    }
    for row in &changes.outbox.written {
        take(tables, row.name);
        tables.outbox_by_age.entry(row.name.kind).or_default().insert((row.at, row.name.id));
        tables.outbox.insert(row.name, row.clone());
    }
}

fn take(tables: &mut Tables, name: OutboxName) {
    if let Some(row) = tables.outbox.remove(&name) {
        remove_member(&mut tables.outbox_by_age, &name.kind, &(row.at, name.id));
    }
}

#[async_trait]
impl OutboxReads for MemoryStore {
    async fn outbox(
        &self,
        scope: &ReconcilerScope,
        kind: OutboxKind,
        stale_ms: i64,
        after: Option<(Timestamp, Uuid)>,
        limit: u32,
    ) -> Result<Vec<OutboxRow>, Error> {
        self.read("outbox", |tables, now| {
            let before = now.minus_ms(stale_ms);
            let from = after.map_or(Unbounded, Excluded);
            let rows = tables.outbox_by_age.get(&kind).into_iter();
            rows.flat_map(|set| set.range((from, Unbounded)))
                .take_while(|(at, _)| *at <= before)
                .filter_map(|(_, id)| tables.outbox.get(&OutboxName { id: *id, kind }))
                .filter(|row| scope.covers(row.namespace, &row.tags))
                .take(limit as usize)
                .cloned()
                .collect()
        })
        .await
    }
}
