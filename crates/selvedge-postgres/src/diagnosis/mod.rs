//! Examines a store from outside, for `selvedge doctor`.
//!
//! One connection of its own reads the state of the server and of the schema: read only, each statement with a time limit and
//! practically no wait for locks, so it is safe beside running servers. A check that fails becomes a finding of its own.

mod server;
mod tables;
mod work;

use crate::Settings;
use crate::connection::pooler::open_checked;
use crate::connection::{Endpoint, StatementError, quote, schema};
use crate::sql::statements;
use selvedge_store::{Error, Finding, Level, SchemaVersion};
use std::future::Future;
use std::time::Duration;
use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row};

statements! {
    COUNT_STALE = "diagnosis/count_stale";
    LIST_BLOAT = "diagnosis/list_bloat";
    LIST_DEAD_ROWS = "diagnosis/list_dead_rows";
    LIST_INVALID_INDEXES = "diagnosis/list_invalid_indexes";
    LIST_SETTINGS = "diagnosis/list_settings";
    LIST_SNAPSHOTS = "diagnosis/list_snapshots";
    READ_SECRET = "diagnosis/read_secret";
    READ_SERVER = "diagnosis/read_server";
}

/// The time after which the server cancels a statement of the examination.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(5);
/// The time that a statement waits for a lock. Reads of the catalogue wait only for a change of the schema.
const LOCK_TIMEOUT: Duration = Duration::from_millis(100);

/// The values from which on the examination reports something.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The age of a transaction that keeps dead rows alive. Default: 1 min; ten times as much is a warning.
    pub snapshot_age: Duration,
    /// The number of dead rows of a table. Default: 100 000.
    pub dead_rows: i64,
    /// The pages of 8 KiB beyond four times the estimated need of a table or an index. Default: 2048, 16 MiB.
    pub bloat_pages: i64,
    /// The time after which servers should have taken a row of the outbox or the inbox. Default: 1 min.
    pub stale_after: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            snapshot_age: Duration::from_secs(60),
            dead_rows: 100_000,
            bloat_pages: 2048,
            stale_after: Duration::from_secs(60),
        }
    }
}

/// Examines the store at a `postgres://` URL.
pub async fn diagnose(url: &str, settings: &Settings, limits: &Limits) -> Vec<Finding> {
    let endpoint = match Endpoint::parse(url) {
        Ok(endpoint) => endpoint.named("selvedge doctor"),
        Err(error) => {
            return vec![Finding::new("reachable", Level::Error, error.to_string(), "correct --store")];
        }
    };
    let (client, exchange) = match open_checked(&endpoint, settings).await {
        Ok(opened) => opened,
        Err(Error::BadAddress(_)) => {
            let message =
                "the address leads to a connection pooler in transaction mode, which servers refuse";
            let remedy = "connect to PostgreSQL directly, or let the pooler lend whole sessions (PgBouncer: pool_mode = session)";
            return vec![Finding::new("pooler", Level::Error, message, remedy)];
        }
        Err(error) => {
            let remedy = "check the address, and that PostgreSQL runs and accepts connections from here";
            return vec![Finding::new("reachable", Level::Error, error.to_string(), remedy)];
        }
    };
    let examination = Examination { client, endpoint, settings, limits };
    let findings = examination.run().await;
    exchange.abort();
    findings
}

/// Returns the version of the schema at a `postgres://` URL. Changes nothing.
pub async fn schema_version(url: &str, settings: &Settings) -> Result<SchemaVersion, Error> {
    let endpoint = Endpoint::parse(url)?.named("selvedge doctor");
    let (client, exchange) = open_checked(&endpoint, settings).await?;
    let limits = Limits::default();
    let examination = Examination { client, endpoint, settings, limits: &limits };
    let version = async {
        examination.prepare().await?;
        examination.in_time(schema::read_version(&examination.client)).await
    };
    let version = version.await.map_err(crate::connection::failure);
    exchange.abort();
    version
}

/// A connection that examines a store.
struct Examination<'a> {
    client: Client,
    endpoint: Endpoint,
    settings: &'a Settings,
    limits: &'a Limits,
}

impl Examination<'_> {
    async fn run(&self) -> Vec<Finding> {
        if let Err(error) = self.prepare().await {
            return vec![Finding::unknown("reachable", error)];
        }
        let mut findings = self.server().await;
        findings.push(Finding::ok("pooler", "sessions are not shared with others"));
        let version = match self.in_time(schema::read_version(&self.client)).await {
            Ok(version) => version,
            Err(error) => {
                findings.push(Finding::unknown("schema", error));
                return findings;
            }
        };
        findings.push(version.finding());
        if version.found > 0 {
            findings.extend(self.tables().await);
        }
        // An older schema may lack tables that the remaining checks read.
        if !version.needs_migration() && !version.is_too_new() {
            findings.extend(self.work().await);
        }
        findings
    }

    async fn prepare(&self) -> Result<(), StatementError> {
        let text = format!(
            "set search_path to {schema}, pg_catalog;
             set default_transaction_read_only to on;
             set statement_timeout to {statement_ms};
             set lock_timeout to {lock_ms};
             set timezone to 'UTC'",
            schema = quote(&self.settings.schema),
            statement_ms = STATEMENT_TIMEOUT.as_millis(),
            lock_ms = LOCK_TIMEOUT.as_millis(),
        );
        self.in_time(self.client.batch_execute(&text)).await
    }

    /// Waits for an answer, a little longer than the server may take for a statement.
    async fn in_time<T>(
        &self,
        answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, StatementError> {
        let limit = STATEMENT_TIMEOUT * 2;
        Ok(timeout(limit, answer).await.map_err(|_elapsed| StatementError::Silent(limit))??)
    }

    async fn query(
        &self,
        text: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StatementError> {
        self.in_time(self.client.query(text, parameters)).await
    }
}

/// Returns the findings of a check, or the one that it failed.
fn settled(check: &'static str, findings: Result<Vec<Finding>, StatementError>) -> Vec<Finding> {
    findings.unwrap_or_else(|error| vec![Finding::unknown(check, error)])
}

/// Returns a number of seconds for people, such as `90 s`, `12 min` or `3 h`.
fn duration(seconds: i64) -> String {
    match seconds {
        ..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        172_800.. => format!("{} days", seconds / 86_400),
    }
}
