//! Connections: the pools, and the settings of every connection.
//!
//! Plans are part of the contract: each statement is written for one index, and stale or missing statistics must not
//! make the planner choose another plan. So plans are generic, and hash joins, merge joins, bitmap scans and sequential
//! scans are disabled where an index serves. The sizes of tables still matter, so plans are dropped when a table has grown
//! (`growth`).

mod failure;
mod growth;
pub mod history;
pub mod pipeline;
pub mod schema;

pub use failure::{failure, is_conflict, no_connection};

use crate::bounds::Bounds;
use crate::log::Settled;
use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, Pool, RecyclingMethod, Runtime, Timeouts};
use growth::Growth;
use history::History;
use selvedge_store::Error;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::{Config, NoTls};

/// The longest that opening a TCP connection to the server may take.
const TCP_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Settings of a store.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The schema that holds the tables. Default: `selvedge`.
    pub schema: String,
    /// The number of transactions that can run concurrently, each on a connection of its own. Default: 4.
    pub writers: usize,
    /// The number of connections for everything outside of transactions. Default: 4.
    pub readers: usize,
    /// The time a statement waits for a lock before its transaction is retried. Default: 1 s.
    pub lock_timeout: Duration,
    /// The time to wait for a connection of the pool. Default: 5 s.
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

/// Parses a URL.
pub fn config(url: &str) -> Result<Config, Error> {
    let mut config: Config = url.parse().map_err(|error| {
        Error::BadAddress(format!(
            "invalid Postgres address ({error}); write postgres://USER:PASSWORD@HOST:PORT/DATABASE"
        ))
    })?;
    if config.get_application_name().is_none() {
        config.application_name("selvedge");
    }
    config.connect_timeout(TCP_CONNECT_TIMEOUT);
    Ok(config)
}

/// Returns the statements that set up a new connection.
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

/// Quotes a name as an SQL identifier.
pub fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// What a store caches about its database.
#[derive(Clone, Default)]
pub struct Caches {
    /// The positions at which claims start to search.
    pub bounds: Arc<Bounds>,
    /// The settled part of the log.
    pub log: Arc<Settled>,
    /// The names that the process has learned.
    pub history: Arc<History>,
    /// The sizes of the tables.
    growth: Arc<Growth>,
}

impl Caches {
    /// Drops what is cached about rows: a connection is new, and may lead to another history.
    fn connected(&self) {
        self.history.connected();
        self.bounds.forget();
        self.log.forget();
    }
}

/// Returns a pool of `size` connections. Every new connection drops the caches and is compared with the history that this
/// process knows.
pub fn pool(config: &Config, settings: &Settings, size: usize, caches: &Caches) -> Result<Pool, Error> {
    let manager = Manager::from_config(
        config.clone(),
        NoTls,
        ManagerConfig { recycling_method: RecyclingMethod::Fast },
    );
    let prepare = preparation(settings);
    let (caches, growth) = (caches.clone(), caches.growth.clone());
    Pool::builder(manager)
        .max_size(size)
        .timeouts(Timeouts {
            wait: Some(settings.connect_timeout),
            create: Some(settings.connect_timeout),
            recycle: Some(settings.connect_timeout),
        })
        .runtime(Runtime::Tokio1)
        .post_create(Hook::async_fn(move |client, _| {
            let (prepare, caches) = (prepare.clone(), caches.clone());
            caches.connected();
            Box::pin(async move {
                client.batch_execute(&prepare).await.map_err(HookError::Backend)?;
                let checked = caches.history.check(client).await.map_err(HookError::Backend)?;
                checked.map_err(|what| {
                    tracing::error!(
                        what,
                        "the database has another history than this process knows; restart it"
                    );
                    HookError::message(format!(
                        "the database has another history than this process knows: {what}"
                    ))
                })
            })
        }))
        .post_recycle(Hook::async_fn(move |client, metrics| {
            let growth = growth.clone();
            Box::pin(
                async move { growth.keep_plans_fresh(client, metrics).await.map_err(HookError::Backend) },
            )
        }))
        .build()
        .map_err(|error| Error::Failed(error.to_string()))
}
