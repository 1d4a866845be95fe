//! Errors of the driver and the pool, and the one table that decides what follows from each.
//!
//! A transaction is begun again after `Retry`, and once after `Locked`. Everything else reaches the caller as an error of
//! the store: the committer halves a batch that failed for any reason except [`Error::Unavailable`], and the server answers
//! 503 with `retry_after_ms`, except for `Internal`.

use deadpool_postgres::{HookError, PoolError};
use selvedge_store::Error;
use std::fmt;
use std::time::Duration;
use tokio_postgres::error::SqlState;

/// The codes of prepared statements that belong to another session, or are missing in this one.
const POOLER_CODES: [SqlState; 2] = [SqlState::INVALID_SQL_STATEMENT_NAME, SqlState::DUPLICATE_PSTATEMENT];
const POOLER_ADVICE: &str = "a connection pooler in transaction mode causes this: connect to PostgreSQL directly, or let the \
                             pooler lend whole sessions";

/// The reason why a statement has no result.
#[derive(Debug)]
pub enum StatementError {
    /// The server refused the statement, or the connection was lost.
    Driver(tokio_postgres::Error),
    /// The connection was silent for this time. The statement may have been executed.
    Silent(Duration),
}

impl StatementError {
    /// Returns the SQLSTATE, if the server has answered.
    pub fn code(&self) -> Option<&SqlState> {
        match self {
            StatementError::Driver(error) => error.code(),
            StatementError::Silent(_) => None,
        }
    }

    /// Decides what follows from the error. Without an SQLSTATE the connection is lost.
    pub fn verdict(&self) -> Verdict {
        let StatementError::Driver(error) = self else { return Verdict::Unavailable };
        let Some(db) = error.as_db_error() else { return Verdict::Unavailable };
        // The entry was being routed to the default partition while the partition of its day was attached.
        if db.code() == &SqlState::CHECK_VIOLATION && db.table() == Some("log_default") {
            return Verdict::Retry;
        }
        verdict(db.code().code())
    }
}

impl From<tokio_postgres::Error> for StatementError {
    fn from(error: tokio_postgres::Error) -> Self {
        StatementError::Driver(error)
    }
}

impl fmt::Display for StatementError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StatementError::Silent(time) => write!(f, "no answer within {} ms", time.as_millis()),
            StatementError::Driver(error) => match error.as_db_error() {
                Some(db) => {
                    write!(f, "{} (SQLSTATE {})", db.message(), db.code().code())?;
                    match POOLER_CODES.contains(db.code()) {
                        true => write!(f, "; {POOLER_ADVICE}"),
                        false => Ok(()),
                    }
                }
                None => match std::error::Error::source(error) {
                    Some(cause) => write!(f, "{error}: {cause}"),
                    None => write!(f, "{error}"),
                },
            },
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Another transaction was in the way: begin the transaction again.
    Retry,
    /// A lock was not granted in time: begin the transaction once more, then refuse the call for now.
    Locked,
    /// The statement took more than the server grants: halve the batch until the culprit fails alone.
    Halve,
    /// The server cannot serve anyone now: refuse the call for now.
    Unavailable,
    /// As `Unavailable`; probably the address of the store is wrong.
    CheckAddress,
    Internal,
}

/// The verdict for each SQLSTATE. The row of the whole code applies, otherwise the row of its class.
const TABLE: &[(&str, Verdict)] = &[
    ("00", Verdict::Internal),
    ("01", Verdict::Internal),
    ("02", Verdict::Internal),
    ("03", Verdict::Internal),
    ("08", Verdict::Unavailable),
    ("09", Verdict::Internal),
    ("0A", Verdict::Internal),
    ("0B", Verdict::Internal),
    ("0F", Verdict::Internal),
    ("0L", Verdict::Internal),
    ("0P", Verdict::Internal),
    ("0Z", Verdict::Internal),
    ("20", Verdict::Internal),
    ("21", Verdict::Internal),
    ("22", Verdict::Internal),
    // Division by zero: raised by our statements when a guard fails.
    ("22012", Verdict::Retry),
    ("23", Verdict::Internal),
    // A unique violation: another transaction has inserted the row.
    ("23505", Verdict::Retry),
    ("24", Verdict::Internal),
    ("25", Verdict::Internal),
    // Read-only: a standby, or a server that an administrator protects.
    ("25006", Verdict::Unavailable),
    // Idle for too long inside of a transaction, or a transaction that took too long.
    ("25P03", Verdict::Unavailable),
    ("25P04", Verdict::Unavailable),
    ("26", Verdict::Internal),
    ("27", Verdict::Internal),
    ("28", Verdict::CheckAddress),
    ("2B", Verdict::Internal),
    ("2D", Verdict::Internal),
    ("2F", Verdict::Internal),
    ("34", Verdict::Internal),
    ("38", Verdict::Internal),
    ("39", Verdict::Internal),
    ("3B", Verdict::Internal),
    ("3D", Verdict::CheckAddress),
    ("3F", Verdict::Internal),
    // Serialization failures and deadlocks.
    ("40", Verdict::Retry),
    ("40002", Verdict::Internal),
    // The outcome of the statement is unknown.
    ("40003", Verdict::Unavailable),
    ("42", Verdict::Internal),
    ("44", Verdict::Internal),
    // Out of connections, disk or other resources.
    ("53", Verdict::Unavailable),
    // Out of memory.
    ("53200", Verdict::Halve),
    ("54", Verdict::Internal),
    // A server that is not in the right state, such as a standby that is asked for a lock.
    ("55", Verdict::Unavailable),
    // In use, or locked for longer than the lock timeout.
    ("55006", Verdict::Locked),
    ("55P03", Verdict::Locked),
    // Shutdowns, restarts and administrators that end connections.
    ("57", Verdict::Unavailable),
    // The statement timeout.
    ("57014", Verdict::Halve),
    // The database was dropped.
    ("57P04", Verdict::CheckAddress),
    // Errors of the server's operating system.
    ("58", Verdict::Unavailable),
    // A missing or duplicate file.
    ("58P01", Verdict::Internal),
    ("58P02", Verdict::Internal),
    // The snapshot is too old.
    ("72", Verdict::Retry),
    ("F0", Verdict::Internal),
    ("HV", Verdict::Internal),
    ("P0", Verdict::Internal),
    ("XX", Verdict::Internal),
];

