//! Two things that come at the same time: each order gives the same end, or one of them finds that it came too late.

use super::desk::{Desk, name};
use super::words::{
    at_most, done, signal, signal_command, signal_from, step_wait, suspend, suspend_with, token_command,
    wait, waitpoint_draft,
};
use selvedge_core::execution::RecordSummary;
use selvedge_core::fact::{Fact, SuspensionNotice};
use selvedge_core::rules::dispatch::Dispatched;
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

/// How an execution stands in the end: its state, what was recorded, who took which signals, and how its wait ended.
type End = (State, RecordSummary, Vec<Option<u32>>, Option<WaitResult>);

/// Suspends after the first `early` of these signals; the others come after that.
fn end_of(condition: &Condition, signals: &[(&str, &str)], early: usize) -> End {
    let mut desk = Desk::new();
    let id = desk.leased();
    for (index, (text, source)) in signals.iter().enumerate() {
        if index == early {
            desk.suspend(id, vec![step_wait("wait", condition.clone())]);
        }
        desk.run(&signal_from(id, text, source)).expect("it is accepted");
    }
    if early == signals.len() {
        desk.suspend(id, vec![step_wait("wait", condition.clone())]);
    }
    let row = desk.row(id);
    (without_lease_id(&row.state), row.detail.record.clone(), desk.taken(id), desk.waited(id, "wait"))
}

/// The state without the random id of its last lease.
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
fn signals_count_the_same_whether_they_come_before_the_wait_or_after_it() {
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
    assert!(ends.contains(&(StateName::Suspended, 3)), "some wait on: {ends:?}");
    assert!((0..=2).all(|untaken| ends.contains(&(StateName::Waiting, untaken))), "others go on: {ends:?}");
}

#[test]
fn of_two_signals_that_each_complete_the_condition_one_resumes_and_the_other_is_kept() {
    for [first, second] in [["a", "b"], ["b", "a"], ["a", "a"]] {
        let mut desk = Desk::new();
        let id = desk.suspended(vec![step_wait("wait", Condition::Any(vec![signal("a"), signal("b")]))]);
        let (_, late) = desk.decide(&signal_command(id, second));
        assert_eq!(desk.signal(id, first).effect, Effect::Resumed);
        assert!(!desk.save(late), "what was decided before the first came is not saved");
        assert_eq!(desk.signal(id, second).effect, Effect::Buffered);
        assert_eq!(desk.taken(id), [Some(1), None]);
        let waited = WaitResult { resumed_by: ResumedBy::Condition, signals: vec![1] };
        assert_eq!(desk.waited(id, "wait"), Some(waited));
        let resumed = desk.events.iter().filter(|event| matches!(event.fact, Fact::Resumed { .. }));
        assert_eq!(resumed.count(), 1);
    }
}

#[test]
fn a_signal_that_comes_after_the_timeout_finds_what_the_timeout_left() {
    for then in OnTimeout::ALL {
        let mut desk = Desk::new();
        let id = desk.suspended(vec![at_most(10, then, step_wait("wait", signal("a")))]);
        desk.wait_ms(10);
        assert_eq!(desk.tick(id, DueKind::SuspensionTimeout), TimerReply::Fired);
        let delivered = desk.try_signal(id, "a");
        let ended = |outcome| Err(Refusal::AlreadyTerminal { execution: id, outcome });
        match then {
            OnTimeout::Fail => assert_eq!(delivered, ended(Outcome::Failed)),
            OnTimeout::Cancel => assert_eq!(delivered, ended(Outcome::Cancelled)),
            OnTimeout::Expire => assert_eq!(delivered, ended(Outcome::Expired)),
            OnTimeout::Resume => {
                assert_eq!(delivered.expect("it is accepted").effect, Effect::Buffered);
                let waited = WaitResult { resumed_by: ResumedBy::Timeout, signals: vec![] };
                assert_eq!(desk.waited(id, "wait"), Some(waited), "the wait has ended, and stays so");
            }
            OnTimeout::Escalate => {
                assert_eq!(delivered.expect("it is accepted").effect, Effect::Resumed);
                assert_eq!(desk.waited(id, "wait").map(|waited| waited.signals), Some(vec![1]));
            }
        }
        let kept = desk.signals_of(id).filter(|signal| signal.taken.is_none()).count();
        assert_eq!(kept, usize::from(then == OnTimeout::Resume));
    }
}

