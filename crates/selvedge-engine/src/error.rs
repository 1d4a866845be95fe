//! What a call to the engine may answer instead of its result.

use selvedge_core::Refusal;

/// Why a call did not succeed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// A rule refused it; nothing was changed. Correct the call.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The store failed. See [`selvedge_store::Error`] for whether to repeat the call.
    #[error(transparent)]
    Store(#[from] selvedge_store::Error),
    /// The engine is shutting down. Repeat the call on another server, or later.
    #[error("the engine is shutting down")]
    Closed,
    /// A cursor that was not given out by this store.
    #[error("the cursor is malformed; use one that an earlier answer gave, unchanged")]
    InvalidCursor,
    /// A cursor older than the log.
    #[error("the cursor is older than the log; start at the beginning")]
    CursorExpired,
}
