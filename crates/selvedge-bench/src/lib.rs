//! Benchmarks. Machines are noisy and shared, so every figure is printed next to a floor measured in the same run: what
//! hand-written SQL on a plain table does through the same driver, and what one single-row commit takes.
//!
//! Scenarios: [`floor`], [`queue`], [`latency`], [`backlog`], [`idle`], [`feed`], [`suspend_signal`]; of flows [`chain`], [`fanout`], [`flows`],
//! [`quorum_cancel`], [`submit_flow`]; of admission [`limits`], [`capability`], [`held`], [`beside`]. What they measure and how
//! to read them: docs/benchmarks.md.

pub mod backlog;
mod bed;
pub mod beside;
pub mod capability;
pub mod chain;
pub mod fanout;
pub mod feed;
pub mod floor;
pub mod flows;
pub mod held;
mod http;
pub mod idle;
pub mod latency;
pub mod limits;
pub mod queue;
pub mod quorum_cancel;
mod report;
mod shape;
pub mod submit_flow;
pub mod suspend_signal;
mod target;
mod terms;
mod unlogged;

pub use report::Report;

use selvedge_store::Store;
use std::path::PathBuf;
use std::sync::Arc;

/// What can go wrong in a benchmark.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store.
    #[error(transparent)]
    Store(#[from] selvedge_store::Error),
    /// The engine.
    #[error(transparent)]
    Engine(#[from] selvedge_engine::Error),
    /// The driver, in the floor.
    #[error("the floor's database: {0}")]
    Postgres(#[from] tokio_postgres::Error),
    /// The driver, in the floor.
    #[error("the floor's database: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// The transport.
    #[error("{0}")]
    Http(String),
    /// The disk.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The request makes no sense.
    #[error("{0}")]
    Usage(String),
}

/// Where a benchmark runs.
#[derive(Clone, Debug)]
pub enum Place {
    /// On this Postgres, in schemas of its own that it drops.
    Postgres(String),
    /// On a fresh SQLite file in this directory, which it deletes.
    Sqlite(PathBuf),
}

impl Place {
    /// From a store's address.
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
            "--store {address}: benchmarks run on postgres://… or on sqlite:DIRECTORY (a fresh file is made there)"
        )))
    }

    /// The store's word in reports.
    pub fn name(&self) -> &'static str {
        match self {
            Place::Postgres(_) => "postgres",
            Place::Sqlite(_) => "sqlite",
        }
    }

    /// Opens a fresh, empty store.
    async fn open(&self) -> Result<Fresh, Error> {
        match self {
            Place::Postgres(url) => {
                let schema = format!("selvedge_bench_{}", uuid::Uuid::new_v4().simple());
                let settings = selvedge_postgres::Settings { schema: schema.clone(), ..Default::default() };
                let store = selvedge_postgres::PostgresStore::connect_with(url, settings).await?;
                Ok(Fresh { store: Arc::new(store), remains: Remains::Schema(url.clone(), schema) })
            }
            Place::Sqlite(directory) => {
                let path = directory.join(format!("selvedge-bench-{}.db", uuid::Uuid::new_v4().simple()));
                let store = selvedge_sqlite::SqliteStore::open(&path).await?;
                Ok(Fresh { store: Arc::new(store), remains: Remains::File(path) })
            }
        }
    }
}

/// A store made for one benchmark.
struct Fresh {
    store: Arc<dyn Store>,
    remains: Remains,
}

/// What a benchmark leaves behind unless it is removed.
enum Remains {
    Schema(String, String),
    File(PathBuf),
}

impl Remains {
    async fn remove(self) -> Result<(), Error> {
        match self {
            Remains::Schema(url, schema) => {
                let client = floor::postgres::connect(&url).await?;
                client.batch_execute(&format!("drop schema if exists {schema} cascade")).await?;
            }
            Remains::File(path) => {
                for ending in ["", "-wal", "-shm", "-lock"] {
                    let mut name = path.clone().into_os_string();
                    name.push(ending);
                    // Not every file is there.
                    let _ = std::fs::remove_file(name);
                }
            }
        }
        Ok(())
    }
}

/// How much a scenario does.
#[derive(Clone, Debug)]
pub struct Load {
    /// How many executions.
    pub executions: u64,
    /// How many go in one call.
    pub batch: usize,
    /// How many submit at once.
    pub submitters: usize,
    /// How many workers claim at once.
    pub workers: usize,
    /// How many may be submitted and not yet completed.
    pub outstanding: u64,
    /// Whether to go over HTTP.
    pub http: bool,
}

impl Default for Load {
    fn default() -> Self {
        Load { executions: 150_000, batch: 100, submitters: 4, workers: 4, outstanding: 800, http: false }
    }
}
