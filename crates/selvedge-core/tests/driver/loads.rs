//! The rows that a transaction loads, how often, and in which order.

use super::rules::{BoxedTask, CLAIMS, InPhase, TestRule, tag, task};
use super::table::{CLASS, FLOW, Table, active, id, lane, run};
use selvedge_core::driver::{Alone, Driver, Loading, LockPlan};
use selvedge_core::outbox::{OutboxKind, OutboxName};
use selvedge_core::rows::Queries;
use selvedge_core::rows::{Candidates, HeldBy};
use selvedge_core::table::{Access, Request};
use selvedge_core::{ClassId, ExecutionId, GateId, Needs, SessionId};
use uuid::Uuid;

fn alone(tasks: Vec<BoxedTask>) -> Driver<Alone<BoxedTask>> {
    Driver::new(Alone::default(), tasks)
}

#[test]
fn needs_are_collected_until_they_add_nothing_new_and_nothing_is_loaded_twice() {
    let follows = || {
        TestRule::asking(|work, needs| {
            for next in [id(1), id(2), id(3)] {
                needs.executions.read([next]);
                if !work.is_loaded(next) {
                    return;
                }
            }
        })
    };
    // Two rules that need the same rows load them once.
    let run = run(&mut alone(vec![task(follows()), task(follows())]), &Table::of([1, 2, 3].map(active)));
    let looks: Vec<Vec<ExecutionId>> =
        run.loads.iter().map(|(needs, _)| needs.executions.with(Access::Read)).collect();
    assert_eq!(looks, [[id(1)], [id(2)], [id(3)]]);
    assert!(run.changes().is_empty());
}

#[test]
fn a_row_that_does_not_exist_is_requested_once() {
    let run = run(
        &mut alone(vec![task(TestRule::asking(|_, needs| needs.executions.lock([id(1)])))]),
        &Table::default(),
    );
    assert_eq!(run.loads_of(|needs| needs.executions.has(Access::Lock)), [0]);
    assert_eq!(run.loads.len(), 1);
}

#[test]
fn a_row_that_is_locked_by_one_rule_and_read_by_another_is_loaded_once() {
    let locks = TestRule::asking(|_, needs| needs.executions.lock([id(1)]));
    let reads = TestRule::asking(|_, needs| needs.executions.read([id(1)]));
    let run = run(&mut alone(vec![task(reads), task(locks)]), &Table::of([active(1)]));
    assert_eq!(run.locks(0), [id(1)]);
    assert!(run.loads_of(|needs| needs.executions.has(Access::Read)).is_empty());
}

#[test]
fn a_rule_whose_needs_never_end_fails_its_transaction() {
    let endless = TestRule::asking(|work, needs| {
        let next = (1..).map(id).find(|id| !work.was_requested(*id));
        needs.executions.read(next);
    });
    let run = run(&mut alone(vec![task(endless)]), &Table::default());
    assert_eq!(run.loads.len(), 64);
    assert!(run.aborted().ends_with("the rules still ask for rows after 64 loads"), "{}", run.aborted());
}

#[test]
fn nothing_is_locked_after_the_first_part() {
    let changes =
        TestRule::asking(|_, needs| needs.executions.lock([id(1)])).deciding(|work| tag(work, id(1)));
    let asks_late = TestRule::asking(|work, needs| {
        if work.is_changed(id(1)) {
            needs.executions.lock([id(2)]);
            needs.gates.lock([GateId(1)]);
            needs.lanes.lock([lane()]);
            needs.flows.lock([FLOW]);
            needs.executions.read([id(3)]);
        }
    })
    .deciding(|work| {
        assert!(
            !work.is_loaded(id(2)) && !work.has_requested_gate(GateId(1)) && !work.has_requested_gate(lane())
        );
        assert!(work.is_loaded(id(3)), "reads are served");
    });
    let claims = InPhase::<CLAIMS>(asks_late);
    let run = run(&mut alone(vec![task(changes), task(claims)]), &Table::of([1, 2, 3].map(active)));
    let (last, _) = run.loads.last().expect("there are loads");
    assert_eq!(*last, Needs { executions: Request::reading([id(3)]), ..Needs::default() });
    assert_eq!(run.changes().executions.updated.len(), 1);
}

