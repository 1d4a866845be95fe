//! Dispatch: whatever ends an execution reaches its downstreams, once, and whatever is interrupted is done in the end.
#![allow(missing_docs)]

use super::flow_harness::{failure, result};
use super::harness::Harness;
use super::rule::Each;
use super::sketch::Sketch;
use super::worker::Worker;
use selvedge_core::flow::CancelMode;
use selvedge_core::join::Resolution;
use selvedge_core::outbox::OutboxKind;
use selvedge_core::rules::dispatch::{Dispatch, Dispatched};
use selvedge_core::rules::join::CHUNK;
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::report::Op;
use selvedge_core::submission::When;
use selvedge_core::{DueKind, FailureClass, Policy, State};

const HOUR_MS: i64 = 3_600_000;

fn advanced(changed: u32) -> Dispatched {
    Dispatched::Advanced { changed, rest: None }
}

pub async fn a_completion_stays_in_the_outbox_until_its_edges_were_advanced(harness: &Harness) {
    let harness = &harness.elsewhere();
    let flow = harness.flow("a -> b; a -> c").await;
    flow.complete("a").await;
    flow.stands("a=completed b=waiting_dependencies c=waiting_dependencies").await;
    let left = flow.left("a", OutboxKind::Edges).await.expect("the completion left it, in its own commit");
    assert_eq!((left.position, left.namespace), (0, harness.namespace));
    let (dispatched, transaction) = harness.transact(Dispatch { row: left, only_close: false }).await;
    assert_eq!(dispatched, Ok(advanced(2)));
    assert!(transaction.entry.is_some(), "the row left with the edges it was about, in one commit");
    assert_eq!(harness.outbox().await, []);
    flow.stands("a=completed b=waiting c=waiting").await;
}

pub async fn a_completion_that_is_dispatched_twice_counts_once_and_says_so(harness: &Harness) {
    let harness = &harness.elsewhere();
    let flow = harness.flow("a b -> c").await;
    flow.complete("a").await;
    let left = flow.left("a", OutboxKind::Edges).await.expect("it is left");
    assert_eq!(harness.dispatch(&left).await, advanced(1));
    let heard = flow.row("c").await;
    let (again, transaction) = harness.transact(Dispatch { row: left.clone(), only_close: false }).await;
    assert_eq!((again, transaction.entry), (Ok(Dispatched::Nothing), None));
    let twice = vec![Dispatch { row: left, only_close: false }; 2];
    let replies = harness.run(Each(twice)).await;
    assert!(replies.iter().all(|reply| *reply == Ok(Dispatched::Nothing)));
    assert_eq!(flow.row("c").await, heard);
    flow.stands("a=completed b=waiting c=waiting_dependencies").await;
    flow.complete("b").await;
    flow.comes_to("a=completed b=completed c=waiting").await;
}

pub async fn a_completion_that_is_dispatched_twice_in_one_transaction_counts_once(harness: &Harness) {
    let harness = &harness.elsewhere();
    let flow = harness.flow("a b -> c: quorum 2").await;
    flow.complete("a").await;
    let left = flow.left("a", OutboxKind::Edges).await.expect("it is left");
    let replies = harness.run(Each(vec![Dispatch { row: left, only_close: false }; 3])).await;
    assert_eq!(replies, [Ok(advanced(1)), Ok(Dispatched::Nothing), Ok(Dispatched::Nothing)]);
    flow.stands("a=completed b=waiting c=waiting_dependencies").await;
}

pub async fn a_completion_that_several_servers_dispatch_at_once_counts_once(harness: &Harness) {
    let harness = &harness.elsewhere();
    let flow = harness.flow("a b -> c").await;
    flow.complete("a").await;
    let left = flow.left("a", OutboxKind::Edges).await.expect("it is left");
    let dispatched = super::side_by_side(6, |_| {
        let (harness, left) = (harness.clone(), left.clone());
        async move { harness.dispatch(&left).await }
    });
    let done = dispatched.await.into_iter().filter(|one| *one == advanced(1)).count();
    assert_eq!(done, 1);
    flow.stands("a=completed b=waiting c=waiting_dependencies").await;
    assert_eq!(flow.row("c").await.version, 2);
}

pub async fn a_repeated_report_leaves_nothing_to_be_done_again(harness: &Harness) {
    let flow = harness.flow("a b -> c").await;
    let claimed = flow.claim("a").await;
    for _ in 0..2 {
        flow.report(&claimed, Op::Complete { result: result("a") }).await;
        harness.drain().await;
    }
    assert_eq!(flow.row("c").await.version, 2);
    flow.stands("a=completed b=waiting c=waiting_dependencies").await;
}

