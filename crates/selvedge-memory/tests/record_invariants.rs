//! The invariant checker finds violations in suspensions, signals, waitpoints and steps: each test corrupts one thing
//! in a sound store and expects a message.

use selvedge_conformance::{Harness, invariants};
use selvedge_core::fact::{self, SuspensionNotice};
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

fn on_signal(signal: &str) -> Condition {
    Condition::signal(Name::trusted(signal))
}

fn step_wait(step: &str, condition: Condition) -> WaitDraft {
    WaitDraft { step: Some((Name::trusted(step), StepKind::Wait)), ..WaitDraft::new(condition) }
}

/// Returns a sound store with one execution. It has recorded a step, waited for `go`, and created two waitpoints, one
/// of which has delivered a signal. Now it is suspended on `early`, which has arrived, and `late`, which has not.
async fn sound_store() -> (Harness, ExecutionId) {
    let harness = Harness::new(Arc::new(MemoryStore::new())).await;
    let claimed = harness.leased(Draft::new("kind")).await;
    let id = claimed.execution.id;
    harness.step(&claimed, "done", "1").await;
    harness.suspend(&claimed, vec![step_wait("first", on_signal("go"))]).await;
    harness.signal(id, "early").await;
    harness.signal(id, "go").await;
    let claimed = harness.claim_again(id).await;
    let draft = |name, expires_ms| WaitpointDraft { expires_ms, ..WaitpointDraft::new(Name::trusted(name)) };
    let used = harness.waitpoint(&claimed, draft("used", Some(50_000))).await;
    harness.waitpoint(&claimed, draft("open", Some(60_000))).await;
    harness.deliver(&used).await.expect("it is delivered");
    let both = Condition::All(vec![on_signal("early"), on_signal("late"), Condition::operator()]);
    harness.suspend(&claimed, vec![step_wait("second", both)]).await;
    assert_eq!(invariants::check(&*harness.store).await, Vec::<String>::new());
    (harness, id)
}

/// Saves changes and asserts that the checker reports `message`.
async fn assert_found(harness: &Harness, message: &str, changes: Changes) {
    harness.save(changes).await;
    let violations = invariants::check(&*harness.store).await;
    assert!(violations.iter().any(|what| what.contains(message)), "{message:?} is not in {violations:#?}");
}

/// Edits the row of a sound store and asserts that the checker reports `message`.
async fn assert_edited_row_found(message: &str, edit: impl FnOnce(&mut Execution)) {
    let (harness, id) = sound_store().await;
    let mut execution = harness.row(id).await;
    let expected_version = execution.version;
    edit(&mut execution);
    let updated =
        Updated { execution, expected_version, result: ResultChange::Keep, rewired: false, input: None };
    assert_found(
        &harness,
        message,
        Changes { executions: Guarded::updating([updated]), ..Changes::default() },
    )
    .await;
}

/// Edits the suspension in a sound store and asserts that the checker reports `message`.
async fn assert_edited_suspension_found(message: &str, edit: impl FnOnce(&mut Suspension)) {
    assert_edited_row_found(message, |row| {
        let State::Suspended(suspension) = &mut row.state else { panic!("it is suspended") };
        edit(Arc::make_mut(suspension));
    })
    .await;
}

#[tokio::test]
async fn a_record_in_the_row_without_an_event_is_found() {
    assert_edited_row_found("by the event log the record is", |row| row.detail.record.untaken -= 1).await;
    assert_edited_row_found("by the event log the record is", |row| row.detail.record.suspensions += 1).await;
    assert_edited_row_found("by the event log the record is", |row| row.detail.record.bytes += 1).await;
    assert_edited_row_found("by the event log the record is", |row| {
        row.detail.record.resumed_by = Some(ResumedBy::Operator)
    })
    .await;
    assert_edited_row_found("signals are untaken, and its row counts", |row| row.detail.record.untaken += 1)
        .await;
    assert_edited_row_found("its signals are", |row| row.detail.record.signals += 1).await;
    assert_edited_row_found("its steps are", |row| row.detail.record.steps += 1).await;
    assert_edited_row_found("its waitpoints are", |row| row.detail.record.waitpoints -= 1).await;
    assert_edited_row_found("a waitpoint expires at", |row| row.detail.record.expires_at = None).await;
}

