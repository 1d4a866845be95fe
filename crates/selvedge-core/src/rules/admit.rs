//! Admission: whether an execution may start now, decided inside the claim's own transaction.
//!
//! The gates of an execution are locked when this is decided, so no number of servers passes a limit together. One that is
//! refused is held by the gate that refused it, and is out of the way of those behind it. Whoever gives something back to a
//! gate lets what it holds go on, in the same transaction and in order; what is left then, a reconciler finds.

use super::claim::carried;
use super::suspend;
use crate::execution::Slots;
use crate::fact::{Fact, Notice};
use crate::gate::{Amounts, BudgetScope, GateId, GateKind, GateName, Shut, add};
use crate::rows::{HeldBy, Needs};
use crate::state::State;
use crate::suspension::{ResumedBy, Suspension};
use crate::{ClassId, Execution, ExecutionId, Name, NamespaceId, Timestamp, Work};
use std::collections::BTreeMap;

/// How many a gate lets go on in one transaction at most.
pub const CHUNK: u32 = 100;
/// How long a gate that is open and holds something is left to the transactions that change it.
const LOOK_AGAIN_MS: i64 = 1000;
/// How many of one fairness key a transaction looks at.
const LINE_CHUNK: u32 = 32;
/// How often a budget that holds something is looked at in any case.
const BUDGET_LOOK_MS: i64 = 60_000;

/// Whether a time ever comes: a rate of nothing has room at the end of all times.
fn comes(at: &Timestamp) -> bool {
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
        let scope = work.gate(&whole).config.map(|config| config.scope).unwrap_or_default();
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
    fair_gate(row).is_none_or(|line| work.knows_gate(line.id()))
        && slots_of(row).all(|(name, _)| work.knows_gate(name.id()))
        && budgets_of(row, work)
            .iter()
            .all(|budget| work.knows_gate(budget.whole.id()) && work.knows_gate(budget.counted().id()))
}

/// What to see of the gates of everything at hand: those that a claim goes through, and those that an end opens, with as many
/// of what they hold as may then go on.
pub fn needs(work: &Work, needs: &mut Needs) {
    needs_but(work, |_| false, needs);
}

/// The same, but for executions that are only looked at: nothing is taken for them or given back.
pub fn needs_but(work: &Work, looks: impl Fn(ExecutionId) -> bool, needs: &mut Needs) {
    let mut opens: BTreeMap<GateId, u32> = BTreeMap::new();
    for row in work.gated().filter(|row| !looks(row.id)) {
        if let Some(line) = fair_gate(row).filter(|_| row.state.outcome().is_none()) {
            needs.gates.push(line.id());
            if row.state == State::Ready && !work.has_asked_held(line.id()) {
                needs.held.push(HeldBy { gate: line.id(), limit: LINE_CHUNK });
            }
        }
        match &row.state {
            State::Ready => {
                needs.gates.extend(slots_of(row).map(|(name, _)| name.id()));
                for budget in budgets_of(row, work) {
                    needs.gates.push(budget.whole.id());
                    if budget.part.is_some() {
                        needs.parts.push(budget.counted().id());
                    }
                }
            }
            State::Leased(_) => {
                let slots = &row.detail.slots;
                needs.lanes.extend(slots.lane.as_ref().map(|lane| lane_gate(row.namespace, lane).id()));
                for (name, _) in slots_of(row).filter(|_| slots.drawn) {
                    needs.gates.push(name.id());
                    *opens.entry(name.id()).or_default() += 1;
                }
                for budget in reserved(row, slots) {
                    needs.gates.push(budget.whole.id());
                    if budget.part.is_some() {
                        needs.parts.push(budget.counted().id());
                    }
                    *opens.entry(budget.counted().id()).or_default() += 1;
                }
            }
            // One that may go on in this transaction may be claimed in it too, if its gates are here.
            State::Held(_) => {
                if work.input(row.id).is_none() {
                    needs.inputs.push(row.id);
                }
                carried(row.id, work, needs);
            }
            State::Blocked | State::Delayed { .. } | State::Suspended(_) | State::Terminal(_) => {}
        }
    }
    // As many as may be given back, rounded up, so that one more row at hand does not ask for another number.
    let held = opens.into_iter().filter(|(gate, _)| !work.has_asked_held(*gate));
    needs.held.extend(held.map(|(gate, count)| HeldBy { gate, limit: count.next_power_of_two().min(CHUNK) }));
}

