//! A parent that suspends until its children have ended, and the end of the last of them, in every order: the parent is
//! resumed once, whichever transaction notices.

use super::{Block, Race, advanced, dispatch};
use selvedge_engine::Options;
use selvedge_engine::core::outbox::{OutboxKind, OutboxRow};
use selvedge_engine::core::rules::claim::ClaimDraft;
use selvedge_engine::core::rules::flows::dispatch::Dispatched;
use selvedge_engine::core::rules::report::{Fence, Op};
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::suspension::{Condition, WaitDraft};
use selvedge_engine::core::{Draft, ExecutionId, Outcome};
use selvedge_system_tests::flows::{age_outbox, check_and_stop, flow_draft, permanent_failure};
use selvedge_system_tests::server::{Server, claim_of, fence, passive_options};
use selvedge_system_tests::{Sandbox, wait_until};

/// A parent and its children, all active.
struct Family {
    parent: ExecutionId,
    lease: Fence,
    children: Vec<Fence>,
}

fn children() -> WaitDraft {
    WaitDraft::new(Condition::children())
}

/// Claims the parent through one server and its sketched children through another.
async fn family(server: &Server, other: &Server, text: &str) -> Family {
    let (parent, lease) = server.leased_of(Draft::new("parent")).await;
    let spawn = server.namespace.spawn(flow_draft(text).graph, false).await.expect("the graph is valid");
    server.report(lease, spawn).await.expect("the lease is held");
    let kind = ClaimDraft { kinds: Some(vec!["kind".into()]), ..claim_of("child", 9) };
    let children = other.claim_as(kind).await.iter().map(fence).collect();
    Family { parent, lease, children }
}

/// Returns the outbox row for the parent.
async fn parent_row(race: &Race, parent: ExecutionId) -> Option<OutboxRow> {
    let rows = race.a.outbox().await;
    rows.into_iter().find(|row| row.name.kind == OutboxKind::Parent && row.name.id == parent.0)
}

/// Returns a parent that is active again after a signal, and whose child has ended since: the child was awaited, so the
/// outbox has a row for the parent.
async fn late_row(race: &Race, end: Op) -> (Family, OutboxRow) {
    let family = family(&race.a, &race.b, "child").await;
    let go = Condition::signal(selvedge_system_tests::suspensions::name("go"));
    let either = WaitDraft::new(Condition::Any(vec![go, Condition::children()]));
    race.a.suspend(family.lease, either).await.expect("the lease is held");
    let row = parent_row(race, family.parent).await.expect("the suspension has enqueued it");
    assert_eq!(dispatch(&race.b, &row).await, advanced(0), "the end of the child is awaited");
    assert!(parent_row(race, family.parent).await.is_none());
    race.a.send(family.parent, "go").await.expect("the signal is delivered");
    let lease = fence(&race.a.claim_again(family.parent).await);
    race.b.report(family.children[0], end).await.expect("the lease is held");
    let row = parent_row(race, family.parent).await.expect("the outbox has a row for the parent");
    (Family { lease, ..family }, row)
}

/// Checks that each suspension of the parent was resumed once and that its claim carries the outcomes of its children, and
/// ends everything.
async fn resumes(race: &Race, parent: ExecutionId, outcomes: &[Outcome]) {
    let suspensions = race.a.row(parent).await.detail.record.suspensions;
    assert_eq!(race.a.count_events(parent, "execution.resumed").await, suspensions as usize);
    let claimed = race.b.claim_again(parent).await;
    let seen: Vec<Outcome> = claimed.children.iter().filter_map(|child| child.outcome).collect();
    assert_eq!(seen, outcomes);
    race.b.complete(fence(&claimed)).await.expect("the lease is held");
    race.a.reconcile(&race.plain).await;
    assert_eq!(race.a.state(parent).await, StateName::Completed);
}

#[tokio::test]
async fn a_child_whose_end_is_uncommitted_while_its_parent_suspends_is_propagated_by_its_outbox_row() {
    let race = Race::new().await;
    for child_first in [true, false] {
        let family = family(&race.a, &race.b, "child").await;
        let complete = race.b.complete(family.children[0]);
        let suspend = race.a.suspend(family.lease, children());
        let (completed, suspended) = if child_first {
            race.in_turn(Block::Commits, ("b", complete), ("a", suspend)).await
        } else {
            let (suspended, completed) = race.in_turn(Block::Commits, ("a", suspend), ("b", complete)).await;
            (completed, suspended)
        };
        completed.expect("the lease is held");
        assert_eq!(suspended.expect("the lease is held").state, StateName::Suspended);
        assert_eq!(race.a.state(family.parent).await, StateName::Suspended);
        let row = parent_row(&race, family.parent).await.expect("the outbox has a row for the parent");
        assert_eq!(dispatch(&race.b, &row).await, advanced(1));
        assert_eq!(dispatch(&race.a, &row).await, Dispatched::Nothing);
        resumes(&race, family.parent, &[Outcome::Completed]).await;
    }
    race.check_and_stop().await;
}

