//! A database for a fixture: created empty or restored from a dump, dumped, and dropped at the end.
#![allow(dead_code)]

use selvedge_conformance::fixtures::{Fixture, SCHEMA};
use selvedge_postgres::{PostgresStore, Settings};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::{Client, NoTls};

/// A database that is dropped with this value.
pub struct Database {
    name: String,
    url: String,
    server: String,
}

impl Database {
    /// Creates an empty database. The first store that opens creates the schema.
    pub async fn create() -> Database {
        let server = std::env::var("SELVEDGE_TEST_POSTGRES")
            .expect("SELVEDGE_TEST_POSTGRES names no Postgres: run ./scripts/test, which starts one");
        let name = format!("fixture_{}", uuid::Uuid::new_v4().simple());
        let address = server.split('?').next().unwrap_or_default();
        let (host, _) = address.rsplit_once('/').expect("the address names a database");
        let url = server.replacen(address, &format!("{host}/{name}"), 1);
        let created = connect(&server).await.batch_execute(&format!("create database {name}")).await;
        created.expect("the database is created");
        Database { name, url, server }
    }

    /// Creates a database with the rows of a fixture as its build wrote them, before any migration of this build.
    pub async fn restore(fixture: &Fixture) -> Database {
        let database = Database::create().await;
        let restored = connect(&database.url).await.batch_execute(&fixture.text("postgres.sql")).await;
        restored.expect("the dump is restored");
        database
    }

    /// Opens a store on the schema of the fixture, which runs the missing migrations.
    pub async fn store(&self) -> Arc<PostgresStore> {
        // A loaded machine may take longer than the default to open a connection.
        let connect_timeout = Duration::from_secs(30);
        let settings = Settings { schema: SCHEMA.to_owned(), connect_timeout, ..Settings::default() };
        let store = PostgresStore::connect_with(&self.url, settings).await;
        Arc::new(store.expect("the store opens"))
    }

    /// Opens a plain connection to the schema of the fixture.
    pub async fn plain(&self) -> Client {
        let client = connect(&self.url).await;
        let set = client.batch_execute(&format!("set search_path to {SCHEMA}, pg_catalog")).await;
        set.expect("the search path is set");
        client
    }

    /// Dumps the schema and its rows as statements that any driver can run. Needs `pg_dump`.
    pub fn dump(&self) -> String {
        let options = ["--inserts", "--rows-per-insert=20", "--no-owner", "--no-privileges"];
        let dumped = Command::new("pg_dump")
            .args(options)
            .arg(format!("--schema={SCHEMA}"))
            .arg(format!("--dbname={}", self.url))
            .output()
            .expect("pg_dump runs");
        assert!(dumped.status.success(), "{}", String::from_utf8_lossy(&dumped.stderr));
        cleaned(&String::from_utf8(dumped.stdout).expect("the dump is text"))
    }
}

/// Removes comments, commands of `psql` and settings from a dump. Settings differ between versions of `pg_dump`, and the
/// defaults of a connection do as well. The search path stays as it is, since all names are qualified.
fn cleaned(dump: &str) -> String {
    let (mut text, mut begun) = (String::new(), false);
    for line in dump.lines() {
        begun |= line.starts_with("CREATE");
        let command = line.starts_with('\\') || line.starts_with("--");
        let setting = line.starts_with("SET ") || line.contains("set_config('search_path'");
        // Settings between tables choose tablespaces and access methods, which are left to the server.
        let storage = begun && line.starts_with("SET default_");
        if !command && !line.is_empty() && !storage && (begun || !setting) {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("the connection opens");
    tokio::spawn(connection);
    client
}

impl Drop for Database {
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), self.name.clone());
        // Best effort: the whole server is deleted after the tests.
        let _ = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("the runtime starts").block_on(async {
                let drop = format!("drop database if exists {name} with (force)");
                let _ = connect(&server).await.batch_execute(&drop).await;
            });
        })
        .join();
    }
}
