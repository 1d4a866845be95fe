//! Steps of executions.

use crate::MemoryStore;
use crate::kinds::{Kind, after, all, delete_deleted};
use async_trait::async_trait;
use selvedge_core::ExecutionId;
use selvedge_core::step::Step;
use selvedge_store::{Error, StepReads};

pub(crate) const KIND: Kind = Kind {
    load: |tables, needs, rows| {
        for id in &needs.queries.records {
            rows.steps.extend(tables.steps.range(all(*id)).map(|(_, step)| step.clone()));
        }
        for (id, name) in needs.steps.keys() {
            let mut steps = tables.steps.range(all(*id)).map(|(_, step)| step);
            rows.steps.extend(steps.find(|step| step.name == *name).cloned());
        }
    },
    save: |tables, changes, _| {
        delete_deleted(&mut tables.steps, changes);
        let written = std::mem::take(&mut changes.steps).into_iter();
        tables.steps.extend(written.map(|step| ((step.execution, step.number), step)));
    },
    ..Kind::EMPTY
};

#[async_trait]
impl StepReads for MemoryStore {
    async fn steps(&self, of: ExecutionId, number: u32, limit: u32) -> Result<Vec<Step>, Error> {
        self.read("steps", |tables, _| after(&tables.steps, of, number, limit)).await
    }
}
