//! The invariants of gates, checked over all rows of a store without writers.
//!
//! The slots and amounts that a gate counts are those that active executions have taken and reserved. The usage of a budget is
//! the sum of its ledger in the current period. No execution is held for ever: its gate is full and an active execution will
//! give a slot back, or the gate is due for a check. Of a fairness line exactly one execution may be claimed.

use selvedge_core::execution::Slots;
use selvedge_core::gate::{Amounts, Gate, GateKind, GateName, HoldReason, add};
use selvedge_core::{Execution, ExecutionId, Name, State, Timestamp};
use selvedge_store::Store;
use std::collections::{BTreeMap, BTreeSet};

/// More rows than any case has.
const ALL: u32 = 100_000;

/// A gate as the rows of executions describe it.
#[derive(Default)]
struct Counted<'a> {
    active: u32,
    reserved: Amounts,
    heads: u32,
    waiting: Vec<&'a Execution>,
}

/// Every gate that an execution draws on, as the rows describe it.
type Gates<'a> = BTreeMap<GateName, Counted<'a>>;

/// Returns the violations in the gates of a store.
pub(super) async fn check(store: &dyn Store, rows: &BTreeMap<ExecutionId, Execution>) -> Vec<String> {
    let mut violations = Vec::new();
    let mut counted: Gates = BTreeMap::new();
    for row in rows.values() {
        violations.extend(count(row, &mut counted).into_iter().map(|what| format!("{}: {what}", row.id)));
    }
    let stored = read_gates(store, counted.keys().cloned().collect()).await;
    let now = store.now().await.expect("the time is read");
    for name in stored.keys().cloned().collect::<BTreeSet<_>>().union(&counted.keys().cloned().collect()) {
        let whole = stored.get(&GateName { part: None, ..name.clone() });
        let nothing = Counted::default();
        let counted = counted.get(name).unwrap_or(&nothing);
        let gate = stored.get(name).cloned().unwrap_or_else(|| Gate::new(name.clone()));
        let mut wrong = check_counts(&gate, counted);
        if name.kind == GateKind::Budget {
            wrong.extend(check_ledger(store, &gate).await);
        }
        let held = store.held_by(gate.id(), ALL.into()).await.expect("held executions are counted");
        if held != counted.waiting.len() as u64 {
            wrong.push(format!(
                "the store finds {held} of {} executions that wait for it",
                counted.waiting.len()
            ));
        }
        wrong.extend(counted.waiting.iter().find_map(|row| check_release(&gate, whole, row, now)));
        if !counted.waiting.is_empty() && name.kind != GateKind::Fair && !gate.state.holds {
            wrong.push(format!(
                "it holds {} executions and is not marked as holding any",
                counted.waiting.len()
            ));
        }
        violations.extend(wrong.into_iter().map(|what| format!("{} {name}: {what}", name.kind.as_str())));
    }
    violations
}

/// Returns the gates with these names, all configured gates, and all parts of budgets.
async fn read_gates(store: &dyn Store, names: Vec<GateName>) -> BTreeMap<GateName, Gate> {
    let ids: Vec<_> = names.iter().map(GateName::id).collect();
    let mut gates = store.fetch_gates(&ids).await.expect("gates are read");
    for (namespace, _) in store.namespaces().await.expect("namespaces are read") {
        for kind in GateKind::ALL {
            gates.extend(store.list_gates(namespace, kind, None, ALL).await.expect("gates are listed"));
        }
    }
    let budgets =
        gates.iter().map(|gate| &gate.name).chain(&names).filter(|one| one.kind == GateKind::Budget);
    let wholes: BTreeSet<GateName> = budgets.map(|name| GateName { part: None, ..name.clone() }).collect();
    for whole in wholes {
        gates.extend(store.parts_of(&whole, ALL).await.expect("parts are read"));
    }
    gates.into_iter().map(|gate| (gate.name.clone(), gate)).collect()
}

