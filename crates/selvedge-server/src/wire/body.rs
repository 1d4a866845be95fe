//! The body of a request, read within limits, and its `Idempotency-Key` header.
//!
//! A body has a limit of size and of the time between two parts of it. All bodies together have a limit too, so that many
//! large ones that arrive slowly do not fill the memory: a body that finds no room is refused.
//!
//! A body over the limit is still read to its end, up to [`DISCARD_MAX`] bytes more, because a caller that is still
//! sending would not see the response.

use crate::wire::problem::{Code, Problem};
use crate::wire::query::Query;
use crate::{AppState, Options};
use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::HeaderValue;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use selvedge_api::fields::Fields;
use selvedge_core::name::KEY_LIMIT;
use selvedge_core::rules::CallKey;
use selvedge_core::{Name, Refusal, TraceParent};
use serde_json::value::RawValue;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use xxhash_rust::xxh3::Xxh3;

const MIB: usize = 1024 * 1024;
/// The largest body of a request about one execution, in bytes: an input of 1 MiB and the other fields.
pub const SMALL_BODY: usize = 2 * MIB;
/// The largest body of a flow, a batch, a report or a heartbeat, in bytes.
pub use crate::wire::graph::LARGE_BODY;
/// The most bytes over its limit that are read and discarded of a body before the connection is closed.
const DISCARD_MAX: usize = 16 * MIB;
/// The time after which a caller whose body found no room should repeat the request, in milliseconds.
const ROOM_RETRY_MS: u64 = 1000;
/// The pointer of the `Idempotency-Key` header in refusals.
pub const KEY_POINTER: &str = "/headers/idempotency-key";

/// The limits of bodies, and the room that those which are being read or handled share.
#[derive(Clone)]
pub struct BodyRoom {
    /// The free room, in bytes.
    free: Arc<Semaphore>,
    /// The longest time between two parts of a body.
    part_time: Duration,
    /// The longest time for a whole body.
    body_time: Duration,
}

impl BodyRoom {
    /// Returns the room of a server.
    pub fn new(options: &Options) -> BodyRoom {
        let free = Arc::new(Semaphore::new(options.body_bytes.min(Semaphore::MAX_PERMITS)));
        BodyRoom { free, part_time: options.body_part_time, body_time: options.body_time }
    }

    fn too_slow(&self) -> Problem {
        let detail = format!(
            "no part of the body arrived for {} s, or the whole took longer than {} s",
            self.part_time.as_secs_f64(),
            self.body_time.as_secs_f64()
        );
        Problem::new(Code::RequestTimeout, detail).closing_connection()
    }

    /// Adds room for some bytes to that of a body.
    fn grow(&self, room: &mut Option<OwnedSemaphorePermit>, bytes: usize) -> Result<(), Problem> {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let added = self.free.clone().try_acquire_many_owned(bytes).map_err(|_full| {
            let detail = "the server holds too many large requests; this one had no effect";
            Problem::new(Code::RateLimited, detail).retry_after(ROOM_RETRY_MS).closing_connection()
        })?;
        match room {
            Some(room) => room.merge(added),
            None => *room = Some(added),
        }
        Ok(())
    }
}

/// The body of a request, of at most `LIMIT` bytes, and its `Idempotency-Key`.
pub struct RequestBody<const LIMIT: usize = SMALL_BODY> {
    body: Bytes,
    key: Option<HeaderValue>,
    traceparent: Option<HeaderValue>,
    /// The method and path of the request; empty without a key.
    target: String,
    /// Held until the request is handled.
    _room: Option<OwnedSemaphorePermit>,
}

