//! The store's errors for SQLite's, and unreadable values as SQLite's errors.

use crate::connection::damage::damaged;
use rusqlite::ErrorCode;
use rusqlite::types::Type;
use selvedge_store::Error;

/// Returns the store's error for one of SQLite's.
pub fn failure(error: rusqlite::Error) -> Error {
    match error.sqlite_error_code() {
        Some(
            ErrorCode::DiskFull
            | ErrorCode::SystemIoFailure
            | ErrorCode::CannotOpen
            | ErrorCode::ReadOnly
            | ErrorCode::PermissionDenied
            | ErrorCode::OutOfMemory
            | ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::FileLockingProtocolFailed,
        ) => Error::Unavailable(error.to_string()),
        Some(ErrorCode::NotADatabase) => {
            let advice = "restore it from a backup, or name another path for the store";
            Error::BadAddress(format!("the file is not a database, or its first page is damaged; {advice}"))
        }
        Some(ErrorCode::DatabaseCorrupt) => damaged(&error.to_string()),
        _ => Error::Failed(error.to_string()),
    }
}

/// Returns the error for an unreadable value in the file.
pub fn not_understood(what: &str) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, Type::Null, what.into())
}

/// Reports whether an error is about an unreadable value in the file.
pub fn is_not_understood(error: &rusqlite::Error) -> bool {
    use rusqlite::Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error};
    matches!(
        error,
        FromSqlConversionFailure(..) | IntegralValueOutOfRange(..) | InvalidColumnType(..) | Utf8Error(..)
    )
}
