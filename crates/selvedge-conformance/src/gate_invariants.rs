//! The invariants of gates, checked over all rows of a store that is at rest.
//!
//! A gate counts exactly what runs through it: as many slots are taken as leased executions have taken, and as much is reserved
//! as these may spend. What a budget has used is what its ledger says of the period. Nothing is held without a way on: the gate
//! is full and somebody will give a slot back, or it is to be looked at. Of a line exactly one may be claimed.

use selvedge_core::execution::Slots;
use selvedge_core::gate::{Amounts, Gate, GateKind, GateName, HoldReason, add};
use selvedge_core::{Execution, ExecutionId, Name, State, Timestamp};
use selvedge_store::Store;
use std::collections::{BTreeMap, BTreeSet};

/// More of anything than a case has.
const ALL: u32 = 100_000;

/// What the rows say of a gate.
#[derive(Default)]
struct Counted<'a> {
    active: u32,
    reserved: Amounts,
    heads: u32,
    waiting: Vec<&'a Execution>,
}

/// What the rows say of each gate that one of them goes through.
type Gates<'a> = BTreeMap<GateName, Counted<'a>>;

/// What is wrong with the gates of a store.
pub(super) async fn check(store: &dyn Store, rows: &BTreeMap<ExecutionId, Execution>) -> Vec<String> {
    let mut broken = Vec::new();
    let mut counted: Gates = BTreeMap::new();
    for row in rows.values() {
        broken.extend(count(row, &mut counted).into_iter().map(|what| format!("{}: {what}", row.id)));
    }
    let stored = read_gates(store, counted.keys().cloned().collect()).await;
    let now = store.overview().await.expect("the store is looked at").now;
    for name in stored.keys().cloned().collect::<BTreeSet<_>>().union(&counted.keys().cloned().collect()) {
        let whole = stored.get(&GateName { part: None, ..name.clone() });
        let nothing = Counted::default();
        let counted = counted.get(name).unwrap_or(&nothing);
        let gate = stored.get(name).cloned().unwrap_or_else(|| Gate::new(name.clone()));
        let mut wrong = check_counts(&gate, counted);
        if name.kind == GateKind::Budget {
            wrong.extend(check_ledger(store, &gate).await);
        }
        let held = store.held_by(gate.id(), ALL.into()).await.expect("what is held is counted");
        if held != counted.waiting.len() as u64 {
            wrong.push(format!("{held} are found that wait for it, of {}", counted.waiting.len()));
        }
        wrong.extend(counted.waiting.iter().find_map(|row| check_way_on(&gate, whole, row, now)));
        if !counted.waiting.is_empty() && name.kind != GateKind::Fair && !gate.state.holds {
            wrong.push(format!("it holds {}, and does not know", counted.waiting.len()));
        }
        broken.extend(wrong.into_iter().map(|what| format!("{} {name}: {what}", name.kind.as_str())));
    }
    broken
}

/// The gates with these names, those that are configured, and all parts of budgets.
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