pub async fn a_late_upstream_leaves_a_delayed_downstream_delayed(harness: &Harness) {
    let sketch = Sketch::from("a b -> c: any_of let_run");
    let flow = harness.flow(sketch.node("c", |c| c.delay = Some(When::AfterMs(HOUR_MS)))).await;
    flow.complete("a").await;
    flow.comes_to("a=completed b=waiting c=delayed").await;
    let before = flow.row("c").await;
    flow.complete("b").await;
    flow.comes_to("a=completed b=completed c=delayed").await;
    let after = flow.row("c").await;
    assert_eq!((&after.state, after.due()), (&before.state, before.due()));
}

pub async fn a_late_upstream_leaves_a_running_downstream_to_its_worker(harness: &Harness) {
    let flow = harness.flow("a b -> c: any_of let_run").await;
    flow.complete("a").await;
    harness.drain().await;
    let claimed = flow.claim("c").await;
    flow.complete("b").await;
    flow.comes_to("a=completed b=completed c=active").await;
    assert_eq!(flow.row("c").await.state, claimed.execution.state, "its lease is the same");
    assert!(harness.claim(10).await.is_empty(), "nobody else can claim it");
    flow.report(&claimed, Op::Complete { result: result("c") }).await;
    flow.comes_to("a=completed b=completed c=completed").await;
}

pub async fn a_late_upstream_does_not_bypass_a_back_off(harness: &Harness) {
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
    flow.comes_to("a=completed b=completed c=delayed").await;
    assert_eq!(flow.row("c").await.state, before);
    assert!(harness.claim(10).await.is_empty());
}

pub async fn an_upstream_that_ended_before_its_edge_was_added_counts_at_once(harness: &Harness) {
    let flow = harness.flow("a b; keep").await;
    flow.complete("a").await;
    flow.fail("b").await;
    harness.drain().await;
    flow.grow("a -> c; a b -> d; a keep -> e; b! -> f").await;
    assert_eq!(harness.outbox().await, [], "nothing is left to be done");
    flow.stands("a=completed b=failed c=waiting d=skipped e=waiting_dependencies f=waiting keep=waiting")
        .await;
    assert_eq!(flow.claim("c").await.upstreams[0].result, Some(result("a")));
    flow.complete("keep").await;
    flow.comes_to("a=completed b=failed c=active d=skipped e=waiting f=waiting keep=completed").await;
}

pub async fn an_edge_that_is_added_while_its_upstream_is_still_in_the_outbox_counts_once(harness: &Harness) {
    let flow = harness.flow("a -> b; x").await;
    flow.complete("a").await;
    flow.grow("a x -> c").await;
    let join = flow.row("c").await.join.expect("it has edges");
    assert_eq!(join.count(Resolution::Holds), 1);
    flow.comes_to("a=completed b=waiting c=waiting_dependencies x=waiting").await;
    assert_eq!(flow.row("c").await.version, 2, "the dispatch brought no news");
}

/// How one node of a flow may end.
struct Way {
    what: &'static str,
    policy: Policy,
    end: fn(super::FlowHarness) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>>,
    downstream: &'static str,
}

fn ways() -> Vec<Way> {
    let policy = Policy::default;
    let never_again = || {
        let mut policy = Policy::default();
        policy.retry.max_retries = 0;
        policy.retry.max_interruptions = 0;
        policy
    };
    let way = |what, policy, end, downstream| Way { what, policy, end, downstream };
    vec![
        way("completed", policy(), |flow| Box::pin(async move { flow.complete("a").await }), "s"),
        way("failed", policy(), |flow| Box::pin(async move { flow.fail("a").await }), "f"),
        way(
            "expired by a lapsed lease",
            never_again(),
            |flow| Box::pin(async move { flow.end("a", selvedge_core::Outcome::Expired).await }),
            "f",
        ),
        way(
            "expired by its deadline",
            Policy { deadline_ms: Some(0), ..policy() },
            |flow| Box::pin(async move { flow.due("a", DueKind::Deadline).await }),
            "f",
        ),
        way(
            "expired because it did not start in time",
            Policy { start_by_ms: Some(0), ..policy() },
            |flow| Box::pin(async move { flow.due("a", DueKind::Deadline).await }),
            "f",
        ),
        way(
            "failed by its attempt timeout",
            Policy { attempt_timeout_ms: Some(1), ..never_again() },
            |flow| {
                Box::pin(async move {
                    flow.claim("a").await;
                    flow.harness.pass(1).await;
                    flow.due("a", DueKind::AttemptTimeout).await;
                })
            },
            "f",
        ),
        way("cancelled", policy(), |flow| Box::pin(async move { flow.cancel_node("a").await }), "f"),
        way(
            "cancelled after its grace",
            policy(),
            |flow| {
                Box::pin(async move {
                    flow.claim("a").await;
                    let cancel = Action::Cancel { reason: None, grace_ms: 1 };
                    flow.operate("a", cancel).await.expect("it is asked for");
                    flow.harness.pass(1).await;
                    flow.due("a", DueKind::Deadline).await;
                })
            },
            "f",
        ),
        way(
            "cancelled by its own worker's return",
            policy(),
            |flow| {
                Box::pin(async move {
                    let claimed = flow.claim("a").await;
                    let cancel = Action::Cancel { reason: None, grace_ms: HOUR_MS };
                    flow.operate("a", cancel).await.expect("it is asked for");
                    flow.report(&claimed, Op::Release).await;
                })
            },
            "f",
        ),
    ]
}

