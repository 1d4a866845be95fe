//! Dispatch: every end of an execution is propagated to its downstreams once, also after an interruption.

use crate::harness::Harness;
use crate::harness::flow::{failure, result};
use crate::harness::runner::RuleList;
use crate::harness::sketch::Sketch;
use crate::harness::worker::Worker;
use selvedge_core::flow::CancelMode;
use selvedge_core::join::Resolution;
use selvedge_core::outbox::OutboxKind;
use selvedge_core::rules::flows::dispatch::{Dispatch, Dispatched};
use selvedge_core::rules::flows::join::CHUNK;
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::report::Op;
use selvedge_core::submission::When;
use selvedge_core::{DueKind, FailureClass, Policy, State};

const HOUR_MS: i64 = 3_600_000;

fn advanced(changed: u32) -> Dispatched {
    Dispatched::Advanced { changed, rest: None }
}

pub async fn a_completion_stays_in_the_outbox_until_it_is_propagated(harness: &Harness) {
    let harness = &harness.another_process();
    let flow = harness.flow("a -> b; a -> c").await;
    flow.complete("a").await;
    flow.assert_states("a=completed b=waiting_dependencies c=waiting_dependencies").await;
    let row =
        flow.left("a", OutboxKind::Edges).await.expect("the completion enqueued it in its own transaction");
    assert_eq!((row.position, row.namespace), (0, harness.namespace));
    let (dispatched, transaction) = harness.transact(Dispatch { row, only_close: false }).await;
    assert_eq!(dispatched, Ok(advanced(2)));
    assert!(transaction.entry.is_some(), "the row was deleted in the transaction that updated its edges");
    assert_eq!(harness.outbox().await, []);
    flow.assert_states("a=completed b=waiting c=waiting").await;
}

pub async fn a_completion_dispatched_twice_counts_once_and_reports_it(harness: &Harness) {
    let harness = &harness.another_process();
    let flow = harness.flow("a b -> c").await;
    flow.complete("a").await;
    let row = flow.left("a", OutboxKind::Edges).await.expect("the outbox has its row");
    assert_eq!(harness.dispatch(&row).await, advanced(1));
    let updated = flow.row("c").await;
    let (again, transaction) = harness.transact(Dispatch { row: row.clone(), only_close: false }).await;
    assert_eq!((again, transaction.entry), (Ok(Dispatched::Nothing), None));
    let twice = vec![Dispatch { row, only_close: false }; 2];
    let replies = harness.run(RuleList(twice)).await;
    assert!(replies.iter().all(|reply| *reply == Ok(Dispatched::Nothing)));
    assert_eq!(flow.row("c").await, updated);
    flow.assert_states("a=completed b=waiting c=waiting_dependencies").await;
    flow.complete("b").await;
    flow.drain_and_assert("a=completed b=completed c=waiting").await;
}

pub async fn a_completion_dispatched_twice_in_one_transaction_counts_once(harness: &Harness) {
    let harness = &harness.another_process();
    let flow = harness.flow("a b -> c: quorum 2").await;
    flow.complete("a").await;
    let row = flow.left("a", OutboxKind::Edges).await.expect("the outbox has its row");
    let replies = harness.run(RuleList(vec![Dispatch { row, only_close: false }; 3])).await;
    assert_eq!(replies, [Ok(advanced(1)), Ok(Dispatched::Nothing), Ok(Dispatched::Nothing)]);
    flow.assert_states("a=completed b=waiting c=waiting_dependencies").await;
}

pub async fn a_completion_dispatched_by_concurrent_servers_counts_once(harness: &Harness) {
    let harness = &harness.another_process();
    let flow = harness.flow("a b -> c").await;
    flow.complete("a").await;
    let row = flow.left("a", OutboxKind::Edges).await.expect("the outbox has its row");
    let dispatched = crate::harness::concurrently(6, |_| {
        let (harness, row) = (harness.clone(), row.clone());
        async move { harness.dispatch(&row).await }
    });
    let done = dispatched.await.into_iter().filter(|one| *one == advanced(1)).count();
    assert_eq!(done, 1);
    flow.assert_states("a=completed b=waiting c=waiting_dependencies").await;
    assert_eq!(flow.row("c").await.version, 2);
}

