//! In which order the rows of one transaction are asked for.
//!
//! Commands say what they want to see, and want more once they have seen that. What was asked for is not asked for again.
//! Locks on flows, lanes and candidates come last: after them the transaction waits for no execution. The gates of candidates
//! come after these, and what they hold after them. Where there are gates, flows and sessions are locked after them: whoever
//! holds a gate counts flows and writes sessions when it saves.

use crate::gate::GateId;
use crate::rows::{Candidates, HeldBy, Needs};
use crate::{ExecutionId, FlowId, Name, NamespaceId, SessionId};

/// How often a transaction asks for more at most, but for what is kept for last.
const ROUNDS: u8 = 16;

/// What was asked for so far, and what is kept for last.
#[derive(Debug, Default)]
pub struct Loading {
    seen: Needs,
    flows: Vec<FlowId>,
    sessions: Vec<SessionId>,
    instances: Vec<(NamespaceId, Name)>,
    lanes: Vec<GateId>,
    candidates: Vec<Candidates>,
    gates: Vec<GateId>,
    parts: Vec<GateId>,
    held: Vec<HeldBy>,
    /// Whether gates were locked, and their parts: after that no more are, which would be out of order.
    locked: (bool, bool),
    /// Whether gates may come, and whether what comes after them was asked for: after that no gate is.
    gated: (bool, bool),
    rounds: u8,
}

impl Loading {
    /// Gates may come: what is locked after them is kept back.
    pub fn expect_gates(&mut self) {
        self.gated.0 = true;
    }

    /// What to ask for first. What must come last is kept back where more executions may be locked.
    pub fn first(&mut self, mut needs: Needs, may_lock_more: bool) -> Needs {
        needs.only_new(&mut self.seen);
        if may_lock_more {
            self.flows = std::mem::take(&mut needs.flows);
            self.lanes = std::mem::take(&mut needs.lanes);
            self.candidates = std::mem::take(&mut needs.candidates);
        }
        self.gates = std::mem::take(&mut needs.gates);
        self.parts = std::mem::take(&mut needs.parts);
        self.held = std::mem::take(&mut needs.held);
        if self.gated.0 {
            self.flows.append(&mut needs.flows);
            self.sessions = std::mem::take(&mut needs.sessions_locked);
            self.instances = std::mem::take(&mut needs.instances);
        }
        if needs.is_empty() {
            // Nothing comes before what was kept back.
            return self.next(needs).unwrap_or_default();
        }
        needs
    }

    /// Whether an execution was asked for to be locked.
    pub fn locks(&self, id: ExecutionId) -> bool {
        let asked = |ids: &[ExecutionId]| ids.binary_search(&id).is_ok();
        asked(&self.seen.executions) || asked(&self.seen.executions_known)
    }

    /// Whether an execution was asked for only to be looked at.
    pub fn only_looks(&self, id: ExecutionId) -> bool {
        let asked = |ids: &[ExecutionId]| ids.binary_search(&id).is_ok();
        asked(&self.seen.look) && !self.locks(id) && !asked(&self.seen.executions_if_free)
    }

    /// What to ask for next, of what commands want now; none when everything was seen.
    pub fn next(&mut self, mut more: Needs) -> Option<Needs> {
        if self.rounds == 2 * ROUNDS {
            return None;
        }
        self.rounds += 1;
        more.only_new(&mut self.seen);
        self.flows.append(&mut more.flows);
        self.lanes.append(&mut more.lanes);
        self.candidates.append(&mut more.candidates);
        self.gates.append(&mut more.gates);
        self.parts.append(&mut more.parts);
        self.held.append(&mut more.held);
        let (gated, ends) = self.gated;
        if gated {
            self.sessions.append(&mut more.sessions_locked);
            self.instances.append(&mut more.instances);
        }
        if ends {
            // Only of rows that are looked at, and not changed.
            (self.gates, self.parts, self.held) = Default::default();
        }
        // What was kept for last is asked for in any case: whoever ends a lease must see the gates to which it gives back.
        if self.rounds > ROUNDS {
            more = Needs::default();
        }
        if more.is_empty() && !gated {
            more.flows = std::mem::take(&mut self.flows);
            more.flows.sort_unstable();
        }
        if more.is_empty() || !more.flows.is_empty() {
            more.lanes = std::mem::take(&mut self.lanes);
            more.lanes.sort_unstable();
            more.candidates = std::mem::take(&mut self.candidates);
        }
        let (gates_locked, parts_locked) = &mut self.locked;
        if more.is_empty() && !*gates_locked && !self.gates.is_empty() {
            more.gates = std::mem::take(&mut self.gates);
            more.gates.sort_unstable();
            *gates_locked = true;
        }
        if more.is_empty() && !*parts_locked && !self.parts.is_empty() {
            more.parts = std::mem::take(&mut self.parts);
            more.parts.sort_unstable();
            *parts_locked = true;
        }
        if more.is_empty() {
            more.held = std::mem::take(&mut self.held);
        }
        if more.is_empty() && gated {
            more.flows = std::mem::take(&mut self.flows);
            more.flows.sort_unstable();
            more.sessions_locked = std::mem::take(&mut self.sessions);
            more.instances = std::mem::take(&mut self.instances);
            self.gated.1 |= !more.is_empty();
        }
        (!more.is_empty()).then_some(more)
    }
}
