//! Due executions: found by kind, earliest first and in pages, and the overview of the next due times.

use crate::harness::Harness;
use crate::harness::by_hand;
use selvedge_core::execution::{CancelRequest, Detail, RecordSummary};
use selvedge_core::rules::timer::{Timer, TimerReply};
use selvedge_core::submission::When;
use selvedge_core::suspension::{Condition, Wait};
use selvedge_core::{Draft, DueKind, Execution, ExecutionId, Outcome, Policy, State, Timestamp};
use selvedge_store::{DueRow, ReconcilerScope};
use std::collections::BTreeMap;

const HOUR_MS: i64 = 3_600_000;

/// Returns one row per kind, due `ms` milliseconds after `now`; before it if `ms` is negative.
async fn due_in(harness: &Harness, now: Timestamp, ms: i64) -> Vec<Execution> {
    let class = harness.class("default", "kind").await;
    let at = now.plus_ms(ms);
    let long = 10 * HOUR_MS;
    let row = || by_hand::row(harness, class, at.minus_ms(long));
    let policy = Policy::default;
    let session = by_hand::session(harness, "one", 30_000, now);
    let mut cancelled = by_hand::with_lease(row(), &session, at.minus_ms(long));
    cancelled.detail.cancel = Some(CancelRequest { actor: None, reason: None, until: at });
    let suspended = |condition: Condition, timeout_at: Option<Timestamp>| {
        let waits = vec![Wait { timeout_at, ..by_hand::wait(condition) }];
        by_hand::suspended(row(), at.minus_ms(long), waits)
    };
    vec![
        Execution {
            state: State::Delayed { until: at },
            tags: [("kept".into(), ms.to_string())].into(),
            ..row()
        },
        Execution { spec: by_hand::spec(Policy { deadline_ms: Some(long), ..policy() }), ..row() },
        Execution { spec: by_hand::spec(Policy { start_by_ms: Some(long), ..policy() }), ..row() },
        cancelled.clone(),
        Execution {
            id: crate::harness::new_id(),
            detail: Default::default(),
            spec: by_hand::spec(Policy { attempt_timeout_ms: Some(long), ..policy() }),
            ..cancelled
        },
        Execution {
            state: State::Terminal(Outcome::Completed),
            ended_at: Some(at.minus_ms(1)),
            spec: by_hand::spec(Policy { retention_ms: 1, ..policy() }),
            ..row()
        },
        suspended(Condition::until(When::At(at)), None),
        suspended(Condition::operator(), Some(at)),
        Execution {
            detail: Detail {
                record: RecordSummary { waitpoints: 1, expires_at: Some(at), ..RecordSummary::default() },
                ..Detail::default()
            },
            ..row()
        },
    ]
}

/// Returns the rows that are due by `now`, by kind and in order.
fn expected(rows: &[Execution], now: Timestamp) -> BTreeMap<DueKind, Vec<(Timestamp, ExecutionId)>> {
    let mut due: BTreeMap<DueKind, Vec<(Timestamp, ExecutionId)>> = BTreeMap::new();
    for row in rows {
        let next = row.due().expect("each row has a due time");
        if next.at <= now {
            due.entry(next.kind).or_default().push((next.at, row.id));
        }
    }
    due.values_mut().for_each(|rows| rows.sort());
    due
}

async fn page(
    harness: &Harness,
    kind: DueKind,
    after: Option<(Timestamp, ExecutionId)>,
    limit: u32,
) -> Vec<DueRow> {
    harness.store.due(&ReconcilerScope::ALL, kind, after, limit).await.expect("rows are read")
}

fn places(rows: &[DueRow]) -> Vec<(Timestamp, ExecutionId)> {
    rows.iter().map(|row| (row.due_at, row.execution)).collect()
}

pub async fn due_executions_are_found_by_kind_earliest_first_and_in_pages(harness: &Harness) {
    let now = harness.now().await;
    let mut rows = Vec::new();
    for ms in [-HOUR_MS, -5 * HOUR_MS, -1, -5 * HOUR_MS, -HOUR_MS, HOUR_MS] {
        rows.extend(due_in(harness, now, ms).await);
    }
    by_hand::insert(harness, &rows).await;
    let expected = expected(&rows, now);
    assert_eq!(expected.len(), DueKind::ALL.len(), "there are rows of each kind");
    for (kind, expected) in expected {
        assert_eq!(places(&page(harness, kind, None, 100).await), expected, "{kind:?}");
        let mut paged = Vec::new();
        loop {
            let next = page(harness, kind, paged.last().copied(), 2).await;
            assert!(next.len() <= 2);
            if next.is_empty() {
                break;
            }
            paged.extend(places(&next));
            assert!(paged.len() <= expected.len(), "{kind:?}: paging never ends");
        }
        assert_eq!(paged, expected, "{kind:?} in pages");
    }
    for row in page(harness, DueKind::Delay, None, 100).await {
        let row_of = rows.iter().find(|row_of| row_of.id == row.execution).expect("the row was inserted");
        assert_eq!((row.namespace, &row.tags), (row_of.namespace, &row_of.tags));
    }
}

