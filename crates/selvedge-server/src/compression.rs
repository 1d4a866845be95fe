//! Compression of answers with gzip or zstd, for callers that accept it.
//!
//! Compresses only answers of a known size above 1 KiB. A smaller answer fits into one packet anyway. Event streams are not
//! compressed: a compressor would delay their messages.
//!
//! A compressor needs far more memory than most answers, so none is kept while a client reads: an answer of up to 64 KiB is
//! compressed at once, and content that never changes ([`FixedContent`]) is compressed once. A larger answer is compressed while it is
//! sent, and its compressor counts towards the room for responses.

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::middleware::Next;
use axum::response::IntoResponse;
use bytes::Bytes;
use http_body_util::BodyExt;
use std::sync::OnceLock;
use tower_http::CompressionLevel;
use tower_http::compression::{CompressionLayer, Predicate};

/// Answers above this size are compressed, in bytes.
const LEAST: u64 = 1024;
/// Answers up to this size are compressed at once, in bytes.
const AT_ONCE: usize = 64 * 1024;
/// The memory that a compressor counts for, in bytes.
pub const ENCODER_BYTES: usize = 1024 * 1024;

/// Returns the layer that compresses answers. It uses the fastest level, because processor time is scarcer than bandwidth.
pub fn layer() -> CompressionLayer<IsLarge> {
    CompressionLayer::new().quality(CompressionLevel::Fastest).compress_when(IsLarge)
}

/// Selects the answers that are worth compressing.
#[derive(Clone, Copy)]
pub struct IsLarge;

impl Predicate for IsLarge {
    fn should_compress<B: HttpBody>(&self, response: &Response<B>) -> bool {
        let is_stream = response
            .headers()
            .get(header::CONTENT_TYPE)
            .is_some_and(|content_type| content_type.as_bytes().starts_with(b"text/event-stream"));
        !is_stream && response.body().size_hint().exact().is_some_and(|size| size > LEAST)
    }
}

/// The size of an answer before compression, in bytes.
#[derive(Clone, Copy)]
struct SourceBytes(usize);

/// Content that never changes. All answers share its bytes, and those of its compressed forms.
pub struct FixedContent {
    plain: Bytes,
    gzip: OnceLock<Bytes>,
    zstd: OnceLock<Bytes>,
}

/// Marks an answer whose body is fixed content.
#[derive(Clone, Copy)]
pub struct Fixed(&'static FixedContent);

impl FixedContent {
    /// Returns this content.
    pub fn new(plain: impl Into<Bytes>) -> FixedContent {
        FixedContent { plain: plain.into(), gzip: OnceLock::new(), zstd: OnceLock::new() }
    }

    /// Returns an answer with this content, and with these headers.
    pub fn response(&'static self, headers: impl axum::response::IntoResponseParts) -> Response<Body> {
        let mut response = (StatusCode::OK, headers, self.plain.clone()).into_response();
        response.extensions_mut().insert(Fixed(self));
        response
    }

    fn compressed(&self, encoding: &HeaderValue) -> Option<&OnceLock<Bytes>> {
        match encoding.as_bytes() {
            b"gzip" => Some(&self.gzip),
            b"zstd" => Some(&self.zstd),
            _ => None,
        }
    }
}

/// Notes the size of an answer for [`finish`], before it is compressed.
pub fn note_size(response: &mut Response<Body>) {
    let bytes = response.body().size_hint().exact().filter(|bytes| *bytes > LEAST);
    if let Some(bytes) = bytes.and_then(|bytes| usize::try_from(bytes).ok()) {
        response.extensions_mut().insert(SourceBytes(bytes));
    }
}

/// Reports whether an answer of this size is compressed while it is sent, if its caller accepts that.
pub fn may_be_streamed(bytes: usize) -> bool {
    bytes > AT_ONCE
}

/// Middleware outside of the layer: finishes the compression of small and of fixed answers, so that no compressor is kept.
pub async fn finish(request: Request, next: Next) -> Response<Body> {
    let mut response = next.run(request).await;
    let Some(encoding) = response.headers().get(header::CONTENT_ENCODING) else { return response };
    let fixed = response.extensions().get::<Fixed>().copied();
    let cached = fixed.and_then(|Fixed(content)| content.compressed(encoding));
    let is_small =
        response.extensions().get::<SourceBytes>().is_some_and(|SourceBytes(bytes)| *bytes <= AT_ONCE);
    if cached.is_none() && !is_small {
        return response;
    }
    let body = std::mem::take(response.body_mut());
    let bytes = match cached.and_then(OnceLock::get) {
        Some(bytes) => bytes.clone(),
        None => match body.collect().await {
            Ok(compressed) => {
                let compressed = compressed.to_bytes();
                cached.map_or(compressed.clone(), |cached| cached.get_or_init(|| compressed).clone())
            }
            // The body of an answer that breaks its connection on purpose.
            Err(error) => {
                let error = std::io::Error::other(error);
                let failed = futures_util::stream::once(async move { Err::<Bytes, _>(error) });
                *response.body_mut() = Body::from_stream(failed);
                return response;
            }
        },
    };
    response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(bytes.len()));
    *response.body_mut() = Body::from(bytes);
    response
}