#[tokio::test]
async fn a_parent_that_is_updated_before_it_suspends_is_waiting_at_once() {
    let race = Race::new().await;
    for at_once in [false, true] {
        let (family, row) = late_row(&race, permanent_failure()).await;
        let dispatching = dispatch(&race.b, &row);
        let suspend = race.a.suspend(family.lease, children());
        let (dispatched, suspended) = if at_once {
            race.in_turn(Block::Row(family.parent), ("b", dispatching), ("a", suspend)).await
        } else {
            (dispatching.await, suspend.await)
        };
        assert_eq!(dispatched, advanced(0), "the parent is not suspended yet");
        assert_eq!(suspended.expect("the lease is held").state, StateName::Waiting);
        assert!(parent_row(&race, family.parent).await.is_none());
        resumes(&race, family.parent, &[Outcome::Failed]).await;
    }
    race.check_and_stop().await;
}

#[tokio::test]
async fn a_parent_that_suspends_before_it_is_updated_sees_the_end_itself() {
    let race = Race::new().await;
    let (family, row) = late_row(&race, Op::Complete { result: "1".into() }).await;
    let suspend = ("a", race.a.suspend(family.lease, children()));
    let dispatching = ("b", dispatch(&race.b, &row));
    let (suspended, dispatched) = race.in_turn(Block::Row(family.parent), suspend, dispatching).await;
    assert_eq!(suspended.expect("the lease is held").state, StateName::Waiting);
    assert_eq!(dispatched, advanced(0), "the parent has resumed by itself");
    resumes(&race, family.parent, &[Outcome::Completed]).await;
    race.check_and_stop().await;
}

#[tokio::test]
async fn a_parent_and_its_last_child_in_one_batch_in_either_order() {
    let race = Race::new().await;
    for child_first in [true, false] {
        let family = family(&race.a, &race.a, "child").await;
        let suspend = race.a.namespace.suspend(vec![children()], vec![]);
        let done = Op::Complete { result: "1".into() };
        let mut reports = vec![Ok((family.lease, None, suspend)), Ok((family.children[0], None, done))];
        if child_first {
            reports.reverse();
        }
        let (answers, _) = race.a.namespace.report(reports, None).await.expect("the reports are answered");
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        let expected = if child_first { StateName::Waiting } else { StateName::Suspended };
        assert_eq!(race.b.state(family.parent).await, expected);
        race.a.reconcile(&race.plain).await;
        resumes(&race, family.parent, &[Outcome::Completed]).await;
    }
    race.check_and_stop().await;
}

#[tokio::test]
async fn two_last_children_that_end_at_once_on_two_servers_resume_their_parent_once() {
    let race = Race::new().await;
    let family = family(&race.a, &race.b, "first second").await;
    race.a.suspend(family.lease, children()).await.expect("the lease is held");
    let first = ("a", race.a.complete(family.children[0]));
    let second = ("b", race.b.complete(family.children[1]));
    let (first, second) = race.in_turn(Block::Commits, first, second).await;
    first.and(second).expect("both leases are held");
    assert_eq!(race.a.state(family.parent).await, StateName::Suspended);
    let row = parent_row(&race, family.parent).await.expect("the outbox has a row for the parent");
    let first = ("a", dispatch(&race.a, &row));
    let second = ("b", dispatch(&race.b, &row));
    let dispatched = race.in_turn(Block::Row(family.parent), first, second).await;
    assert_eq!(dispatched, (advanced(1), Dispatched::Nothing));
    resumes(&race, family.parent, &[Outcome::Completed; 2]).await;
    race.check_and_stop().await;
}

