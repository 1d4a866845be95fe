//! A wait and its signal, in every order: no wake-up is lost, and none comes twice.

use super::support::suspensions::{carried, on, on_all, said};
use super::support::test_server::{claim_of, fence, ids};
use super::{Busy, Hold, Race};
use selvedge_conformance::Harness;
use selvedge_engine::core::fact::Fact;
use selvedge_engine::core::rules::signal::SignalDraft;
use selvedge_engine::core::signal::Effect;
use selvedge_engine::core::state::StateName;

#[tokio::test]
async fn a_signal_that_committed_before_a_suspension_from_a_remembered_row_ends_it_at_once() {
    let race = Race::new().await;
    let (id, lease) = race.a.leased().await;
    assert_eq!(race.b.send(id, "go").await.expect("it is live").effect, Effect::Buffered);
    let suspended = race.a.suspend(lease, on("go")).await.expect("it holds the lease");
    assert_eq!(suspended.state, StateName::Waiting);
    assert_eq!(race.conflicts(), [1, 0], "its save fails the guard, and it is decided again");
    race.goes_on(id, &["go"]).await;
    race.end().await;
}

#[tokio::test]
async fn a_suspension_that_was_decided_from_a_remembered_row_before_a_signal_committed_is_decided_again() {
    let race = Race::new().await;
    let (id, lease) = race.a.leased().await;
    let signal = ("b", race.b.send(id, "go"));
    let suspension = ("a", race.a.suspend(lease, on("go")));
    let (signal, suspended) = race.in_turn(Hold::Row(id), signal, suspension).await;
    assert_eq!(signal.expect("it is live").effect, Effect::Buffered);
    assert_eq!(suspended.expect("it holds the lease").state, StateName::Waiting);
    assert_eq!(race.conflicts(), [1, 0]);
    race.goes_on(id, &["go"]).await;
    race.end().await;
}

/// The remembered row knows of the first signal, and so what is kept is read: the second is there too.
#[tokio::test]
async fn a_suspension_from_a_remembered_row_that_knows_of_one_of_two_signals_is_decided_again() {
    let race = Race::new().await;
    let (id, lease) = race.a.leased().await;
    for (side, signal) in [(&race.a, "one"), (&race.b, "two")] {
        assert_eq!(side.send(id, signal).await.expect("it is live").effect, Effect::Buffered);
    }
    let suspended = race.a.suspend(lease, on_all(&["one", "two"])).await.expect("it holds the lease");
    assert_eq!((suspended.state, race.conflicts()), (StateName::Waiting, [1, 0]));
    race.goes_on(id, &["one", "two"]).await;
    race.end().await;
}

#[tokio::test]
async fn a_suspension_that_waits_for_an_uncommitted_signal_hears_it() {
    let race = Race::new().await;
    for remembered in [true, false] {
        let (id, lease) = if remembered { race.a.leased().await } else { race.b.leased().await };
        let before = race.conflicts();
        let signal = ("b", race.b.send(id, "go"));
        let (signal, suspended) =
            race.in_turn(Hold::Log, signal, ("a", race.a.suspend(lease, on("go")))).await;
        assert_eq!(signal.expect("it is live").effect, Effect::Buffered);
        assert_eq!(suspended.expect("it holds the lease").state, StateName::Waiting);
        let again = race.conflicts()[0] - before[0];
        assert_eq!(again, u64::from(remembered), "what was read under lock is not decided again");
        race.goes_on(id, &["go"]).await;
    }
    race.end().await;
}

#[tokio::test]
async fn a_signal_that_waits_for_the_row_of_a_suspension_ends_it() {
    let race = Race::new().await;
    for through_row in [true, false] {
        let (id, lease) = race.a.leased().await;
        let hold = if through_row { Hold::Row(id) } else { Hold::Log };
        let suspension = ("a", race.a.suspend(lease, on("go")));
        let (suspended, signal) = race.in_turn(hold, suspension, ("b", race.b.send(id, "go"))).await;
        assert_eq!(suspended.expect("it holds the lease").state, StateName::Suspended);
        assert_eq!(signal.expect("it is live").effect, Effect::Resumed);
        assert_eq!(race.conflicts(), [0, 0]);
        race.goes_on(id, &["go"]).await;
    }
    race.end().await;
}

