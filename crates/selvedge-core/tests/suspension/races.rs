//! Races between two operations: both orders give the same result, or the later one finds that it lost.

use super::helpers::{
    at_most, done, signal, signal_command, signal_from, step_wait, suspend, suspend_with, token_command,
    wait, waitpoint_draft,
};
use super::test_store::{TestStore, name};
use selvedge_core::execution::RecordSummary;
use selvedge_core::fact::{self, Fact, SuspensionNotice};
use selvedge_core::rules::flows::dispatch::Dispatched;
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::report::Op;
use selvedge_core::rules::timer::{FireTimer, Timer, TimerReply};
use selvedge_core::signal::Effect;
use selvedge_core::state::StateName;
use selvedge_core::step::WaitResult;
use selvedge_core::submission::When;
use selvedge_core::suspension::{Condition, Distinct, OnTimeout, ResumedBy};
use selvedge_core::wiring::{Child, Node};
use selvedge_core::{
    Changes, DueKind, Execution, ExecutionId, FlowId, LeaseId, Outcome, Policy, Refusal, State, Wiring,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use uuid::Uuid;

/// The final state of an execution: its state, its record summary, the suspension that took each signal, and the result
/// of its wait.
type End = (State, RecordSummary, Vec<Option<u32>>, Option<WaitResult>);

/// Suspends after the first `early` of these signals, and delivers the others afterwards.
fn end_of(condition: &Condition, signals: &[(&str, &str)], early: usize) -> End {
    let mut store = TestStore::new();
    let id = store.active();
    for (index, (text, source)) in signals.iter().enumerate() {
        if index == early {
            store.suspend(id, vec![step_wait("wait", condition.clone())]);
        }
        store.run(&signal_from(id, text, source)).expect("it is accepted");
    }
    if early == signals.len() {
        store.suspend(id, vec![step_wait("wait", condition.clone())]);
    }
    let row = store.row(id);
    (without_lease_id(&row.state), row.detail.record.clone(), store.taken(id), store.wait_result(id, "wait"))
}

/// Returns the state without the random id of its last lease.
fn without_lease_id(state: &State) -> State {
    let mut state = state.clone();
    if let State::Suspended(suspension) = &mut state {
        Arc::make_mut(suspension).lease.id = LeaseId(Uuid::nil());
    }
    state
}

fn conditions() -> Vec<Condition> {
    let [a, b, c] = ["a", "b", "c"].map(signal);
    let count = |n, distinct| Condition::count(n, ["a", "b", "c"].map(name).to_vec(), distinct);
    vec![
        a.clone(),
        Condition::Any(vec![b.clone(), a.clone()]),
        Condition::All(vec![a.clone(), b.clone()]),
        Condition::Any(vec![Condition::All(vec![a.clone(), b.clone()]), c.clone()]),
        Condition::All(vec![Condition::Any(vec![b, c]), a]),
        count(2, Distinct::Signals),
        count(3, Distinct::Signals),
        count(2, Distinct::Sources),
    ]
}

#[test]
fn signals_count_the_same_before_and_after_the_suspension() {
    let mut ends = BTreeSet::new();
    let senders = [("a", "ann"), ("b", "ann"), ("b", "bob"), ("c", "bob")];
    for condition in conditions() {
        for first in senders {
            for second in senders {
                for third in senders {
                    let signals = [first, second, third];
                    let all_after = end_of(&condition, &signals, 0);
                    for early in 1..=signals.len() {
                        let end = end_of(&condition, &signals, early);
                        assert_eq!(end, all_after, "{condition:?} {signals:?}, {early} of them before");
                    }
                    ends.insert((all_after.0.name(), all_after.1.untaken));
                }
            }
        }
    }
    assert!(ends.contains(&(StateName::Suspended, 3)), "some remain suspended: {ends:?}");
    assert!((0..=2).all(|untaken| ends.contains(&(StateName::Waiting, untaken))), "others resume: {ends:?}");
}

#[test]
fn of_two_signals_that_each_complete_the_condition_one_resumes_and_the_other_is_kept() {
    for [first, second] in [["a", "b"], ["b", "a"], ["a", "a"]] {
        let mut store = TestStore::new();
        let id = store.suspended(vec![step_wait("wait", Condition::Any(vec![signal("a"), signal("b")]))]);
        let (_, late) = store.decide(&signal_command(id, second));
        assert_eq!(store.signal(id, first).effect, Effect::Resumed);
        assert!(!store.save(late), "a decision from before the first signal is not saved");
        assert_eq!(store.signal(id, second).effect, Effect::Buffered);
        assert_eq!(store.taken(id), [Some(1), None]);
        let waited = WaitResult { resumed_by: ResumedBy::Condition, signals: vec![1] };
        assert_eq!(store.wait_result(id, "wait"), Some(waited));
        let resumed = store.events.iter().filter(|event| matches!(event.fact, Fact::Resumed { .. }));
        assert_eq!(resumed.count(), 1);
    }
}

#[test]
fn a_signal_after_a_timeout_acts_on_the_state_that_the_timeout_left() {
    for then in OnTimeout::ALL {
        let mut store = TestStore::new();
        let id = store.suspended(vec![at_most(10, then, step_wait("wait", signal("a")))]);
        store.advance_ms(10);
        assert_eq!(store.fire(id, DueKind::SuspensionTimeout), TimerReply::Fired);
        let delivered = store.try_signal(id, "a");
        let ended = |outcome| Err(Refusal::AlreadyTerminal { execution: id, outcome });
        match then {
            OnTimeout::Fail => assert_eq!(delivered, ended(Outcome::Failed)),
            OnTimeout::Cancel => assert_eq!(delivered, ended(Outcome::Cancelled)),
            OnTimeout::Expire => assert_eq!(delivered, ended(Outcome::Expired)),
            OnTimeout::Resume => {
                assert_eq!(delivered.expect("it is accepted").effect, Effect::Buffered);
                let waited = WaitResult { resumed_by: ResumedBy::Timeout, signals: vec![] };
                assert_eq!(store.wait_result(id, "wait"), Some(waited), "the ended wait does not change");
            }
            OnTimeout::Escalate => {
                assert_eq!(delivered.expect("it is accepted").effect, Effect::Resumed);
                assert_eq!(store.wait_result(id, "wait").map(|waited| waited.signals), Some(vec![1]));
            }
        }
        let kept = store.signals_of(id).filter(|signal| signal.taken.is_none()).count();
        assert_eq!(kept, usize::from(then == OnTimeout::Resume));
    }
}

#[test]
fn a_fulfilled_suspension_is_not_timed_out_by_a_timer_that_read_it_before() {
    for then in OnTimeout::ALL {
        let mut store = TestStore::new();
        let id = store.suspended(vec![at_most(10, then, wait(signal("a")))]);
        store.advance_ms(10);
        let due = store.row(id).due().expect("something is due");
        assert_eq!((due.kind, due.at), (DueKind::SuspensionTimeout, store.now), "a reconciler finds it");
        let fire = FireTimer { execution: id, timer: Timer::Due(DueKind::SuspensionTimeout) };
        let (fired, late) = store.decide(&fire);
        assert_eq!(fired, Ok(TimerReply::Fired), "by the old row, it is overdue");
        assert_eq!(store.signal(id, "a").effect, Effect::Resumed);
        assert!(!store.save(late), "a decision from before the signal is not saved");
        assert_eq!(store.run(&fire), Ok(TimerReply::NotDue), "by the current row, it is not");
        assert_eq!(store.claim().execution.id, id);
        let active = store.row(id).clone();
        assert_eq!(store.run(&fire), Ok(TimerReply::NotDue));
        assert_eq!(store.row(id), &active, "it stays active");
    }
}

#[test]
fn a_timeout_is_not_undone_by_a_signal_that_was_decided_before_it() {
    let mut store = TestStore::new();
    let id = store.suspended(vec![at_most(10, OnTimeout::Fail, wait(signal("a")))]);
    let (delivered, late) = store.decide(&signal_command(id, "a"));
    assert_eq!(delivered.map(|delivered| delivered.effect), Ok(Effect::Resumed));
    store.advance_ms(10);
    assert_eq!(store.fire(id, DueKind::SuspensionTimeout), TimerReply::Fired);
    assert!(!store.save(late));
    assert_eq!(store.row(id).state, State::Terminal(Outcome::Failed));
    let outcome = Outcome::Failed;
    assert_eq!(store.try_signal(id, "a"), Err(Refusal::AlreadyTerminal { execution: id, outcome }));
}

#[test]
fn a_time_before_the_timeout_wins_however_late_both_timers_fire() {
    let mut store = TestStore::new();
    let until = Condition::until(When::AfterMs(10));
    let id = store.suspended(vec![at_most(11, OnTimeout::Fail, wait(until.clone()))]);
    store.advance_ms(1_000);
    assert_eq!(store.fire(id, DueKind::SuspensionTimeout), TimerReply::NotDue);
    assert_eq!(store.fire(id, DueKind::Delay), TimerReply::Fired);
    assert_eq!(store.claim().execution.id, id);
    let same = store.suspended(vec![at_most(10, OnTimeout::Fail, wait(until))]);
    store.advance_ms(10);
    assert_eq!(store.fire(same, DueKind::SuspensionTimeout), TimerReply::NotDue, "at the same moment, too");
    assert_eq!(store.fire(same, DueKind::Delay), TimerReply::Fired);
}

/// An operation on an execution, by name. It is decided over the rows of the store and not saved.
type Operation = (&'static str, fn(&TestStore, ExecutionId) -> Changes);

fn decided(store: &TestStore, id: ExecutionId, op: Op) -> Changes {
    let report = store.report_command(id, op);
    store.decide(&report).1
}

fn fired(store: &TestStore, id: ExecutionId, kind: DueKind) -> Changes {
    store.decide(&FireTimer { execution: id, timer: Timer::Due(kind) }).1
}

fn operated(store: &TestStore, id: ExecutionId, action: Action) -> Changes {
    let operate = store.operate_command(id, action);
    store.decide(&operate).1
}

fn through(store: &TestStore, id: ExecutionId, number: u32) -> Changes {
    let waitpoint = store.waitpoints[&(id, number)].clone();
    store.decide(&token_command(&waitpoint, None)).1
}

/// Operations on an active or a suspended execution.
const ANYTIME: [Operation; 7] = [
    ("a signal", |store, id| store.decide(&signal_command(id, "a")).1),
    ("another signal", |store, id| store.decide(&signal_command(id, "b")).1),
    ("a delivery", |store, id| through(store, id, 1)),
    ("the revocation of that token", |store, id| {
        let waitpoint = store.waitpoints[&(id, 1)].id;
        operated(store, id, Action::RevokeWaitpoint { waitpoint })
    }),
    ("the expiry of a waitpoint", |store, id| fired(store, id, DueKind::WaitpointExpiry)),
    ("a cancellation", |store, id| operated(store, id, Action::Cancel { reason: None, grace_ms: 0 })),
    ("the deadline", |store, id| fired(store, id, DueKind::Deadline)),
];

/// Operations on an active execution.
const WHILE_ACTIVE: [Operation; 6] = [
    ("a suspension", |store, id| decided(store, id, suspend(vec![step_wait("wait", signal("a"))]))),
    ("a suspension with a waitpoint", |store, id| {
        let waitpoints = vec![waitpoint_draft("new", Some(5))];
        decided(store, id, suspend_with(vec![wait(signal("new"))], waitpoints))
    }),
    ("a waitpoint", |store, id| {
        let (draft, fingerprint) = (waitpoint_draft("new", None), super::helpers::secret().fingerprint());
        decided(store, id, Op::Waitpoint { draft, fingerprint })
    }),
    ("a waitpoint that is signed with a new key", |store, id| {
        let (draft, fingerprint) = (waitpoint_draft("first", None), 0);
        decided(store, id, Op::Waitpoint { draft, fingerprint })
    }),
    ("a step", |store, id| decided(store, id, done("step", "1"))),
    ("a completion", |store, id| decided(store, id, Op::Complete { result: "1".into() })),
];

/// Operations on a suspended execution.
const WHILE_SUSPENDED: [Operation; 3] = [
    ("the timeout", |store, id| fired(store, id, DueKind::SuspensionTimeout)),
    ("a time", |store, id| fired(store, id, DueKind::Delay)),
    ("an operator", |store, id| operated(store, id, Action::Resume)),
];

/// Returns an active execution with two waitpoints, whose first timer is the expiry of the second one or the deadline.
fn active(expires_ms: Option<i64>, deadline_ms: Option<i64>) -> (TestStore, ExecutionId) {
    let mut store = TestStore::new();
    let id = store.submit(Policy { deadline_ms, ..Policy::default() });
    assert_eq!(store.claim().execution.id, id);
    store.waitpoint(id, waitpoint_draft("first", None));
    store.waitpoint(id, waitpoint_draft("second", expires_ms));
    (store, id)
}

#[test]
fn of_two_decisions_over_the_same_rows_only_the_first_is_saved() {
    let condition =
        Condition::All(vec![signal("a"), Condition::operator(), Condition::until(When::AfterMs(9))]);
    let waiting = |waits: Vec<selvedge_core::suspension::WaitDraft>| {
        let (mut store, id) = active(Some(90), Some(95));
        store.suspend(id, waits);
        (store, id)
    };
    let last = |ms| at_most(ms, OnTimeout::Fail, wait(condition.clone()));
    let scenes = [
        (active(Some(5), None), true),
        (active(None, Some(5)), true),
        (waiting(vec![last(5)]), false),
        (waiting(vec![last(90)]), false),
        (waiting(vec![wait(signal("a")), wait(signal("first"))]), false),
        (waiting(vec![wait(signal("c"))]), false),
    ];
    let mut did_something = BTreeSet::new();
    for ((store, id), is_active) in scenes {
        let own: &[Operation] = if is_active { &WHILE_ACTIVE } else { &WHILE_SUSPENDED };
        let operations: Vec<Operation> = ANYTIME.iter().chain(own).copied().collect();
        for late_ms in [10, 100] {
            let mut store = store.clone();
            store.advance_ms(late_ms);
            for (first, decide_first) in &operations {
                for (second, decide_second) in &operations {
                    let mut store = store.clone();
                    let early = decide_first(&store, id);
                    let late = decide_second(&store, id);
                    if early.is_empty() || late.is_empty() {
                        continue;
                    }
                    did_something.extend([*first, *second]);
                    assert!(store.save(early), "{first}");
                    assert!(!store.save(late), "{second} was decided over rows that {first} has changed");
                    if store.row(id).state.lease().is_some() || !is_active {
                        let again = decide_second(&store, id);
                        assert!(store.save(again), "{second} after {first}, decided again");
                    }
                }
            }
        }
    }
    let every = ANYTIME.iter().chain(&WHILE_ACTIVE).chain(&WHILE_SUSPENDED).map(|(name, _)| *name);
    assert_eq!(did_something, every.collect(), "each operation had an effect in one of the scenes");
}

/// Returns an active parent and its active child.
fn family(detached: bool) -> (TestStore, ExecutionId, ExecutionId) {
    let mut store = TestStore::new();
    let (parent, child) = (store.active(), store.active());
    let flow = Some(FlowId(parent.0));
    let row = store.executions.get_mut(&parent).expect("it exists");
    let children = vec![Child { execution: child, detached }];
    *row = Execution { flow, wiring: Some(Wiring { children, ..Wiring::default() }.into()), ..row.clone() };
    let row = store.executions.get_mut(&child).expect("it exists");
    let node = Node {
        name: name("child"),
        depth: 1,
        parent: Some(parent),
        tells_if_awaited: false,
        delay: None,
        flow_deadline_at: None,
    };
    row.flow = flow;
    Arc::make_mut(&mut row.spec).node = Some(node);
    (store, parent, child)
}

fn complete(store: &mut TestStore, id: ExecutionId) {
    store.report(id, Op::Complete { result: "1".into() }).expect("it is completed");
}

#[test]
fn the_end_of_the_children_counts_before_and_after_the_suspension() {
    let waits = || vec![step_wait("join", Condition::children())];
    let (mut store, parent, child) = family(false);
    complete(&mut store, child);
    assert_eq!(store.suspend(parent, waits()).state, StateName::Waiting, "the child had ended");
    assert_eq!(
        store.dispatch_parent(parent),
        Dispatched::Advanced { changed: 0, rest: None },
        "nothing is left to update"
    );

    let (mut store, parent, child) = family(false);
    assert_eq!(store.suspend(parent, waits()).state, StateName::Suspended);
    complete(&mut store, child);
    assert_eq!(store.row(parent).state.name(), StateName::Suspended);
    assert_eq!(store.dispatch_parent(parent), Dispatched::Advanced { changed: 1, rest: None });
    assert_eq!(store.row(parent).state, State::Waiting);
    assert_eq!(store.wait_result(parent, "join").map(|waited| waited.resumed_by), Some(ResumedBy::Condition));

    // The child ends while the suspension is decided: the decision does not see it, but the enqueued outbox row finds
    // the suspension.
    let (mut store, parent, child) = family(false);
    let report = store.report_command(parent, suspend(waits()));
    let (_, suspended) = store.decide(&report);
    complete(&mut store, child);
    assert!(store.save(suspended));
    assert_eq!(store.row(parent).state.name(), StateName::Suspended);
    assert_eq!(store.dispatch_parent(parent), Dispatched::Advanced { changed: 1, rest: None });
    assert_eq!(store.row(parent).state, State::Waiting);
}

#[test]
fn a_detached_child_is_not_waited_for() {
    let (mut store, parent, _) = family(true);
    let reported = store.suspend(parent, vec![wait(Condition::children())]);
    assert_eq!(reported.state, StateName::Waiting);
}

#[test]
fn the_end_of_the_children_can_be_part_of_a_condition() {
    let both = || vec![wait(Condition::All(vec![Condition::children(), signal("a")]))];
    let (mut store, parent, child) = family(false);
    store.suspend(parent, both());
    complete(&mut store, child);
    assert_eq!(store.dispatch_parent(parent), Dispatched::Advanced { changed: 1, rest: None });
    assert_eq!(store.row(parent).state.name(), StateName::Suspended);
    assert_eq!(store.signal(parent, "a").effect, Effect::Resumed);

    let (mut store, parent, child) = family(false);
    complete(&mut store, child);
    store.suspend(parent, both());
    assert_eq!(store.row(parent).state.name(), StateName::Suspended);
    assert_eq!(
        store.events.last().map(|event| &event.fact),
        Some(&Fact::Noticed(fact::Noticed { notice: SuspensionNotice::Children }))
    );
    assert_eq!(
        store.dispatch_parent(parent),
        Dispatched::Advanced { changed: 0, rest: None },
        "nothing is left to update"
    );
    assert_eq!(store.signal(parent, "a").effect, Effect::Resumed, "the end of the children was recorded");
}

#[test]
fn a_buffered_signal_counts_although_the_children_have_ended() {
    let (mut store, parent, child) = family(false);
    store.signal(parent, "a");
    complete(&mut store, child);
    let either = Condition::Any(vec![signal("a"), Condition::children()]);
    assert_eq!(store.suspend(parent, vec![step_wait("wait", either)]).state, StateName::Waiting);
    assert_eq!(store.wait_result(parent, "wait").map(|waited| waited.signals), Some(vec![1]));
}
