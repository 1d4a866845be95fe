//! The store in memory, with the rules of core, does what the reference model says, also as time passes.

use selvedge_conformance::{Subject, flow_model, gate_model, model};
use selvedge_core::Timestamp;
use selvedge_memory::{Clock, MemoryStore};
use selvedge_store::Store;
use std::sync::Arc;

async fn on_a_manual_clock() -> Subject {
    let clock = Clock::manual(Timestamp::from_millis(1_700_000_000_000));
    let store: Arc<dyn Store> = Arc::new(MemoryStore::with_clock(clock.clone()));
    Subject::with_clock(store, move |ms| clock.advance_ms(ms))
}

async fn on_the_systems_clock() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new())
}

#[test]
fn random_commands_have_the_outcome_that_the_model_says() {
    model::run(on_a_manual_clock, 256);
}

#[test]
fn random_commands_that_need_no_time_have_the_outcome_that_the_model_says() {
    model::run(on_the_systems_clock, 64);
}

#[test]
fn random_graphs_come_to_the_end_that_the_model_says() {
    flow_model::run(on_a_manual_clock, 128);
}

#[test]
fn random_graphs_that_need_no_time_come_to_the_end_that_the_model_says() {
    flow_model::run(on_the_systems_clock, 32);
}

#[test]
fn random_admissions_pass_no_limit_and_leave_nothing_behind() {
    gate_model::run(on_a_manual_clock, 256);
}

#[test]
fn random_admissions_that_need_no_time_pass_no_limit_and_leave_nothing_behind() {
    gate_model::run(on_the_systems_clock, 64);
}
