//! The waitpoints that a transaction closes: those of executions that it ends, and those of votes that it ends.
//!
//! [`Work::apply`] notes every execution that ends, whatever ended it, and the end of a wait notes the names that the wait
//! counted. The driver then loads the waitpoints of these executions only, and closes the open ones. An execution that never
//! had a waitpoint is not noted, so it costs nothing.

use super::Work;
use crate::{ExecutionId, Name, Waitpoint};
use std::collections::BTreeSet;

/// The open waitpoints of an execution that are to be closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Closing {
    /// All: the execution has ended.
    All,
    /// Waitpoints whose token may send one of these signals: they only served waits that have ended.
    Of(BTreeSet<Name>),
}

impl Closing {
    /// Reports whether it closes this waitpoint.
    pub fn closes(&self, waitpoint: &Waitpoint) -> bool {
        match self {
            Closing::All => true,
            Closing::Of(names) => {
                names.contains(&waitpoint.name) || waitpoint.choices().iter().any(|name| names.contains(name))
            }
        }
    }
}

impl Work {
    /// Notes that the waitpoints for these signals serve no wait any more.
    pub fn close_waitpoints_of(&mut self, id: ExecutionId, names: BTreeSet<Name>) {
        let has_waitpoints =
            self.tables.executions.get(&id).is_some_and(|row| row.detail.record.waitpoints > 0);
        if has_waitpoints && !names.is_empty() {
            match self.closing.entry(id).or_insert_with(|| Closing::Of(BTreeSet::new())) {
                Closing::All => {}
                Closing::Of(known) => known.extend(names),
            }
        }
    }

    /// Returns the executions of which waitpoints may have to be closed.
    pub fn closing(&self) -> impl Iterator<Item = ExecutionId> {
        self.closing.keys().copied()
    }

    /// Takes what is to be closed of an execution, if anything is.
    pub fn take_closing(&mut self, id: ExecutionId) -> Option<Closing> {
        self.closing.remove(&id)
    }
}
