//! The stream that tells a page to load its live regions again: at most once a second, however many events there are.

use crate::auth::Caller;
use crate::routes::HandlerResult;
use crate::sse::{self, Chunk, Source};
use crate::wire::query::Query;
use axum::http::{HeaderMap, header};
use axum::response::IntoResponse;
use selvedge_core::{ExecutionId, FlowId};
use selvedge_engine::{EventFilter, From, Subscription};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// The shortest time between two messages of the page of one execution or flow.
const INTERVAL: Duration = Duration::from_secs(1);
/// The shortest time between two messages of other pages, which read more.
const INTERVAL_OF_LISTS: Duration = Duration::from_secs(2);
/// The longest time between two messages: rates and ages change without an event.
const INTERVAL_MAX: Duration = Duration::from_secs(10);

/// `GET /live`: the event `changed` when something happened, of one execution or flow if the query names it. A client that does not
/// accept a stream gets one event.
pub async fn stream(caller: Caller, headers: HeaderMap, mut query: Query) -> HandlerResult {
    let execution = query.id("execution")?.map(ExecutionId);
    let flow = query.id("flow")?.map(FlowId);
    query.finish()?;
    if !sse::accepts_event_stream(&headers) {
        let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
        return Ok((headers, changed()).into_response());
    }
    let interval = match execution.is_some() || flow.is_some() {
        true => INTERVAL,
        false => INTERVAL_OF_LISTS,
    };
    let filter = EventFilter { execution, flow, ..EventFilter::default() };
    let subscription = caller.namespace.subscribe(filter, From::Now).await?;
    Ok(sse::response(caller, Changes { subscription, interval, sent_at: Instant::now(), has_changed: false }))
}

fn changed() -> Vec<u8> {
    let mut message = Vec::new();
    sse::message(&mut message, None, "changed", b"");
    message
}

/// Collects events and tells that there were some.
struct Changes {
    subscription: Subscription,
    interval: Duration,
    sent_at: Instant,
    has_changed: bool,
}

impl Source for Changes {
    async fn next(&mut self) -> Chunk {
        loop {
            let wait = if self.has_changed { self.interval } else { INTERVAL_MAX };
            tokio::select! {
                biased;
                () = sleep_until(self.sent_at + wait) => {
                    (self.sent_at, self.has_changed) = (Instant::now(), false);
                    return Chunk::Messages(changed());
                }
                event = self.subscription.next() => match event {
                    None => return Chunk::End,
                    Some(_) => self.has_changed = true,
                },
            }
        }
    }
}
