//! The conformance suite: the behaviour of every store, one test per sentence.
//!
//! A store's tests invoke it in a file of their own, with a function that creates an empty store:
//!
//! ```text
//! async fn empty_store() -> Arc<dyn Store> { ... }
//!
//! selvedge_conformance::suite!(empty_store);
//! ```
//!
//! Each case gets a store of its own from that function. The function may also return a [`Subject`]: a store with a resource
//! (such as a directory) that is kept until the end of the case, with a manual clock, or with a [`RuleRunner`] (such as an
//! engine with its lease cache and its waiting claims). The rules that run are those of core, in the driver that ships. After
//! each case that changed the store only by rules, the [invariants] are checked over all rows and the whole event log.
//!
//! [`execution_model::run`] compares a store with a reference model over random commands, [`flow_model::run`] over random
//! graphs, [`schedule_model::run`] over random schedules, and [`gate_model::run`] drives it through random admissions.
//!
//! [`fixtures`] finds the stores that earlier builds wrote; [`copy`](mod@copy) and [`complete`] check that this build reads
//! and rewrites them without loss. [`fault_proxy`] injects faults of a network. [`statements`] has the rules for files of SQL.

pub mod cases;
pub mod fault_proxy;
pub mod fixtures;
mod harness;
pub mod invariants;
mod models;
pub mod statements;

pub use fixtures::{complete, copy};
pub use harness::runner::{
    PendingReply, RuleGroup, RuleList, RulePair, RuleRunner, StoreRunner, WithCachedRow, WithDownstreams,
    decision, decision_of, run_rule, run_with,
};
pub use harness::subject::{Subject, run_case};
pub use harness::{FlowHarness, Harness, Sketch, Worker};
pub use models::{
    executions as execution_model, flows as flow_model, gates as gate_model, schedules as schedule_model,
};

#[doc(inline)]
pub use crate::conformance_suite as suite;
