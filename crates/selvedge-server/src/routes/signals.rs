//! Signals: delivery to an execution, and the list of its signals.

use crate::auth::Caller;
use crate::routes::HandlerResult;
use crate::wire::body::{KEY_POINTER, RequestBody};
use crate::wire::json;
use crate::wire::paging::NumberPage;
use crate::wire::path::PathExecution;
use crate::wire::query::Query;
use axum::http::StatusCode;
use bytes::Bytes;
use selvedge_api::fields::Fields;
use selvedge_core::rules::signal::SignalDraft;
use selvedge_core::{Name, Refusal, Signal};
use selvedge_engine::Error;

/// `POST /v1/executions/{id}/signals`
pub async fn send(caller: Caller, PathExecution(id): PathExecution, body: RequestBody) -> HandlerResult {
    let key = body.key()?;
    let mut fields = body.fields()?;
    let SignalRequest { draft, key_is_header } = SignalRequest::read(&mut fields, key)?;
    let source = fields.name("source")?;
    fields.finish()?;
    let delivered = caller.namespace.signal(id, draft, &caller.signal_source(source)?).await;
    let delivered = delivered.map_err(|error| point_to_header(error, key_is_header))?;
    Ok(json::response(StatusCode::OK, |object| {
        object.object("signal", |object| {
            object.value("number", &delivered.number);
            object.value("name", &delivered.name);
            object.value("source", &delivered.source);
        });
        object.value("duplicate", &delivered.duplicate);
        object.value("effect", delivered.effect.as_str());
    }))
}

/// A signal in a request body.
pub struct SignalRequest {
    pub draft: SignalDraft,
    /// Set if the idempotency key was taken from the header because the body has none.
    pub key_is_header: bool,
}

impl SignalRequest {
    /// Reads the fields `name`, `payload` and `idempotency_key`; the last defaults to `header_key`.
    pub fn read(fields: &mut Fields<'_>, header_key: Option<Name>) -> Result<Self, Refusal> {
        let name = fields.text("name")?;
        let payload = fields.payload("payload")?.unwrap_or(Bytes::from_static(b"null"));
        let key = fields.text("idempotency_key")?;
        let key_is_header = key.is_none() && header_key.is_some();
        let key = key.or_else(|| header_key.map(|key| key.to_string()));
        Ok(SignalRequest { draft: SignalDraft { name, payload, key }, key_is_header })
    }
}

/// Points a refusal of the key to the header if the key was taken from there.
pub fn point_to_header(error: Error, key_is_header: bool) -> Error {
    match error {
        Error::Refused(Refusal::IdempotencyMismatch { detail, .. }) if key_is_header => {
            Refusal::IdempotencyMismatch { pointer: KEY_POINTER.into(), detail }.into()
        }
        error => error,
    }
}

/// `GET /v1/executions/{id}/signals`
pub async fn list(caller: Caller, PathExecution(id): PathExecution, query: Query) -> HandlerResult {
    let page = NumberPage::read(query)?;
    let signals = caller.namespace.signals(id, page.after, page.load_limit()).await?;
    Ok(page.record_response(signals, |signal| signal.number, write))
}

fn write(out: &mut Vec<u8>, signal: &Signal) {
    let (waitpoint_id, waitpoint) = signal.waitpoint.as_ref().map(|(id, name)| (id, name)).unzip();
    json::object(out, |object| {
        object.value("number", &signal.number);
        object.value("name", &signal.name);
        object.value("source", &signal.source);
        object.value("waitpoint", &waitpoint);
        object.value("waitpoint_id", &waitpoint_id);
        object.raw("payload", signal.payload.as_deref());
        object.value("effect", signal.effect.as_str());
        object.value("taken_by", &signal.taken);
        object.value("idempotency_key", &signal.key);
        object.time("delivered_at", Some(signal.at));
    });
}
