//! Waitpoints of executions.

use crate::MemoryStore;
use crate::kinds::{Kind, Saving, Tables, after, all, delete_deleted};
use async_trait::async_trait;
use selvedge_core::waitpoint::{WaitpointFilter, WaitpointPosition};
use selvedge_core::{Changes, ExecutionId, Waitpoint, WaitpointId};
use selvedge_store::{Error, WaitpointReads};
use std::cmp::Reverse;

pub(crate) const KIND: Kind = Kind {
    load: |tables, needs, rows| {
        for id in &needs.queries.waitpoints {
            rows.waitpoints.extend(tables.waitpoints.range(all(*id)).map(|(_, waitpoint)| waitpoint.clone()));
        }
    },
    save,
    ..Kind::EMPTY
};

fn save(tables: &mut Tables, changes: &mut Changes, _: &mut Saving) {
    for (id, _) in &changes.executions.deleted {
        for (_, waitpoint) in tables.waitpoints.range(all(*id)) {
            tables.waitpoint_ids.remove(&waitpoint.id);
        }
    }
    delete_deleted(&mut tables.waitpoints, changes);
    for waitpoint in std::mem::take(&mut changes.waitpoints) {
        let name = (waitpoint.execution, waitpoint.number);
        tables.waitpoint_ids.insert(waitpoint.id, name);
        tables.waitpoints.insert(name, waitpoint);
    }
}

#[async_trait]
impl WaitpointReads for MemoryStore {
    async fn waitpoints(&self, of: ExecutionId, number: u32, limit: u32) -> Result<Vec<Waitpoint>, Error> {
        self.read("waitpoints", |tables, _| after(&tables.waitpoints, of, number, limit)).await
    }

    async fn list_waitpoints(
        &self,
        filter: &WaitpointFilter,
        after: Option<WaitpointPosition>,
        limit: u32,
    ) -> Result<Vec<Waitpoint>, Error> {
        self.read("list_waitpoints", |tables, _| {
            let matching = tables.waitpoints.values().filter(|waitpoint| filter.selects(waitpoint));
            let mut found: Vec<&Waitpoint> =
                matching.filter(|waitpoint| after.is_none_or(|after| waitpoint.position() < after)).collect();
            found.sort_unstable_by_key(|waitpoint| Reverse(waitpoint.position()));
            found.into_iter().take(limit as usize).cloned().collect()
        })
        .await
    }

    async fn waitpoint(&self, id: WaitpointId) -> Result<Option<Waitpoint>, Error> {
        self.read("waitpoint", |tables, _| {
            let name = tables.waitpoint_ids.get(&id)?;
            tables.waitpoints.get(name).cloned()
        })
        .await
    }
}
