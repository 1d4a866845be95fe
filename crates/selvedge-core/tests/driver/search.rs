//! The search of claims for waiting executions, past those that they cannot take.

use super::process::Process;
use super::rules::{claim, task};
use super::table::{CLASS, NAMESPACE, Table, class, execution, id, name, run};
use selvedge_core::driver::{Admission, Host};
use selvedge_core::execution::Spec;
use selvedge_core::gate::draws::{fairness_line, lane_gate};
use selvedge_core::gate::{Config, GateKind, GateName, RequiredGates};
use selvedge_core::rows::Candidates;
use selvedge_core::rules::claim::Claim;
use selvedge_core::state::StateName;
use selvedge_core::{ClaimScope, Class, ClassId, Execution, Gate, State};
use std::collections::BTreeSet;
use std::sync::Arc;

fn waiting(number: u128) -> Execution {
    execution(number, State::Waiting)
}

#[test]
fn a_claim_searches_past_unreadable_candidates_and_further_each_time() {
    let unreadable = BTreeSet::from([1, 2, 3].map(id));
    let table = Table { unreadable, ..Table::of([1, 2, 3, 4].map(waiting)) };
    let process = Process::default();
    let run = run(&mut process.driver(vec![task(claim("instance", 1))]), &table);
    let searches = run.loads_of(|needs| !needs.queries.candidates.is_empty());
    let asked = |load: &usize| {
        let (needs, _) = &run.loads[*load];
        (needs.queries.candidates[0].limit, needs.queries.except.clone())
    };
    let asked: Vec<_> = searches.iter().map(asked).collect();
    assert_eq!(asked, [(1, vec![]), (2, vec![id(1)]), (4, vec![id(1), id(2), id(3)])]);
    assert!(run.updated(id(4)).execution.state.lease().is_some());
    assert_eq!(run.changes().executions.updated.len(), 1, "the unreadable ones are left unchanged");
    assert_eq!(process.unreadable(), [1, 2, 3].map(id));
}

/// Returns a waiting execution that requires a full concurrency key, and the fairness key if one is given.
fn refused(number: u128, fairness_key: Option<&str>) -> Execution {
    let concurrency = Some((full().name.name, 1));
    requiring(
        number,
        RequiredGates { concurrency, fairness_key: fairness_key.map(name), ..RequiredGates::default() },
    )
}

fn requiring(number: u128, required_gates: RequiredGates) -> Execution {
    Execution { spec: Arc::new(Spec { required_gates, ..Spec::default() }), ..waiting(number) }
}

/// Returns the concurrency key whose only slot is taken.
fn full() -> Gate {
    let key = GateName::new(NAMESPACE, GateKind::Key, name("full"));
    Gate { version: 3, active: 1, ..Gate::new(key) }
}

/// Returns a process that expects gates.
fn expecting() -> Process {
    Process::with(Admission { gates: true, ..Admission::default() })
}

#[test]
fn a_claim_searches_past_a_candidate_that_a_gate_refuses_and_holds() {
    let table = Table { gates: vec![full()], ..Table::of([refused(1, None), waiting(2), waiting(3)]) };
    let process = expecting();
    let run = run(&mut process.driver(vec![task(claim("instance", 1))]), &table);
    let searches = run.loads_of(|needs| !needs.queries.candidates.is_empty());
    let limits: Vec<_> = searches.iter().map(|load| run.loads[*load].0.queries.candidates[0].limit).collect();
    assert_eq!(limits, [1, 2], "it searches further each time");
    assert_eq!(run.loads[searches[1]].0.queries.except, [id(1)]);
    let states: Vec<_> = run
        .changes()
        .executions
        .updated
        .iter()
        .map(|row| (row.execution.id, row.execution.state.name()))
        .collect();
    assert_eq!(states, [(id(1), StateName::Held), (id(2), StateName::Active)]);
}

#[test]
fn an_execution_with_a_gate_behind_an_unreadable_one_is_claimed() {
    let open = RequiredGates { concurrency: Some((name("open"), 1)), ..RequiredGates::default() };
    let table = Table { unreadable: BTreeSet::from([id(1)]), ..Table::of([waiting(1), requiring(2, open)]) };
    let run = run(&mut expecting().driver(vec![task(claim("instance", 1))]), &table);
    assert!(run.updated(id(2)).execution.state.lease().is_some());
}

#[test]
fn a_candidate_found_after_its_fairness_line_was_read_is_left_to_the_next_claim() {
    let mut first = refused(1, Some("key"));
    first.detail.own_priority = Some(0);
    let second = requiring(2, RequiredGates { fairness_key: Some(name("key")), ..RequiredGates::default() });
    let line = Gate { version: 3, active: 1, ..Gate::new(fairness_line(NAMESPACE, CLASS, &name("key"))) };
    let table = Table { gates: vec![full(), line], ..Table::of([first, second]) };
    let run = run(&mut expecting().driver(vec![task(claim("instance", 1))]), &table);
    assert_eq!(run.loads_of(|needs| !needs.queries.candidates.is_empty()).len(), 2);
    assert_eq!(run.changes().executions.updated.len(), 1);
    assert_eq!(run.updated(id(1)).execution.state.name(), StateName::Held);
}

#[test]
fn claims_of_the_same_class_do_not_take_from_each_other() {
    let other = ClassId(2);
    let process = Process::default();
    process.learn_classes(vec![(other, Class { kind: name("other"), ..class() })]);
    let of_one_kind = |instance| {
        let claim = claim(instance, 1);
        Claim { scope: ClaimScope { kinds: Some(vec![class().kind]), ..claim.scope.clone() }, ..claim }
    };
    let mut driver = process.driver(vec![task(claim("any", 1)), task(of_one_kind("one"))]);
    let run = run(&mut driver, &Table::of([waiting(1), waiting(2)]));
    let asked = run.loads_of(|needs| !needs.queries.candidates.is_empty());
    let each = |classes| Candidates { classes, limit: 2 };
    assert_eq!(asked.len(), 1);
    assert_eq!(run.loads[asked[0]].0.queries.candidates, [each(vec![CLASS, other]), each(vec![CLASS])]);
    let leased = run.changes().executions.updated.iter().filter_map(|row| row.execution.state.lease());
    let instances: BTreeSet<&str> = leased.map(|lease| lease.instance.as_str()).collect();
    assert_eq!(instances, BTreeSet::from(["any", "one"]));
}

#[test]
fn lanes_with_weights_take_turns_from_one_transaction_to_the_next() {
    let (other, other_lane) = (ClassId(2), name("other"));
    let process = Process::with(Admission { lanes: true, ..Admission::default() });
    process.learn_classes(vec![(other, Class { lane: other_lane.clone(), ..class() })]);
    let weighed = |lane| {
        let config = Some(Config { weight: Some(1), ..Config::default() });
        Gate { version: 3, config, ..Gate::new(lane_gate(NAMESPACE, lane)) }
    };
    let gates = vec![weighed(&class().lane), weighed(&other_lane)];
    let table = Table { gates, ..Table::of([waiting(1), Execution { class: other, ..waiting(2) }]) };
    let mut both = claim("instance", 1);
    both.scope.lanes.push(other_lane);
    let classes = [(); 4].map(|()| {
        let run = run(&mut process.driver(vec![task(both.clone())]), &table);
        run.changes().executions.updated[0].execution.class
    });
    assert_eq!(classes, [CLASS, other, CLASS, other]);
}
