//! In which order the rows of one transaction are asked for.
//!
//! Commands say what they want to see, and want more once they have seen that. What was asked for is not asked for again.
//! Locks on flows and on candidates come last: after them the transaction waits for no execution.

use crate::rows::{Candidates, Needs};
use crate::{ExecutionId, FlowId};

/// How often a transaction asks for more at most.
const ROUNDS: u8 = 16;

/// What was asked for so far, and what is kept for last.
#[derive(Debug, Default)]
pub struct Loading {
    seen: Needs,
    flows: Vec<FlowId>,
    candidates: Vec<Candidates>,
    rounds: u8,
}

impl Loading {
    /// What to ask for first. What must come last is kept back where more executions may be locked.
    pub fn first(&mut self, mut needs: Needs, may_lock_more: bool) -> Needs {
        needs.only_new(&mut self.seen);
        if may_lock_more {
            self.flows = std::mem::take(&mut needs.flows);
            self.candidates = std::mem::take(&mut needs.candidates);
        }
        needs
    }

    /// Whether an execution was asked for to be locked.
    pub fn locks(&self, id: ExecutionId) -> bool {
        self.seen.executions.binary_search(&id).is_ok()
    }

    /// What to ask for next, of what commands want now; none when everything was seen.
    pub fn next(&mut self, mut more: Needs) -> Option<Needs> {
        if self.rounds == ROUNDS {
            return None;
        }
        self.rounds += 1;
        more.only_new(&mut self.seen);
        self.flows.append(&mut more.flows);
        self.candidates.append(&mut more.candidates);
        if more.is_empty() {
            more.flows = std::mem::take(&mut self.flows);
            more.flows.sort_unstable();
            more.candidates = std::mem::take(&mut self.candidates);
        }
        (!more.is_empty()).then_some(more)
    }
}
