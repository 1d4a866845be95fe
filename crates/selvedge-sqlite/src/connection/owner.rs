//! The epoch of the owner: a number in the header of the file (`user_version`) that every opening raises.
//!
//! Each write transaction compares it after it has locked the file for writing. So a process that has lost the file to
//! another one, because the lock of the operating system did not hold, can never commit again.

use crate::connection::failure::failure;
use rusqlite::{Connection, TransactionBehavior};
use selvedge_store::Error;

/// The number of an opening of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epoch(i32);

impl Epoch {
    /// Raises the epoch of the file and returns it.
    pub fn raise(connection: &mut Connection) -> Result<Epoch, Error> {
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failure)?;
        let raised = Epoch(Epoch::read(&transaction).map_err(failure)?.0.wrapping_add(1));
        raised.write(&transaction).map_err(failure)?;
        transaction.commit().map_err(failure)?;
        Ok(raised)
    }

    /// Returns the epoch of the file.
    pub fn read(connection: &Connection) -> rusqlite::Result<Epoch> {
        let mut statement = connection.prepare_cached("pragma user_version")?;
        statement.query_row((), |row| row.get(0).map(Epoch))
    }

    /// Writes the epoch to the file. Writes a page even if the epoch is the same.
    pub fn write(self, connection: &Connection) -> rusqlite::Result<()> {
        connection.pragma_update(None, "user_version", self.0)
    }
}