/// Returns needs of every stage.
fn everything() -> Needs {
    Needs {
        growing: Request::locking([FLOW]),
        executions: Request::locking([id(2), id(1)]),
        outbox: Request::locking([OutboxName { id: Uuid::nil(), kind: OutboxKind::Edges }]),
        lanes: Request::locking([GateId(2), GateId(1)]),
        gates: Request::locking([GateId(4), GateId(3)]),
        parts: Request::locking([GateId(6), GateId(5)]),
        flows: Request::locking([FLOW]),
        sessions: Request::locking([SessionId(1)]),
        queries: Queries {
            candidates: vec![Candidates { classes: vec![ClassId(1)], limit: 1 }],
            held: vec![HeldBy::first(GateId(3), 1)],
            ..Queries::default()
        },
        ..Needs::default()
    }
}

/// Returns the loads for needs of every stage that are requested at once.
fn loads(plan: LockPlan) -> Vec<Needs> {
    let mut loading = Loading::new(plan);
    let mut asked = everything();
    let mut loads = Vec::new();
    while let Some(load) = loading.next(std::mem::take(&mut asked)).expect("it is in order") {
        loads.push(load);
    }
    loads
}

#[test]
fn the_rows_of_a_later_stage_are_loaded_after_those_of_an_earlier_one() {
    let plan =
        LockPlan { later_executions: false, lanes_last: true, limits: true, gates: true, several: true };
    let all = everything();
    let none = Needs::default;
    let executions = vec![id(1), id(2)];
    let first = Needs {
        growing: all.growing,
        executions: Request::locking(executions),
        outbox: all.outbox,
        ..none()
    };
    let second = Needs {
        lanes: Request::locking([GateId(1), GateId(2)]),
        queries: Queries { candidates: all.queries.candidates, ..Queries::default() },
        ..none()
    };
    let gates = Needs { gates: Request::locking([GateId(3), GateId(4)]), ..none() };
    let parts = Needs { parts: Request::locking([GateId(5), GateId(6)]), ..none() };
    let held = Needs { queries: Queries { held: all.queries.held, ..Queries::default() }, ..none() };
    let last = Needs { flows: all.flows, sessions: all.sessions, ..none() };
    assert_eq!(loads(plan), [first, second, gates, parts, held, last], "sorted within each stage");
}

#[test]
fn lanes_and_candidates_are_loaded_after_executions_if_these_may_come_late_or_lanes_are_limited() {
    let plan =
        |later_executions, lanes_last| LockPlan { later_executions, lanes_last, ..LockPlan::default() };
    let with_executions = |plan| {
        let first = loads(plan).swap_remove(0);
        assert!(!first.executions.is_empty());
        (!first.lanes.is_empty(), !first.queries.candidates.is_empty())
    };
    assert_eq!(with_executions(plan(false, false)), (true, true), "one load serves all");
    assert_eq!(with_executions(plan(true, false)), (false, false));
    assert_eq!(with_executions(plan(false, true)), (false, false));
}

