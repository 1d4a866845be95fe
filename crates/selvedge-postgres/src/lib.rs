//! The Postgres store: any number of servers on one database.
//!
//! Read committed, explicit locks in one order, set-based statements, two round trips per transaction: the statements
//! that load go out together with `begin`, those that save go out together with `commit`. A save whose guards fail ends
//! in an error on the server, so the commit that follows it on the wire commits nothing.
//!
//! Where to look: `transaction` holds the one guarded transaction helper, `load` and `save` its two
//! halves, `bounds` where claims begin to look, `read` and `flows` everything outside of transactions, `log`
//! and `log_window` the log, `streams` the frames of attempts, `records` signals, steps and waitpoints, `gates` admission,
//! `sql/` every statement.

#![warn(missing_docs)]

mod bounds;
mod connect;
mod flows;
mod gates;
mod list;
mod load;
mod log;
mod log_window;
mod news;
mod pipeline;
mod read;
mod records;
mod row;
mod save;
mod save_flows;
mod schema;
mod sql;
mod streams;
#[doc(hidden)]
pub mod testing;
mod transaction;

pub use connect::Settings;

use deadpool_postgres::Pool;
use selvedge_store::Error;
use std::sync::Arc;
use tokio::sync::Mutex;

/// A store on a Postgres database.
pub struct PostgresStore {
    /// For transactions: reads, however many, never keep a write waiting for a connection.
    writers: Pool,
    /// For everything else.
    pool: Pool,
    settings: Settings,
    me: String,
    writers_key: i64,
    log: log::Settled,
    bounds: Arc<bounds::Bounds>,
    listener: Mutex<news::Listener>,
    tries: transaction::Counters,
}

impl PostgresStore {
    /// Opens the store at a `postgres://` URL, in its default schema `selvedge`, and brings the schema up to date.
    pub async fn connect(url: &str) -> Result<PostgresStore, Error> {
        Self::connect_with(url, Settings::default()).await
    }

    /// Opens the store with other settings.
    pub async fn connect_with(url: &str, settings: Settings) -> Result<PostgresStore, Error> {
        let config = connect::config(url)?;
        schema::migrate(&config, &settings.schema).await?;
        let bounds = Arc::new(bounds::Bounds::default());
        let writers = connect::pool(&config, &settings, settings.writers, &bounds)?;
        let pool = connect::pool(&config, &settings, settings.readers, &bounds)?;
        let writers_key = schema::writers_key(&pool).await?;
        let me = uuid::Uuid::new_v4().simple().to_string();
        let store = PostgresStore {
            writers,
            pool,
            listener: Mutex::new(news::Listener::new(&config, &settings, &me)),
            me,
            settings,
            writers_key,
            log: log::Settled::default(),
            bounds,
            tries: transaction::Counters::default(),
        };
        store.prepare_log().await?;
        Ok(store)
    }

    /// How many transactions were begun again because others were in the way.
    pub fn conflicts(&self) -> u64 {
        self.tries.conflicts()
    }
}
