//! The body of a call, read to its end within a limit, and the caller's key for the call.
//!
//! A body that is too large is still read to its end (up to [`SPARE`] more), so that the caller, who is busy sending,
//! gets to see the answer.

use crate::App;
use crate::fields::Fields;
use crate::problem::{Code, Problem};
use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::HeaderValue;
use http_body_util::BodyExt;
use selvedge_core::name::KEY_LIMIT;
use selvedge_core::rules::Operation;
use selvedge_core::{Name, Refusal};
use xxhash_rust::xxh3::Xxh3;

const MIB: usize = 1024 * 1024;
/// The largest body of a call about one execution: an input of 1 MiB and everything around it.
pub const SMALL: usize = 2 * MIB;
/// The largest body of a batch or a report.
pub const LARGE: usize = 32 * MIB;
/// How much more than its limit is read of a body before the connection is closed on it.
const SPARE: usize = 16 * MIB;
/// Where an `Idempotency-Key` stands in a request.
pub const KEY_POINTER: &str = "/headers/idempotency-key";

/// What was sent.
pub struct Sent<const LIMIT: usize = SMALL> {
    body: Vec<u8>,
    key: Option<HeaderValue>,
    target: String,
}

impl<const LIMIT: usize> Sent<LIMIT> {
    /// The fields of the body, which must be there.
    pub fn fields(&self) -> Result<Fields<'_>, Problem> {
        Fields::of_body(&self.body)
    }

    /// The fields of the body; no body means no fields.
    pub fn fields_if_any(&self) -> Result<Fields<'_>, Problem> {
        match self.body.is_empty() {
            true => Fields::of_body(b"{}"),
            false => Fields::of_body(&self.body),
        }
    }

    /// The caller's key for this call.
    pub fn key(&self) -> Result<Option<Name>, Refusal> {
        let Some(key) = &self.key else {
            return Ok(None);
        };
        let key = std::str::from_utf8(key.as_bytes())
            .map_err(|_| Refusal::field(KEY_POINTER, "must be UTF-8 text"))?;
        Name::parse(KEY_POINTER, key, KEY_LIMIT).map(Some)
    }

    /// The caller's key for this call, and a digest of the call.
    pub fn operation(&self) -> Result<Option<Operation>, Refusal> {
        let Some(key) = self.key()? else {
            return Ok(None);
        };
        let mut hasher = Xxh3::new();
        hasher.update(self.target.as_bytes());
        hasher.update(&self.body);
        Ok(Some(Operation { key, digest: hasher.digest() }))
    }
}

impl<const LIMIT: usize> FromRequest<App> for Sent<LIMIT> {
    type Rejection = Problem;

    async fn from_request(request: Request, _app: &App) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let key = parts.headers.get("idempotency-key").cloned();
        let target = match key {
            Some(_) => format!("{} {}\n", parts.method, parts.uri.path()),
            None => String::new(),
        };
        let body = read(body, LIMIT).await?;
        Ok(Sent { body, key, target })
    }
}

async fn read(mut body: Body, limit: usize) -> Result<Vec<u8>, Problem> {
    let expected = usize::try_from(http_body_size(&body)).unwrap_or(limit);
    let mut read = Vec::with_capacity(expected.min(limit));
    let mut size = 0_usize;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            Problem::new(Code::InvalidJson, format!("the body was cut off: {error}")).closing()
        })?;
        let Ok(data) = frame.into_data() else { continue };
        size += data.len();
        if size > limit + SPARE {
            return Err(too_large(limit).closing());
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

fn http_body_size(body: &Body) -> u64 {
    axum::body::HttpBody::size_hint(body).lower()
}

fn too_large(limit: usize) -> Problem {
    let detail = format!("the body is larger than {limit} bytes, the limit of this call");
    Problem::new(Code::PayloadTooLarge, detail)
}