/// In a batch reports come before signals.
#[tokio::test]
async fn a_suspension_and_its_signal_in_one_batch_go_on_with_the_claim_that_waits() {
    let race = Race::new().await;
    let narrow = race.sandbox.narrow_side("narrow").await;
    for early in [false, true] {
        let (id, lease) = narrow.leased().await;
        if early {
            race.b.send(id, "first").await.expect("it is live");
        }
        let waiter = narrow.claim_waiting(claim_of("one", 1), 1).await;
        let busy = Busy::keep(&race, &narrow).await;
        let let_go = async {
            // Both commands are in the queue once they have been polled.
            tokio::task::yield_now().await;
            busy.release().await;
        };
        let wait = if early { on_all(&["first", "go"]) } else { on("go") };
        let (suspended, signal, ()) =
            tokio::join!(narrow.suspend(lease, wait), narrow.send(id, "go"), let_go);
        assert_eq!(suspended.expect("it holds the lease").state, StateName::Suspended);
        assert_eq!(signal.expect("it is live").effect, Effect::Resumed);
        let log = Harness::new(narrow.engine.store().clone()).await.log().await;
        let together = log.iter().filter(|(_, events)| {
            let facts = || events.iter().filter(|event| event.execution == Some(id)).map(|event| &event.fact);
            facts().any(|fact| matches!(fact, Fact::Suspended { .. }))
                && facts().any(|fact| matches!(fact, Fact::Resumed { .. }))
        });
        assert_eq!(together.count(), 1, "one transaction suspends it and lets it go on");
        let claimed = waiter.await.expect("it does not panic");
        assert_eq!(ids(&claimed), [id]);
        let all: &[&str] = if early { &["first", "go"] } else { &["go"] };
        assert_eq!(carried(&claimed[0]), all);
        narrow.complete(fence(&claimed[0])).await.expect("it holds the lease");
        assert_eq!(narrow.times(id, "execution.resumed").await, 1);
    }
    narrow.engine.shutdown().await;
    race.end().await;
}

#[tokio::test]
async fn of_two_signals_that_each_end_a_suspension_one_does_and_the_other_counts_for_the_next() {
    let race = Race::new().await;
    let id = race.a.suspended(on("go")).await;
    let first = ("a", race.a.send(id, "go"));
    let (first, second) = race.in_turn(Hold::Row(id), first, ("b", race.b.send(id, "go"))).await;
    let (first, second) = (first.expect("it is live"), second.expect("it is live"));
    assert_eq!((first.effect, second.effect), (Effect::Resumed, Effect::Buffered));
    assert_eq!((first.number, second.number), (1, 2));
    let claimed = race.is_resumed(id, 1, &["go"]).await;
    assert_eq!(claimed.signals[0].number, 1);
    let again = race.a.suspend(fence(&claimed), on("go")).await.expect("it holds the lease");
    assert_eq!(again.state, StateName::Waiting, "the other was kept");
    let claimed = race.is_resumed(id, 2, &["go"]).await;
    assert_eq!(claimed.signals[0].number, 2);
    let taken: Vec<Option<u32>> = race.a.signals(id).await.iter().map(|signal| signal.taken).collect();
    assert_eq!(taken, [Some(1), Some(2)]);
    race.end().await;
}

#[tokio::test]
async fn two_signals_at_once_of_which_a_suspension_needs_both_are_both_counted() {
    let race = Race::new().await;
    for hold_row in [true, false] {
        let id = race.a.suspended(on_all(&["one", "two"])).await;
        let hold = if hold_row { Hold::Row(id) } else { Hold::Log };
        let first = ("a", race.a.send(id, "two"));
        let (first, second) = race.in_turn(hold, first, ("b", race.b.send(id, "one"))).await;
        assert_eq!(first.expect("it is live").effect, Effect::Counted);
        assert_eq!(second.expect("it is live").effect, Effect::Resumed);
        race.goes_on(id, &["two", "one"]).await;
    }
    race.end().await;
}

#[tokio::test]
async fn a_signal_with_one_key_through_two_servers_at_once_is_one_signal() {
    let race = Race::new().await;
    let keyed = |text: &str, key: &str| SignalDraft { key: Some(key.into()), ..said(text) };
    for wait in ["go", "something else"] {
        let id = race.a.suspended(on(wait)).await;
        let first = ("a", race.a.send_draft(id, keyed("go", "key")));
        let second = ("b", race.b.send_draft(id, keyed("go", "key")));
        let (first, second) = race.in_turn(Hold::Row(id), first, second).await;
        let (first, second) = (first.expect("it is live"), second.expect("it is the same"));
        assert_eq!((first.duplicate, second.duplicate), (false, true));
        assert_eq!((first.number, first.effect), (second.number, second.effect));
        let other = race.b.send_draft(id, keyed("other", "key")).await.expect_err("the key is taken");
        assert_eq!(other.code(), "idempotency_mismatch");
        assert_eq!((race.a.signals(id).await.len(), race.a.times(id, "signal.delivered").await), (1, 1));
        race.a.cancel(id).await.expect("it lives");
        let late = race.b.send_draft(id, keyed("go", "key")).await.expect("also after the end");
        assert_eq!((late.number, late.effect, late.duplicate), (first.number, first.effect, true));
    }
    race.end().await;
}

#[tokio::test]
async fn of_two_contents_under_one_key_at_once_the_first_stands() {
    let race = Race::new().await;
    let id = race.a.suspended(on("go")).await;
    let keyed = |text: &str| SignalDraft { key: Some("key".into()), ..said(text) };
    let first = ("a", race.a.send_draft(id, keyed("one")));
    let second = ("b", race.b.send_draft(id, keyed("two")));
    let (first, second) = race.in_turn(Hold::Row(id), first, second).await;
    assert_eq!(first.expect("it is live").effect, Effect::Buffered);
    assert_eq!(second.expect_err("the key is taken").code(), "idempotency_mismatch");
    assert_eq!(race.a.signals(id).await.len(), 1);
    race.end().await;
}