/// The held executions at hand: those that may go on if what is expected of the others comes true, and their classes.
pub fn expected(work: &Work) -> Vec<(ExecutionId, ClassId)> {
    let held = work.gated().filter(|row| matches!(row.state, State::Held(_)));
    held.map(|row| (row.id, row.class)).collect()
}

/// Why an execution may not start now, and which gate says so. The lane aside, which the claim has asked before.
pub fn refuses(row: &Execution, work: &Work) -> Option<(GateName, Shut)> {
    let slot = slots_of(row).find_map(|(name, limit)| {
        let gate = work.gate(&name);
        let config = gate.config.clone().unwrap_or_default();
        gate.refuses(&config, limit, work.now()).map(|shut| (name, shut))
    });
    slot.or_else(|| {
        budgets_of(row, work).into_iter().find_map(|budget| {
            let limits = work.gate(&budget.whole).config?.limits;
            let why = work.gate(&budget.counted()).refuses_to_spend(&limits, budget.reserve)?;
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
    work.apply(id, fact, None, |row| row.state = State::Held(name.into()));
}

/// A gate is to be looked at by this time.
fn look_at(work: &mut Work, name: &GateName, by: Timestamp) {
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

/// Lets what is held by gates go on that this transaction has opened, as far as they have room. What was let go on before is
/// not counted again: it may be done more than once.
pub fn open(work: &mut Work) {
    let mut lines = Vec::new();
    for name in work.take_opened() {
        match name.kind {
            GateKind::Lane => {}
            GateKind::Fair => lines.push(name),
            GateKind::Key | GateKind::Quota | GateKind::Budget => drop(release(work, &name)),
        }
    }
    line_up(work, lines);
}

/// Of those with the same fairness key one at a time may be claimed, so that keys take turns. The others are held by their
/// line, which moves up when that one leaves it. Whatever has made one ready, it is in line before a claim can take it.
fn line_up(work: &mut Work, mut moved: Vec<GateName>) {
    for id in work.out_of_line() {
        let Ok(Some(row)) = work.find(id) else { continue };
        let Some(line) = fair_gate(row).filter(|line| work.knows_gate(line.id())) else { continue };
        let (class, new) = (row.class, work.is_changed(id));
        if new && work.gate(&line).active == 0 && !work.has_held(line.id()) {
            work.lead_line(id, &line);
            continue;
        }
        if !new {
            work.pass_over(class);
        }
        let reason = format!("another with its {line} comes first");
        let fact = Fact::Held { gate: line.clone(), reason, until: None };
        work.apply(id, fact, None, |row| row.state = State::Held(line.clone().into()));
        work.put_held(line.id(), id);
        moved.push(line);
    }
    moved.iter().for_each(|line| move_up(work, line));
}

/// The next of a line may be claimed, if none can be.
pub fn move_up(work: &mut Work, line: &GateName) {
    if work.gate(line).active > 0 {
        return;
    }
    let Some(id) = work.next_held(line.id()) else {
        // Somebody else has those that come next.
        if work.may_hold_more(line.id()) {
            look_at(work, line, work.now().plus_ms(LOOK_AGAIN_MS));
        }
        return;
    };
    work.apply(id, Fact::Admitted { gate: line.clone() }, None, |row| row.state = State::Ready);
    work.lead_line(id, line);
    // The last that is at hand stays, where there may be more: else nobody would be there to move up.
    if work.is_last_held(line.id()) {
        work.withhold(id);
    }
}

/// Lets what a gate holds go on, as far as it has room and as it is at hand. Says how many. What it still holds while it is
/// open is looked at again soon: what was let go may be waiting for a worker, and others need not wait for that. While it is
/// full nobody looks: whoever gives a slot back does.
pub fn release(work: &mut Work, name: &GateName) -> u32 {
    let now = work.now();
    let mut gate = work.gate(name);
    let whole = GateName { part: None, ..name.clone() };
    let config = work.gate(&whole).config.unwrap_or_default();
    let room = gate.room(&config, now).unwrap_or(CHUNK).min(CHUNK);
    let (mut released, mut full) = (0, room == 0);
    while released < room {
        let Some(id) = work.next_held(name.id()) else { break };
        let Ok(Some(row)) = work.find(id).map(|row| row.cloned()) else { continue };
        let own = slots_of(&row).find(|(drawn, _)| drawn == name).and_then(|(_, limit)| limit);
        let reserve = row.spec.draws.budgets.iter().find(|(budget, _)| *budget == name.name);
        let reserve = reserve.map(|(_, reserve)| reserve.clone()).filter(|_| name.kind == GateKind::Budget);
        let refused = own.is_some_and(|limit| gate.active + released >= limit)
            || (name.kind == GateKind::Budget
                && gate.refuses_to_spend(&config.limits, &reserve.clone().unwrap_or_default()).is_some());
        if refused {
            work.keep_held(name.id(), id);
            full = released == 0;
            break;
        }
        if let Some(reserve) = reserve {
            add(&mut gate.state.reserved, &reserve);
        }
        go_on(work, &row, name);
        released += 1;
    }
    let opens_at = config.rate.and_then(|rate| gate.state.starts.opens_at(rate, now));
    let look_again = match name.kind {
        GateKind::Budget if full => Some(now.plus_ms(BUDGET_LOOK_MS)),
        _ if full => opens_at.filter(comes),
        _ => Some(now.plus_ms(LOOK_AGAIN_MS)),
    };
    let look_again = look_again.filter(|_| work.may_hold_more(name.id()));
    let stops = gate.state.stops.then_some(now);
    let due_at = look_again.into_iter().chain(gate.state.resets_at).chain(stops).min();
    if due_at != gate.due_at {
        work.change_gate(name, |gate| gate.due_at = due_at);
    }
    released
}

/// What waits for a gate goes on: it is ready, or what suspended it is over.
fn go_on(work: &mut Work, row: &Execution, name: &GateName) {
    match &row.state {
        State::Suspended(suspension) => {
            let mut suspension = Suspension::clone(suspension);
            suspension.gate_opened(name);
            suspend::notice(work, row.id, suspension, (Notice::Gate, ResumedBy::Condition), None);
        }
        _ => {
            work.apply(row.id, Fact::Admitted { gate: name.clone() }, None, |row| row.state = State::Ready);
        }
    }
}

/// Look at a gate that may be open and hold something.
#[derive(Clone, Debug)]
pub struct LookAtGate {
    /// Which.
    pub gate: GateName,
    /// Whether what runs under a budget that is used up was stopped.
    pub stopped: bool,
    /// Whether to look before it is due.
    pub now: bool,
}

impl LookAtGate {
    /// What to see.
    pub fn needs(&self, needs: &mut Needs) {
        if self.gate.kind == GateKind::Budget && self.gate.part.is_some() {
            needs.gates.push(GateName { part: None, ..self.gate.clone() }.id());
            needs.parts.push(self.gate.id());
        } else {
            needs.gates.push(self.gate.id());
        }
        needs.held.push(HeldBy { gate: self.gate.id(), limit: CHUNK });
    }

    /// Lets go on what may, after the period was ended that is over. Says how many.
    pub fn decide(&self, work: &mut Work) -> u32 {
        let now = work.now();
        let gate = work.gate(&self.gate);
        if self.stopped && gate.state.stops {
            work.change_gate(&self.gate, |gate| gate.state.stops = false);
        }
        if !self.now && gate.due_at.is_none_or(|at| at > now) {
            return 0;
        }
        match self.gate.kind {
            GateKind::Lane | GateKind::Fair => {
                if gate.due_at.is_some() {
                    work.change_gate(&self.gate, |gate| gate.due_at = None);
                }
                let lines = Some(self.gate.clone()).filter(|name| name.kind == GateKind::Fair);
                lines.iter().for_each(|line| move_up(work, line));
                work.gate(&self.gate).active.saturating_sub(gate.active)
            }
            GateKind::Key | GateKind::Quota => release(work, &self.gate),
            GateKind::Budget => {
                super::budget::keep(&self.gate, work);
                release(work, &self.gate)
            }
        }
    }
}