#[tokio::test]
async fn a_suspension_that_differs_from_the_log_is_found() {
    let by_log = "by the event log the suspension is";
    assert_edited_suspension_found(by_log, |suspension| suspension.number += 1).await;
    assert_edited_suspension_found(by_log, |suspension| suspension.waits[0].escalated = true).await;
    assert_edited_suspension_found(by_log, |suspension| assert!(suspension.resume_by_operator())).await;
    assert_edited_row_found(by_log, |row| row.state = State::Waiting).await;
}

#[tokio::test]
async fn an_execution_that_stays_suspended_though_its_resume_condition_holds_is_found() {
    assert_edited_suspension_found("its resume condition holds, and it is still suspended", |suspension| {
        suspension.waits[0].condition = Condition::Operator { resumed: true };
    })
    .await;
}

/// Edits the signals, steps and waitpoints of a sound store and asserts that the checker reports `message`.
async fn assert_edited_tables_found(
    message: &str,
    edit: impl FnOnce(Vec<Signal>, Vec<Step>, Vec<Waitpoint>) -> Changes,
) {
    let (harness, id) = sound_store().await;
    let changes = edit(harness.signals(id).await, harness.steps(id).await, harness.waitpoints(id).await);
    assert_found(&harness, message, changes).await;
}

#[tokio::test]
async fn a_signal_that_differs_from_the_log_is_found() {
    let add = |signal: Signal| Changes { signals: vec![signal], ..Changes::default() };
    assert_edited_tables_found("signals are untaken, and its row counts", |signals, _, _| Changes {
        unread: UnreadWrites {
            signals_taken: vec![(signals[0].execution, signals[0].number, 2)],
            ..UnreadWrites::default()
        },
        ..Changes::default()
    })
    .await;
    assert_edited_tables_found("its signals are [1, 2, 3, 5]", |signals, _, _| {
        add(Signal { number: 5, ..signals[0].clone() })
    })
    .await;
    let differs = "the event log has LoggedSignal";
    assert_edited_tables_found(differs, |signals, _, _| add(Signal { taken: Some(2), ..signals[1].clone() }))
        .await;
    assert_edited_tables_found(differs, |signals, _, _| {
        add(Signal { source: Name::trusted("x"), ..signals[0].clone() })
    })
    .await;
    assert_edited_tables_found(differs, |signals, _, _| {
        add(Signal { payload: Some("12345".into()), ..signals[0].clone() })
    })
    .await;
    assert_edited_tables_found(differs, |signals, _, _| {
        add(Signal { effect: Effect::Resumed, ..signals[0].clone() })
    })
    .await;
    assert_edited_tables_found("two signals have the key", |signals, _, _| {
        let key = Some(Name::trusted("key"));
        let keyed = signals.into_iter().take(2).map(|signal| Signal { key: key.clone(), ..signal });
        Changes { signals: keyed.collect(), ..Changes::default() }
    })
    .await;
}

