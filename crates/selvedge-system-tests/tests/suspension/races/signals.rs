//! A wait and its signal, in every order: no wake-up is lost, and none happens twice.

use super::{Block, BusyWriter, Race};
use selvedge_conformance::Harness;
use selvedge_engine::core::fact::Fact;
use selvedge_engine::core::rules::signal::SignalDraft;
use selvedge_engine::core::signal::Effect;
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::suspension::OnTimeout;
use selvedge_system_tests::server::{claim_of, fence, ids};
use selvedge_system_tests::suspensions::{
    carried_signals, for_signal, for_signals, signal_draft, with_timeout,
};

#[tokio::test]
async fn a_signal_that_committed_before_a_suspension_from_a_cached_row_satisfies_it_at_once() {
    let race = Race::new().await;
    let (id, lease) = race.a.leased().await;
    assert_eq!(race.b.send(id, "go").await.expect("the execution is live").effect, Effect::Buffered);
    let suspended = race.a.suspend(lease, for_signal("go")).await.expect("the lease is held");
    assert_eq!(suspended.state, StateName::Waiting);
    assert_eq!(race.conflicts(), [1, 0], "the guard of the save fails, and the decision is retried");
    race.resumes(id, &["go"]).await;
    race.check_and_stop().await;
}

#[tokio::test]
async fn a_suspension_decided_from_a_cached_row_before_a_signal_committed_is_retried() {
    let race = Race::new().await;
    let (id, lease) = race.a.leased().await;
    let signal = ("b", race.b.send(id, "go"));
    let suspension = ("a", race.a.suspend(lease, for_signal("go")));
    let (signal, suspended) = race.in_turn(Block::Row(id), signal, suspension).await;
    assert_eq!(signal.expect("the execution is live").effect, Effect::Buffered);
    assert_eq!(suspended.expect("the lease is held").state, StateName::Waiting);
    assert_eq!(race.conflicts(), [1, 0]);
    race.resumes(id, &["go"]).await;
    race.check_and_stop().await;
}

/// The cached row counts the first signal, so untaken signals are read, and the second one is among them.
#[tokio::test]
async fn a_suspension_from_a_cached_row_that_counts_one_of_two_signals_is_retried() {
    let race = Race::new().await;
    let (id, lease) = race.a.leased().await;
    for (server, signal) in [(&race.a, "one"), (&race.b, "two")] {
        assert_eq!(server.send(id, signal).await.expect("the execution is live").effect, Effect::Buffered);
    }
    let suspended = race.a.suspend(lease, for_signals(&["one", "two"])).await.expect("the lease is held");
    assert_eq!((suspended.state, race.conflicts()), (StateName::Waiting, [1, 0]));
    race.resumes(id, &["one", "two"]).await;
    race.check_and_stop().await;
}

#[tokio::test]
async fn a_suspension_that_waits_for_an_uncommitted_signal_takes_it() {
    let race = Race::new().await;
    for cached in [true, false] {
        let (id, lease) = if cached { race.a.leased().await } else { race.b.leased().await };
        let before = race.conflicts();
        let signal = ("b", race.b.send(id, "go"));
        let (signal, suspended) =
            race.in_turn(Block::Commits, signal, ("a", race.a.suspend(lease, for_signal("go")))).await;
        assert_eq!(signal.expect("the execution is live").effect, Effect::Buffered);
        assert_eq!(suspended.expect("the lease is held").state, StateName::Waiting);
        let again = race.conflicts()[0] - before[0];
        assert_eq!(again, u64::from(cached), "a row that was read under lock needs no retry");
        race.resumes(id, &["go"]).await;
    }
    race.check_and_stop().await;
}

#[tokio::test]
async fn a_signal_that_waits_for_the_row_of_a_suspension_ends_it() {
    let race = Race::new().await;
    for at_row in [true, false] {
        let (id, lease) = race.a.leased().await;
        let block = if at_row { Block::Row(id) } else { Block::Commits };
        let suspension = ("a", race.a.suspend(lease, for_signal("go")));
        let (suspended, signal) = race.in_turn(block, suspension, ("b", race.b.send(id, "go"))).await;
        assert_eq!(suspended.expect("the lease is held").state, StateName::Suspended);
        assert_eq!(signal.expect("the execution is live").effect, Effect::Resumed);
        assert_eq!(race.conflicts(), [0, 0]);
        race.resumes(id, &["go"]).await;
    }
    race.check_and_stop().await;
}