pub async fn every_way_to_end_reaches_the_downstream(harness: &Harness) {
    for way in ways() {
        let policy = way.policy.clone();
        let sketch = Sketch::from("a -> s; a! -> f; a? -> z").node("a", |draft| draft.policy = policy);
        let flow = harness.flow(sketch).await;
        (way.end)(flow.clone()).await;
        harness.drain().await;
        for name in ["s", "f", "z"] {
            let expected = if name == "z" || name == way.downstream { "waiting" } else { "skipped" };
            let state = flow.row(name).await.state.name().public();
            assert_eq!(state, expected, "{name} when a is {}", way.what);
        }
    }
}

pub async fn a_cancelled_node_is_a_completion_whoever_cancelled_it(harness: &Harness) {
    let by_sibling = harness.flow("a b -> c: any_of; b! -> f; b -> s; x -> s; b? -> z; x -> z; x -> f").await;
    by_sibling.fail("x").await;
    harness.drain().await;
    by_sibling.complete("a").await;
    by_sibling.comes_to("a=completed b=cancelled c=waiting f=skipped s=skipped x=failed z=skipped").await;
    let join = by_sibling.row("f").await.join.expect("it has edges");
    assert_eq!((join.count(Resolution::Holds), join.count(Resolution::Pending)), (1, 0));
    let by_parent = harness.flow("p; keep").await;
    let parent = by_parent.claim("p").await;
    by_parent.spawn(&parent, "child; child! -> alarm").await;
    by_parent.report(&parent, failure("p")).await;
    by_parent.comes_to("alarm=cancelled child=cancelled keep=waiting p=failed").await;
    let by_flow = harness.flow("a -> b -> c").await;
    by_flow.try_cancel(CancelMode::All).await.expect("it is cancelled");
    by_flow.comes_to("a=cancelled b=cancelled c=cancelled").await;
    let join = by_flow.row("c").await.join.expect("it has edges");
    assert_eq!(join.count(Resolution::Dead), 1, "it heard, though it had ended");
}

pub async fn downstreams_at_hand_are_told_in_the_same_transaction(harness: &Harness) {
    let flow = harness.flow("a -> b -> c; a! -> d -> e").await;
    let claimed = flow.claim("a").await;
    flow.report_and_tell(&claimed, Op::Complete { result: result("a") }).await;
    let expected = "a=completed b=waiting c=waiting_dependencies d=skipped e=waiting_dependencies";
    flow.stands(expected).await;
    let left = harness.outbox().await;
    assert_eq!(left.len(), 1, "one hop is done, the next is left");
    assert_eq!(left[0].name.id, flow.id("d").await.0);
    flow.comes_to("a=completed b=waiting c=waiting_dependencies d=skipped e=skipped").await;
}

pub async fn a_chain_that_is_interrupted_anywhere_drains_fully(harness: &Harness) {
    const DEPTH: usize = 12;
    let names: Vec<String> = (0..DEPTH).map(|index| format!("n{index:02}")).collect();
    for hops in 0..3 {
        let flow = harness.flow(&*names.join(" -> ")).await;
        let claimed = flow.claim("n00").await;
        flow.report_and_tell(&claimed, failure("n00")).await;
        for _ in 0..hops {
            let rows = harness.outbox().await;
            assert_eq!(rows.len(), 1);
            harness.dispatch(&rows[0]).await;
        }
        harness.drain().await;
        let last = flow.row(&names[DEPTH - 1]).await;
        assert_eq!(last.state.name().public(), "skipped", "after {hops} hops");
    }
}

