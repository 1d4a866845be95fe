//! The Postgres store does what every store must do.

mod support;

use selvedge_conformance::{Subject, flow_model, model};
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
    model::run(empty_store, 16);
}

#[test]
fn slow_random_graphs_come_to_the_end_that_the_model_says() {
    flow_model::run(empty_store, 8);
}
