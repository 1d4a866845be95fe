//! Checking: a reconciler or an operator checks a gate that may be open and hold executions.

use super::machine::{GateStanding, Occasion, PageStart, Response, response};
use super::{CHUNK, budget, lock_gate, move_up, release};
use crate::Work;
use crate::gate::{GateKind, GateName};
use crate::rows::{HeldBy, Needs};
use crate::rule::{Phase, Profile, Rule};

/// Checks a gate that may be open and hold executions.
#[derive(Clone, Debug)]
pub struct CheckGate {
    pub gate: GateName,
    /// The active executions of a used-up budget were stopped before this check.
    pub stopped: bool,
    /// Check the gate even if it is not due.
    pub now: bool,
}

impl Rule for CheckGate {
    type Reply = GateChecked;
    const PHASE: Phase = Phase::Operators;

    fn profile(&self) -> Profile {
        Profile::weighing(32)
    }

    /// Locks the gate; then the executions that it holds, from where the last scan ended.
    fn needs(&self, work: &Work, needs: &mut Needs) {
        if self.gate.kind == GateKind::Budget {
            lock_gate(&self.gate, needs);
        } else {
            needs.gates.lock([self.gate.id()]);
        }
        let id = self.gate.id();
        if work.has_requested_gate(id) && !work.has_requested_held(id) {
            let state = &work.gate(&self.gate).state;
            let after = match response(GateStanding::of(state), Occasion::Tick) {
                Response::Page { start: PageStart::Scan, .. } => state.looked.map(|looked| looked.after),
                Response::Page { .. } | Response::Hold(_) => None,
            };
            needs.queries.held.push(HeldBy { gate: id, limit: CHUNK, after });
        }
    }

    /// Brings the period of a budget up to date, and releases held executions.
    fn decide(&self, work: &mut Work) -> GateChecked {
        let now = work.now();
        let gate = work.gate(&self.gate).into_owned();
        if self.stopped && gate.state.stops {
            work.change_gate(&self.gate, |gate| gate.state.stops = false);
        }
        if !self.now && gate.due_at.is_none_or(|at| at > now) {
            return GateChecked::default();
        }
        let released = match self.gate.kind {
            // A reconciler counts the active executions; it is not done here.
            GateKind::Lane if gate.state.adoption.is_some() => 0,
            GateKind::Lane | GateKind::Fair => {
                if gate.due_at.is_some() {
                    work.change_gate(&self.gate, |gate| gate.due_at = None);
                }
                if self.gate.kind == GateKind::Fair {
                    move_up(work, &self.gate);
                }
                work.gate(&self.gate).active.saturating_sub(gate.active)
            }
            GateKind::Key | GateKind::Quota => release(work, &self.gate, Occasion::Tick),
            GateKind::Budget => {
                budget::update_period(&self.gate, work);
                release(work, &self.gate, Occasion::Tick)
            }
        };
        GateChecked { released, goes_on: work.gate(&self.gate).state.looked.is_some() }
    }
}

/// The result of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GateChecked {
    /// Number of executions released.
    pub released: u32,
    /// The scan is not finished: check again at once.
    pub goes_on: bool,
}
