//! Connections: the pools, and the settings of every connection.
//!
//! Plans are part of the contract: each statement is written for one index, and stale or missing statistics must not
//! make the planner choose another plan. So plans are generic, and hash joins, merge joins, bitmap scans and sequential
//! scans are disabled where an index serves. The sizes of tables still matter, so plans are dropped when a table has grown
//! (`growth`).

mod certificates;
mod endpoint;
mod failure;
mod fence;
mod growth;
pub mod lineage;
mod pool;
pub mod pooler;
pub mod schema;
mod tls;

pub use endpoint::Endpoint;
pub use failure::{StatementError, Verdict, failure};
pub use fence::Fence;
pub use pool::{Abandoned, Connection, Connections, Parameters, Pipeline, as_refs};

use crate::bounds::Bounds;
use crate::kinds::due::glance::Glances;
use crate::settled::SettledNumber;
use crate::sql::statements;
use growth::Growth;
use lineage::Lineage;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::Client;

statements! {
    SERVER_IDENTIFY = "server/identify";
    TABLES_READ_SIZES = "tables/read_sizes";
}

#[derive(Clone, Debug)]
pub struct Settings {
    /// The schema that holds the tables. Default: `selvedge`.
    pub schema: String,
    /// The number of transactions that can run concurrently, each on a connection of its own. Default: 4.
    pub writers: usize,
    /// The number of connections for reads. Default: 4.
    pub readers: usize,
    /// The number of connections for reconcilers, notifications and the names of classes. Default: 2.
    pub background: usize,
    /// The time a statement waits for a lock before its transaction is retried. Default: 1 s.
    pub lock_timeout: Duration,
    /// The time after which the server cancels a statement, unless `lock_timeout` is longer. Default: 10 s.
    pub statement_timeout: Duration,
    /// The time without an answer after which a connection counts as lost, unless the server may take longer for a
    /// statement. Default: 15 s.
    pub answer_timeout: Duration,
    /// The time to wait for a connection, including the time to open it and to set it up. Default: 5 s.
    pub connect_timeout: Duration,
    /// The time between two checks whether the connection that listens for notifications is alive. Default: 10 s.
    pub listen_check: Duration,
}

impl Settings {
    fn statement_timeout(&self) -> Duration {
        self.statement_timeout.max(self.lock_timeout)
    }

    /// The server's own answer, that it has cancelled the statement, must have time to arrive.
    fn answer_timeout(&self) -> Duration {
        self.answer_timeout.max(self.statement_timeout() * 5 / 4)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            schema: "selvedge".into(),
            writers: 4,
            readers: 4,
            background: 2,
            lock_timeout: Duration::from_secs(1),
            statement_timeout: Duration::from_secs(10),
            answer_timeout: Duration::from_secs(15),
            connect_timeout: Duration::from_secs(5),
            listen_check: Duration::from_secs(10),
        }
    }
}

/// Returns the statements that set up a new connection. The server too notices a client that is gone: while it sends, while
/// it waits inside of a transaction, and, from version 14 on, while it runs a statement.
pub fn preparation(settings: &Settings) -> String {
    format!(
        "set search_path to {schema}, pg_catalog;
         set plan_cache_mode to force_generic_plan;
         set enable_hashjoin to off;
         set enable_mergejoin to off;
         set enable_seqscan to off;
         set enable_bitmapscan to off;
         set jit to off;
         set default_transaction_isolation to 'read committed';
         set timezone to 'UTC';
         set lock_timeout to {lock_ms};
         set statement_timeout to {statement_ms};
         set idle_in_transaction_session_timeout to '15s';
         set tcp_keepalives_idle to 10;
         set tcp_keepalives_interval to 2;
         set tcp_keepalives_count to 3;
         set tcp_user_timeout to 15000;
         select set_config('client_connection_check_interval', '1s', false)
         where current_setting('client_connection_check_interval', true) is not null;
         select set_config('synchronous_commit', 'on', false)
         where current_setting('synchronous_commit') = 'off';",
        schema = quote(&settings.schema),
        lock_ms = settings.lock_timeout.as_millis(),
        statement_ms = settings.statement_timeout().as_millis(),
    )
}

/// Quotes a name as an SQL identifier.
pub fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[derive(Clone, Default)]
pub struct Caches {
    /// The positions at which claims start to search.
    pub bounds: Arc<Bounds>,
    /// The times at which searches for due rows start.
    pub glances: Arc<Glances>,
    /// The settled part of the log.
    pub log: Arc<SettledNumber>,
    /// The names that the process has learned.
    pub lineage: Arc<Lineage>,
    /// Keeps a program that is too old away from the schema.
    pub fence: Arc<Fence>,
    growth: Arc<Growth>,
}

impl Caches {
    /// Compares a new connection with what is cached, and drops what is cached about rows if it leads to another history.
    /// Returns the reason if the connection must not be used.
    async fn connected(&self, client: &mut Client) -> Result<Result<(), String>, tokio_postgres::Error> {
        self.fence.note(schema::read_version_of_store(client).await?);
        let is_other = self.lineage.is_other_server(client).await?;
        if is_other {
            self.forget_rows();
        }
        Ok(self.lineage.check(client).await?.map(|names_were_missing| {
            if names_were_missing {
                self.forget_rows();
            }
        }))
    }

    fn forget_rows(&self) {
        self.lineage.changed();
        self.bounds.forget();
        self.glances.forget();
        self.log.forget();
    }
}