/// In a batch, reports run before signals.
#[tokio::test]
async fn a_suspension_and_its_signal_in_one_batch_hand_over_to_the_waiting_claim() {
    let race = Race::new().await;
    let narrow = race.sandbox.single_writer_server("narrow").await;
    for early in [false, true] {
        let (id, lease) = narrow.leased().await;
        if early {
            race.b.send(id, "first").await.expect("the execution is live");
        }
        let waiter = narrow.claim_waiting(claim_of("one", 1), 1).await;
        let busy = BusyWriter::keep(&race, &narrow).await;
        let let_go = async {
            // Both calls are queued once they have been polled.
            tokio::task::yield_now().await;
            busy.release().await;
        };
        let wait = if early { for_signals(&["first", "go"]) } else { for_signal("go") };
        // Without a timeout of its own, the suspension would read the namespace's before it is queued.
        let wait = with_timeout(60_000, OnTimeout::Fail, wait);
        let (suspended, signal, ()) =
            tokio::join!(narrow.suspend(lease, wait), narrow.send(id, "go"), let_go);
        assert_eq!(suspended.expect("the lease is held").state, StateName::Suspended);
        assert_eq!(signal.expect("the execution is live").effect, Effect::Resumed);
        let log = Harness::new(narrow.engine.store().clone()).await.log().await;
        let together = log.iter().filter(|(_, events)| {
            let facts = || events.iter().filter(|event| event.execution == Some(id)).map(|event| &event.fact);
            facts().any(|fact| matches!(fact, Fact::Suspended { .. }))
                && facts().any(|fact| matches!(fact, Fact::Resumed { .. }))
        });
        assert_eq!(together.count(), 1, "one transaction suspends and resumes it");
        let claimed = waiter.await.expect("the task does not panic");
        assert_eq!(ids(&claimed), [id]);
        let all: &[&str] = if early { &["first", "go"] } else { &["go"] };
        assert_eq!(carried_signals(&claimed[0]), all);
        narrow.complete(fence(&claimed[0])).await.expect("the lease is held");
        assert_eq!(narrow.count_events(id, "execution.resumed").await, 1);
    }
    narrow.engine.shutdown().await;
    race.check_and_stop().await;
}

#[tokio::test]
async fn of_two_signals_that_each_satisfy_a_suspension_one_does_and_the_other_counts_for_the_next() {
    let race = Race::new().await;
    let id = race.a.suspended(for_signal("go")).await;
    let first = ("a", race.a.send(id, "go"));
    let (first, second) = race.in_turn(Block::Row(id), first, ("b", race.b.send(id, "go"))).await;
    let (first, second) = (first.expect("the execution is live"), second.expect("the execution is live"));
    assert_eq!((first.effect, second.effect), (Effect::Resumed, Effect::Buffered));
    assert_eq!((first.number, second.number), (1, 2));
    let claimed = race.is_resumed(id, 1, &["go"]).await;
    assert_eq!(claimed.signals[0].number, 1);
    let again = race.a.suspend(fence(&claimed), for_signal("go")).await.expect("the lease is held");
    assert_eq!(again.state, StateName::Waiting, "the other signal was buffered");
    let claimed = race.is_resumed(id, 2, &["go"]).await;
    assert_eq!(claimed.signals[0].number, 2);
    let taken: Vec<Option<u32>> = race.a.signals(id).await.iter().map(|signal| signal.taken).collect();
    assert_eq!(taken, [Some(1), Some(2)]);
    race.check_and_stop().await;
}

#[tokio::test]
async fn two_signals_at_once_of_which_a_suspension_needs_both_are_both_counted() {
    let race = Race::new().await;
    for at_row in [true, false] {
        let id = race.a.suspended(for_signals(&["one", "two"])).await;
        let block = if at_row { Block::Row(id) } else { Block::Commits };
        let first = ("a", race.a.send(id, "two"));
        let (first, second) = race.in_turn(block, first, ("b", race.b.send(id, "one"))).await;
        assert_eq!(first.expect("the execution is live").effect, Effect::Counted);
        assert_eq!(second.expect("the execution is live").effect, Effect::Resumed);
        race.resumes(id, &["two", "one"]).await;
    }
    race.check_and_stop().await;
}

#[tokio::test]
async fn a_signal_with_one_key_through_two_servers_at_once_is_delivered_once() {
    let race = Race::new().await;
    let keyed = |text: &str, key: &str| SignalDraft { key: Some(key.into()), ..signal_draft(text) };
    for wait in ["go", "something else"] {
        let id = race.a.suspended(for_signal(wait)).await;
        let first = ("a", race.a.send_draft(id, keyed("go", "key")));
        let second = ("b", race.b.send_draft(id, keyed("go", "key")));
        let (first, second) = race.in_turn(Block::Row(id), first, second).await;
        let (first, second) =
            (first.expect("the execution is live"), second.expect("a repetition is accepted"));
        assert_eq!((first.duplicate, second.duplicate), (false, true));
        assert_eq!((first.number, first.effect), (second.number, second.effect));
        let other = race.b.send_draft(id, keyed("other", "key")).await.expect_err("the key is taken");
        assert_eq!(other.code(), "idempotency_mismatch");
        assert_eq!(
            (race.a.signals(id).await.len(), race.a.count_events(id, "signal.delivered").await),
            (1, 1)
        );
        race.a.cancel(id).await.expect("the execution is live");
        let late =
            race.b.send_draft(id, keyed("go", "key")).await.expect("a repetition after the end is accepted");
        assert_eq!((late.number, late.effect, late.duplicate), (first.number, first.effect, true));
    }
    race.check_and_stop().await;
}

#[tokio::test]
async fn of_two_contents_under_one_key_at_once_the_first_stands() {
    let race = Race::new().await;
    let id = race.a.suspended(for_signal("go")).await;
    let keyed = |text: &str| SignalDraft { key: Some("key".into()), ..signal_draft(text) };
    let first = ("a", race.a.send_draft(id, keyed("one")));
    let second = ("b", race.b.send_draft(id, keyed("two")));
    let (first, second) = race.in_turn(Block::Row(id), first, second).await;
    assert_eq!(first.expect("the execution is live").effect, Effect::Buffered);
    assert_eq!(second.expect_err("the key is taken").code(), "idempotency_mismatch");
    assert_eq!(race.a.signals(id).await.len(), 1);
    race.check_and_stop().await;
}
