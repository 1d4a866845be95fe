//! Signals: sending one to an execution, and the list of those it got.

use crate::Answer;
use crate::auth::Caller;
use crate::body::{KEY_POINTER, Sent};
use crate::fields::Fields;
use crate::json;
use crate::numbered::Numbered;
use crate::query::{Id, Query};
use axum::http::StatusCode;
use bytes::Bytes;
use selvedge_core::rules::signal::SignalDraft;
use selvedge_core::{Name, Refusal, Signal};
use selvedge_engine::Error;

/// `POST /v1/executions/{id}/signals`
pub async fn send(caller: Caller, Id(id): Id, sent: Sent) -> Answer {
    let key = sent.key()?;
    let mut fields = sent.fields()?;
    let keyed = Keyed::read(&mut fields, key)?;
    let source = fields.name("source")?;
    fields.finish()?;
    let Keyed { draft, by_header } = keyed;
    let delivered = caller.namespace.signal(id, draft, &caller.speaks_as(source)).await;
    let delivered = delivered.map_err(|error| at_header(error, by_header))?;
    Ok(json::answer(StatusCode::OK, |object| {
        object.object("signal", |object| {
            object.value("number", &delivered.number);
            object.value("name", &delivered.name);
            object.value("source", &delivered.source);
        });
        object.value("duplicate", &delivered.duplicate);
        object.value("effect", delivered.effect.as_str());
    }))
}

/// A signal as a body tells it.
pub struct Keyed {
    /// What.
    pub draft: SignalDraft,
    /// Whether its key is that of the call, because the body has none.
    pub by_header: bool,
}

impl Keyed {
    /// Reads the fields `name`, `payload` and `idempotency_key`; where there is no such key, that of the call counts.
    pub fn read(fields: &mut Fields<'_>, of_call: Option<Name>) -> Result<Self, Refusal> {
        let name = fields.text("name")?;
        let payload = fields.payload("payload")?.unwrap_or(Bytes::from_static(b"null"));
        let key = fields.text("idempotency_key")?;
        let by_header = key.is_none() && of_call.is_some();
        let key = key.or_else(|| of_call.map(|key| key.to_string()));
        Ok(Keyed { draft: SignalDraft { name, payload, key }, by_header })
    }
}

/// What is wrong with a key that stands in the header is said of the header.
pub fn at_header(error: Error, by_header: bool) -> Error {
    match error {
        Error::Refused(Refusal::IdempotencyMismatch { detail, .. }) if by_header => {
            Refusal::IdempotencyMismatch { pointer: KEY_POINTER.into(), detail }.into()
        }
        error => error,
    }
}

/// `GET /v1/executions/{id}/signals`
pub async fn list(caller: Caller, Id(id): Id, query: Query) -> Answer {
    let part = Numbered::read(query)?;
    let signals = caller.namespace.signals(id, part.after, part.wanted()).await?;
    Ok(part.page(signals, |signal| signal.number, write))
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
