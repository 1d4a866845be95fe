//! The checker of the invariants finds what is wrong with suspensions, signals, waitpoints and steps: each test breaks one
//! thing in a sound store and looks for the words.

use selvedge_conformance::{Harness, invariants};
use selvedge_core::fact::Notice;
use selvedge_core::log::{Event, unpack};
use selvedge_core::outbox::{OutboxKind, OutboxName};
use selvedge_core::rows::UnreadWrites;
use selvedge_core::rows::{ResultChange, Updated};
use selvedge_core::rules::waitpoint::WaitpointDraft;
use selvedge_core::signal::Effect;
use selvedge_core::step::StepKind;
use selvedge_core::suspension::{Condition, ResumedBy, WaitDraft};
use selvedge_core::table::{Entries, Guarded};
use selvedge_core::waitpoint::WaitpointState;
use selvedge_core::{
    Changes, Draft, Execution, ExecutionId, Fact, Name, NamespaceId, Signal, State, Step, Suspension,
    Waitpoint,
};
use selvedge_memory::MemoryStore;
use std::sync::Arc;

fn on(signal: &str) -> Condition {
    Condition::signal(Name::trusted(signal))
}

fn step_wait(step: &str, condition: Condition) -> WaitDraft {
    WaitDraft { step: Some((Name::trusted(step), StepKind::Wait)), ..WaitDraft::new(condition) }
}

/// A store with one execution. It has done a step, waited for `go`, and made two waitpoints, through one of which a signal
/// came; now it is suspended for `early`, which has come, and `late`, which has not.
async fn sound() -> (Harness, ExecutionId) {
    let harness = Harness::new(Arc::new(MemoryStore::new())).await;
    let claimed = harness.leased(Draft::new("kind")).await;
    let id = claimed.execution.id;
    harness.step(&claimed, "done", "1").await;
    harness.suspend(&claimed, vec![step_wait("first", on("go"))]).await;
    harness.signal(id, "early").await;
    harness.signal(id, "go").await;
    let claimed = harness.claim_again(id).await;
    let draft = |name, expires_ms| WaitpointDraft { expires_ms, ..WaitpointDraft::new(Name::trusted(name)) };
    let used = harness.waitpoint(&claimed, draft("used", Some(50_000))).await;
    harness.waitpoint(&claimed, draft("open", Some(60_000))).await;
    harness.deliver(&used).await.expect("it is taken");
    let both = Condition::All(vec![on("early"), on("late"), Condition::operator()]);
    harness.suspend(&claimed, vec![step_wait("second", both)]).await;
    assert_eq!(invariants::check(&*harness.store).await, Vec::<String>::new());
    (harness, id)
}

/// Saves changes; the checker says so in these words.
async fn is_found(harness: &Harness, words: &str, changes: Changes) {
    harness.save(changes).await;
    let broken = invariants::check(&*harness.store).await;
    assert!(broken.iter().any(|what| what.contains(words)), "{words:?} is not in {broken:#?}");
}

/// Edits the row without a fact.
async fn row(words: &str, edit: impl FnOnce(&mut Execution)) {
    let (harness, id) = sound().await;
    let mut execution = harness.row(id).await;
    let expected_version = execution.version;
    edit(&mut execution);
    let updated = Updated { execution, expected_version, result: ResultChange::Keep, rewired: false };
    is_found(&harness, words, Changes { executions: Guarded::updating([updated]), ..Changes::default() })
        .await;
}

/// Edits what it waits for without a fact.
async fn suspension(words: &str, edit: impl FnOnce(&mut Suspension)) {
    row(words, |row| {
        let State::Suspended(suspension) = &mut row.state else { panic!("it is suspended") };
        edit(Arc::make_mut(suspension));
    })
    .await;
}

#[tokio::test]
async fn a_record_in_the_row_that_no_fact_tells_of_is_found() {
    row("by its log the record is", |row| row.detail.record.untaken -= 1).await;
    row("by its log the record is", |row| row.detail.record.suspensions += 1).await;
    row("by its log the record is", |row| row.detail.record.bytes += 1).await;
    row("by its log the record is", |row| row.detail.record.resumed_by = Some(ResumedBy::Operator)).await;
    row("signals are not taken, and its row says", |row| row.detail.record.untaken += 1).await;
    row("its signals are", |row| row.detail.record.signals += 1).await;
    row("its steps are", |row| row.detail.record.steps += 1).await;
    row("its waitpoints are", |row| row.detail.record.waitpoints -= 1).await;
    row("a waitpoint expires at", |row| row.detail.record.expires_at = None).await;
}

#[tokio::test]
async fn a_suspension_that_has_heard_something_else_is_found() {
    let by_log = "by its log the suspension is";
    suspension(by_log, |suspension| suspension.number += 1).await;
    suspension(by_log, |suspension| suspension.waits[0].escalated = true).await;
    suspension(by_log, |suspension| assert!(suspension.allow())).await;
    row(by_log, |row| row.state = State::Waiting).await;
}