#[test]
fn a_suspension_that_was_satisfied_is_never_timed_out_by_a_tick_that_saw_it_before() {
    for then in OnTimeout::ALL {
        let mut desk = Desk::new();
        let id = desk.suspended(vec![at_most(10, then, wait(signal("a")))]);
        desk.wait_ms(10);
        let due = desk.row(id).due().expect("something is due");
        assert_eq!((due.kind, due.at), (DueKind::SuspensionTimeout, desk.now), "a reconciler finds it");
        let tick = FireTimer { execution: id, timer: Timer::Due(DueKind::SuspensionTimeout) };
        let (ticked, late) = desk.decide(&tick);
        assert_eq!(ticked, Ok(TimerReply::Fired), "by the row as it was, it is overdue");
        assert_eq!(desk.signal(id, "a").effect, Effect::Resumed);
        assert!(!desk.save(late), "what was decided before the signal is not saved");
        assert_eq!(desk.run(&tick), Ok(TimerReply::NotDue), "with the row locked, it is not");
        assert_eq!(desk.claim().execution.id, id);
        let running = desk.row(id).clone();
        assert_eq!(desk.run(&tick), Ok(TimerReply::NotDue));
        assert_eq!(desk.row(id), &running, "it runs on");
    }
}

#[test]
fn a_timeout_that_came_first_is_not_undone_by_a_signal_that_was_decided_before_it() {
    let mut desk = Desk::new();
    let id = desk.suspended(vec![at_most(10, OnTimeout::Fail, wait(signal("a")))]);
    let (delivered, late) = desk.decide(&signal_command(id, "a"));
    assert_eq!(delivered.map(|delivered| delivered.effect), Ok(Effect::Resumed));
    desk.wait_ms(10);
    assert_eq!(desk.tick(id, DueKind::SuspensionTimeout), TimerReply::Fired);
    assert!(!desk.save(late));
    assert_eq!(desk.row(id).state, State::Terminal(Outcome::Failed));
    let outcome = Outcome::Failed;
    assert_eq!(desk.try_signal(id, "a"), Err(Refusal::AlreadyTerminal { execution: id, outcome }));
}

#[test]
fn a_time_that_came_before_the_timeout_wins_however_late_both_are_looked_at() {
    let mut desk = Desk::new();
    let until = Condition::until(When::AfterMs(10));
    let id = desk.suspended(vec![at_most(11, OnTimeout::Fail, wait(until.clone()))]);
    desk.wait_ms(1_000);
    assert_eq!(desk.tick(id, DueKind::SuspensionTimeout), TimerReply::NotDue);
    assert_eq!(desk.tick(id, DueKind::Delay), TimerReply::Fired);
    assert_eq!(desk.claim().execution.id, id);
    let same = desk.suspended(vec![at_most(10, OnTimeout::Fail, wait(until))]);
    desk.wait_ms(10);
    assert_eq!(desk.tick(same, DueKind::SuspensionTimeout), TimerReply::NotDue, "at the same moment, too");
    assert_eq!(desk.tick(same, DueKind::Delay), TimerReply::Fired);
}

