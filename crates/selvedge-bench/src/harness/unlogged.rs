//! A store that saves no events. The throughput that it gains over the same store with them is the cost of recording events.
//!
//! Only the event log stays empty: the engine makes the same decisions, and each row keeps its history.

use selvedge_core::{Needs, Rows};
use selvedge_store::{Decision, Demand, Interceptor};
use std::time::Duration;

/// Discards the events of every transaction.
pub struct Unlogged;

impl Interceptor for Unlogged {
    fn decision(&self, decision: Box<dyn Decision>) -> Box<dyn Decision> {
        Box::new(WithoutEvents(decision))
    }
}

/// A decision whose events are discarded before they are saved.
struct WithoutEvents(Box<dyn Decision>);

impl Decision for WithoutEvents {
    fn begin(&mut self, again: u32) -> Needs {
        self.0.begin(again)
    }

    fn next(&mut self, rows: Rows) -> Demand {
        match self.0.next(rows) {
            Demand::Save(mut changes) => {
                changes.events.clear();
                Demand::Save(changes)
            }
            other @ (Demand::Load(_) | Demand::Abort(_)) => other,
        }
    }

    fn patience(&self) -> Option<Duration> {
        self.0.patience()
    }
}
