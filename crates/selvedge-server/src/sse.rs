//! Server-sent events: messages on the wire, and answers that go on until the client goes or the server closes.

use crate::auth::Caller;
use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use std::convert::Infallible;
use std::fmt::Display;
use std::future::Future;

/// What a source gives next.
pub enum Next {
    /// These messages.
    Messages(Vec<u8>),
    /// Nothing to tell but this remark, which clients pass over.
    Remark(String),
    /// Nothing any more.
    End,
}

/// What messages come from.
pub trait Source: Send + 'static {
    /// What comes next. May be dropped and asked again at any time.
    fn next(&mut self) -> impl Future<Output = Next> + Send;
}

/// Whether the caller wants events and not a page.
pub fn is_wanted(headers: &HeaderMap) -> bool {
    let mut accepted = headers.get_all(header::ACCEPT).iter();
    accepted.any(|accept| accept.to_str().is_ok_and(|accept| accept.contains("text/event-stream")))
}

/// The id of the last message that a client saw which comes back.
pub fn last_event_id(headers: &HeaderMap) -> Option<String> {
    let id = headers.get("last-event-id").filter(|id| !id.is_empty())?;
    Some(String::from_utf8_lossy(id.as_bytes()).into_owned())
}

/// An answer with everything that a source gives, and a remark whenever that is silent for long.
pub fn answer(caller: Caller, source: impl Source) -> Response {
    let parts = stream::unfold((caller, source), |(caller, mut source)| async move {
        let part = next_part(&caller, &mut source).await?;
        Some((Ok::<Bytes, Infallible>(part), (caller, source)))
    });
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        // Proxies that gather answers would hold events back.
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (StatusCode::OK, headers, Body::from_stream(parts)).into_response()
}

async fn next_part(caller: &Caller, source: &mut impl Source) -> Option<Bytes> {
    // A source that always has something would hide it.
    if caller.closing.is_closing() {
        return None;
    }
    let next = tokio::time::timeout(caller.keep_alive, source.next());
    match caller.closing.cut(next).await? {
        Ok(Next::Messages(messages)) => Some(messages.into()),
        Ok(Next::Remark(remark)) => Some(format!(": {}\n\n", remark.replace(['\n', '\r'], " ")).into()),
        Ok(Next::End) => None,
        Err(_elapsed) => Some(Bytes::from_static(b": still here\n\n")),
    }
}

/// Writes a message. Its data may be of several lines, as JSON is that was sent so.
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
