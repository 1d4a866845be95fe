//! Errors of a store. Each variant says what the caller should do.

/// A failure of the store itself. A rule that refuses a command is not an error of the store.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The store cannot be reached, or the connection was lost during the call. The change may have been saved: repeat the
    /// call, every call is safe to repeat.
    #[error("the store cannot be reached: {0}")]
    Unavailable(String),
    /// The transaction conflicted with others on every try. Nothing was changed: retry later.
    #[error("the store is contended: {0}")]
    Contended(String),
    /// A statement took more time or memory than the store grants. Nothing was changed: retry later, or ask for less.
    #[error("the store took too long: {0}")]
    TooSlow(String),
    /// The schema was written by a newer version of this program: upgrade.
    #[error(
        "the store's schema is version {found} and needs a reader of at least {minimum}; this program reads up to {known}; upgrade it"
    )]
    SchemaTooNew {
        found: i32,
        /// The oldest reader that understands it.
        minimum: i32,
        /// The newest version that this program understands.
        known: i32,
    },
    /// Another process is using the store: stop it, or use another store.
    #[error("{0}")]
    InUse(String),
    /// The store's address is invalid: correct it.
    #[error("{0}")]
    BadAddress(String),
    /// The store rejected a statement or contains an invalid value. A defect: report it.
    #[error("the store failed: {0}")]
    Failed(String),
}

impl Error {
    /// Returns true if repeating the same call later may succeed.
    pub fn is_transient(&self) -> bool {
        match self {
            Error::Unavailable(_) | Error::Contended(_) | Error::TooSlow(_) => true,
            Error::SchemaTooNew { .. } | Error::InUse(_) | Error::BadAddress(_) | Error::Failed(_) => false,
        }
    }
}
