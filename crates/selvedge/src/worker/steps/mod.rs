//! Durable steps and waits of a handler.
//!
//! - [`Context::step`] runs and records a step (`record`); `wait` has the waits, `until` their conditions;
//! - `branches` has concurrent branches, `waitpoint` the delivery of signals from outside, `approval` votes of people;
//! - `tracker` holds the state of an attempt's steps; `scheduler` runs the handler and decides when to suspend it.

mod approval;
mod branches;
mod record;
mod scheduler;
mod tracker;
mod until;
mod wait;
mod waitpoint;

pub use approval::{Approval, ApprovalRequest, Verdict, Vote};
pub use branches::{All, BranchScope, Race};
pub use scheduler::{HandlerEnd, run};
pub use tracker::StepTracker;
pub use until::Until;
pub use wait::{ReceivedSignal, SignalWaitResult, Wait, WaitForSignal, WaitResult};
pub use waitpoint::{NewWaitpoint, Waitpoint};

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex even if it is poisoned: no code here panics between related changes, so the data stays consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
