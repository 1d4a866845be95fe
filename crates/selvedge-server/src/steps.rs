//! The steps of an execution: what its handler has done once and for all, and what it waits for by name.

use crate::Answer;
use crate::auth::Caller;
use crate::json;
use crate::numbered::Numbered;
use crate::query::{Id, Query};
use selvedge_core::Step;

/// `GET /v1/executions/{id}/steps`: in the order in which they were begun.
pub async fn list(caller: Caller, Id(id): Id, query: Query) -> Answer {
    let part = Numbered::read(query)?;
    let steps = caller.namespace.steps(id, part.after, part.wanted()).await?;
    Ok(part.page(steps, |step| step.number, write))
}

fn write(out: &mut Vec<u8>, step: &Step) {
    let state = if step.recorded_at.is_some() { "recorded" } else { "open" };
    json::object(out, |object| {
        object.value("number", &step.number);
        object.value("name", &step.name);
        object.value("kind", step.kind.as_str());
        object.value("attempt", &step.attempt);
        object.value("state", state);
        object.time("started_at", Some(step.started_at));
        object.time("recorded_at", step.recorded_at);
        object.value("duration_ms", &step.recorded_at.map(|at| at.ms_since(step.started_at)));
        object.raw("result", step.result.as_deref());
    });
}