/// What may happen to an execution, by name: decided by the rows of the desk, and not saved.
type Move = (&'static str, fn(&Desk, ExecutionId) -> Changes);

fn decided(desk: &Desk, id: ExecutionId, op: Op) -> Changes {
    let report = desk.report_command(id, op);
    desk.decide(&report).1
}

fn ticked(desk: &Desk, id: ExecutionId, kind: DueKind) -> Changes {
    desk.decide(&FireTimer { execution: id, timer: Timer::Due(kind) }).1
}

fn operated(desk: &Desk, id: ExecutionId, action: Action) -> Changes {
    let operate = desk.operate_command(id, action);
    desk.decide(&operate).1
}

fn through(desk: &Desk, id: ExecutionId, place: u32) -> Changes {
    let waitpoint = desk.waitpoints[&(id, place)].clone();
    desk.decide(&token_command(&waitpoint, None)).1
}

/// What may happen while it is held, and while it is suspended.
const ANYTIME: [Move; 7] = [
    ("a signal", |desk, id| desk.decide(&signal_command(id, "a")).1),
    ("another signal", |desk, id| desk.decide(&signal_command(id, "b")).1),
    ("a delivery", |desk, id| through(desk, id, 1)),
    ("the revocation of that token", |desk, id| {
        let waitpoint = desk.waitpoints[&(id, 1)].id;
        operated(desk, id, Action::RevokeWaitpoint { waitpoint })
    }),
    ("the expiry of a waitpoint", |desk, id| ticked(desk, id, DueKind::WaitpointExpiry)),
    ("a cancel", |desk, id| operated(desk, id, Action::Cancel { reason: None, grace_ms: 0 })),
    ("the deadline", |desk, id| ticked(desk, id, DueKind::Deadline)),
];

const WHILE_HELD: [Move; 6] = [
    ("a suspension", |desk, id| decided(desk, id, suspend(vec![step_wait("wait", signal("a"))]))),
    ("a suspension with a waitpoint", |desk, id| {
        let waitpoints = vec![waitpoint_draft("new", Some(5))];
        decided(desk, id, suspend_with(vec![wait(signal("new"))], waitpoints))
    }),
    ("a waitpoint", |desk, id| {
        let (draft, fingerprint) = (waitpoint_draft("new", None), super::words::secret().fingerprint());
        decided(desk, id, Op::Waitpoint { draft, fingerprint })
    }),
    ("a waitpoint that is signed anew", |desk, id| {
        let (draft, fingerprint) = (waitpoint_draft("first", None), 0);
        decided(desk, id, Op::Waitpoint { draft, fingerprint })
    }),
    ("a step", |desk, id| decided(desk, id, done("step", "1"))),
    ("a completion", |desk, id| decided(desk, id, Op::Complete { result: "1".into() })),
];

const WHILE_SUSPENDED: [Move; 3] = [
    ("the timeout", |desk, id| ticked(desk, id, DueKind::SuspensionTimeout)),
    ("a time", |desk, id| ticked(desk, id, DueKind::Delay)),
    ("an operator", |desk, id| operated(desk, id, Action::Resume)),
];

/// Leased, with two waitpoints; and what is due of it comes first at this time: the expiry, or the deadline.
fn held(expires_ms: Option<i64>, deadline_ms: Option<i64>) -> (Desk, ExecutionId) {
    let mut desk = Desk::new();
    let id = desk.submit(Policy { deadline_ms, ..Policy::default() });
    assert_eq!(desk.claim().execution.id, id);
    desk.waitpoint(id, waitpoint_draft("first", None));
    desk.waitpoint(id, waitpoint_draft("second", expires_ms));
    (desk, id)
}

#[test]
fn of_two_decisions_over_the_same_rows_only_the_first_is_saved() {
    let condition =
        Condition::All(vec![signal("a"), Condition::operator(), Condition::until(When::AfterMs(9))]);
    let waiting = |waits: Vec<selvedge_core::suspension::WaitDraft>| {
        let (mut desk, id) = held(Some(90), Some(95));
        desk.suspend(id, waits);
        (desk, id)
    };
    let last = |ms| at_most(ms, OnTimeout::Fail, wait(condition.clone()));
    let scenes = [
        (held(Some(5), None), true),
        (held(None, Some(5)), true),
        (waiting(vec![last(5)]), false),
        (waiting(vec![last(90)]), false),
        (waiting(vec![wait(signal("a")), wait(signal("first"))]), false),
        (waiting(vec![wait(signal("c"))]), false),
    ];
    let mut did_something = BTreeSet::new();
    for ((desk, id), held) in scenes {
        let own: &[Move] = if held { &WHILE_HELD } else { &WHILE_SUSPENDED };
        let moves: Vec<Move> = ANYTIME.iter().chain(own).copied().collect();
        for late_ms in [10, 100] {
            let mut desk = desk.clone();
            desk.wait_ms(late_ms);
            for (first, decide_first) in &moves {
                for (second, decide_second) in &moves {
                    let mut desk = desk.clone();
                    let early = decide_first(&desk, id);
                    let late = decide_second(&desk, id);
                    if early.is_empty() || late.is_empty() {
                        continue;
                    }
                    did_something.extend([*first, *second]);
                    assert!(desk.save(early), "{first}");
                    assert!(!desk.save(late), "{second} after {first} was decided by rows that have moved");
                    if desk.row(id).state.lease().is_some() || !held {
                        let again = decide_second(&desk, id);
                        assert!(desk.save(again), "{second} after {first}, decided anew");
                    }
                }
            }
        }
    }
    let every = ANYTIME.iter().chain(&WHILE_HELD).chain(&WHILE_SUSPENDED).map(|(what, _)| *what);
    assert_eq!(did_something, every.collect(), "each did something in one of the scenes");
}

/// A parent that is leased, and its child, which is too.
fn family(detached: bool) -> (Desk, ExecutionId, ExecutionId) {
    let mut desk = Desk::new();
    let (parent, child) = (desk.leased(), desk.leased());
    let flow = Some(FlowId(parent.0));
    let row = desk.executions.get_mut(&parent).expect("it is there");
    let children = vec![Child { execution: child, detached }];
    *row = Execution { flow, wiring: Some(Wiring { children, ..Wiring::default() }.into()), ..row.clone() };
    let row = desk.executions.get_mut(&child).expect("it is there");
    let node =
        Node { name: name("child"), depth: 1, parent: Some(parent), delay: None, flow_deadline_at: None };
    row.flow = flow;
    Arc::make_mut(&mut row.spec).node = Some(node);
    (desk, parent, child)
}

fn complete(desk: &mut Desk, id: ExecutionId) {
    desk.report(id, Op::Complete { result: "1".into() }).expect("it is completed");
}

#[test]
fn the_end_of_the_children_is_heard_whether_it_comes_before_the_wait_or_after_it() {
    let waits = || vec![step_wait("join", Condition::children())];
    let (mut desk, parent, child) = family(false);
    complete(&mut desk, child);
    assert_eq!(desk.suspend(parent, waits()).state, StateName::Waiting, "it had ended");
    assert_eq!(desk.tell_parent(parent), Dispatched::Advanced { changed: 0, rest: None }, "that is no news");

    let (mut desk, parent, child) = family(false);
    assert_eq!(desk.suspend(parent, waits()).state, StateName::Suspended);
    complete(&mut desk, child);
    assert_eq!(desk.row(parent).state.name(), StateName::Suspended);
    assert_eq!(desk.tell_parent(parent), Dispatched::Advanced { changed: 1, rest: None });
    assert_eq!(desk.row(parent).state, State::Waiting);
    assert_eq!(desk.waited(parent, "join").map(|waited| waited.resumed_by), Some(ResumedBy::Condition));

    // It ends while the suspension is decided: that has not seen it, and the word that was left finds the suspension.
    let (mut desk, parent, child) = family(false);
    let report = desk.report_command(parent, suspend(waits()));
    let (_, suspended) = desk.decide(&report);
    complete(&mut desk, child);
    assert!(desk.save(suspended));
    assert_eq!(desk.row(parent).state.name(), StateName::Suspended);
    assert_eq!(desk.tell_parent(parent), Dispatched::Advanced { changed: 1, rest: None });
    assert_eq!(desk.row(parent).state, State::Waiting);
}

#[test]
fn a_child_that_was_spawned_detached_is_not_waited_for() {
    let (mut desk, parent, _) = family(true);
    let reported = desk.suspend(parent, vec![wait(Condition::children())]);
    assert_eq!(reported.state, StateName::Waiting);
}

#[test]
fn the_end_of_the_children_is_part_of_a_wait_for_more() {
    let both = || vec![wait(Condition::All(vec![Condition::children(), signal("a")]))];
    let (mut desk, parent, child) = family(false);
    desk.suspend(parent, both());
    complete(&mut desk, child);
    assert_eq!(desk.tell_parent(parent), Dispatched::Advanced { changed: 1, rest: None });
    assert_eq!(desk.row(parent).state.name(), StateName::Suspended);
    assert_eq!(desk.signal(parent, "a").effect, Effect::Resumed);

    let (mut desk, parent, child) = family(false);
    complete(&mut desk, child);
    desk.suspend(parent, both());
    assert_eq!(desk.row(parent).state.name(), StateName::Suspended);
    assert_eq!(
        desk.events.last().map(|event| &event.fact),
        Some(&Fact::Noticed { notice: SuspensionNotice::Children })
    );
    assert_eq!(desk.tell_parent(parent), Dispatched::Advanced { changed: 0, rest: None }, "that is no news");
    assert_eq!(desk.signal(parent, "a").effect, Effect::Resumed, "it knew of the children");
}

#[test]
fn a_signal_that_was_kept_counts_also_where_the_children_have_ended() {
    let (mut desk, parent, child) = family(false);
    desk.signal(parent, "a");
    complete(&mut desk, child);
    let either = Condition::Any(vec![signal("a"), Condition::children()]);
    assert_eq!(desk.suspend(parent, vec![step_wait("wait", either)]).state, StateName::Waiting);
    assert_eq!(desk.waited(parent, "wait").map(|waited| waited.signals), Some(vec![1]));
}
