//! The SQLite files of earlier builds: every row is readable and written back with the same bytes, and every kind of row
//! is present.

use crate::support::Directory;
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags};
use selvedge_conformance::complete;
use selvedge_conformance::copy::{Names, Tables, assert_same, check_log, copy, rewrite};
use selvedge_conformance::fixtures::{Fixture, all, newest};
use selvedge_core::gate::GateId;
use selvedge_core::rows::{KeyName, KeyScope};
use selvedge_core::{Name, NamespaceId};
use selvedge_sqlite::SqliteStore;

/// Columns that are not copied: rowids, to which no other row refers, and the time at which a class was used.
const GIVEN_OUT: [(&str, &str); 4] =
    [("executions", "place"), ("flows", "place"), ("ledger", "place"), ("classes", "used_at")];

#[tokio::test]
async fn every_row_of_the_fixtures_is_written_back_with_the_same_bytes() {
    for fixture in all() {
        let (stored, written) = (copy_of(&fixture), Directory::new());
        let from = open(&stored).await;
        let names = names(&read_only(&stored));
        assert!(check_log(&from).await > 0);
        let to = open(&written).await;
        copy(&from, &to, &names).await;
        assert_same(&tables(&read_only(&stored)), &tables(&read_only(&written)));
        rewrite(&to, &names).await;
        assert_same(&tables(&read_only(&stored)), &tables(&read_only(&written)));
    }
}

#[tokio::test]
async fn the_newest_fixture_has_every_kind_of_row() {
    let directory = copy_of(&newest());
    let store = open(&directory).await;
    let connection = read_only(&directory);
    complete::check(&store, &names(&connection)).await;
    is_filled(&connection);
}

#[test]
fn every_table_that_a_build_wrote_has_a_row_in_its_fixture() {
    for fixture in all() {
        is_filled(&read_only(&copy_of(&fixture)));
    }
}

/// Asserts that each table has a row. Every table can have one, but rollups are older than their window in any fixture, the
/// projection is made from the log by servers that are told to, and only early builds keep the secret in the file.
fn is_filled(connection: &Connection) {
    let empty = ["rollups", "projected_events", "projected_attempts", "kept_secret"];
    for table in table_names(connection).into_iter().filter(|table| !empty.contains(&table.as_str())) {
        let count: i64 = connection
            .query_row(&format!("select count(*) from {table}"), (), |row| row.get(0))
            .expect("rows are counted");
        assert!(count > 0, "{table} is empty");
    }
}

/// Returns a directory with a copy of the file of a fixture.
fn copy_of(fixture: &Fixture) -> Directory {
    let directory = Directory::new();
    std::fs::copy(fixture.path("sqlite.db"), directory.database()).expect("the file is copied");
    directory
}

async fn open(directory: &Directory) -> SqliteStore {
    SqliteStore::open(&directory.database()).await.expect("the store opens")
}

/// Opens a read-only connection to the file.
fn read_only(directory: &Directory) -> Connection {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    Connection::open_with_flags(directory.database(), flags).expect("the file opens")
}

fn table_names(connection: &Connection) -> Vec<String> {
    let text =
        "select name from sqlite_schema where type = 'table' and name not like 'sqlite_%' order by name";
    let mut statement = connection.prepare(text).expect("the statement is valid");
    let names = statement.query_map((), |row| row.get(0)).expect("the statement runs");
    names.collect::<Result<_, _>>().expect("the names are read")
}

/// Returns the names of all keys and gates.
fn names(connection: &Connection) -> Names {
    let mut statement =
        connection.prepare("select namespace, scope, key from keys").expect("the statement is valid");
    let keys = statement.query_map((), |row| {
        let key: String = row.get(2)?;
        let scope = KeyScope::from_code(row.get(1)?).expect("the scope is known");
        Ok(KeyName { namespace: NamespaceId(row.get(0)?), scope, key: Name::trusted(&key) })
    });
    let keys = keys.expect("the statement runs").collect::<Result<_, _>>().expect("keys are read");
    let mut statement =
        connection.prepare("select id from gates order by id").expect("the statement is valid");
    let gates = statement.query_map((), |row| row.get(0).map(GateId)).expect("the statement runs");
    Names { keys, gates: gates.collect::<Result<_, _>>().expect("gates are read") }
}

/// Returns the rows of all tables, each as text that contains every type and byte.
fn tables(connection: &Connection) -> Tables {
    // Number and time of an entry are those of its commit. The bodies are compared separately. The copy keeps the secret beside
    // the file.
    let compared =
        table_names(connection).into_iter().filter(|table| table != "log" && table != "kept_secret");
    compared.map(|table| (table.clone(), rows(connection, &table))).collect()
}

fn rows(connection: &Connection, table: &str) -> Vec<String> {
    // Old best-effort frames are not readable, so they cannot be copied.
    let condition = if table == "frames" { "where best_effort = 0" } else { "" };
    let text = format!("select * from {table} {condition}");
    let mut statement = connection.prepare(&text).expect("the statement is valid");
    let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let rows = statement.query_map((), |row| {
        let mut fields = Vec::new();
        for (place, column) in columns.iter().enumerate() {
            if !GIVEN_OUT.contains(&(table, column.as_str())) {
                fields.push(format!("{column}: {:?}", row.get::<_, Value>(place)?));
            }
        }
        Ok(fields.join(", "))
    });
    let mut rows: Vec<String> =
        rows.expect("the statement runs").collect::<Result<_, _>>().expect("the rows are read");
    rows.sort();
    rows
}