/// Adds a row to the gates that it draws on. Returns the violations within the row.
fn count<'a>(row: &'a Execution, gates: &mut Gates<'a>) -> Vec<String> {
    let mut violations = Vec::new();
    let gate = |kind, name: &Name| GateName::new(row.namespace, kind, name.clone());
    let (required_gates, slots) = (&row.spec.required_gates, &row.detail.slots);
    let budget = |place: usize, part: Option<Name>| GateName {
        part,
        ..gate(GateKind::Budget, &required_gates.budgets[place].0)
    };
    let key = required_gates.concurrency.iter().map(|(key, _)| gate(GateKind::Key, key));
    let mut own: Vec<GateName> =
        key.chain(required_gates.quotas.iter().map(|name| gate(GateKind::Quota, name))).collect();
    for name in &own {
        gates.entry(name.clone()).or_default().active += u32::from(slots.drawn);
    }
    if let Some(lane) = &slots.lane {
        gates.entry(gate(GateKind::Lane, lane)).or_default().active += 1;
    }
    for (place, (_, reserve)) in required_gates.budgets.iter().enumerate() {
        own.push(budget(place, None));
        gates.entry(budget(place, None)).or_default();
        if let Some(part) = slots.parts.get(place) {
            add(&mut gates.entry(budget(place, part.clone())).or_default().reserved, reserve);
        }
    }
    if let Some(key) = &required_gates.fairness_key {
        let line = gate(GateKind::Fair, key).part(Name::trusted(&row.class.to_string()));
        gates.entry(line.clone()).or_default().heads += u32::from(row.detail.own_priority.is_some());
        own.push(line);
    }
    if let Some(waits_for) = row.state.gate() {
        let part = |own: &GateName| {
            own.kind == GateKind::Budget && GateName { part: None, ..waits_for.clone() } == *own
        };
        if !own.iter().any(|own| own == waits_for || part(own)) {
            violations.push(format!("it waits for gate {waits_for}, on which it does not draw"));
        }
        let waiting = &mut gates.entry(waits_for.clone()).or_default().waiting;
        waiting.insert(waiting.partition_point(|other| other.claim_order() < row.claim_order()), row);
    }
    let leased = row.state.lease().is_some();
    let takes = required_gates.concurrency.is_some()
        || !required_gates.quotas.is_empty()
        || !required_gates.budgets.is_empty();
    if leased && (slots.drawn != takes || slots.parts.len() != required_gates.budgets.len()) {
        violations.push(format!("it is active, draws on {required_gates:?}, and has taken {slots:?}"));
    }
    if !leased && *slots != Slots::default() {
        violations.push(format!("it is not active and has taken {slots:?}"));
    }
    if row.detail.own_priority.is_some()
        && (row.state != State::Waiting || required_gates.fairness_key.is_none())
    {
        violations.push(format!("its state is {:?} and it is the head of a fairness line", row.state));
    }
    if row.detail.own_priority.is_some_and(|priority| priority != row.priority) {
        violations
            .push(format!("its priority is {}, and as a head {:?}", row.priority, row.detail.own_priority));
    }
    violations
}

/// Checks that a gate counts what the rows have taken and reserved.
fn check_counts(gate: &Gate, counted: &Counted) -> Vec<String> {
    let mut violations = Vec::new();
    let active = match gate.name.kind {
        GateKind::Lane | GateKind::Key | GateKind::Quota => counted.active,
        GateKind::Fair => counted.heads,
        GateKind::Budget => 0,
    };
    if gate.active != active {
        violations.push(format!("{} slots are taken, and it counts {}", active, gate.active));
    }
    if counted.heads > 1 {
        violations.push(format!("{} heads may be claimed", counted.heads));
    }
    if gate.state.reserved != counted.reserved {
        violations
            .push(format!("{:?} is reserved, and it counts {:?}", counted.reserved, gate.state.reserved));
    }
    if gate.version > 0 && gate.is_empty() {
        violations.push("it has a row, and the row is empty".to_owned());
    }
    violations
}

/// Checks that the usage of a budget is the sum of its ledger in the current period.
async fn check_ledger(store: &dyn Store, gate: &Gate) -> Vec<String> {
    let mut spent = Amounts::new();
    let ledger = store.ledger(gate.id(), gate.state.period).await.expect("the ledger is read");
    ledger.iter().for_each(|entry| add(&mut spent, &entry.spent));
    match spent == gate.state.used {
        true => vec![],
        false => vec![format!("its ledger sums to {spent:?}, and it counts {:?}", gate.state.used)],
    }
}

/// Checks that a held execution will be released without an operator, unless only an operator can open the gate.
fn check_release(gate: &Gate, whole: Option<&Gate>, held: &Execution, now: Timestamp) -> Option<String> {
    let config = whole.and_then(|gate| gate.config.clone()).unwrap_or_default();
    let is_due = gate.due_at.is_some();
    let own = held
        .spec
        .required_gates
        .concurrency
        .iter()
        .find(|(key, _)| gate.name.kind == GateKind::Key && *key == gate.name.name);
    let is_released = match gate.name.kind {
        GateKind::Lane => false,
        GateKind::Fair => gate.active > 0 || is_due,
        GateKind::Budget => is_due,
        GateKind::Key | GateKind::Quota => {
            match gate.refuses(&config, own.map(|(_, limit)| *limit), Some(held.id), now).map(|shut| shut.why)
            {
                Some(HoldReason::Concurrency { active, promised: 0, limit }) => {
                    active > 0 || limit == 0 || is_due
                }
                // An execution to which a slot is promised may never start.
                Some(HoldReason::Concurrency { .. }) => is_due,
                Some(HoldReason::Rate(rate)) => is_due || rate.count == 0,
                Some(HoldReason::Paused | HoldReason::Counting | HoldReason::Budget { .. }) | None => is_due,
            }
        }
    };
    (!is_released).then(|| format!("it holds {}, and nothing will release that execution: {gate:?}", held.id))
}
