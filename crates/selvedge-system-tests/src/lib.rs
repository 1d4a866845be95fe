//! Shared by the tests of the engine on a real Postgres: a schema for each test, stores and servers on it, plain connections for
//! locks and observation, a proxy that cuts connections, and points at which a server crashes.
//!
//! The tests of this crate run whole engines against one database. Those of the store alone are in `selvedge-postgres`.

pub mod cluster;
pub mod crash;
pub mod database;
pub mod feed;
pub mod feed_load;
pub mod flows;
pub mod gate_load;
pub mod pages;
pub mod proxy;
pub mod server;
pub mod suspensions;
#[path = "../../selvedge-engine/tests/engine/test_server.rs"]
pub mod test_server;

use selvedge_engine::{Engine, Options};
use selvedge_postgres::{PostgresStore, Settings, testing};
use server::Server;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls};

/// The longest wait for anything that must happen.
pub const LONG: Duration = Duration::from_secs(30);

/// The key of the advisory lock that the writers of the log share, as an SQL expression.
pub const WRITERS_KEY: &str =
    "(1397050454::bigint << 32) | (select oid::bigint from pg_namespace where nspname = current_schema())";

/// A schema that is dropped with this value.
pub struct Sandbox {
    url: String,
    /// The statements that drop everything.
    cleanup: String,
    /// The address of the database in which the cleanup runs.
    cleanup_url: String,
    /// The name of the schema, and the prefix of the names of all connections to it.
    pub schema: String,
    /// A connection for observation. It never is in a transaction, which would freeze its view of pg_stat_activity.
    observer: OnceCell<PlainConnection>,
}

impl Default for Sandbox {
    fn default() -> Self {
        Self::new()
    }
}

impl Sandbox {
    /// Returns a sandbox with a new name. The first store that opens creates the schema.
    pub fn new() -> Sandbox {
        let url = std::env::var("SELVEDGE_TEST_POSTGRES")
            .expect("SELVEDGE_TEST_POSTGRES names no Postgres: run ./scripts/test, which starts one");
        Self::on(&url)
    }

    /// Returns a sandbox on another Postgres server.
    pub fn on(url: &str) -> Sandbox {
        let url = url.to_owned();
        let schema = format!("test_{}", uuid::Uuid::new_v4().simple());
        let cleanup = format!("set lock_timeout to '2s'; drop schema if exists {schema} cascade");
        Sandbox { cleanup_url: url.clone(), url, cleanup, schema, observer: OnceCell::new() }
    }

    /// Returns a sandbox in a database of its own, for statistics that Postgres keeps per database.
    pub async fn with_own_database() -> Sandbox {
        let shared = Sandbox::new();
        let database = &shared.schema;
        let address = shared.url.split('?').next().unwrap_or_default();
        let (server, _) = address.rsplit_once('/').expect("the address names a database");
        let url = shared.url.replacen(address, &format!("{server}/{database}"), 1);
        PlainConnection::connect(&shared.url, "public")
            .await
            .run(&format!("create database {database}"))
            .await;
        let cleanup = format!("drop database if exists {database} with (force)");
        let (schema, cleanup_url) = (database.clone(), shared.url.clone());
        Sandbox { url, cleanup, cleanup_url, schema, observer: OnceCell::new() }
    }

    /// Returns the number of deadlocks that Postgres has broken in the database. A connection reports its statistics for
    /// certain only when it is closed.
    pub async fn deadlocks(&self) -> i64 {
        let text = "select deadlocks from pg_stat_database where datname = current_database()";
        self.observe(text, &[]).await
    }

    /// Returns the address for connections that are named after the schema and `who`.
    pub fn url(&self, who: &str) -> String {
        let separator = if self.url.contains('?') { '&' } else { '?' };
        format!("{}{separator}application_name={}", self.url, self.name(who))
    }

    fn name(&self, who: &str) -> String {
        format!("{}_{who}", self.schema)
    }

    /// Returns the settings of a store in the sandbox.
    pub fn settings(&self) -> Settings {
        // A loaded machine may take longer than the default to open a connection.
        let connect_timeout = Duration::from_secs(30);
        Settings { schema: self.schema.clone(), connect_timeout, ..Settings::default() }
    }

    /// Opens a store.
    pub async fn store(&self, who: &str) -> Arc<PostgresStore> {
        self.store_with(who, self.settings()).await
    }

    /// Opens a store with other settings.
    pub async fn store_with(&self, who: &str, settings: Settings) -> Arc<PostgresStore> {
        let store = PostgresStore::connect_with(&self.url(who), settings).await;
        Arc::new(store.expect("the store opens"))
    }

    /// Starts a server without background work: it does only what a test asks for.
    pub async fn server(&self, who: &str) -> Server {
        Server::new(self.store(who).await, server::passive_options()).await
    }

    /// Starts a server with other options.
    pub async fn server_with(&self, who: &str, options: Options) -> Server {
        Server::new(self.store(who).await, options).await
    }

    /// Starts a server with a single connection for transactions, so that all calls that arrive while it is busy share
    /// one batch, and a single one for reads.
    pub async fn single_writer_server(&self, who: &str) -> Server {
        let settings = Settings { writers: 1, readers: 1, ..self.settings() };
        Server::new(self.store_with(who, settings).await, server::passive_options()).await
    }

    /// Opens a plain connection to the schema.
    pub async fn plain(&self) -> PlainConnection {
        PlainConnection::connect(&self.url("plain"), &self.schema).await
    }

