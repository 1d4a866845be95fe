//! The random models on the store in memory, on a manual clock and on the system clock.

use selvedge_conformance::{Subject, execution_model, flow_model, gate_model};
use selvedge_core::Timestamp;
use selvedge_memory::{Clock, MemoryStore};
use selvedge_store::Store;
use std::sync::Arc;

async fn on_a_manual_clock() -> Subject {
    let clock = Clock::manual(Timestamp::from_millis(1_700_000_000_000));
    let store: Arc<dyn Store> = Arc::new(MemoryStore::with_clock(clock.clone()));
    Subject::with_clock(store, move |ms| clock.advance_ms(ms))
}

async fn on_the_system_clock() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new())
}

#[test]
fn random_commands_match_the_model() {
    execution_model::run(on_a_manual_clock, 256);
}

#[test]
fn random_commands_match_the_model_on_the_system_clock() {
    execution_model::run(on_the_system_clock, 64);
}

#[test]
fn random_graphs_match_the_model() {
    flow_model::run(on_a_manual_clock, 128);
}

#[test]
fn random_graphs_match_the_model_on_the_system_clock() {
    flow_model::run(on_the_system_clock, 32);
}

#[test]
fn random_admissions_exceed_no_limit_and_give_everything_back() {
    gate_model::run(on_a_manual_clock, 256);
}

#[test]
fn random_admissions_exceed_no_limit_and_give_everything_back_on_the_system_clock() {
    gate_model::run(on_the_system_clock, 64);
}

#[test]
fn random_schedules_agree_with_the_model() {
    selvedge_conformance::schedule_model::run(on_a_manual_clock, 256);
}
