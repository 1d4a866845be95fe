//! Rows: what was saved is what is read, in every state, by every way of reading.
#![allow(missing_docs)]

use super::harness::{Harness, fence, mint};
use super::rule::Each;
use super::{by_hand, side_by_side};
use bytes::Bytes;
use selvedge_core::execution::{CancelRequest, Detail, Progress, Record, Slots};
use selvedge_core::fact::{Failure, LeaseRef};
use selvedge_core::rule::{Phase, Profile, Rule};
use selvedge_core::rules::clock::{Ticked, What};
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::report::Op;
use selvedge_core::state::StateName;
use selvedge_core::submission::When;
use selvedge_core::table::{Access, Request};
use selvedge_core::{
    Draft, DueKind, Execution, ExecutionId, FailureClass, FlowId, LeaseId, Name, Needs, Outcome, Policy,
    State, Work,
};
use std::collections::BTreeSet;
use uuid::Uuid;

/// A rule that also gives the row as it leaves it.
struct Kept<R> {
    rule: R,
    id: ExecutionId,
}

impl<R: Rule> Rule for Kept<R> {
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
        let row = work.find(self.id).ok().flatten().expect("the row is here");
        (reply, row.clone())
    }
}

/// Runs a rule; every way of reading then shows the row that it left.
async fn keeps<R: Rule>(harness: &Harness, id: ExecutionId, rule: R, expected: StateName) -> Execution {
    let (_, row) = harness.run(Kept { rule, id }).await;
    assert_eq!(row.state.name(), expected);
    is_read_everywhere(harness, &row).await;
    row
}

/// Every way of reading shows this row.
pub(super) async fn is_read_everywhere(harness: &Harness, row: &Execution) {
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

pub async fn a_row_is_read_back_equal_in_every_state_that_the_rules_bring_it_to(harness: &Harness) {
    let draft = || Draft {
        policy: Policy { attempt_timeout_ms: Some(60_000), ..Policy::default() },
        tags: [("a".into(), "b".into())].into(),
        ..Draft::new("kind")
    };
    let ready = harness.submit(draft()).await;
    let id = ready.id;
    is_read_everywhere(harness, &ready).await;
    let reschedule = |until| harness.operate_command(id, Action::Reschedule { until });
    keeps(harness, id, reschedule(When::AfterMs(90_000)), StateName::Delayed).await;
    keeps(harness, id, reschedule(When::AfterMs(0)), StateName::Waiting).await;
    let claim = harness.claim_command(&super::Worker::new("one"), 1);
    let leased = keeps(harness, id, claim, StateName::Active).await;
    let fence = selvedge_core::rules::report::Fence::of(&leased).expect("it is leased");
    let report = |op| harness.report_command(fence, op);
    let progress = Op::Progress { percent: Some(33.3), message: Some("a third\0 of \u{1f9f5}".into()) };
    keeps(harness, id, report(progress), StateName::Active).await;
    let cancel = |grace_ms| Action::Cancel { reason: Some("enough".into()), grace_ms };
    let asked = harness.operate_command(id, cancel(60_000));
    keeps(harness, id, asked, StateName::Active).await;
    keeps(harness, id, report(Op::Release), StateName::Cancelled).await;
    let replay = harness.operate_command(id, Action::Replay);
    keeps(harness, id, replay, StateName::Waiting).await;
    ends(harness, draft(), Op::Complete { result: Bytes::from_static(b"1") }, StateName::Completed).await;
    for (class, expected) in
        [(FailureClass::Permanent, StateName::Failed), (FailureClass::Transient, StateName::Delayed)]
    {
        let fail = Op::Fail {
            message: "it broke: \0 \"quoted\"\n\u{1f4a5}".into(),
            class,
            retry_after_ms: Some(60_000),
        };
        ends(harness, draft(), fail, expected).await;
    }
}

/// Cancels what is ready, and brings a fresh one to `expected` by a report.
async fn ends(harness: &Harness, draft: Draft, op: Op, expected: StateName) {
    let draft = Draft { lane: "apart".into(), ..draft };
    let id = harness.submit(draft).await.id;
    let worker = super::Worker::new("one").on(&["apart"]);
    let claimed = harness.claim_as(&worker, 1).await;
    assert_eq!(claimed[0].execution.id, id);
    keeps(harness, id, harness.report_command(fence(&claimed[0]), op), expected).await;
}

pub async fn what_is_due_at_once_expires_and_is_read_back_equal(harness: &Harness) {
    for policy in [
        Policy { deadline_ms: Some(0), ..Policy::default() },
        Policy { start_by_ms: Some(0), ..Policy::default() },
    ] {
        let row = harness.submit(Draft { policy, ..Draft::new("kind") }).await;
        let tick = harness.tick(row.id, What::Due(DueKind::Deadline)).await;
        assert_eq!(tick, Ticked::Done);
        let expired = harness.row(row.id).await;
        assert_eq!(expired.state, State::Terminal(Outcome::Expired));
        is_read_everywhere(harness, &expired).await;
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
            error: Some(Failure { message: "\0\u{7f}\\".into(), class: FailureClass::Infrastructure }),
            progress: Some(Progress { percent: Some(0.1), message: None }),
            history_pages: 12,
            record: Record::default(),
            slots: Slots::default(),
            head: None,
        },
        ..by_hand::row(harness, class, now.minus_ms(1_000_000))
    };
    let full = by_hand::held(full, &session, now.minus_ms(77));
    let skipped = Execution {
        state: State::Terminal(Outcome::Skipped),
        ended_at: Some(now),
        ..by_hand::row(harness, class, now)
    };
    by_hand::insert(harness, &[full.clone(), skipped.clone()]).await;
    is_read_everywhere(harness, &full).await;
    is_read_everywhere(harness, &skipped).await;
}

