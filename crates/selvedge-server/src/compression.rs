//! Compression of answers with gzip or zstd, for callers that accept it.
//!
//! Only an answer whose size is known and above 1 KiB is compressed. A smaller one fits into a packet anyway, and an answer
//! without a known size is an event stream, whose messages must not wait in a compressor.

use axum::body::HttpBody;
use axum::http::{Response, header};
use tower_http::CompressionLevel;
use tower_http::compression::{CompressionLayer, Predicate};

/// The size above which an answer is compressed, in bytes.
const LEAST: u64 = 1024;

/// Returns the layer that compresses answers. It favours speed over size: the server has other things to do.
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
