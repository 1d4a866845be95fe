//! A schema of its own for each test, stores and engines on it, and plain connections beside them.
#![allow(dead_code)]

pub mod admission;
pub mod cluster;
pub mod crash;
pub mod feed;
pub mod flows;
pub mod pages;
pub mod plan_cases;
pub mod proxy;
pub mod storm;
pub mod suspensions;
#[path = "../../../selvedge-engine/tests/engine/test_server.rs"]
pub mod test_server;

use selvedge_engine::{Engine, Options};
use selvedge_postgres::{PostgresStore, Settings};
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};
use test_server::TestServer;
use tokio::sync::OnceCell;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls};

/// Long enough for anything that should happen.
pub const LONG: Duration = Duration::from_secs(30);

/// The key of the advisory lock that writers of the log share.
pub const WRITERS_KEY: &str =
    "(1397050454::bigint << 32) | (select oid::bigint from pg_namespace where nspname = current_schema())";

/// A schema that goes when it is dropped.
pub struct Sandbox {
    url: String,
    /// How to make it go.
    cleaning: String,
    /// Where to connect to for that.
    cleaned_from: String,
    /// The schema, which is also how the connections of its stores are named.
    pub schema: String,
    /// A connection that only looks. One that is in a transaction would see the same picture again and again.
    looking: OnceCell<Plain>,
}

impl Default for Sandbox {
    fn default() -> Self {
        Self::new()
    }
}

impl Sandbox {
    /// A name that nobody else has; the first store that opens makes the schema.
    pub fn new() -> Sandbox {
        let url = std::env::var("SELVEDGE_TEST_POSTGRES")
            .expect("SELVEDGE_TEST_POSTGRES names no Postgres: run ./scripts/test, which starts one");
        Self::on(&url)
    }

    /// The same on another server.
    pub fn on(url: &str) -> Sandbox {
        let url = url.to_owned();
        let schema = format!("test_{}", uuid::Uuid::new_v4().simple());
        let cleaning = format!("set lock_timeout to '2s'; drop schema if exists {schema} cascade");
        Sandbox { cleaned_from: url.clone(), url, cleaning, schema, looking: OnceCell::new() }
    }

    /// The same in a database of its own, for what Postgres counts by database.
    pub async fn alone() -> Sandbox {
        let shared = Sandbox::new();
        let database = &shared.schema;
        let address = shared.url.split('?').next().unwrap_or_default();
        let (server, _) = address.rsplit_once('/').expect("the address names a database");
        let url = shared.url.replacen(address, &format!("{server}/{database}"), 1);
        Plain::connect(&shared.url, "public").await.run(&format!("create database {database}")).await;
        let cleaning = format!("drop database if exists {database} with (force)");
        let (schema, cleaned_from) = (database.clone(), shared.url.clone());
        Sandbox { url, cleaning, cleaned_from, schema, looking: OnceCell::new() }
    }

    /// How often Postgres ended a transaction of the database because two waited for each other. What a connection knows of
    /// that is counted for certain only once it is closed.
    pub async fn deadlocks(&self) -> i64 {
        let text = "select deadlocks from pg_stat_database where datname = current_database()";
        self.look(text, &[]).await
    }

    /// The address, for connections that are named after the schema and `who`.
    pub fn url(&self, who: &str) -> String {
        let separator = if self.url.contains('?') { '&' } else { '?' };
        format!("{}{separator}application_name={}", self.url, self.name(who))
    }

    fn name(&self, who: &str) -> String {
        format!("{}_{who}", self.schema)
    }

    /// The settings of a store here.
    pub fn settings(&self) -> Settings {
        Settings { schema: self.schema.clone(), ..Settings::default() }
    }

    /// A store.
    pub async fn store(&self, who: &str) -> Arc<PostgresStore> {
        self.store_with(who, self.settings()).await
    }

    /// A store with other settings.
    pub async fn store_with(&self, who: &str, settings: Settings) -> Arc<PostgresStore> {
        let store = PostgresStore::connect_with(&self.url(who), settings).await;
        Arc::new(store.expect("the store opens"))
    }

    /// An engine on a store of its own, which does only what it is asked to.
    pub async fn side(&self, who: &str) -> TestServer {
        TestServer::new(self.store(who).await, test_server::passive_options()).await
    }

    /// An engine on a store of its own.
    pub async fn side_with(&self, who: &str, options: Options) -> TestServer {
        TestServer::new(self.store(who).await, options).await
    }

    /// An engine with a single connection to write, so that all that comes while it is busy goes in one batch, and a
    /// single one to read.
    pub async fn narrow_side(&self, who: &str) -> TestServer {
        let settings = Settings { writers: 1, readers: 1, ..self.settings() };
        TestServer::new(self.store_with(who, settings).await, test_server::passive_options()).await
    }