#[test]
fn flows_and_sessions_are_loaded_after_gates_if_gates_are_expected() {
    let without_gates = || {
        let all = everything();
        Needs {
            gates: Request::default(),
            parts: Request::default(),
            queries: Queries { held: vec![], ..all.queries },
            ..all
        }
    };
    let mut loading = Loading::new(LockPlan::default());
    let load = loading.next(without_gates()).expect("it is in order").expect("there is a load");
    assert_eq!((load.flows.len(), load.sessions.len()), (0, 0), "sessions wait for the flows of members");
    let load = loading.next(Needs::default()).expect("it is in order").expect("there is a load");
    assert_eq!((load.flows.len(), load.sessions.len()), (1, 1));

    let without_sessions = Needs { sessions: Request::default(), ..without_gates() };
    let without_sessions =
        Needs { queries: Queries { instances: vec![], ..without_sessions.queries }, ..without_sessions };
    let mut loading = Loading::new(LockPlan::default());
    let load = loading.next(without_sessions.clone()).expect("it is in order").expect("there is a load");
    assert_eq!(load.flows.len(), 1, "one load serves all");
    let mut loading = Loading::new(LockPlan { several: true, ..LockPlan::default() });
    let load = loading.next(without_sessions).expect("it is in order").expect("there is a load");
    assert_eq!(load.flows.len(), 0, "the flow of one rule waits for the flows of the executions of another");
    let load = loading.next(Needs::default()).expect("it is in order").expect("there is a load");
    assert_eq!(load.flows.len(), 1);

    let mut loading = Loading::new(LockPlan::default());
    loading.expect_gates();
    let load = loading.next(without_gates()).expect("it is in order").expect("there is a load");
    assert_eq!((load.flows.len(), load.sessions.len()), (0, 0));
    let gates = Needs { gates: Request::locking([GateId(1)]), ..Needs::default() };
    let load = loading.next(gates.clone()).expect("it is in order");
    assert_eq!(load, Some(gates), "a gate requested now precedes them");
    let load = loading.next(Needs::default()).expect("it is in order").expect("there is a load");
    assert_eq!((load.flows.len(), load.sessions.len()), (1, 1));
}

#[test]
fn a_gate_that_is_requested_after_its_stage_is_left_out() {
    let asks = |number| Needs { gates: Request::locking([GateId(number)]), ..Needs::default() };
    let mut loading = Loading::new(LockPlan { gates: true, ..LockPlan::default() });
    assert_eq!(loading.next(asks(2)), Ok(Some(asks(2))));
    assert_eq!(loading.next(asks(1)), Ok(None), "it would be locked after a gate with a higher id");
}

#[test]
fn reading_an_execution_does_not_lock_it() {
    let mut loading = Loading::new(LockPlan::default());
    let asked = Needs {
        executions: Request::default().and(Access::Read, [id(1)]).and(Access::Lock, [id(2)]),
        ..Needs::default()
    };
    loading.next(asked).expect("it is in order");
    assert_eq!([1, 2].map(|number| loading.locks(id(number))), [false, true]);
}

#[test]
fn candidates_are_searched_for_even_after_gates_were_locked() {
    let mut loading = Loading::new(LockPlan { gates: true, ..LockPlan::default() });
    let gates = Needs { gates: Request::locking([GateId(1)]), ..Needs::default() };
    assert_eq!(loading.next(gates.clone()), Ok(Some(gates)));
    let candidates = vec![Candidates { classes: vec![CLASS], limit: 1 }];
    let late = Needs { queries: Queries { candidates, ..Queries::default() }, ..Needs::default() };
    assert_eq!(loading.next(late.clone()), Ok(Some(late)), "the search never waits");
}

#[test]
fn unexpected_gates_are_locked_after_sessions_but_only_once() {
    let first = Needs {
        executions: Request::locking([id(1)]),
        sessions: Request::locking([SessionId(1)]),
        ..Needs::default()
    };
    let asks = |number| Needs { gates: Request::locking([GateId(number)]), ..Needs::default() };
    let mut loading = Loading::new(LockPlan::default());
    let [executions, sessions] = [
        Needs { sessions: Request::default(), ..first.clone() },
        Needs { executions: Request::default(), ..first.clone() },
    ];
    assert_eq!(loading.next(first), Ok(Some(executions)));
    assert_eq!(loading.next(Needs::default()), Ok(Some(sessions)));
    loading.expect_gates();
    assert_eq!(loading.next(asks(2)), Ok(Some(asks(2))));
    assert_eq!(loading.next(asks(1)), Ok(None), "it would be locked after a gate with a higher id");

    let mut expecting = Loading::new(LockPlan { gates: true, ..LockPlan::default() });
    expecting
        .next(Needs { executions: Request::locking([id(1)]), ..Needs::default() })
        .expect("it is in order");
    expecting
        .next(Needs { sessions: Request::locking([SessionId(1)]), ..Needs::default() })
        .expect("it is in order");
    assert_eq!(expecting.next(asks(2)), Ok(None), "expected gates precede sessions");
}