pub async fn a_repeated_report_enqueues_nothing(harness: &Harness) {
    let flow = harness.flow("a b -> c").await;
    let claimed = flow.claim("a").await;
    for _ in 0..2 {
        flow.report(&claimed, Op::Complete { result: result("a") }).await;
        harness.drain().await;
    }
    assert_eq!(flow.row("c").await.version, 2);
    flow.assert_states("a=completed b=waiting c=waiting_dependencies").await;
}

pub async fn a_late_upstream_leaves_a_delayed_downstream_delayed(harness: &Harness) {
    let sketch = Sketch::from("a b -> c: any_of let_run");
    let flow = harness.flow(sketch.node("c", |c| c.delay = Some(When::AfterMs(HOUR_MS)))).await;
    flow.complete("a").await;
    flow.drain_and_assert("a=completed b=waiting c=delayed").await;
    let before = flow.row("c").await;
    flow.complete("b").await;
    flow.drain_and_assert("a=completed b=completed c=delayed").await;
    let after = flow.row("c").await;
    assert_eq!((&after.state, after.due()), (&before.state, before.due()));
}

pub async fn a_late_upstream_leaves_an_active_downstream_active(harness: &Harness) {
    let flow = harness.flow("a b -> c: any_of let_run").await;
    flow.complete("a").await;
    harness.drain().await;
    let claimed = flow.claim("c").await;
    flow.complete("b").await;
    flow.drain_and_assert("a=completed b=completed c=active").await;
    assert_eq!(flow.row("c").await.state, claimed.execution.state, "its lease is the same");
    assert!(harness.claim(10).await.is_empty(), "no other worker can claim it");
    flow.report(&claimed, Op::Complete { result: result("c") }).await;
    flow.drain_and_assert("a=completed b=completed c=completed").await;
}

pub async fn a_late_upstream_does_not_shorten_a_backoff(harness: &Harness) {
    let flow = harness.flow("a b -> c: any_of let_run").await;
    flow.complete("a").await;
    harness.drain().await;
    let claimed = flow.claim("c").await;
    let class = FailureClass::Transient;
    let op = Op::Fail { message: "not yet".into(), class, retry_after_ms: Some(HOUR_MS) };
    flow.report(&claimed, op).await;
    let before = flow.row("c").await.state;
    assert!(matches!(before, State::Delayed { .. }));
    flow.complete("b").await;
    flow.drain_and_assert("a=completed b=completed c=delayed").await;
    assert_eq!(flow.row("c").await.state, before);
    assert!(harness.claim(10).await.is_empty());
}

pub async fn an_upstream_that_ended_before_its_edge_was_added_counts_at_once(harness: &Harness) {
    let flow = harness.flow("a b; keep").await;
    flow.complete("a").await;
    flow.fail("b").await;
    harness.drain().await;
    flow.grow("a -> c; a b -> d; a keep -> e; b! -> f").await;
    assert_eq!(harness.outbox().await, [], "the outbox is empty");
    flow.assert_states(
        "a=completed b=failed c=waiting d=skipped e=waiting_dependencies f=waiting keep=waiting",
    )
    .await;
    assert_eq!(flow.claim("c").await.upstreams[0].result, Some(result("a")));
    flow.complete("keep").await;
    flow.drain_and_assert("a=completed b=failed c=active d=skipped e=waiting f=waiting keep=completed").await;
}

