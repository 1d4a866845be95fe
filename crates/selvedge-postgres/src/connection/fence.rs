//! The fence: a server that is too old for the schema does nothing more.
//!
//! A newer server may migrate the schema while this one runs. If the new schema asks for newer programs, this one would do
//! harm, such as inserting executions that claims do not find. So the version is read on every new connection and by the
//! reconcilers every two seconds, never in a transaction. Once it is too new no pool lends a connection, and every call fails as
//! [`Error::SchemaTooNew`] until the process ends.

use selvedge_store::{Error, SchemaVersion};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The time between two checks by the reconcilers.
const INTERVAL: Duration = Duration::from_secs(2);

#[derive(Default)]
pub struct Fence {
    /// The version that is too new. None while the schema can be used.
    newer: OnceLock<SchemaVersion>,
    checked_at: Mutex<Option<Instant>>,
}

impl Fence {
    /// Fails if the schema was found to be too new.
    pub fn check(&self) -> Result<(), Error> {
        match self.newer.get() {
            None => Ok(()),
            Some(SchemaVersion { found, minimum_reader, known }) => {
                Err(Error::SchemaTooNew { found: *found, minimum: *minimum_reader, known: *known })
            }
        }
    }

    /// Takes note of the version of the schema. The first one that is too new is logged.
    pub fn note(&self, version: SchemaVersion) {
        if version.is_too_new() && self.newer.set(version).is_ok() {
            tracing::error!(
                found = version.found,
                minimum = version.minimum_reader,
                known = version.known,
                "another program has upgraded the schema of the store, and this server is too old for it: it refuses every call \
                 from now on. Stop it, and start a server of the new version"
            );
        }
    }

    /// Reports whether the last check was so long ago that the reconcilers must check again, and takes note of the time.
    pub fn is_due(&self) -> bool {
        let mut checked_at = self.checked_at.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = checked_at.is_none_or(|at| at.elapsed() >= INTERVAL);
        if is_due {
            *checked_at = Some(Instant::now());
        }
        is_due
    }
}
