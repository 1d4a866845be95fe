//! The conformance suite on the Postgres store.

use selvedge_conformance::{Subject, execution_model, flow_model, gate_model};
use selvedge_store::Store;
use selvedge_system_tests::Sandbox;
use std::sync::Arc;

async fn empty_store() -> Subject {
    let sandbox = Sandbox::new();
    let store: Arc<dyn Store> = sandbox.store("store").await;
    Subject::from(store).keeping(sandbox)
}

selvedge_conformance::suite!(empty_store);

#[test]
fn slow_random_operations_match_the_model() {
    execution_model::run(empty_store, 16);
}

#[test]
fn slow_random_graphs_match_the_model() {
    flow_model::run(empty_store, 8);
}

#[test]
fn slow_random_admissions_exceed_no_limit_and_leak_no_slots() {
    gate_model::run(empty_store, 6);
}

#[test]
fn random_schedules_agree_with_the_model() {
    selvedge_conformance::schedule_model::run(empty_store, 6);
}
