//! Streams of executions: frames by range, a live tail, and the summary document.

use super::Namespace;
use crate::Error;
use selvedge_core::stream::{Frame, FrameRange, Stream, StreamName};
use selvedge_core::{Execution, ExecutionId, Refusal};
use selvedge_store::PAGE_BYTES;
use std::time::Duration;

/// The maximum time between two reads of a live reader, in case the notification of a frame is lost.
const READ_INTERVAL: Duration = Duration::from_millis(250);
/// The maximum number of frames per read.
const FRAMES_PER_READ: u32 = 100;

/// Frames of one attempt.
#[derive(Clone, Debug)]
pub struct Frames {
    /// The attempt.
    pub attempt: u32,
    /// The frames, in order.
    pub frames: Vec<Frame>,
    /// The frame number to continue from.
    pub next: u32,
    /// True if the range may have further frames now: there are as many as asked for, or these are large.
    pub more: bool,
    /// True if the attempt has ended and these are the last frames of the range.
    pub closed: bool,
}

/// Follows the stream of one attempt until the attempt ends.
pub struct StreamTail {
    namespace: Namespace,
    name: StreamName,
    /// The frames that were not returned yet.
    range: FrameRange,
    closed: bool,
}

impl Namespace {
    /// Returns the first frames of a range, or of all from a number on. Default attempt: the newest.
    pub async fn frames(
        &self,
        id: ExecutionId,
        attempt: Option<u32>,
        range: impl Into<FrameRange>,
        limit: u32,
    ) -> Result<Frames, Error> {
        let name = self.stream_name(id, attempt).await?;
        self.frames_of(name, range.into(), limit).await
    }

    async fn frames_of(&self, name: StreamName, range: FrameRange, limit: u32) -> Result<Frames, Error> {
        // Checked before the frames are read: no frame is appended once the attempt has ended, so the read is complete.
        let ended = attempt_has_ended(&self.row(name.execution).await?, name.attempt);
        let frames = self.inner().store.frames(name, range, limit).await?;
        let next = frames.last().map_or(range.from, |frame| frame.number + 1);
        let bytes: usize = frames.iter().map(|frame| frame.data.len()).sum();
        let more = frames.len() == limit as usize || bytes >= PAGE_BYTES;
        Ok(Frames { attempt: name.attempt, frames, next, more, closed: ended && !more })
    }

    /// Follows a range of the stream of an attempt, or all from a number on. Default attempt: the newest.
    pub async fn tail_frames(
        &self,
        id: ExecutionId,
        attempt: Option<u32>,
        range: impl Into<FrameRange>,
    ) -> Result<StreamTail, Error> {
        let name = self.stream_name(id, attempt).await?;
        Ok(StreamTail { namespace: self.clone(), name, range: range.into(), closed: false })
    }

    /// Returns the stream of an attempt with its summary document. Default attempt: the newest. A stream without a
    /// summary has summary version 0.
    pub async fn summary(&self, id: ExecutionId, attempt: Option<u32>) -> Result<Stream, Error> {
        let name = self.stream_name(id, attempt).await?;
        let stream = self.inner().store.stream(name).await?;
        Ok(stream.unwrap_or_else(|| Stream::new(name)))
    }

    async fn stream_name(&self, execution: ExecutionId, attempt: Option<u32>) -> Result<StreamName, Error> {
        let newest = self.row(execution).await?.attempt();
        match attempt {
            Some(attempt) if newest.is_some_and(|newest| attempt <= newest) => {
                Ok(StreamName { execution, attempt })
            }
            Some(attempt) => {
                let id = format!("{attempt} of execution {execution}");
                Err(Refusal::NotFound { what: "attempt".into(), id }.into())
            }
            None => Ok(StreamName { execution, attempt: newest.unwrap_or_default() }),
        }
    }
}

fn attempt_has_ended(row: &Execution, attempt: u32) -> bool {
    row.attempt().is_some_and(|newest| attempt < newest || row.state.lease().is_none())
        || row.state.outcome().is_some()
}

impl StreamTail {
    /// The attempt that is followed.
    pub fn attempt(&self) -> u32 {
        self.name.attempt
    }

    /// Reports whether the attempt has ended and all its frames were returned.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Waits for the next frames. None once the attempt has ended and all its frames were returned, or on shutdown.
    pub async fn next(&mut self) -> Result<Option<Vec<Frame>>, Error> {
        let waiter = self.namespace.inner().waiters.register_stream(self.name.execution);
        loop {
            if self.closed || self.namespace.inner().committer.is_closed() {
                return Ok(None);
            }
            let woken = waiter.woken();
            tokio::pin!(woken);
            woken.as_mut().enable();
            let page = self.namespace.frames_of(self.name, self.range, FRAMES_PER_READ).await?;
            self.closed = page.closed;
            self.range.from = page.next;
            if !page.frames.is_empty() {
                return Ok(Some(page.frames));
            }
            if !self.closed {
                let _ = tokio::time::timeout(READ_INTERVAL, woken).await;
            }
        }
    }
}
