//! Durable steps: what a handler does once and for all, and what it waits for while nobody runs it.
//!
//! - [`Context::step`] records what was done; `wait` has the waits, `until` what they wait for;
//! - `branches` has what is done side by side, `waitpoint` where others deliver, `approval` the words of several people;
//! - `ledger` is what an attempt knows of its steps, `scheduler` runs the handler and decides when it is suspended.

mod approval;
mod branches;
mod ledger;
mod record;
mod scheduler;
mod until;
mod wait;
mod waitpoint;

pub use approval::{Approval, ApprovalCall, Verdict, Vote};
pub use branches::{All, BranchScope, Race};
pub use ledger::Ledger;
pub use scheduler::{Given, run};
pub use until::Until;
pub use wait::{Heard, Received, Wait, WaitForSignal, Waited};
pub use waitpoint::{NewWaitpoint, Waitpoint};
