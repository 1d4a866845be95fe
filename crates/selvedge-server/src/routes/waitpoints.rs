//! Waitpoints: delivery of signals with a token or by an operator, lists, new tokens, revocation, and the token keys.
//!
//! A token is written in two responses only: that of the worker's report that created its waitpoint, and that of the call
//! that issued it again.

use crate::AppState;
use crate::auth::{Caller, TokenHolder};
use crate::routes::HandlerResult;
use crate::routes::signals::{SignalRequest, point_to_header};
use crate::wire::body::RequestBody;
use crate::wire::json::{self, Object};
use crate::wire::paging::{NumberPage, format_cursor, parse_cursor};
use crate::wire::path::{PathExecution, PathWaitpoint};
use crate::wire::problem::{Code, Problem};
use crate::wire::query::Query;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use selvedge_api::fields::unknown_word;
use selvedge_core::filter::ListPosition;
use selvedge_core::name::NAME_LIMIT;
use selvedge_core::rules::keyed::Answered;
use selvedge_core::rules::signal::Delivered;
use selvedge_core::waitpoint::{WaitpointFilter, WaitpointPosition, WaitpointState, WaitpointStateName};
use selvedge_core::{ExecutionId, Name, Outcome, Refusal, Waitpoint, WaitpointId};
use selvedge_engine::Namespace;

/// `POST /v1/waitpoints/{id}/signal`: the token alone authorises the delivery, so there is no [`Caller`]. The response
/// contains only what a repeated delivery can return as well.
pub async fn signal(
    State(state): State<AppState>,
    holder: TokenHolder,
    PathWaitpoint(id): PathWaitpoint,
    body: RequestBody,
) -> HandlerResult {
    let key = body.key()?;
    let mut fields = body.fields()?;
    let token = fields.text("token")?;
    let SignalRequest { draft, key_is_header } = SignalRequest::read(&mut fields, key)?;
    fields.finish()?;
    let token = token.ok_or_else(no_token)?;
    let delivered = holder.call(&token, state.engine.deliver(id, &token, draft)).await?;
    let delivered = delivered.map_err(|error| point_to_header(error, key_is_header))?;
    Ok(delivery(id, &delivered))
}

/// Returns the response to a delivery through a waitpoint.
fn delivery(id: WaitpointId, delivered: &Delivered) -> Response {
    json::response(StatusCode::OK, |object| {
        object.value("effect", delivered.effect.as_str());
        object.value("waitpoint", &id);
        object.value("number", &delivered.number);
        object.value("duplicate", &delivered.duplicate);
    })
}

/// `POST /v1/waitpoints/{id}/look`: the token alone authorises it, so there is no [`Caller`].
pub async fn look(
    State(state): State<AppState>,
    holder: TokenHolder,
    PathWaitpoint(id): PathWaitpoint,
    body: RequestBody,
) -> HandlerResult {
    let mut fields = body.fields()?;
    let token = fields.text("token")?;
    fields.finish()?;
    let token = token.ok_or_else(no_token)?;
    let look = holder.call(&token, state.engine.look_at_waitpoint(id, &token)).await??;
    let waitpoint = &look.waitpoint;
    Ok(json::response(StatusCode::OK, |object| {
        object.value("waitpoint", &id);
        object.value("name", &waitpoint.name);
        object.value("prompt", &waitpoint.prompt);
        object.value("signals", &waitpoint.choices());
        object.time("expires_at", waitpoint.expires_at);
        object.value("state", look.state.as_str());
        let decision = look.decision.as_ref();
        object.value("decided_by", &decision.map(|decision| &decision.by));
        object.value("decided_with", &decision.map(|decision| &decision.signal));
        object.time("decided_at", decision.map(|decision| decision.at));
        object.value("outcome", &look.outcome.map(Outcome::as_str));
    }))
}

/// Returns the problem of a request without a token.
pub fn no_token() -> Problem {
    let detail = "there is no token; send the token that came with this waitpoint in the field token";
    Problem::new(Code::InvalidToken, detail)
}

/// `POST /v1/waitpoints/{id}/answer`
pub async fn answer(caller: Caller, PathWaitpoint(id): PathWaitpoint, body: RequestBody) -> HandlerResult {
    let key = body.key()?;
    let mut fields = body.fields_if_any()?;
    let SignalRequest { draft, key_is_header } = SignalRequest::read(&mut fields, key)?;
    fields.finish()?;
    let delivered = caller.namespace.answer_waitpoint(id, draft, &caller.actor).await;
    let delivered = delivered.map_err(|error| point_to_header(error, key_is_header))?;
    Ok(delivery(id, &delivered))
}

/// `POST /v1/waitpoints/{id}/reissue`: a repeated call with its key gets no token, because tokens are not kept.
pub async fn reissue(caller: Caller, PathWaitpoint(id): PathWaitpoint, body: RequestBody) -> HandlerResult {
    let mut fields = body.fields_if_any()?;
    let expires_ms = fields.integer("expires_ms")?;
    fields.finish()?;
    let calls = caller.namespace.keyed(body.call_key()?);
    let Answered { done, duplicate } = calls.reissue_waitpoint(id, expires_ms, &caller.actor).await?;
    let token = (!duplicate).then(|| caller.namespace.token(&done));
    Ok(json::response(StatusCode::OK, |object| {
        write(object.field("waitpoint"), &done);
        object.value("token", &token);
        object.value("duplicate", &duplicate);
    }))
}

