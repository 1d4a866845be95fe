//! The schema: numbered, append-only migrations that run when the file is opened.
//!
//! Each migration names the oldest program that can still use the file afterwards. A program that is not too old opens a
//! newer file and leaves its schema unchanged.

use crate::connection::failure::failure;
use crate::sql::statements;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior};
use selvedge_store::{Error, Migrated, SchemaVersion};

statements! {
    SCHEMA_CREATE = "schema/create";
    SCHEMA_READ = "schema/read";
    SCHEMA_UPSERT = "schema/upsert";
}

struct Migration {
    sql: &'static str,
    /// The oldest program that can use the file afterwards, named by the newest migration that it knows.
    minimum_reader: i32,
}

const MIGRATIONS: [Migration; 27] = [
    first(include_str!("../migrations/0001_names.sql")),
    first(include_str!("../migrations/0002_executions.sql")),
    first(include_str!("../migrations/0003_keys.sql")),
    first(include_str!("../migrations/0004_sessions.sql")),
    first(include_str!("../migrations/0005_log.sql")),
    flows(include_str!("../migrations/0006_wiring.sql")),
    flows(include_str!("../migrations/0007_flows.sql")),
    streams(include_str!("../migrations/0008_log_window.sql")),
    streams(include_str!("../migrations/0009_streams.sql")),
    suspension(include_str!("../migrations/0010_suspension.sql")),
    suspension(include_str!("../migrations/0011_records.sql")),
    admission(include_str!("../migrations/0012_admission.sql")),
    columns(include_str!("../migrations/0013_columns.sql")),
    lives(include_str!("../migrations/0014_lives.sql")),
    lives(include_str!("../migrations/0015_frames.sql")),
    lives(include_str!("../migrations/0016_namespaces.sql")),
    waitpoints(include_str!("../migrations/0017_waitpoints.sql")),
    pools(include_str!("../migrations/0018_large_tables.sql")),
    // A program that does not know API keys listens on loopback only, as without this migration.
    pools(include_str!("../migrations/0019_api_keys.sql")),
    pools(include_str!("../migrations/0020_rollups.sql")),
    pools(include_str!("../migrations/0021_bulk_jobs.sql")),
    // A program that does not know webhooks delivers nothing and leaves their rows alone.
    pools(include_str!("../migrations/0022_webhooks.sql")),
    // A program that does not know schedules leaves them to others.
    pools(include_str!("../migrations/0023_schedules.sql")),
    pools(include_str!("../migrations/0024_views.sql")),
    // A program that does not know the projection leaves it to others.
    pools(include_str!("../migrations/0025_projection.sql")),
    // An older program leaves waitpoints of ended executions open, which harms nobody but those who look at them.
    pools(include_str!("../migrations/0026_ended_waits.sql")),
    pools(include_str!("../migrations/0027_event_texts.sql")),
];

/// A migration for pools: a program that does not know them would insert executions that claims do not find.
const fn pools(sql: &'static str) -> Migration {
    Migration { sql, minimum_reader: 18 }
}

/// A migration of the first schema, which is usable only as a whole.
const fn first(sql: &'static str) -> Migration {
    Migration { sql, minimum_reader: 5 }
}

/// A migration for flows: a program that does not know them would not update their counts.
const fn flows(sql: &'static str) -> Migration {
    Migration { sql, minimum_reader: 7 }
}

/// A migration for streams and the window of the log: a program that does not know them would not delete streams, and
/// would take dropped entries for a gap.
const fn streams(sql: &'static str) -> Migration {
    Migration { sql, minimum_reader: 9 }
}

/// A migration for suspensions and records: a program that does not know them could not read suspended executions, and
/// would settle flows that have suspended members.
const fn suspension(sql: &'static str) -> Migration {
    Migration { sql, minimum_reader: 11 }
}

/// A migration for gates: a program that does not know them would exceed limits, could not read held executions, and
/// would settle flows that have held members.
const fn admission(sql: &'static str) -> Migration {
    Migration { sql, minimum_reader: 12 }
}

/// A migration that renames columns and moves the gate of a held execution to a column of its own: a program that does not know
/// them would find no column of the old names. Later migrations only add columns that such a program leaves empty.
const fn columns(sql: &'static str) -> Migration {
    Migration { sql, minimum_reader: 13 }
}

/// A migration for the lives of sessions: a program that does not know them would begin an ended session again.
const fn lives(sql: &'static str) -> Migration {
    Migration { sql, minimum_reader: 14 }
}

/// A migration for the signals and issues of waitpoints: a program that does not know them would accept a token that was
/// replaced by a new one.
const fn waitpoints(sql: &'static str) -> Migration {
    Migration { sql, minimum_reader: 17 }
}

/// The newest migration that this program knows.
const KNOWN: i32 = MIGRATIONS.len() as i32;

/// Returns the version of the file's schema, 0 for a new file. Fails if this program is too old for it. Writes nothing.
pub fn check(connection: &Connection) -> Result<i32, Error> {
    let (found, minimum) = version(connection)?;
    if minimum > KNOWN {
        return Err(Error::SchemaTooNew { found, minimum, known: KNOWN });
    }
    Ok(found)
}

/// Returns the version of the file's schema. Writes nothing.
pub fn read_version(connection: &Connection) -> Result<SchemaVersion, Error> {
    let (found, minimum_reader) = version(connection)?;
    Ok(SchemaVersion { found, minimum_reader, known: KNOWN })
}

/// Returns the version of a file that does not exist yet.
pub fn of_new_file() -> SchemaVersion {
    SchemaVersion { found: 0, minimum_reader: 0, known: KNOWN }
}

/// Runs the migrations that the file lacks, in one transaction.
pub fn migrate(connection: &mut Connection) -> Result<Migrated, Error> {
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failure)?;
    let found = check(&transaction)?;
    if found >= KNOWN {
        return Ok(Migrated { from: found, to: found });
    }
    if found == 0 {
        transaction.execute_batch(&SCHEMA_CREATE).map_err(failure)?;
    }
    for migration in MIGRATIONS.iter().skip(found as usize) {
        transaction.execute_batch(migration.sql).map_err(failure)?;
    }
    let minimum = MIGRATIONS.iter().map(|migration| migration.minimum_reader).max();
    transaction.execute(&SCHEMA_UPSERT, (KNOWN, minimum.unwrap_or(KNOWN))).map_err(failure)?;
    transaction.commit().map_err(failure)?;
    Ok(Migrated { from: found, to: KNOWN })
}

/// Returns the version of the file's schema and the oldest program that can use it; zeroes for a new file.
fn version(connection: &Connection) -> Result<(i32, i32), Error> {
    if connection.table_exists(None, "selvedge_schema").map_err(failure)? {
        let row = connection.query_row(&SCHEMA_READ, (), |row| Ok((row.get(0)?, row.get(1)?))).optional();
        return row
            .map_err(failure)?
            .ok_or_else(|| Error::Failed("selvedge_schema is empty; restore the file from a backup".into()));
    }
    let tables: i64 =
        connection.query_row("select count(*) from sqlite_schema", (), |row| row.get(0)).map_err(failure)?;
    match tables {
        0 => Ok((0, 0)),
        _ => Err(Error::BadAddress(
            "the file is a database of another program; name another path for the store".into(),
        )),
    }
}
