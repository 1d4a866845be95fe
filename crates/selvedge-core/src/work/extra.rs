//! State that a transaction keeps about a row besides its columns.

use crate::rows::{Payload, ResultChange};

/// State that a transaction keeps about an execution besides its row.
#[derive(Debug)]
pub(crate) struct ExecutionExtra {
    /// The input, or its size, if it is loaded.
    pub input: Option<Payload>,
    /// The input was replaced.
    pub replaces_input: bool,
    pub result: ResultChange,
    /// The flow or the wiring changed. They are written only if this is set.
    pub rewired: bool,
    /// The execution had neither steps nor signals when it was loaded.
    pub bare: bool,
}

impl Default for ExecutionExtra {
    fn default() -> Self {
        ExecutionExtra {
            input: None,
            replaces_input: false,
            result: ResultChange::Keep,
            rewired: false,
            bare: false,
        }
    }
}

/// State that a transaction keeps about a session besides its row.
#[derive(Debug, Default)]
pub(crate) struct SessionExtra {
    /// The session replaces the stored row instead of being merged with it.
    pub reset: bool,
}
