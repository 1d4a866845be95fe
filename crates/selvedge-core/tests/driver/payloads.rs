//! Large payloads: loaded after the decisions, for the executions that claims hand out.

use super::process::Process;
use super::rules::{claim, task};
use super::table::{Table, execution, id, run};
use selvedge_core::rules::claim::CLAIM_BYTES;
use selvedge_core::{Execution, ExecutionId, State};
use std::collections::BTreeSet;

const MIB: usize = 1024 * 1024;

fn waiting(number: u128) -> Execution {
    execution(number, State::Waiting)
}

/// Returns a table of waiting executions, all with large inputs.
fn large(count: u128) -> Table {
    let large = (1..=count).map(|number| (id(number), MIB)).collect();
    Table { large, ..Table::of((1..=count).map(waiting)) }
}

#[test]
fn the_inputs_of_exactly_the_claimed_executions_are_loaded_and_with_the_last_load() {
    let table = large(40);
    let run = run(&mut Process::default().driver(vec![task(claim("instance", 40))]), &table);
    let expected: Vec<ExecutionId> = (1..=(CLAIM_BYTES / MIB) as u128).map(id).collect();
    assert_eq!(run.loads_of(|needs| !needs.whole_inputs.is_empty()), [run.loads.len() - 1]);
    let (needs, _) = run.loads.last().expect("there are loads");
    assert_eq!(needs.whole_inputs.keys().copied().collect::<Vec<_>>(), expected);
    let updated: Vec<ExecutionId> =
        run.changes().executions.updated.iter().map(|row| row.execution.id).collect();
    assert_eq!(updated, expected, "the others are left waiting");
}

#[test]
fn small_inputs_need_no_further_load() {
    let table = Table::of((1..=40).map(waiting));
    let run = run(&mut Process::default().driver(vec![task(claim("instance", 40))]), &table);
    assert_eq!(run.changes().executions.updated.len(), 40);
    assert!(run.loads_of(|needs| !needs.whole_inputs.is_empty()).is_empty());
}

#[test]
fn an_execution_whose_input_is_unreadable_is_left_unchanged_and_the_next_one_is_claimed() {
    let table = Table { unreadable_inputs: BTreeSet::from([id(1), id(2)]), ..large(3) };
    let process = Process::default();
    let run = run(&mut process.driver(vec![task(claim("instance", 1))]), &table);
    let updated: Vec<ExecutionId> =
        run.changes().executions.updated.iter().map(|row| row.execution.id).collect();
    assert_eq!(updated, [id(3)]);
    assert!(run.updated(id(3)).execution.state.lease().is_some());
    assert_eq!(process.unreadable(), [1, 2].map(id));
}
