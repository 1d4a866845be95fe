//! The schema: numbered, append-only migrations, run by the first server that opens the store.

use super::pooler::open_checked;
use super::{Connections, Endpoint, Settings, StatementError, failure, quote};
use selvedge_store::{Error, Migrated, SchemaVersion};
use std::future::Future;
use std::time::Duration;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, SimpleQueryMessage, SimpleQueryRow, Transaction};

struct Migration {
    version: i32,
    /// The oldest program that can use the schema afterwards, named by the newest migration that it knows.
    minimum_reader: i32,
    sql: &'static str,
}

const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, minimum_reader: 1, sql: include_str!("../migrations/0001_foundation.sql") },
    Migration { version: 2, minimum_reader: 2, sql: include_str!("../migrations/0002_flows.sql") },
    Migration { version: 3, minimum_reader: 3, sql: include_str!("../migrations/0003_log.sql") },
    Migration { version: 4, minimum_reader: 4, sql: include_str!("../migrations/0004_streams.sql") },
    Migration { version: 5, minimum_reader: 5, sql: include_str!("../migrations/0005_suspension.sql") },
    Migration { version: 6, minimum_reader: 6, sql: include_str!("../migrations/0006_admission.sql") },
    Migration { version: 7, minimum_reader: 7, sql: include_str!("../migrations/0007_columns.sql") },
    // A program that does not know the lives of sessions would begin an ended one again.
    Migration { version: 8, minimum_reader: 8, sql: include_str!("../migrations/0008_lives.sql") },
    Migration { version: 9, minimum_reader: 8, sql: include_str!("../migrations/0009_frames.sql") },
    Migration { version: 10, minimum_reader: 8, sql: include_str!("../migrations/0010_namespaces.sql") },
    // A program that does not know the issues of waitpoints would accept a token that was replaced by a new one.
    Migration { version: 11, minimum_reader: 11, sql: include_str!("../migrations/0011_waitpoints.sql") },
    // A program that does not know pools would insert executions that claims do not find.
    Migration { version: 12, minimum_reader: 12, sql: include_str!("../migrations/0012_large_tables.sql") },
    // A program that does not know API keys listens on loopback only, as without this migration.
    Migration { version: 13, minimum_reader: 12, sql: include_str!("../migrations/0013_api_keys.sql") },
    Migration { version: 14, minimum_reader: 12, sql: include_str!("../migrations/0014_rollups.sql") },
    Migration { version: 15, minimum_reader: 12, sql: include_str!("../migrations/0015_bulk_jobs.sql") },
    // A program that does not know webhooks delivers nothing and leaves their rows alone.
    Migration { version: 16, minimum_reader: 12, sql: include_str!("../migrations/0016_webhooks.sql") },
    // A program that does not know schedules leaves them to others.
    Migration { version: 17, minimum_reader: 12, sql: include_str!("../migrations/0017_schedules.sql") },
    // A program that does not know the inbox leaves its rows to those that do.
    Migration { version: 18, minimum_reader: 12, sql: include_str!("../migrations/0018_inbox.sql") },
    Migration { version: 19, minimum_reader: 12, sql: include_str!("../migrations/0019_views.sql") },
    // A program that does not know the projection leaves it to others.
    Migration { version: 20, minimum_reader: 12, sql: include_str!("../migrations/0020_projection.sql") },
    // An older program leaves waitpoints of ended executions open, which harms nobody but those who look at them.
    Migration { version: 21, minimum_reader: 12, sql: include_str!("../migrations/0021_ended_waits.sql") },
    // An older program may write U+0000 into data of events again, which fails queries that convert it to jsonb.
    Migration { version: 22, minimum_reader: 12, sql: include_str!("../migrations/0022_event_texts.sql") },
    // A program that does not know the time of the store follows the clock, which is the same unless the clock has stepped back.
    Migration { version: 23, minimum_reader: 12, sql: include_str!("../migrations/0023_store_clock.sql") },
];

/// The key of the advisory lock under which one server at a time migrates, for all Selvedge schemas of a database.
const MIGRATION_LOCK: i64 = 0x5345_4c56_4544_4745;
/// The upper half of the key of the writers' lock. The lower half is the oid of the schema.
const WRITERS_LOCK: i64 = 0x5345_4c56;

/// The limits of the database and the role that must not end a migration, which may take long or wait for another server.
const PREPARE: &str = "
    set idle_in_transaction_session_timeout to 0;
    set statement_timeout to 0;
    select set_config('transaction_timeout', '0', false)
    where current_setting('transaction_timeout', true) is not null;
";

/// The pause between two attempts to take the lock for migrations.
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// Runs the migrations that a schema lacks, in one transaction. Fails if this program is too old for the schema, or if the
/// address leads to a pooler in transaction mode.
///
/// Every step has a deadline, except the wait for another server that migrates, and the migrations themselves.
pub async fn migrate(endpoint: &Endpoint, settings: &Settings) -> Result<Migrated, Error> {
    let (mut client, connection) = open_checked(endpoint, settings).await?;
    let result = async {
        in_time(settings, client.batch_execute(PREPARE)).await?;
        let transaction = in_time(settings, client.transaction()).await?;
        take_lock(&transaction, settings).await?;
        in_time(settings, create(&transaction, &settings.schema)).await?;
        let migrated = run_missing(&transaction, settings).await?;
        in_time(settings, transaction.commit()).await?;
        Ok(migrated)
    }
    .await;
    // Closes the connection, also if it is silent.
    connection.abort();
    let _ = connection.await;
    result
}

