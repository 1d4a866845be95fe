//! The SQLite store does what every store must do.

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
fn random_commands_have_the_outcome_that_the_model_says() {
    selvedge_conformance::execution_model::run(empty_store, 24);
}

#[test]
fn random_graphs_come_to_the_end_that_the_model_says() {
    selvedge_conformance::flow_model::run(empty_store, 12);
}

#[test]
fn random_admissions_pass_no_limit_and_leave_nothing_behind() {
    selvedge_conformance::gate_model::run(empty_store, 12);
}
