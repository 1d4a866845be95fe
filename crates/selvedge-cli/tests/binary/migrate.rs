//! `selvedge migrate`: creates and upgrades schemas, and says whether that is needed.

use crate::support::{Place, Postgres, Server, Sqlite, command, on_each_store};
use serde_json::Value;

on_each_store!(a_new_store_gets_its_schema_and_a_second_migration_does_nothing);

/// Returns the exit code, standard output and standard error of a migration.
fn migrate(store: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = command().args(["migrate", "--store", store]).args(arguments).output();
    let output = output.expect("the binary starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn a_new_store_gets_its_schema_and_a_second_migration_does_nothing(place: &impl Place) {
    let store = place.store();
    let (code, _, errors) = migrate(&store, &["--check"]);
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("run selvedge migrate"), "{errors}");
    let (code, text, errors) = migrate(&store, &[]);
    assert_eq!(code, Some(0), "{errors}");
    assert!(text.contains("was created with version"), "{text}");
    let (code, text, errors) = migrate(&store, &["--json"]);
    assert_eq!(code, Some(0), "{errors}");
    let object: Value = serde_json::from_str(&text).expect("the output is JSON");
    assert_eq!((&object["migrated"], &object["from"]), (&Value::Bool(false), &object["to"]), "{object}");
    let (code, text, errors) = migrate(&store, &["--check"]);
    assert_eq!(code, Some(0), "{errors}");
    assert!(text.contains("no migration is needed"), "{text}");
    Server::start(place).kill();
}

#[test]
fn the_file_of_an_earlier_build_is_migrated_from_its_version_to_this_one() {
    let place = Sqlite::new();
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/../selvedge-conformance/fixtures/v1/sqlite.db");
    std::fs::copy(fixture, place.database()).expect("the fixture is copied");
    let (code, text, errors) = migrate(&place.store(), &["--check", "--json"]);
    assert_eq!(code, Some(1), "{errors}");
    let before: Value = serde_json::from_str(&text).expect("the output is JSON");
    assert_eq!(before["needed"], true);
    let (code, text, errors) = migrate(&place.store(), &[]);
    assert_eq!(code, Some(0), "{errors}");
    assert!(text.ends_with(&format!("was migrated: {} → {}.", before["from"], before["to"])), "{text}");
    assert_eq!(migrate(&place.store(), &["--check"]).0, Some(0));
}

#[test]
fn a_newer_schema_and_the_file_of_a_running_server_are_refused_in_words() {
    let place = Postgres::new();
    migrate(&place.store(), &[]);
    place.run("update selvedge.schema_version set version = 99, minimum_reader = 98");
    for arguments in [&["--check"][..], &[]] {
        let (code, _, errors) = migrate(&place.store(), arguments);
        assert_eq!(code, Some(1), "{errors}");
        assert!(errors.contains("version 99") && errors.contains("upgrade it"), "{errors}");
    }
    let place = Sqlite::new();
    let server = Server::start(&place);
    let (code, _, errors) = migrate(&place.store(), &[]);
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains(&server.url), "{errors}");
    assert_eq!(migrate(&place.store(), &["--check"]).0, Some(0), "looking is allowed");
    let (code, _, errors) = migrate("memory:", &[]);
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("--store"), "{errors}");
}