    async fn observe(&self, text: &str, parameters: &[&(dyn ToSql + Sync)]) -> i64 {
        let observer = self.observer.get_or_init(|| self.plain()).await;
        observer.number(text, parameters).await
    }

    /// Waits until this number of connections of `who` wait for a lock.
    pub async fn waits_for_lock(&self, who: &str, count: i64) {
        wait_until(&format!("{count} connections of {who} wait for a lock"), async || {
            self.lock_waits(who).await == count
        })
        .await;
    }

    /// Returns how many connections of `who` wait for a lock.
    pub async fn lock_waits(&self, who: &str) -> i64 {
        let text =
            "select count(*) from pg_stat_activity where application_name = $1 and wait_event_type = 'Lock'";
        self.observe(text, &[&self.name(who)]).await
    }

    /// Returns the time of the database.
    pub async fn now(&self) -> String {
        let observer = self.observer.get_or_init(|| self.plain()).await;
        let row = observer.query_one("select clock_timestamp()::text", &[]).await;
        row.expect("the time is read").get(0)
    }

    /// Waits until `who` has received the answer to a statement (`noun/verb`) that it sent after `since`. The
    /// connection must have run the statement before, because preparing a statement looks the same as running it.
    pub async fn has_read(&self, who: &str, statement: &str, since: &str) {
        let statements = testing::statements();
        let (_, sql) = statements.iter().find(|(name, _)| *name == statement).expect("the statement exists");
        let first_line = sql.lines().next().expect("a statement has a header");
        let text = "select count(*) from pg_stat_activity \
                    where application_name = $1 and state = 'idle' and starts_with(query, $2) \
                      and query_start > $3::text::timestamptz";
        let name = self.name(who);
        wait_until(&format!("{who} has read {statement}"), async || {
            self.observe(text, &[&name, &first_line, &since]).await > 0
        })
        .await;
    }

    /// Returns the number of connections of `who`.
    pub async fn connections(&self, who: &str) -> i64 {
        let text = "select count(*) from pg_stat_activity where application_name = $1";
        self.observe(text, &[&self.name(who)]).await
    }

    /// Waits until every connection of `who` is idle and outside of a transaction.
    pub async fn is_idle(&self, who: &str) {
        let text = "select count(*) from pg_stat_activity where application_name = $1 and state <> 'idle'";
        let name = self.name(who);
        wait_until(&format!("{who} is idle"), async || self.observe(text, &[&name]).await == 0).await;
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let (url, cleanup) = (self.cleanup_url.clone(), self.cleanup.clone());
        // Best effort: the whole server is deleted after the tests.
        let _ = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("the runtime starts").block_on(async {
                let Ok((client, connection)) = tokio_postgres::connect(&url, NoTls).await else {
                    return;
                };
                tokio::spawn(connection);
                let _ = client.batch_execute(&cleanup).await;
            });
        })
        .join();
    }
}

/// A connection outside of any store, for locks that tests take and for observation.
pub struct PlainConnection(Client);

impl PlainConnection {
    /// Opens a connection to a database.
    pub async fn connect(url: &str, schema: &str) -> PlainConnection {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("the connection opens");
        tokio::spawn(connection);
        let plain = PlainConnection(client);
        plain.run(&format!("set search_path to {schema}, pg_catalog")).await;
        plain
    }

    /// Runs statements.
    pub async fn run(&self, text: &str) {
        self.0.batch_execute(text).await.expect("the statements run");
    }

    /// Runs a statement and returns the number in its only row.
    pub async fn number(&self, text: &str, parameters: &[&(dyn ToSql + Sync)]) -> i64 {
        let row = self.0.query_one(text, parameters).await;
        row.expect("the statement returns a row").get(0)
    }

    /// Begins a transaction that locks the row of an execution.
    pub async fn lock_execution(&self, id: selvedge_engine::core::ExecutionId) {
        self.run(&format!("begin; select from executions where id = '{}' for update", id.0)).await;
    }

    /// Begins a transaction that locks the rows of all sessions.
    pub async fn lock_sessions(&self) {
        self.run("begin; select from sessions for update").await;
    }

    /// Begins a transaction that lets no other transaction draw a number of the log, so that all of them stop just before
    /// their commit, with all rows changed and locked. It locks the sequence, because a lock on the table would stop them
    /// when they prepare the statement.
    pub async fn block_commits(&self) {
        self.run("begin; alter sequence log_number_seq no cycle").await;
    }

    /// Releases all locks.
    pub async fn release(&self) {
        self.run("rollback").await;
    }
}

impl Deref for PlainConnection {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.0
    }
}

/// Polls a condition until it holds. `what` names the condition in the panic after [`LONG`].
pub async fn wait_until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !condition().await {
        assert!(Instant::now() < deadline, "timed out: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Runs `$what` in the background, on a clone of `$server`.
#[macro_export]
macro_rules! in_background {
    ($server:ident => $what:expr) => {{
        let $server = $server.clone();
        tokio::spawn(async move { $what.await })
    }};
}

/// Waits for a task of [`in_background`].
pub async fn joined<T>(task: JoinHandle<T>) -> T {
    task.await.expect("the task does not panic")
}

/// Shuts engines down.
pub async fn stop(engines: impl IntoIterator<Item = &Engine>) {
    for engine in engines {
        engine.shutdown().await;
    }
}
