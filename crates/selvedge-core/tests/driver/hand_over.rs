//! Hand-over: waiting claims of the process take executions in the transaction that makes them claimable.

use super::process::{LIMITED, Process};
use super::rules::{TestRule, claim, complete, report, submit, task};
use super::table::{CLASS, Table, active, id, joined, lane, name, run, run_again, run_watched};
use selvedge_core::outbox::{OutboxKind, OutboxName};
use selvedge_core::rules::flows::join::CHUNK;
use selvedge_core::rules::report::Op;
use selvedge_core::state::StateName;
use selvedge_core::table::Access;
use selvedge_core::wiring::Downstream;
use selvedge_core::{Execution, Outcome, State, Wiring};
use std::collections::BTreeMap;

fn instance(row: &Execution) -> Option<&str> {
    row.state.lease().map(|lease| lease.instance.as_str())
}

#[test]
fn a_completion_that_ends_a_join_hands_the_downstream_to_a_waiting_claim_in_the_same_transaction() {
    let rows = joined(1, 2);
    let process = Process::default().caching(rows[0].clone()).waiting(claim("waiting", 1));
    let mut driver = process.driver(vec![task(complete(&rows[0]))]);
    let run = run(&mut driver, &Table::of(rows));
    assert_eq!(
        run.locks(0),
        [id(1), id(2)],
        "the cached row names the downstream, so both are locked at once"
    );
    assert_eq!(run.updated(id(1)).execution.state, State::Terminal(Outcome::Completed));
    assert_eq!(instance(&run.updated(id(2)).execution), Some("waiting"));
    assert_eq!(process.waits(), 0);
    let (_, handed) = driver.take_tasks();
    assert!(handed.len() == 1 && handed[0].is_decided());
    assert!(run.changes().outbox.written.is_empty(), "nothing is left to propagate");
    assert_eq!(driver.take_effects().ready, []);
}

#[test]
fn a_downstream_that_was_not_locked_is_left_to_the_outbox() {
    let rows = joined(1, 2);
    let process = Process::default().waiting(claim("waiting", 1));
    let run = run(&mut process.driver(vec![task(complete(&rows[0]))]), &Table::of(rows));
    assert_eq!(run.locks(0), [id(1)]);
    assert_eq!(run.changes().executions.updated.len(), 1);
    let left: Vec<OutboxName> = run.changes().outbox.written.iter().map(|row| row.name).collect();
    assert_eq!(left, [OutboxName { id: id(1).0, kind: OutboxKind::Edges }]);
    assert_eq!((process.waits(), process.offers()), (1, vec![]), "nothing is claimable");
}

#[test]
fn a_downstream_that_was_read_without_a_lock_is_left_to_the_outbox() {
    let rows = joined(1, 2);
    let looks = TestRule::asking(|_, needs| needs.executions.read([id(2)]));
    let tasks = vec![task(complete(&rows[0])), task(looks)];
    let run = run(&mut Process::default().driver(tasks), &Table::of(rows));
    assert_eq!(run.loads[0].0.executions.with(Access::Read), [id(2)]);
    assert_eq!((run.changes().executions.updated.len(), run.changes().outbox.written.len()), (1, 1));
}

#[test]
fn a_downstream_is_locked_again_when_the_transaction_is_retried() {
    let rows = joined(1, 2);
    let process = Process::default().caching(rows[0].clone());
    let mut driver = process.driver(vec![task(complete(&rows[0]))]);
    let table = Table::of(rows);
    run(&mut driver, &table);
    let again = run_again(&mut driver, &table);
    assert_eq!(again.locks(0), [id(1), id(2)]);
    assert_eq!(again.updated(id(2)).execution.state.name(), StateName::Waiting);
}

#[test]
fn a_report_that_does_not_end_its_execution_locks_no_downstream() {
    let rows = joined(1, 2);
    let process = Process::default().caching(rows[0].clone());
    let release = task(report(&rows[0], Op::Release));
    let run = run(&mut process.driver(vec![release]), &Table::of(rows));
    assert_eq!(run.locks(0), [id(1)]);
}

#[test]
fn downstreams_beyond_the_chunk_are_left_to_the_outbox() {
    let [mut row, _] = joined(1, 2);
    let downstream = |number| Downstream { execution: id(number), edge: 0 };
    let downstreams: Vec<_> = (2..).map(downstream).take(CHUNK + 1).collect();
    row.wiring = Some(Wiring { downstreams, ..Wiring::default() }.into());
    let process = Process::default().caching(row.clone());
    let run = run(&mut process.driver(vec![task(complete(&row))]), &Table::of([row]));
    assert_eq!(run.locks(0), [id(1)]);
    assert_eq!(run.changes().outbox.written.len(), 1);
}

