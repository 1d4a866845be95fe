//! Waitpoints: delivery of signals with a token, lists, revocation, and rotation of the token keys.
//!
//! A token is written in one response only: that of the worker's report that created its waitpoint.

use crate::AppState;
use crate::auth::Caller;
use crate::routes::HandlerResult;
use crate::routes::signals::{SignalRequest, point_to_header};
use crate::wire::body::RequestBody;
use crate::wire::json;
use crate::wire::paging::NumberPage;
use crate::wire::path::{PathExecution, PathWaitpoint};
use crate::wire::problem::{Code, Problem};
use crate::wire::query::Query;
use axum::extract::State;
use axum::http::StatusCode;
use selvedge_core::Waitpoint;
use selvedge_core::rules::keyed::Answered;
use selvedge_core::waitpoint::WaitpointState;
use selvedge_engine::Namespace;

/// `POST /v1/waitpoints/{id}/signal`: the token alone authorises the delivery, so there is no [`Caller`]. The response
/// contains only what a repeated delivery can return as well.
pub async fn signal(
    State(state): State<AppState>,
    PathWaitpoint(id): PathWaitpoint,
    body: RequestBody,
) -> HandlerResult {
    let key = body.key()?;
    let mut fields = body.fields()?;
    let token = fields.text("token")?;
    let SignalRequest { draft, key_is_header } = SignalRequest::read(&mut fields, key)?;
    fields.finish()?;
    let Some(token) = token else {
        let detail = "there is no token; send the token that came with this waitpoint in the field token";
        return Err(Problem::new(Code::InvalidToken, detail));
    };
    let delivered = state.engine.deliver(id, &token, draft).await;
    let delivered = delivered.map_err(|error| point_to_header(error, key_is_header))?;
    Ok(json::response(StatusCode::OK, |object| {
        object.value("effect", delivered.effect.as_str());
        object.value("waitpoint", &id);
        object.value("number", &delivered.number);
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
    let signal = match waitpoint.state {
        WaitpointState::Delivered(number, _) => Some(number),
        WaitpointState::Open | WaitpointState::Expired | WaitpointState::Revoked => None,
    };
    json::object(out, |object| {
        object.value("id", &waitpoint.id);
        object.value("name", &waitpoint.name);
        object.value("source", &waitpoint.source);
        object.value("state", waitpoint.state.as_str());
        object.value("signal", &signal);
        object.time("created_at", Some(waitpoint.created_at));
        object.time("expires_at", waitpoint.expires_at);
    });
}

/// Writes a waitpoint with its token, for the worker that created it.
pub fn write_with_token(out: &mut Vec<u8>, namespace: &Namespace, waitpoint: &Waitpoint) {
    json::object(out, |object| {
        object.value("id", &waitpoint.id);
        object.value("name", &waitpoint.name);
        object.value("token", &namespace.token(waitpoint));
    });
}