/// The dispatchers of both servers run: that of the server which ends the awaited child processes the outbox row.
#[tokio::test]
async fn two_last_children_that_end_at_once_are_propagated_by_the_dispatchers() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = (sandbox.server("a").await, sandbox.server("b").await, sandbox.plain().await);
    for at_row in [true, false] {
        let family = family(&a, &b, "first second").await;
        a.suspend(family.lease, children()).await.expect("the lease is held");
        wait_until("the end of a child is awaited", async || a.outbox().await.is_empty()).await;
        let first_is_awaited = a.row(family.children[0].execution).await.detail.end_awaited;
        if at_row {
            plain.lock_execution(family.parent).await
        } else {
            plain.block_commits().await
        }
        let complete = async {
            let (first, second) =
                tokio::join!(a.complete(family.children[0]), b.complete(family.children[1]));
            first.and(second).expect("both leases are held");
        };
        let release = async {
            if first_is_awaited || !at_row {
                sandbox.waits_for_lock("a", 1).await;
            }
            if !first_is_awaited || !at_row {
                sandbox.waits_for_lock("b", 1).await;
            }
            plain.release().await;
        };
        tokio::join!(complete, release);
        wait_until("the parent is resumed", async || a.state(family.parent).await == StateName::Waiting)
            .await;
        wait_until("the outbox is empty", async || a.outbox().await.is_empty()).await;
        assert_eq!(a.count_events(family.parent, "execution.resumed").await, 1);
        let claimed = b.claim_again(family.parent).await;
        assert!(claimed.children.iter().all(|child| child.outcome == Some(Outcome::Completed)));
        b.complete(fence(&claimed)).await.expect("the lease is held");
    }
    check_and_stop(&[&a, &b]).await;
}

#[tokio::test]
async fn a_parent_that_no_dispatcher_updates_is_found_by_a_reconciler() {
    let race = Race::new().await;
    let family = family(&race.a, &race.b, "first second").await;
    race.a.suspend(family.lease, children()).await.expect("the lease is held");
    for (number, child) in family.children.iter().enumerate() {
        race.b.complete(*child).await.expect("the lease is held");
        age_outbox(&race.plain).await;
        let (one, two) = tokio::join!(race.a.tick("dependency"), race.b.tick("dependency"));
        assert_eq!(one.done + two.done, 1, "{one:?} {two:?}");
        let expected = if number == 0 { StateName::Suspended } else { StateName::Waiting };
        assert_eq!(race.a.state(family.parent).await, expected);
    }
    resumes(&race, family.parent, &[Outcome::Completed; 2]).await;
    race.check_and_stop().await;
}

/// The parent waits for its children or a signal, and both happen at once.
#[tokio::test]
async fn a_signal_and_the_end_of_the_last_child_resume_once_in_either_order() {
    let race = Race::new().await;
    for signal_first in [true, false] {
        let family = family(&race.a, &race.b, "child").await;
        let go = Condition::signal(selvedge_system_tests::suspensions::name("go"));
        let either = WaitDraft::new(Condition::Any(vec![go, Condition::children()]));
        race.a.suspend(family.lease, either).await.expect("the lease is held");
        race.b.complete(family.children[0]).await.expect("the lease is held");
        let row = parent_row(&race, family.parent).await.expect("the outbox has a row for the parent");
        let (signal, dispatching) = (race.a.send(family.parent, "go"), dispatch(&race.b, &row));
        let block = Block::Row(family.parent);
        let dispatched = if signal_first {
            race.in_turn(block, ("a", signal), ("b", dispatching)).await.1
        } else {
            race.in_turn(block, ("b", dispatching), ("a", signal)).await.0
        };
        assert_eq!(dispatched, advanced(u32::from(!signal_first)));
        resumes(&race, family.parent, &[Outcome::Completed]).await;
        assert_eq!(race.a.row(family.parent).await.detail.record.untaken, u32::from(!signal_first));
    }
    race.check_and_stop().await;
}

/// The server stops before its dispatcher has updated the parent.
#[tokio::test]
async fn an_outbox_row_of_a_stopped_server_is_processed_by_another() {
    let race = Race::new().await;
    let gone = race.sandbox.server_with("gone", Options { dispatch: false, ..passive_options() }).await;
    let family = family(&gone, &gone, "child").await;
    gone.suspend(family.lease, children()).await.expect("the lease is held");
    gone.complete(family.children[0]).await.expect("the lease is held");
    gone.engine.shutdown().await;
    assert_eq!(race.a.tick("dependency").await.scanned, 0, "the server may still be about to do it");
    age_outbox(&race.plain).await;
    assert_eq!(race.a.tick("dependency").await.done, 1);
    resumes(&race, family.parent, &[Outcome::Completed]).await;
    race.check_and_stop().await;
}
