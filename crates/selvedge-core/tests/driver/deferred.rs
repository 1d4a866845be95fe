//! Deferred rules: signals and operators reach executions in any state. In a batch they do not wait for a locked
//! execution.

use super::process::Process;
use super::rules::{TestRule, complete, signal, task};
use super::table::{Table, active, id, run};
use selvedge_core::table::Access;
use selvedge_core::{ExecutionId, Needs};
use std::collections::BTreeSet;

/// Returns a table in which another transaction has locked the first of three executions.
fn table() -> Table {
    Table { locked: BTreeSet::from([id(1)]), ..Table::of([1, 2, 3].map(active)) }
}

fn if_free(needs: &Needs) -> Vec<ExecutionId> {
    needs.executions.with(Access::LockIfFree)
}

#[test]
fn a_rule_whose_execution_is_locked_is_left_undecided_in_a_batch_with_others() {
    let tasks = vec![task(signal(id(1))), task(complete(&active(2))), task(signal(id(3)))];
    let mut driver = Process::default().driver(tasks);
    let run = run(&mut driver, &table());
    assert_eq!((run.locks(0), if_free(&run.loads[0].0)), (vec![id(2)], vec![id(1), id(3)]));
    assert_eq!(
        run.loads_of(|needs| needs.executions.has(Access::Lock)),
        [0],
        "it is not locked later, either"
    );
    let updated: Vec<ExecutionId> =
        run.changes().executions.updated.iter().map(|row| row.execution.id).collect();
    assert_eq!(updated, [id(2), id(3)]);
    let decided: Vec<bool> = driver.take_tasks().0.iter().map(|task| task.is_decided()).collect();
    assert_eq!(decided, [false, true, true]);
}

#[test]
fn a_rule_that_is_alone_waits_for_its_execution() {
    let mut driver = Process::default().driver(vec![task(signal(id(1)))]);
    let run = run(&mut driver, &table());
    assert_eq!((run.locks(0), if_free(&run.loads[0].0)), (vec![id(1)], vec![]));
    assert!(driver.take_tasks().0[0].is_decided());
    assert_eq!(run.changes().signals.len(), 1);
}

#[test]
fn a_rule_is_decided_if_another_of_its_batch_waits_for_the_same_execution() {
    let tasks = vec![task(signal(id(1))), task(complete(&active(1))), task(complete(&active(2)))];
    let mut driver = Process::default().driver(tasks);
    let run = run(&mut driver, &table());
    assert_eq!((run.locks(0), if_free(&run.loads[0].0)), (vec![id(1), id(2)], vec![]));
    assert!(driver.take_tasks().0.iter().all(|task| task.is_decided()));

    // An execution that does not exist is not locked: both rules are refused.
    let mut driver = Process::default().driver(vec![task(signal(id(9))), task(complete(&active(9)))]);
    assert!(self::run(&mut driver, &table()).changes().is_empty());
    assert!(driver.take_tasks().0.iter().all(|task| task.is_decided()));
}

#[test]
fn a_rule_whose_execution_is_locked_is_not_decided_over_a_row_that_another_rule_only_read() {
    let reads = TestRule::asking(|_, needs| needs.executions.read([id(1)]));
    let mut driver = Process::default().driver(vec![task(signal(id(1))), task(signal(id(3))), task(reads)]);
    let run = run(&mut driver, &table());
    assert!(run.changes().signals.iter().all(|signal| signal.execution == id(3)));
    let decided: Vec<bool> = driver.take_tasks().0.iter().map(|task| task.is_decided()).collect();
    assert_eq!(decided, [false, true, true]);
}
