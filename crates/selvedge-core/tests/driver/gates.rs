//! Gates that a transaction locks for the executions it has loaded.

use super::process::{LIMITED, Process};
use super::rules::{TestRule, claim, complete, report, task};
use super::table::{NAMESPACE, Table, active, execution, id, lane, name, run};
use selvedge_core::driver::Admission;
use selvedge_core::execution::{Slots, Spec};
use selvedge_core::gate::draws::lane_gate;
use selvedge_core::gate::{GateKind, GateName, RequiredGates};
use selvedge_core::rules::report::Op;
use selvedge_core::table::Access;
use selvedge_core::{Execution, FlowId, Gate, State};
use std::sync::Arc;
use uuid::Uuid;

fn key() -> GateName {
    GateName::new(NAMESPACE, GateKind::Key, name("key"))
}

/// Returns an active execution that has taken the only slot of the key, and a table with both.
fn gated() -> (Execution, Table) {
    let required_gates = RequiredGates { concurrency: Some((key().name, 1)), ..RequiredGates::default() };
    let mut row = Execution { spec: Arc::new(Spec { required_gates, ..Spec::default() }), ..active(1) };
    row.detail.slots = Slots { lane: None, drawn: true, parts: Vec::new() };
    let gate = Gate { version: 3, active: 1, ..Gate::new(key()) };
    let table = Table { gates: vec![gate], ..Table::of([row.clone()]) };
    (row, table)
}

/// Returns a process that expects gates.
fn expecting() -> Process {
    Process::with(Admission { gates: true, ..Admission::default() })
}

#[test]
fn a_report_that_ends_a_lease_locks_the_gates_to_which_it_gives_slots_back() {
    let (row, table) = gated();
    let run = run(&mut expecting().driver(vec![task(complete(&row))]), &table);
    assert_eq!(run.loads.iter().map(|(needs, _)| needs.gates.len()).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(run.loads[1].0.gates.with(Access::Lock), [key().id()]);
    // A gate without taken slots needs no row.
    assert_eq!(run.changes().gates.deleted, [(key().id(), 3)]);
}

#[test]
fn a_slot_that_is_given_back_releases_a_held_execution_which_a_waiting_claim_takes() {
    let (row, mut table) = gated();
    let held = Execution { spec: row.spec.clone(), ..execution(2, State::Held(key().into())) };
    table.executions.insert(held.id, held);
    (table.gates[0].state.holds, table.gates[0].state.most) = (true, Some(1));
    let process = expecting().waiting(claim("waiting", 1));
    let run = run(&mut process.driver(vec![task(complete(&row))]), &table);
    assert_eq!(run.loads_of(|needs| !needs.queries.held.is_empty()), [2], "after the gate");
    assert!(run.updated(id(2)).execution.state.lease().is_some());
    assert_eq!(process.waits(), 0);
    let (gate, _) = &run.changes().gates.updated[0];
    assert_eq!((&gate.name, gate.active), (&key(), 1));
}

#[test]
fn the_limited_lanes_of_a_transaction_are_locked_all_at_once() {
    let mut row = active(1);
    row.detail.slots.lane = Some(name("other"));
    let tasks = vec![task(complete(&row)), task(claim("instance", 1))];
    let run = run(&mut Process::with(LIMITED).driver(tasks), &Table::of([row]));
    let lanes = run.loads_of(|needs| !needs.lanes.is_empty());
    assert_eq!(lanes, [1], "the row names the lane to which a slot is given back");
    let mut expected = [lane(), lane_gate(NAMESPACE, &name("other")).id()];
    expected.sort_unstable();
    assert_eq!(run.loads[1].0.lanes.with(Access::Lock), expected);
    assert_eq!(run.updated(id(1)).expected_version, 7);
}

#[test]
fn a_report_that_keeps_its_lease_locks_no_gate() {
    let (row, table) = gated();
    let progress = report(&row, Op::Progress { percent: Some(1.0), message: None });
    let run = run(&mut expecting().driver(vec![task(progress)]), &table);
    assert!(run.loads_of(|needs| !needs.gates.is_empty()).is_empty());
    assert_eq!(run.updated(id(1)).expected_version, row.version);
}

#[test]
fn an_execution_that_was_read_without_a_lock_locks_no_gates() {
    let (_, table) = gated();
    let looks = TestRule::asking(|_, needs| needs.executions.read([id(1)]));
    let run = run(&mut expecting().driver(vec![task(looks)]), &table);
    assert!(run.loads_of(|needs| !needs.gates.is_empty()).is_empty());
}

#[test]
fn a_process_that_did_not_expect_gates_learns_of_them_and_locks_flows_after_them() {
    let (row, table) = gated();
    let flow = FlowId(Uuid::from_u128(5));
    let locks_flow = TestRule::asking(move |work, needs| {
        if work.is_loaded(id(1)) {
            needs.flows.lock([flow]);
        }
    });
    let process = Process::default();
    let run = run(&mut process.driver(vec![task(complete(&row)), task(locks_flow)]), &table);
    assert_eq!(
        (run.loads_of(|needs| !needs.gates.is_empty()), run.loads_of(|needs| !needs.flows.is_empty())),
        (vec![1], vec![2])
    );
    assert!(process.expects_gates());
}