/// Waits for a step, up to the deadline.
async fn in_time<T>(
    settings: &Settings,
    step: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, Error> {
    let limit = settings.answer_timeout();
    let answer = timeout(limit, step).await.map_err(|_elapsed| failure(StatementError::Silent(limit)))?;
    answer.map_err(|error| refusal(settings, error))
}

/// Returns the error of a migration that the database refused, with the remedy if an administrator has one.
fn refusal(settings: &Settings, error: tokio_postgres::Error) -> Error {
    let schema = quote(&settings.schema);
    let remedy = match error.code() {
        Some(&SqlState::READ_ONLY_SQL_TRANSACTION) => {
            "the database accepts no writes: name the primary if this is a standby, else run: alter database NAME set \
             default_transaction_read_only = off (or alter role, if the role has the setting)"
                .to_owned()
        }
        Some(&SqlState::INSUFFICIENT_PRIVILEGE) => format!(
            "the role must be able to create the schema {schema}, or own it with all of its tables: as an administrator run \
             create schema {schema} authorization ROLE, or grant create on database NAME to ROLE"
        ),
        Some(&SqlState::UNTRANSLATABLE_CHARACTER) => {
            "the encoding of the database lacks characters that Selvedge stores: create the database with: create database NAME \
             encoding 'UTF8' template template0"
                .to_owned()
        }
        _ => return failure(error),
    };
    Error::BadAddress(format!("{}; {remedy}", StatementError::from(error)))
}

/// Takes the lock for migrations. Asks again and again, so that a silent connection is noticed while another server has
/// the lock.
async fn take_lock(transaction: &Transaction<'_>, settings: &Settings) -> Result<(), Error> {
    let text = "select pg_try_advisory_xact_lock($1)";
    while !in_time(settings, transaction.query_one(text, &[&MIGRATION_LOCK])).await?.get::<_, bool>(0) {
        tokio::time::sleep(LOCK_PAUSE).await;
    }
    Ok(())
}

/// Creates the schema and the table of its version if they do not exist.
async fn create(transaction: &Transaction<'_>, schema: &str) -> Result<(), tokio_postgres::Error> {
    let exists = transaction.query_opt("select 1 from pg_namespace where nspname = $1", &[&schema]).await?;
    let schema = quote(schema);
    if exists.is_none() {
        transaction.batch_execute(&format!("create schema {schema}")).await?;
    }
    transaction
        .batch_execute(&format!(
            "set local search_path to {schema}, pg_catalog;
             create table if not exists schema_version (
               version integer not null,
               minimum_reader integer not null
             );"
        ))
        .await
}

async fn run_missing(transaction: &Transaction<'_>, settings: &Settings) -> Result<Migrated, Error> {
    let version = in_time(settings, read_version(transaction.client())).await?;
    let SchemaVersion { found, minimum_reader: minimum, known } = version;
    if version.is_too_new() {
        return Err(Error::SchemaTooNew { found, minimum, known });
    }
    for migration in MIGRATIONS.iter().filter(|migration| migration.version > found) {
        let refused = |error| refusal(settings, error);
        transaction.batch_execute(migration.sql).await.map_err(refused)?;
        transaction.execute("delete from schema_version", &[]).await.map_err(refused)?;
        transaction
            .execute(
                "insert into schema_version (version, minimum_reader) values ($1, $2)",
                &[&migration.version, &migration.minimum_reader],
            )
            .await
            .map_err(refused)?;
    }
    Ok(Migrated { from: found, to: found.max(known) })
}

/// Returns the version of the schema in the search path. Changes nothing.
pub async fn read_version(client: &Client) -> Result<SchemaVersion, tokio_postgres::Error> {
    let known = MIGRATIONS.last().map_or(0, |migration| migration.version);
    let exists = client.query_one("select to_regclass('schema_version') is not null", &[]).await?;
    let row = match exists.get(0) {
        true => client.query_opt("select version, minimum_reader from schema_version", &[]).await?,
        false => None,
    };
    let (found, minimum_reader) = row.map_or((0, 0), |row| (row.get(0), row.get(1)));
    Ok(SchemaVersion { found, minimum_reader, known })
}

/// Returns the version of the schema of a store that is open, in one round trip.
pub async fn read_version_of_store(client: &Client) -> Result<SchemaVersion, tokio_postgres::Error> {
    let known = MIGRATIONS.last().map_or(0, |migration| migration.version);
    let messages = client.simple_query("select version, minimum_reader from schema_version").await?;
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let number =
        |row: &SimpleQueryRow, column| row.get(column).and_then(|text| text.parse().ok()).unwrap_or(0);
    let (found, minimum_reader) = rows.map(|row| (number(row, 0), number(row, 1))).next().unwrap_or_default();
    Ok(SchemaVersion { found, minimum_reader, known })
}

/// Returns the key of the advisory lock that the writers of a schema share.
pub async fn writers_key(connections: &Connections) -> Result<i64, Error> {
    let client = connections.get().await?;
    let text = "select oid::bigint from pg_namespace where nspname = current_schema()";
    let statement = client.prepare_cached(text).await.map_err(failure)?;
    let row = client.query_one(&statement, &[]).await.map_err(failure)?;
    Ok((WRITERS_LOCK << 32) | row.get::<_, i64>(0))
}
