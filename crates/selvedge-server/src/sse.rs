//! Server-sent events: their wire format, and responses that last until the client disconnects or the server shuts
//! down.

use crate::auth::Caller;
use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use std::convert::Infallible;
use std::fmt::Display;
use std::future::Future;

/// The next part of an event stream.
pub enum Chunk {
    Messages(Vec<u8>),
    /// A comment, which clients ignore.
    Comment(String),
    /// The end of the stream.
    End,
}

/// A source of messages.
pub trait Source: Send + 'static {
    /// Returns the next chunk. Cancel-safe: the future may be dropped at any time and called again.
    fn next(&mut self) -> impl Future<Output = Chunk> + Send;
}

/// Reports whether the client accepts an event stream.
pub fn accepts_event_stream(headers: &HeaderMap) -> bool {
    let mut accepted = headers.get_all(header::ACCEPT).iter();
    accepted.any(|accept| accept.to_str().is_ok_and(|accept| accept.contains("text/event-stream")))
}

/// Returns the id of the last message that a reconnecting client has seen.
pub fn last_event_id(headers: &HeaderMap) -> Option<String> {
    let id = headers.get("last-event-id").filter(|id| !id.is_empty())?;
    Some(String::from_utf8_lossy(id.as_bytes()).into_owned())
}

/// Streams the messages of `source`, with keep-alive comments while it is silent.
pub fn response(caller: Caller, source: impl Source) -> Response {
    let chunks = stream::unfold((caller, source), |(caller, mut source)| async move {
        let chunk = next_bytes(&caller, &mut source).await?;
        Some((Ok::<Bytes, Infallible>(chunk), (caller, source)))
    });
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        // Asks proxies not to buffer the response.
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (StatusCode::OK, headers, Body::from_stream(chunks)).into_response()
}

/// Returns the next bytes of the response; none at its end.
async fn next_bytes(caller: &Caller, source: &mut impl Source) -> Option<Bytes> {
    // The race below prefers the source, so a source that always has a message would hide the shutdown.
    if caller.shutdown.is_shutting_down() || !caller.is_still_valid().await {
        return None;
    }
    let next = tokio::time::timeout(caller.keep_alive, source.next());
    match caller.shutdown.race(next).await? {
        Ok(Chunk::Messages(messages)) => Some(messages.into()),
        Ok(Chunk::Comment(comment)) => Some(format!(": {}\n\n", comment.replace(['\n', '\r'], " ")).into()),
        Ok(Chunk::End) => None,
        Err(_elapsed) => Some(Bytes::from_static(b": still here\n\n")),
    }
}

/// Writes a message. Data of several lines, such as a payload sent as indented JSON, becomes several `data` lines.
pub fn message(out: &mut Vec<u8>, id: Option<&dyn Display>, event: &str, data: &[u8]) {
    if let Some(id) = id {
        out.extend_from_slice(format!("id: {id}\n").as_bytes());
    }
    out.extend_from_slice(format!("event: {event}\n").as_bytes());
    for line in data.split(|byte| matches!(byte, b'\n' | b'\r')) {
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(line);
        out.push(b'\n');
    }
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_of_several_lines_stays_one_message() {
        let mut out = Vec::new();
        message(&mut out, Some(&7), "frame", b"{\r\n\"a\":\n1}");
        assert_eq!(out, b"id: 7\nevent: frame\ndata: {\ndata: \ndata: \"a\":\ndata: 1}\n\n");
    }
}
