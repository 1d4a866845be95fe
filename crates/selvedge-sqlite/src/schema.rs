//! The schema: numbered migrations that are only ever appended, run when the file is opened.
//!
//! Each migration says which programs can still use the file after it. A program opens a newer file if it may, and leaves
//! its schema alone.

use crate::failure::failure;
use crate::sql;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior};
use selvedge_store::Error;

/// One migration, and the oldest program, by the newest migration it knows, that can use the file afterwards.
struct Migration {
    sql: &'static str,
    minimum_reader: i32,
}

const MIGRATIONS: [Migration; 12] = [
    first(include_str!("migrations/0001_names.sql")),
    first(include_str!("migrations/0002_executions.sql")),
    first(include_str!("migrations/0003_keys.sql")),
    first(include_str!("migrations/0004_sessions.sql")),
    first(include_str!("migrations/0005_log.sql")),
    flows(include_str!("migrations/0006_wiring.sql")),
    flows(include_str!("migrations/0007_flows.sql")),
    streams(include_str!("migrations/0008_log_window.sql")),
    streams(include_str!("migrations/0009_streams.sql")),
    suspension(include_str!("migrations/0010_suspension.sql")),
    suspension(include_str!("migrations/0011_records.sql")),
    admission(include_str!("migrations/0012_admission.sql")),
];

/// A migration of the first schema, which is of use only as a whole.
const fn first(sql: &'static str) -> Migration {
    Migration { sql, minimum_reader: 5 }
}

/// A migration for flows: a program that does not know them would leave their counts behind.
const fn flows(sql: &'static str) -> Migration {
    Migration { sql, minimum_reader: 7 }
}

/// A migration for streams and the log's window: a program that does not know them would leave streams behind, and take what
/// was dropped for what never was.
const fn streams(sql: &'static str) -> Migration {
    Migration { sql, minimum_reader: 9 }
}

/// A migration for suspensions and what is recorded: a program that does not know them would not understand what waits, and
/// end flows whose members do.
const fn suspension(sql: &'static str) -> Migration {
    Migration { sql, minimum_reader: 11 }
}

/// A migration for gates: a program that does not know them would claim past them, not understand what they hold, and end
/// flows whose members are held.
const fn admission(sql: &'static str) -> Migration {
    Migration { sql, minimum_reader: 12 }
}

/// The newest version that this program knows.
const KNOWN: i32 = MIGRATIONS.len() as i32;

/// The version of the file's schema, zero for a new file; or why this program may not use the file. Writes nothing.
pub fn check(connection: &Connection) -> Result<i32, Error> {
    let (found, minimum) = version(connection)?;
    match minimum > KNOWN {
        false => Ok(found),
        true => Err(Error::SchemaTooNew { found, minimum, known: KNOWN }),
    }
}

/// Brings the file's schema up to date, in one transaction.
pub fn migrate(connection: &mut Connection) -> Result<(), Error> {
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failure)?;
    let found = check(&transaction)?;
    if found >= KNOWN {
        return Ok(());
    }
    if found == 0 {
        transaction.execute_batch(&sql::SCHEMA_CREATE).map_err(failure)?;
    }
    for migration in MIGRATIONS.iter().skip(found as usize) {
        transaction.execute_batch(migration.sql).map_err(failure)?;
    }
    let minimum = MIGRATIONS.iter().map(|migration| migration.minimum_reader).max();
    transaction.execute(&sql::SCHEMA_WRITE, (KNOWN, minimum.unwrap_or(KNOWN))).map_err(failure)?;
    transaction.commit().map_err(failure)
}

/// The file's version and the oldest program that can use it; zeroes for a new file.
fn version(connection: &Connection) -> Result<(i32, i32), Error> {
    if connection.table_exists(None, "selvedge_schema").map_err(failure)? {
        let row =
            connection.query_row(&sql::SCHEMA_READ, (), |row| Ok((row.get(0)?, row.get(1)?))).optional();
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
