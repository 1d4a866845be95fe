//! The Postgres store does what every store must do.

mod support;

use selvedge_conformance::{Subject, execution_model, flow_model, gate_model};
use selvedge_store::Store;
use std::sync::Arc;
use support::Sandbox;

async fn empty_store() -> Subject {
    let sandbox = Sandbox::new();
    let store: Arc<dyn Store> = sandbox.store("store").await;
    Subject::from(store).keeping(sandbox)
}

selvedge_conformance::suite!(empty_store);

#[test]
fn slow_random_commands_have_the_outcome_that_the_model_says() {
    execution_model::run(empty_store, 16);
}

#[test]
fn slow_random_graphs_come_to_the_end_that_the_model_says() {
    flow_model::run(empty_store, 8);
}

#[test]
fn slow_random_admissions_exceed_no_limit_and_give_everything_back() {
    gate_model::run(empty_store, 6);
}
