//! The schema: numbered, append-only migrations, run by the first server that opens the store.

use super::{failure, no_connection, quote};
use deadpool_postgres::Pool;
use selvedge_store::Error;
use tokio_postgres::{Config, NoTls, Transaction};

/// A migration.
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
];

/// The key of the advisory lock under which one server at a time migrates, for all Selvedge schemas of a database.
const MIGRATION_LOCK: i64 = 0x5345_4c56_4544_4745;
/// The upper half of the key of the writers' lock. The lower half is the oid of the schema.
const WRITERS_LOCK: i64 = 0x5345_4c56;

/// Runs the migrations that a schema lacks, in one transaction. Fails if this program is too old for the schema.
pub async fn migrate(config: &Config, schema: &str) -> Result<(), Error> {
    let (mut client, connection) = config.connect(NoTls).await.map_err(failure)?;
    let connection = tokio::spawn(connection);
    let result = async {
        let transaction = client.transaction().await.map_err(failure)?;
        create(&transaction, schema).await?;
        run_missing(&transaction).await?;
        transaction.commit().await.map_err(failure)
    }
    .await;
    drop(client);
    // The connection ends when its client is dropped.
    let _ = connection.await;
    result
}

/// Takes the lock for migrations, and creates the schema and the table of its version if they do not exist.
async fn create(transaction: &Transaction<'_>, schema: &str) -> Result<(), Error> {
    transaction.execute("select pg_advisory_xact_lock($1)", &[&MIGRATION_LOCK]).await.map_err(failure)?;
    let exists = transaction
        .query_opt("select 1 from pg_namespace where nspname = $1", &[&schema])
        .await
        .map_err(failure)?;
    let schema = quote(schema);
    if exists.is_none() {
        transaction.batch_execute(&format!("create schema {schema}")).await.map_err(failure)?;
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
        .map_err(failure)
}

async fn run_missing(transaction: &Transaction<'_>) -> Result<(), Error> {
    let row = transaction
        .query_opt("select version, minimum_reader from schema_version", &[])
        .await
        .map_err(failure)?;
    let (found, minimum): (i32, i32) = row.map_or((0, 0), |row| (row.get(0), row.get(1)));
    let known = MIGRATIONS.last().map_or(0, |migration| migration.version);
    if minimum > known {
        return Err(Error::SchemaTooNew { found, minimum, known });
    }
    for migration in MIGRATIONS.iter().filter(|migration| migration.version > found) {
        transaction.batch_execute(migration.sql).await.map_err(failure)?;
        transaction.execute("delete from schema_version", &[]).await.map_err(failure)?;
        transaction
            .execute(
                "insert into schema_version (version, minimum_reader) values ($1, $2)",
                &[&migration.version, &migration.minimum_reader],
            )
            .await
            .map_err(failure)?;
    }
    Ok(())
}

/// Returns the key of the advisory lock that the writers of a schema share.
pub async fn writers_key(pool: &Pool) -> Result<i64, Error> {
    let client = pool.get().await.map_err(no_connection)?;
    let row = client
        .query_one("select oid::bigint from pg_namespace where nspname = current_schema()", &[])
        .await
        .map_err(failure)?;
    Ok((WRITERS_LOCK << 32) | row.get::<_, i64>(0))
}
