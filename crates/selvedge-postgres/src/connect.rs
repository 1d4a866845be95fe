//! Connections: the pool, and the settings every connection of ours has.
//!
//! Plans are part of the contract: each statement is written for one index, and statistics that are stale or missing must
//! not talk the planner out of it. So plans are generic, and hash joins, merge joins and sequential scans are off where an
//! index serves.

use crate::bounds::Bounds;
use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Pool, PoolError, RecyclingMethod, Runtime, Timeouts,
};
use selvedge_store::Error;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::{Config, NoTls};

/// How the store uses its database.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The schema that holds the tables; `selvedge`.
    pub schema: String,
    /// How many transactions run side by side; 4.
    pub writers: usize,
    /// How many connections there are for everything else; 4.
    pub readers: usize,
    /// How long a statement waits for a lock before its transaction is begun again; 1 s.
    pub lock_timeout: Duration,
    /// How long to wait for a connection; 5 s.
    pub connect_timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            schema: "selvedge".into(),
            writers: 4,
            readers: 4,
            lock_timeout: Duration::from_secs(1),
            connect_timeout: Duration::from_secs(5),
        }
    }
}

/// The configuration behind a URL.
pub fn config(url: &str) -> Result<Config, Error> {
    let mut config: Config = url.parse().map_err(|error| {
        Error::BadAddress(format!(
            "the Postgres address is not understood ({error}); write postgres://USER:PASSWORD@HOST:PORT/DATABASE"
        ))
    })?;
    if config.get_application_name().is_none() {
        config.application_name("selvedge");
    }
    config.connect_timeout(Duration::from_secs(5));
    Ok(config)
}

/// What every connection is told first.
pub fn preparation(settings: &Settings) -> String {
    format!(
        "set search_path to {schema}, pg_catalog;
         set plan_cache_mode to force_generic_plan;
         set enable_hashjoin to off;
         set enable_mergejoin to off;
         set enable_seqscan to off;
         set enable_bitmapscan to off;
         set jit to off;
         set default_transaction_isolation to 'read committed';
         set timezone to 'UTC';
         set lock_timeout to {lock_ms};
         set statement_timeout to '30s';
         set idle_in_transaction_session_timeout to '60s';
         select set_config('synchronous_commit', 'on', false)
         where current_setting('synchronous_commit') = 'off';",
        schema = quote(&settings.schema),
        lock_ms = settings.lock_timeout.as_millis(),
    )
}

/// A name as SQL writes it.
pub fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A pool of `size` connections. With each that is new, what is remembered of the database is forgotten.
pub fn pool(config: &Config, settings: &Settings, size: usize, bounds: &Arc<Bounds>) -> Result<Pool, Error> {
    let manager = Manager::from_config(
        config.clone(),
        NoTls,
        ManagerConfig { recycling_method: RecyclingMethod::Fast },
    );
    let prepare = preparation(settings);
    let bounds = bounds.clone();
    Pool::builder(manager)
        .max_size(size)
        .timeouts(Timeouts {
            wait: Some(settings.connect_timeout),
            create: Some(settings.connect_timeout),
            recycle: Some(settings.connect_timeout),
        })
        .runtime(Runtime::Tokio1)
        .post_create(Hook::async_fn(move |client, _| {
            let prepare = prepare.clone();
            bounds.forget();
            Box::pin(async move { client.batch_execute(&prepare).await.map_err(HookError::Backend) })
        }))
        .build()
        .map_err(|error| Error::Failed(error.to_string()))
}

/// What it means that no connection could be had.
pub fn no_connection(error: PoolError) -> Error {
    match error {
        PoolError::Backend(error) => failure(error),
        other => Error::Unavailable(format!("no connection to Postgres: {other}")),
    }
}

/// What a driver's error means. SQLSTATE decides; without one the connection is gone.
pub fn failure(error: tokio_postgres::Error) -> Error {
    use tokio_postgres::error::SqlState;
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

/// Whether a driver's error only says that others were in the way, so that the transaction may be begun again.
pub fn is_conflict(error: &tokio_postgres::Error) -> bool {
    use tokio_postgres::error::SqlState;
    // An entry of the log was on its way to the default partition when its day got one of its own.
    let moved = |code: &SqlState| {
        code == &SqlState::CHECK_VIOLATION
            && error.as_db_error().is_some_and(|db| db.table() == Some("log_default"))
    };
    error.code().is_some_and(|code| {
        moved(code)
            || [
                SqlState::T_R_SERIALIZATION_FAILURE,
                SqlState::T_R_DEADLOCK_DETECTED,
                SqlState::LOCK_NOT_AVAILABLE,
                SqlState::UNIQUE_VIOLATION,
                // How a guard of ours says no.
                SqlState::DIVISION_BY_ZERO,
            ]
            .contains(code)
    })
}
