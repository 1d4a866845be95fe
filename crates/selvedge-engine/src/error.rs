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
    /// The cursor does not belong to the event log: it names an entry that the log does not have, or another one. The store
    /// was restored from a backup, or lost commits in a failover. Start at the beginning, or now.
    #[error(
        "the cursor does not match the event log, which was restored or lost its newest entries; start at the beginning, or now"
    )]
    CursorUnknown,
}
