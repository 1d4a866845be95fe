//! The invariant checker finds violations: each test corrupts one thing in a sound store and expects a message.

use selvedge_conformance::{Harness, invariants};
use selvedge_core::log::{Event, unpack};
use selvedge_core::rows::{ResultChange, Updated};
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::report::Op;
use selvedge_core::table::Guarded;
use selvedge_core::{Changes, Draft, Execution, ExecutionId, History, Outcome, Policy, State};
use selvedge_memory::MemoryStore;
use std::future::Future;
use std::sync::Arc;

/// Returns a sound store with one execution that was claimed, failed, claimed again and released.
async fn sound_store() -> (Harness, Execution) {
    let harness = Harness::new(Arc::new(MemoryStore::new())).await;
    let id = harness.submit(Draft::new("kind")).await.id;
    let fail = Op::Fail {
        message: "it broke".into(),
        class: selvedge_core::FailureClass::Transient,
        retry_after_ms: Some(0),
    };
    for op in [fail, Op::Release] {
        let claimed = harness.claim(1).await.remove(0).execution;
        let fence = selvedge_core::rules::report::Fence::of(&claimed).expect("it has a lease");
        harness.report(fence, op).await.expect("it is accepted");
    }
    let row = harness.row(id).await;
    (harness, row)
}

/// Returns the events of the whole log.
async fn events(harness: &Harness) -> Vec<Event> {
    let log = harness.store.log_after(0, 1_000).await.expect("the log is read");
    let entries = log.entries.iter().map(|entry| unpack(&entry.body).expect("an entry can be decoded"));
    entries.flatten().collect()
}

/// Returns the changes that replace the row `before`.
fn replacing(before: &Execution, execution: Execution) -> Changes {
    Changes {
        executions: Guarded::updating([Updated {
            execution,
            expected_version: before.version,
            result: ResultChange::Keep,
            rewired: false,
            input: None,
        }]),
        ..Changes::default()
    }
}

/// Corrupts a sound store and asserts that the checker reports `message`.
async fn assert_found<F: Future<Output = Changes>>(
    message: &str,
    changes: impl FnOnce(Harness, Execution) -> F,
) {
    let (harness, row) = sound_store().await;
    assert_eq!(invariants::check(&*harness.store).await, Vec::<String>::new());
    let changes = changes(harness.clone(), row).await;
    harness.save(changes).await;
    let violations = invariants::check(&*harness.store).await;
    assert!(violations.iter().any(|what| what.contains(message)), "{message:?} is not in {violations:#?}");
}

#[tokio::test]
async fn a_row_that_changed_without_an_event_is_found() {
    type Edit = fn(&mut Execution);
    let edits: [(&str, Edit); 7] = [
        ("the state is", |row| {
            row.state = State::Terminal(Outcome::Completed);
            row.ended_at = Some(row.submitted_at);
        }),
        ("the version is", |row| row.version += 1),
        ("the epoch is", |row| row.epoch += 1),
        ("retries is", |row| row.detail.retries = 0),
        ("interruptions is", |row| row.detail.interruptions = 1),
        ("the tags is", |row| drop(row.tags.insert("a".into(), "b".into()))),
        ("its history differs from the event log", |row| row.history = History::default()),
    ];
    for (message, edit) in edits {
        assert_found(message, |_, row| async move {
            let mut edited = row.clone();
            edit(&mut edited);
            replacing(&row, edited)
        })
        .await;
    }
}

#[tokio::test]
async fn an_execution_without_an_end_or_a_next_cause_is_found() {
    assert_found("its state is Waiting and it ended at", |_, row| async move {
        let ended_at = Some(row.submitted_at);
        replacing(&row, Execution { ended_at, ..row.clone() })
    })
    .await;
}

#[tokio::test]
async fn an_acknowledged_live_execution_without_a_row_is_found() {
    assert_found("has not ended, and has no row", |_, row| async move {
        Changes { executions: Guarded::deleting([(row.id, row.version)]), ..Changes::default() }
    })
    .await;
}

#[tokio::test]
async fn an_execution_without_events_is_found() {
    assert_found("the event log has no event of it", |_, row| async move {
        let id = ExecutionId(uuid::Uuid::from_u128(7));
        Changes {
            executions: Guarded::inserting([selvedge_core::rows::Inserted {
                execution: Execution { id, ..row },
                input: "null".into(),
                result: None,
            }]),
            ..Changes::default()
        }
    })
    .await;
}

/// Returns the changes that log an event a second time, with this version.
async fn log_again(harness: Harness, number: usize, version: u32) -> Changes {
    let mut event = events(&harness).await.swap_remove(number);
    event.version = Some(version);
    Changes { events: vec![event], ..Changes::default() }
}

#[tokio::test]
async fn a_gap_in_the_versions_is_found() {
    assert_found("version Some(9) follows 5", |harness, _| log_again(harness, 1, 9)).await;
}

#[tokio::test]
async fn a_change_outside_the_transition_table_is_found() {
    assert_found("no transition from Some(Waiting) by Some(Fail)", |harness, row| {
        log_again(harness, 2, row.version + 1)
    })
    .await;
}

#[tokio::test]
async fn a_write_under_an_old_lease_is_found() {
    assert_found("it ends a lease other than", |harness, _| async move {
        let claimed = harness.claim(1).await.remove(0).execution;
        log_again(harness, 2, claimed.version + 1).await
    })
    .await;
}

#[tokio::test]
async fn a_lease_that_is_granted_twice_is_found() {
    assert_found("was granted twice", |harness, row| log_again(harness, 1, row.version + 1)).await;
    assert_found("epoch 1 follows 2", |harness, row| log_again(harness, 1, row.version + 1)).await;
}

#[tokio::test]
async fn more_retries_than_are_allowed_are_found() {
    assert_found("1 retries and 0 interruptions exceed its policy", |_, row| async move {
        let mut spec = (*row.spec).clone();
        spec.policy = Policy::default();
        spec.policy.retry.max_retries = 0;
        let spec = Arc::new(spec);
        replacing(&row, Execution { spec, ..row.clone() })
    })
    .await;
}

#[tokio::test]
async fn a_key_that_had_two_effects_is_found() {
    assert_found("idempotency key key created", |harness, row| async move {
        let keyed = Draft { idempotency_key: Some("key".into()), ..Draft::new("kind") };
        let keyed = harness.submit(keyed).await;
        let spec = keyed.spec.clone();
        replacing(&row, Execution { spec, ..row.clone() })
    })
    .await;
    assert_found("live executions have the unique key key", |harness, row| async move {
        let keyed = Draft { unique_while_active: Some("key".into()), ..Draft::new("kind") };
        let keyed = harness.submit(keyed).await;
        let spec = keyed.spec.clone();
        replacing(&row, Execution { spec, ..row.clone() })
    })
    .await;
}

#[tokio::test]
async fn a_missing_history_page_is_found() {
    assert_found("it has 0 history pages, not 1", |harness, row| async move {
        let raise = Action::Prioritise { priority: 1 };
        let row = harness.operate(row.id, raise).await.expect("its priority is raised");
        let mut edited = row.clone();
        edited.detail.history_pages = 1;
        replacing(&row, edited)
    })
    .await;
}
