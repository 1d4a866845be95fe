//! Runs a decision: loads the rows that it needs, asks it, and saves its changes.
//!
//! There is one writer, so loaded rows cannot change before they are saved. The guards of a save fail only if the
//! decision used a cached row, or an id or key that is taken; then the decision is retried.

use crate::connection::failure::failure;
use crate::connection::job::JobContext;
use crate::load::load;
use crate::save::{Saved, save};
use selvedge_store::{Decision, Demand, Error, Transaction};

/// The number of tries before the caller gets [`Error::Contended`].
const TRIES: u32 = 10;

/// Runs a decision to its end.
pub fn decide(decision: &mut dyn Decision, context: &JobContext<'_>) -> Result<Transaction, Error> {
    let mut failed_guard = String::new();
    for again in 0..TRIES {
        let tries = again + 1;
        let mut needs = decision.begin(again);
        let changes = loop {
            let rows = load(context.connection, &needs, context.now).map_err(failure)?;
            match decision.next(rows) {
                Demand::Load(more) => needs = more,
                Demand::Save(changes) => break changes,
                Demand::Abort(reason) => return Err(Error::Failed(reason)),
            }
        };
        if changes.is_empty() {
            return Ok(Transaction { tries, ..Transaction::default() });
        }
        match save(context.connection, &changes, context.now).map_err(failure)? {
            Saved::All { entry, emptied } => return Ok(Transaction { entry, tries, emptied }),
            Saved::Refused(guard) => failed_guard = guard,
        }
        context.roll_back()?;
    }
    Err(Error::Contended(failed_guard))
}
