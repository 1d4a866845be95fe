//! The gates that a transaction loads for its executions.

use super::release::CHUNK;
use crate::gate::draws::{BudgetDraw, fairness_line_of, lane_gate, reserved, slots_of};
use crate::gate::{GateId, GateName};
use crate::rows::{HeldBy, Needs};
use crate::state::State;
use crate::{ExecutionId, Work};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of executions of one fairness line that a transaction loads.
const LINE_CHUNK: u32 = 32;
/// Maximum number of executions of all fairness lines together that a transaction loads, except that it loads at least
/// two of each.
const LINES_CHUNK: u32 = 1024;

/// Asks for the gates of every loaded execution: the gates from which a claim takes, and those to which the end of a
/// lease gives back, with as many held executions as may then be released. Leaves out executions for which `skips`
/// returns true: nothing is taken or given back for them.
pub fn needs(work: &Work, skips: impl Fn(ExecutionId) -> bool, needs: &mut Needs) {
    let mut opens: BTreeMap<GateId, u32> = BTreeMap::new();
    let mut lines: BTreeSet<GateId> = BTreeSet::new();
    for row in work.gated().filter(|row| !skips(row.id)) {
        if let Some(line) = fairness_line_of(row).filter(|_| row.state.outcome().is_none()) {
            needs.gates.lock([line.id()]);
            if row.state == State::Waiting && !work.has_requested_held(line.id()) {
                lines.insert(line.id());
            }
        }
        match &row.state {
            State::Waiting => {
                needs.gates.lock(slots_of(row).map(|(name, _)| name.id()));
                work.budgets_of(row).iter().for_each(|budget| lock_budget(budget, needs));
            }
            State::Active(_) => {
                let slots = &row.detail.slots;
                needs.lanes.lock(slots.lane.as_ref().map(|lane| lane_gate(row.namespace, lane).id()));
                for (name, _) in slots_of(row).filter(|_| slots.drawn) {
                    needs.gates.lock([name.id()]);
                    *opens.entry(name.id()).or_default() += 1;
                }
                for budget in reserved(row, slots) {
                    lock_budget(&budget, needs);
                    *opens.entry(budget.counted().id()).or_default() += 1;
                }
            }
            State::Held(_)
            | State::WaitingDependencies
            | State::Delayed { .. }
            | State::Suspended(_)
            | State::Terminal(_) => {}
        }
    }
    let of_each = (LINES_CHUNK / lines.len().max(1) as u32).clamp(2, LINE_CHUNK);
    needs.queries.held.extend(lines.into_iter().map(|line| HeldBy::first(line, of_each)));
    // As many held executions as slots may be given back, rounded up, so that one more loaded row does not cause a
    // request with another limit.
    let asked = |gate: &GateId, held: &[HeldBy]| held.iter().any(|one| one.gate == *gate);
    let held = opens.into_iter().filter(|(gate, _)| work.may_hold(*gate) && !work.has_requested_held(*gate));
    let held: Vec<_> = held.filter(|(gate, _)| !asked(gate, &needs.queries.held)).collect();
    needs.queries.held.extend(
        held.into_iter().map(|(gate, count)| HeldBy::first(gate, count.next_power_of_two().min(CHUNK))),
    );
}

/// Asks for a budget, and for the part that counts for the execution.
fn lock_budget(budget: &BudgetDraw<'_>, needs: &mut Needs) {
    needs.gates.lock([budget.whole.id()]);
    if budget.part.is_some() {
        needs.parts.lock([budget.counted().id()]);
    }
}

/// Asks for a gate by name and, if it is a part, for the whole gate.
pub fn lock_gate(name: &GateName, needs: &mut Needs) {
    needs.gates.lock([super::whole(name).id()]);
    if name.part.is_some() {
        needs.parts.lock([name.id()]);
    }
}