pub async fn a_wide_completion_is_dispatched_in_chunks(harness: &Harness) {
    const WIDTH: usize = 1200;
    let names: Vec<String> = (0..WIDTH).map(|index| format!("d{index}")).collect();
    let sketch = Sketch::from(&*format!("a -> {}", names.join(" "))).of_kind("kind");
    let flow = harness.flow(sketch.node("a", |a| a.kind = "a".into())).await;
    let claimed = flow.claim("a").await;
    flow.report_and_tell(&claimed, Op::Complete { result: result("a") }).await;
    let counts = flow.flow().await.counts;
    assert_eq!(
        counts.of(selvedge_core::state::StateName::WaitingDependencies),
        WIDTH as i32,
        "too many for one hop"
    );
    let mut changed = Vec::new();
    while let Some(row) = flow.left("a", OutboxKind::Edges).await {
        assert_eq!(row.position as usize, changed.iter().sum::<u32>() as usize);
        let Dispatched::Advanced { changed: more, rest } = harness.dispatch(&row).await else {
            panic!("there was more to do")
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

pub async fn what_turns_again_in_the_middle_of_its_dispatch_is_told_from_the_beginning(harness: &Harness) {
    const WIDTH: usize = CHUNK + 5;
    let names: Vec<String> = (0..WIDTH).map(|index| format!("d{index}")).collect();
    let sketch = Sketch::from(&*format!("a -> {}; x", names.join(" "))).of_kind("kind");
    let flow = harness.flow(sketch.node("a", |a| a.kind = "a".into())).await;
    flow.fail("a").await;
    let first = flow.dispatch("a", OutboxKind::Edges).await;
    assert!(matches!(first, Dispatched::Advanced { rest: Some(_), .. }));
    flow.replay("a").await;
    let left = flow.left("a", OutboxKind::Edges).await.expect("it is left");
    assert_eq!(left.position, 0);
    harness.drain().await;
    let counts = flow.flow().await.counts;
    assert_eq!(
        counts.of(selvedge_core::state::StateName::WaitingDependencies),
        WIDTH as i32,
        "all of them wait again"
    );
}

pub async fn a_dispatch_that_only_closes_leaves_what_is_not_done(harness: &Harness) {
    let harness = &harness.elsewhere();
    let flow = harness.flow("a b -> c: any_of").await;
    flow.complete("a").await;
    flow.dispatch("a", OutboxKind::Edges).await;
    let left = flow.left("c", OutboxKind::Siblings).await.expect("b is to be cancelled");
    let close = |only_close| Dispatch { row: left.clone(), only_close };
    assert_eq!(harness.run(close(true)).await, Ok(Dispatched::Nothing));
    flow.stands("a=completed b=waiting c=waiting").await;
    assert!(flow.left("c", OutboxKind::Siblings).await.is_some());
    let b = flow.claim("b").await;
    flow.report_and_tell(&b, Op::Complete { result: result("b") }).await;
    assert_eq!(harness.run(close(true)).await, Ok(advanced(0)), "nothing is left of it");
    assert_eq!(harness.outbox().await, []);
}

pub async fn a_deletion_leaves_no_work_that_cannot_be_done(harness: &Harness) {
    let harness = &harness.elsewhere();
    let flow = harness.flow(Sketch::from("a -> b").flow(|flow| flow.retention_ms = Some(0))).await;
    flow.cancel_node("b").await;
    flow.fail("a").await;
    let left = flow.left("a", OutboxKind::Edges).await.expect("it is left");
    harness.run(selvedge_core::rules::flow::Settle { flow: flow.id }).await;
    let forgotten = harness.run(selvedge_core::rules::flow::ForgetFlow { flow: flow.id }).await;
    assert!(forgotten.is_some_and(|forgotten| !forgotten.goes_on));
    assert!(flow.find().await.is_none());
    assert_eq!(harness.dispatch(&left).await, Dispatched::Nothing);
    assert_eq!(harness.outbox().await, []);
}

pub async fn a_lease_that_lapses_and_is_tried_again_is_no_completion(harness: &Harness) {
    let flow = harness.flow("a? -> b").await;
    let worker = Worker { kinds: Some(vec!["a".into()]), ttl_ms: 1, ..Worker::new("flow") };
    harness.claim_as(&worker, 1).await;
    flow.lapse("a").await;
    assert_eq!(harness.outbox().await, []);
    flow.comes_to("a=waiting b=waiting_dependencies").await;
}