#[tokio::test]
async fn an_execution_that_stays_suspended_though_what_it_waits_for_has_come_is_found() {
    suspension("what it waits for has come, and it is suspended", |suspension| {
        suspension.waits[0].condition = Condition::Operator { said: true };
    })
    .await;
}

/// Edits the tables without a fact: shown the signals, the steps and the waitpoints, gives what to write.
async fn tables(words: &str, edit: impl FnOnce(Vec<Signal>, Vec<Step>, Vec<Waitpoint>) -> Changes) {
    let (harness, id) = sound().await;
    let changes = edit(harness.signals(id).await, harness.steps(id).await, harness.waitpoints(id).await);
    is_found(&harness, words, changes).await;
}

#[tokio::test]
async fn a_signal_that_is_not_what_the_log_tells_is_found() {
    let add = |signal: Signal| Changes { signals: vec![signal], ..Changes::default() };
    tables("signals are not taken, and its row says", |signals, _, _| Changes {
        unread: UnreadWrites {
            signals_taken: vec![(signals[0].execution, signals[0].number, 2)],
            ..UnreadWrites::default()
        },
        ..Changes::default()
    })
    .await;
    tables("its signals are [1, 2, 3, 5]", |signals, _, _| add(Signal { number: 5, ..signals[0].clone() }))
        .await;
    let told = "the log tells of ToldSignal";
    tables(told, |signals, _, _| add(Signal { taken: Some(2), ..signals[1].clone() })).await;
    tables(told, |signals, _, _| add(Signal { source: Name::trusted("x"), ..signals[0].clone() })).await;
    tables(told, |signals, _, _| add(Signal { payload: Some("12345".into()), ..signals[0].clone() })).await;
    tables(told, |signals, _, _| add(Signal { effect: Effect::Resumed, ..signals[0].clone() })).await;
    tables("two signals have the key", |signals, _, _| {
        let key = Some(Name::trusted("key"));
        let keyed = signals.into_iter().take(2).map(|signal| Signal { key: key.clone(), ..signal });
        Changes { signals: keyed.collect(), ..Changes::default() }
    })
    .await;
}