pub async fn an_edge_that_is_added_while_its_upstream_is_still_in_the_outbox_counts_once(harness: &Harness) {
    let flow = harness.flow("a -> b; x").await;
    flow.complete("a").await;
    flow.grow("a x -> c").await;
    let join = flow.row("c").await.join.expect("it has a join");
    assert_eq!(join.count(Resolution::Holds), 1);
    flow.drain_and_assert("a=completed b=waiting c=waiting_dependencies x=waiting").await;
    assert_eq!(flow.row("c").await.version, 2, "the dispatch changed nothing");
}

/// A way to end a node.
struct Ending {
    description: &'static str,
    policy: Policy,
    end: fn(crate::harness::FlowHarness) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>>,
    downstream: &'static str,
}

fn endings() -> Vec<Ending> {
    let policy = Policy::default;
    let no_retries = || {
        let mut policy = Policy::default();
        policy.retry.max_retries = 0;
        policy.retry.max_interruptions = 0;
        policy
    };
    let ending = |description, policy, end, downstream| Ending { description, policy, end, downstream };
    vec![
        ending("completed", policy(), |flow| Box::pin(async move { flow.complete("a").await }), "s"),
        ending("failed", policy(), |flow| Box::pin(async move { flow.fail("a").await }), "f"),
        ending(
            "expired by an expired lease",
            no_retries(),
            |flow| Box::pin(async move { flow.end("a", selvedge_core::Outcome::Expired).await }),
            "f",
        ),
        ending(
            "expired by its deadline",
            Policy { deadline_ms: Some(0), ..policy() },
            |flow| Box::pin(async move { flow.due("a", DueKind::Deadline).await }),
            "f",
        ),
        ending(
            "expired because it did not start in time",
            Policy { start_by_ms: Some(0), ..policy() },
            |flow| Box::pin(async move { flow.due("a", DueKind::Deadline).await }),
            "f",
        ),
        ending(
            "failed by its attempt timeout",
            Policy { attempt_timeout_ms: Some(1), ..no_retries() },
            |flow| {
                Box::pin(async move {
                    flow.claim("a").await;
                    flow.harness.advance_past(1).await;
                    flow.due("a", DueKind::AttemptTimeout).await;
                })
            },
            "f",
        ),
        ending("cancelled", policy(), |flow| Box::pin(async move { flow.cancel_node("a").await }), "f"),
        ending(
            "cancelled after its grace",
            policy(),
            |flow| {
                Box::pin(async move {
                    flow.claim("a").await;
                    let cancel = Action::Cancel { reason: None, grace_ms: 1 };
                    flow.operate("a", cancel).await.expect("the cancellation is requested");
                    flow.harness.advance_past(1).await;
                    flow.due("a", DueKind::Deadline).await;
                })
            },
            "f",
        ),
        ending(
            "cancelled by its own worker's release",
            policy(),
            |flow| {
                Box::pin(async move {
                    let claimed = flow.claim("a").await;
                    let cancel = Action::Cancel { reason: None, grace_ms: HOUR_MS };
                    flow.operate("a", cancel).await.expect("the cancellation is requested");
                    flow.report(&claimed, Op::Release).await;
                })
            },
            "f",
        ),
    ]
}

pub async fn every_way_to_end_reaches_the_downstream(harness: &Harness) {
    for ending in endings() {
        let policy = ending.policy.clone();
        let sketch = Sketch::from("a -> s; a! -> f; a? -> z").node("a", |draft| draft.policy = policy);
        let flow = harness.flow(sketch).await;
        (ending.end)(flow.clone()).await;
        harness.drain().await;
        for name in ["s", "f", "z"] {
            let expected = if name == "z" || name == ending.downstream { "waiting" } else { "skipped" };
            let state = flow.row(name).await.state.name().as_str();
            assert_eq!(state, expected, "{name} when a is {}", ending.description);
        }
    }
}

