//! Runs a decision: loads what it needs, asks it, saves what it says.
//!
//! Nobody else writes, so what was loaded cannot move before it is saved. The guards of a save fail only where a decision
//! remembered a row from before, or wants an id or a key that is taken: then it is begun again.

use crate::failure::failure;
use crate::job::Desk;
use crate::load::load;
use crate::save::{Saved, save};
use selvedge_store::{Decision, Demand, Error, Transaction};

/// How often a decision is begun before its caller is told to come back later.
const TRIES: u32 = 10;

/// Runs a decision to its end.
pub fn decide(decision: &mut dyn Decision, desk: &Desk<'_>) -> Result<Transaction, Error> {
    let mut in_the_way = String::new();
    for again in 0..TRIES {
        let tries = again + 1;
        let mut needs = decision.begin(again);
        let changes = loop {
            let rows = load(desk.connection, &needs, desk.now).map_err(failure)?;
            match decision.next(rows) {
                Demand::Load(more) => needs = more,
                Demand::Save(changes) => break changes,
                Demand::Abort(reason) => return Err(Error::Failed(reason)),
            }
        };
        if changes.is_empty() {
            return Ok(Transaction { tries, ..Transaction::default() });
        }
        match save(desk.connection, &changes, desk.now).map_err(failure)? {
            Saved::All { entry, emptied } => return Ok(Transaction { entry, tries, emptied }),
            Saved::Refused(guard) => in_the_way = guard,
        }
        desk.take_back()?;
    }
    Err(Error::Contended(in_the_way))
}
