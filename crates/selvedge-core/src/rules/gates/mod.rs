//! Gates: admission is decided inside the claim's own transaction.
//!
//! A claim [takes](take) a slot in every gate that the execution draws on, with all of them locked, so that several
//! servers together never exceed a limit. The end of the attempt gives the slots back:
//! [`Work::apply`](crate::Work::apply) does that, whatever ends the attempt. An execution that a gate refuses is
//! [held](hold) by it, and no longer hides the executions behind it. A transaction that gives a slot or an amount back
//! [releases](release) held executions, in claim order; a reconciler [checks](check) gates for the rest.
//! The file `machine` says what a gate that holds executions waits for, and when it is checked.
//!
//! Executions with a fairness key wait in [lines], one for each key and class: only the head of a line can be claimed.

pub mod adopt;
pub mod budget;
pub mod check;
pub mod configure;
pub mod hold;
pub mod lines;
mod machine;
pub mod needs;
pub mod release;
pub mod take;

use crate::gate::{GateName, draws};
use crate::{Timestamp, Work};

/// Time after which a budget that holds executions is checked in any case, in milliseconds.
const BUDGET_CHECK_MS: i64 = 60_000;

/// Reports whether a time is finite: a gate with a rate of zero has room only at the end of time.
fn is_finite(at: &Timestamp) -> bool {
    *at < Timestamp::from_micros(i64::MAX)
}

/// Returns the name of the gate that has the configuration: the whole of a budget, or the gate itself.
fn whole(name: &GateName) -> GateName {
    GateName { part: None, ..name.clone() }
}

/// Sets the time by which a gate is to be checked, unless it is to be checked earlier.
fn check_by(work: &mut Work, name: &GateName, by: Timestamp) {
    if work.gate(name).due_at.is_none_or(|at| at > by) {
        work.change_gate(name, |gate| gate.due_at = Some(by));
    }
}

/// Records in a gate that it holds an execution, with the limit and the reserve that the execution names.
fn record_held(work: &mut Work, row: &crate::Execution, name: &GateName) {
    let (limit, reserve) = (draws::own_limit(row, name), draws::own_reserve(row, name));
    if let Some(state) = work.gate(name).state_with_held(limit, reserve) {
        work.change_gate(name, |gate| gate.state = state);
    }
}
