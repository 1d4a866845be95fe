//! The stores on which benchmarks run: each benchmark gets an empty store of its own, which is removed afterwards.

use crate::{Error, floor};
use selvedge_postgres::{PostgresStore, Settings};
use selvedge_sqlite::SqliteStore;
use selvedge_store::Store;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use uuid::Uuid;

/// The place in which benchmarks create their stores.
#[derive(Clone, Debug)]
pub enum Place {
    /// The PostgreSQL database at this URL. Each store is a schema of its own.
    Postgres(String),
    /// This directory. Each store is a SQLite file of its own.
    Sqlite(PathBuf),
}

impl Place {
    /// Parses `postgres://…` or `sqlite:DIRECTORY`.
    pub fn parse(address: &str) -> Result<Place, Error> {
        if address.starts_with("postgres://") || address.starts_with("postgresql://") {
            return Ok(Place::Postgres(address.into()));
        }
        if let Some(directory) = address.strip_prefix("sqlite:") {
            let directory = PathBuf::from(directory);
            if directory.is_dir() {
                return Ok(Place::Sqlite(directory));
            }
        }
        Err(Error::Usage(format!(
            "--store {address}: benchmarks run on postgres://… or on sqlite:DIRECTORY, in which they create a new file"
        )))
    }

    /// Returns the name of the kind of store in reports.
    pub fn name(&self) -> &'static str {
        match self {
            Place::Postgres(_) => "postgres",
            Place::Sqlite(_) => "sqlite",
        }
    }

    /// Creates an empty store.
    pub(crate) async fn create_store(&self) -> Result<FreshStore, Error> {
        match self {
            Place::Postgres(url) => {
                let schema = format!("selvedge_bench_{}", Uuid::new_v4().simple());
                let cleanup = StoreCleanup::Schema(url.clone(), schema.clone());
                Ok(FreshStore { store: connect(url, schema).await?, cleanup })
            }
            Place::Sqlite(directory) => {
                let path = directory.join(format!("selvedge-bench-{}.db", Uuid::new_v4().simple()));
                let store = SqliteStore::open(&path).await?;
                Ok(FreshStore { store: Arc::new(store), cleanup: StoreCleanup::File(path) })
            }
        }
    }
}

async fn connect(url: &str, schema: String) -> Result<Arc<dyn Store>, Error> {
    let settings = Settings { schema, ..Default::default() };
    Ok(Arc::new(PostgresStore::connect_with(url, settings).await?))
}

/// A store that was created for one benchmark.
pub(crate) struct FreshStore {
    /// The open store.
    pub store: Arc<dyn Store>,
    /// Removes the store afterwards.
    pub cleanup: StoreCleanup,
}

/// The location of a benchmark's store, which has to be removed.
pub(crate) enum StoreCleanup {
    /// The URL of the database and the name of the schema.
    Schema(String, String),
    File(PathBuf),
}

impl StoreCleanup {
    /// Opens the same store again, as another process would. Returns none for SQLite, where only one process may.
    pub async fn open_again(&self) -> Result<Option<Arc<dyn Store>>, Error> {
        match self {
            StoreCleanup::Schema(url, schema) => Ok(Some(connect(url, schema.clone()).await?)),
            StoreCleanup::File(_) => Ok(None),
        }
    }

    /// Removes the store.
    pub async fn run(self) -> Result<(), Error> {
        match self {
            StoreCleanup::Schema(url, schema) => {
                let client = floor::postgres::connect(&url).await?;
                client.batch_execute(&format!("drop schema if exists {schema} cascade")).await?;
            }
            StoreCleanup::File(path) => remove_sqlite_files(&path),
        }
        Ok(())
    }
}

/// Removes a SQLite file and the files that belong to it.
pub(crate) fn remove_sqlite_files(path: &Path) {
    for suffix in ["", "-wal", "-shm", "-lock"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        // Not all of these files exist.
        let _ = std::fs::remove_file(name);
    }
}
