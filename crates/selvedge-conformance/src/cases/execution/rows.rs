//! Rows: they are read back as they were saved, in every state and by every query.

use crate::harness::runner::RuleList;
use crate::harness::{Harness, fence, new_id};
use crate::harness::{by_hand, concurrently};
use bytes::Bytes;
use selvedge_core::execution::{CancelRequest, Detail, Progress, RecordSummary, Slots};
use selvedge_core::fact::{Failure, LeaseRef};
use selvedge_core::filter::Payloads;
use selvedge_core::rule::{Phase, Profile, Rule};
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::report::Op;
use selvedge_core::rules::timer::{Timer, TimerReply};
use selvedge_core::state::StateName;
use selvedge_core::submission::When;
use selvedge_core::table::{Access, Request};
use selvedge_core::{
    Draft, DueKind, Execution, ExecutionId, FailureClass, FlowId, LeaseId, Name, Needs, Outcome, Policy,
    State, Work,
};
use std::collections::BTreeSet;
use uuid::Uuid;

/// A rule that also returns the row as it was saved.
struct WithSavedRow<R> {
    rule: R,
    id: ExecutionId,
}

impl<R: Rule> Rule for WithSavedRow<R> {
    type Reply = (R::Reply, Execution);
    const PHASE: Phase = R::PHASE;
    fn profile(&self) -> Profile {
        self.rule.profile()
    }
    fn needs(&self, work: &Work, needs: &mut Needs) {
        self.rule.needs(work, needs);
    }
    fn decide(&self, work: &mut Work) -> Self::Reply {
        let reply = self.rule.decide(work);
        let row = work.find(self.id).ok().flatten().expect("the row is loaded");
        (reply, row.clone())
    }
    fn carry(&self, (reply, _): &mut Self::Reply, work: &Work, needs: &mut Needs) {
        self.rule.carry(reply, work, needs);
    }
}

/// Runs a rule and asserts that every query returns the saved row.
async fn run_and_read_back<R: Rule>(
    harness: &Harness,
    id: ExecutionId,
    rule: R,
    expected: StateName,
) -> Execution {
    let (_, row) = harness.run(WithSavedRow { rule, id }).await;
    assert_eq!(row.state.name(), expected);
    assert_read_everywhere(harness, &row).await;
    row
}

/// Asserts that every query returns this row.
pub async fn assert_read_everywhere(harness: &Harness, row: &Execution) {
    assert_eq!(&harness.row(row.id).await, row, "by fetch");
    let lists: [fn(ExecutionId) -> Needs; 3] = [
        |id| Needs { executions: Request::locking([id]), ..Needs::default() },
        |id| Needs { executions: Request::default().and(Access::LockIfFree, [id]), ..Needs::default() },
        |id| Needs { executions: Request::reading([id]), inputs: Request::reading([id]), ..Needs::default() },
    ];
    for needs in lists {
        let rows = harness.load(needs(row.id)).await;
        assert_eq!(rows.executions, std::slice::from_ref(row), "in a transaction");
        assert!(rows.unreadable.is_empty() && rows.found.candidates.is_empty());
    }
}