/// `GET /v1/waitpoints/{id}`
pub async fn get(caller: Caller, PathWaitpoint(id): PathWaitpoint, query: Query) -> HandlerResult {
    query.finish()?;
    let waitpoint = caller.namespace.get_waitpoint(id).await?;
    Ok(json::response(StatusCode::OK, |object| write_fields(object, &waitpoint)))
}

/// `GET /v1/waitpoints`: of all executions, newest first.
pub async fn list_all(caller: Caller, mut query: Query) -> HandlerResult {
    let state = query.text("state")?.map(|word| {
        let known = WaitpointStateName::ALL.into_iter().map(WaitpointStateName::as_str);
        WaitpointStateName::parse(&word)
            .ok_or_else(|| Refusal::field("/query/state", unknown_word(&word, known)))
    });
    let source = query.text("source")?.map(|source| Name::parse("/query/source", &source, NAME_LIMIT));
    let execution = query.id("execution")?.map(ExecutionId);
    let limit = query.limit()?;
    let after = query.text("cursor")?.map(|cursor| parse_cursor(&cursor)).transpose()?;
    query.finish()?;
    let filter = WaitpointFilter {
        namespace: caller.namespace.id(),
        state: state.transpose()?,
        source: source.transpose()?,
    };
    let after =
        after.map(|place| WaitpointPosition { created_at: place.submitted_at, id: WaitpointId(place.id.0) });
    let (waitpoints, next) = caller.namespace.list_waitpoints(&filter, execution, after, limit).await?;
    let next = next.map(|place| ListPosition { submitted_at: place.created_at, id: ExecutionId(place.id.0) });
    Ok(json::page(&waitpoints, next.map(format_cursor), write))
}

/// `GET /v1/admin/waitpoint-keys`: newest first. A key without an expiry signs new tokens.
pub async fn list_keys(_caller: Caller, State(state): State<AppState>, query: Query) -> HandlerResult {
    query.finish()?;
    let keys = state.engine.token_keys().await?;
    Ok(json::page(&keys, None, |out, key| {
        json::object(out, |object| {
            object.value("key_id", &key.id.to_string());
            object.time("created_at", Some(key.created_at));
            object.time("expires_at", key.retires_at);
        });
    }))
}

/// `POST /v1/waitpoints/{id}/revoke`
pub async fn revoke(caller: Caller, PathWaitpoint(id): PathWaitpoint, body: RequestBody) -> HandlerResult {
    body.fields_if_any()?.finish()?;
    let calls = caller.namespace.keyed(body.call_key()?);
    let Answered { done, duplicate } = calls.revoke_waitpoint(id, &caller.actor).await?;
    Ok(json::response(StatusCode::OK, |object| {
        write(object.field("waitpoint"), &done);
        object.value("duplicate", &duplicate);
    }))
}

/// `POST /v1/admin/waitpoint-keys/rotate`
pub async fn rotate_keys(caller: Caller, body: RequestBody) -> HandlerResult {
    let mut fields = body.fields()?;
    let grace_ms = fields.integer("grace_ms")?;
    let grace_ms = fields.require("grace_ms", grace_ms)?;
    fields.finish()?;
    let calls = caller.namespace.keyed(body.call_key()?);
    let Answered { done: key, duplicate } = calls.rotate_token_keys(grace_ms, &caller.actor).await?;
    Ok(json::response(StatusCode::OK, |object| {
        object.value("key_id", &key.id.to_string());
        object.value("grace_ms", &grace_ms);
        object.value("duplicate", &duplicate);
    }))
}

/// `GET /v1/executions/{id}/waitpoints`: in the order of their creation.
pub async fn list(caller: Caller, PathExecution(id): PathExecution, query: Query) -> HandlerResult {
    let page = NumberPage::read(query)?;
    let waitpoints = caller.namespace.waitpoints(id, page.after, page.load_limit()).await?;
    Ok(page.response(waitpoints, |waitpoint| waitpoint.number, write))
}

/// Writes a waitpoint without its token.
fn write(out: &mut Vec<u8>, waitpoint: &Waitpoint) {
    json::object(out, |object| write_fields(object, waitpoint));
}

fn write_fields(object: &mut Object<'_>, waitpoint: &Waitpoint) {
    let signal = match waitpoint.state {
        WaitpointState::Delivered(number, _) => Some(number),
        WaitpointState::Open | WaitpointState::Expired | WaitpointState::Revoked => None,
    };
    object.value("id", &waitpoint.id);
    object.value("execution", &waitpoint.execution);
    object.value("name", &waitpoint.name);
    object.value("source", &waitpoint.source);
    object.value("state", waitpoint.state.as_str());
    object.value("signal", &signal);
    object.value("signals", &waitpoint.choices());
    object.value("prompt", &waitpoint.prompt);
    object.time("created_at", Some(waitpoint.created_at));
    object.time("expires_at", waitpoint.expires_at);
}

/// Writes a waitpoint with its token, for the worker that created it.
pub fn write_with_token(out: &mut Vec<u8>, namespace: &Namespace, waitpoint: &Waitpoint) {
    json::object(out, |object| {
        object.value("id", &waitpoint.id);
        object.value("name", &waitpoint.name);
        object.value("token", &namespace.token(waitpoint));
    });
}
