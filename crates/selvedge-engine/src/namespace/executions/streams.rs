//! Streams of executions: frames by range, a live tail, and the summary document.

use super::record_pages::{PageReader, RecordLimit, RecordPage};
use crate::Error;
use crate::namespace::Namespace;
use selvedge_core::state::StateName;
use selvedge_core::stream::{Frame, FrameRange, Stream, StreamName};
use selvedge_core::{ExecutionId, Refusal};
use selvedge_store::Head;
use std::time::Duration;

/// The maximum time between two reads of a live reader, in case a wake-up is lost.
const READ_INTERVAL: Duration = Duration::from_secs(10);
/// The same if other servers use the store: they notify of frames, but not of the end of an attempt.
const READ_INTERVAL_SHARED: Duration = Duration::from_secs(2);
/// The maximum time between two reads of a live reader if commits of other servers are not notified.
const READ_INTERVAL_UNNOTIFIED: Duration = Duration::from_millis(250);
/// The limit of a read of a live reader.
const TAIL_LIMIT: RecordLimit = RecordLimit { records: 100, bytes: 256 * 1024 };
/// The total size of frames at which a page ends, in bytes.
pub(super) const PAGE_BYTES: usize = 1024 * 1024;

/// Frames of one attempt.
#[derive(Clone, Debug)]
pub struct Frames {
    pub attempt: u32,
    /// The frames, in order.
    pub frames: Vec<Frame>,
    /// True if there are fewer frames than the limit because they are large: more may follow.
    pub is_cut: bool,
    /// The frame number to continue from.
    pub next: u32,
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
    /// The maximum time between two reads.
    interval: Duration,
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
        self.frames_of(name, range.into(), RecordLimit { records: limit, bytes: PAGE_BYTES }).await
    }

    async fn frames_of(
        &self,
        name: StreamName,
        range: FrameRange,
        limit: RecordLimit,
    ) -> Result<Frames, Error> {
        let ended = attempt_has_ended(self.head(name.execution).await?, name.attempt);
        self.read_frames(name, range, limit, ended).await
    }

    /// Reads frames of an attempt. `ended` must have been found out before: no frame is appended once the attempt has ended, so
    /// the read is complete.
    pub(super) async fn read_frames(
        &self,
        name: StreamName,
        range: FrameRange,
        limit: RecordLimit,
        ended: bool,
    ) -> Result<Frames, Error> {
        let next_after = |last: Option<&Frame>| last.map_or(range.from, |frame| frame.number + 1);
        let mut page = PageReader::new(limit);
        while let Some(wanted) = page.wanted() {
            let rest = FrameRange { from: next_after(page.last()), ..range };
            page.add(self.inner().store.frames(name, rest, wanted).await?, |frame| frame.data.len());
        }
        let RecordPage { items: frames, is_cut } = page.finish();
        let next = next_after(frames.last());
        let closed = ended && !is_cut && frames.len() < limit.records as usize;
        Ok(Frames { attempt: name.attempt, frames, is_cut, next, closed })
    }

    /// Follows a range of the stream of an attempt, or all from a number on. Default attempt: the newest.
    pub async fn tail_frames(
        &self,
        id: ExecutionId,
        attempt: Option<u32>,
        range: impl Into<FrameRange>,
    ) -> Result<StreamTail, Error> {
        let name = self.stream_name(id, attempt).await?;
        let interval = match (self.inner().store.describe().shared, self.inner().options.notifications) {
            (false, _) => READ_INTERVAL,
            (true, true) => READ_INTERVAL_SHARED,
            (true, false) => READ_INTERVAL_UNNOTIFIED,
        };
        Ok(StreamTail { namespace: self.clone(), name, range: range.into(), closed: false, interval })
    }

    /// Returns the stream of an attempt with its summary document. Default attempt: the newest. A stream without a
    /// summary has summary version 0.
    pub async fn summary(&self, id: ExecutionId, attempt: Option<u32>) -> Result<Stream, Error> {
        let name = self.stream_name(id, attempt).await?;
        let stream = self.inner().store.stream(name).await?;
        Ok(stream.unwrap_or_else(|| Stream::new(name)))
    }

    async fn stream_name(&self, execution: ExecutionId, attempt: Option<u32>) -> Result<StreamName, Error> {
        let newest = self.head(execution).await?.epoch.checked_sub(1);
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

fn attempt_has_ended(head: Head, attempt: u32) -> bool {
    let newest = head.epoch.checked_sub(1);
    newest.is_some_and(|newest| attempt < newest || head.state != StateName::Active)
        || head.state.outcome().is_some()
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
            let page = self.namespace.frames_of(self.name, self.range, TAIL_LIMIT).await?;
            self.closed = page.closed;
            self.range.from = page.next;
            if !page.frames.is_empty() {
                return Ok(Some(page.frames));
            }
            if !self.closed {
                let _ = tokio::time::timeout(self.interval, woken).await;
            }
        }
    }
}
