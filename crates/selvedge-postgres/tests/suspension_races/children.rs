//! A parent that suspends until its children have ended, and the end of the last of them, in every order: the parent hears
//! of it once, whoever tells it.

use super::support::flows::{age, broken, drawn, end};
use super::support::test_server::{TestServer, claim_of, fence, passive_options};
use super::support::{Sandbox, until};
use super::{Hold, Race, advanced, dispatch};
use selvedge_engine::Options;
use selvedge_engine::core::outbox::{OutboxKind, OutboxRow};
use selvedge_engine::core::rules::claim::ClaimDraft;
use selvedge_engine::core::rules::dispatch::Dispatched;
use selvedge_engine::core::rules::report::{Fence, Op};
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::suspension::{Condition, WaitDraft};
use selvedge_engine::core::{Draft, ExecutionId, Outcome};

/// A parent and its children, all of them leased.
struct Family {
    parent: ExecutionId,
    lease: Fence,
    children: Vec<Fence>,
}

fn children() -> WaitDraft {
    WaitDraft::new(Condition::children())
}

/// The parent is claimed through one server and its children, which are drawn, through another.
async fn family(side: &TestServer, other: &TestServer, text: &str) -> Family {
    let (parent, lease) = side.leased_of(Draft::new("parent")).await;
    let spawn = side.namespace.spawn(drawn(text).graph, false).await.expect("it is valid");
    side.report(lease, spawn).await.expect("it holds the lease");
    let kind = ClaimDraft { kinds: Some(vec!["kind".into()]), ..claim_of("child", 9) };
    let children = other.claim_as(kind).await.iter().map(fence).collect();
    Family { parent, lease, children }
}

/// What is left to be told to the parent.
async fn left(race: &Race, parent: ExecutionId) -> Option<OutboxRow> {
    let rows = race.a.outbox().await;
    rows.into_iter().find(|row| row.name.kind == OutboxKind::Parent && row.name.id == parent.0)
}

/// The parent goes on, once, and sees how its children ended; everything ends.
async fn goes_on(race: &Race, parent: ExecutionId, outcomes: &[Outcome]) {
    assert_eq!(race.a.times(parent, "execution.resumed").await, 1);
    let claimed = race.b.claim_again(parent).await;
    let seen: Vec<Outcome> = claimed.children.iter().filter_map(|child| child.outcome).collect();
    assert_eq!(seen, outcomes);
    race.b.complete(fence(&claimed)).await.expect("it holds the lease");
    race.a.reconcile(&race.plain).await;
    assert_eq!(race.a.state(parent).await, StateName::Completed);
}

#[tokio::test]
async fn a_child_whose_end_is_uncommitted_while_its_parent_suspends_is_told_by_what_it_leaves() {
    let race = Race::new().await;
    for child_first in [true, false] {
        let family = family(&race.a, &race.b, "child").await;
        let complete = race.b.complete(family.children[0]);
        let suspend = race.a.suspend(family.lease, children());
        let (completed, suspended) = if child_first {
            race.in_turn(Hold::Log, ("b", complete), ("a", suspend)).await
        } else {
            let (suspended, completed) = race.in_turn(Hold::Log, ("a", suspend), ("b", complete)).await;
            (completed, suspended)
        };
        completed.expect("it holds the lease");
        assert_eq!(suspended.expect("it holds the lease").state, StateName::Suspended);
        assert_eq!(race.a.state(family.parent).await, StateName::Suspended);
        let row = left(&race, family.parent).await.expect("the parent is to be told");
        assert_eq!(dispatch(&race.b, &row).await, advanced(1));
        assert_eq!(dispatch(&race.a, &row).await, Dispatched::Nothing);
        goes_on(&race, family.parent, &[Outcome::Completed]).await;
    }
    race.end().await;
}

#[tokio::test]
async fn a_parent_that_is_told_before_it_suspends_is_ready_at_once() {
    let race = Race::new().await;
    for at_once in [false, true] {
        let family = family(&race.a, &race.b, "child").await;
        race.b.report(family.children[0], broken()).await.expect("it holds the lease");
        let row = left(&race, family.parent).await.expect("the parent is to be told");
        let tell = dispatch(&race.b, &row);
        let suspend = race.a.suspend(family.lease, children());
        let (told, suspended) = if at_once {
            race.in_turn(Hold::Row(family.parent), ("b", tell), ("a", suspend)).await
        } else {
            (tell.await, suspend.await)
        };
        assert_eq!(told, advanced(0), "it does not wait yet");
        assert_eq!(suspended.expect("it holds the lease").state, StateName::Waiting);
        assert!(left(&race, family.parent).await.is_none());
        goes_on(&race, family.parent, &[Outcome::Failed]).await;
    }
    race.end().await;
}

#[tokio::test]
async fn a_parent_that_suspends_before_it_is_told_sees_the_end_itself() {
    let race = Race::new().await;
    let family = family(&race.a, &race.b, "child").await;
    race.b.complete(family.children[0]).await.expect("it holds the lease");
    let row = left(&race, family.parent).await.expect("the parent is to be told");
    let suspend = ("a", race.a.suspend(family.lease, children()));
    let tell = ("b", dispatch(&race.b, &row));
    let (suspended, told) = race.in_turn(Hold::Row(family.parent), suspend, tell).await;
    assert_eq!(suspended.expect("it holds the lease").state, StateName::Waiting);
    assert_eq!(told, advanced(0), "it went on by itself");
    goes_on(&race, family.parent, &[Outcome::Completed]).await;
    race.end().await;
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
        goes_on(&race, family.parent, &[Outcome::Completed]).await;
    }
    race.end().await;
}

