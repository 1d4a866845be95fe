//! Where a test keeps its store: a directory or a database of its own, gone when the test is over.

use std::path::{Path, PathBuf};
use tokio_postgres::NoTls;
use uuid::Uuid;

/// A store of its own.
pub trait Place {
    /// Its address.
    fn store(&self) -> String;
}

/// A directory of its own.
pub struct Directory(PathBuf);

impl Directory {
    /// An empty one.
    pub fn new() -> Self {
        let path = std::env::temp_dir().join(format!("selvedge-test-{}", Uuid::new_v4().simple()));
        std::fs::create_dir(&path).expect("the directory is made");
        Directory(path)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // A directory that stays harms nothing but tidiness.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A SQLite file in a directory of its own.
pub struct Sqlite(Directory);

impl Sqlite {
    /// One that is not there yet.
    pub fn new() -> Self {
        Sqlite(Directory::new())
    }
}

impl Place for Sqlite {
    fn store(&self) -> String {
        format!("sqlite:{}", self.0.path().join("selvedge.db").display())
    }
}

/// A Postgres database of its own.
pub struct Postgres {
    server: String,
    database: String,
}

impl Postgres {
    /// An empty one.
    pub fn new() -> Self {
        let server = std::env::var("SELVEDGE_TEST_POSTGRES").expect(
            "SELVEDGE_TEST_POSTGRES is not set: run ./scripts/test, which starts a PostgreSQL for the tests",
        );
        let database = format!("selvedge_test_{}", Uuid::new_v4().simple());
        run(&server, &format!("create database {database}"));
        Postgres { server, database }
    }

    /// Its address, with this password, which the server does not ask for.
    pub fn store_with_password(&self, password: &str) -> String {
        let store = self.store();
        let (user, rest) = store.split_once('@').expect("the address names a user");
        format!("{user}:{password}@{rest}")
    }
}

impl Place for Postgres {
    fn store(&self) -> String {
        let (server, _database) = self.server.rsplit_once('/').expect("a URL with a database");
        format!("{server}/{}", self.database)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        run(&self.server, &format!("drop database {} with (force)", self.database));
    }
}

/// Runs one statement.
fn run(server: &str, statement: &str) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime starts");
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(server, NoTls)
            .await
            .expect("the server of SELVEDGE_TEST_POSTGRES answers");
        let connection = tokio::spawn(connection);
        client.batch_execute(statement).await.expect(statement);
        drop(client);
        connection.await.expect("the connection's task ends").expect("the connection closes well");
    });
}
