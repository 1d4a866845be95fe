//! Reads of streams and their frames, and the deletion of frames past their lifetime.

use crate::Error;
use async_trait::async_trait;
use selvedge_core::stream::{Frame, FrameRange, Stream, StreamName};

#[async_trait]
pub trait StreamStore: Send + Sync {
    /// Returns the first `limit` frames of a range of a stream, in order. Best-effort frames past their lifetime are omitted.
    async fn frames(&self, stream: StreamName, range: FrameRange, limit: u32) -> Result<Vec<Frame>, Error>;
    /// Returns a stream with its summary; none if nothing was appended to it.
    async fn stream(&self, stream: StreamName) -> Result<Option<Stream>, Error>;
    /// Deletes up to `limit` best-effort frames past their lifetime, skipping locked ones, and returns how many were deleted.
    async fn delete_old_frames(&self, limit: u32) -> Result<u64, Error>;
}