/// Returns the verdict about an SQLSTATE. An unknown class is a defect.
fn verdict(code: &str) -> Verdict {
    let row = |wanted: &str| TABLE.iter().find(|(key, _)| *key == wanted).map(|(_, verdict)| *verdict);
    row(code).or_else(|| row(code.get(..2)?)).unwrap_or(Verdict::Internal)
}

/// Returns the store's error for a statement that has no result.
pub fn failure(error: impl Into<StatementError>) -> Error {
    let error = error.into();
    match error.verdict() {
        Verdict::Retry | Verdict::Locked => Error::Contended(error.to_string()),
        Verdict::Halve => Error::TooSlow(error.to_string()),
        Verdict::Unavailable => Error::Unavailable(error.to_string()),
        Verdict::CheckAddress => Error::Unavailable(format!("{error}; check the store's address")),
        Verdict::Internal => Error::Failed(error.to_string()),
    }
}

/// Returns the store's error for a connection that could not be opened or taken from the pool.
pub fn no_connection(error: PoolError) -> Error {
    match error {
        PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => failure(error),
        other => Error::Unavailable(format!("no connection to Postgres: {other}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The classes of appendix A of the Postgres manual.
    const CLASSES: &str = "00 01 02 03 08 09 0A 0B 0F 0L 0P 0Z 20 21 22 23 24 25 26 27 28 2B 2D 2F 34 38 39 3B 3D 3F 40 42 \
                           44 53 54 55 57 58 72 F0 HV P0 XX";

    #[test]
    fn every_class_of_sqlstates_has_one_row() {
        let keys: BTreeSet<&str> = TABLE.iter().map(|(key, _)| *key).collect();
        assert_eq!(keys.len(), TABLE.len(), "no key has two rows");
        let classes: Vec<&str> = keys.iter().copied().filter(|key| key.len() == 2).collect();
        assert_eq!(classes, CLASSES.split_whitespace().collect::<Vec<_>>());
        assert!(keys.iter().all(|key| key.len() == 2 || key.len() == 5));
    }

    #[test]
    fn every_sqlstate_leads_to_one_decision() {
        let expected = [
            ("40001", Verdict::Retry),
            ("40P01", Verdict::Retry),
            ("23505", Verdict::Retry),
            ("22012", Verdict::Retry),
            ("55P03", Verdict::Locked),
            ("57014", Verdict::Halve),
            ("53200", Verdict::Halve),
            ("55000", Verdict::Unavailable),
            ("25006", Verdict::Unavailable),
            ("53100", Verdict::Unavailable),
            ("53300", Verdict::Unavailable),
            ("57P01", Verdict::Unavailable),
            ("57P02", Verdict::Unavailable),
            ("57P03", Verdict::Unavailable),
            ("08006", Verdict::Unavailable),
            ("58030", Verdict::Unavailable),
            ("28P01", Verdict::CheckAddress),
            ("3D000", Verdict::CheckAddress),
            ("42P01", Verdict::Internal),
            ("XX001", Verdict::Internal),
            ("ZZ999", Verdict::Internal),
        ];
        for (code, decision) in expected {
            assert_eq!(verdict(code), decision, "{code}");
        }
    }

    #[test]
    fn a_silent_connection_counts_as_unavailable() {
        let silent = StatementError::Silent(Duration::from_millis(1500));
        assert_eq!(silent.verdict(), Verdict::Unavailable);
        assert!(matches!(failure(silent), Error::Unavailable(text) if text.contains("1500 ms")));
    }
}
