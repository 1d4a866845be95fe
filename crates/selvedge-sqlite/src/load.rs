//! Loads the rows that a decision needs. There is one writer, so no locks are needed.

use crate::kinds::KINDS;
use rusqlite::Connection;
use selvedge_core::{Needs, Rows, Timestamp};

/// Loads everything that `needs` names.
pub fn load(connection: &Connection, needs: &Needs, now: Timestamp) -> rusqlite::Result<Rows> {
    let mut rows = Rows { now, ..Rows::default() };
    KINDS.iter().try_for_each(|kind| (kind.load)(connection, needs, &mut rows))?;
    Ok(rows)
}
