//! Reads everything in the fixtures and compares it, field by field, with what the build that wrote them has read.

use crate::compare::differences;
use crate::directory::Directory;
use crate::generate::OTHER;
use crate::server::{Server, passive_options};
use crate::snapshot::{self, Snapshot};
use selvedge_conformance::fixtures::{Fixture, all};
use selvedge_engine::core::filter::{Filter, Payloads};
use selvedge_engine::store::Store;
use selvedge_system_tests::database::Database;
use std::sync::Arc;

#[tokio::test]
async fn the_sqlite_fixtures_are_read_as_they_were_written() {
    for fixture in all() {
        let directory = Directory::copy(&fixture);
        check_fixture(&fixture, "sqlite.json", directory.store().await).await;
    }
}

#[tokio::test]
async fn the_sqlite_fixtures_are_read_as_they_were_written_in_the_far_future() {
    for fixture in all() {
        let directory = Directory::copy_for_later(&fixture);
        check_fixture(&fixture, "sqlite.json", directory.store().await).await;
    }
}

#[tokio::test]
async fn the_postgres_fixtures_are_read_as_they_were_written() {
    for fixture in all() {
        let database = Database::restore(&fixture).await;
        check_fixture(&fixture, "postgres.json", database.store().await).await;
    }
}

async fn check_fixture(fixture: &Fixture, file: &str, store: Arc<dyn Store>) {
    let (_, expected) = snapshot::parse(&fixture.text(file));
    let server = Server::start(store, passive_options()).await;
    let actual = snapshot::read(&server).await;
    let found = all_differences(&expected, &actual);
    assert!(found.is_empty(), "{} of v{}:\n{}", file, fixture.version, found.join("\n"));
    check_other_namespace(&server).await;
    server.stop().await;
}

fn all_differences(expected: &Snapshot, actual: &Snapshot) -> Vec<String> {
    let mut found = Vec::new();
    for (path, expected) in expected {
        match actual.get(path) {
            Some(actual) => found.extend(differences(path, expected, actual)),
            None => found.push(format!("{path} is no longer read")),
        }
    }
    found
}

/// Asserts that the executions of the second namespace exist there, and not over HTTP, which shows the first namespace.
async fn check_other_namespace(server: &Server) {
    let other = server.engine.namespace(OTHER).await.expect("the namespace exists");
    let (mut found, _) =
        other.list(&Filter::all(other.id()), None, 10, Payloads::NONE).await.expect("the list is read");
    found.sort_by_key(|view| view.stored.execution.id);
    let keys: Vec<Option<&str>> =
        found.iter().map(|view| view.stored.execution.spec.idempotency_key.as_deref()).collect();
    assert_eq!(keys, [Some("order-1"), None]);
    for view in found {
        let path = format!("/v1/executions/{}", view.stored.execution.id);
        assert_eq!(server.call("GET", &path, None, None).await.0, 404);
    }
}

#[test]
fn an_altered_field_and_a_missing_path_are_detected() {
    let fixture = all().remove(0);
    let (_, expected) = snapshot::parse(&fixture.text("sqlite.json"));
    assert!(all_differences(&expected, &expected).is_empty());
    for path in expected.keys().filter(|path| path.matches('/').count() == 3 && path.contains("executions")) {
        let mut altered = expected.clone();
        altered.get_mut(path).expect("the path is in the snapshot")[1]["version"] = 0.into();
        assert_eq!(all_differences(&expected, &altered).len(), 1, "{path}");
        altered.remove(path);
        assert_eq!(all_differences(&expected, &altered), [format!("{path} is no longer read")]);
    }
}