pub async fn a_row_is_read_back_equal_in_every_state_that_the_rules_reach(harness: &Harness) {
    let draft = || Draft {
        policy: Policy { attempt_timeout_ms: Some(60_000), ..Policy::default() },
        tags: [("a".into(), "b".into())].into(),
        ..Draft::new("kind")
    };
    let ready = harness.submit(draft()).await;
    let id = ready.id;
    assert_read_everywhere(harness, &ready).await;
    let reschedule = |until| harness.operate_command(id, Action::Reschedule { until });
    run_and_read_back(harness, id, reschedule(When::AfterMs(90_000)), StateName::Delayed).await;
    run_and_read_back(harness, id, reschedule(When::AfterMs(0)), StateName::Waiting).await;
    let claim = harness.claim_command(&crate::harness::Worker::new("one"), 1);
    let leased = run_and_read_back(harness, id, claim, StateName::Active).await;
    let fence = selvedge_core::rules::report::Fence::of(&leased).expect("it has a lease");
    let report = |op| harness.report_command(fence, op);
    let progress = Op::Progress { percent: Some(33.3), message: Some("a third\0 of \u{1f9f5}".into()) };
    run_and_read_back(harness, id, report(progress), StateName::Active).await;
    let cancel = |grace_ms| Action::Cancel { reason: Some("enough".into()), grace_ms };
    let cancel_requested = harness.operate_command(id, cancel(60_000));
    run_and_read_back(harness, id, cancel_requested, StateName::Active).await;
    run_and_read_back(harness, id, report(Op::Release), StateName::Cancelled).await;
    let replay = harness.operate_command(id, Action::Replay);
    run_and_read_back(harness, id, replay, StateName::Waiting).await;
    report_and_read_back(
        harness,
        draft(),
        Op::Complete { result: Bytes::from_static(b"1") },
        StateName::Completed,
    )
    .await;
    for (class, expected) in
        [(FailureClass::Permanent, StateName::Failed), (FailureClass::Transient, StateName::Delayed)]
    {
        let fail = Op::Fail {
            message: "it broke: \0 \"quoted\"\n\u{1f4a5}".into(),
            class,
            retry_after_ms: Some(60_000),
        };
        report_and_read_back(harness, draft(), fail, expected).await;
    }
}

/// Submits an execution, claims it and brings it to `expected` by a report.
async fn report_and_read_back(harness: &Harness, draft: Draft, op: Op, expected: StateName) {
    let draft = Draft { lane: "apart".into(), ..draft };
    let id = harness.submit(draft).await.id;
    let worker = crate::harness::Worker::new("one").on(&["apart"]);
    let claimed = harness.claim_as(&worker, 1).await;
    assert_eq!(claimed[0].execution.id, id);
    run_and_read_back(harness, id, harness.report_command(fence(&claimed[0]), op), expected).await;
}

pub async fn an_execution_that_expires_at_once_is_read_back_equal(harness: &Harness) {
    for policy in [
        Policy { deadline_ms: Some(0), ..Policy::default() },
        Policy { start_by_ms: Some(0), ..Policy::default() },
    ] {
        let row = harness.submit(Draft { policy, ..Draft::new("kind") }).await;
        let tick = harness.tick(row.id, Timer::Due(DueKind::Deadline)).await;
        assert_eq!(tick, TimerReply::Fired);
        let expired = harness.row(row.id).await;
        assert_eq!(expired.state, State::Terminal(Outcome::Expired));
        assert_read_everywhere(harness, &expired).await;
    }
}

pub async fn a_row_with_every_rare_field_is_read_back_equal(harness: &Harness) {
    let now = harness.now().await;
    let class = harness.class("default", "kind").await;
    let session = by_hand::session(harness, "one", 1_234, now);
    let full = Execution {
        flow: Some(FlowId(Uuid::new_v4())),
        version: 4_000_000,
        priority: i16::MAX,
        epoch: 1_000_000,
        started_at: Some(now.minus_ms(5)),
        detail: Detail {
            generation: 3,
            replayed_at: Some(now.minus_ms(1)),
            retries: 2,
            interruptions: 99,
            interruptions_before_progress: 1,
            interrupted: Some(LeaseRef {
                id: LeaseId(Uuid::new_v4()),
                epoch: 7,
                worker: Name::trusted("worker"),
                instance: Name::trusted("ïnstance"),
            }),
            cancel: Some(CancelRequest {
                actor: None,
                reason: Some("a \"reason\"".into()),
                until: now.plus_ms(1),
            }),
            cancelled_by: Some(Name::trusted("öperator")),
            error: Some(Failure { message: "\0\u{7f}\\".into(), class: FailureClass::Infrastructure }),
            progress: Some(Progress { percent: Some(0.1), message: None, reports: vec![1, u32::MAX] }),
            history_pages: 12,
            record: RecordSummary::default(),
            slots: Slots::default(),
            breached: Some(LeaseRef {
                id: LeaseId(Uuid::new_v4()),
                epoch: 8,
                worker: Name::trusted("wörker"),
                instance: Name::trusted("instance"),
            }),
            place: Some(now.minus_ms(9)),
            own_priority: None,
            end_awaited: true,
        },
        ..by_hand::row(harness, class, now.minus_ms(1_000_000))
    };
    let full = by_hand::with_lease(full, &session, now.minus_ms(77));
    let skipped = Execution {
        state: State::Terminal(Outcome::Skipped),
        ended_at: Some(now),
        ..by_hand::row(harness, class, now)
    };
    by_hand::insert(harness, &[full.clone(), skipped.clone()]).await;
    assert_read_everywhere(harness, &full).await;
    assert_read_everywhere(harness, &skipped).await;
}

