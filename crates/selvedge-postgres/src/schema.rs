//! The schema: numbered, append-only migrations, applied by whoever comes first.

use crate::connect::{failure, no_connection, quote};
use deadpool_postgres::Pool;
use selvedge_store::Error;
use tokio_postgres::{Config, NoTls};

/// A migration, and the oldest reader that understands the schema after it.
struct Migration {
    version: i32,
    minimum_reader: i32,
    sql: &'static str,
}

const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, minimum_reader: 1, sql: include_str!("migrations/0001_foundation.sql") },
    Migration { version: 2, minimum_reader: 2, sql: include_str!("migrations/0002_flows.sql") },
    Migration { version: 3, minimum_reader: 3, sql: include_str!("migrations/0003_log.sql") },
    Migration { version: 4, minimum_reader: 4, sql: include_str!("migrations/0004_streams.sql") },
    Migration { version: 5, minimum_reader: 5, sql: include_str!("migrations/0005_suspension.sql") },
    Migration { version: 6, minimum_reader: 6, sql: include_str!("migrations/0006_admission.sql") },
];

/// Of all Selvedge stores in a cluster: one migrates at a time.
const MIGRATION_LOCK: i64 = 0x5345_4c56_4544_4745;
/// The upper half of the key of the writers' lock; the lower is the schema's oid.
const WRITERS_LOCK: i64 = 0x5345_4c56;

/// Brings the schema up to date in one transaction; refuses one that is too new.
pub async fn migrate(config: &Config, schema: &str) -> Result<(), Error> {
    let (mut client, connection) = config.connect(NoTls).await.map_err(failure)?;
    let connection = tokio::spawn(connection);
    let result = async {
        let transaction = client.transaction().await.map_err(failure)?;
        transaction.execute("select pg_advisory_xact_lock($1)", &[&MIGRATION_LOCK]).await.map_err(failure)?;
        let known = transaction
            .query_opt("select 1 from pg_namespace where nspname = $1", &[&schema])
            .await
            .map_err(failure)?;
        let schema = quote(schema);
        if known.is_none() {
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
            .map_err(failure)?;
        let found = transaction
            .query_opt("select version, minimum_reader from schema_version", &[])
            .await
            .map_err(failure)?
            .map_or((0, 0), |row| (row.get::<_, i32>(0), row.get::<_, i32>(1)));
        let newest = MIGRATIONS.last().map_or(0, |migration| migration.version);
        if found.1 > newest {
            return Err(Error::SchemaTooNew { found: found.0, minimum: found.1, known: newest });
        }
        for migration in MIGRATIONS.iter().filter(|migration| migration.version > found.0) {
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
        transaction.commit().await.map_err(failure)
    }
    .await;
    drop(client);
    // The connection ends with its client.
    let _ = connection.await;
    result
}

/// The key of the advisory lock that writers of the log share: one per schema.
pub async fn writers_key(pool: &Pool) -> Result<i64, Error> {
    let client = pool.get().await.map_err(no_connection)?;
    let row = client
        .query_one("select oid::bigint from pg_namespace where nspname = current_schema()", &[])
        .await
        .map_err(failure)?;
    Ok((WRITERS_LOCK << 32) | row.get::<_, i64>(0))
}
