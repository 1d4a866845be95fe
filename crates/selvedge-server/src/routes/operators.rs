//! Operator actions on one execution. Every action takes `if_version` and an `Idempotency-Key`, and returns the changed
//! execution.

use crate::auth::Caller;
use crate::routes::HandlerResult;
use crate::routes::executions::current_view;
use crate::wire::body::RequestBody;
use crate::wire::json;
use crate::wire::path::PathExecution;
use crate::wire::problem::Problem;
use crate::wire::views::{self, Include};
use axum::http::StatusCode;
use axum::response::Response;
use selvedge_api::fields::Fields;
use selvedge_core::filter::Payloads;
use selvedge_core::name::LABEL_LIMIT;
use selvedge_core::rules::CallKey;
use selvedge_core::rules::keyed::Answered;
use selvedge_core::rules::operator::Action;
use selvedge_core::submission::{check_duration, check_priority, check_tags};
use selvedge_core::{ExecutionId, Name, Refusal};
use selvedge_engine::View;

/// `POST /v1/executions/{id}/cancel`
pub async fn cancel(caller: Caller, PathExecution(id): PathExecution, body: RequestBody) -> HandlerResult {
    let call_key = body.call_key()?;
    let mut fields = body.fields_if_any()?;
    let action = read_cancel(&mut fields)?;
    act(caller, id, (action, call_key), fields).await
}

/// `POST /v1/executions/{id}/reschedule`
pub async fn reschedule(
    caller: Caller,
    PathExecution(id): PathExecution,
    body: RequestBody,
) -> HandlerResult {
    let call_key = body.call_key()?;
    let mut fields = body.fields()?;
    let action = read_reschedule(&mut fields)?;
    act(caller, id, (action, call_key), fields).await
}

/// `POST /v1/executions/{id}/priority`
pub async fn priority(caller: Caller, PathExecution(id): PathExecution, body: RequestBody) -> HandlerResult {
    let call_key = body.call_key()?;
    let mut fields = body.fields()?;
    let action = read_priority(&mut fields)?;
    act(caller, id, (action, call_key), fields).await
}

/// `POST /v1/executions/{id}/tags`
pub async fn tags(caller: Caller, PathExecution(id): PathExecution, body: RequestBody) -> HandlerResult {
    let call_key = body.call_key()?;
    let mut fields = body.fields()?;
    let action = read_tags(&mut fields)?;
    act(caller, id, (action, call_key), fields).await
}

/// `POST /v1/executions/{id}/revoke-lease`
pub async fn revoke_lease(
    caller: Caller,
    PathExecution(id): PathExecution,
    body: RequestBody,
) -> HandlerResult {
    let call_key = body.call_key()?;
    let mut fields = body.fields_if_any()?;
    let reason = fields.text("reason")?;
    act(caller, id, (Action::Revoke { reason }, call_key), fields).await
}

/// `POST /v1/executions/{id}/resume`
pub async fn resume(caller: Caller, PathExecution(id): PathExecution, body: RequestBody) -> HandlerResult {
    let call_key = body.call_key()?;
    let fields = body.fields_if_any()?;
    act(caller, id, (Action::Resume, call_key), fields).await
}

/// `POST /v1/executions/{id}/replay`
pub async fn replay(caller: Caller, PathExecution(id): PathExecution, body: RequestBody) -> HandlerResult {
    let call_key = body.call_key()?;
    let mut fields = body.fields_if_any()?;
    if !fields.flag("dry_run")?.unwrap_or(false) {
        return act(caller, id, (Action::Replay, call_key), fields).await;
    }
    let if_version = fields.count("if_version")?;
    fields.finish()?;
    let view = caller.namespace.get_with(id, Payloads::NONE).await?;
    check_replay(&view, if_version)?;
    let would_reopen = caller.namespace.would_reopen(id).await?;
    Ok(json::response(StatusCode::OK, |object| {
        views::execution(object.field("execution"), &view, Include::NONE);
        object.value("dry_run", &true);
        object.value("would_reopen", &would_reopen);
    }))
}

/// Refuses a replay of `view` as the rules would refuse it now.
fn check_replay(view: &View, if_version: Option<u32>) -> Result<(), Problem> {
    let row = &view.stored.execution;
    if let Some(expected) = if_version.filter(|expected| *expected != row.version) {
        let refusal = Refusal::VersionMismatch { execution: row.id, expected, actual: row.version };
        return Err(refusal.into());
    }
    if row.state.outcome().is_none() {
        let refusal = Refusal::WrongState {
            execution: row.id,
            state: row.state.name().as_str().into(),
            detail: "only an execution that has ended can be replayed".into(),
        };
        return Err(refusal.into());
    }
    Ok(())
}

pub fn read_cancel(fields: &mut Fields<'_>) -> Result<Action, Refusal> {
    let reason = fields.text("reason")?;
    let grace_ms = fields.integer("grace_ms")?.unwrap_or(0);
    check_duration(&fields.pointer("grace_ms"), grace_ms)?;
    Ok(Action::Cancel { reason, grace_ms })
}

/// Reads the fields of a priority change.
pub fn read_priority(fields: &mut Fields<'_>) -> Result<Action, Refusal> {
    let priority = fields.integer("priority")?;
    let priority = fields.require("priority", priority)?;
    check_priority(&fields.pointer("priority"), priority)?;
    Ok(Action::Prioritise { priority })
}

/// Reads the fields of a change of tags.
pub fn read_tags(fields: &mut Fields<'_>) -> Result<Action, Refusal> {
    let set = fields.text_map("set")?.unwrap_or_default();
    let set = check_tags(&fields.pointer("set"), set)?;
    let remove = fields.texts("remove")?.unwrap_or_default();
    for (index, name) in remove.iter().enumerate() {
        Name::parse(&format!("{}/{index}", fields.pointer("remove")), name, LABEL_LIMIT)?;
    }
    Ok(Action::Tag { set, remove })
}

pub fn read_reschedule(fields: &mut Fields<'_>) -> Result<Action, Refusal> {
    let until = fields.time_or_delay("until_at", "delay_ms")?;
    let until = until.ok_or_else(|| fields.refuse("until_at", "is missing; give until_at or delay_ms"))?;
    let until = until.check(&fields.pointer("delay_ms"))?;
    Ok(Action::Reschedule { until })
}

/// Reads the common fields, runs `action` and returns the changed execution.
async fn act(
    caller: Caller,
    id: ExecutionId,
    (action, call_key): (Action, Option<CallKey>),
    mut fields: Fields<'_>,
) -> Result<Response, Problem> {
    let if_version = fields.count("if_version")?;
    fields.finish()?;
    let calls = caller.namespace.keyed(call_key);
    let Answered { done, duplicate } = calls.operate(id, action, if_version, &caller.actor).await?;
    let view = current_view(&caller.namespace, done).await?;
    Ok(json::response(StatusCode::OK, |object| {
        views::execution(object.field("execution"), &view, Include::NONE);
        object.value("duplicate", &duplicate);
    }))
}
