//! A transaction that would lock out of order, or save rows that it has not locked, is rolled back.

use super::process::Process;
use super::rules::{BoxedTask, TestRule, claim, tag, task};
use super::table::{FLOW, NAMESPACE, Table, active, execution, id, joined, lane, run};
use selvedge_core::driver::{Alone, Driver};
use selvedge_core::outbox::{OutboxKind, OutboxName, OutboxRow};
use selvedge_core::table::Access;
use selvedge_core::{Execution, ExecutionId, Name, Needs, SessionId, State, Work};
use uuid::Uuid;

/// Returns a transaction of one rule in a process that expects limited lanes and gates.
fn alone(rule: TestRule) -> Driver<Alone<BoxedTask>> {
    Driver::new(Alone::default(), vec![task(rule)])
}

#[test]
fn a_rule_that_requests_executions_after_lanes_were_locked_fails_its_transaction() {
    let after_lanes = || {
        TestRule::asking(|work, needs| {
            needs.lanes.lock([lane()]);
            if work.has_requested_gate(lane()) {
                needs.executions.lock([id(1)]);
            }
        })
    };
    let cases = [(after_lanes(), "Executions"), (after_lanes().locking_later_executions(), "LateExecutions")];
    for (rule, stage) in cases {
        let mut driver = alone(rule);
        let run = run(&mut driver, &Table::of([active(1)]));
        assert_eq!(run.aborted(), format!("the lock order is broken: {stage} requested after Lanes"));
        assert!(
            run.loads_of(|needs| needs.executions.has(Access::Lock)).is_empty(),
            "the store never loads them"
        );
        assert!(!driver.take_tasks().0[0].is_decided());
    }
}

/// Returns a rule that locks an execution, and then another one that it learns of from the first.
fn one_after_the_other() -> TestRule {
    TestRule::asking(|work, needs| {
        needs.executions.lock([id(1)]);
        if work.is_loaded(id(1)) {
            needs.executions.lock([id(2)]);
        }
    })
}

#[test]
fn executions_are_locked_twice_only_by_a_rule_whose_profile_declares_it() {
    let table = Table::of([active(1), active(2)]);
    let refused = run(&mut alone(one_after_the_other()), &table);
    assert_eq!(refused.aborted(), "the lock order is broken: Executions requested after Executions");
    let accepted = run(&mut alone(one_after_the_other().locking_later_executions()), &table);
    assert_eq!((accepted.locks(0), accepted.locks(1)), (vec![id(1)], vec![id(2)]));
    assert!(accepted.changes().is_empty());
    let plain = task(TestRule::asking(|_, _| {}));
    let batch = vec![plain, task(one_after_the_other().locking_later_executions())];
    let accepted = run(&mut Driver::new(Alone::default(), batch), &table);
    assert_eq!(accepted.locks(1), [id(2)], "also in a batch with others");
}

#[test]
fn an_execution_that_is_changed_without_being_locked_fails_the_transaction() {
    let table = Table::of([active(1)]);
    let looks = || TestRule::asking(|_, needs| needs.executions.read([id(1)]));
    for rule in [looks().deciding(|work| tag(work, id(1))), looks().deciding(|work| work.delete(id(1)))] {
        let run = run(&mut alone(rule), &table);
        let expected = format!("the lock order is broken: execution {} is changed and was not locked", id(1));
        assert_eq!(run.aborted(), expected);
    }
}

#[test]
fn an_execution_that_was_locked_in_any_way_may_be_changed() {
    let asks: [fn(&mut Needs); 2] =
        [|needs| needs.executions.lock([id(1)]), |needs| needs.executions.lock_if_free([id(1)])];
    for ask in asks {
        let rule = TestRule::asking(move |_, needs| ask(needs)).deciding(|work| tag(work, id(1)));
        let run = run(&mut alone(rule), &Table::of([active(1)]));
        assert_eq!(run.updated(id(1)).expected_version, 7);
    }
    // A claim locks the waiting executions that it finds.
    let found = run(
        &mut Process::default().driver(vec![task(claim("instance", 1))]),
        &Table::of([execution(1, State::Waiting)]),
    );
    assert!(found.loads_of(|needs| needs.executions.has(Access::Lock)).is_empty());
    assert!(found.updated(id(1)).execution.state.lease().is_some());
}

