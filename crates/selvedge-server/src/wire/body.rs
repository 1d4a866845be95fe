//! The body of a request, read within a limit, and its `Idempotency-Key` header.
//!
//! A body over the limit is still read to its end, up to [`DISCARD_MAX`] bytes more, because a caller that is still
//! sending would not see the response.

use crate::AppState;
use crate::wire::fields::Fields;
use crate::wire::problem::{Code, Problem};
use axum::body::{Body, HttpBody};
use axum::extract::{FromRequest, Request};
use axum::http::HeaderValue;
use http_body_util::BodyExt;
use selvedge_core::name::KEY_LIMIT;
use selvedge_core::rules::CallKey;
use selvedge_core::{Name, Refusal};
use xxhash_rust::xxh3::Xxh3;

const MIB: usize = 1024 * 1024;
/// The largest body of a request about one execution, in bytes: an input of 1 MiB and the other fields.
pub const SMALL_BODY: usize = 2 * MIB;
/// The largest body of a flow, a batch, a report or a heartbeat, in bytes.
pub const LARGE_BODY: usize = 32 * MIB;
/// The most bytes over its limit that are read and discarded of a body before the connection is closed.
const DISCARD_MAX: usize = 16 * MIB;
/// The pointer of the `Idempotency-Key` header in refusals.
pub const KEY_POINTER: &str = "/headers/idempotency-key";

/// The body of a request, of at most `LIMIT` bytes, and its `Idempotency-Key`.
pub struct RequestBody<const LIMIT: usize = SMALL_BODY> {
    body: Vec<u8>,
    key: Option<HeaderValue>,
    /// The method and path of the request; empty without a key.
    target: String,
}

impl<const LIMIT: usize> RequestBody<LIMIT> {
    /// Parses the fields of the body. An empty body is refused.
    pub fn fields(&self) -> Result<Fields<'_>, Problem> {
        Fields::from_body(&self.body)
    }

    /// Parses the fields of the body. An empty body has no fields.
    pub fn fields_if_any(&self) -> Result<Fields<'_>, Problem> {
        match self.body.is_empty() {
            true => Fields::from_body(b"{}"),
            false => Fields::from_body(&self.body),
        }
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

    async fn from_request(request: Request, _state: &AppState) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let key = parts.headers.get("idempotency-key").cloned();
        let target = match key {
            Some(_) => format!("{} {}\n", parts.method, parts.uri.path()),
            None => String::new(),
        };
        let body = read(body, LIMIT).await?;
        Ok(RequestBody { body, key, target })
    }
}

async fn read(mut body: Body, limit: usize) -> Result<Vec<u8>, Problem> {
    let expected = usize::try_from(HttpBody::size_hint(&body).lower()).unwrap_or(limit);
    let mut read = Vec::with_capacity(expected.min(limit));
    let mut size = 0_usize;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            Problem::new(Code::InvalidJson, format!("the body was cut off: {error}")).closing_connection()
        })?;
        let Ok(data) = frame.into_data() else { continue };
        size += data.len();
        if size > limit + DISCARD_MAX {
            return Err(too_large(limit).closing_connection());
        }
        if size <= limit {
            read.extend_from_slice(&data);
        } else {
            read = Vec::new();
        }
    }
    match size <= limit {
        true => Ok(read),
        false => Err(too_large(limit)),
    }
}

fn too_large(limit: usize) -> Problem {
    let detail = format!("the body is larger than {limit} bytes, the limit of this request");
    Problem::new(Code::PayloadTooLarge, detail)
}
