//! Flows: submitted as a whole and once, run along their edges, and ended by the outcomes of their members.

use crate::harness::concurrently;
use crate::harness::flow::{failure, result};
use crate::harness::runner::RulePair;
use crate::harness::sketch::Sketch;
use crate::harness::{Harness, fence};
use selvedge_core::flow::{CancelMode, FlowState};
use selvedge_core::join::{EdgeCondition, GroupDecision, JoinPolicy, OnSatisfied, Resolution};
use selvedge_core::rows::Relative;
use selvedge_core::rules::flows::whole::SettleFlow;
use selvedge_core::rules::timer::{Timer, TimerReply};
use selvedge_core::state::StateName;
use selvedge_core::submission::When;
use selvedge_core::wiring::{Downstream, Upstream};
use selvedge_core::{DueKind, Execution, FlowId, Outcome, State};
use selvedge_store::{FlowDue, ReconcilerScope};
use std::collections::BTreeSet;
use uuid::Uuid;

const HOUR_MS: i64 = 3_600_000;

pub async fn a_flow_is_submitted_whole_and_read_back_with_every_edge_at_both_ends(harness: &Harness) {
    let sketch = Sketch::from("a b? -> c: any_of let_run; c -> d").flow(|flow| {
        flow.name = Some("a name".into());
        flow.tags = [("of".into(), "the flow".into())].into();
        flow.deadline_ms = Some(HOUR_MS);
        flow.retention_ms = Some(5);
    });
    let submitted = harness.try_submit_flow(sketch).await.expect("it is accepted");
    assert!(!submitted.duplicate);
    let flow = harness.flow_of(submitted.flow.id);
    assert_eq!(flow.flow().await, submitted.flow);
    let row = flow.flow().await;
    assert_eq!(row.name.as_deref(), Some("a name"));
    assert_eq!(row.tags, [("of".to_owned(), "the flow".to_owned())].into());
    assert_eq!(row.spec.deadline_at, Some(row.submitted_at.plus_ms(HOUR_MS)));
    assert_eq!((row.spec.retention_ms, row.state, row.ended_at), (5, FlowState::Running, None));
    assert_eq!((row.counts.of(StateName::Waiting), row.counts.of(StateName::WaitingDependencies)), (2, 2));
    flow.assert_states("a=waiting b=waiting c=waiting_dependencies d=waiting_dependencies").await;
    let [a, b, c, d] = [flow.row("a").await, flow.row("b").await, flow.row("c").await, flow.row("d").await];
    let upstream = |of: &Execution, when| Upstream { execution: of.id, when };
    let downstream = |of: &Execution, edge| Downstream { execution: of.id, edge };
    let expected = [upstream(&a, EdgeCondition::Success), upstream(&b, EdgeCondition::Finished)];
    assert_eq!(c.wiring().upstreams, expected);
    assert_eq!(a.wiring().downstreams, [downstream(&c, 0)]);
    assert_eq!(b.wiring().downstreams, [downstream(&c, 1)]);
    assert_eq!(c.wiring().downstreams, [downstream(&d, 0)]);
    let join = c.join.expect("it has a join");
    assert_eq!(join.policy, JoinPolicy::AnyOf { on_satisfied: OnSatisfied::LetRun });
    assert_eq!((join.count(Resolution::Pending), join.decision), (2, GroupDecision::Pending));
    assert!(a.join.is_none() && a.flow == Some(flow.id) && d.flow == Some(flow.id));
    let depths = [&a, &b, &d].map(|row| row.spec.node.as_ref().map(|node| node.depth));
    assert_eq!(depths, [Some(0), Some(0), Some(2)]);
}

