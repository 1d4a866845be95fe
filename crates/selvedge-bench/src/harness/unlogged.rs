//! A store that saves no events. The throughput that it gains over the inner store is the cost of recording events.
//!
//! Only the event log stays empty: the engine makes the same decisions, and each row keeps its history.

use async_trait::async_trait;
use selvedge_core::{Needs, Rows};
use selvedge_store::{Decision, Demand, Error, Store, StoreWrapper, Transaction};
use std::sync::Arc;

/// A wrapper of a store that discards events.
pub struct Unlogged(pub Arc<dyn Store>);

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
}

#[async_trait]
impl StoreWrapper for Unlogged {
    fn inner(&self) -> &dyn Store {
        self.0.as_ref()
    }

    async fn transact(&self, decision: Box<dyn Decision>) -> Result<Transaction, Error> {
        self.0.transact(Box::new(WithoutEvents(decision))).await
    }
}