pub async fn the_overview_shows_the_next_due_time_of_each_kind(harness: &Harness) {
    let empty = harness.store.overview().await.expect("the overview is read");
    assert_eq!((empty.next, empty.expired_leases, empty.stale), (vec![], false, false));
    let now = harness.now().await;
    let mut rows = due_in(harness, now, HOUR_MS).await;
    by_hand::insert(harness, &rows).await;
    let next_of = |rows: &[Execution]| {
        let mut next: BTreeMap<DueKind, Timestamp> = BTreeMap::new();
        for due in rows.iter().filter_map(Execution::due) {
            let known = next.entry(due.kind).or_insert(due.at);
            *known = due.at.min(*known);
        }
        next
    };
    let shown = async || {
        let overview = harness.store.overview().await.expect("the overview is read");
        overview.next.into_iter().collect::<BTreeMap<DueKind, Timestamp>>()
    };
    assert_eq!(shown().await, next_of(&rows), "also for rows that are not due yet");
    let sooner = due_in(harness, now, -HOUR_MS).await;
    by_hand::insert(harness, &sooner).await;
    rows.extend(sooner);
    assert_eq!(shown().await, next_of(&rows));
    for (kind, at) in shown().await {
        let first = page(harness, kind, None, 1).await;
        assert_eq!(first[0].due_at, at, "{kind:?}: overview and due agree");
    }
}

pub async fn the_clock_of_the_store_does_not_go_back(harness: &Harness) {
    let mut latest = Timestamp::default();
    for _ in 0..50 {
        for time in [
            harness.now().await,
            harness.load(Default::default()).await.now,
            harness.submit(Draft::new("kind")).await.submitted_at,
        ] {
            assert!(time >= latest, "{time:?} is before {latest:?}");
            latest = time;
        }
    }
}

pub async fn an_execution_that_is_no_longer_due_is_not_found(harness: &Harness) {
    let row = harness
        .submit(Draft {
            policy: Policy { deadline_ms: Some(0), retention_ms: 0, ..Policy::default() },
            ..Draft::new("kind")
        })
        .await;
    assert_eq!(places(&page(harness, DueKind::Deadline, None, 9).await), [(row.submitted_at, row.id)]);
    assert_eq!(harness.tick(row.id, Timer::Due(DueKind::Deadline)).await, TimerReply::Fired);
    assert!(page(harness, DueKind::Deadline, None, 9).await.is_empty());
    assert_eq!(harness.tick(row.id, Timer::Due(DueKind::Deadline)).await, TimerReply::NotDue);
    assert_eq!(executions(&page(harness, DueKind::Retention, None, 9).await), [row.id]);
    assert_eq!(harness.tick(row.id, Timer::Due(DueKind::Retention)).await, TimerReply::Fired);
    assert!(page(harness, DueKind::Retention, None, 9).await.is_empty());
    assert_eq!(harness.tick(row.id, Timer::Due(DueKind::Retention)).await, TimerReply::Superseded);
    assert_eq!(harness.store.overview().await.expect("the overview is read").next, []);
}

fn executions(rows: &[DueRow]) -> Vec<ExecutionId> {
    rows.iter().map(|row| row.execution).collect()
}

pub async fn a_due_action_found_by_several_reconcilers_is_applied_once(harness: &Harness) {
    let draft = Draft { policy: Policy { start_by_ms: Some(0), ..Policy::default() }, ..Draft::new("kind") };
    let rows = harness.submit_all(vec![draft; 40]).await;
    let ids: Vec<ExecutionId> = rows.iter().map(|row| row.id).collect();
    let done = crate::harness::concurrently(6, |task| {
        let (harness, mut ids) = (harness.clone(), ids.clone());
        ids.rotate_left(task * 7);
        async move {
            let mut done = 0;
            for id in ids {
                let tick = harness.tick(id, Timer::Due(DueKind::Deadline)).await;
                done += usize::from(tick == TimerReply::Fired);
            }
            done
        }
    });
    assert_eq!(done.await.into_iter().sum::<usize>(), 40);
    for id in ids {
        assert_eq!(harness.row(id).await.version, 2);
    }
}
