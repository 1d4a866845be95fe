//! The Postgres store: any number of servers on one database.
//!
//! Read committed, explicit locks in one order, set-based statements, two round trips per transaction: the loading
//! statements are sent together with `begin`, the saving statements together with `commit`. A save whose guard fails
//! raises an error on the server, so the `commit` that follows on the wire commits nothing.
//!
//! Code map: `kinds/` has one file per noun with its statements, columns, loading, saving and reads; `kinds/mod.rs` walks them to
//! load and to save. `transaction` holds the one guarded transaction helper, `bounds` the positions at which claims start to
//! search, `settled` the times and numbers below which nothing is written any more, `store_clock` the time of the store. `sql`
//! and `read` are what the kinds share, `notifications` the messages between servers,
//! `connection/` the pools and the schema, `diagnosis/` the examination of a store from outside, `sql/` every statement.

mod bounds;
mod connection;
mod coverage;
pub mod diagnosis;
mod kinds;
mod notifications;
mod read;
mod settled;
mod sql;
mod store_clock;
#[cfg(feature = "testing")]
pub mod testing;
mod transaction;

pub use connection::Settings;

use connection::{Abandoned, Connections, Endpoint, schema};
use notifications::Listener;
use selvedge_store::{CallMeter, Error, Migrated};
use std::sync::Arc;
use tokio::sync::Mutex;

/// Opens a connection of its own, with the TLS that a `postgres://` URL asks for.
pub async fn connect(url: &str) -> Result<tokio_postgres::Client, Error> {
    let (client, exchange) = Endpoint::parse(url)?.open(&Settings::default()).await?;
    tokio::spawn(exchange);
    Ok(client)
}

/// Runs the migrations that the schema at a `postgres://` URL lacks, as the first server that opens the store does.
pub async fn migrate(url: &str, settings: &Settings) -> Result<Migrated, Error> {
    schema::migrate(&Endpoint::parse(url)?.named("selvedge migrate"), settings).await
}

/// A store on a Postgres database.
pub struct PostgresStore {
    /// Connections for transactions. They are separate so that no number of reads keeps a write waiting for a connection.
    writers: Connections,
    /// Connections for the reads of callers.
    readers: Connections,
    /// Connections for the engine itself: reconcilers, notifications, and the names of namespaces and classes. They are
    /// separate so that no number of slow reads delays them.
    background: Connections,
    endpoint: Endpoint,
    settings: Settings,
    /// A random name of this server, by which it ignores its own notifications.
    server: String,
    writers_key: i64,
    log: Arc<settled::SettledNumber>,
    bounds: Arc<bounds::Bounds>,
    glances: Arc<kinds::due::glance::Glances>,
    lineage: Arc<connection::lineage::Lineage>,
    fence: Arc<connection::Fence>,
    listener: Mutex<Listener>,
    tries: transaction::Counters,
    meter: CallMeter,
}

impl PostgresStore {
    /// Opens the store at a `postgres://` URL in the schema `selvedge`, and runs the migrations that it lacks.
    pub async fn connect(url: &str) -> Result<PostgresStore, Error> {
        Self::connect_with(url, Settings::default()).await
    }

    /// Opens the store with other settings.
    pub async fn connect_with(url: &str, settings: Settings) -> Result<PostgresStore, Error> {
        let endpoint = Endpoint::parse(url)?;
        schema::migrate(&endpoint, &settings).await?;
        let caches = connection::Caches::default();
        let silence = Arc::default();
        let pool =
            |size, abandoned| Connections::new(&endpoint, &settings, (size, abandoned), &silence, &caches);
        let writers = pool(settings.writers, Abandoned::LeftAlone)?;
        let readers = pool(settings.readers, Abandoned::Cancelled)?;
        let background = pool(settings.background, Abandoned::Cancelled)?;
        let writers_key = schema::writers_key(&background).await?;
        let connection::Caches { bounds, glances, log, lineage, fence, .. } = caches;
        let server = uuid::Uuid::new_v4().simple().to_string();
        let store = PostgresStore {
            writers,
            readers,
            background,
            listener: Mutex::new(Listener::new(&endpoint, &settings, &server)),
            server,
            endpoint,
            settings,
            writers_key,
            log,
            bounds,
            glances,
            lineage,
            fence,
            tries: transaction::Counters::default(),
            meter: CallMeter::default(),
        };
        store.create_partitions().await?;
        Ok(store)
    }

    /// Returns how many times a transaction was retried because another one was in the way.
    pub fn conflicts(&self) -> u64 {
        self.tries.conflicts()
    }
}
