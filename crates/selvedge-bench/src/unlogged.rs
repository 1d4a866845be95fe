//! A store that records no events, and else is the one inside: what recording them costs is what it is faster by.
//!
//! Everything goes on as always but the log, which stays empty: the engine decides the same, and each row has its history.

use async_trait::async_trait;
use selvedge_core::{Needs, Rows};
use selvedge_store::{Around, Decision, Demand, Error, Store, Transaction};
use std::sync::Arc;

/// The store.
pub struct Unlogged(pub Arc<dyn Store>);

/// A decision whose events are dropped before they are saved.
struct Silent(Box<dyn Decision>);

impl Decision for Silent {
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
impl Around for Unlogged {
    fn inner(&self) -> &dyn Store {
        self.0.as_ref()
    }

    async fn transact(&self, decision: Box<dyn Decision>) -> Result<Transaction, Error> {
        self.0.transact(Box::new(Silent(decision))).await
    }
}
