//! The upstreams and children of an execution: their outcomes, errors and results.

use crate::auth::Caller;
use crate::routes::HandlerResult;
use crate::wire::json;
use crate::wire::paging::NumberPage;
use crate::wire::path::PathExecution;
use crate::wire::query::Query;
use crate::wire::views::failure;
use selvedge_core::ExecutionId;
use selvedge_engine::Relation;
use selvedge_engine::store::Stored;

/// `GET /v1/executions/{id}/upstreams`
pub async fn upstreams(caller: Caller, PathExecution(id): PathExecution, query: Query) -> HandlerResult {
    list(caller, id, Relation::Upstream, query).await
}

/// `GET /v1/executions/{id}/children`
pub async fn children(caller: Caller, PathExecution(id): PathExecution, query: Query) -> HandlerResult {
    list(caller, id, Relation::Child, query).await
}

async fn list(caller: Caller, id: ExecutionId, relation: Relation, query: Query) -> HandlerResult {
    let page = NumberPage::read(query)?;
    let (relatives, next) = caller.namespace.relatives(id, relation, page.after, page.limit()).await?;
    Ok(json::page(&relatives, next.map(|next| next.to_string()), write))
}

fn write(out: &mut Vec<u8>, relative: &Stored) {
    let row = &relative.execution;
    let outcome = row.state.outcome();
    json::object(out, |object| {
        object.value("node", &row.node());
        object.value("execution", &row.id);
        object.value("outcome", &outcome);
        // An error of an earlier attempt is not that of the execution.
        failure(object, row.detail.error.as_ref().filter(|_| outcome.is_some()));
        object.raw("result", relative.result.as_deref());
    });
}
