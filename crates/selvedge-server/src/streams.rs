//! The streams of executions: frames by range and live, and the summary document.
//!
//! Frames are numbered from 0 within their attempt, and the number of the last one seen is the cursor to go on from. Numbers
//! have no gaps unless best-effort frames are gone.

use crate::Answer;
use crate::auth::Caller;
use crate::filter::invalid_cursor;
use crate::json::{self, Object};
use crate::problem::Problem;
use crate::query::{Id, Query};
use crate::sse::{self, Next, Source};
use axum::http::{HeaderMap, StatusCode};
use selvedge_core::stream::{Frame, FrameMode};
use selvedge_engine::{Error, StreamTail};
use std::time::Duration;

/// How long a live reader rests after the store has failed.
const PAUSE: Duration = Duration::from_secs(1);

/// `GET /v1/executions/{id}/stream`: frames of an attempt, the newest one by default. `closed` says that the attempt has
/// ended and that these are its last.
pub async fn page(caller: Caller, Id(id): Id, mut query: Query) -> Answer {
    let attempt = query.count("attempt")?;
    let from = read_from(query.text("after")?)?;
    let limit = query.limit()?;
    query.finish()?;
    let mut page = caller.namespace.frames(id, attempt, from, limit + 1).await?;
    let more = page.frames.len() > limit as usize;
    page.frames.truncate(limit as usize);
    let last = page.frames.last().map(|frame| frame.number.to_string());
    Ok(json::answer(StatusCode::OK, |object| {
        object.value("attempt", &page.attempt);
        object.array("items", &page.frames, frame);
        object.value("next_cursor", &last.filter(|_| more));
        object.value("closed", &(page.closed && !more));
    }))
}

/// `GET /v1/executions/{id}/stream/tail`: the same, live, until the attempt has ended; then one message `closed`.
pub async fn tail(caller: Caller, Id(id): Id, headers: HeaderMap, mut query: Query) -> Answer {
    let attempt = query.count("attempt")?;
    let after = query.text("after")?;
    query.finish()?;
    let from = read_from(sse::last_event_id(&headers).or(after))?;
    let tail = caller.namespace.tail_frames(id, attempt, from).await?;
    Ok(sse::answer(caller, Live { tail, stage: Stage::Reading }))
}

/// `GET /v1/executions/{id}/summary`: the document that the summary frames of an attempt were merged into.
pub async fn summary(caller: Caller, Id(id): Id, mut query: Query) -> Answer {
    let attempt = query.count("attempt")?;
    query.finish()?;
    let stream = caller.namespace.summary(id, attempt).await?;
    Ok(json::answer(StatusCode::OK, |object| {
        object.value("attempt", &stream.name.attempt);
        object.value("version", &stream.summary_version);
        object.raw("document", stream.summary.as_deref());
    }))
}

/// The number to go on from, where the number of the last frame seen is given.
fn read_from(after: Option<String>) -> Result<u32, Problem> {
    let number = |text: String| text.parse::<u32>().ok()?.checked_add(1);
    after.map_or(Ok(0), |text| number(text).ok_or_else(invalid_cursor))
}

/// Writes a frame.
fn frame(out: &mut Vec<u8>, frame: &Frame) {
    let mode = if frame.best_effort { FrameMode::BestEffort } else { FrameMode::Durable };
    json::object(out, |object: &mut Object<'_>| {
        object.value("number", &frame.number);
        object.value("attempt", &frame.stream.attempt);
        object.value("kind", frame.kind.as_str());
        object.value("mode", mode.as_str());
        object.time("at", Some(frame.at));
        object.raw("data", Some(&frame.data));
    });
}

/// A stream that is followed.
struct Live {
    tail: StreamTail,
    stage: Stage,
}

/// How far a live reader has come.
enum Stage {
    Reading,
    /// The store has failed: it rests before it reads again.
    Resting,
    Over,
}

impl Source for Live {
    async fn next(&mut self) -> Next {
        match self.stage {
            Stage::Over => return Next::End,
            Stage::Resting => tokio::time::sleep(PAUSE).await,
            Stage::Reading => {}
        }
        self.stage = Stage::Reading;
        match self.tail.next().await {
            Ok(Some(frames)) => {
                let mut out = Vec::new();
                let mut data = Vec::new();
                for one in &frames {
                    data.clear();
                    frame(&mut data, one);
                    sse::message(&mut out, Some(&one.number), "frame", &data);
                }
                Next::Messages(out)
            }
            Ok(None) if self.tail.is_closed() => {
                self.stage = Stage::Over;
                let mut data = Vec::new();
                json::object(&mut data, |object| object.value("attempt", &self.tail.attempt()));
                let mut out = Vec::new();
                sse::message(&mut out, None, "closed", &data);
                Next::Messages(out)
            }
            Ok(None) => Next::End,
            Err(Error::Store(error)) if error.is_transient() => {
                tracing::debug!(%error, "a live reader rests");
                self.stage = Stage::Resting;
                Next::Remark(
                    "the stream cannot be read for now; everything comes when it can be again".into(),
                )
            }
            // The execution was deleted, or cannot be read: a client that comes back is told.
            Err(error) => {
                tracing::debug!(%error, "a live reader ends");
                Next::End
            }
        }
    }
}
