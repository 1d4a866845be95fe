//! Stores for tests: a directory or a database per test, deleted when the test ends.

use std::path::{Path, PathBuf};
use tokio_postgres::NoTls;
use uuid::Uuid;

/// A store for one test.
pub trait Place {
    /// Returns the address of the store.
    fn store(&self) -> String;
}

/// A temporary directory.
pub struct Directory(PathBuf);

impl Directory {
    /// Creates an empty directory.
    pub fn new() -> Self {
        let path = std::env::temp_dir().join(format!("selvedge-test-{}", Uuid::new_v4().simple()));
        std::fs::create_dir(&path).expect("the directory is created");
        Directory(path)
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Best effort: a directory that is left behind does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A SQLite file in a temporary directory.
pub struct Sqlite(Directory);

impl Sqlite {
    /// Creates the directory; the server creates the file.
    pub fn new() -> Self {
        Sqlite(Directory::new())
    }

    /// Returns the path of a file in the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Returns the path of the database.
    pub fn database(&self) -> PathBuf {
        self.path("selvedge.db")
    }
}

impl Place for Sqlite {
    fn store(&self) -> String {
        format!("sqlite:{}", self.database().display())
    }
}

/// A temporary Postgres database.
pub struct Postgres {
    server: String,
    database: String,
}

impl Postgres {
    /// Creates an empty database.
    pub fn new() -> Self {
        Postgres::with("")
    }

    /// Creates an empty database with these options.
    pub fn with(options: &str) -> Self {
        let server = std::env::var("SELVEDGE_TEST_POSTGRES").expect(
            "SELVEDGE_TEST_POSTGRES is not set: run ./scripts/test, which starts a PostgreSQL for the tests",
        );
        let database = format!("selvedge_test_{}", Uuid::new_v4().simple());
        run(&server, &format!("create database {database} {options}"));
        Postgres { server, database }
    }

    /// Runs statements in the database.
    pub fn run(&self, statements: &str) {
        run(&self.store(), statements);
    }

    /// Returns the first column of the rows of a query, as bytes.
    pub fn bytes(&self, query: &str) -> Vec<Vec<u8>> {
        with_client(&self.store(), async |client| {
            let rows = client.query(query, &[]).await.expect(query);
            rows.iter().map(|row| row.get(0)).collect()
        })
    }

    /// Returns the path of a file for a backup.
    pub fn backup(&self) -> String {
        std::env::temp_dir().join(format!("{}.backup", self.database)).display().to_string()
    }

    /// Makes the transactions of all sessions of the database read-only, or ends that, and closes the connections of servers.
    pub fn set_read_only(&self, read_only: bool) {
        let database = &self.database;
        run(
            &self.server,
            &format!("alter database {database} set default_transaction_read_only = {read_only}"),
        );
        let close = "select pg_terminate_backend(pid) from pg_stat_activity";
        run(&self.server, &format!("{close} where datname = '{database}'"));
    }

    /// Sets a setting of the new sessions of the database.
    pub fn configure(&self, setting: &str, value: &str) {
        run(&self.server, &format!("alter database {} set {setting} = {value}", self.database));
    }

    /// Creates a role that may connect, and nothing else. Returns its name.
    pub fn create_role(&self) -> String {
        let role = format!("{}_role", self.database);
        run(&self.server, &format!("create role {role} login"));
        role
    }

    /// Returns the address of the store for a role.
    pub fn store_as(&self, role: &str) -> String {
        let store = self.store();
        let (_, rest) = store.split_once('@').expect("the address names a user");
        format!("postgres://{role}@{rest}")
    }

    /// Returns the address of the store with a password, which the Postgres server ignores.
    pub fn store_with_password(&self, password: &str) -> String {
        let store = self.store();
        let (user, rest) = store.split_once('@').expect("the address names a user");
        format!("{user}:{password}@{rest}")
    }
}

impl Place for Postgres {
    fn store(&self) -> String {
        let (server, _database) =
            self.server.rsplit_once('/').expect("SELVEDGE_TEST_POSTGRES names a database");
        format!("{server}/{}", self.database)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        run(&self.server, &format!("drop database {} with (force)", self.database));
    }
}

/// Runs a statement on the Postgres server.
fn run(server: &str, statement: &str) {
    with_client(server, async |client| client.batch_execute(statement).await.expect(statement));
}

/// Does something with a connection to the Postgres server.
fn with_client<T>(server: &str, work: impl AsyncFnOnce(&tokio_postgres::Client) -> T) -> T {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("the runtime starts");
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(server, NoTls)
            .await
            .expect("the server of SELVEDGE_TEST_POSTGRES is reachable");
        let connection = tokio::spawn(connection);
        let done = work(&client).await;
        drop(client);
        connection
            .await
            .expect("the connection's task does not panic")
            .expect("the connection closes cleanly");
        done
    })
}