pub async fn submitting_a_flow_again_returns_the_first(harness: &Harness) {
    let id = Uuid::now_v7();
    let by_id = |text: &str| Sketch::from(text).flow(|flow| flow.id = Some(id));
    let by_key = |text: &str| Sketch::from(text).flow(|flow| flow.idempotency_key = Some("key".into()));
    let first = harness.try_submit_flow(by_id("a -> b")).await.expect("it is accepted");
    let again = harness.try_submit_flow(by_id("a -> b")).await.expect("it is accepted");
    assert_eq!((first.duplicate, again.duplicate, again.flow.id), (false, true, FlowId(id)));
    let other = harness.try_submit_flow(by_id("a -> c")).await.expect_err("it has other content");
    assert_eq!((other.code(), other.pointer()), ("idempotency_mismatch", Some("/id")));
    let first = harness.try_submit_flow(by_key("a -> b")).await.expect("it is accepted");
    let again = harness.try_submit_flow(by_key("a -> b")).await.expect("it is accepted");
    assert_eq!((first.duplicate, again.duplicate, again.flow.id), (false, true, first.flow.id));
    let other = harness.try_submit_flow(by_key("a! -> b")).await.expect_err("it has other content");
    assert_eq!((other.code(), other.pointer()), ("idempotency_mismatch", Some("/idempotency_key")));
    assert_eq!(harness.flow_of(first.flow.id).members().await.len(), 2);
    let other_namespace = harness.in_namespace("elsewhere").await;
    let theirs =
        other_namespace.try_submit_flow(by_key("a -> c")).await.expect("a key belongs to its namespace");
    assert_ne!(theirs.flow.id, first.flow.id);
}

pub async fn concurrent_submissions_of_one_flow_create_one_flow(harness: &Harness) {
    let sketch = Sketch::from("a -> b").flow(|flow| flow.idempotency_key = Some("key".into()));
    let submitted = concurrently(8, |_| {
        let (harness, sketch) = (harness.clone(), sketch.clone());
        async move { harness.try_submit_flow(sketch).await.expect("it is accepted") }
    });
    let submitted = submitted.await;
    assert_eq!(submitted.iter().filter(|one| !one.duplicate).count(), 1);
    let flows: BTreeSet<FlowId> = submitted.iter().map(|one| one.flow.id).collect();
    assert_eq!(flows.len(), 1);
}

pub async fn a_flow_submission_whose_reply_was_lost_finds_its_flow(harness: &Harness) {
    let command = harness.submit_flow_command("a b -> c").await.expect("it is valid");
    let first = harness.run(command.clone()).await.expect("it is accepted");
    let (again, transaction) = harness.transact(command).await;
    let again = again.expect("it is accepted");
    assert_eq!((again.flow.id, again.duplicate), (first.flow.id, false));
    assert_eq!((transaction.tries, transaction.entry), (2, None));
    assert_eq!(harness.flow_of(first.flow.id).members().await.len(), 3);
}

pub async fn a_flow_with_a_node_id_in_use_is_refused_and_leaves_nothing(harness: &Harness) {
    let taken = harness.submit(selvedge_core::Draft::new("kind")).await;
    let id = Uuid::now_v7();
    let sketch = Sketch::from("a -> b").node("b", |draft| draft.id = Some(taken.id.0));
    let refused = harness.try_submit_flow(sketch.flow(|flow| flow.id = Some(id))).await;
    let refused = refused.expect_err("the id is in use");
    assert_eq!((refused.code(), refused.pointer()), ("idempotency_mismatch", Some("/nodes/1/id")));
    assert!(harness.flow_of(FlowId(id)).find().await.is_none());
    assert_eq!(harness.row(taken.id).await, taken);
    assert_eq!(harness.claim(10).await.len(), 1, "no other execution exists");
}

pub async fn a_claim_carries_results_outcomes_and_errors_of_upstreams_by_name(harness: &Harness) {
    let flow = harness.flow("a b! c? d? -> e; s! -> d").await;
    flow.complete("a").await;
    flow.fail("b").await;
    flow.cancel_node("c").await;
    flow.complete("s").await;
    harness.drain().await;
    flow.assert_states("a=completed b=failed c=cancelled d=skipped e=waiting s=completed").await;
    let claimed = flow.claim("e").await;
    let mut ids = std::collections::BTreeMap::new();
    for name in ["a", "b", "c", "d"] {
        ids.insert(name, flow.id(name).await);
    }
    let relative = |name: &str, outcome| Relative {
        execution: ids[name],
        name: selvedge_core::Name::trusted(name),
        outcome: Some(outcome),
        error: None,
        result: None,
        left_out: false,
    };
    let error = flow.row("b").await.detail.error;
    assert!(error.as_ref().is_some_and(|error| error.message == "b broke"));
    let expected = [
        Relative { result: Some(result("a")), ..relative("a", Outcome::Completed) },
        Relative { error, ..relative("b", Outcome::Failed) },
        relative("c", Outcome::Cancelled),
        relative("d", Outcome::Skipped),
    ];
    assert_eq!(claimed.upstreams, expected);
    assert!(claimed.children.is_empty());
}

