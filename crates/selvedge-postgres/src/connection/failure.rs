//! The store's errors for those of the driver and the pool.

use deadpool_postgres::PoolError;
use selvedge_store::Error;
use tokio_postgres::error::SqlState;

/// Returns the store's error for a connection that could not be opened or taken from the pool.
pub fn no_connection(error: PoolError) -> Error {
    match error {
        PoolError::Backend(error) => failure(error),
        other => Error::Unavailable(format!("no connection to Postgres: {other}")),
    }
}

/// Returns the store's error for one of the driver's, by SQLSTATE. Without one the connection is lost.
pub fn failure(error: tokio_postgres::Error) -> Error {
    let Some(code) = error.code() else {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
        return Error::Unavailable(format!("{error}{cause}"));
    };
    let detail = error.as_db_error().map_or_else(|| error.to_string(), |db| db.message().to_owned());
    match code {
        &SqlState::ADMIN_SHUTDOWN
        | &SqlState::CRASH_SHUTDOWN
        | &SqlState::CANNOT_CONNECT_NOW
        | &SqlState::TOO_MANY_CONNECTIONS
        | &SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
        | &SqlState::QUERY_CANCELED
        | &SqlState::DISK_FULL
        | &SqlState::READ_ONLY_SQL_TRANSACTION => Error::Unavailable(detail),
        &SqlState::INVALID_CATALOG_NAME
        | &SqlState::INVALID_PASSWORD
        | &SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            Error::Unavailable(format!("{detail}; check the store's address"))
        }
        code => Error::Failed(format!("{detail} (SQLSTATE {})", code.code())),
    }
}

/// Reports whether an error means that another transaction was in the way, so that a retry may succeed.
pub fn is_conflict(error: &tokio_postgres::Error) -> bool {
    // The entry was being routed to the default partition while the partition of its day was attached.
    let rerouted = |code: &SqlState| {
        code == &SqlState::CHECK_VIOLATION
            && error.as_db_error().is_some_and(|db| db.table() == Some("log_default"))
    };
    error.code().is_some_and(|code| {
        rerouted(code)
            || [
                SqlState::T_R_SERIALIZATION_FAILURE,
                SqlState::T_R_DEADLOCK_DETECTED,
                SqlState::LOCK_NOT_AVAILABLE,
                SqlState::UNIQUE_VIOLATION,
                // Raised by our statements when a guard fails.
                SqlState::DIVISION_BY_ZERO,
            ]
            .contains(code)
    })
}
