//! The examination of a file from outside: beside its owner, without one, and with each fault that can be made.

use crate::support::{Directory, plain_connection};
use selvedge_sqlite::SqliteStore;
use selvedge_sqlite::diagnosis::{Limits, diagnose, schema_version};
use selvedge_store::{Finding, Level, Migrated, SchemaVersion, Transactions};
use std::collections::BTreeSet;
use std::fs::{OpenOptions, Permissions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

/// The version of the schema that this build knows.
const KNOWN: i32 = 27;

/// Limits that do not depend on the disk of the machine.
fn limits() -> Limits {
    Limits { free_bytes: 0, ..Limits::default() }
}

async fn examine(directory: &Directory) -> Vec<Finding> {
    diagnose(&directory.database(), &limits()).await
}

/// Creates a store and closes it. Only its owner can read the file.
async fn create(directory: &Directory) {
    let store = SqliteStore::open(&directory.database()).await.expect("the store opens");
    store.close().await;
    std::fs::set_permissions(directory.database(), Permissions::from_mode(0o600)).expect("the mode is set");
}

/// Returns the highest level of a check.
fn level(findings: &[Finding], check: &str) -> Level {
    let of_check = findings.iter().filter(|finding| finding.check == check);
    of_check.map(|finding| finding.level).max().unwrap_or_else(|| panic!("{check} is not in {findings:?}"))
}

/// Asserts that a check has a finding of a level whose message and remedy contain texts.
fn assert_found(findings: &[Finding], check: &str, expected: Level, message: &str, remedy: &str) {
    let is_expected = |finding: &Finding| {
        finding.check == check
            && finding.level == expected
            && finding.message.contains(message)
            && finding.remedy.clone().unwrap_or_default().contains(remedy)
    };
    assert!(findings.iter().any(is_expected), "{message:?}, {remedy:?}: {findings:#?}");
}

fn files(directory: &Directory) -> BTreeSet<String> {
    let files = std::fs::read_dir(directory.path("")).expect("the directory is read");
    files.map(|file| file.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
}

#[tokio::test]
async fn a_closed_file_has_no_findings_and_nothing_is_created_beside_it() {
    let directory = Directory::new();
    create(&directory).await;
    let before = files(&directory);
    let findings = examine(&directory).await;
    assert!(findings.iter().all(|finding| finding.level == Level::Ok), "{findings:#?}");
    assert_found(&findings, "owner", Level::Ok, "no server has the file open", "");
    assert_eq!(files(&directory), before);
}

#[tokio::test]
async fn an_open_file_is_examined_beside_its_owner_who_goes_on_writing() {
    let directory = Directory::new();
    let store = SqliteStore::open(&directory.database()).await.expect("the store opens");
    store.set_address("http://127.0.0.1:7878");
    store.ping().await.expect("the store writes");
    let findings = examine(&directory).await;
    let owner = format!("process {} serves the file at http://127.0.0.1:7878", std::process::id());
    assert_found(&findings, "owner", Level::Ok, &owner, "");
    assert_eq!(level(&findings, "damage"), Level::Ok, "{findings:#?}");
    store.ping().await.expect("the store still writes");
    store.close().await;
}

#[tokio::test]
async fn a_missing_file_a_foreign_file_and_a_path_without_a_directory_are_errors() {
    let directory = Directory::new();
    assert_found(&examine(&directory).await, "file", Level::Error, "No such file", "selvedge serve");
    let findings = diagnose(&directory.path("none/selvedge.db"), &limits()).await;
    assert_found(&findings, "file", Level::Error, "does not exist", "--store");
    std::fs::write(directory.database(), "This is a text.".repeat(1000)).expect("the file is written");
    assert_found(&examine(&directory).await, "file", Level::Error, "not a database", "--store");
    std::fs::remove_file(directory.database()).expect("the file is deleted");
    plain_connection(&directory)
        .execute_batch("create table foreign_table (n integer)")
        .expect("a table is made");
    assert_found(&examine(&directory).await, "file", Level::Error, "another program", "--store");
}

#[tokio::test]
async fn a_damaged_file_is_found() {
    let directory = Directory::new();
    create(&directory).await;
    let length = std::fs::metadata(directory.database()).expect("the file exists").len();
    let mut file = OpenOptions::new().write(true).open(directory.database()).expect("the file opens");
    // All pages but the first two, which the schema needs.
    file.seek(SeekFrom::Start(2 * 4096)).expect("the position is set");
    file.write_all(&vec![0xA5; (length - 2 * 4096) as usize]).expect("the pages are overwritten");
    drop(file);
    assert_found(&examine(&directory).await, "damage", Level::Error, "damaged", "backup");
}

#[tokio::test]
async fn a_search_that_is_stopped_says_so() {
    let directory = Directory::new();
    create(&directory).await;
    let rows = "with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < 100000)
        insert into log (at, body) select n, x'00' from numbers";
    plain_connection(&directory).execute_batch(rows).expect("the rows are inserted");
    let limits = Limits { search_time: Duration::ZERO, ..limits() };
    let findings = diagnose(&directory.database(), &limits).await;
    assert_found(&findings, "damage", Level::Notice, "within 0 s", "quick_check");
}

#[tokio::test]
async fn a_large_log_and_a_full_disk_are_found() {
    let directory = Directory::new();
    let store = SqliteStore::open(&directory.database()).await.expect("the store opens");
    // A reader keeps the log from being reused while it grows.
    let reader = plain_connection(&directory);
    reader.execute_batch("begin; select * from namespaces").expect("the reader begins");
    store.ping().await.expect("the store writes");
    let log = std::fs::metadata(directory.path("selvedge.db-wal")).expect("the log exists").len();
    let findings = diagnose(&directory.database(), &Limits { log_bytes: log, ..limits() }).await;
    assert_found(&findings, "log_size", Level::Warning, "write-ahead log", "fuser");
    assert_eq!(level(&examine(&directory).await, "log_size"), Level::Ok);
    for (free_bytes, expected) in [(u64::MAX, Level::Error), (0, Level::Ok)] {
        let findings = diagnose(&directory.database(), &Limits { free_bytes, ..limits() }).await;
        assert_eq!(level(&findings, "disk"), expected, "{findings:#?}");
    }
    drop(reader);
    store.close().await;
}

#[tokio::test]
async fn a_file_that_everyone_can_read_is_a_notice() {
    let directory = Directory::new();
    create(&directory).await;
    std::fs::set_permissions(directory.database(), Permissions::from_mode(0o644)).expect("the mode is set");
    assert_found(&examine(&directory).await, "permissions", Level::Warning, "other users", "chmod 0600");
}

#[tokio::test]
async fn the_version_of_the_schema_is_compared_and_a_migration_returns_both_versions() {
    let directory = Directory::new();
    let path = directory.database();
    let version = async || schema_version(&path).await.expect("the version is read");
    assert_eq!(version().await, SchemaVersion { found: 0, minimum_reader: 0, known: KNOWN });
    assert!(!Path::new(&path).exists(), "reading the version creates nothing");
    let migrate = async || selvedge_sqlite::migrate(&path).await;
    assert_eq!(migrate().await.expect("it migrates"), Migrated { from: 0, to: KNOWN });
    assert_eq!(migrate().await.expect("it migrates"), Migrated { from: KNOWN, to: KNOWN });
    for (version, minimum, expected, remedy) in [
        (KNOWN - 1, 18, Level::Warning, "selvedge migrate"),
        (99, 1, Level::Notice, "upgrade"),
        (99, 98, Level::Error, "upgrade"),
    ] {
        let update = format!("update selvedge_schema set version = {version}, minimum_reader = {minimum}");
        plain_connection(&directory).execute_batch(&update).expect("the version is changed");
        assert_found(&examine(&directory).await, "schema", expected, &format!("version {version}"), remedy);
    }
    assert!(migrate().await.is_err(), "a schema that is too new is refused");
    let store = SqliteStore::open(&path).await;
    assert!(store.is_err(), "by a server as well");
}

#[tokio::test]
async fn a_file_of_a_running_server_is_not_migrated() {
    let directory = Directory::new();
    let store = SqliteStore::open(&directory.database()).await.expect("the store opens");
    let refused = selvedge_sqlite::migrate(&directory.database()).await;
    assert!(matches!(&refused, Err(selvedge_store::Error::InUse(_))), "{refused:?}");
    store.close().await;
}
