//! The streams of executions, as callers see them: frames by range, live, and the summary document.

use crate::{Error, Namespace};
use selvedge_core::stream::{Frame, Stream, StreamName};
use selvedge_core::{Execution, ExecutionId, Refusal};
use std::time::Duration;

/// How often a live reader looks, should the news of a frame be lost.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How many frames are read at a time: together at most 25 MiB.
const FRAMES: u32 = 100;

/// Frames of one attempt.
#[derive(Clone, Debug)]
pub struct Frames {
    /// The attempt.
    pub attempt: u32,
    /// The frames, in order.
    pub frames: Vec<Frame>,
    /// The number to go on from.
    pub next: u32,
    /// Whether the attempt has ended and these are its last frames.
    pub closed: bool,
}

/// Follows the stream of one attempt until that ends.
pub struct StreamTail {
    namespace: Namespace,
    name: StreamName,
    from: u32,
    closed: bool,
}

impl Namespace {
    /// Frames of an attempt, the newest one by default, from a number on.
    pub async fn frames(
        &self,
        id: ExecutionId,
        attempt: Option<u32>,
        from: u32,
        limit: u32,
    ) -> Result<Frames, Error> {
        let name = self.stream_name(id, attempt).await?;
        self.frames_of(name, from, limit).await
    }

    async fn frames_of(&self, name: StreamName, from: u32, limit: u32) -> Result<Frames, Error> {
        // Before the frames are read: what is appended after the end of the attempt is refused.
        let over = is_over(&self.get(name.execution).await?.stored.execution, name.attempt);
        let frames = self.inner().store.frames(name, from, limit).await?;
        let next = frames.last().map_or(from, |frame| frame.number + 1);
        let closed = over && frames.len() < limit as usize;
        Ok(Frames { attempt: name.attempt, frames, next, closed })
    }

    /// Follows the stream of an attempt, the newest one by default, from a number on.
    pub async fn tail_frames(
        &self,
        id: ExecutionId,
        attempt: Option<u32>,
        from: u32,
    ) -> Result<StreamTail, Error> {
        let name = self.stream_name(id, attempt).await?;
        Ok(StreamTail { namespace: self.clone(), name, from, closed: false })
    }

    /// The summary document of an attempt, the newest one by default, with its version; a stream without any has version 0.
    pub async fn summary(&self, id: ExecutionId, attempt: Option<u32>) -> Result<Stream, Error> {
        let name = self.stream_name(id, attempt).await?;
        let stream = self.inner().store.stream(name).await?;
        Ok(stream.unwrap_or_else(|| Stream::new(name)))
    }

    async fn stream_name(&self, execution: ExecutionId, attempt: Option<u32>) -> Result<StreamName, Error> {
        let newest = self.get(execution).await?.stored.execution.attempt();
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

/// Whether an attempt has ended.
fn is_over(row: &Execution, attempt: u32) -> bool {
    row.attempt().is_some_and(|newest| attempt < newest || row.state.lease().is_none())
        || row.state.outcome().is_some()
}

impl StreamTail {
    /// The attempt that is followed.
    pub fn attempt(&self) -> u32 {
        self.name.attempt
    }

    /// Whether the attempt has ended and all its frames were given.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// The next frames; none when the attempt has ended and all were given, or the engine shuts down.
    pub async fn next(&mut self) -> Result<Option<Vec<Frame>>, Error> {
        let bell = self.namespace.inner().bells.wait_streamed(self.name.execution);
        loop {
            if self.closed || self.namespace.inner().committer.is_closed() {
                return Ok(None);
            }
            let rings = bell.rings();
            tokio::pin!(rings);
            rings.as_mut().enable();
            let page = self.namespace.frames_of(self.name, self.from, FRAMES).await?;
            self.closed = page.closed;
            self.from = page.next;
            if !page.frames.is_empty() {
                return Ok(Some(page.frames));
            }
            if !self.closed {
                let _ = tokio::time::timeout(LOOK_EVERY, rings).await;
            }
        }
    }
}