#[test]
fn a_waiting_claim_whose_limited_lanes_were_not_locked_in_the_first_part_keeps_waiting() {
    let rows = joined(1, 2);
    let process = Process::with_late_claims().caching(rows[0].clone()).waiting(claim("waiting", 1));
    let mut driver = process.driver(vec![task(complete(&rows[0]))]);
    let run = run(&mut driver, &Table::of(rows));
    assert_eq!(process.offers(), [BTreeMap::from([(CLASS, 1)])]);
    assert_eq!(process.waits(), 1);
    assert!(driver.take_tasks().1.is_empty());
    assert_eq!(run.updated(id(2)).execution.state.name(), StateName::Waiting);
    assert_eq!(driver.take_effects().ready, [CLASS], "the claim has to search for it");
}

#[test]
fn the_limited_lanes_of_waiting_claims_are_locked_in_the_first_part() {
    let rows = joined(1, 2);
    let process = Process::with(LIMITED).caching(rows[0].clone()).waiting(claim("waiting", 1));
    let run = run(&mut process.driver(vec![task(complete(&rows[0]))]), &Table::of(rows));
    let lanes = run.loads_of(|needs| !needs.lanes.is_empty());
    assert_eq!(lanes.len(), 1);
    assert_eq!(run.loads[lanes[0]].0.lanes.with(Access::Lock), [lane()]);
    assert!(
        run.loads_of(|needs| !needs.inputs.is_empty()) > lanes,
        "the second part loads the input for the claim"
    );
    assert_eq!(instance(&run.updated(id(2)).execution), Some("waiting"));
    assert_eq!(process.waits(), 0);
}

#[test]
fn a_claim_that_begins_to_wait_after_lanes_were_locked_keeps_waiting() {
    let mut row = active(1);
    row.detail.slots.lane = Some(name("other"));
    let process = Process::with(LIMITED);
    let mut driver = process.driver(vec![task(report(&row, Op::Release))]);
    let run = run_watched(&mut driver, &Table::of([row]), |needs| {
        if !needs.lanes.is_empty() {
            process.add_waiting(claim("waiting", 1));
        }
    });
    assert_eq!(run.loads_of(|needs| !needs.lanes.is_empty()).len(), 1, "lanes are not locked twice");
    assert_eq!(run.updated(id(1)).execution.state, State::Waiting);
    assert_eq!(process.waits(), 1);
}

#[test]
fn a_handed_over_claim_without_its_limited_lanes_gets_nothing() {
    let rows = joined(1, 2);
    let process = Process::that_ignores_lanes().caching(rows[0].clone()).waiting(claim("waiting", 1));
    let mut driver = process.driver(vec![task(complete(&rows[0]))]);
    let run = run(&mut driver, &Table::of(rows));
    let (_, handed) = driver.take_tasks();
    assert!(handed.len() == 1 && handed[0].is_decided());
    assert!(run.loads_of(|needs| !needs.lanes.is_empty()).is_empty(), "they are not locked out of order");
    assert_eq!(run.updated(id(2)).execution.state.name(), StateName::Waiting);
}

#[test]
fn an_execution_is_offered_to_waiting_claims_once() {
    let process = Process::default().waiting(claim("first", 1)).waiting(claim("second", 1));
    let mut driver = process.driver(vec![task(submit(1))]);
    let run = run(&mut driver, &Table::default());
    // The profile of a submission names the classes it makes claimable: they are offered before anything is loaded, and
    // not again.
    assert_eq!(process.offers(), [BTreeMap::from([(CLASS, 1)])]);
    assert_eq!(process.waits(), 1);
    assert_eq!(instance(&run.changes().executions.inserted[0].execution), Some("first"));
}

#[test]
fn a_retried_transaction_keeps_the_waiting_claims_that_it_took() {
    let process = Process::default().waiting(claim("first", 1)).waiting(claim("second", 1));
    let mut driver = process.driver(vec![task(submit(1))]);
    run(&mut driver, &Table::default());
    let again = run_again(&mut driver, &Table::default());
    assert_eq!(process.offers().len(), 1);
    assert_eq!(process.waits(), 1);
    assert_eq!(again.locks(0), [id(1)], "the first try may have committed");
    assert_eq!(instance(&again.changes().executions.inserted[0].execution), Some("first"));
    assert_eq!(driver.take_tasks().1.len(), 1);
}

#[test]
fn a_retry_drops_the_replies_of_the_earlier_try() {
    let mut driver = Process::default().driver(vec![task(submit(1))]);
    run(&mut driver, &Table::default());
    driver.begin(1);
    assert!(!driver.take_tasks().0[0].is_decided());
}