pub async fn every_cancellation_of_a_node_is_propagated(harness: &Harness) {
    let by_sibling = harness.flow("a b -> c: any_of; b! -> f; b -> s; x -> s; b? -> z; x -> z; x -> f").await;
    by_sibling.fail("x").await;
    harness.drain().await;
    by_sibling.complete("a").await;
    by_sibling
        .drain_and_assert("a=completed b=cancelled c=waiting f=skipped s=skipped x=failed z=skipped")
        .await;
    let join = by_sibling.row("f").await.join.expect("it has a join");
    assert_eq!((join.count(Resolution::Holds), join.count(Resolution::Pending)), (1, 0));
    let by_parent = harness.flow("p; keep").await;
    let parent = by_parent.claim("p").await;
    by_parent.spawn(&parent, "child; child! -> alarm").await;
    by_parent.report(&parent, failure("p")).await;
    by_parent.drain_and_assert("alarm=cancelled child=cancelled keep=waiting p=failed").await;
    let by_flow = harness.flow("a -> b -> c").await;
    by_flow.try_cancel(CancelMode::All).await.expect("it is cancelled");
    by_flow.drain_and_assert("a=cancelled b=cancelled c=cancelled").await;
    let join = by_flow.row("c").await.join.expect("it has a join");
    assert_eq!(join.count(Resolution::Dead), 1, "its edge was resolved, though it had ended");
}

pub async fn loaded_downstreams_are_updated_in_the_same_transaction(harness: &Harness) {
    let flow = harness.flow("a -> b -> c; a! -> d -> e").await;
    let claimed = flow.claim("a").await;
    flow.report_and_propagate(&claimed, Op::Complete { result: result("a") }).await;
    let expected = "a=completed b=waiting c=waiting_dependencies d=skipped e=waiting_dependencies";
    flow.assert_states(expected).await;
    let rows = harness.outbox().await;
    assert_eq!(rows.len(), 1, "one level is propagated, the next is in the outbox");
    assert_eq!(rows[0].name.id, flow.id("d").await.0);
    flow.drain_and_assert("a=completed b=waiting c=waiting_dependencies d=skipped e=skipped").await;
}

pub async fn a_chain_that_is_interrupted_anywhere_drains_fully(harness: &Harness) {
    const DEPTH: usize = 12;
    let names: Vec<String> = (0..DEPTH).map(|index| format!("n{index:02}")).collect();
    for levels in 0..3 {
        let flow = harness.flow(&*names.join(" -> ")).await;
        let claimed = flow.claim("n00").await;
        flow.report_and_propagate(&claimed, failure("n00")).await;
        for _ in 0..levels {
            let rows = harness.outbox().await;
            assert_eq!(rows.len(), 1);
            harness.dispatch(&rows[0]).await;
        }
        harness.drain().await;
        let last = flow.row(&names[DEPTH - 1]).await;
        assert_eq!(last.state.name().as_str(), "skipped", "after {levels} levels");
    }
}

pub async fn a_wide_completion_is_dispatched_in_chunks(harness: &Harness) {
    const WIDTH: usize = 1200;
    let names: Vec<String> = (0..WIDTH).map(|index| format!("d{index}")).collect();
    let sketch = Sketch::from(&*format!("a -> {}", names.join(" "))).of_kind("kind");
    let flow = harness.flow(sketch.node("a", |a| a.kind = "a".into())).await;
    let claimed = flow.claim("a").await;
    flow.report_and_propagate(&claimed, Op::Complete { result: result("a") }).await;
    let counts = flow.flow().await.counts;
    assert_eq!(
        counts.of(selvedge_core::state::StateName::WaitingDependencies),
        WIDTH as i32,
        "too many to propagate in the same transaction"
    );
    let mut changed = Vec::new();
    while let Some(row) = flow.left("a", OutboxKind::Edges).await {
        assert_eq!(row.position as usize, changed.iter().sum::<u32>() as usize);
        let Dispatched::Advanced { changed: more, rest } = harness.dispatch(&row).await else {
            panic!("the row is not finished")
        };
        changed.push(more);
        assert_eq!(rest, flow.left("a", OutboxKind::Edges).await);
        if rest.is_some() {
            assert_eq!(harness.dispatch(&row).await, Dispatched::Nothing, "a chunk is done once");
        }
    }
    assert_eq!(changed, [CHUNK as u32, CHUNK as u32, (WIDTH - 2 * CHUNK) as u32]);
    let counts = flow.flow().await.counts;
    assert_eq!(counts.of(selvedge_core::state::StateName::Waiting), WIDTH as i32);
    let worker = Worker { kinds: Some(vec!["kind".into()]), ..Worker::new("wide") };
    assert_eq!(harness.claim_as(&worker, 1000).await.len(), 1000);
}

