//! The SQLite files of earlier builds: every row is understood and written back with the same bytes, and no kind of row is
//! missing.

mod support;

use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags};
use selvedge_conformance::complete;
use selvedge_conformance::copy::{Names, Tables, assert_same, check_log, copy, rewrite};
use selvedge_conformance::fixtures::{Fixture, all, newest};
use selvedge_core::gate::GateId;
use selvedge_core::rows::{KeyName, KeyScope};
use selvedge_core::{Name, NamespaceId};
use selvedge_sqlite::SqliteStore;
use support::Directory;

/// Columns that are not copied: a number that the file gives out for each row, by which nothing refers to it.
const GIVEN_OUT: [(&str, &str); 3] = [("executions", "place"), ("flows", "place"), ("ledger", "place")];

#[tokio::test]
async fn every_row_of_the_fixtures_is_written_back_with_the_same_bytes() {
    for fixture in all() {
        let (stored, written) = (of(&fixture), Directory::new());
        let from = open(&stored).await;
        let names = names(&beside(&stored));
        assert!(check_log(&from).await > 0);
        let to = open(&written).await;
        copy(&from, &to, &names).await;
        assert_same(&tables(&beside(&stored)), &tables(&beside(&written)));
        rewrite(&to, &names).await;
        assert_same(&tables(&beside(&stored)), &tables(&beside(&written)));
    }
}

#[tokio::test]
async fn the_newest_fixture_has_every_kind_of_row() {
    let directory = of(&newest());
    let store = open(&directory).await;
    let connection = beside(&directory);
    complete::check(&store, &names(&connection)).await;
    is_filled(&connection);
}

#[test]
fn every_table_that_a_build_wrote_has_a_row_in_its_fixture() {
    for fixture in all() {
        is_filled(&beside(&of(&fixture)));
    }
}

/// Asserts that each table has a row. There is none that cannot have one.
fn is_filled(connection: &Connection) {
    for table in table_names(connection) {
        let count: i64 = connection
            .query_row(&format!("select count(*) from {table}"), (), |row| row.get(0))
            .expect("rows are counted");
        assert!(count > 0, "{table} is empty");
    }
}

/// A directory with a copy of the file of a fixture.
fn of(fixture: &Fixture) -> Directory {
    let directory = Directory::new();
    std::fs::copy(fixture.path("sqlite.db"), directory.database()).expect("the file is copied");
    directory
}

async fn open(directory: &Directory) -> SqliteStore {
    SqliteStore::open(&directory.database()).await.expect("the store opens")
}

/// Another connection to the file, which only reads.
fn beside(directory: &Directory) -> Connection {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    Connection::open_with_flags(directory.database(), flags).expect("the file opens")
}

fn table_names(connection: &Connection) -> Vec<String> {
    let text =
        "select name from sqlite_schema where type = 'table' and name not like 'sqlite_%' order by name";
    let mut statement = connection.prepare(text).expect("the statement is understood");
    let names = statement.query_map((), |row| row.get(0)).expect("the statement runs");
    names.collect::<Result<_, _>>().expect("the names are read")
}

/// The names of all keys and gates.
fn names(connection: &Connection) -> Names {
    let mut statement =
        connection.prepare("select namespace, scope, key from keys").expect("it is understood");
    let keys = statement.query_map((), |row| {
        let key: String = row.get(2)?;
        let scope = KeyScope::from_code(row.get(1)?).expect("the scope is known");
        Ok(KeyName { namespace: NamespaceId(row.get(0)?), scope, key: Name::trusted(&key) })
    });
    let keys = keys.expect("it runs").collect::<Result<_, _>>().expect("keys are read");
    let mut statement = connection.prepare("select id from gates order by id").expect("it is understood");
    let gates = statement.query_map((), |row| row.get(0).map(GateId)).expect("it runs");
    Names { keys, gates: gates.collect::<Result<_, _>>().expect("gates are read") }
}

/// The rows of all tables, each as text that tells every type and byte.
fn tables(connection: &Connection) -> Tables {
    // The number and the time of an entry are those of its commit; its body is compared on its own.
    let compared = table_names(connection).into_iter().filter(|table| table != "log");
    compared.map(|table| (table.clone(), rows(connection, &table))).collect()
}

fn rows(connection: &Connection, table: &str) -> Vec<String> {
    // Best-effort frames are not read when they are old, so they cannot be copied.
    let condition = if table == "frames" { "where best_effort = 0" } else { "" };
    let text = format!("select * from {table} {condition}");
    let mut statement = connection.prepare(&text).expect("the statement is understood");
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
    let mut rows: Vec<String> = rows.expect("the statement runs").collect::<Result<_, _>>().expect("rows");
    rows.sort();
    rows
}
