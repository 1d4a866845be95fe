//! The durable steps of an execution: recorded results, and named waits that are still open.

use crate::auth::Caller;
use crate::routes::HandlerResult;
use crate::wire::json;
use crate::wire::paging::NumberPage;
use crate::wire::path::PathExecution;
use crate::wire::query::Query;
use selvedge_core::Step;

/// `GET /v1/executions/{id}/steps`: in the order in which they started.
pub async fn list(caller: Caller, PathExecution(id): PathExecution, query: Query) -> HandlerResult {
    let page = NumberPage::read(query)?;
    let steps = caller.namespace.steps(id, page.after, page.load_limit()).await?;
    Ok(page.record_response(steps, |step| step.number, write))
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
