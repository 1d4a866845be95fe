//! The conformance suite: what every store must do, one test per sentence.
//!
//! A store's tests call it in a file of their own, with a function that makes an empty store:
//!
//! ```text
//! async fn empty_store() -> Arc<dyn Store> { ... }
//!
//! selvedge_conformance::suite!(empty_store);
//! ```
//!
//! Each case gets a store of its own from that function, which may also give a [`Subject`]: one that keeps something (a
//! directory) until the case is over, whose clock can be moved, or whose rules a [`Runner`] runs: an engine, with its lease
//! cache and its waiting claims. The rules that run against the store are the real ones of core, by the driver that ships.
//! After each case that went only by the rules, the [invariants] are checked over all rows and the whole log.
//!
//! [`model::run`] compares a store with a reference model over random commands, [`flow_model::run`] over random graphs, and
//! [`gate_model::run`] takes it through random admissions.
//!
//! [`fixtures`] finds the stores that earlier builds wrote; [`copy`](mod@copy) and [`complete`] check what a build makes of them.

mod by_hand;
pub mod complete;
pub mod copy;
pub mod fixtures;
mod flow_harness;
mod flow_invariants;
pub mod flow_model;
mod harness;
pub mod invariants;
mod list;
pub mod model;
mod random;
mod replay;
mod rule;
mod signal_harness;
mod sketch;
mod subject;
mod worker;

mod cancel;
mod children;
mod claims;
mod conditions;
mod dispatch;
mod due;
mod events;
mod flow_lists;
mod flow_retention;
mod flow_rows;
mod flows;
mod growth;
mod guards;
mod history;
mod interning;
mod joins;
mod keys;
mod life;
mod lists;
mod liveness;
mod log_window;
mod outbox;
mod replays;
mod rows;
mod sessions;
mod signals;
mod spawning;
mod steps;
mod streams;
mod submission;
mod suspension;
mod tags;
mod timeouts;
mod tokens;
mod waitpoints;

mod budgets;
mod fairness;
mod gate_changes;
mod gate_harness;
mod gate_invariants;
pub mod gate_model;
mod gate_rows;
mod lanes;
mod quotas;

pub use flow_harness::FlowHarness;
pub use harness::Harness;
pub use rule::{
    Both, Collect, Direct, Each, Propagating, Runner, Together, Trusting, decision, decision_of, run_by,
    run_rule,
};
pub use sketch::Sketch;
pub use subject::{Subject, run_case};
pub use worker::Worker;

#[doc(inline)]
pub use crate::conformance_suite as suite;

/// Runs the same thing from several sides at once; gives what each came to, in their order.
async fn side_by_side<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    sides: usize,
    make: impl Fn(usize) -> F,
) -> Vec<T> {
    let tasks: Vec<_> = (0..sides).map(|side| tokio::spawn(make(side))).collect();
    let mut results = Vec::with_capacity(sides);
    for task in tasks {
        results.push(task.await.expect("no side panics"));
    }
    results
}

/// The cases by name, for [`suite!`].
pub mod cases {
    crate::conformance_cases!(crate::conformance_reexport;);
}