#[tokio::test]
async fn a_step_that_is_not_what_the_log_tells_is_found() {
    let write = |step: Step| Changes { steps: vec![step], ..Changes::default() };
    let told = "the log tells of Some(ToldStep";
    tables(told, |_, steps, _| write(Step { result: Some("22".into()), ..steps[0].clone() })).await;
    tables(told, |_, steps, _| write(Step { attempt: 7, ..steps[0].clone() })).await;
    tables(told, |_, steps, _| {
        let result = Some(r#"{"resumed_by":"condition","signals":[1]}"#.into());
        write(Step { result, ..steps[1].clone() })
    })
    .await;
    tables(told, |_, steps, _| write(Step { recorded_at: Some(steps[2].started_at), ..steps[2].clone() }))
        .await;
    tables("the log tells of None", |_, steps, _| {
        write(Step { name: Name::trusted("x"), ..steps[0].clone() })
    })
    .await;
    tables("its steps are [1, 2, 3, 9]", |_, steps, _| write(Step { number: 9, ..steps[0].clone() })).await;
}

#[tokio::test]
async fn a_waitpoint_that_is_not_what_the_log_tells_is_found() {
    let write = |waitpoint| Changes { waitpoints: vec![waitpoint], ..Changes::default() };
    let told = "the log tells of ToldWaitpoint";
    tables(told, |_, _, all| write(Waitpoint { state: WaitpointState::Open, ..all[0].clone() })).await;
    tables(told, |_, _, all| write(Waitpoint { state: WaitpointState::Revoked, ..all[1].clone() })).await;
    tables(told, |_, _, all| write(Waitpoint { source: Name::trusted("x"), ..all[1].clone() })).await;
    tables("is of namespace", |_, _, all| write(Waitpoint { namespace: NamespaceId(77), ..all[1].clone() }))
        .await;
    tables("its waitpoints are [1, 2, 4]", |_, _, all| write(Waitpoint { number: 4, ..all[1].clone() }))
        .await;
}

#[tokio::test]
async fn what_is_left_of_an_execution_that_is_gone_is_found() {
    let (harness, id) = sound().await;
    harness
        .operate(id, selvedge_core::rules::operator::Action::Cancel { reason: None, grace_ms: 0 })
        .await
        .expect("it is cancelled");
    let (version, left) = (harness.row(id).await.version, harness.signals(id).await);
    let changes =
        Changes { executions: Guarded::deleting([(id, version)]), signals: left, ..Changes::default() };
    is_found(&harness, "it is gone, and this is left of it", changes).await;
}

/// The newest fact of the log that is like this.
async fn newest(harness: &Harness, like: impl Fn(&Fact) -> bool) -> Event {
    let log = harness.store.log_after(0, 1_000).await.expect("the log is read");
    let events = log.entries.iter().flat_map(|entry| unpack(&entry.body).expect("can be read"));
    events.filter(|event| like(&event.fact)).last().expect("there is one")
}

/// Tells one more fact: the newest that is like this, edited.
async fn fact(words: &str, like: impl Fn(&Fact) -> bool, edit: impl FnOnce(&mut Event)) {
    let (harness, id) = sound().await;
    let mut event = newest(&harness, like).await;
    event.version = Some(harness.row(id).await.version + 1);
    edit(&mut event);
    is_found(&harness, words, Changes { events: vec![event], ..Changes::default() }).await;
}

#[tokio::test]
async fn a_token_that_is_accepted_twice_is_found() {
    fact(
        "and was not open",
        |fact| matches!(fact, Fact::Signalled { waitpoint: Some(_), .. }),
        |event| {
            if let Fact::Signalled { number, .. } = &mut event.fact {
                *number = 4;
            }
        },
    )
    .await;
}

#[tokio::test]
async fn a_signal_that_did_something_else_than_is_told_is_found() {
    let is_signal = |fact: &Fact| matches!(fact, Fact::Signalled { .. });
    let told_as = |told: Effect| {
        move |event: &mut Event| {
            if let Fact::Signalled { number, name, waitpoint, effect, .. } = &mut event.fact {
                (*number, *name, *waitpoint, *effect) = (4, Name::trusted("late"), None, told);
            }
        }
    };
    fact("signal 4 is told as Buffered and was Counted", is_signal, told_as(Effect::Buffered)).await;
    fact("signal 4 is told as Resumed and was Counted", is_signal, told_as(Effect::Resumed)).await;
    fact("and it does not go on", is_signal, told_as(Effect::Resumed)).await;
    fact("signal 9 follows 3", is_signal, |event| {
        if let Fact::Signalled { number, waitpoint, .. } = &mut event.fact {
            (*number, *waitpoint) = (9, None);
        }
    })
    .await;
}

#[tokio::test]
async fn a_suspension_that_goes_on_or_ends_without_cause_is_found() {
    let is_resumed = |fact: &Fact| matches!(fact, Fact::Resumed { .. });
    fact("no wait of", is_resumed, |event| {
        if let Fact::Resumed { suspension, .. } = &mut event.fact {
            *suspension = 2;
        }
    })
    .await;
    fact("it took [] and ended []", is_resumed, |event| {
        if let Fact::Resumed { suspension, by, .. } = &mut event.fact {
            (*suspension, *by) = (2, ResumedBy::Operator);
        }
    })
    .await;
    fact("is no news to", is_resumed, |event| event.fact = Fact::Noticed { notice: Notice::Time }).await;
    fact("was overdue", is_resumed, |event| {
        let (on_timeout, next) = (
            selvedge_core::suspension::OnTimeout::Fail,
            selvedge_core::fact::Next::Terminal(selvedge_core::Outcome::Failed),
        );
        event.fact = Fact::SuspensionTimedOut { suspension: 2, on_timeout, next };
    })
    .await;
}

#[tokio::test]
async fn a_waitpoint_that_expires_early_or_is_made_twice_is_found() {
    let is_made = |fact: &Fact| matches!(fact, Fact::WaitpointCreated { .. });
    fact("expired before its time", is_made, |event| {
        if let Fact::WaitpointCreated { waitpoint, name, .. } = event.fact.clone() {
            event.fact = Fact::WaitpointExpired { waitpoint, name };
        }
    })
    .await;
    fact("it was made before", is_made, |event| {
        if let Fact::WaitpointCreated { source, .. } = &mut event.fact {
            *source = Name::trusted("another");
        }
    })
    .await;
}

#[tokio::test]
async fn a_fact_of_another_namespace_is_found() {
    fact(
        "is of another namespace",
        |fact| matches!(fact, Fact::Suspended { .. }),
        |event| {
            event.namespace = NamespaceId(77);
        },
    )
    .await;
}

#[tokio::test]
async fn a_parent_that_is_not_told_of_the_end_of_its_children_is_found() {
    let harness = Harness::new(Arc::new(MemoryStore::new())).await;
    let flow = harness.flow("p").await;
    let parent = flow.claim("p").await;
    flow.spawn(&parent, "child").await;
    harness.suspend(&parent, vec![WaitDraft::new(Condition::children())]).await;
    flow.complete("child").await;
    assert_eq!(invariants::check(&*harness.store).await, Vec::<String>::new(), "that is left to be told");
    let name = OutboxName { id: parent.execution.id.0, kind: OutboxKind::Parent };
    let lost = Changes { outbox: Entries::removing([name]), ..Changes::default() };
    is_found(&harness, "its children have ended, and nothing is left to tell it", lost).await;
}
