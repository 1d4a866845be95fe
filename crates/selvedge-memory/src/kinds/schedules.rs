//! Schedules.

use crate::MemoryStore;
use crate::kinds::{Kind, Saving, Tables};
use async_trait::async_trait;
use selvedge_core::schedule::{Schedule, ScheduleName};
use selvedge_core::{Changes, Name, NamespaceId, Timed, Timestamp};
use selvedge_store::{DueSchedules, Error, ReconcilerScope, ScheduleReads};
use std::ops::Bound::{Excluded, Unbounded};

pub(crate) const KIND: Kind = Kind {
    load: |tables, needs, rows| {
        rows.schedules.extend(needs.schedules.keys().filter_map(|name| tables.schedules.get(name).cloned()));
    },
    guards_hold,
    save,
    due: |tables| Some((Schedule::KIND, tables.due_schedules.first()?.0)),
    ..Kind::EMPTY
};

fn guards_hold(tables: &Tables, changes: &Changes) -> bool {
    let version = |name: &ScheduleName| tables.schedules.get(name).map(|row| row.version);
    changes.schedules.versioned().all(|(row, expected)| version(&row.name) == expected)
        && changes.schedules.deleted.iter().all(|(name, expected)| version(name) == Some(*expected))
}

fn save(tables: &mut Tables, changes: &mut Changes, _: &mut Saving) {
    for (name, _) in &changes.schedules.deleted {
        remove(tables, name);
    }
    for row in changes.schedules.written() {
        remove(tables, &row.name);
        tables.due_schedules.extend(row.due_at.map(|at| (at, row.name.clone())));
        tables.schedules.insert(row.name.clone(), row.clone());
    }
}

fn remove(tables: &mut Tables, name: &ScheduleName) {
    if let Some(at) = tables.schedules.remove(name).and_then(|row| row.due_at) {
        tables.due_schedules.remove(&(at, name.clone()));
    }
}

#[async_trait]
impl ScheduleReads for MemoryStore {
    async fn schedule(&self, name: &ScheduleName) -> Result<Option<Schedule>, Error> {
        self.read("schedule", |tables, _| tables.schedules.get(name).cloned()).await
    }

    async fn schedules(
        &self,
        namespace: NamespaceId,
        after: Option<&Name>,
        limit: u32,
    ) -> Result<Vec<Schedule>, Error> {
        let name = after.cloned().unwrap_or_else(|| Name::trusted(""));
        let from = (Excluded(ScheduleName { namespace, name }), Unbounded);
        self.read("schedules", |tables, _| {
            let rows = tables.schedules.range(from).map(|(_, row)| row);
            rows.take_while(|row| row.name.namespace == namespace).take(limit as usize).cloned().collect()
        })
        .await
    }

    async fn due_schedules(
        &self,
        scope: &ReconcilerScope,
        after: Option<(Timestamp, ScheduleName)>,
        limit: u32,
    ) -> Result<DueSchedules, Error> {
        let from = after.map_or(Unbounded, Excluded);
        self.read("due_schedules", |tables, now| {
            let due = tables.due_schedules.range((from, Unbounded)).take_while(|(at, _)| *at <= now);
            let schedules = due
                .filter(|(_, name)| scope.covers_namespace(name.namespace))
                .filter_map(|(_, name)| tables.schedules.get(name).cloned())
                .take(limit as usize)
                .collect();
            DueSchedules { now, schedules }
        })
        .await
    }
}
