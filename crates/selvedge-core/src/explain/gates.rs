//! Reasons that lie with gates. All gates that an execution draws on are asked, whether a claim has met them or not,
//! and each is asked for all its limits.

use super::workers::able_in_words;
use super::{Code, ExplainContext, Reason, Reference, state_in_words};
use crate::gate::draws::{Taken, budgets_of, lane_gate, own_limit, own_reserve, part_of, slots_of, taken};
use crate::gate::{GateKind, GateName, HoldReason, Shut};
use crate::{Execution, State, Timestamp};

/// The most executions named as holders of one gate.
const HOLDERS_MAX: usize = 10;

/// Explains why the gate that holds an execution, or for which it is suspended, does not release it.
pub(super) fn holding(row: &Execution, around: &ExplainContext<'_>) -> Vec<Reason> {
    let Some(name) = row.state.gate() else { return Vec::new() };
    let refused = match name.kind {
        GateKind::Fair => line(row, name, around),
        GateKind::Lane | GateKind::Key | GateKind::Quota | GateKind::Budget => refused(row, name, around),
    };
    if !refused.is_empty() {
        return refused;
    }
    let message = format!("{name} has room again and will release it in order");
    vec![Reason::new(Code::GateOpen, message).about(Reference::gate(name))]
}

/// Explains which of the other gates would refuse the execution now: its lane, its concurrency key, its quotas and its
/// budgets.
pub(super) fn drawn(row: &Execution, around: &ExplainContext<'_>) -> Vec<Reason> {
    let lane = lane_gate(row.namespace, &around.class.lane);
    let slots = slots_of(row).map(|(name, _)| name);
    let budgets = budgets_of(row, |whole| {
        let scope = around.gate(whole).config.map(|config| config.scope).unwrap_or_default();
        part_of(row, scope, Some(&around.class.lane))
    });
    let budgets = budgets.into_iter().map(|budget| budget.counted());
    let names = [lane].into_iter().chain(slots).chain(budgets);
    let others = names.filter(|name| row.state.gate() != Some(name));
    others.flat_map(|name| refused(row, &name, around)).collect()
}

/// Explains the place of an execution in its fairness line: names the head, and whether a worker could run it. Empty if
/// the line has no head, so that the next execution is about to move up.
fn line(row: &Execution, name: &GateName, around: &ExplainContext<'_>) -> Vec<Reason> {
    if around.gate(name).active == 0 {
        return Vec::new();
    }
    let turn = |message| Reason::new(Code::FairnessTurn, message).about(Reference::gate(name));
    let Some(head) = around.head else {
        return vec![turn(format!("another execution comes before it in {name}"))];
    };
    let (id, state) = (head.id, state_in_words(head.state.name()));
    // The executions of a line are of one class, so the same workers can run all of them.
    let workers = able_in_words(row, around);
    let message = format!("execution {id} is at the head of {name}: it is {state}, and {workers}");
    vec![
        turn(format!("execution {id} comes before it in {name}")),
        Reason::new(Code::LineHead, message).about(Reference::execution(id)),
    ]
}

/// Explains why a gate refuses an execution now, with the holders of its slots if the end of one of them would free
/// room. Empty if the gate would admit it.
fn refused(row: &Execution, name: &GateName, around: &ExplainContext<'_>) -> Vec<Reason> {
    let refusals = refusals(row, name, around);
    let mut reasons: Vec<Reason> = refusals.iter().map(|shut| refusal(name, shut)).collect();
    if refusals.iter().any(|shut| is_freed_by_an_end(&shut.why)) {
        reasons.extend(holders(row, name, around));
    }
    reasons
}

/// Returns all limits of a gate because of which it refuses an execution now.
fn refusals(row: &Execution, name: &GateName, around: &ExplainContext<'_>) -> Vec<Shut> {
    let whole = around.gate(&GateName { part: None, ..name.clone() });
    let (gate, config) = (around.gate(name), whole.config.unwrap_or_default());
    match name.kind {
        GateKind::Lane | GateKind::Quota | GateKind::Key => {
            gate.refusals(&config, own_limit(row, name), Some(row.id), around.now).collect()
        }
        GateKind::Budget => {
            let reserve = own_reserve(row, name).cloned().unwrap_or_default();
            let refusals = gate.refusals_to_spend(&config.limits, &reserve, Some(row.id), around.now);
            refusals.map(|why| Shut { why, until: gate.state.resets_at }).collect()
        }
        GateKind::Fair => Vec::new(),
    }
}

/// Returns the reason of one refusal. A limit that no time lifts has none: a rate of zero, a hard limit of zero, and a
/// reserve above the hard limit.
fn refusal(name: &GateName, shut: &Shut) -> Reason {
    let finite = shut.until.filter(|until| *until < Timestamp::from_micros(i64::MAX));
    let (code, message, until) = match &shut.why {
        HoldReason::Paused => (Code::LanePaused, shut.describe(name), None),
        HoldReason::Counting => (Code::LaneCounting, shut.describe(name), None),
        HoldReason::Concurrency { .. } => (Code::ConcurrencyLimit, shut.describe(name), None),
        HoldReason::Rate(_) => (Code::RateLimit, shut.describe(name), finite),
        HoldReason::Budget { wanted, hard, .. } if wanted > hard => {
            (Code::ReserveExceedsLimit, shut.describe(name), None)
        }
        HoldReason::Budget { hard, .. } => {
            (Code::BudgetLimit, shut.describe(name), finite.filter(|_| !hard.is_zero()))
        }
    };
    Reason::new(code, message).about(Reference::gate(name)).until(until)
}

/// Reports whether the end of an active execution may lift this refusal.
fn is_freed_by_an_end(why: &HoldReason) -> bool {
    match why {
        HoldReason::Concurrency { .. } => true,
        HoldReason::Budget { wanted, hard, .. } => wanted <= hard,
        HoldReason::Paused | HoldReason::Counting | HoldReason::Rate(_) => false,
    }
}

/// Names the active executions that have slots or reserves of a gate, if the execution could be claimed otherwise.
fn holders(row: &Execution, name: &GateName, around: &ExplainContext<'_>) -> Vec<Reason> {
    if !matches!(row.state, State::Waiting | State::Held(_)) {
        return Vec::new();
    }
    let what = match name.kind {
        GateKind::Budget => "has reserved an amount of",
        GateKind::Lane | GateKind::Key | GateKind::Quota | GateKind::Fair => "has a slot of",
    };
    let holders = around.running.iter().filter(|one| holds(one, name));
    let holders = holders.filter_map(|one| Some((one.id, one.state.lease()?))).take(HOLDERS_MAX);
    let named = holders.map(|(id, lease)| {
        let (worker, instance) = (&lease.worker, &lease.instance);
        let message = format!("execution {id} {what} {name}; worker {worker} (instance {instance}) runs it");
        Reason::new(Code::Holder, message).about(Reference::execution(id))
    });
    named.collect()
}

/// Reports whether the claim of an active execution took a slot or reserved an amount of a gate.
fn holds(row: &Execution, name: &GateName) -> bool {
    taken(row, &row.detail.slots).iter().any(|taken| match taken {
        Taken::Slot(of) => of == name,
        Taken::Reserve(of, reserve) => of == name && !reserve.is_empty(),
    })
}
