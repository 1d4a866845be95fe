//! The streams of executions: pages of frames, live frames, and the summary document.
//!
//! Frames are numbered from 0 within their attempt; the cursor is the number of the last frame seen. Numbers have gaps
//! only where best-effort frames were dropped.

use crate::auth::Caller;
use crate::routes::HandlerResult;
use crate::sse::{self, Chunk, Source};
use crate::wire::json::{self, Object};
use crate::wire::paging::invalid_cursor;
use crate::wire::path::PathExecution;
use crate::wire::problem::Problem;
use crate::wire::query::Query;
use axum::http::{HeaderMap, StatusCode};
use selvedge_core::Refusal;
use selvedge_core::stream::{Frame, FrameMode, FrameRange};
use selvedge_engine::{Error, StreamTail};
use std::time::Duration;

/// The pause of a live reader after a store error.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// `GET /v1/executions/{id}/stream`: frames of an attempt, by default the latest, in order: those after `after` and before
/// `before`, and with `mode=durable` without best-effort frames. `closed` means that the attempt has ended and this page
/// has the last frames asked for.
pub async fn page(caller: Caller, PathExecution(id): PathExecution, mut query: Query) -> HandlerResult {
    let attempt = query.count("attempt")?;
    let from = read_from(query.text("after")?)?;
    let before = query.count("before")?;
    let durable = read_durable(&mut query)?;
    let limit = query.limit()?;
    query.finish()?;
    let range = FrameRange { from, before, durable };
    let mut page = caller.namespace.frames(id, attempt, range, limit + 1).await?;
    let more = page.is_cut || page.frames.len() > limit as usize;
    page.frames.truncate(limit as usize);
    let last_cursor = page.frames.last().map(|frame| frame.number.to_string());
    Ok(json::response(StatusCode::OK, |object| {
        object.value("attempt", &page.attempt);
        object.array("items", &page.frames, write_frame);
        object.value("next_cursor", &last_cursor.filter(|_| more));
        object.value("closed", &(page.closed && !more));
    }))
}

/// `GET /v1/executions/{id}/stream/tail`: live frames until the attempt has ended, then one message `closed`.
pub async fn tail(
    caller: Caller,
    PathExecution(id): PathExecution,
    headers: HeaderMap,
    mut query: Query,
) -> HandlerResult {
    let attempt = query.count("attempt")?;
    let after = query.text("after")?;
    let durable = read_durable(&mut query)?;
    query.finish()?;
    let from = read_from(sse::last_event_id(&headers).or(after))?;
    let range = FrameRange { from, before: None, durable };
    let tail = caller.namespace.tail_frames(id, attempt, range).await?;
    Ok(sse::response(caller, LiveFrames { tail, state: TailState::Reading }))
}

/// `GET /v1/executions/{id}/summary`: the document merged from the summary frames of an attempt.
pub async fn summary(caller: Caller, PathExecution(id): PathExecution, mut query: Query) -> HandlerResult {
    let attempt = query.count("attempt")?;
    query.finish()?;
    let stream = caller.namespace.summary(id, attempt).await?;
    Ok(json::response(StatusCode::OK, |object| {
        object.value("attempt", &stream.name.attempt);
        object.value("version", &stream.summary_version);
        object.raw("document", stream.summary.as_deref());
    }))
}

/// Returns the number of the first frame to read, given the number of the last frame seen.
fn read_from(after: Option<String>) -> Result<u32, Problem> {
    let number = |text: String| text.parse::<u32>().ok()?.checked_add(1);
    after.map_or(Ok(0), |text| number(text).ok_or_else(invalid_cursor))
}

/// Takes `mode`. Returns true if only durable frames are wanted.
fn read_durable(query: &mut Query) -> Result<bool, Refusal> {
    let detail = "must be durable; leave it out to read best-effort frames as well";
    let durable = query.parsed("mode", detail, |word| (word == FrameMode::Durable.as_str()).then_some(()))?;
    Ok(durable.is_some())
}

fn write_frame(out: &mut Vec<u8>, frame: &Frame) {
    let mode = if frame.best_effort { FrameMode::BestEffort } else { FrameMode::Durable };
    json::object(out, |object: &mut Object<'_>| {
        object.value("number", &frame.number);
        object.value("attempt", &frame.stream.attempt);
        object.value("kind", frame.kind.as_str());
        object.value("mode", mode.as_str());
        object.time("at", Some(frame.at));
        object.value("correlation_id", &frame.correlation_id);
        object.raw("data", Some(&frame.data));
    });
}

/// The live frames of a stream.
struct LiveFrames {
    tail: StreamTail,
    state: TailState,
}

/// The state of a live reader.
enum TailState {
    Reading,
    /// The store has failed: pause before reading again.
    BackingOff,
    Closed,
}

impl Source for LiveFrames {
    async fn next(&mut self) -> Chunk {
        match self.state {
            TailState::Closed => return Chunk::End,
            TailState::BackingOff => tokio::time::sleep(RETRY_PAUSE).await,
            TailState::Reading => {}
        }
        self.state = TailState::Reading;
        match self.tail.next().await {
            Ok(Some(frames)) => {
                let mut out = Vec::new();
                let mut data = Vec::new();
                for frame in &frames {
                    data.clear();
                    write_frame(&mut data, frame);
                    sse::message(&mut out, Some(&frame.number), "frame", &data);
                }
                Chunk::Messages(out)
            }
            Ok(None) if self.tail.is_closed() => {
                self.state = TailState::Closed;
                let mut data = Vec::new();
                json::object(&mut data, |object| object.value("attempt", &self.tail.attempt()));
                let mut out = Vec::new();
                sse::message(&mut out, None, "closed", &data);
                Chunk::Messages(out)
            }
            Ok(None) => Chunk::End,
            Err(Error::Store(error)) if error.is_transient() => {
                tracing::debug!(%error, "a live reader backs off");
                self.state = TailState::BackingOff;
                Chunk::Comment("the stream cannot be read at the moment; it continues without gaps".into())
            }
            // The execution was deleted or is unreadable: a reconnecting client gets the error as its response.
            Err(error) => {
                tracing::debug!(%error, "a live reader ends");
                Chunk::End
            }
        }
    }
}
