//! The conformance suite: what every store must do, one test per sentence.
//!
//! A store's tests call it in a file of their own, with a function that makes an empty store:
//!
//! ```ignore
//! async fn empty_store() -> Arc<dyn Store> { … }
//!
//! selvedge_store::conformance::suite!(empty_store);
//! ```
//!
//! Each case gets a store of its own from that function, which may also give a [`Subject`]: one that keeps something (a
//! directory) until the case is over, or whose clock can be moved. The rules that run against the store are the real ones
//! of core. After each case that went only by the rules, the [invariants] are checked over all rows and the whole log.
//!
//! [`model::run`] compares a store with a reference model over random commands.

mod bench;
pub mod invariants;
mod list;
mod rule;
mod subject;

mod submission;

pub use bench::{Bench, Worker};
pub use rule::{Rule, Run, decision, run_rule};
pub use subject::{Subject, run_case};

#[doc(inline)]
pub use crate::conformance_suite as suite;

/// The cases by name, for [`suite!`].
pub mod cases {
    crate::conformance_cases!(crate::conformance_reexport;);
}