pub async fn a_node_that_changes_during_its_dispatch_is_propagated_from_the_start(harness: &Harness) {
    const WIDTH: usize = CHUNK + 5;
    let names: Vec<String> = (0..WIDTH).map(|index| format!("d{index}")).collect();
    let sketch = Sketch::from(&*format!("a -> {}; x", names.join(" "))).of_kind("kind");
    let flow = harness.flow(sketch.node("a", |a| a.kind = "a".into())).await;
    flow.fail("a").await;
    let first = flow.dispatch("a", OutboxKind::Edges).await;
    assert!(matches!(first, Dispatched::Advanced { rest: Some(_), .. }));
    flow.replay("a").await;
    let row = flow.left("a", OutboxKind::Edges).await.expect("the outbox has its row");
    assert_eq!(row.position, 0);
    harness.drain().await;
    let counts = flow.flow().await.counts;
    assert_eq!(
        counts.of(selvedge_core::state::StateName::WaitingDependencies),
        WIDTH as i32,
        "all of them wait again"
    );
}

pub async fn a_dispatch_that_only_closes_keeps_an_unfinished_row(harness: &Harness) {
    let harness = &harness.another_process();
    let flow = harness.flow("a b -> c: any_of").await;
    flow.complete("a").await;
    flow.dispatch("a", OutboxKind::Edges).await;
    let row = flow.left("c", OutboxKind::Siblings).await.expect("the cancellation of b is in the outbox");
    let close = |only_close| Dispatch { row: row.clone(), only_close };
    assert_eq!(harness.run(close(true)).await, Ok(Dispatched::Nothing));
    flow.assert_states("a=completed b=waiting c=waiting").await;
    assert!(flow.left("c", OutboxKind::Siblings).await.is_some());
    let b = flow.claim("b").await;
    flow.report_and_propagate(&b, Op::Complete { result: result("b") }).await;
    assert_eq!(harness.run(close(true)).await, Ok(advanced(0)), "the row is finished");
    assert_eq!(harness.outbox().await, []);
}

pub async fn a_deletion_leaves_no_outbox_row_that_cannot_be_dispatched(harness: &Harness) {
    let harness = &harness.another_process();
    let flow = harness.flow(Sketch::from("a -> b").flow(|flow| flow.retention_ms = Some(0))).await;
    flow.cancel_node("b").await;
    flow.fail("a").await;
    let row = flow.left("a", OutboxKind::Edges).await.expect("the outbox has its row");
    harness.run(selvedge_core::rules::flows::whole::SettleFlow { flow: flow.id }).await;
    let deleted =
        harness.run(selvedge_core::rules::flows::whole::ForgetFlow { flow: flow.id, at_once: false }).await;
    assert!(deleted.is_some_and(|deleted| !deleted.goes_on));
    assert!(flow.find().await.is_none());
    assert_eq!(harness.dispatch(&row).await, Dispatched::Nothing);
    assert_eq!(harness.outbox().await, []);
}

pub async fn an_expired_lease_that_is_retried_is_not_propagated(harness: &Harness) {
    let flow = harness.flow("a? -> b").await;
    let worker = Worker { kinds: Some(vec!["a".into()]), ttl_ms: 1, ..Worker::new("flow") };
    harness.claim_as(&worker, 1).await;
    flow.expire_lease("a").await;
    assert_eq!(harness.outbox().await, []);
    flow.drain_and_assert("a=waiting b=waiting_dependencies").await;
}
