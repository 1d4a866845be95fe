//! Admission: whether an execution may start now, decided inside the claim's own transaction.
//!
//! The gates of an execution are locked when this is decided, so no number of servers passes a limit together. One that is
//! refused is held by the gate that refused it, and is out of the way of those behind it. Whoever gives something back to a
//! gate lets what it holds go on, in the same transaction and in order; what is left then, a reconciler finds.

use super::release::CHUNK;
use crate::execution::Slots;
use crate::fact::Fact;
use crate::gate::{Amounts, BudgetScope, Config, GateId, GateKind, GateName, Shut, add};
use crate::rows::{HeldBy, Needs};
use crate::state::State;
use crate::{ClassId, Execution, ExecutionId, Name, NamespaceId, Timestamp, Work};
use std::collections::{BTreeMap, BTreeSet};

/// How many of one fairness key a transaction looks at, and of how many keys together if these are many.
const LINE_CHUNK: u32 = 32;
const LINES_CHUNK: u32 = 1024;
/// How often a budget that holds something is looked at in any case.
pub(super) const BUDGET_LOOK_MS: i64 = 60_000;

/// Whether a time ever comes: a rate of nothing has room at the end of all times.
pub(super) fn comes(at: &Timestamp) -> bool {
    *at < Timestamp::from_micros(i64::MAX)
}

/// The lane, as a gate.
pub fn lane_gate(namespace: NamespaceId, lane: &Name) -> GateName {
    GateName::new(namespace, GateKind::Lane, lane.clone())
}

/// The line of an execution's fairness key, in its class.
pub fn fair_gate(row: &Execution) -> Option<GateName> {
    let key = row.spec.draws.fairness_key.as_ref()?;
    Some(line(row.namespace, row.class, key))
}

/// The line of a fairness key in a class.
pub fn line(namespace: NamespaceId, class: ClassId, key: &Name) -> GateName {
    GateName::new(namespace, GateKind::Fair, key.clone()).part(Name::trusted(&class.to_string()))
}

/// The key and the quotas of an execution, with a limit of its own where it has one.
fn slots_of(row: &Execution) -> impl Iterator<Item = (GateName, Option<u32>)> {
    let namespace = row.namespace;
    let key = row.spec.draws.concurrency.iter();
    let key =
        key.map(move |(key, limit)| (GateName::new(namespace, GateKind::Key, key.clone()), Some(*limit)));
    let quotas = row.spec.draws.quotas.iter();
    key.chain(quotas.map(move |name| (GateName::new(namespace, GateKind::Quota, name.clone()), None)))
}

/// A budget of an execution: as a whole, which has its configuration, and what of it counts for this execution.
struct Drawn<'a> {
    whole: GateName,
    part: Option<Name>,
    reserve: &'a Amounts,
}

impl Drawn<'_> {
    fn counted(&self) -> GateName {
        match &self.part {
            None => self.whole.clone(),
            Some(part) => self.whole.clone().part(part.clone()),
        }
    }
}

/// The budgets of an execution, as they are configured now.
fn budgets_of<'a>(row: &'a Execution, work: &Work) -> Vec<Drawn<'a>> {
    let drawn = |(name, reserve): &'a (Name, Amounts)| {
        let whole = GateName::new(row.namespace, GateKind::Budget, name.clone());
        let scope = work.gate(&whole).config.as_ref().map(|config| config.scope).unwrap_or_default();
        let part = part_of(row, scope, work);
        Drawn { whole, part, reserve }
    };
    row.spec.draws.budgets.iter().map(drawn).collect()
}

/// The part of a budget that counts for an execution.
pub fn part_of(row: &Execution, scope: BudgetScope, work: &Work) -> Option<Name> {
    match scope {
        BudgetScope::Namespace => None,
        BudgetScope::Flow => Some(Name::trusted(&row.flow().to_string())),
        BudgetScope::Lane => work.lane_of(row.class).cloned(),
    }
}

/// The budgets of which a claim has taken something, and how much it may spend.
fn reserved<'a>(row: &'a Execution, slots: &'a Slots) -> impl Iterator<Item = Drawn<'a>> {
    let budgets = row.spec.draws.budgets.iter().zip(&slots.parts);
    budgets.map(|((name, reserve), part)| Drawn {
        whole: GateName::new(row.namespace, GateKind::Budget, name.clone()),
        part: part.clone(),
        reserve,
    })
}

