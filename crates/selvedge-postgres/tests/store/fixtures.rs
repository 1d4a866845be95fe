//! The Postgres schemas of earlier builds: every row is readable and written back with the same bytes, and every kind of
//! row is present.

use selvedge_conformance::complete;
use selvedge_conformance::copy::{Names, Tables, assert_same, check_log, copy, rewrite};
use selvedge_conformance::fixtures::{SCHEMA, all, newest};
use selvedge_core::gate::GateId;
use selvedge_core::rows::{KeyName, KeyScope};
use selvedge_core::{Name, NamespaceId};
use selvedge_system_tests::database::Database;
use tokio_postgres::Client;

/// Tables that are not compared row by row.
const NOT_COPIED: [&str; 3] = [
    // Number and time of an entry are those of its commit. The bodies are compared separately.
    "log",
    // The priorities that waiting executions of a class have had. No reader shows them, and a copy has only the current
    // ones.
    "class_priorities",
    // The clock of the database when the migration ran.
    "store_clock",
];

#[tokio::test]
async fn every_row_of_the_fixtures_is_written_back_with_the_same_bytes() {
    for fixture in all() {
        let (stored, written) = (Database::restore(&fixture).await, Database::create().await);
        let from = stored.store().await;
        let before = stored.plain().await;
        let names = names(&before).await;
        assert!(check_log(&*from).await > 0);
        let to = written.store().await;
        copy(&*from, &*to, &names).await;
        let after = written.plain().await;
        assert_same(&tables(&before).await, &tables(&after).await);
        rewrite(&*to, &names).await;
        assert_same(&tables(&before).await, &tables(&after).await);
    }
}

#[tokio::test]
async fn the_newest_fixture_has_every_kind_of_row() {
    let database = Database::restore(&newest()).await;
    let store = database.store().await;
    let plain = database.plain().await;
    complete::check(&*store, &names(&plain).await).await;
    is_filled(&plain).await;
}

#[tokio::test]
async fn every_table_that_a_build_wrote_has_a_row_in_its_fixture() {
    for fixture in all() {
        let database = Database::restore(&fixture).await;
        is_filled(&database.plain().await).await;
    }
}

/// Asserts that each table has a row. Every table can have one, but rollups are older than their window in any fixture, and
/// the inbox is written by users. The projection is made from the log by servers that are told to.
async fn is_filled(plain: &Client) {
    let empty = ["rollups", "inbox", "inbox_rights", "projected_events", "projected_attempts"];
    for table in table_names(plain).await.into_iter().filter(|table| !empty.contains(&table.as_str())) {
        let row =
            plain.query_one(&format!("select count(*) from {table}"), &[]).await.expect("rows are counted");
        assert!(row.get::<_, i64>(0) > 0, "{table} is empty");
    }
}

/// Returns the names of all tables; partitions count as part of their table.
async fn table_names(plain: &Client) -> Vec<String> {
    let text = "select relname::text from pg_class where relnamespace = $1::text::regnamespace \
                and relkind in ('r', 'p') and not relispartition order by relname";
    let rows = plain.query(text, &[&SCHEMA]).await.expect("the tables are listed");
    rows.iter().map(|row| row.get(0)).collect()
}

/// Returns the names of all keys and gates.
async fn names(plain: &Client) -> Names {
    let keys = plain.query("select namespace, scope, key from keys", &[]).await.expect("keys are read");
    let key = |row: &tokio_postgres::Row| KeyName {
        namespace: NamespaceId(row.get(0)),
        scope: KeyScope::from_code(row.get(1)).expect("the scope is known"),
        key: Name::trusted(row.get(2)),
    };
    let gates = plain.query("select id from gates order by id", &[]).await.expect("gates are read");
    Names {
        keys: keys.iter().map(key).collect(),
        gates: gates.iter().map(|row| GateId(row.get(0))).collect(),
    }
}

/// Returns the rows of all tables, each as text that contains every byte.
async fn tables(plain: &Client) -> Tables {
    let mut tables = Tables::new();
    for table in table_names(plain).await {
        if NOT_COPIED.contains(&table.as_str()) {
            continue;
        }
        // Old best-effort frames are not readable, so they cannot be copied.
        let condition = if table == "frames" { "where not best_effort" } else { "" };
        // The use of a class is recorded at the time of the copy.
        let left_out = if table == "classes" { "used_at" } else { "" };
        let text = format!("select (to_jsonb(t) - '{left_out}')::text from {table} t {condition} order by 1");
        let rows = plain.query(&text, &[]).await.expect("rows are read");
        tables.insert(table, rows.iter().map(|row| row.get(0)).collect());
    }
    tables
}
