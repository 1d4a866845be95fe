//! Compression of answers with gzip or zstd, for callers that accept it.
//!
//! Compresses only answers of a known size above 1 KiB. A smaller answer fits into one packet anyway. Event streams are not
//! compressed: a compressor would delay their messages.

use axum::body::HttpBody;
use axum::http::{Response, header};
use tower_http::CompressionLevel;
use tower_http::compression::{CompressionLayer, Predicate};

/// Answers above this size are compressed, in bytes.
const LEAST: u64 = 1024;

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