/// Returns a rule that writes an outbox row, and locks or only reads its owner.
fn writing(kind: OutboxKind, about: Uuid, locks_owner: bool) -> TestRule {
    let name = OutboxName { id: about, kind };
    let asks = move |_: &Work, needs: &mut Needs| match kind {
        OutboxKind::Flow if locks_owner => needs.flows.lock([FLOW]),
        _ if locks_owner => needs.executions.lock([ExecutionId(about)]),
        _ => needs.executions.read([ExecutionId(about)]),
    };
    TestRule::asking(asks).deciding(move |work| {
        let (at, namespace) = (work.now(), NAMESPACE);
        work.put_outbox(OutboxRow { name, at, position: 0, namespace, tags: Default::default() });
    })
}

#[test]
fn an_outbox_row_is_written_only_by_a_transaction_that_has_locked_its_owner() {
    let table = Table::of([active(1)]);
    for kind in OutboxKind::ALL {
        let owner = if kind == OutboxKind::Flow { FLOW.0 } else { id(1).0 };
        let written = run(&mut alone(writing(kind, owner, true)), &table);
        assert_eq!(written.changes().outbox.written.len(), 1, "{kind:?}");
        let unlocked = run(&mut alone(writing(kind, owner, false)), &table);
        match kind {
            // The end of a child writes it, without the lock on the parent.
            OutboxKind::Parent => assert_eq!(unlocked.changes().outbox.written.len(), 1),
            OutboxKind::Edges | OutboxKind::Siblings | OutboxKind::Children | OutboxKind::Flow => {
                assert!(unlocked.aborted().ends_with("is written without its owner"), "{kind:?}");
            }
        }
    }
}

#[test]
fn the_flows_of_members_are_locked_before_sessions() {
    let session = SessionId(5);
    let sessions = || TestRule::asking(move |_, needs| needs.sessions.lock([session]));
    let instances = || {
        let instance = (NAMESPACE, Name::trusted("instance"));
        TestRule::asking(move |_, needs| needs.queries.instances.push(instance.clone()))
    };
    let table = Table::of(joined(1, 2));
    for rule in [sessions(), instances()] {
        let member = TestRule::asking(|_, needs| needs.executions.lock([id(1)]));
        let run = run(&mut Driver::new(Alone::default(), vec![task(rule), task(member)]), &table);
        assert_eq!(run.locks(0), [id(1)]);
        let [first, second] = &run.loads[..] else { panic!("two loads: {:?}", run.loads) };
        assert!(!first.0.locks_sessions() && !first.0.flows.has_locks());
        assert!(second.0.locks_sessions() && second.0.flows.locks(&FLOW));
    }
    let lone = run(&mut alone(sessions()), &table);
    assert_eq!((lone.loads.len(), lone.loads[0].0.flows.has_locks()), (1, false), "no member, no flow");
}

#[test]
fn the_flow_of_a_found_candidate_is_locked_before_sessions() {
    let [_, downstream] = joined(1, 2);
    let table = Table::of([Execution { state: State::Waiting, join: None, wiring: None, ..downstream }]);
    let session = SessionId(5);
    let sessions = TestRule::asking(move |_, needs| needs.sessions.lock([session]));
    let tasks = vec![task(sessions), task(claim("instance", 1))];
    let run = run(&mut Process::default().driver(tasks), &table);
    let locking = run.loads_of(|needs| needs.locks_sessions());
    assert_eq!(locking, run.loads_of(|needs| needs.flows.locks(&FLOW)));
    assert!(run.updated(id(2)).execution.state.lease().is_some());
}