pub async fn a_node_that_is_claimed_again_carries_its_upstreams_again(harness: &Harness) {
    let flow = harness.flow("a b -> c: any_of let_run").await;
    flow.complete("a").await;
    harness.drain().await;
    let first = flow.claim("c").await;
    assert_eq!(first.upstreams[1].outcome, None, "b is still live");
    flow.report(&first, selvedge_core::rules::report::Op::Release).await;
    flow.fail("b").await;
    harness.drain().await;
    let again = flow.claim("c").await;
    assert_eq!(again.upstreams[0], first.upstreams[0]);
    assert_eq!(again.upstreams[1].outcome, Some(Outcome::Failed));
}

pub async fn the_delay_of_a_node_starts_when_its_join_is_satisfied(harness: &Harness) {
    let sketch = Sketch::from("a -> b; a -> c; d").node("b", |b| b.delay = Some(When::AfterMs(HOUR_MS)));
    let sketch = sketch.node("c", |c| c.delay = Some(When::AfterMs(0)));
    let flow = harness.flow(sketch.node("d", |d| d.delay = Some(When::AfterMs(HOUR_MS)))).await;
    flow.assert_states("a=waiting b=waiting_dependencies c=waiting_dependencies d=delayed").await;
    harness.advance_past(2).await;
    flow.complete("a").await;
    let ended_at = flow.row("a").await.ended_at.expect("it has ended");
    harness.drain().await;
    flow.assert_states("a=completed b=delayed c=waiting d=delayed").await;
    let State::Delayed { until } = flow.row("b").await.state else { panic!("it is delayed") };
    assert!(until >= ended_at.plus_ms(HOUR_MS), "the delay did not start at the submission");
    assert_eq!(flow.tick("b", Timer::Due(DueKind::Delay)).await, TimerReply::NotDue);
    let due = harness.store.overview().await.expect("the overview is read").next;
    let first = flow.row("d").await.due().map(|due| (due.kind, due.at));
    assert_eq!(due.into_iter().find(|(kind, _)| *kind == DueKind::Delay), first);
}

pub async fn an_unneeded_hedge_never_starts(harness: &Harness) {
    let sketch = Sketch::from("first hedge -> won: any_of")
        .node("hedge", |hedge| hedge.delay = Some(When::AfterMs(HOUR_MS)));
    let flow = harness.flow(sketch).await;
    flow.complete("first").await;
    flow.drain_and_assert("first=completed hedge=cancelled won=waiting").await;
    flow.complete("won").await;
    assert_eq!(flow.drained_state().await, FlowState::Completed);
}

pub async fn a_flow_completes_when_every_member_has_completed(harness: &Harness) {
    let flow = harness.flow("a -> b").await;
    for (name, live) in [("a", 1), ("b", 0)] {
        flow.complete(name).await;
        harness.drain().await;
        let row = flow.flow().await;
        assert_eq!((row.counts.total(), row.counts.live()), (2, live));
    }
    let row = flow.flow().await;
    assert_eq!((row.state, row.counts.of(StateName::Completed)), (FlowState::Completed, 2));
    assert!(row.ended_at.is_some_and(|at| at >= row.submitted_at));
}

pub async fn a_failure_that_nothing_handles_fails_the_flow(harness: &Harness) {
    for (text, outcome) in [
        ("a b", Outcome::Failed),
        ("a b", Outcome::Expired),
        ("a b", Outcome::Cancelled),
        ("a -> c; b", Outcome::Failed),
        ("a -> c; b", Outcome::Cancelled),
        ("a? -> c: all_of; b", Outcome::Completed),
        // A clean-up handles nothing, and neither does an alert that was skipped.
        ("a? -> e; b", Outcome::Failed),
        ("a? -> e; b", Outcome::Cancelled),
        ("a! b! -> c; a b -> d", Outcome::Failed),
        ("a~ b~ -> c; a b -> d", Outcome::Expired),
        // The alert behind what was skipped handles only that.
        ("a -> c; c~ -> e; b", Outcome::Failed),
        // One of two groups needs it.
        ("a b -> e: any_of; a -> f", Outcome::Failed),
        ("a b -> c: any_of let_run; a -> d", Outcome::Completed),
    ] {
        let sketch = Sketch::from(text).each(|draft| draft.policy.retry.max_interruptions = 0);
        let flow = harness.flow(sketch).await;
        flow.end("a", outcome).await;
        match outcome {
            Outcome::Completed => flow.fail("b").await,
            _ => flow.complete("b").await,
        }
        harness.drain().await;
        for name in ["c", "d"] {
            if flow.states().await.contains(&format!("{name}=waiting")) {
                flow.fail(name).await;
            }
        }
        harness.drain().await;
        for name in ["e", "f"] {
            if flow.states().await.contains(&format!("{name}=waiting")) {
                flow.complete(name).await;
            }
        }
        assert_eq!(flow.drained_state().await, FlowState::Failed, "{text} with {outcome}");
    }
}