#[tokio::test]
async fn two_last_children_that_end_at_once_on_two_servers_resume_their_parent_once() {
    let race = Race::new().await;
    let family = family(&race.a, &race.b, "first second").await;
    race.a.suspend(family.lease, children()).await.expect("it holds the lease");
    let first = ("a", race.a.complete(family.children[0]));
    let second = ("b", race.b.complete(family.children[1]));
    let (first, second) = race.in_turn(Hold::Log, first, second).await;
    first.and(second).expect("each holds its lease");
    assert_eq!(race.a.state(family.parent).await, StateName::Suspended);
    let row = left(&race, family.parent).await.expect("the parent is to be told");
    let first = ("a", dispatch(&race.a, &row));
    let second = ("b", dispatch(&race.b, &row));
    let told = race.in_turn(Hold::Row(family.parent), first, second).await;
    assert_eq!(told, (advanced(1), Dispatched::Nothing));
    goes_on(&race, family.parent, &[Outcome::Completed; 2]).await;
    race.end().await;
}

/// The dispatchers of both servers run: each tells the parent of what its own commit left.
#[tokio::test]
async fn two_last_children_that_end_at_once_are_told_by_the_servers_themselves() {
    let sandbox = Sandbox::new();
    let (a, b, plain) = (sandbox.side("a").await, sandbox.side("b").await, sandbox.plain().await);
    for hold_row in [true, false] {
        let family = family(&a, &b, "first second").await;
        a.suspend(family.lease, children()).await.expect("it holds the lease");
        if hold_row {
            plain.hold(family.parent).await
        } else {
            plain.hold_log().await
        }
        let complete = async {
            let (first, second) =
                tokio::join!(a.complete(family.children[0]), b.complete(family.children[1]));
            first.and(second).expect("each holds its lease");
        };
        let release = async {
            sandbox.waits_for_lock("a", 1).await;
            sandbox.waits_for_lock("b", 1).await;
            plain.release().await;
        };
        tokio::join!(complete, release);
        until("the parent goes on", async || a.state(family.parent).await == StateName::Waiting).await;
        until("nothing is left to be done", async || a.outbox().await.is_empty()).await;
        assert_eq!(a.times(family.parent, "execution.resumed").await, 1);
        let claimed = b.claim_again(family.parent).await;
        assert!(claimed.children.iter().all(|child| child.outcome == Some(Outcome::Completed)));
        b.complete(fence(&claimed)).await.expect("it holds the lease");
    }
    end(&[&a, &b]).await;
}

#[tokio::test]
async fn a_parent_whom_no_dispatcher_tells_is_found_by_a_reconciler() {
    let race = Race::new().await;
    let family = family(&race.a, &race.b, "first second").await;
    race.a.suspend(family.lease, children()).await.expect("it holds the lease");
    for (number, child) in family.children.iter().enumerate() {
        race.b.complete(*child).await.expect("it holds the lease");
        age(&race.plain).await;
        let (one, two) = tokio::join!(race.a.tick("dependency"), race.b.tick("dependency"));
        assert_eq!(one.done + two.done, 1, "{one:?} {two:?}");
        let expected = if number == 0 { StateName::Suspended } else { StateName::Waiting };
        assert_eq!(race.a.state(family.parent).await, expected);
    }
    goes_on(&race, family.parent, &[Outcome::Completed; 2]).await;
    race.end().await;
}

/// The parent waits for its children or a signal, and both come at once.
#[tokio::test]
async fn a_signal_and_the_end_of_the_last_child_resume_once_in_either_order() {
    let race = Race::new().await;
    for signal_first in [true, false] {
        let family = family(&race.a, &race.b, "child").await;
        let go = Condition::signal(super::support::suspensions::name("go"));
        let either = WaitDraft::new(Condition::Any(vec![go, Condition::children()]));
        race.a.suspend(family.lease, either).await.expect("it holds the lease");
        race.b.complete(family.children[0]).await.expect("it holds the lease");
        let row = left(&race, family.parent).await.expect("the parent is to be told");
        let (signal, tell) = (race.a.send(family.parent, "go"), dispatch(&race.b, &row));
        let hold = Hold::Row(family.parent);
        let told = if signal_first {
            race.in_turn(hold, ("a", signal), ("b", tell)).await.1
        } else {
            race.in_turn(hold, ("b", tell), ("a", signal)).await.0
        };
        assert_eq!(told, advanced(u32::from(!signal_first)));
        goes_on(&race, family.parent, &[Outcome::Completed]).await;
        assert_eq!(race.a.row(family.parent).await.detail.record.untaken, u32::from(!signal_first));
    }
    race.end().await;
}

/// A server whose dispatcher runs, and which is gone before it has told the parent.
#[tokio::test]
async fn what_a_server_left_that_stopped_is_told_by_another() {
    let race = Race::new().await;
    let gone = race.sandbox.side_with("gone", Options { dispatch: false, ..passive_options() }).await;
    let family = family(&gone, &gone, "child").await;
    gone.suspend(family.lease, children()).await.expect("it holds the lease");
    gone.complete(family.children[0]).await.expect("it holds the lease");
    gone.engine.shutdown().await;
    assert_eq!(race.a.tick("dependency").await.scanned, 0, "it may still be about to");
    age(&race.plain).await;
    assert_eq!(race.a.tick("dependency").await.done, 1);
    goes_on(&race, family.parent, &[Outcome::Completed]).await;
    race.end().await;
}
