//! The error type of every call to the engine.

use selvedge_core::Refusal;

/// The reason why a call failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// A rule refused the call; nothing was changed. Correct the call.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The store failed. [`selvedge_store::Error`] says whether to retry the call.
    #[error(transparent)]
    Store(#[from] selvedge_store::Error),
    /// The engine is shutting down. Retry the call on another server, or later.
    #[error("the engine is shutting down")]
    Closed,
    /// The cursor was not issued by this store. Use a cursor from an earlier reply, unchanged.
    #[error("the cursor is malformed; use a cursor from an earlier reply, unchanged")]
    InvalidCursor,
    /// The cursor is older than the event log. Start at the beginning.
    #[error("the cursor is older than the event log; start at the beginning")]
    CursorExpired,
}