pub async fn a_flow_completes_if_a_handler_or_a_join_handles_every_failure(harness: &Harness) {
    for (text, outcome) in [
        ("a! -> c; b", Outcome::Failed),
        ("a! -> c; b", Outcome::Expired),
        ("a! -> c; b", Outcome::Cancelled),
        ("a~ -> c; b", Outcome::Failed),
        ("a! b! -> c: any_of; b", Outcome::Failed),
        ("a b -> c: any_of", Outcome::Failed),
        ("a b -> c: any_of", Outcome::Cancelled),
        ("a b x -> c: quorum 2", Outcome::Failed),
    ] {
        let sketch = Sketch::from(text).each(|draft| draft.policy.retry.max_interruptions = 0);
        let flow = harness.flow(sketch).await;
        flow.end("a", outcome).await;
        harness.drain().await;
        for name in ["b", "x", "c"] {
            if flow.states().await.contains(&format!("{name}=waiting")) {
                flow.complete(name).await;
                harness.drain().await;
            }
        }
        assert_eq!(
            flow.drained_state().await,
            FlowState::Completed,
            "{text} with {outcome}: {}",
            flow.states().await
        );
    }
}

pub async fn a_failure_or_skipped_edge_holds_after_every_outcome_but_completion(harness: &Harness) {
    for (outcome, alert) in [
        (Outcome::Completed, "skipped"),
        (Outcome::Failed, "waiting"),
        (Outcome::Cancelled, "waiting"),
        (Outcome::Expired, "waiting"),
    ] {
        let sketch = Sketch::from("a~ -> c").each(|draft| draft.policy.retry.max_interruptions = 0);
        let flow = harness.flow(sketch).await;
        flow.end("a", outcome).await;
        flow.drain_and_assert(&format!("a={outcome} c={alert}")).await;
    }
    let flow = harness.flow("a -> b; b~ -> c; b! -> d").await;
    flow.fail("a").await;
    flow.drain_and_assert("a=failed b=skipped c=waiting d=skipped").await;
}

pub async fn the_tags_of_a_flow_reach_its_members_unless_they_have_their_own(harness: &Harness) {
    let tag = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let sketch = Sketch::from("a b").flow(|flow| flow.tags = [tag("team", "red"), tag("env", "test")].into());
    let flow = harness.flow(sketch.node("b", |b| b.tags = [tag("team", "blue")].into())).await;
    let parent = flow.claim("a").await;
    flow.grow("g").await;
    flow.spawn(&parent, "child").await;
    for (name, team) in [("a", "red"), ("b", "blue"), ("g", "red"), ("child", "red")] {
        let tags = flow.row(name).await.tags;
        assert_eq!(tags, [tag("team", team), tag("env", "test")].into(), "{name}");
    }
    let many = |from: usize| (from..from + 40).map(|number| tag(&format!("t{number}"), "x")).collect();
    let sketch = Sketch::from("a").flow(|flow| flow.tags = many(0)).node("a", |a| a.tags = many(100));
    let refusal = harness.try_submit_flow(sketch).await.expect_err("a member would have 80 tags");
    assert_eq!((refusal.code(), refusal.pointer()), ("invalid_field", Some("/nodes/0/tags")));
}

pub async fn a_failure_after_a_replay_is_not_handled_by_an_earlier_success(harness: &Harness) {
    let flow = harness.flow("a -> b").await;
    flow.complete("a").await;
    harness.drain().await;
    flow.complete("b").await;
    assert_eq!(flow.drained_state().await, FlowState::Completed);
    flow.replay("a").await;
    flow.fail("a").await;
    flow.drain_and_assert("a=failed b=completed").await;
    assert_eq!(flow.flow().await.state, FlowState::Failed);
}

