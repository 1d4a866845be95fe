//! The checker of the invariants finds what is wrong: each test breaks one thing in a sound store and looks for the words.

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

/// A store with one execution that was claimed, failed, claimed again and released.
async fn sound() -> (Harness, Execution) {
    let harness = Harness::new(Arc::new(MemoryStore::new())).await;
    let id = harness.submit(Draft::new("kind")).await.id;
    let fail = Op::Fail {
        message: "it broke".into(),
        class: selvedge_core::FailureClass::Transient,
        retry_after_ms: Some(0),
    };
    for op in [fail, Op::Release] {
        let claimed = harness.claim(1).await.remove(0).execution;
        let fence = selvedge_core::rules::report::Fence::of(&claimed).expect("it is leased");
        harness.report(fence, op).await.expect("it is accepted");
    }
    let row = harness.row(id).await;
    (harness, row)
}

/// The facts of the whole log.
async fn facts(harness: &Harness) -> Vec<Event> {
    let log = harness.store.log_after(0, 1_000).await.expect("the log is read");
    let entries = log.entries.iter().map(|entry| unpack(&entry.body).expect("can be read"));
    entries.flatten().collect()
}

/// The changes that put a row in place of `before`.
fn replacing(before: &Execution, execution: Execution) -> Changes {
    Changes {
        executions: Guarded::updating([Updated {
            execution,
            expected_version: before.version,
            result: ResultChange::Keep,
            rewired: false,
        }]),
        ..Changes::default()
    }
}

/// Breaks a sound store by `changes`; the checker says so in these words.
async fn is_found<F: Future<Output = Changes>>(words: &str, changes: impl FnOnce(Harness, Execution) -> F) {
    let (harness, row) = sound().await;
    assert_eq!(invariants::check(&*harness.store).await, Vec::<String>::new());
    let changes = changes(harness.clone(), row).await;
    harness.save(changes).await;
    let broken = invariants::check(&*harness.store).await;
    assert!(broken.iter().any(|what| what.contains(words)), "{words:?} is not in {broken:#?}");
}

#[tokio::test]
async fn a_row_that_changed_without_a_fact_is_found() {
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
        ("its history is not what the log tells", |row| row.history = History::default()),
    ];
    for (words, edit) in edits {
        is_found(words, |_, row| async move {
            let mut edited = row.clone();
            edit(&mut edited);
            replacing(&row, edited)
        })
        .await;
    }
}

#[tokio::test]
async fn an_execution_without_an_end_or_a_next_cause_is_found() {
    is_found("it is Ready and ended at", |_, row| async move {
        let ended_at = Some(row.submitted_at);
        replacing(&row, Execution { ended_at, ..row.clone() })
    })
    .await;
}

#[tokio::test]
async fn an_acknowledged_execution_that_is_gone_is_found() {
    is_found("has not ended, and is gone", |_, row| async move {
        Changes { executions: Guarded::deleting([(row.id, row.version)]), ..Changes::default() }
    })
    .await;
}

#[tokio::test]
async fn an_execution_that_the_log_does_not_know_is_found() {
    is_found("the log does not know it", |_, row| async move {
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

/// Writes a fact of the log a second time, with the version after the last.
async fn again(harness: Harness, number: usize, version: u32) -> Changes {
    let mut event = facts(&harness).await.swap_remove(number);
    event.version = Some(version);
    Changes { events: vec![event], ..Changes::default() }
}

#[tokio::test]
async fn a_gap_in_the_versions_is_found() {
    is_found("version Some(9) follows 5", |harness, _| again(harness, 1, 9)).await;
}

#[tokio::test]
async fn a_change_that_is_no_cell_of_the_table_is_found() {
    is_found("no cell takes Some(Ready) by Some(Fail)", |harness, row| again(harness, 2, row.version + 1))
        .await;
}

#[tokio::test]
async fn a_write_under_an_old_lease_is_found() {
    is_found("it ends another lease than", |harness, _| async move {
        let claimed = harness.claim(1).await.remove(0).execution;
        again(harness, 2, claimed.version + 1).await
    })
    .await;
}

#[tokio::test]
async fn a_lease_that_is_given_twice_is_found() {
    is_found("was given twice", |harness, row| again(harness, 1, row.version + 1)).await;
    is_found("epoch 1 follows 2", |harness, row| again(harness, 1, row.version + 1)).await;
}

#[tokio::test]
async fn more_retries_than_are_allowed_are_found() {
    is_found("1 retries, 0 interruptions", |_, row| async move {
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
    is_found("idempotency key key made", |harness, row| async move {
        let keyed = Draft { idempotency_key: Some("key".into()), ..Draft::new("kind") };
        let keyed = harness.submit(keyed).await;
        let spec = keyed.spec.clone();
        replacing(&row, Execution { spec, ..row.clone() })
    })
    .await;
    is_found("active with the unique key key", |harness, row| async move {
        let keyed = Draft { unique_while_active: Some("key".into()), ..Draft::new("kind") };
        let keyed = harness.submit(keyed).await;
        let spec = keyed.spec.clone();
        replacing(&row, Execution { spec, ..row.clone() })
    })
    .await;
}

#[tokio::test]
async fn a_page_of_history_that_is_missing_is_found() {
    is_found("it has 0 pages, not 1", |harness, row| async move {
        let tag = Action::Prioritise { priority: 1 };
        let row = harness.operate(row.id, tag).await.expect("it is raised");
        let mut edited = row.clone();
        edited.detail.history_pages = 1;
        replacing(&row, edited)
    })
    .await;
}
