//! The contract of a store.
//!
//! A store opens a transaction, loads the rows that a decision names, asks the decision, and saves what changed, all or
//! nothing. It knows no rule. [`Store::transact`] is the only way to change an execution; everything else reads.
//!
//! What a store promises, and the conformance suite checks:
//! - a decision sees rows that nobody else changes until it is saved, or the save fails its guards and the decision is
//!   begun again;
//! - what was saved is on disk before `transact` returns;
//! - facts of one transaction stand in one entry of the log, whose number was drawn when all locks were held;
//! - times come from the store's own clock.

mod around;
pub mod columns;
mod contract;
mod error;

pub use around::Around;
pub use contract::{
    Decision, Description, DueFlow, DueRow, Entries, Entry, FlowDue, Notification, Overview, Store, Stored,
    Transaction,
};
pub use error::Error;
pub use selvedge_core::Demand;
