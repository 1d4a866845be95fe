//! The contract of a store.
//!
//! A store opens a transaction, loads the rows that a decision names, calls the decision, and saves its changes, all or
//! nothing. It contains no rule. [`Transactions::transact`] is the only way to change an execution, a flow or a gate.
//!
//! A store guarantees, and the conformance suite checks:
//! - the rows that a decision has locked do not change until its save; if a row that it did not lock changed, a guard of the
//!   save fails and the decision is begun again;
//! - saved changes are durable before `transact` returns;
//! - the events of one transaction form one entry of the event log, numbered while all locks of the transaction are held;
//! - times come from the store's own clock.

pub mod columns;
mod contract;
mod data;
mod diagnosis;
mod error;
mod list;
pub mod merge;
mod meter;
mod projection;
mod scope;

pub use contract::*;
pub use data::*;
pub use diagnosis::*;
pub use error::Error;
pub use list::*;
pub use meter::*;
pub use projection::*;
pub use scope::ReconcilerScope;
pub use selvedge_core::Demand;
