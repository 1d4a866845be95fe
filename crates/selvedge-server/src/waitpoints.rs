//! Waitpoints: what an outside party delivers through one, their list, and what operators do to their tokens.
//!
//! A token is written in one place only, the answer to the worker's report that made its waitpoint.

use crate::auth::Caller;
use crate::body::Sent;
use crate::json;
use crate::numbered::Numbered;
use crate::problem::{Code, Problem};
use crate::query::{Id, OfWaitpoint, Query};
use crate::signals::{Keyed, at_header};
use crate::{Answer, App};
use axum::extract::State;
use axum::http::StatusCode;
use selvedge_core::Waitpoint;
use selvedge_core::waitpoint::WaitpointState;
use selvedge_engine::Namespace;

/// `POST /v1/waitpoints/{id}/signal`: whoever has the token may make this delivery, so there is no [`Caller`]. The answer
/// says nothing that a repeat could not say too.
pub async fn signal(State(app): State<App>, OfWaitpoint(id): OfWaitpoint, sent: Sent) -> Answer {
    let key = sent.key()?;
    let mut fields = sent.fields()?;
    let token = fields.text("token")?;
    let Keyed { draft, by_header } = Keyed::read(&mut fields, key)?;
    fields.finish()?;
    let Some(token) = token else {
        let detail = "there is no token; send the one that came with this waitpoint in the field token";
        return Err(Problem::new(Code::InvalidToken, detail));
    };
    let delivered = app.engine.deliver(id, &token, draft).await;
    let delivered = delivered.map_err(|error| at_header(error, by_header))?;
    Ok(json::answer(StatusCode::OK, |object| {
        object.value("effect", delivered.effect.as_str());
        object.value("waitpoint", &id);
        object.value("number", &delivered.number);
    }))
}

/// `POST /v1/waitpoints/{id}/revoke`
pub async fn revoke(caller: Caller, OfWaitpoint(id): OfWaitpoint, sent: Sent) -> Answer {
    sent.fields_if_any()?.finish()?;
    let waitpoint = caller.namespace.revoke_waitpoint(id, &caller.actor).await?;
    Ok(json::answer(StatusCode::OK, |object| write(object.field("waitpoint"), &waitpoint)))
}

/// `POST /v1/admin/waitpoint-keys/rotate`
pub async fn rotate(caller: Caller, sent: Sent) -> Answer {
    let mut fields = sent.fields()?;
    let grace_ms = fields.integer("grace_ms")?;
    let grace_ms = fields.require("grace_ms", grace_ms)?;
    fields.finish()?;
    let key = caller.namespace.rotate_token_keys(grace_ms, &caller.actor).await?;
    Ok(json::answer(StatusCode::OK, |object| {
        object.value("key_id", &key.id.to_string());
        object.value("grace_ms", &grace_ms);
    }))
}

/// `GET /v1/executions/{id}/waitpoints`: in the order in which they were made.
pub async fn list(caller: Caller, Id(id): Id, query: Query) -> Answer {
    let part = Numbered::read(query)?;
    let waitpoints = caller.namespace.waitpoints(id, part.after, part.wanted()).await?;
    Ok(part.page(waitpoints, |waitpoint| waitpoint.number, write))
}

/// Writes a waitpoint as everybody may see it.
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

/// Writes a waitpoint with its token, for the worker that made it.
pub fn write_with_token(out: &mut Vec<u8>, namespace: &Namespace, waitpoint: &Waitpoint) {
    json::object(out, |object| {
        object.value("id", &waitpoint.id);
        object.value("name", &waitpoint.name);
        object.value("token", &namespace.token(waitpoint));
    });
}