pub async fn unknown_ids_are_left_out(harness: &Harness) {
    let known = harness.submit(Draft::new("kind")).await;
    let ids = [mint(), known.id, mint()];
    let found = harness.store.fetch(&ids).await.expect("executions are read");
    let found: Vec<ExecutionId> = found.iter().map(|stored| stored.execution.id).collect();
    assert_eq!(found, [known.id]);
    assert!(harness.store.fetch(&[]).await.expect("executions are read").is_empty());
    let rows = harness
        .load(Needs {
            executions: Request::default().and(Access::Lock, ids.to_vec()).and(Access::Read, [mint()]),
            inputs: Request::reading([known.id, mint()]),
            ..Needs::default()
        })
        .await;
    assert_eq!(rows.executions, std::slice::from_ref(&known));
    assert_eq!(rows.inputs, [(known.id, Bytes::from_static(b"null"))]);
    assert!(harness.store.history_pages(mint()).await.expect("pages are read").is_empty());
}

pub async fn changes_of_one_row_made_at_once_are_all_kept(harness: &Harness) {
    const SIDES: usize = 24;
    let id = harness.submit(Draft::new("kind")).await.id;
    let tag =
        |side: usize| Action::Tag { set: [(format!("side{side}"), side.to_string())].into(), remove: vec![] };
    let versions = side_by_side(SIDES, |side| {
        let harness = harness.clone();
        async move { harness.operate(id, tag(side)).await.expect("it is tagged").version }
    });
    let versions: BTreeSet<u32> = versions.await.into_iter().collect();
    let expected: BTreeSet<u32> = (2..).take(SIDES).collect();
    assert_eq!(versions, expected, "each change saw the one before it");
    assert_eq!(harness.row(id).await.tags.len(), SIDES);
}

pub async fn transactions_that_touch_the_same_rows_in_any_order_all_come_through(harness: &Harness) {
    let rows = harness.submit_all(vec![Draft::new("kind"); 6]).await;
    let ids: Vec<ExecutionId> = rows.iter().map(|row| row.id).collect();
    let sides = side_by_side(16, |side| {
        let (harness, mut ids) = (harness.clone(), ids.clone());
        ids.rotate_left(side % 6);
        if side % 2 == 1 {
            ids.reverse();
        }
        async move {
            let tag = Action::Tag { set: [(format!("side{side}"), "x".into())].into(), remove: vec![] };
            let commands = ids.iter().map(|id| harness.operate_command(*id, tag.clone()));
            let replies = harness.run(Each(commands.collect::<Vec<_>>())).await;
            assert!(replies.iter().all(Result::is_ok));
        }
    });
    sides.await;
    for id in ids {
        assert_eq!(harness.row(id).await.version, 17);
    }
}
