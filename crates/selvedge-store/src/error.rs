//! What can go wrong in a store. Each variant says what the caller should do.

/// A failure of the store itself; never a refusal of a rule.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The store cannot be reached, or went away in the middle. The change may or may not have happened: repeat the call,
    /// every call is safe to repeat.
    #[error("the store cannot be reached: {0}")]
    Unavailable(String),
    /// Other transactions were in the way, again and again. Nothing was changed: try again later.
    #[error("the store is contended: {0}")]
    Contended(String),
    /// The schema was written by a newer version. Upgrade this program.
    #[error(
        "the store's schema is version {found} and needs a reader of at least {minimum}; this program reads up to {known}; upgrade it"
    )]
    SchemaTooNew {
        /// The schema's version.
        found: i32,
        /// The oldest reader that understands it.
        minimum: i32,
        /// The newest version that this program understands.
        known: i32,
    },
    /// Another process has the store.
    #[error("{0}")]
    InUse(String),
    /// The store's address is not understood.
    #[error("{0}")]
    BadAddress(String),
    /// The store did not accept a statement, or holds something that should not be there. A defect: report it.
    #[error("the store failed: {0}")]
    Failed(String),
}

impl Error {
    /// Whether repeating the same call later may succeed.
    pub fn is_transient(&self) -> bool {
        match self {
            Error::Unavailable(_) | Error::Contended(_) => true,
            Error::SchemaTooNew { .. } | Error::InUse(_) | Error::BadAddress(_) | Error::Failed(_) => false,
        }
    }
}
