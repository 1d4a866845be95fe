//! Cached rows serve only reports that are certain to end their leases.

use super::process::Process;
use super::rules::{BoxedTask, TestRule, complete, report, signal, task};
use super::table::{Table, active, id, run, run_again};
use selvedge_core::driver::Admission;
use selvedge_core::rule::{LeaseEffect, Touch};
use selvedge_core::rules::report::{Fence, Op, Report};
use selvedge_core::table::{Access, Request};
use selvedge_core::{Execution, Needs, Outcome, State};

const COMPLETED: State = State::Terminal(Outcome::Completed);

#[test]
fn a_cached_row_serves_a_report_that_ends_its_lease_and_is_not_read() {
    let row = active(1);
    let process = Process::default().caching(row.clone());
    let run = run(&mut process.driver(vec![task(complete(&row))]), &Table::default());
    assert_eq!(run.loads.len(), 1);
    assert_eq!(run.loads[0].0, Needs::default(), "the store is asked only for the time");
    let updated = run.updated(id(1));
    assert_eq!((updated.expected_version, &updated.execution.state), (row.version, &COMPLETED));
    assert_eq!(process.caches(), 0, "it is removed from the cache");
}

#[test]
fn a_cached_row_is_locked_without_being_read_if_gates_may_be_locked_after_it() {
    let row = active(1);
    let process = Process::with(Admission { gates: true, ..Admission::default() }).caching(row.clone());
    let run = run(&mut process.driver(vec![task(complete(&row))]), &Table::default());
    assert_eq!(
        run.loads[0].0,
        Needs { executions: Request::default().and(Access::Cached, [id(1)]), ..Needs::default() }
    );
    assert_eq!(run.updated(id(1)).execution.state, COMPLETED);
}

#[test]
fn no_cached_row_is_used_when_the_transaction_is_retried() {
    let row = active(1);
    let stored = Execution { version: row.version + 1, ..row.clone() };
    let process = Process::default().caching(row.clone());
    let mut driver = process.driver(vec![task(complete(&row))]);
    let first = run(&mut driver, &Table::default());
    assert_eq!(first.updated(id(1)).expected_version, row.version);
    let again = run_again(&mut driver, &Table::of([stored.clone()]));
    assert_eq!(again.locks(0), [id(1)]);
    assert_eq!(again.updated(id(1)).expected_version, stored.version);
}

/// Returns the versions that these reports expect when saving. The cached row of the first execution is older than the
/// stored one.
fn saved_versions(cached: Execution, tasks: Vec<BoxedTask>) -> Vec<u32> {
    let process = Process::default().caching(cached);
    let stored = [1, 2].map(|number| Execution { version: 20, ..active(number) });
    let run = run(&mut process.driver(tasks), &Table::of(stored));
    run.changes().executions.updated.iter().map(|row| row.expected_version).collect()
}

#[test]
fn a_report_that_may_keep_the_lease_reads_the_stored_row() {
    let row = active(1);
    let progress = || report(&row, Op::Progress { percent: Some(1.0), message: None });
    assert_eq!(saved_versions(row.clone(), vec![task(progress())]), [20]);
    let both = vec![task(progress()), task(complete(&row))];
    assert_eq!(saved_versions(row.clone(), both), [20], "also together with a report that ends it");
}

#[test]
fn a_cached_row_serves_a_report_that_changes_nothing_only_together_with_one_that_ends_the_lease() {
    let row = active(1);
    let touch =
        Touch { execution: row.id, fence: Fence::of(&row), lease: LeaseEffect::Unchanged, may_finish: false };
    let unchanged = || task(TestRule::asking(|_, needs| needs.executions.lock([id(1)])).touching(touch));
    let both = vec![unchanged(), task(complete(&row))];
    assert_eq!(saved_versions(row.clone(), both), [row.version]);
    let process = Process::default().caching(row.clone());
    let alone = run(&mut process.driver(vec![unchanged()]), &Table::of([row]));
    assert_eq!(alone.locks(0), [id(1)]);
}

#[test]
fn a_cached_row_of_another_lease_is_not_used() {
    let row = active(1);
    let older = Execution { epoch: row.epoch + 1, ..row.clone() };
    let Report { fence, .. } = complete(&row);
    assert_ne!(Fence::of(&older), Some(fence));
    assert_eq!(saved_versions(older, vec![task(complete(&row))]), [20]);
}

#[test]
fn no_cached_row_is_used_in_a_batch_that_skips_locked_executions() {
    let row = active(1);
    assert_eq!(saved_versions(row.clone(), vec![task(complete(&row))]), [row.version]);
    let with_signal = vec![task(complete(&row)), task(signal(id(2)))];
    assert_eq!(saved_versions(row, with_signal), [20, 20]);
}