impl<const LIMIT: usize> RequestBody<LIMIT> {
    /// Parses the fields of the body. An empty body is refused.
    pub fn fields(&self) -> Result<Fields<'_>, Problem> {
        Ok(Fields::from_body(&self.body)?)
    }

    /// Parses the fields of the body. An empty body has no fields.
    pub fn fields_if_any(&self) -> Result<Fields<'_>, Problem> {
        let body: &[u8] = if self.body.is_empty() { b"{}" } else { &self.body };
        Ok(Fields::from_body(body)?)
    }

    /// Returns the fields of a form that a browser sent.
    pub fn form(&self) -> Query {
        Query::of_form(&self.body)
    }

    /// Returns the bytes of the body.
    pub fn bytes(&self) -> &[u8] {
        &self.body
    }

    /// Returns the body, unparsed.
    pub fn raw(&self) -> Result<&RawValue, Problem> {
        serde_json::from_slice(&self.body)
            .map_err(|error| Problem::new(Code::InvalidJson, format!("the body is not JSON: {error}")))
    }

    /// Returns the span that sent the request, if its `traceparent` header names one.
    pub fn trace(&self) -> Option<TraceParent> {
        self.traceparent.as_ref()?.to_str().ok().and_then(TraceParent::parse)
    }

    /// Returns the `Idempotency-Key` of the request.
    pub fn key(&self) -> Result<Option<Name>, Refusal> {
        let Some(key) = &self.key else {
            return Ok(None);
        };
        let key = std::str::from_utf8(key.as_bytes())
            .map_err(|_| Refusal::field(KEY_POINTER, "must be UTF-8 text"))?;
        Name::parse(KEY_POINTER, key, KEY_LIMIT).map(Some)
    }

    /// Returns the `Idempotency-Key` of the request with a digest of the request.
    pub fn call_key(&self) -> Result<Option<CallKey>, Refusal> {
        let Some(key) = self.key()? else {
            return Ok(None);
        };
        let mut hasher = Xxh3::new();
        hasher.update(self.target.as_bytes());
        hasher.update(&self.body);
        Ok(Some(CallKey { key, digest: hasher.digest() }))
    }
}

impl<const LIMIT: usize> FromRequest<AppState> for RequestBody<LIMIT> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let key = parts.headers.get("idempotency-key").cloned();
        let target = match key {
            Some(_) => format!("{} {}\n", parts.method, parts.uri.path()),
            None => String::new(),
        };
        let traceparent = parts.headers.get("traceparent").cloned();
        let mut room = None;
        let bodies = &state.bodies;
        let body = timeout(bodies.body_time, read(body, LIMIT, bodies, &mut room))
            .await
            .map_err(|_elapsed| bodies.too_slow())??;
        Ok(RequestBody { body, key, traceparent, target, _room: room })
    }
}

async fn read(
    mut body: Body,
    limit: usize,
    bodies: &BodyRoom,
    room: &mut Option<OwnedSemaphorePermit>,
) -> Result<Bytes, Problem> {
    let mut parts: Vec<Bytes> = Vec::new();
    let mut size = 0_usize;
    while let Some(frame) =
        timeout(bodies.part_time, body.frame()).await.map_err(|_elapsed| bodies.too_slow())?
    {
        let frame = frame.map_err(|error| {
            Problem::new(Code::InvalidJson, format!("the body was cut off: {error}")).closing_connection()
        })?;
        let Ok(data) = frame.into_data() else { continue };
        size += data.len();
        if size > limit + DISCARD_MAX {
            return Err(too_large(limit).closing_connection());
        }
        if size <= limit {
            bodies.grow(room, data.len())?;
            parts.push(data);
        } else {
            parts = Vec::new();
            *room = None;
        }
    }
    match size <= limit {
        true => Ok(joined(parts, size)),
        false => Err(too_large(limit)),
    }
}

/// Joins the parts of a body. A body that arrived in one part is not copied.
fn joined(mut parts: Vec<Bytes>, size: usize) -> Bytes {
    if parts.len() <= 1 {
        return parts.pop().unwrap_or_default();
    }
    let mut body = BytesMut::with_capacity(size);
    // Frees each part as soon as it is copied.
    parts.into_iter().for_each(|part| body.extend_from_slice(&part));
    body.freeze()
}

fn too_large(limit: usize) -> Problem {
    let detail = format!("the body is larger than {limit} bytes, the limit of this request");
    Problem::new(Code::PayloadTooLarge, detail)
}
