//! Everything in the fixtures is read back, field by field, as the build that wrote them read it.

use crate::answers::{self, Answers};
use crate::compare::differences;
use crate::database::Database;
use crate::directory::Directory;
use crate::generate::OTHER;
use crate::server::{Server, quiet};
use selvedge_conformance::fixtures::{Fixture, all};
use selvedge_engine::core::filter::Filter;
use selvedge_engine::store::Store;
use std::sync::Arc;

#[tokio::test]
async fn everything_in_the_sqlite_fixtures_is_read_back_field_by_field() {
    for fixture in all() {
        let directory = Directory::copy(&fixture);
        is_read_back(&fixture, "sqlite.json", directory.store().await).await;
    }
}

#[tokio::test]
async fn everything_in_the_sqlite_fixtures_is_read_back_alike_in_the_far_future() {
    for fixture in all() {
        let directory = Directory::copy_for_later(&fixture);
        is_read_back(&fixture, "sqlite.json", directory.store().await).await;
    }
}

#[tokio::test]
async fn everything_in_the_postgres_fixtures_is_read_back_field_by_field() {
    for fixture in all() {
        let database = Database::restore(&fixture).await;
        is_read_back(&fixture, "postgres.json", database.store().await).await;
    }
}

async fn is_read_back(fixture: &Fixture, file: &str, store: Arc<dyn Store>) {
    let (_, expected) = answers::parse(&fixture.text(file));
    let server = Server::start(store, quiet()).await;
    let shown = answers::read(&server).await;
    let found = all_differences(&expected, &shown);
    assert!(found.is_empty(), "{} of v{}:\n{}", file, fixture.version, found.join("\n"));
    is_in_the_other_namespace(&server).await;
    server.stop().await;
}

fn all_differences(expected: &Answers, shown: &Answers) -> Vec<String> {
    let mut found = Vec::new();
    for (path, expected) in expected {
        match shown.get(path) {
            Some(shown) => found.extend(differences(path, expected, shown)),
            None => found.push(format!("{path} is not read any more")),
        }
    }
    found
}

/// What the second namespace has is found there, and not over HTTP, which shows the first one.
async fn is_in_the_other_namespace(server: &Server) {
    let other = server.engine.namespace(OTHER).await.expect("the namespace is there");
    let (mut found, _) = other.list(&Filter::all(other.id()), None, 10).await.expect("it is listed");
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
fn an_altered_field_and_a_path_that_is_gone_are_noticed() {
    let fixture = all().remove(0);
    let (_, expected) = answers::parse(&fixture.text("sqlite.json"));
    assert!(all_differences(&expected, &expected).is_empty());
    for path in expected.keys().filter(|path| path.matches('/').count() == 3 && path.contains("executions")) {
        let mut shown = expected.clone();
        shown.get_mut(path).expect("it is there")[1]["version"] = 0.into();
        assert_eq!(all_differences(&expected, &shown).len(), 1, "{path}");
        shown.remove(path);
        assert_eq!(all_differences(&expected, &shown), [format!("{path} is not read any more")]);
    }
}
