//! Steps.

use super::records::{self, Unreadable, gather};
use crate::PostgresStore;
use crate::kinds::{Asking, Saving};
use crate::sql::{Micros, columns, some_payload, statements};
use async_trait::async_trait;
use selvedge_core::step::StepKind;
use selvedge_core::{ExecutionId, Name, Step};
use selvedge_store::{Error, StepReads};
use tokio_postgres::Row;
use uuid::Uuid;

statements! {
    with {
        step: step::list_of("steps"),
        step_columns: step::list(),
        step_types: step::types(1),
    }
    DELETE = "steps/delete";
    FIND = "steps/find";
    LIST = "steps/list";
    READ = "steps/read";
    UPSERT = "steps/upsert";
}

columns! {
    step<'a> of row: &'a Step {
        execution: Uuid = row.execution.0,
        number: i32 = row.number as i32,
        name: &'a str = row.name.as_str(),
        kind: i16 = row.kind.code(),
        attempt: i32 = row.attempt as i32,
        started_at: Micros = row.started_at.into(),
        recorded_at: Option<Micros> = row.recorded_at.map(Micros::from),
        result: Option<&'a [u8]> = row.result.as_deref(),
    }
}

fn decode(row: &Row) -> Result<Step, Unreadable> {
    use step::AT;
    let (execution, code) = (ExecutionId(row.get(AT.execution)), row.get(AT.kind));
    let number = row.get::<_, i32>(AT.number) as u32;
    let kind = StepKind::from_code(code)
        .ok_or_else(|| (execution, format!("step {number} has the unknown kind {code}")))?;
    Ok(Step {
        execution,
        number,
        name: Name::trusted(row.get(AT.name)),
        kind,
        attempt: row.get::<_, i32>(AT.attempt) as u32,
        started_at: row.get::<_, Micros>(AT.started_at).time(),
        recorded_at: row.get::<_, Option<Micros>>(AT.recorded_at).map(Micros::time),
        result: some_payload(row, AT.result),
    })
}

pub fn read(asking: &mut Asking<'_>) {
    let needs = asking.needs;
    let gather = || gather(decode, |rows| &mut rows.steps);
    asking.about(&needs.queries.records, &READ, records::executions, gather());
    asking.read(&needs.steps, &FIND, records::names, gather());
}

pub fn delete(saving: &mut Saving<'_>) {
    records::delete(&DELETE, saving);
}

pub fn save(saving: &mut Saving<'_>) {
    saving.rows(&saving.changes.steps, &UPSERT, step::arrays);
}

#[async_trait]
impl StepReads for PostgresStore {
    async fn steps(&self, of: ExecutionId, after: u32, limit: u32) -> Result<Vec<Step>, Error> {
        self.meter.measure("steps", self.records(&LIST, (of, after, limit), decode)).await
    }
}
