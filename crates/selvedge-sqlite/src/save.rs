//! Saves the changes of a decision: prepared statements, row by row, in the writer's transaction.

use crate::kinds::{KINDS, Saving};
use rusqlite::Connection;
use selvedge_core::{Changes, FlowId, Timestamp};

/// The outcome of a save.
pub enum Saved {
    /// All changes are saved.
    All {
        /// The number of the log entry, if there were events.
        entry: Option<i64>,
        /// Flows that are running without a live member now.
        emptied: Vec<FlowId>,
    },
    /// A guard failed, which this text names. Some changes are made and must be rolled back.
    Refused(String),
}

/// Saves all changes, or stops at the first guard that fails.
pub fn save(connection: &Connection, changes: &Changes, now: Timestamp) -> rusqlite::Result<Saved> {
    let mut saving = Saving { now, entry: None, emptied: Vec::new() };
    for kind in KINDS {
        if let Some(guard) = (kind.save)(connection, changes, &mut saving)? {
            return Ok(Saved::Refused(guard));
        }
    }
    Ok(Saved::All { entry: saving.entry, emptied: saving.emptied })
}
