//! The live feed of events, as server-sent events: `id` is the cursor, so that a client that comes back goes on where it was.

use crate::auth::Caller;
use crate::problem::Problem;
use crate::{Answer, views};
use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;
use bytes::Bytes;
use futures_util::stream;
use selvedge_engine::{EventFilter, From, Notice, PublicEvent, Subscription};
use std::convert::Infallible;
use std::time::Duration;

/// How long the feed is silent before it says that it is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Whether the caller wants the feed and not a page.
pub fn is_wanted(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    accept.is_some_and(|accept| accept.contains("text/event-stream"))
}

/// The cursor after which a client that comes back wants to go on.
pub fn last_event_id(headers: &HeaderMap) -> Option<String> {
    let id = headers.get("last-event-id")?.to_str().ok()?;
    (!id.is_empty()).then(|| id.to_owned())
}

/// The feed, until the client goes or the server closes.
pub async fn feed(caller: Caller, filter: EventFilter, from: From) -> Answer {
    let subscription = caller.namespace.subscribe(filter, from).await.map_err(Problem::from)?;
    let parts = stream::unfold((subscription, caller), |(mut subscription, caller)| async move {
        let part = next_part(&mut subscription, &caller).await?;
        Some((Ok::<Bytes, Infallible>(part), (subscription, caller)))
    });
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        // Proxies that gather answers would hold events back.
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((StatusCode::OK, headers, Body::from_stream(parts)).into_response())
}

async fn next_part(subscription: &mut Subscription, caller: &Caller) -> Option<Bytes> {
    let next = tokio::time::timeout(KEEP_ALIVE, subscription.next());
    match caller.closing.cut(next).await? {
        Err(_elapsed) => Some(Bytes::from_static(b": still here\n\n")),
        Ok(None) => None,
        Ok(Some(Notice::Event(event))) => Some(part(*event)),
        Ok(Some(Notice::Break { detail, .. })) => {
            let detail = detail.replace(['\n', '\r'], " ");
            Some(format!(": the log cannot be read for now: {detail}\n\n").into())
        }
    }
}

/// One event on the wire. JSON has no line breaks of its own.
fn part(event: PublicEvent) -> Bytes {
    let mut out = format!("id: {}\nevent: {}\ndata: ", event.cursor, event.kind).into_bytes();
    views::event(&mut out, event);
    out.extend_from_slice(b"\n\n");
    out.into()
}