#[tokio::test]
async fn a_step_that_differs_from_the_log_is_found() {
    let write = |step: Step| Changes { steps: vec![step], ..Changes::default() };
    let differs = "the event log has Some(LoggedStep";
    assert_edited_tables_found(differs, |_, steps, _| {
        write(Step { result: Some("22".into()), ..steps[0].clone() })
    })
    .await;
    assert_edited_tables_found(differs, |_, steps, _| write(Step { attempt: 7, ..steps[0].clone() })).await;
    assert_edited_tables_found(differs, |_, steps, _| {
        let result = Some(r#"{"resumed_by":"condition","signals":[1]}"#.into());
        write(Step { result, ..steps[1].clone() })
    })
    .await;
    assert_edited_tables_found(differs, |_, steps, _| {
        write(Step { recorded_at: Some(steps[2].started_at), ..steps[2].clone() })
    })
    .await;
    assert_edited_tables_found("the event log has None", |_, steps, _| {
        write(Step { name: Name::trusted("x"), ..steps[0].clone() })
    })
    .await;
    assert_edited_tables_found("its steps are [1, 2, 3, 9]", |_, steps, _| {
        write(Step { number: 9, ..steps[0].clone() })
    })
    .await;
}

#[tokio::test]
async fn a_waitpoint_that_differs_from_the_log_is_found() {
    let write = |waitpoint| Changes { waitpoints: vec![waitpoint], ..Changes::default() };
    let differs = "the event log has LoggedWaitpoint";
    assert_edited_tables_found(differs, |_, _, all| {
        write(Waitpoint { state: WaitpointState::Open, ..all[0].clone() })
    })
    .await;
    assert_edited_tables_found(differs, |_, _, all| {
        write(Waitpoint { state: WaitpointState::Revoked, ..all[1].clone() })
    })
    .await;
    assert_edited_tables_found(differs, |_, _, all| {
        write(Waitpoint { source: Name::trusted("x"), ..all[1].clone() })
    })
    .await;
    assert_edited_tables_found("belongs to namespace", |_, _, all| {
        write(Waitpoint { namespace: NamespaceId(77), ..all[1].clone() })
    })
    .await;
    assert_edited_tables_found("its waitpoints are [1, 2, 4]", |_, _, all| {
        write(Waitpoint { number: 4, ..all[1].clone() })
    })
    .await;
}

#[tokio::test]
async fn a_row_of_a_deleted_execution_is_found() {
    let (harness, id) = sound_store().await;
    harness
        .operate(id, selvedge_core::rules::operator::Action::Cancel { reason: None, grace_ms: 0 })
        .await
        .expect("it is cancelled");
    let (version, remaining) = (harness.row(id).await.version, harness.signals(id).await);
    let changes =
        Changes { executions: Guarded::deleting([(id, version)]), signals: remaining, ..Changes::default() };
    assert_found(&harness, "it was deleted, and these rows remain", changes).await;
}

/// Returns the newest event whose fact matches.
async fn newest(harness: &Harness, matches_fact: impl Fn(&Fact) -> bool) -> Event {
    let log = harness.store.log_after(0, 1_000).await.expect("the log is read");
    let events = log.entries.iter().flat_map(|entry| unpack(&entry.body).expect("an entry can be decoded"));
    events.filter(|event| matches_fact(&event.fact)).last().expect("there is one")
}

/// Logs one more event, an edited copy of the newest whose fact matches, and asserts that the checker reports
/// `message`.
async fn assert_extra_event_found(
    message: &str,
    matches_fact: impl Fn(&Fact) -> bool,
    edit: impl FnOnce(&mut Event),
) {
    let (harness, id) = sound_store().await;
    let mut event = newest(&harness, matches_fact).await;
    event.version = Some(harness.row(id).await.version + 1);
    edit(&mut event);
    assert_found(&harness, message, Changes { events: vec![event], ..Changes::default() }).await;
}

#[tokio::test]
async fn a_token_that_is_accepted_twice_is_found() {
    assert_extra_event_found(
        "and was not open",
        |fact| matches!(fact, Fact::Signalled(fact::Signalled { waitpoint: Some(_), .. })),
        |event| {
            if let Fact::Signalled(fact::Signalled { number, .. }) = &mut event.fact {
                *number = 4;
            }
        },
    )
    .await;
}

#[tokio::test]
async fn a_signal_with_another_effect_than_logged_is_found() {
    let is_signal = |fact: &Fact| matches!(fact, Fact::Signalled { .. });
    let logged_as = |logged: Effect| {
        move |event: &mut Event| {
            if let Fact::Signalled(fact::Signalled { number, name, waitpoint, effect, .. }) = &mut event.fact
            {
                (*number, *name, *waitpoint, *effect) = (4, Name::trusted("late"), None, logged);
            }
        }
    };
    assert_extra_event_found(
        "signal 4 is logged as Buffered and was Counted",
        is_signal,
        logged_as(Effect::Buffered),
    )
    .await;
    assert_extra_event_found(
        "signal 4 is logged as Resumed and was Counted",
        is_signal,
        logged_as(Effect::Resumed),
    )
    .await;
    assert_extra_event_found("and it is not resumed", is_signal, logged_as(Effect::Resumed)).await;
    assert_extra_event_found("signal 9 follows 3", is_signal, |event| {
        if let Fact::Signalled(fact::Signalled { number, waitpoint, .. }) = &mut event.fact {
            (*number, *waitpoint) = (9, None);
        }
    })
    .await;
}

#[tokio::test]
async fn a_suspension_that_resumes_or_ends_without_cause_is_found() {
    let is_resumed = |fact: &Fact| matches!(fact, Fact::Resumed { .. });
    assert_extra_event_found("no wait of", is_resumed, |event| {
        if let Fact::Resumed(fact::Resumed { suspension, .. }) = &mut event.fact {
            *suspension = 2;
        }
    })
    .await;
    assert_extra_event_found("it took [] and ended []", is_resumed, |event| {
        if let Fact::Resumed(fact::Resumed { suspension, by, .. }) = &mut event.fact {
            (*suspension, *by) = (2, ResumedBy::Operator);
        }
    })
    .await;
    assert_extra_event_found("changes nothing in", is_resumed, |event| {
        event.fact = Fact::Noticed(fact::Noticed { notice: SuspensionNotice::Time })
    })
    .await;
    assert_extra_event_found("was overdue", is_resumed, |event| {
        let (on_timeout, next) = (
            selvedge_core::suspension::OnTimeout::Fail,
            selvedge_core::fact::Next::Terminal(selvedge_core::Outcome::Failed),
        );
        event.fact = Fact::SuspensionTimedOut(fact::SuspensionTimedOut { suspension: 2, on_timeout, next });
    })
    .await;
}

#[tokio::test]
async fn a_waitpoint_that_expires_early_or_is_created_twice_is_found() {
    let is_created = |fact: &Fact| matches!(fact, Fact::WaitpointCreated { .. });
    assert_extra_event_found("expired before its time", is_created, |event| {
        if let Fact::WaitpointCreated(fact::WaitpointCreated { waitpoint, name, .. }) = event.fact.clone() {
            event.fact = Fact::WaitpointExpired(fact::WaitpointExpired { waitpoint, name });
        }
    })
    .await;
    assert_extra_event_found("it was created before", is_created, |event| {
        if let Fact::WaitpointCreated(fact::WaitpointCreated { source, .. }) = &mut event.fact {
            *source = Name::trusted("another");
        }
    })
    .await;
}

#[tokio::test]
async fn an_event_of_another_namespace_is_found() {
    assert_extra_event_found(
        "belongs to another namespace",
        |fact| matches!(fact, Fact::Suspended { .. }),
        |event| {
            event.namespace = NamespaceId(77);
        },
    )
    .await;
}

#[tokio::test]
async fn a_parent_that_is_not_notified_of_the_end_of_its_children_is_found() {
    let harness = Harness::new(Arc::new(MemoryStore::new())).await;
    let flow = harness.flow("p").await;
    let parent = flow.claim("p").await;
    flow.spawn(&parent, "child").await;
    harness.suspend(&parent, vec![WaitDraft::new(Condition::children())]).await;
    flow.complete("child").await;
    assert_eq!(
        invariants::check(&*harness.store).await,
        Vec::<String>::new(),
        "the outbox has the notification"
    );
    let name = OutboxName { id: parent.execution.id.0, kind: OutboxKind::Parent };
    let lost = Changes { outbox: Entries::removing([name]), ..Changes::default() };
    assert_found(
        &harness,
        "waits for its children, and neither the outbox nor a live child will tell it",
        lost,
    )
    .await;
}