    /// A plain connection to the schema.
    pub async fn plain(&self) -> Plain {
        Plain::connect(&self.url("plain"), &self.schema).await
    }

    async fn look(&self, text: &str, parameters: &[&(dyn ToSql + Sync)]) -> i64 {
        let looking = self.looking.get_or_init(|| self.plain()).await;
        looking.number(text, parameters).await
    }

    /// Waits until so many connections of `who` wait for a lock.
    pub async fn waits_for_lock(&self, who: &str, count: i64) {
        until(&format!("{count} connections of {who} wait for a lock"), async || {
            self.lock_waits(who).await == count
        })
        .await;
    }

    /// How many connections of `who` wait for a lock.
    pub async fn lock_waits(&self, who: &str) -> i64 {
        let text =
            "select count(*) from pg_stat_activity where application_name = $1 and wait_event_type = 'Lock'";
        self.look(text, &[&self.name(who)]).await
    }

    /// The database's time.
    pub async fn now(&self) -> String {
        let looking = self.looking.get_or_init(|| self.plain()).await;
        let row = looking.query_one("select clock_timestamp()::text", &[]).await;
        row.expect("the time is told").get(0)
    }

    /// Waits until `who` has the answer to a statement whose text begins so and that was begun after `since`. It must have
    /// run the statement before: to prepare one looks the same as to run it.
    pub async fn has_read(&self, who: &str, statement: &str, since: &str) {
        let text = "select count(*) from pg_stat_activity \
                    where application_name = $1 and state = 'idle' and query like $2 \
                      and query_start > $3::text::timestamptz";
        let (name, like) = (self.name(who), format!("{statement}%"));
        until(&format!("{who} has read {statement}"), async || {
            self.look(text, &[&name, &like, &since]).await > 0
        })
        .await;
    }

    /// How many connections `who` has.
    pub async fn connections(&self, who: &str) -> i64 {
        let text = "select count(*) from pg_stat_activity where application_name = $1";
        self.look(text, &[&self.name(who)]).await
    }

    /// Waits until no connection of `who` is in a transaction, or under way.
    pub async fn is_at_rest(&self, who: &str) {
        let text = "select count(*) from pg_stat_activity where application_name = $1 and state <> 'idle'";
        let name = self.name(who);
        until(&format!("{who} is at rest"), async || self.look(text, &[&name]).await == 0).await;
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let (url, cleaning) = (self.cleaned_from.clone(), self.cleaning.clone());
        // What cannot be dropped goes with the whole server.
        let _ = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime can be made").block_on(async {
                let Ok((client, connection)) = tokio_postgres::connect(&url, NoTls).await else {
                    return;
                };
                tokio::spawn(connection);
                let _ = client.batch_execute(&cleaning).await;
            });
        })
        .join();
    }
}

/// A plain connection, for locks that tests hold and for looking.
pub struct Plain(Client);

impl Plain {
    async fn connect(url: &str, schema: &str) -> Plain {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("it connects");
        tokio::spawn(connection);
        let plain = Plain(client);
        plain.run(&format!("set search_path to {schema}, pg_catalog")).await;
        plain
    }

    /// Runs statements.
    pub async fn run(&self, text: &str) {
        self.0.batch_execute(text).await.expect("the statements run");
    }

    /// The number that a statement gives.
    pub async fn number(&self, text: &str, parameters: &[&(dyn ToSql + Sync)]) -> i64 {
        let row = self.0.query_one(text, parameters).await;
        row.expect("the statement gives a row").get(0)
    }

    /// Begins a transaction that holds the row of an execution.
    pub async fn hold(&self, id: selvedge_engine::core::ExecutionId) {
        self.run(&format!("begin; select from executions where id = '{}' for update", id.0)).await;
    }

    /// Begins a transaction that holds the rows of all sessions.
    pub async fn hold_sessions(&self) {
        self.run("begin; select from sessions for update").await;
    }

    /// Begins a transaction that lets nobody draw a number of the log, so that whoever changes something stops just before
    /// the commit, with all rows changed and locked. The sequence is locked, not the table: that would stop others already
    /// when they prepare the statement.
    pub async fn hold_log(&self) {
        self.run("begin; alter sequence log_number_seq no cycle").await;
    }

    /// Lets go of everything.
    pub async fn release(&self) {
        self.run("rollback").await;
    }
}

impl Deref for Plain {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.0
    }
}

/// Looks again and again until it is so.
pub async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !is_so().await {
        assert!(Instant::now() < deadline, "in vain: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Shuts engines down.
pub async fn stop(engines: impl IntoIterator<Item = &Engine>) {
    for engine in engines {
        engine.shutdown().await;
    }
}
