//! Taking: a claim takes a slot in every gate that an execution draws on, and reserves its amounts.

use crate::execution::Slots;
use crate::gate::draws::{lane_gate, slots_of};
use crate::gate::{Config, GateName, Shut, add};
use crate::{Execution, Name, NamespaceId, Timestamp, Work};

/// Returns the gate that refuses an execution now, with the refusal; none if all gates admit it. Does not consider the
/// lane, which the claim checks first.
pub fn refusal(row: &Execution, work: &Work) -> Option<(GateName, Shut)> {
    let slot = slots_of(row).find_map(|(name, limit)| {
        let gate = work.gate(&name);
        let shut = match &gate.config {
            Some(config) => gate.refuses(config, limit, Some(row.id), work.now()),
            None => gate.refuses(&Config::default(), limit, Some(row.id), work.now()),
        };
        shut.map(|shut| (name, shut))
    });
    slot.or_else(|| {
        work.budgets_of(row).into_iter().find_map(|budget| {
            let whole = work.gate(&budget.whole);
            let limits = &whole.config.as_ref()?.limits;
            let gate = work.gate(&budget.counted());
            let why = gate.refuses_to_spend(limits, budget.reserve, Some(row.id), work.now())?;
            Some((budget.counted(), Shut { why, until: None }))
        })
    })
}

/// Returns the earliest time at which one of these lanes that has used up its rate has room again; none if no lane has.
pub fn lanes_open_at(namespace: NamespaceId, lanes: &[Name], work: &Work) -> Option<Timestamp> {
    let opens = |lane: &Name| {
        let gate = work.gate(&lane_gate(namespace, lane));
        let config = gate.config.as_ref()?;
        gate.refuses(config, None, None, work.now())?.until
    };
    lanes.iter().filter_map(opens).min()
}

/// Takes a slot in every gate that an execution draws on, and reserves its amounts. Returns the slots, which the row
/// keeps until they are given back.
pub fn take(row: &Execution, lane: Option<&GateName>, work: &mut Work) -> Slots {
    let now = work.now();
    let budgets = work.budgets_of(row);
    let mut start = |name: &GateName| {
        work.change_gate(name, |gate| {
            gate.active += 1;
            gate.end_promise(row.id);
            if let Some(rate) = gate.config.as_ref().and_then(|config| config.rate) {
                gate.state.starts.start(rate, now);
            }
        });
    };
    slots_of(row).for_each(|(name, _)| start(&name));
    lane.into_iter().for_each(&mut start);
    for budget in &budgets {
        let counted = budget.counted();
        if !budget.reserve.is_empty() || work.gate(&counted).has_promise(row.id) {
            work.change_gate(&counted, |gate| {
                add(&mut gate.state.reserved, budget.reserve);
                gate.end_promise(row.id);
            });
        }
    }
    Slots {
        lane: lane.map(|lane| lane.name.clone()),
        drawn: row.spec.required_gates.takes(),
        parts: budgets.into_iter().map(|budget| budget.part).collect(),
    }
}