pub async fn the_end_of_a_flow_does_not_depend_on_draining_its_outbox_first(harness: &Harness) {
    for drained in [true, false] {
        let flow = harness.flow("a! b -> c").await;
        flow.cancel_node("b").await;
        flow.drain_and_assert("a=waiting b=cancelled c=skipped").await;
        flow.fail("a").await;
        if drained {
            harness.drain().await;
        }
        harness.run(SettleFlow { flow: flow.id }).await;
        let state = flow.flow().await.state;
        assert_eq!(state, FlowState::Failed, "c was skipped and handles nothing, drained: {drained}");
    }
}

pub async fn a_flow_settled_in_the_transaction_of_its_last_failure_is_failed(harness: &Harness) {
    let flow = harness.flow("a").await;
    let claimed = flow.claim("a").await;
    let report = harness.report_command(fence(&claimed), failure("a"));
    let (reported, settled) = harness.run(RulePair(report, SettleFlow { flow: flow.id })).await;
    assert_eq!(reported.expect("it is accepted").state, StateName::Failed);
    assert_ne!(settled, Some(FlowState::Completed));
    assert_eq!(flow.drained_state().await, FlowState::Failed);
}

pub async fn a_flow_with_a_requested_cancellation_ends_cancelled_however_its_members_ended(
    harness: &Harness,
) {
    let flow = harness.flow("a b -> c").await;
    let [a, b] = [flow.claim("a").await, flow.claim("b").await];
    flow.try_cancel(CancelMode::Pending).await.expect("it is cancelled");
    harness.drain().await;
    flow.report(&a, failure("a")).await;
    flow.report(&b, selvedge_core::rules::report::Op::Complete { result: "1".into() }).await;
    flow.drain_and_assert("a=failed b=completed c=cancelled").await;
    assert_eq!(flow.flow().await.state, FlowState::Cancelled);
}

pub async fn the_transaction_that_ends_the_last_member_reports_it_and_a_flow_is_settled_once(
    harness: &Harness,
) {
    let flow = harness.flow("a b").await;
    let [a, b] = [flow.claim("a").await, flow.claim("b").await];
    let complete = |of| {
        let op = selvedge_core::rules::report::Op::Complete { result: "1".into() };
        harness.report_command(fence(of), op)
    };
    let (_, first) = harness.transact(complete(&a)).await;
    let (_, last) = harness.transact(complete(&b)).await;
    assert_eq!((first.emptied, last.emptied), (vec![], vec![flow.id]));
    let due = harness
        .store
        .due_flows(&ReconcilerScope::ALL, FlowDue::Settle, None, 9)
        .await
        .expect("rows are read");
    assert_eq!(due.iter().map(|one| one.flow).collect::<Vec<_>>(), [flow.id]);
    let (settled, transaction) = harness.transact(SettleFlow { flow: flow.id }).await;
    assert_eq!((settled, transaction.emptied), (Some(FlowState::Completed), vec![]));
    assert_eq!(harness.run(SettleFlow { flow: flow.id }).await, None);
    assert!(
        harness
            .store
            .due_flows(&ReconcilerScope::ALL, FlowDue::Settle, None, 9)
            .await
            .expect("rows are read")
            .is_empty()
    );
    assert_eq!(harness.run(SettleFlow { flow: FlowId(Uuid::now_v7()) }).await, None);
}

pub async fn the_deadline_of_a_flow_expires_its_live_members(harness: &Harness) {
    let sketch = Sketch::from("a b -> c; d").flow(|flow| flow.deadline_ms = Some(5));
    let flow = harness.flow(sketch.node("d", |d| d.delay = Some(When::AfterMs(HOUR_MS)))).await;
    flow.complete("a").await;
    flow.claim("b").await;
    harness.advance_past(5).await;
    let due =
        harness.store.due(&ReconcilerScope::ALL, DueKind::Deadline, None, 10).await.expect("rows are read");
    assert_eq!(due.len(), 3);
    for name in ["c", "d", "b"] {
        flow.due(name, DueKind::Deadline).await;
    }
    flow.drain_and_assert("a=completed b=expired c=expired d=expired").await;
    assert_eq!(flow.flow().await.state, FlowState::Failed);
}