/// What a claim has taken of a gate: a slot, or what it may spend.
pub enum Taken<'a> {
    /// A slot.
    Slot(GateName),
    /// What it may spend.
    Reserve(GateName, &'a Amounts),
}

/// What a claim has taken.
pub fn taken<'a>(row: &'a Execution, slots: &'a Slots) -> Vec<Taken<'a>> {
    let lane = slots.lane.as_ref().map(|lane| Taken::Slot(lane_gate(row.namespace, lane)));
    let drawn = slots_of(row).filter(|_| slots.drawn).map(|(name, _)| Taken::Slot(name));
    let budgets = reserved(row, slots).map(|budget| Taken::Reserve(budget.counted(), budget.reserve));
    lane.into_iter().chain(drawn).chain(budgets).collect()
}

/// Whether all gates of an execution are here.
pub fn knows(row: &Execution, work: &Work) -> bool {
    fair_gate(row).is_none_or(|line| work.has_requested_gate(line.id()))
        && slots_of(row).all(|(name, _)| work.has_requested_gate(name.id()))
        && budgets_of(row, work).iter().all(|budget| {
            work.has_requested_gate(budget.whole.id()) && work.has_requested_gate(budget.counted().id())
        })
}

/// The gates of every loaded execution: those that a claim goes through, and those that the end of a lease opens, with as many
/// of the executions they hold as may then go on. Leaves out executions for which `skips` holds: nothing is taken for them or
/// given back.
pub fn needs(work: &Work, skips: impl Fn(ExecutionId) -> bool, needs: &mut Needs) {
    let mut opens: BTreeMap<GateId, u32> = BTreeMap::new();
    let mut lines: BTreeSet<GateId> = BTreeSet::new();
    for row in work.gated().filter(|row| !skips(row.id)) {
        if let Some(line) = fair_gate(row).filter(|_| row.state.outcome().is_none()) {
            needs.gates.lock([line.id()]);
            if row.state == State::Waiting && !work.has_asked_held(line.id()) {
                lines.insert(line.id());
            }
        }
        match &row.state {
            State::Waiting => {
                needs.gates.lock(slots_of(row).map(|(name, _)| name.id()));
                for budget in budgets_of(row, work) {
                    needs.gates.lock([budget.whole.id()]);
                    if budget.part.is_some() {
                        needs.parts.lock([budget.counted().id()]);
                    }
                }
            }
            State::Active(_) => {
                let slots = &row.detail.slots;
                needs.lanes.lock(slots.lane.as_ref().map(|lane| lane_gate(row.namespace, lane).id()));
                for (name, _) in slots_of(row).filter(|_| slots.drawn) {
                    needs.gates.lock([name.id()]);
                    *opens.entry(name.id()).or_default() += 1;
                }
                for budget in reserved(row, slots) {
                    needs.gates.lock([budget.whole.id()]);
                    if budget.part.is_some() {
                        needs.parts.lock([budget.counted().id()]);
                    }
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
    // As many as may be given back, rounded up, so that one more row at hand does not ask for another number.
    let asked = |gate: &GateId, held: &[HeldBy]| held.iter().any(|one| one.gate == *gate);
    let held =
        opens.into_iter().filter(|(gate, _)| work.may_be_held_by(*gate) && !work.has_asked_held(*gate));
    let held: Vec<_> = held.filter(|(gate, _)| !asked(gate, &needs.queries.held)).collect();
    needs.queries.held.extend(
        held.into_iter().map(|(gate, count)| HeldBy::first(gate, count.next_power_of_two().min(CHUNK))),
    );
}

/// Why an execution may not start now, and which gate says so. The lane aside, which the claim has asked before.
pub fn refuses(row: &Execution, work: &Work) -> Option<(GateName, Shut)> {
    let slot = slots_of(row).find_map(|(name, limit)| {
        let gate = work.gate(&name);
        let shut = match &gate.config {
            Some(config) => gate.refuses(config, limit, work.now()),
            None => gate.refuses(&Config::default(), limit, work.now()),
        };
        shut.map(|shut| (name, shut))
    });
    slot.or_else(|| {
        budgets_of(row, work).into_iter().find_map(|budget| {
            let whole = work.gate(&budget.whole);
            let limits = &whole.config.as_ref()?.limits;
            let why = work.gate(&budget.counted()).refuses_to_spend(limits, budget.reserve)?;
            Some((budget.counted(), Shut { why, until: None }))
        })
    })
}

/// When the first of these lanes has room again that has none because of its rate.
pub fn lanes_open_at(namespace: NamespaceId, lanes: &[Name], work: &Work) -> Option<Timestamp> {
    let opens = |lane: &Name| {
        let gate = work.gate(&lane_gate(namespace, lane));
        let config = gate.config.as_ref()?;
        gate.refuses(config, None, work.now())?.until
    };
    lanes.iter().filter_map(opens).min()
}

/// A gate refuses an execution: it is held.
pub fn hold(work: &mut Work, id: ExecutionId, name: GateName, shut: &Shut) {
    let shut_until = shut.until.filter(comes);
    let fact = Fact::Held { reason: shut.describe(&name), gate: name.clone(), until: shut_until };
    let until = match name.kind {
        // What opens a budget may be configured for all its parts at once.
        GateKind::Budget => Some(work.now().plus_ms(BUDGET_LOOK_MS)),
        GateKind::Lane | GateKind::Key | GateKind::Quota | GateKind::Fair => shut_until,
    };
    if let Some(until) = until {
        look_at(work, &name, until);
    }
    if let Ok(Some(row)) = work.find(id)
        && let Some(state) = work.gate(&name).holds(own_limit(row, &name), own_reserve(row, &name))
    {
        work.change_gate(&name, |gate| gate.state = state);
    }
    let gate = name.id();
    work.apply(id, fact, None, |row| row.state = State::Held(name.into()));
    work.put_held(gate, id);
}

/// A gate is to be looked at by this time.
pub(super) fn look_at(work: &mut Work, name: &GateName, by: Timestamp) {
    if work.gate(name).due_at.is_none_or(|at| at > by) {
        work.change_gate(name, |gate| gate.due_at = Some(by));
    }
}

/// A claim takes slots of everything that an execution goes through, and reserves what it may spend. Says what its row
/// remembers of that.
pub fn take(row: &Execution, lane: Option<&GateName>, work: &mut Work) -> Slots {
    let now = work.now();
    let budgets = budgets_of(row, work);
    let mut start = |name: &GateName| {
        work.change_gate(name, |gate| {
            gate.active += 1;
            if let Some(rate) = gate.config.as_ref().and_then(|config| config.rate) {
                gate.state.starts.start(rate, now);
            }
        });
    };
    slots_of(row).for_each(|(name, _)| start(&name));
    lane.into_iter().for_each(&mut start);
    for budget in &budgets {
        if !budget.reserve.is_empty() {
            work.change_gate(&budget.counted(), |gate| add(&mut gate.state.reserved, budget.reserve));
        }
    }
    Slots {
        lane: lane.map(|lane| lane.name.clone()),
        drawn: row.spec.draws.takes(),
        parts: budgets.into_iter().map(|budget| budget.part).collect(),
    }
}

/// The limit that an execution brings along for a gate.
pub(super) fn own_limit(row: &Execution, name: &GateName) -> Option<u32> {
    slots_of(row).find(|(drawn, _)| drawn == name).and_then(|(_, limit)| limit)
}

/// What an execution asks for of a budget.
pub(super) fn own_reserve<'a>(row: &'a Execution, name: &GateName) -> Option<&'a Amounts> {
    let budget = row.spec.draws.budgets.iter().find(|(budget, _)| *budget == name.name);
    budget.map(|(_, reserve)| reserve).filter(|_| name.kind == GateKind::Budget)
}

/// Whether a budget counts an execution elsewhere than where it is held, since its scope is another one by now.
pub(super) fn counts_elsewhere(row: &Execution, name: &GateName, scope: BudgetScope, work: &Work) -> bool {
    name.kind == GateKind::Budget
        && match scope {
            BudgetScope::Namespace => name.part.is_some(),
            BudgetScope::Flow => name.part != part_of(row, scope, work),
            BudgetScope::Lane => {
                // A lane that is called like its flow is nobody's.
                let of_flow = || name.part == part_of(row, BudgetScope::Flow, work);
                let lane = work.lane_of(row.class);
                name.part.is_none() || of_flow() || lane.is_some_and(|lane| name.part.as_ref() != Some(lane))
            }
        }
}