pub async fn unknown_ids_are_omitted(harness: &Harness) {
    let known = harness.submit(Draft::new("kind")).await;
    let ids = [new_id(), known.id, new_id()];
    let found = harness.store.fetch(&ids, Payloads::ALL).await.expect("executions are read");
    let found: Vec<ExecutionId> = found.iter().map(|stored| stored.execution.id).collect();
    assert_eq!(found, [known.id]);
    assert!(harness.store.fetch(&[], Payloads::ALL).await.expect("executions are read").is_empty());
    let rows = harness
        .load(Needs {
            executions: Request::default().and(Access::Lock, ids.to_vec()).and(Access::Read, [new_id()]),
            inputs: Request::reading([known.id, new_id()]),
            ..Needs::default()
        })
        .await;
    assert_eq!(rows.executions, std::slice::from_ref(&known));
    assert_eq!(rows.inputs, [(known.id, Bytes::from_static(b"null").into())]);
    assert!(harness.store.history_pages(new_id()).await.expect("pages are read").is_empty());
}

pub async fn concurrent_changes_of_one_row_are_all_kept(harness: &Harness) {
    const TASKS: usize = 24;
    let id = harness.submit(Draft::new("kind")).await.id;
    let tag =
        |task: usize| Action::Tag { set: [(format!("task{task}"), task.to_string())].into(), remove: vec![] };
    let versions = concurrently(TASKS, |task| {
        let harness = harness.clone();
        async move { harness.operate(id, tag(task)).await.expect("it is tagged").version }
    });
    let versions: BTreeSet<u32> = versions.await.into_iter().collect();
    let expected: BTreeSet<u32> = (2..).take(TASKS).collect();
    assert_eq!(versions, expected, "each change saw the previous one");
    assert_eq!(harness.row(id).await.tags.len(), TASKS);
}

pub async fn transactions_that_touch_the_same_rows_in_any_order_all_commit(harness: &Harness) {
    let rows = harness.submit_all(vec![Draft::new("kind"); 6]).await;
    let ids: Vec<ExecutionId> = rows.iter().map(|row| row.id).collect();
    let tasks = concurrently(16, |task| {
        let (harness, mut ids) = (harness.clone(), ids.clone());
        ids.rotate_left(task % 6);
        if task % 2 == 1 {
            ids.reverse();
        }
        async move {
            let tag = Action::Tag { set: [(format!("task{task}"), "x".into())].into(), remove: vec![] };
            let commands = ids.iter().map(|id| harness.operate_command(*id, tag.clone()));
            let replies = harness.run(RuleList(commands.collect::<Vec<_>>())).await;
            assert!(replies.iter().all(Result::is_ok));
        }
    });
    tasks.await;
    for id in ids {
        assert_eq!(harness.row(id).await.version, 17);
    }
}