/// Adds a row to what its gates count. Says what is wrong with what it says of them.
fn count<'a>(row: &'a Execution, gates: &mut Gates<'a>) -> Vec<String> {
    let mut broken = Vec::new();
    let gate = |kind, name: &Name| GateName::new(row.namespace, kind, name.clone());
    let (draws, slots) = (&row.spec.draws, &row.detail.slots);
    let budget = |place: usize, part: Option<Name>| GateName {
        part,
        ..gate(GateKind::Budget, &draws.budgets[place].0)
    };
    let key = draws.concurrency.iter().map(|(key, _)| gate(GateKind::Key, key));
    let mut own: Vec<GateName> =
        key.chain(draws.quotas.iter().map(|name| gate(GateKind::Quota, name))).collect();
    for name in &own {
        gates.entry(name.clone()).or_default().active += u32::from(slots.drawn);
    }
    if let Some(lane) = &slots.lane {
        gates.entry(gate(GateKind::Lane, lane)).or_default().active += 1;
    }
    for (place, (_, reserve)) in draws.budgets.iter().enumerate() {
        own.push(budget(place, None));
        gates.entry(budget(place, None)).or_default();
        if let Some(part) = slots.parts.get(place) {
            add(&mut gates.entry(budget(place, part.clone())).or_default().reserved, reserve);
        }
    }
    if let Some(key) = &draws.fairness_key {
        let line = gate(GateKind::Fair, key).part(Name::trusted(&row.class.to_string()));
        gates.entry(line.clone()).or_default().heads += u32::from(row.detail.head.is_some());
        own.push(line);
    }
    if let Some(waits_for) = row.state.gate() {
        let part = |own: &GateName| {
            own.kind == GateKind::Budget && GateName { part: None, ..waits_for.clone() } == *own
        };
        if !own.iter().any(|own| own == waits_for || part(own)) {
            broken.push(format!("it waits for {waits_for}, on which it does not draw"));
        }
        let waiting = &mut gates.entry(waits_for.clone()).or_default().waiting;
        waiting.insert(waiting.partition_point(|other| other.claim_order() < row.claim_order()), row);
    }
    let leased = row.state.lease().is_some();
    let takes = draws.concurrency.is_some() || !draws.quotas.is_empty() || !draws.budgets.is_empty();
    if leased && (slots.drawn != takes || slots.parts.len() != draws.budgets.len()) {
        broken.push(format!("it runs, draws on {draws:?}, and has taken {slots:?}"));
    }
    if !leased && *slots != Slots::default() {
        broken.push(format!("it does not run, and has taken {slots:?}"));
    }
    if row.detail.head.is_some() && (row.state != State::Waiting || draws.fairness_key.is_none()) {
        broken.push(format!("it is {:?} and the first of a line", row.state));
    }
    if row.detail.head.is_some_and(|priority| priority != row.priority) {
        broken.push(format!("it has priority {}, and in its line {:?}", row.priority, row.detail.head));
    }
    broken
}

/// A gate counts what the rows say.
fn check_counts(gate: &Gate, counted: &Counted) -> Vec<String> {
    let mut broken = Vec::new();
    let active = match gate.name.kind {
        GateKind::Lane | GateKind::Key | GateKind::Quota => counted.active,
        GateKind::Fair => counted.heads,
        GateKind::Budget => 0,
    };
    if gate.active != active {
        broken.push(format!("{} slots are taken, and it counts {}", active, gate.active));
    }
    if counted.heads > 1 {
        broken.push(format!("{} may be claimed", counted.heads));
    }
    if gate.state.reserved != counted.reserved {
        broken.push(format!("{:?} is reserved, and it counts {:?}", counted.reserved, gate.state.reserved));
    }
    if gate.version > 0 && gate.is_empty() {
        broken.push("it is kept, and there is nothing in it".to_owned());
    }
    broken
}

/// What a budget has used is what was spent in its period.
async fn check_ledger(store: &dyn Store, gate: &Gate) -> Vec<String> {
    let mut spent = Amounts::new();
    let ledger = store.ledger(gate.id(), gate.state.period).await.expect("the ledger is read");
    ledger.iter().for_each(|entry| add(&mut spent, &entry.spent));
    match spent == gate.state.used {
        true => vec![],
        false => vec![format!("its ledger says {spent:?}, and it counts {:?}", gate.state.used)],
    }
}

/// What is held goes on by itself, unless only people can open the gate.
fn check_way_on(gate: &Gate, whole: Option<&Gate>, held: &Execution, now: Timestamp) -> Option<String> {
    let config = whole.and_then(|gate| gate.config.clone()).unwrap_or_default();
    let looked_at = gate.due_at.is_some();
    let own = held
        .spec
        .draws
        .concurrency
        .iter()
        .find(|(key, _)| gate.name.kind == GateKind::Key && *key == gate.name.name);
    let goes_on = match gate.name.kind {
        GateKind::Lane => false,
        GateKind::Fair => gate.active > 0 || looked_at,
        GateKind::Budget => looked_at,
        GateKind::Key | GateKind::Quota => {
            match gate.refuses(&config, own.map(|(_, limit)| *limit), now).map(|shut| shut.why) {
                Some(HoldReason::Concurrency { active, limit }) => active > 0 || limit == 0 || looked_at,
                Some(HoldReason::Rate(rate)) => looked_at || rate.count == 0,
                Some(HoldReason::Paused | HoldReason::Budget { .. }) | None => looked_at,
            }
        }
    };
    (!goes_on).then(|| format!("it holds {}, and nothing will let that go on: {gate:?}", held.id))
}
