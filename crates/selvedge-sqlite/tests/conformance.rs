//! The conformance suite on the SQLite store.

mod support;

use selvedge_conformance::Subject;
use selvedge_sqlite::SqliteStore;
use selvedge_store::Store;
use std::sync::Arc;
use support::Directory;

async fn empty_store() -> Subject {
    let directory = Directory::new();
    let store = SqliteStore::open(&directory.database()).await;
    let store: Arc<dyn Store> = Arc::new(store.expect("a new store opens"));
    Subject::from(store).keeping(directory)
}

selvedge_conformance::suite!(empty_store);

#[test]
fn random_operations_match_the_model() {
    selvedge_conformance::execution_model::run(empty_store, 24);
}

#[test]
fn random_graphs_match_the_model() {
    selvedge_conformance::flow_model::run(empty_store, 12);
}

#[test]
fn random_admissions_exceed_no_limit_and_leak_no_slots() {
    selvedge_conformance::gate_model::run(empty_store, 12);
}

#[test]
fn random_schedules_agree_with_the_model() {
    selvedge_conformance::schedule_model::run(empty_store, 12);
}
