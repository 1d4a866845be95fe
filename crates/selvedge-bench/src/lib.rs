//! Benchmarks of the engine, each next to a floor.
//!
//! Machines are noisy and shared, so every figure is reported with a floor that is measured in the same run: the
//! throughput of hand-written SQL on a plain table through the same driver, and the time of one single-row commit.
//! Throughput is compared as `ratio_to_floor`, executions per second divided by those of the floor. Latency is compared
//! with `commit_ms`, the median time of a single-row commit.
//!
//! - [`floor`] measures the floor itself;
//! - `scenarios` has one module for each scenario: executions ([`queue`], [`latency`], [`backlog`], [`idle`], [`feed`],
//!   [`suspend_signal`], [`webhooks`]), flows ([`chain`], [`fanout`], [`flows`], [`quorum_cancel`], [`submit_flow`]) and admission
//!   ([`limits`], [`capability`], [`held`], [`beside`]);
//! - `harness` drives the engine, in this process or over HTTP;
//! - [`Report`] holds the figures of one run.
//!
//! docs/benchmarks.md explains the scenarios for users and lists the measured figures.

pub mod floor;
mod harness;
mod place;
mod report;
mod scenarios;

pub use place::Place;
pub use report::Report;
pub use scenarios::{
    backlog, beside, capability, chain, fanout, feed, flows, held, idle, latency, limits, queue,
    quorum_cancel, submit_flow, suspend_signal, webhooks,
};

use tokio::task::JoinError;

/// An error of a benchmark.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] selvedge_store::Error),
    /// The engine failed or refused a call.
    #[error(transparent)]
    Engine(#[from] selvedge_engine::Error),
    /// The floor's PostgreSQL database failed.
    #[error("the floor's database: {0}")]
    Postgres(#[from] tokio_postgres::Error),
    /// The floor's SQLite database failed.
    #[error("the floor's database: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// A call over HTTP failed.
    #[error("{0}")]
    Http(String),
    /// A file could not be read or written.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The arguments are invalid, or the scenario did not run as expected.
    #[error("{0}")]
    Usage(String),
}

/// The load of a scenario.
#[derive(Clone, Debug)]
pub struct Load {
    /// The number of executions. Default: 150 000.
    pub executions: u64,
    /// The number of executions in one call. Default: 100.
    pub batch: usize,
    /// The number of concurrent submitters. Default: 4.
    pub submitters: usize,
    /// The number of concurrent workers. Default: 4.
    pub workers: usize,
    /// The largest number of executions that are submitted and not yet completed; 0 is no limit. Default: 800.
    pub outstanding: u64,
    /// True to use the HTTP API of a server in this process. Default: false, calls in this process.
    pub http: bool,
    /// True to let the server demand API keys: submitters and workers send one each. Only with `http`. Default: false.
    pub keys: bool,
    /// True to fill the SQL views of events and attempts meanwhile. Default: false.
    pub event_views: bool,
}

impl Default for Load {
    fn default() -> Self {
        Load {
            executions: 150_000,
            batch: 100,
            submitters: 4,
            workers: 4,
            outstanding: 800,
            http: false,
            keys: false,
            event_views: false,
        }
    }
}

impl Load {
    /// Returns the name of the transport in reports.
    fn transport(&self) -> &'static str {
        match (self.http, self.keys) {
            (true, true) => "http_keys",
            (true, false) => "http",
            (false, _) => "in_process",
        }
    }
}

/// Returns the result of a task. A panic of the task becomes an error.
fn task_result<T>(joined: Result<Result<T, Error>, JoinError>) -> Result<T, Error> {
    joined.map_err(|error| Error::Usage(error.to_string()))?
}
